// SPDX-License-Identifier: MPL-2.0
// The way out: packets for one destination are handed to the driver together, and each is counted as what
// became of it.
#include "core/internal.h"

#include "engine/geneve.h"

void packet_free(struct context *c, struct packet *p)
{
    c->n->platform.packet_free(c->n->platform.ctx, c->worker, p);
}

void capture_frame(struct context *c, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
    struct node *n = c->n;
    uint32_t only = load_relaxed(&n->capture_port);
    if (only == 0 || only == port)
        n->platform.capture(n->platform.ctx, c->worker, port, point, reason, p);
}

void drop_packet(struct context *c, struct port *port, uint8_t dir, struct packet *p, enum drop reason)
{
    if (!c->made_here)
        counter_add(&counters_of(c, port)->drops[dir][reason], 1);
    capture(c, port->index, CAPTURE_DROP, reason, p);
    packet_free(c, p);
}

static unsigned hand_over(struct context *c, struct group *g, enum drop *why)
{
    const struct platform *pf = &c->n->platform;
    *why = DROP_UNDERLAY_FULL;
    switch ((enum transposition_to)g->to) {
    case XP_TO_GUEST:
        *why = DROP_PORT_FULL;
        return pf->port_deliver(pf->ctx, c->worker, g->dest, g->packets, g->n);
    case XP_TO_TUNNEL:
        return pf->underlay_transmit(pf->ctx, c->worker, g->dest, g->packets, g->n, why);
    case XP_TO_EXTERNAL:
        return pf->external_transmit(pf->ctx, c->worker, g->dest, g->packets, g->n);
    case XP_TO_SERVICE:
        *why = DROP_METADATA_OFF;
        return pf->service_deliver(pf->ctx, c->worker, g->packets, g->n);
    case XP_NOWHERE:
    case XP_TO_PORT:
    case XP_TO_LOCAL_EXTERNAL:
    case XP_TO_SELF:
        break;
    }
    return 0;
}

static void count_port(struct context *c, const struct group *g, unsigned taken, enum drop why)
{
    struct port_counters *k = counters_of(c, &c->n->ports[g->port]);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < taken; i++)
        bytes += g->bytes[i];
    if (!g->counts) {
        counter_add(&k->generated[g->dir], taken);
        return;
    }
    if (g->to == XP_TO_SERVICE) {
        counter_add(&k->consumed[g->dir], taken);
    } else {
        counter_add(&k->sent[g->dir], taken);
        counter_add(&k->sent_bytes[g->dir], bytes);
    }
    if (taken < g->n)
        counter_add(&k->drops[g->dir][why], g->n - taken);
}

// Packets of no port: what an edge passes on.
static void count_transit(struct context *c, const struct group *g, unsigned taken, enum drop why)
{
    struct node_counters *k = &worker_of(c)->counters;
    bool from_underlay = g->dir == FLOW_OUT;
    if (!g->counts)
        return;
    counter_add(from_underlay ? &k->underlay_forwarded : &k->external_forwarded, taken);
    if (taken < g->n)
        counter_add(&(from_underlay ? k->underlay_drops : k->external_drops)[why], g->n - taken);
}

void send_flush(struct context *c)
{
    struct group *g = &worker_of(c)->group;
    if (g->to == XP_NOWHERE)
        return;
    enum drop why;
    unsigned taken = hand_over(c, g, &why);
    if (g->port)
        count_port(c, g, taken, why);
    else
        count_transit(c, g, taken, why);
    g->to = XP_NOWHERE;
    g->n = 0;
}

static void append(struct context *c, uint32_t port, uint8_t dir, uint8_t to, uint32_t dest, bool counts,
                   struct packet *p)
{
    struct group *g = &worker_of(c)->group;
    bool joins = g->to == to && g->dest == dest && g->port == port && g->dir == dir && g->counts == counts &&
                 g->n < PLATFORM_BATCH;
    if (!joins) {
        send_flush(c);
        g->to = to;
        g->dest = dest;
        g->port = port;
        g->dir = dir;
        g->counts = counts;
    }
    g->bytes[g->n] = p->len - p->encap_len;
    g->packets[g->n++] = p;
}

void count_sent(struct context *c, struct port *port, uint8_t dir, uint32_t bytes)
{
    if (!port) {
        counter_add(&worker_of(c)->counters.underlay_forwarded, 1);
    } else if (c->made_here) {
        counter_add(&counters_of(c, port)->generated[dir], 1);
    } else {
        counter_add(&counters_of(c, port)->sent[dir], 1);
        counter_add(&counters_of(c, port)->sent_bytes[dir], bytes);
    }
}

void send_to(struct context *c, struct port *port, uint8_t dir, uint8_t to, uint32_t dest, struct packet *p)
{
    uint32_t index = port ? port->index : 0;
    if (to == XP_TO_GUEST)
        capture(c, index, CAPTURE_TO_GUEST, DROP_NONE, p);
    if (to == XP_TO_TUNNEL)
        capture(c, index, CAPTURE_TO_UNDERLAY, DROP_NONE, p);
    append(c, index, dir, to, dest, !c->made_here, p);
}

void send_answer(struct context *c, struct port *port, struct packet *p)
{
    capture(c, port->index, CAPTURE_TO_GUEST, DROP_NONE, p);
    append(c, port->index, FLOW_IN, XP_TO_GUEST, port->index, false, p);
}

void encapsulate(struct context *c, uint32_t tunnel, uint32_t vni, uint64_t hash, uint8_t tos, struct packet *p)
{
    p->hash = (uint32_t)(hash >> 32);
    geneve_encap(p, &c->n->tables.tunnels[tunnel].encap, vni, hash, tos);
}
