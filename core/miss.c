// SPDX-License-Identifier: MPL-2.0
// The slow path: a connection's first packet, and connections whose verdict may have changed. Both run the
// layers under the port's lock, so that two workers never make the same connection twice.
#include "core/internal.h"

static void begin_walk(struct context *c, struct port *port, const struct policy *policy, struct trace_log *log,
                       struct walk *w)
{
    *w = (struct walk){.env = &c->n->walk_env,
                       .policy = policy,
                       .snat = &port->snat,
                       .port = port->index,
                       .now_ms = now_ms(c),
                       .log = log};
}

static struct tcp_segment first_segment(const struct parsed *pp)
{
    return (struct tcp_segment){.flags = pp->tcp_flags,
                                .window = 0xffff,
                                .seq = pp->tcp_seq,
                                .ack = pp->tcp_ack,
                                .payload = pp->l4_payload_len};
}

static enum drop open_connection(struct context *c, struct port *port, const struct packet *p, const struct parsed *pp,
                                 const struct walk *w, uint32_t generation, uint32_t *index)
{
    struct tcp_segment first = first_segment(pp);
    struct conn_spec spec = {.port = port->index,
                             .opener = w->opener,
                             .protocol = pp->protocol,
                             .strict = w->policy->blueprint->firewall.tcp_strict,
                             .flow = {w->flow[0], w->flow[1]},
                             .generation = generation,
                             .nat = w->binding,
                             .rule = w->rule,
                             .posture_rule = w->posture_rule,
                             .tcp = pp->protocol == IPPROTO_TCP4 ? &first : NULL,
                             .bytes = p->len};
    marks_of(c->n, w, &spec.meter, &spec.log);
    enum drop reason = conn_open(c->n->connections, &spec, c->now / 1000000, index);
    if (reason == DROP_NONE && spec.meter)
        meter_begin(c->n, *index);
    if (reason == DROP_NONE)
        log_start(c, conn_get(c->n->connections, *index), *index);
    return reason;
}

static bool is_stray_tcp(const struct parsed *pp)
{
    return pp->protocol == IPPROTO_TCP4 && !((pp->tcp_flags & TCP_SYN) && !(pp->tcp_flags & TCP_ACK));
}

enum drop walk_new(struct context *c, struct port *port, const struct policy *policy, const struct parsed *pp,
                   const struct flow_key *key, struct trace_log *log, struct walk *w, bool *stateless)
{
    *stateless = false;
    begin_walk(c, port, policy, log, w);
    w->opener = key->dir;
    w->key = *key;
    if (key->realm == REALM_SERVICE) // the service only answers
        return DROP_NO_NAT_STATE;
    if (is_stray_tcp(pp) && policy->blueprint->firewall.tcp_strict)
        return DROP_TCP_STRICT;
    enum drop reason = walk_flow(w);
    if (reason != DROP_NONE || pp->protocol != IPPROTO_TCP4 || !(pp->tcp_flags & TCP_RST))
        return reason;
    // A reset for a connection we do not know: passed on, nothing to remember.
    *stateless = true;
    return w->binding.kind == CONN_NAT_NONE ? DROP_NONE : DROP_NO_NAT_STATE;
}

static enum drop within_limits(struct context *c, struct port *port, uint8_t dir, uint32_t bytes, bool connects)
{
    if (connects && !limits_allow_new(c, port))
        return DROP_RATE_NEW;
    return limits_allow(c, port, dir, bytes) ? DROP_NONE : DROP_RATE_LIMITED;
}

// [port lock]
static void judge(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
                  const struct flow_key *key, struct miss *out)
{
    uint32_t generation = load_acquire(&port->generation), index = 0;
    const struct policy *policy = load_acquire(&port->policy);
    struct walk w;
    bool stateless;
    if (!policy || key->vni != load_relaxed(&port->vni)) { // it left, or moved to another VPC, since the key was made
        out->reason = DROP_NO_POLICY;
        return;
    }
    out->reason = walk_new(c, port, policy, pp, key, NULL, &w, &stateless);
    log_denied(c, port, &w, out->reason, p->len);
    out->answer_reject = w.answer_reject;
    out->stateless = w.flow[w.opener].xp;
    if (out->reason == DROP_NONE && load_relaxed(&port->limited))
        out->reason = within_limits(c, port, key->dir, p->len, !stateless);
    if (out->reason == DROP_NONE && !stateless)
        out->reason = open_connection(c, port, p, pp, &w, generation, &index);
    if (index)
        out->entry = conn_get(c->n->connections, index)->entry[w.opener];
    else if (w.took_snat)
        snat_undo(&port->snat, &w.binding, pp->protocol);
}

void flow_miss(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
               const struct flow_key *key, uint64_t hash, struct miss *out)
{
    struct node *n = c->n;
    *out = (struct miss){0};
    conn_port_lock(n->connections, port->index);
    out->entry = flow_table_lookup(n->flows, key, hash); // another worker may have been first
    if (out->entry == FLOW_NONE)
        judge(c, port, p, pp, key, out);
    conn_port_unlock(n->connections, port->index);
}

// A verdict that no policy made: the connection waits for better days, the packet does not.
static bool passing_trouble(enum drop reason)
{
    return reason == DROP_NO_MAPPING || reason == DROP_UNKNOWN_PORT || reason == DROP_NO_EDGE;
}

static enum drop closing_reason(enum drop reason)
{
    bool rule = reason == DROP_FIREWALL_DENY || reason == DROP_FIREWALL_REJECT || reason == DROP_POSTURE_DENY;
    return rule ? DROP_REVALIDATE_DENY : reason;
}

// Both keys stay for as long as the connection lives: a walk whose answer has another one translates to another guest
// address than the connection began with.
static bool same_answer(const struct node *n, const struct conn *k, const struct walk *w)
{
    uint8_t other = k->opener == FLOW_OUT ? FLOW_IN : FLOW_OUT;
    const struct flow_key *answer = &w->flow[other].key;
    return k->entry[other] == FLOW_NONE || answer->ip_version == 0 ||
           memcmp(flow_table_entry(n->flows, k->entry[other])->key, answer, sizeof(*answer)) == 0;
}

// The target of a virtual IP is what the opening direction writes; what it does not write stays as it came.
static struct vip_binding held_target(const struct flow_entry *e)
{
    const struct flow_key *key = (const struct flow_key *)e->key;
    const struct transposition *xp = &e->xp;
    return (struct vip_binding){.target = xp->flags & XP_DST_IP ? xp->dst_ip : key->dst,
                                .target_port = xp->flags & XP_DST_PORT ? xp->dst_port : key->dport,
                                .client_port = xp->flags & XP_SRC_PORT ? xp->src_port : key->sport};
}

enum drop walk_again(struct context *c, struct port *port, const struct policy *policy, const struct conn *k,
                     struct trace_log *log, struct walk *w, bool *ends)
{
    struct node *n = c->n;
    begin_walk(c, port, policy, log, w);
    w->opener = k->opener;
    w->rewalk = true;
    w->skip_rules = policy->blueprint->firewall.established_keep;
    w->binding = k->nat;
    w->vip = held_target(flow_table_entry(n->flows, k->entry[k->opener]));
    memcpy(&w->key, flow_table_entry(n->flows, k->entry[k->opener])->key, sizeof(w->key));
    enum drop reason = walk_flow(w);
    if (reason == DROP_NONE && !same_answer(n, k, w))
        reason = DROP_NAT_REVOKED;
    *ends = reason != DROP_NONE && !passing_trouble(reason);
    return *ends ? closing_reason(reason) : reason;
}

// [port lock] What was counted so far is the old class's.
static void mark_again(struct node *n, const struct conn *k, uint32_t index, const struct walk *w)
{
    uint32_t meter;
    uint8_t log;
    marks_of(n, w, &meter, &log);
    if (meter == k->meter && log == k->log)
        return;
    if (meter != k->meter)
        meter_fold(n, k, index);
    conn_set_marks(n->connections, index, meter, log);
}

// [port lock]
static void judge_again(struct context *c, struct port *port, uint32_t index, uint8_t dir, struct miss *out)
{
    struct node *n = c->n;
    struct conn *k = conn_get(n->connections, index);
    uint32_t generation = load_acquire(&port->generation);
    const struct policy *policy = load_acquire(&port->policy);
    struct walk w;
    bool ends;
    if (!policy) {
        out->reason = DROP_NO_POLICY;
        return;
    }
    out->reason = walk_again(c, port, policy, k, NULL, &w, &ends);
    if (ends)
        conn_close(n->connections, index);
    if (out->reason == DROP_NONE)
        out->reason = conn_update(n->connections, index, w.flow, generation, w.rule, w.posture_rule);
    if (out->reason == DROP_NONE && !w.skip_rules)
        mark_again(n, k, index, &w);
    if (out->reason != DROP_NONE)
        return;
    out->entry = k->entry[dir];
    if (out->entry != FLOW_NONE && flow_table_entry(n->flows, out->entry)->xp.to == XP_NOWHERE)
        out->reason = DROP_NO_MAPPING; // the answer still has no way
}

void flow_revalidate(struct context *c, struct port *port, const struct flow_key *key, uint64_t hash, uint32_t entry,
                     struct miss *out)
{
    struct node *n = c->n;
    *out = (struct miss){0};
    conn_port_lock(n->connections, port->index);
    entry = flow_table_lookup(n->flows, key, hash);
    if (entry != FLOW_NONE) {
        const struct flow_entry *e = flow_table_entry(n->flows, entry);
        if (flow_is_current(n, port, e, flow_table_hot(n->flows, entry))) // another worker was first
            out->entry = entry;
        else
            judge_again(c, port, e->owner, e->dir, out);
    }
    conn_port_unlock(n->connections, port->index);
}
