// SPDX-License-Identifier: MPL-2.0
// driver.c: makes and ends the driver, and implements the small calls of core/platform.h.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "platform/linux/internal.h"

#define SMALL_BUFFERS 8192
#define LARGE_BUFFERS 512 // and as many for each worker; pages are used when touched

// ---- env

static void *env_alloc(void *ctx, size_t bytes)
{
    size_t rounded = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    if (rounded < bytes)
        return NULL;
    void *memory = aligned_alloc(CACHE_LINE, rounded ? rounded : CACHE_LINE);
    if (memory)
        memset(memory, 0, rounded);
    return memory;
}

static void env_free(void *ctx, void *memory)
{
    free(memory);
}

static void *env_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    return zones_get(&((struct linux_platform *)ctx)->zones, name, bytes, keep, kept);
}

static void env_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    epochs_defer(&((struct linux_platform *)ctx)->epochs, fn, arg, value);
}

static void env_lock(void *ctx, unsigned lock)
{
    pthread_mutex_lock(&((struct linux_platform *)ctx)->locks[lock].mutex);
}

static void env_unlock(void *ctx, unsigned lock)
{
    pthread_mutex_unlock(&((struct linux_platform *)ctx)->locks[lock].mutex);
}

// ---- Packets

static unsigned port_deliver(void *ctx, unsigned worker, uint32_t port, struct packet **packets, unsigned n)
{
    struct linux_platform *l = ctx;
    struct device *d = port <= l->config.max_ports ? load_acquire(&l->ports[port].device) : NULL;
    return device_deliver(l, worker, d, packets, n);
}

static unsigned external_transmit(void *ctx, unsigned worker, uint32_t link, struct packet **packets, unsigned n)
{
    struct linux_platform *l = ctx;
    struct device *d = link < l->config.n_external ? load_acquire(&l->external[link].device) : NULL;
    return device_deliver(l, worker, d, packets, n);
}

static unsigned service_deliver(void *ctx, unsigned worker, struct packet **packets, unsigned n)
{
    struct linux_platform *l = ctx;
    return device_deliver(l, worker, load_acquire(&l->service.device), packets, n);
}

static struct packet *packet_alloc(void *ctx, unsigned worker, uint32_t len)
{
    struct linux_platform *l = ctx;
    return len > BUFFER_LARGE ? NULL : buffers_alloc(&l->buffers, worker, buffers_class(len));
}

static void packet_free(void *ctx, unsigned worker, struct packet *p)
{
    buffers_free(&((struct linux_platform *)ctx)->buffers, worker, p);
}

static struct packet *packet_clone(void *ctx, unsigned worker, const struct packet *p)
{
    return buffers_clone(&((struct linux_platform *)ctx)->buffers, worker, p);
}

static uint64_t random_word(void *ctx)
{
    uint64_t word = 0;
    while (getrandom(&word, sizeof(word), 0) != sizeof(word))
        ; // interrupted by a signal
    return word;
}

static void report_event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    linux_event_count(ctx, kind, port, count, "%s", text);
}

static void capture(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
    struct linux_platform *l = ctx;
    if (l->config.capture)
        l->config.capture(l->config.ctx, worker, port, point, reason, p);
}

static void fill_platform(struct linux_platform *l)
{
    l->platform = (struct platform){
        .env = {l, env_alloc, env_free, env_zone, env_defer, env_lock, env_unlock},
        .ctx = l,
        .port_attach = linux_port_attach,
        .port_detach = linux_port_detach,
        .port_deliver = port_deliver,
        .tunnel_open = neighbours_open,
        .tunnel_close = neighbours_close,
        .underlay_transmit = underlay_transmit,
        .external_transmit = external_transmit,
        .service_deliver = service_deliver,
        .packet_alloc = packet_alloc,
        .packet_free = packet_free,
        .packet_clone = packet_clone,
        .random = random_word,
        .event = report_event,
        .capture = capture,
    };
}

// ---- Life

static bool check_config(const struct linux_config *c, char *error, size_t error_size)
{
    const char *wrong = NULL;
    if (c->workers < 1 || c->workers > LINUX_MAX_WORKERS)
        wrong = "workers must be 1 to 16";
    else if (!c->run_dir)
        wrong = "run_dir is missing";
    else if (c->max_ports < 1 || c->max_ports > 1u << 20)
        wrong = "max_ports must be 1 to 1048576";
    else if (c->n_external > LINUX_MAX_EXTERNAL)
        wrong = "too many external links";
    else if (c->underlay_ifname && (strlen(c->underlay_ifname) >= IF_NAMESIZE || ip_is_v4(&c->underlay)))
        wrong = "the underlay needs an interface name and an IPv6 address";
    for (uint32_t i = 0; !wrong && i < c->n_external; i++)
        if (!c->external[i] || !c->external[i][0] || strlen(c->external[i]) >= IF_NAMESIZE ||
            strchr(c->external[i], '/'))
            wrong = "an external link needs an interface name";
    if (wrong)
        snprintf(error, error_size, "%s", wrong);
    return !wrong;
}

static bool open_memory(struct linux_platform *l, char *error, size_t error_size)
{
    unsigned workers = l->config.workers;
    snprintf(error, error_size, "out of memory");
    l->monitor_wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->monitor_wake < 0 || !epochs_init(&l->epochs, l->monitor_wake) ||
        !buffers_init(&l->buffers, workers + 1, SMALL_BUFFERS, LARGE_BUFFERS * (workers + 1)))
        return false;
    l->ports = calloc(l->config.max_ports + 1, sizeof(*l->ports));
    l->monitor_gso = malloc(sizeof(*l->monitor_gso));
    l->workers = aligned_alloc(CACHE_LINE, sizeof(*l->workers) * workers);
    if (!l->ports || !l->monitor_gso || !l->workers)
        return false;
    memset(l->workers, 0, sizeof(*l->workers) * workers);
    for (unsigned i = 0; i < workers; i++)
        l->workers[i].epoll = l->workers[i].wake = l->workers[i].underlay = -1;
    return true;
}

static bool open_external(struct linux_platform *l, char *error, size_t error_size)
{
    for (uint32_t i = 0; i < l->config.n_external; i++) {
        struct attachment *a = &l->external[i];
        *a =
            (struct attachment){.source = SOURCE_EXTERNAL, .index = i, .wanted = true, .kind = BLUEPRINT_DEVICE_NETDEV};
        snprintf(a->ifname, sizeof(a->ifname), "%s", l->config.external[i]);
        pthread_mutex_lock(&l->control);
        bool good = attachment_open(l, a, error, error_size);
        pthread_mutex_unlock(&l->control);
        if (!good)
            return false;
    }
    return true;
}

static bool open_all(struct linux_platform *l, char *error, size_t error_size)
{
    if (!open_memory(l, error, error_size) || !zones_init(&l->zones, l->config.run_dir, error, error_size))
        return false;
    for (unsigned i = 0; i < l->config.workers; i++) {
        if (worker_open(l, i))
            continue;
        snprintf(error, error_size, "worker: %s", strerror(errno));
        return false;
    }
    if (!netlink_open(&l->netlink) || !neighbours_init(&l->neighbours)) {
        snprintf(error, error_size, "netlink: %s", strerror(errno));
        return false;
    }
    if (l->underlay_ifname[0] && !underlay_open(l, error, error_size))
        return false;
    if (!open_external(l, error, error_size) || (l->config.service && !service_open(l, error, error_size)))
        return false;
    if (monitor_start(l))
        return true;
    snprintf(error, error_size, "monitor: %s", strerror(errno));
    return false;
}

struct linux_platform *linux_create(const struct linux_config *config, char *error, size_t error_size)
{
    if (!check_config(config, error, error_size))
        return NULL;
    struct linux_platform *l = aligned_alloc(CACHE_LINE, sizeof(*l));
    if (!l) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    memset(l, 0, sizeof(*l));
    l->config = *config;
    l->zones.lock = l->monitor_wake = l->service_netns = l->underlay_guard = -1;
    if (config->underlay_ifname)
        snprintf(l->underlay_ifname, sizeof(l->underlay_ifname), "%s", config->underlay_ifname);
    pthread_mutex_init(&l->control, NULL);
    pthread_mutex_init(&l->event_lock, NULL);
    for (unsigned i = 0; i < ENV_LOCKS; i++)
        pthread_mutex_init(&l->locks[i].mutex, NULL);
    fill_platform(l);
    if (open_all(l, error, error_size))
        return l;
    linux_destroy(l);
    return NULL;
}

static void close_attachments(struct linux_platform *l)
{
    for (uint32_t i = 1; l->ports && i <= l->config.max_ports; i++)
        attachment_close(l, &l->ports[i]);
    for (uint32_t i = 0; i < l->config.n_external; i++)
        attachment_close(l, &l->external[i]);
    attachment_close(l, &l->service);
}

void linux_destroy(struct linux_platform *l)
{
    linux_stop(l);
    monitor_end(l);
    if (l->workers) {
        close_attachments(l);
        underlay_close(l);
        for (unsigned i = 0; i < l->config.workers; i++)
            worker_close(&l->workers[i]);
    }
    epochs_destroy(&l->epochs);
    neighbours_destroy(l);
    if (l->netlink.socket)
        netlink_close(&l->netlink);
    if (l->own_service_netns && l->service_netns >= 0)
        close(l->service_netns);
    if (l->monitor_wake >= 0)
        close(l->monitor_wake);
    buffers_destroy(&l->buffers);
    zones_destroy(&l->zones);
    free(l->ports);
    free(l->monitor_gso);
    free(l->workers);
    free(l);
}

const struct platform *linux_platform(struct linux_platform *l)
{
    return &l->platform;
}

struct mac_addr linux_service_mac(const struct linux_platform *l)
{
    return l->service_mac;
}

int linux_service_netns(const struct linux_platform *l)
{
    return l->service_netns;
}

bool linux_interface(const char *ifname, struct mac_addr *mac, uint32_t *mtu)
{
    struct ifreq r;
    memset(&r, 0, sizeof(r));
    strncpy(r.ifr_name, ifname, sizeof(r.ifr_name) - 1);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool good = ioctl(fd, SIOCGIFMTU, &r) == 0;
    *mtu = good ? (uint32_t)r.ifr_mtu : 0;
    good = good && ioctl(fd, SIOCGIFHWADDR, &r) == 0;
    if (good)
        memcpy(mac->b, r.ifr_hwaddr.sa_data, sizeof(mac->b));
    close(fd);
    return good;
}

void linux_counters(const struct linux_platform *l, struct linux_counters *out)
{
    *out = (struct linux_counters){0};
    for (unsigned i = 0; i < l->config.workers; i++) {
        const struct worker *w = &l->workers[i];
        out->receive_bad += load_relaxed(&w->counters.receive_bad) + load_relaxed(&w->gro.bad);
        out->receive_no_buffer += load_relaxed(&w->counters.receive_no_buffer) + load_relaxed(&w->gro.no_buffer);
        out->transmit_refused += load_relaxed(&w->counters.transmit_refused);
        out->merged += load_relaxed(&w->gro.merged);
    }
    out->next_hop_pending = load_relaxed(&l->neighbours.dropped_pending);
    out->next_hop_failed = load_relaxed(&l->neighbours.dropped_failed);
}
