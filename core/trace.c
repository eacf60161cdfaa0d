// SPDX-License-Identifier: MPL-2.0
// Trace: what would become of this packet? The same code as a real packet's, on a copy, without counting,
// sending or making state.
#include "core/internal.h"

#include "vpc/text.h"

struct tracing {
    struct context c;
    struct port *port;
    const struct policy *policy;
    struct packet *p;
    struct parsed pp;
    struct flow_key key;
    struct trace *out;
};

static void finish(struct tracing *t, const char *verdict, enum drop reason)
{
    t->out->verdict = verdict;
    t->out->reason = reason;
}

static const char *verdict_of(const struct transposition *xp)
{
    switch ((enum transposition_to)xp->to) {
    case XP_TO_GUEST:
    case XP_TO_PORT:
    case XP_TO_LOCAL_EXTERNAL:
        return "delivered";
    case XP_TO_SERVICE:
        return "consumed";
    case XP_TO_TUNNEL:
    case XP_TO_EXTERNAL:
        return "sent";
    case XP_NOWHERE:
        break;
    }
    return "dropped";
}

static void settle(struct tracing *t, const struct transposition *xp)
{
    t->out->xp = *xp;
    if (xp->to == XP_TO_TUNNEL)
        t->out->tunnel = t->c.n->tables.tunnels[xp->dest].node;
    bool expired = (xp->flags & XP_DEC_TTL) && t->pp.ttl <= 1;
    finish(t, expired ? "dropped" : verdict_of(xp), expired ? DROP_TTL_EXPIRED : DROP_NONE);
}

// An established connection decides without the layers.
static bool by_connection(struct tracing *t, uint64_t hash)
{
    struct node *n = t->c.n;
    uint32_t entry = flow_table_lookup(n->flows, &t->key, hash);
    if (entry == FLOW_NONE)
        return false;
    const struct flow_entry *e = flow_table_entry(n->flows, entry);
    const struct conn *k = conn_get(n->connections, e->owner);
    bool current = flow_is_current(n, t->port, e, flow_table_hot(n->flows, entry));
    struct text d = trace_add(&t->out->log, "flow-table", current ? "hit" : "stale");
    text_add(&d, "connection ");
    text_number(&d, e->owner);
    if (k->protocol == IPPROTO_TCP4) {
        text_add(&d, ", ");
        text_add(&d, tcp_state_name(k->tcp.state));
    }
    text_add(&d, current ? ", opened by rule " : ", to be judged again; opened by rule ");
    text_add(&d, policy_rule_name(&t->policy->firewall[k->opener], k->rule, k->opener));
    t->out->hit = current;
    if (current)
        settle(t, &e->xp);
    return current;
}

static bool by_gateway(struct tracing *t)
{
    struct gateway_note note = {{0}};
    enum drop reason = DROP_NONE;
    enum gateway_verdict v = t->key.dir == FLOW_OUT
                                 ? gateway_out(&t->policy->gateway, t->p, &t->pp, &reason, &note)
                                 : gateway_in(&t->policy->gateway, t->p, &t->pp, &reason);
    if (v == GATEWAY_PASS || v == GATEWAY_METADATA)
        return false;
    struct text d = trace_add(&t->out->log, "gateway", v == GATEWAY_DROP ? "drop" : "answer");
    text_add(&d, v == GATEWAY_DROP ? drop_help(reason) : note.text);
    finish(t, v == GATEWAY_DROP ? "dropped" : "answered", reason);
    return true;
}

// [port lock] The binding that the walk takes is given back before anyone sees it.
static void by_layers(struct tracing *t)
{
    struct node *n = t->c.n;
    struct walk w = {.env = &n->walk_env,
                     .policy = t->policy,
                     .snat = &t->port->snat,
                     .port = t->port->index,
                     .opener = t->key.dir,
                     .now_ms = now_ms(&t->c),
                     .key = t->key,
                     .log = &t->out->log};
    uint64_t exhausted = t->port->snat.exhausted;
    enum drop reason = walk_flow(&w);
    if (w.took_snat)
        snat_undo(&t->port->snat, &w.binding, t->pp.protocol);
    t->port->snat.exhausted = exhausted;
    if (reason != DROP_NONE)
        finish(t, "dropped", reason);
    else
        settle(t, &w.flow[w.opener].xp);
}

static enum drop before_layers(struct tracing *t, const struct ip_addr *from)
{
    struct node *n = t->c.n;
    if (load_relaxed(&t->port->paused))
        return DROP_PORT_PAUSED;
    enum drop reason = parse_frame(t->p, &t->pp);
    if (reason != DROP_NONE)
        return reason;
    if (t->pp.flags & PARSE_SOURCE_ROUTE)
        return DROP_SOURCE_ROUTE;
    if (t->key.dir == FLOW_OUT && !t->port->any_mac && !mac_equal(&t->pp.src_mac, &t->port->mac))
        return DROP_SPOOF_MAC;
    if (t->key.dir == FLOW_IN && !ip_is_unspecified(from) && !vtep_good(&n->tables, t->port->vni, from, t->c.now))
        return DROP_BAD_VTEP;
    return DROP_NONE;
}

static void explain(struct tracing *t, const struct ip_addr *from, uint8_t dir)
{
    struct node *n = t->c.n;
    t->key.dir = dir;
    enum drop reason = before_layers(t, from);
    if (reason != DROP_NONE) {
        struct text d = trace_add(&t->out->log, "demux", "drop");
        text_add(&d, drop_help(reason));
        finish(t, "dropped", reason);
        return;
    }
    flow_key_of(t->port, dir == FLOW_OUT ? FROM_GUEST : FROM_VPC, &t->pp, &t->key);
    bool flow = t->pp.ip_version && !(t->pp.flags & (PARSE_FRAG_LATER | PARSE_ICMP_ERROR));
    if (flow && by_connection(t, flow_hash(n->secret, &t->key)))
        return;
    if (by_gateway(t))
        return;
    if (!flow) { // a later fragment does as its first one did, which nobody can tell here
        bool error = t->pp.flags & PARSE_ICMP_ERROR;
        finish(t, "dropped", error ? DROP_ICMP_UNRELATED : DROP_FRAGMENT_ORPHAN);
        return;
    }
    conn_port_lock(n->connections, t->port->index);
    by_layers(t);
    conn_port_unlock(n->connections, t->port->index);
}

bool node_trace(struct node *n, uint32_t port, uint8_t dir, const struct ip_addr *from, const uint8_t *frame,
                uint32_t len, uint64_t now, struct trace *out, struct node_error *e)
{
    *out = (struct trace){.verdict = "dropped"};
    *e = (struct node_error){0};
    struct tracing t = {.c = {.n = n, .now = now}, .port = port_at(n, port), .out = out};
    if (!t.port)
        return node_refuse(e, NODE_NOT_FOUND, "", "no such port on this node");
    if (len > 2048)
        return node_refuse(e, NODE_INVALID, "/frame", "a frame for trace is at most 2048 bytes");
    t.policy = t.port->policy;
    uint8_t *memory = n->env->alloc(n->env->ctx, PACKET_HEADROOM + PACKET_MIN_ROOM);
    if (!memory)
        return node_refuse(e, NODE_LIMIT, "", "not enough memory");
    memcpy(memory + PACKET_HEADROOM, frame, len);
    struct packet p = {.data = memory + PACKET_HEADROOM,
                       .len = len,
                       .head = len,
                       .room = PACKET_MIN_ROOM,
                       .headroom = PACKET_HEADROOM};
    t.p = &p;
    explain(&t, from, dir);
    n->env->free(n->env->ctx, memory);
    return true;
}
