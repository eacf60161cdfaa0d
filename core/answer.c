// SPDX-License-Identifier: MPL-2.0
// Answers made here to a guest's packet: ICMP errors and resets, within the port's rate.
#include "core/internal.h"

bool icmp_allowed(struct context *c, struct port *port)
{
    const uint64_t interval = 1000000000ull / LOCAL_ICMP_PER_S;
    struct token_bucket *b = &port->icmp;
    conn_port_lock(c->n->connections, port->index);
    if (b->filled_at == 0) {
        b->filled_at = c->now;
        b->tokens = LOCAL_ICMP_BURST;
    }
    uint64_t fresh = c->now > b->filled_at ? (c->now - b->filled_at) / interval : 0;
    b->tokens = (uint32_t)MIN(b->tokens + fresh, (uint64_t)LOCAL_ICMP_BURST);
    b->filled_at += fresh * interval;
    bool allowed = b->tokens > 0;
    b->tokens -= allowed;
    conn_port_unlock(c->n->connections, port->index);
    return allowed;
}

void answer_error(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
                  enum icmp_problem problem, enum drop reason)
{
    const struct policy *policy = load_acquire(&port->policy);
    const struct blueprint_gateway *g = policy ? &policy->blueprint->gateway : NULL;
    bool v4 = pp->ip_version == 4;
    counter_add(&counters_of(c, port)->drops[FLOW_OUT][reason], 1);
    capture(c, port->index, CAPTURE_DROP, reason, p);
    const struct ip_addr *from = !g                 ? NULL
                                 : v4 && g->has_v4  ? &g->v4
                                 : !v4 && g->has_v6 ? &g->v6
                                 : !v4              ? &policy->gateway.link_local
                                                    : NULL;
    if (from && icmp_allowed(c, port) &&
        icmp_make_error(p, pp, problem, load_relaxed(&port->mtu), from, &g->mac, &pp->src_mac))
        send_answer(c, port, p);
    else
        packet_free(c, p);
}

void answer_reject(struct context *c, struct port *port, struct packet *p, const struct parsed *pp)
{
    const struct policy *policy = load_acquire(&port->policy);
    if (!policy || pp->protocol != IPPROTO_TCP4) {
        answer_error(c, port, p, pp, ICMP_ADMIN_PROHIBITED, DROP_FIREWALL_REJECT);
        return;
    }
    counter_add(&counters_of(c, port)->drops[FLOW_OUT][DROP_FIREWALL_REJECT], 1);
    capture(c, port->index, CAPTURE_DROP, DROP_FIREWALL_REJECT, p);
    if (icmp_allowed(c, port) && tcp_make_reset(p, pp, &policy->blueprint->gateway.mac, &pp->src_mac))
        send_answer(c, port, p);
    else
        packet_free(c, p);
}
