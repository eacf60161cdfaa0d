// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/tap_home.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t own_netns(void)
{
    struct stat st;
    return stat("/proc/thread-self/ns/net", &st) == 0 ? st.st_ino : 0;
}

bool tap_home_read(int fd, struct tap_home *out)
{
    struct ifreq r;
    struct stat st;
    memset(&r, 0, sizeof(r));
    int netns = ioctl(fd, TUNGETDEVNETNS);
    if (netns < 0)
        return false;
    bool good = fstat(netns, &st) == 0 && ioctl(fd, TUNGETIFF, &r) == 0;
    close(netns);
    if (!good)
        return false;
    *out = (struct tap_home){.netns = st.st_ino == own_netns() ? 0 : st.st_ino};
    memcpy(out->ifname, r.ifr_name, sizeof(out->ifname) - 1);
    return true;
}

static bool note_path(const char *run_dir, const char *name, const char *suffix, char *path, size_t size)
{
    return snprintf(path, size, "%s/tap-%s%s", run_dir, name, suffix) < (int)size;
}

void tap_home_save(const char *run_dir, const char *name, const struct tap_home *home)
{
    char path[256], fresh[256];
    if (!note_path(run_dir, name, "", path, sizeof(path)) || !note_path(run_dir, name, ".new", fresh, sizeof(fresh)))
        return;
    if (home->netns == 0 && strcmp(home->ifname, name) == 0) {
        unlink(path);
        return;
    }
    FILE *f = fopen(fresh, "we");
    if (!f)
        return;
    bool good = fprintf(f, "%llu %s\n", (unsigned long long)home->netns, home->ifname) > 0;
    if (fclose(f) == 0 && good)
        rename(fresh, path);
}

bool tap_home_load(const char *run_dir, const char *name, struct tap_home *out)
{
    char path[256];
    unsigned long long netns;
    if (!note_path(run_dir, name, "", path, sizeof(path)))
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    *out = (struct tap_home){0};
    bool good = fscanf(f, "%llu %15s", &netns, out->ifname) == 2; // IF_NAMESIZE - 1
    fclose(f);
    out->netns = good ? netns : 0;
    return good;
}

static int open_if_same(const char *path, uint64_t inode)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == inode)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

// Named namespaces, then those of processes.
static int search(const char *dir, const char *suffix, uint64_t inode)
{
    int fd = -1;
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    for (struct dirent *e = readdir(d); e && fd < 0; e = readdir(d)) {
        char path[300];
        if (e->d_name[0] == '.' || snprintf(path, sizeof(path), "%s/%s%s", dir, e->d_name, suffix) >= (int)sizeof(path))
            continue;
        fd = open_if_same(path, inode);
    }
    closedir(d);
    return fd;
}

int tap_home_open(const struct tap_home *home)
{
    if (home->netns == 0)
        return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    int fd = search("/run/netns", "", home->netns);
    return fd >= 0 ? fd : search("/proc", "/ns/net", home->netns);
}
