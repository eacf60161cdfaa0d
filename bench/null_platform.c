// SPDX-License-Identifier: MPL-2.0
#include "bench/null_platform.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/random.h"

#define HUGE_PAGE (2ul << 20)

struct zone {
    struct zone *next;
    void *memory;
    size_t bytes;
};

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static void *env_alloc(void *ctx, size_t bytes)
{
    struct null_platform *np = ctx;
    size_t whole = rounded(bytes ? bytes : 1, 64);
    void *memory = aligned_alloc(64, whole);
    if (memory)
        memset(memory, 0, whole);
    np->bytes += whole;
    return memory;
}

static void env_free(void *ctx, void *memory)
{
    free(memory);
}

// Zones lie on huge pages, as those of the Linux platform do.
static void *env_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    struct null_platform *np = ctx;
    size_t whole = rounded(bytes, bytes < HUGE_PAGE ? 64 : HUGE_PAGE);
    struct zone *z = malloc(sizeof(*z));
    void *memory = aligned_alloc(bytes < HUGE_PAGE ? 64 : HUGE_PAGE, whole);
    if (!z || !memory)
        abort();
    madvise(memory, whole, MADV_HUGEPAGE);
    memset(memory, 0, whole);
    *z = (struct zone){np->zones, memory, whole};
    np->zones = z;
    np->bytes += bytes;
    if (kept)
        *kept = false;
    return memory;
}

static void env_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    struct null_platform *np = ctx;
    if (np->n_deferred == np->deferred_capacity) {
        np->deferred_capacity = np->deferred_capacity ? 2 * np->deferred_capacity : 1024;
        np->deferred = realloc(np->deferred, np->deferred_capacity * sizeof(*np->deferred));
        if (!np->deferred)
            abort();
    }
    np->deferred[np->n_deferred++] = (struct deferral){fn, arg, value};
}

static void env_lock(void *ctx, unsigned lock)
{
    struct null_platform *np = ctx;
    while (__atomic_exchange_n(&np->locks[lock], 1, __ATOMIC_ACQUIRE))
        ;
}

static void env_unlock(void *ctx, unsigned lock)
{
    struct null_platform *np = ctx;
    __atomic_store_n(&np->locks[lock], 0, __ATOMIC_RELEASE);
}

static int port_attach(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                       uint32_t mtu, char *error, size_t error_size)
{
    return 0;
}

static void port_detach(void *ctx, uint32_t port)
{
}

static unsigned port_deliver(void *ctx, unsigned worker, uint32_t port, struct packet **packets, unsigned n)
{
    ((struct null_platform *)ctx)->delivered += n;
    return n;
}

static void tunnel_open(void *ctx, uint32_t tunnel, const struct ip_addr *node)
{
}

static void tunnel_close(void *ctx, uint32_t tunnel)
{
}

static unsigned underlay_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                                  enum drop *why)
{
    ((struct null_platform *)ctx)->transmitted += n;
    return n;
}

static unsigned external_transmit(void *ctx, unsigned worker, uint32_t link, struct packet **packets, unsigned n)
{
    ((struct null_platform *)ctx)->transmitted += n;
    return n;
}

static unsigned service_deliver(void *ctx, unsigned worker, struct packet **packets, unsigned n)
{
    ((struct null_platform *)ctx)->delivered += n;
    return n;
}

// One packet at a time is enough: the node hands over what it made before it makes the next.
static struct packet *packet_alloc(void *ctx, unsigned worker, uint32_t len)
{
    struct null_platform *np = ctx;
    *np->spare = (struct packet){.data = (uint8_t *)(np->spare + 1) + PACKET_HEADROOM,
                                 .len = len,
                                 .head = len,
                                 .room = PACKET_MIN_ROOM,
                                 .headroom = PACKET_HEADROOM};
    return np->spare;
}

static void packet_free(void *ctx, unsigned worker, struct packet *p)
{
    ((struct null_platform *)ctx)->freed++;
}

static struct packet *packet_clone(void *ctx, unsigned worker, const struct packet *p)
{
    return NULL;
}

static uint64_t random_number(void *ctx)
{
    return random_next(&((struct null_platform *)ctx)->random_state);
}

static void event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
}

static void capture(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
}

void null_platform_init(struct null_platform *np)
{
    *np = (struct null_platform){.random_state = 1,
                                 .spare = calloc(1, sizeof(struct packet) + PACKET_HEADROOM + PACKET_MIN_ROOM)};
    if (!np->spare)
        abort();
    np->platform = (struct platform){
        .env = {np, env_alloc, env_free, env_zone, env_defer, env_lock, env_unlock},
        .ctx = np,
        .port_attach = port_attach,
        .port_detach = port_detach,
        .port_deliver = port_deliver,
        .tunnel_open = tunnel_open,
        .tunnel_close = tunnel_close,
        .underlay_transmit = underlay_transmit,
        .external_transmit = external_transmit,
        .service_deliver = service_deliver,
        .packet_alloc = packet_alloc,
        .packet_free = packet_free,
        .packet_clone = packet_clone,
        .random = random_number,
        .event = event,
        .capture = capture,
    };
}

void null_platform_quiesce(struct null_platform *np)
{
    for (size_t i = 0; i < np->n_deferred; i++) {
        struct deferral d = np->deferred[i];
        d.fn(d.arg, d.value);
    }
    np->n_deferred = 0;
}

void null_platform_fini(struct null_platform *np)
{
    for (struct zone *z = np->zones, *next; z; z = next) {
        next = z->next;
        free(z->memory);
        free(z);
    }
    free(np->deferred);
    free(np->spare);
}
