// SPDX-License-Identifier: MPL-2.0
#include "platform/fake/fake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    struct packet packet;
    uint8_t memory[];
};

struct zone {
    struct zone *next;
    char name[32];
    size_t bytes;
    void *memory;
    bool keep;
};

struct deferral {
    struct deferral *next;
    void (*fn)(void *, uint64_t);
    void *arg;
    uint64_t value;
};

static bool fails(struct fake *f)
{
    f->allocations++;
    return f->fail_after >= 0 && f->fail_after-- == 0;
}

// ---- env

static void *aligned(size_t bytes)
{
    size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded ? rounded : 64);
    assert(memory);
    memset(memory, 0, rounded);
    return memory;
}

static void *env_alloc(void *ctx, size_t bytes)
{
    return fails(ctx) ? NULL : aligned(bytes);
}

static void env_free(void *ctx, void *memory)
{
    free(memory);
}

static void *env_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    struct fake *f = ctx;
    if (kept)
        *kept = false;
    if (fails(f))
        return NULL;
    for (struct zone *z = f->zones; z; z = z->next) {
        if (strcmp(z->name, name) != 0 || z->bytes != bytes || !keep)
            continue;
        if (kept)
            *kept = true;
        return z->memory;
    }
    struct zone *z = calloc(1, sizeof(*z));
    strncpy(z->name, name, sizeof(z->name) - 1);
    z->bytes = bytes;
    z->memory = aligned(bytes);
    z->keep = keep;
    z->next = f->zones;
    f->zones = z;
    return z->memory;
}

static void env_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    struct fake *f = ctx;
    struct deferral *d = malloc(sizeof(*d));
    *d = (struct deferral){f->deferred, fn, arg, value};
    f->deferred = d;
}

static void env_lock(void *ctx, unsigned lock)
{
    struct fake *f = ctx;
    assert(lock < ENV_LOCKS && !f->locked[lock]);
    f->locked[lock] = true;
}

static void env_unlock(void *ctx, unsigned lock)
{
    struct fake *f = ctx;
    assert(lock < ENV_LOCKS && f->locked[lock]);
    f->locked[lock] = false;
}

// ---- the call log

static struct fake_call *record(struct fake *f, enum fake_kind kind, uint32_t where)
{
    if (f->n_calls == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->calls = realloc(f->calls, f->capacity * sizeof(*f->calls));
        assert(f->calls);
    }
    struct fake_call *c = &f->calls[f->n_calls++];
    *c = (struct fake_call){.kind = kind, .where = where};
    return c;
}

static void record_packet(struct fake *f, enum fake_kind kind, uint32_t where, const struct packet *p)
{
    struct fake_call *c = record(f, kind, where);
    c->frame = malloc(p->len ? p->len : 1);
    memcpy(c->frame, p->data, p->len);
    c->len = p->len;
    c->meta = *p;
}

// ---- packets

static void release(struct fake *f, struct packet *p)
{
    assert(f->live_packets > 0);
    f->live_packets--;
    free(p->driver);
}

struct packet *fake_packet(struct fake *f, const void *frame, uint32_t len)
{
    uint32_t room = len > PACKET_MIN_ROOM ? len : PACKET_MIN_ROOM;
    struct buffer *b = malloc(sizeof(*b) + PACKET_HEADROOM + room);
    assert(b);
    b->packet = (struct packet){.data = b->memory + PACKET_HEADROOM,
                                .len = len,
                                .head = len,
                                .room = room,
                                .headroom = PACKET_HEADROOM,
                                .driver = b};
    if (frame)
        memcpy(b->packet.data, frame, len);
    f->live_packets++;
    return &b->packet;
}

static struct packet *packet_alloc(void *ctx, unsigned worker, uint32_t len)
{
    return fails(ctx) ? NULL : fake_packet(ctx, NULL, len);
}

static void packet_release(void *ctx, unsigned worker, struct packet *p)
{
    release(ctx, p);
}

static struct packet *packet_clone(void *ctx, unsigned worker, const struct packet *p)
{
    return fails(ctx) ? NULL : fake_packet(ctx, p->data, p->len);
}

static unsigned take(struct fake *f, enum fake_kind kind, uint32_t where, const struct ip_addr *node, long *budget,
                     struct packet **packets, unsigned n)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < n; i++) {
        bool refused = budget && *budget == 0;
        if (!refused) {
            if (budget && *budget > 0)
                (*budget)--;
            record_packet(f, kind, where, packets[i]);
            if (node)
                f->calls[f->n_calls - 1].node = *node;
            taken++;
        }
        release(f, packets[i]);
    }
    return taken;
}

static unsigned port_deliver(void *ctx, unsigned worker, uint32_t port, struct packet **packets, unsigned n)
{
    struct fake *f = ctx;
    return take(f, FAKE_DELIVER, port, NULL, &f->deliver_budget, packets, n);
}

static unsigned underlay_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                                  enum drop *why)
{
    struct fake *f = ctx;
    *why = f->underlay_reason;
    struct ip_addr node = tunnel < f->n_tunnels ? f->tunnels[tunnel] : (struct ip_addr){0};
    return take(f, FAKE_UNDERLAY, tunnel, &node, &f->underlay_budget, packets, n);
}

static unsigned external_transmit(void *ctx, unsigned worker, uint32_t link, struct packet **packets, unsigned n)
{
    return take(ctx, FAKE_EXTERNAL, link, NULL, NULL, packets, n);
}

static unsigned service_deliver(void *ctx, unsigned worker, struct packet **packets, unsigned n)
{
    return take(ctx, FAKE_SERVICE, 0, NULL, NULL, packets, n);
}

// ---- control calls

static int port_attach(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                       uint32_t mtu, char *error, size_t error_size)
{
    struct fake *f = ctx;
    record(f, FAKE_ATTACH, port);
    if (!f->attach_fails)
        return 0;
    strncpy(error, "no such device", error_size - 1);
    return -1;
}

static void port_detach(void *ctx, uint32_t port)
{
    record(ctx, FAKE_DETACH, port);
}

static void tunnel_open(void *ctx, uint32_t tunnel, const struct ip_addr *node)
{
    struct fake *f = ctx;
    record(f, FAKE_TUNNEL_OPEN, tunnel)->node = *node;
    if (tunnel >= f->n_tunnels) {
        f->tunnels = realloc(f->tunnels, (tunnel + 1) * sizeof(*f->tunnels));
        assert(f->tunnels);
        memset(f->tunnels + f->n_tunnels, 0, (tunnel + 1 - f->n_tunnels) * sizeof(*f->tunnels));
        f->n_tunnels = tunnel + 1;
    }
    f->tunnels[tunnel] = *node;
}

static void tunnel_close(void *ctx, uint32_t tunnel)
{
    record(ctx, FAKE_TUNNEL_CLOSE, tunnel);
}

static uint64_t random_number(void *ctx) // splitmix64: the same in every run
{
    struct fake *f = ctx;
    uint64_t z = f->random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static void event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    struct fake *f = ctx;
    record(f, FAKE_EVENT, port);
    f->calls[f->n_calls - 1].event = kind;
    f->calls[f->n_calls - 1].count = count;
}

static void capture(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
    struct fake *f = ctx;
    record_packet(f, FAKE_CAPTURE, port, p);
    f->calls[f->n_calls - 1].point = point;
    f->calls[f->n_calls - 1].reason = reason;
}

// ---- life

struct fake *fake_create(void)
{
    struct fake *f = calloc(1, sizeof(*f));
    assert(f);
    f->now = 1000ull * 1000000000;
    f->wall = 1700000000;
    f->deliver_budget = f->underlay_budget = f->fail_after = -1;
    f->underlay_reason = DROP_UNDERLAY_FULL;
    f->platform = (struct platform){
        .env = {f, env_alloc, env_free, env_zone, env_defer, env_lock, env_unlock},
        .ctx = f,
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
    return f;
}

bool fake_start(struct fake *f, const struct node_config *config)
{
    f->address = config->underlay;
    f->node = node_create(&f->platform, config, f->now);
    return f->node != NULL;
}

static void free_zones(struct fake *f, bool kept_too)
{
    struct zone *left = NULL, *next;
    for (struct zone *z = f->zones; z; z = next) {
        next = z->next;
        if (z->keep && !kept_too) {
            z->next = left;
            left = z;
            continue;
        }
        free(z->memory);
        free(z);
    }
    f->zones = left;
}

void fake_crash(struct fake *f)
{
    // What a killed process leaves is its kept zones as they were at that instant.
    for (struct zone *z = f->zones; z; z = z->next) {
        if (!z->keep)
            continue;
        void *copy = aligned(z->bytes);
        memcpy(copy, z->memory, z->bytes);
        void *old = z->memory;
        z->memory = copy;
        struct zone *spare = calloc(1, sizeof(*spare)); // the dying node still writes to its own view
        spare->memory = old;
        spare->next = z->next;
        z->next = spare;
        z = spare;
    }
    fake_quiesce(f);
    node_destroy(f->node);
    f->node = NULL;
    fake_quiesce(f);
    free_zones(f, false);
    memset(f->locked, 0, sizeof(f->locked));
}

void fake_forget(struct fake *f)
{
    f->next = f->n_calls;
}

void fake_discard(struct fake *f)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < f->n_calls; i++) {
        if (f->calls[i].kind == FAKE_TUNNEL_OPEN)
            f->calls[kept++] = f->calls[i];
        else
            free(f->calls[i].frame);
    }
    f->n_calls = f->next = kept;
}

void fake_destroy(struct fake *f)
{
    fake_quiesce(f);
    node_destroy(f->node);
    fake_quiesce(f);
    assert(f->live_packets == 0);
    for (unsigned i = 0; i < f->n_calls; i++)
        free(f->calls[i].frame);
    free(f->calls);
    free(f->tunnels);
    free_zones(f, true);
    free(f);
}

void fake_quiesce(struct fake *f)
{
    while (f->deferred) {
        struct deferral *list = NULL;
        for (struct deferral *d = f->deferred, *next; d; d = next) { // oldest first
            next = d->next;
            d->next = list;
            list = d;
        }
        f->deferred = NULL;
        for (struct deferral *d = list, *next; d; d = next) {
            next = d->next;
            d->fn(d->arg, d->value);
            free(d);
        }
    }
}

void fake_advance(struct fake *f, uint64_t ms)
{
    f->now += ms * 1000000;
    f->wall += ms / 1000;
    while (node_tick(f->node, 0, f->now, f->wall) <= f->now)
        ;
}

// ---- packets in

void fake_guest(struct fake *f, uint32_t port, const void *frame, uint32_t len)
{
    struct packet *p = fake_packet(f, frame, len);
    node_receive_guest(f->node, 0, port, &p, 1, f->now);
}

void fake_underlay(struct fake *f, const void *frame, uint32_t len)
{
    struct packet *p = fake_packet(f, frame, len);
    p->csum = CSUM_VERIFIED;
    node_receive_underlay(f->node, 0, &p, 1, f->now);
}

void fake_external(struct fake *f, uint32_t link, const void *frame, uint32_t len)
{
    struct packet *p = fake_packet(f, frame, len);
    node_receive_external(f->node, 0, link, &p, 1, f->now);
}

void fake_service(struct fake *f, const void *frame, uint32_t len)
{
    struct packet *p = fake_packet(f, frame, len);
    node_receive_service(f->node, 0, &p, 1, f->now);
}

// ---- packets out

static bool carries_packet(const struct fake_call *c)
{
    return c->kind == FAKE_DELIVER || c->kind == FAKE_UNDERLAY || c->kind == FAKE_EXTERNAL || c->kind == FAKE_SERVICE;
}

const struct fake_call *fake_next(struct fake *f)
{
    while (f->next < f->n_calls)
        if (carries_packet(&f->calls[f->next++]) && !f->calls[f->next - 1].carried)
            return &f->calls[f->next - 1];
    return NULL;
}

// One frame on its way to whichever node has its destination address; into the void if none has.
static void carry(struct fake **nodes, unsigned n, const struct fake_call *call)
{
    struct ip_addr dst = ip_from_v6(call->frame + 14 + 24);
    for (unsigned i = 0; i < n; i++) {
        if (!nodes[i]->node || !ip_equal(&dst, &nodes[i]->address))
            continue;
        struct packet *p = fake_packet(nodes[i], call->frame, call->len);
        p->csum = CSUM_VERIFIED;
        p->gso_type = call->meta.gso_type;
        p->gso_size = call->meta.gso_size;
        if (call->meta.csum == CSUM_PARTIAL) {
            p->csum = CSUM_PARTIAL;
            p->csum_start = call->meta.csum_start;
            p->csum_offset = call->meta.csum_offset;
        }
        node_receive_underlay(nodes[i]->node, 0, &p, 1, nodes[i]->now);
        return;
    }
}

void fake_pump(struct fake **nodes, unsigned n)
{
    for (bool busy = true; busy;) {
        busy = false;
        for (unsigned i = 0; i < n; i++) {
            for (unsigned k = nodes[i]->next; k < nodes[i]->n_calls; k++) {
                if (nodes[i]->calls[k].kind != FAKE_UNDERLAY || nodes[i]->calls[k].carried)
                    continue;
                nodes[i]->calls[k].carried = true;
                struct fake_call call = nodes[i]->calls[k]; // the log may move
                carry(nodes, n, &call);
                busy = true;
            }
        }
    }
}
