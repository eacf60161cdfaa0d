// SPDX-License-Identifier: MPL-2.0
// check: what a node needs of this machine, asked of the machine itself.
#include "cli/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/output.h"

void check_set(struct check *k, enum check_result result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    k->result = result;
    vsnprintf(k->detail, sizeof(k->detail), format, args);
    va_end(args);
}

static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "r");
    bool read = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

static void check_kernel(struct check *k)
{
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
        check_set(k, CHECK_WARN, "cannot tell the version");
    else if (major < 5 || (major == 5 && minor < 10))
        check_set(k, CHECK_FAIL, "Linux %s; 5.10 is the oldest that works", name.release);
    else if (major < 6 || (major == 6 && minor < 1))
        check_set(k, CHECK_WARN, "Linux %s; 6.1 is the oldest that is tested", name.release);
    else
        check_set(k, CHECK_OK, "Linux %s", name.release);
}

static void check_tun(struct check *k)
{
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        check_set(k, CHECK_OK, "/dev/net/tun opens");
    else
        check_set(k, CHECK_FAIL, "/dev/net/tun: %s (modprobe tun?)", strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void check_packet(struct check *k)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd >= 0)
        check_set(k, CHECK_OK, "packet sockets open");
    else
        check_set(k, CHECK_FAIL, "packet sockets: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

static unsigned long free_huge_pages(void)
{
    char line[128];
    unsigned long pages = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "HugePages_Free: %lu", &pages) == 1)
            break;
    }
    if (file)
        fclose(file);
    return pages;
}

static void check_huge_pages(struct check *k)
{
    char line[128];
    unsigned long pages = free_huge_pages();
    if (pages)
        check_set(k, CHECK_OK, "%lu free in hugetlbfs", pages);
    else if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line)))
        check_set(k, CHECK_WARN, "neither hugetlbfs pages nor transparent ones: tables use small pages");
    else if (strstr(line, "[never]"))
        check_set(k, CHECK_WARN, "transparent huge pages are 'never' and hugetlbfs is empty: tables use small pages");
    else
        check_set(k, CHECK_OK, "transparent: %s", line);
}

static void check_ipv6(struct check *k)
{
    char line[128];
    if (!read_line("/proc/sys/net/ipv6/conf/all/disable_ipv6", line, sizeof(line)))
        check_set(k, CHECK_FAIL, "the kernel has no IPv6, and the underlay is IPv6");
    else if (line[0] == '1')
        check_set(k, CHECK_FAIL, "disabled by net.ipv6.conf.all.disable_ipv6, and the underlay is IPv6");
    else if (read_line("/proc/sys/net/ipv6/conf/default/disable_ipv6", line, sizeof(line)) && line[0] == '1')
        check_set(k, CHECK_WARN, "enabled, but off on new interfaces (net.ipv6.conf.default.disable_ipv6)");
    else
        check_set(k, CHECK_OK, "enabled");
}

// Where `directory` is or would be made: its closest ancestor that exists.
static void existing_ancestor(const char *directory, char *out, size_t size)
{
    struct stat st;
    snprintf(out, size, "%s", directory);
    while (stat(out, &st) != 0 && strrchr(out, '/')) {
        char *slash = strrchr(out, '/');
        slash[slash == out] = '\0'; // the root stays
        if (slash == out)
            break;
    }
}

static void check_directory(struct check *k, const char *directory, bool wants_memory)
{
    char place[4096];
    struct stat st;
    struct statfs fs;
    existing_ancestor(directory, place, sizeof(place));
    bool exists = strcmp(place, directory) == 0;
    if (stat(place, &st) != 0)
        check_set(k, CHECK_FAIL, "%s: %s", directory, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        check_set(k, CHECK_FAIL, "%s is not a directory", place);
    else if (access(place, W_OK | X_OK) != 0)
        check_set(k, CHECK_FAIL, "%s: %s", place, strerror(errno));
    else if (wants_memory && statfs(place, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC)
        check_set(k, CHECK_WARN, "%s is on a disk: a tmpfs is wanted, for state that a reboot ends", place);
    else
        check_set(k, CHECK_OK, "%s %s", directory, exists ? "is writable" : "can be made");
}

static void check_geneve_port(struct check *k)
{
    char line[256];
    bool taken = false;
    FILE *file = fopen("/proc/net/udp6", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned port;
        if (sscanf(line, " %*d: %*32[0-9A-Fa-f]:%x", &port) == 1 && port == 6081)
            taken = true;
    }
    if (file)
        fclose(file);
    if (taken)
        check_set(k, CHECK_WARN, "UDP port 6081 (Geneve) is taken by another socket or a kernel geneve device");
    else
        check_set(k, CHECK_OK, "UDP port 6081 is free");
}

static enum check_result print_json(const struct check *checks, size_t n, enum check_result worst)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{ss,ss,ss}", "name", checks[i].name, "result", words[checks[i].result],
                                              "detail", checks[i].detail));
    json_t *document = json_pack("{ss,so}", "result", words[worst], "checks", list);
    output_pretty(document);
    json_decref(document);
    return worst;
}

int check_machine(struct cli *c)
{
    const char *run_dir = cli_option(c, "run-dir"), *state_dir = cli_option(c, "state-dir");
    struct check checks[] = {{.name = "kernel"},  {.name = "tun"},        {.name = "packet"},
                             {.name = "cls_bpf"}, {.name = "huge pages"}, {.name = "IPv6"},
                             {.name = "run dir"}, {.name = "state dir"},  {.name = "Geneve"}};
    const size_t n = sizeof(checks) / sizeof(checks[0]);
    check_kernel(&checks[0]);
    check_tun(&checks[1]);
    check_packet(&checks[2]);
    check_cls_bpf(&checks[3]);
    check_huge_pages(&checks[4]);
    check_ipv6(&checks[5]);
    check_directory(&checks[6], run_dir ? run_dir : "/run/nereus", true);
    check_directory(&checks[7], state_dir ? state_dir : "/var/lib/nereus", false);
    check_geneve_port(&checks[8]);

    enum check_result worst = CHECK_OK;
    for (size_t i = 0; i < n; i++)
        worst = checks[i].result > worst ? checks[i].result : worst;
    static const char *const marks[] = {"ok", "warn", "FAIL"};
    if (c->json)
        print_json(checks, n, worst);
    for (size_t i = 0; !c->json && i < n; i++)
        printf("%-10s  %-4s  %s\n", checks[i].name, marks[checks[i].result], checks[i].detail);
    return worst == CHECK_FAIL ? CLI_REFUSED : CLI_OK;
}
