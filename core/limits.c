// SPDX-License-Identifier: MPL-2.0
// Rate limits of a port: bits and packets per second in each direction, new connections per second. What is counted is
// what would go on its way: packets that are refused, answered here or malformed cost their port nothing.
#include "core/internal.h"

#include "engine/rate.h"

// Each bucket holds 50 ms worth, and no less than this.
#define BURSTS_PER_S 20u
#define BURST_BITS (8u * 65600u) // a super-frame of 64 KB
#define BURST_PACKETS 64u
#define BURST_NEW 16u

enum { BITS_OUT, BITS_IN, PACKETS_OUT, PACKETS_IN, NEW };
_Static_assert(BITS_OUT == (int)FLOW_OUT && BITS_IN == (int)FLOW_IN, "bits by direction");

static bool take(struct port_limits *l, unsigned bucket, uint64_t per_s, uint64_t least, uint64_t cost, uint64_t now)
{
    return per_s == 0 || rate_take(&l->used[bucket], per_s, MAX(per_s / BURSTS_PER_S, least), cost, now);
}

bool limits_allow(const struct context *c, struct port *port, uint8_t dir, uint32_t bytes)
{
    struct port_limits *l = &port->limits;
    uint64_t bits = 8ull * bytes, bps = load_relaxed(&l->bps[dir]);
    if (!take(l, dir, bps, BURST_BITS, bits, c->now))
        return false;
    if (take(l, PACKETS_OUT + dir, load_relaxed(&l->pps), BURST_PACKETS, 1, c->now))
        return true;
    if (bps)
        rate_give_back(&l->used[dir], bits);
    return false;
}

bool limits_allow_new(const struct context *c, struct port *port)
{
    return take(&port->limits, NEW, load_relaxed(&port->limits.new_per_s), BURST_NEW, 1, c->now);
}

static void set(uint64_t *rate, uint64_t *bucket, uint64_t to)
{
    if (*rate == to)
        return;
    store_relaxed(rate, to);
    store_relaxed(bucket, 0); // counted on a clock of its own rate
}

static void set32(uint32_t *rate, uint64_t *buckets, unsigned n, uint32_t to)
{
    if (*rate == to)
        return;
    store_relaxed(rate, to);
    for (unsigned i = 0; i < n; i++)
        store_relaxed(&buckets[i], 0);
}

void limits_set(struct port *port, const struct blueprint_qos *q)
{
    struct port_limits *l = &port->limits;
    set(&l->bps[FLOW_OUT], &l->used[BITS_OUT], q->out_bps);
    set(&l->bps[FLOW_IN], &l->used[BITS_IN], q->in_bps);
    set32(&l->pps, &l->used[PACKETS_OUT], 2, q->pps);
    set32(&l->new_per_s, &l->used[NEW], 1, q->new_per_s);
    store_relaxed(&port->limited, q->out_bps || q->in_bps || q->pps || q->new_per_s);
}
