// SPDX-License-Identifier: MPL-2.0
#include "tests/concurrency/crowd.h"

#include <time.h>
#include <unistd.h>

#include "engine/atomic.h"

struct crowd_buffer {
    struct packet packet;
    struct crowd_buffer *next;
    uint8_t memory[PACKET_HEADROOM + PACKET_MIN_ROOM];
};

struct crowd_zone {
    struct crowd_zone *next;
    void *memory;
};

_Thread_local int crowd_self = CROWD_CONTROL;

static struct crowd_worker *self(struct crowd *c)
{
    return crowd_self >= 0 ? &c->workers[crowd_self] : &c->control;
}

static bool is_worker(void)
{
    return crowd_self >= 0;
}

static void for_control_only(struct crowd *c)
{
    if (is_worker())
        fetch_add_relaxed(&c->control_on_worker, 1);
}

uint64_t crowd_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

uint64_t crowd_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- env

static void *aligned(size_t bytes)
{
    size_t whole = (MAX(bytes, 1u) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

static void *env_alloc(void *ctx, size_t bytes)
{
    struct crowd *c = ctx;
    for_control_only(c);
    counter_add(&self(c)->allocations, 1);
    return aligned(bytes);
}

static void env_free(void *ctx, void *memory)
{
    for_control_only(ctx);
    free(memory);
}

static void *env_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    struct crowd *c = ctx;
    struct crowd_zone *z = malloc(sizeof(*z));
    for_control_only(c);
    if (kept)
        *kept = false;
    *z = (struct crowd_zone){c->zones, aligned(bytes)};
    c->zones = z;
    return z->memory;
}

static void env_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    struct crowd *c = ctx;
    if (crowd_self != CROWD_JANITOR)
        counter_add(&self(c)->defers, 1);
    epochs_defer(&c->epochs, fn, arg, value);
}

static void env_lock(void *ctx, unsigned lock)
{
    struct crowd *c = ctx;
    if (crowd_self != CROWD_JANITOR)
        counter_add(&self(c)->locks, 1);
    pthread_mutex_lock(&c->locks[lock]);
}

static void env_unlock(void *ctx, unsigned lock)
{
    struct crowd *c = ctx;
    pthread_mutex_unlock(&c->locks[lock]);
}

// ---- packets

static void end_packet(struct crowd *c, struct packet *p)
{
    struct crowd_worker *w = self(c);
    struct crowd_buffer *b = p->driver;
    b->next = w->spare;
    w->spare = b;
    counter_add(&w->ended, 1);
}

static struct packet *take_packet(struct crowd *c, uint32_t len)
{
    struct crowd_worker *w = self(c);
    struct crowd_buffer *b = w->spare;
    if (b)
        w->spare = b->next;
    else
        b = malloc(sizeof(*b));
    b->packet = (struct packet){.data = b->memory + PACKET_HEADROOM,
                                .len = len,
                                .head = len,
                                .room = PACKET_MIN_ROOM,
                                .headroom = PACKET_HEADROOM,
                                .driver = b};
    counter_add(&w->taken, 1);
    return &b->packet;
}

struct packet *crowd_packet(struct crowd *c, unsigned worker, const void *frame, uint32_t len)
{
    struct packet *p = take_packet(c, len);
    memcpy(p->data, frame, len);
    return p;
}

void crowd_receive(struct crowd *c, unsigned worker, enum crowd_side side, uint32_t port, struct packet **packets,
                   unsigned n)
{
    int was = crowd_self;
    crowd_self = (int)worker;
    epochs_online(&c->epochs, worker);
    if (side == CROWD_GUEST)
        node_receive_guest(c->lab.node, worker, port, packets, n, c->lab.now);
    else if (side == CROWD_UNDERLAY)
        node_receive_underlay(c->lab.node, worker, packets, n, c->lab.now);
    else
        node_receive_external(c->lab.node, worker, 0, packets, n, c->lab.now);
    epochs_offline(&c->epochs, worker);
    crowd_self = was;
}

static struct packet *packet_alloc(void *ctx, unsigned worker, uint32_t len)
{
    counter_add(&self(ctx)->allocations, 1);
    return take_packet(ctx, len);
}

static void packet_release(void *ctx, unsigned worker, struct packet *p)
{
    end_packet(ctx, p);
}

static struct packet *packet_clone(void *ctx, unsigned worker, const struct packet *p)
{
    counter_add(&self(ctx)->allocations, 1);
    return crowd_packet(ctx, worker, p->data, p->len);
}

static unsigned end_all(struct crowd *c, struct packet **packets, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        end_packet(c, packets[i]);
    return n;
}

static unsigned port_deliver(void *ctx, unsigned worker, uint32_t port, struct packet **packets, unsigned n)
{
    struct crowd *c = ctx;
    counter_add(&self(c)->delivered, n);
    return end_all(c, packets, n);
}

static unsigned underlay_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                                  enum drop *why)
{
    struct crowd *c = ctx;
    counter_add(&self(c)->underlay, n);
    counter_add(&self(c)->to_tunnel[MIN(tunnel, CROWD_TUNNELS - 1u)], n);
    for (unsigned i = 0; c->watch && i < n; i++)
        c->watch(c, worker, tunnel, packets[i]);
    return end_all(c, packets, n);
}

static unsigned external_transmit(void *ctx, unsigned worker, uint32_t link, struct packet **packets, unsigned n)
{
    struct crowd *c = ctx;
    counter_add(&self(c)->external, n);
    return end_all(c, packets, n);
}

static unsigned service_deliver(void *ctx, unsigned worker, struct packet **packets, unsigned n)
{
    struct crowd *c = ctx;
    counter_add(&self(c)->service, n);
    return end_all(c, packets, n);
}

// ---- control calls

static int port_attach(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                       uint32_t mtu, char *error, size_t error_size)
{
    for_control_only(ctx);
    return 0;
}

static void port_detach(void *ctx, uint32_t port)
{
    for_control_only(ctx);
}

static void tunnel_open(void *ctx, uint32_t tunnel, const struct ip_addr *node)
{
    for_control_only(ctx);
}

static void tunnel_close(void *ctx, uint32_t tunnel)
{
    for_control_only(ctx);
}

static uint64_t random_number(void *ctx)
{
    return crowd_random(&self(ctx)->random);
}

static void event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
}

static void capture(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
}

// ---- life

static void *janitor(void *arg)
{
    struct crowd *c = arg;
    crowd_self = CROWD_JANITOR;
    while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
        epochs_run(&c->epochs);
        usleep(500);
    }
    return NULL;
}

struct crowd *crowd_create(const struct node_config *config)
{
    struct crowd *c = aligned(sizeof(*c));
    assert_true(epochs_init(&c->epochs, -1));
    for (unsigned i = 0; i < ENV_LOCKS; i++)
        pthread_mutex_init(&c->locks[i], NULL);
    c->control.random = 4711;
    for (unsigned i = 0; i < CROWD_MAX; i++)
        c->workers[i].random = i + 1;
    c->platform = (struct platform){
        .env = {c, env_alloc, env_free, env_zone, env_defer, env_lock, env_unlock},
        .ctx = c,
        .port_attach = port_attach,
        .port_detach = port_detach,
        .port_deliver = port_deliver,
        .tunnel_open = tunnel_open,
        .tunnel_close = tunnel_close,
        .underlay_transmit = underlay_transmit,
        .external_transmit = external_transmit,
        .service_deliver = service_deliver,
        .packet_alloc = packet_alloc,
        .packet_free = packet_release,
        .packet_clone = packet_clone,
        .random = random_number,
        .event = event,
        .capture = capture,
    };
    c->lab.now = 1000ull * 1000000000;
    c->lab.wall = 1700000000;
    c->lab.address = config->underlay;
    c->lab.node = node_create(&c->platform, config, c->lab.now);
    assert_non_null(c->lab.node);
    assert_int_equal(pthread_create(&c->janitor, NULL, janitor, c), 0);
    return c;
}

static void free_buffers(struct crowd_worker *w)
{
    for (struct crowd_buffer *b = w->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

struct crowd_worker crowd_sum(const struct crowd *c)
{
    struct crowd_worker sum = {0};
    for (int i = -1; i < CROWD_MAX; i++) {
        const struct crowd_worker *w = i < 0 ? &c->control : &c->workers[i];
        const uint64_t *from = (const uint64_t *)w;
        for (size_t k = 0; k < offsetof(struct crowd_worker, spare) / 8; k++)
            ((uint64_t *)&sum)[k] += load_relaxed(&from[k]);
    }
    return sum;
}

void crowd_destroy(struct crowd *c)
{
    __atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
    pthread_join(c->janitor, NULL);
    while (!epochs_run(&c->epochs))
        ;
    node_destroy(c->lab.node);
    while (!epochs_run(&c->epochs))
        ;
    struct crowd_worker sum = crowd_sum(c);
    assert_int_equal(sum.taken, sum.ended);
    assert_int_equal(c->control_on_worker, 0);
    assert_int_equal(c->epochs.lost, 0);
    for (struct crowd_zone *z = c->zones, *next; z; z = next) {
        next = z->next;
        free(z->memory);
        free(z);
    }
    for (unsigned i = 0; i < CROWD_MAX; i++)
        free_buffers(&c->workers[i]);
    free_buffers(&c->control);
    epochs_destroy(&c->epochs);
    free(c);
}
