// SPDX-License-Identifier: MPL-2.0
// Work that time brings: connections that end, router advertisements, next hops that do not answer.
#include "core/internal.h"

#define TICK_NS 250000000ull
#define RA_INTERVAL_NS (200ull * 1000000000)
#define EXPIRE_BUDGET 4096

static void advertise(struct context *c, struct port *port)
{
    static const struct mac_addr all_nodes_mac = {{0x33, 0x33, 0, 0, 0, 1}};
    static const struct ip_addr all_nodes = {.b = {0xff, 0x02, [15] = 1}};
    const struct policy *policy = load_acquire(&port->policy);
    if (!policy || !policy->blueprint->gateway.ra.enabled || !policy->blueprint->gateway.has_v6 ||
        load_relaxed(&port->paused) || c->now < port->next_ra)
        return;
    bool first = port->next_ra == 0; // a guest asks when it boots: no need to speak at once
    port->next_ra = c->now + RA_INTERVAL_NS;
    struct packet *p = first ? NULL : c->n->platform.packet_alloc(c->n->platform.ctx, c->worker, PACKET_MIN_ROOM);
    if (!p)
        return;
    gateway_make_ra(&policy->gateway, p, &all_nodes_mac, &all_nodes);
    send_answer(c, port, p);
}

uint64_t node_tick(struct node *n, unsigned worker, uint64_t now, uint64_t wall)
{
    struct context c = {n, worker, now};
    store_relaxed(&n->workers[worker].now, now);
    if (worker == 0) {
        for (uint32_t i = 1; i < n->config.max_ports; i++)
            advertise(&c, &n->ports[i]);
        for (uint32_t i = 1; n->flow_log && i < n->config.max_ports; i++)
            denials_flush(n, &n->ports[i], now, false);
        events_look(&c);
        external_tick(&c);
        send_flush(&c);
    }
    bool more = conn_table_tick(n->connections, now / 1000000, EXPIRE_BUDGET) == EXPIRE_BUDGET;
    return more ? now : now + TICK_NS;
}
