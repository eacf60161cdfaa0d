// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/zones.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 4096
#define HUGE_BYTES (2u << 20)
#define ZONE_MAGIC 0x31454e4f5a52454eULL // "NERZONE1"

struct zone_header { // first page of a kept zone's file
    uint64_t magic;
    uint64_t bytes; // of the zone behind the header
    char name[48];
};
_Static_assert(sizeof(struct zone_header) <= HEADER_BYTES, "the header has one page");

bool zones_init(struct zones *z, const char *dir, char *error, size_t error_size)
{
    memset(z, 0, sizeof(*z));
    z->lock = -1;
    if (snprintf(z->dir, sizeof(z->dir), "%s", dir) >= (int)sizeof(z->dir)) {
        snprintf(error, error_size, "run_dir %s: name too long", dir);
        return false;
    }
    if (mkdir(dir, 0750) != 0 && errno != EEXIST) {
        snprintf(error, error_size, "run_dir %s: %s", dir, strerror(errno));
        return false;
    }
    char path[256];
    snprintf(path, sizeof(path), "%s/zones.lock", dir);
    z->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (z->lock < 0 || flock(z->lock, LOCK_EX | LOCK_NB) != 0) {
        snprintf(error, error_size, "%s: %s", path,
                 errno == EWOULDBLOCK ? "in use by another process" : strerror(errno));
        return false;
    }
    return true;
}

void zones_destroy(struct zones *z)
{
    for (unsigned i = 0; i < z->n; i++)
        munmap(z->maps[i].map, z->maps[i].size);
    if (z->lock >= 0)
        close(z->lock);
    z->lock = -1;
}

static bool zone_path(const struct zones *z, const char *name, const char *suffix, char *path, size_t size)
{
    if (!name[0] || strchr(name, '/') || strlen(name) >= sizeof(((struct zone_header *)0)->name))
        return false;
    return snprintf(path, size, "%s/zone-%s%s", z->dir, name, suffix) < (int)size;
}

static void *remember(struct zones *z, void *map, size_t size)
{
    if (size >= HUGE_BYTES)
        madvise(map, size, MADV_HUGEPAGE); // a wish
    z->maps[z->n].map = map;
    z->maps[z->n++].size = size;
    return map;
}

static struct zone_header *map_file(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

// The file's content, when it is a zone of this name and size.
static struct zone_header *adopt(const char *path, const char *name, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    struct stat st;
    struct zone_header *h = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == HEADER_BYTES + (uint64_t)bytes)
        h = map_file(fd, HEADER_BYTES + bytes);
    close(fd);
    if (h && (h->magic != ZONE_MAGIC || h->bytes != bytes || strncmp(h->name, name, sizeof(h->name)) != 0)) {
        munmap(h, HEADER_BYTES + bytes);
        h = NULL;
    }
    return h;
}

// Appears under its name only when it is complete.
static struct zone_header *create(const struct zones *z, const char *path, const char *name, size_t bytes)
{
    char fresh[256];
    if (!zone_path(z, name, ".new", fresh, sizeof(fresh)))
        return NULL;
    unlink(fresh);
    int fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct zone_header *h = NULL;
    // Allocated now: a full tmpfs must fail here, not as SIGBUS on a packet.
    if (posix_fallocate(fd, 0, (off_t)(HEADER_BYTES + bytes)) == 0)
        h = map_file(fd, HEADER_BYTES + bytes);
    close(fd);
    if (!h) {
        unlink(fresh);
        return NULL;
    }
    h->magic = ZONE_MAGIC;
    h->bytes = bytes;
    snprintf(h->name, sizeof(h->name), "%s", name);
    if (rename(fresh, path) != 0) {
        munmap(h, HEADER_BYTES + bytes);
        unlink(fresh);
        return NULL;
    }
    return h;
}

static void *get_kept(struct zones *z, const char *path, const char *name, size_t bytes, bool *kept)
{
    struct zone_header *h = adopt(path, name, bytes);
    *kept = h != NULL;
    if (!h)
        h = create(z, path, name, bytes);
    return h ? (uint8_t *)remember(z, h, HEADER_BYTES + bytes) + HEADER_BYTES : NULL;
}

void *zones_get(struct zones *z, const char *name, size_t bytes, bool keep, bool *kept)
{
    bool ignored;
    kept = kept ? kept : &ignored;
    *kept = false;
    char path[256];
    if (z->n == ZONES_MAX || bytes == 0 || bytes > SIZE_MAX / 2 || !zone_path(z, name, "", path, sizeof(path)))
        return NULL;
    if (keep)
        return get_kept(z, path, name, bytes, kept);
    unlink(path); // what an earlier process kept must not be found by a later one
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : remember(z, map, bytes);
}
