// SPDX-License-Identifier: MPL-2.0
// Trace: what would become of this packet? The same code as a real packet's, on a copy, without counting,
// sending or making state. A packet for another port of this node is followed there.
#include "core/internal.h"

#include "vpc/text.h"

struct tracing {
    struct context c;
    struct port *port;  // where the packet is; NULL when its end is known
    struct port *trial; // stands for its real one, or NULL
    enum origin origin;
    const struct policy *policy;
    struct packet *p;
    struct parsed pp;
    struct flow_key key;
    struct conn_flow answers[MAX_PASSES]; // of the connections that the packet would have opened on its way
    struct flow_key openers[MAX_PASSES];  // and what opened them
    unsigned n_answers;
    struct trace *out;
};

static void end(struct tracing *t, const char *verdict, enum drop reason)
{
    t->out->verdict = verdict;
    t->out->reason = reason;
    t->port = NULL;
}

static void end_at(struct tracing *t, const char *step, enum drop reason)
{
    struct text d = trace_add(&t->out->log, step, "drop");
    text_add(&d, drop_help(reason));
    end(t, "dropped", reason);
}

// ---- The way on

static void go_on(struct tracing *t, const struct transposition *xp)
{
    switch ((enum transposition_to)xp->to) {
    case XP_TO_GUEST:
        end(t, "delivered", DROP_NONE);
        break;
    case XP_TO_SERVICE:
        end(t, "consumed", DROP_NONE);
        break;
    case XP_TO_TUNNEL:
        t->out->tunnel = t->c.n->tables.tunnels[xp->dest].node;
        end(t, "sent", DROP_NONE);
        break;
    case XP_TO_EXTERNAL:
        end(t, "sent", DROP_NONE);
        break;
    case XP_TO_PORT:
    case XP_TO_LOCAL_EXTERNAL:
    case XP_TO_SELF:
        t->port = local_hop(t->c.n, xp, &t->origin);
        if (t->port && t->trial && t->port->index == t->trial->index)
            t->port = t->trial;
        if (!t->port)
            end_at(t, "demux", DROP_UNKNOWN_PORT);
        break;
    case XP_NOWHERE:
        end_at(t, "overlay", DROP_NO_MAPPING);
        break;
    }
}

// The transposition shown is the first one: the port's that was asked about.
static void settle(struct tracing *t, const struct transposition *xp, uint16_t mss, const struct parsed_embedded *inner)
{
    if (t->out->xp.to == XP_NOWHERE)
        t->out->xp = *xp;
    bool expired = (xp->flags & XP_DEC_TTL) && t->pp.ttl <= 1;
    bool large = is_too_big(t->port, t->p, &t->pp) && xp->to != XP_TO_SERVICE && !can_be_cut(t->port, t->p, &t->pp);
    if (expired || large) {
        end_at(t, "router", expired ? DROP_TTL_EXPIRED : DROP_TOO_BIG);
        return;
    }
    if (inner)
        transposition_apply_icmp_error(xp, &t->key, t->p, &t->pp, inner);
    else
        transposition_apply(xp, t->p, &t->pp, mss);
    go_on(t, xp);
}

// ---- Who decides

static void note_connection(struct tracing *t, uint32_t index, bool current)
{
    const struct conn *k = conn_get(t->c.n->connections, index);
    struct text d = trace_add(&t->out->log, "flow-table", current ? "hit" : "stale");
    text_add(&d, "connection ");
    text_number(&d, index);
    if (k->protocol == IPPROTO_TCP4) {
        text_add(&d, ", ");
        text_add(&d, tcp_state_name(k->tcp.state));
    }
    text_add(&d,
             current ? ", opened by rule " : ", to be judged again in the direction that opened it; opened by rule ");
    const struct policy *had = t->port == t->trial ? t->c.n->ports[t->port->index].policy : t->policy;
    text_add(&d, policy_rule_name(&had->firewall[k->opener], k->rule, k->opener));
}

// [port lock] The verdict of a flow that exists, judged again if it is stale. False: its end is known.
static bool verdict_of_flow(struct tracing *t, uint32_t entry, struct transposition *xp)
{
    struct node *n = t->c.n;
    const struct flow_entry *e = flow_table_entry(n->flows, entry);
    bool current = flow_is_current(n, t->port, e, flow_table_hot(n->flows, entry));
    note_connection(t, e->owner, current);
    t->out->hit |= current;
    *xp = e->xp;
    if (current)
        return true;
    struct walk w;
    bool ends;
    struct conn k = *conn_get(n->connections, e->owner);
    if (t->port == t->trial && k.nat.kind == CONN_NAT_SNAT) // it would keep its port, in slices that are numbered anew
        snat_claim(&t->port->snat, &k.nat, k.protocol);
    enum drop reason = walk_again(&t->c, t->port, t->policy, &k, &t->out->log, &w, &ends);
    if (reason != DROP_NONE) {
        end(t, "dropped", reason);
        return false;
    }
    if (w.flow[e->dir].key.ip_version)
        *xp = w.flow[e->dir].xp;
    if (xp->to == XP_NOWHERE)
        end_at(t, "overlay", DROP_NO_MAPPING);
    return xp->to != XP_NOWHERE;
}

// A guest that speaks to itself from the port it speaks to meets the connection that it has just opened.
static bool by_own_answer(struct tracing *t)
{
    for (unsigned i = 0; i < t->n_answers; i++) {
        if (memcmp(&t->answers[i].key, &t->key, sizeof(t->key)) != 0)
            continue;
        struct text d = trace_add(&t->out->log, "flow-table", "pass");
        text_add(&d, "as the answer of the connection it opened itself");
        settle(t, &t->answers[i].xp, t->answers[i].mss, NULL);
        return true;
    }
    return false;
}

// [port lock] False: the connection is over for this segment, which is judged as a first one.
static bool by_connection(struct tracing *t)
{
    struct node *n = t->c.n;
    uint32_t entry = flow_table_find(n->flows, &t->key, flow_hash(n->secret, &t->key));
    struct transposition xp;
    if (entry == FLOW_NONE)
        return by_own_answer(t);
    const struct flow_entry *e = flow_table_entry(n->flows, entry);
    const struct conn *k = conn_get(n->connections, e->owner);
    if (!conn_stands(k, t->port->index))
        return false;
    if (!verdict_of_flow(t, entry, &xp))
        return true;
    if (wants_tracking(&t->pp, flow_table_hot(n->flows, entry))) {
        struct tcp_segment s = segment_of(k, e->dir, &t->pp);
        enum tcp_verdict v = conn_foresee(n->connections, e->owner, e->dir, &s);
        if (v == TCP_OUT_OF_WINDOW && k->strict) {
            end_at(t, "flow-table", DROP_TCP_WINDOW);
            return true;
        }
        if (v == TCP_PASS_NEW) {
            struct text d = trace_add(&t->out->log, "flow-table", "renewed");
            text_add(&d, "the connection is over and this segment opens another");
            t->out->hit = false;
            return false;
        }
    }
    settle(t, &xp, e->mss, NULL);
    return true;
}

static bool by_gateway(struct tracing *t)
{
    struct gateway_note note = {{0}};
    enum drop reason = DROP_BAD_ETHERTYPE;
    enum gateway_verdict v = t->pp.ip_version ? GATEWAY_PASS : GATEWAY_DROP;
    if (t->origin == FROM_GUEST)
        v = gateway_out(&t->policy->gateway, t->p, &t->pp, &reason, &note);
    else if (t->origin == FROM_VPC)
        v = gateway_in(&t->policy->gateway, t->p, &t->pp, &reason);
    if (v == GATEWAY_PASS || v == GATEWAY_METADATA)
        return false;
    if (v == GATEWAY_DROP) {
        end_at(t, "gateway", reason);
        return true;
    }
    struct text d = trace_add(&t->out->log, "gateway", "answer");
    text_add(&d, note.text);
    end(t, "answered", DROP_NONE);
    return true;
}

static void by_quoted_flow(struct tracing *t)
{
    struct node *n = t->c.n;
    struct parsed_embedded inner;
    struct transposition xp;
    enum drop reason = find_related(t->port, t->origin, t->p, &t->pp, &inner, &t->key);
    uint32_t entry = FLOW_NONE;
    if (reason == DROP_NONE)
        entry = flow_table_find(n->flows, &t->key, flow_hash(n->secret, &t->key));
    if (reason != DROP_NONE || entry == FLOW_NONE)
        end_at(t, "flow-table", reason != DROP_NONE ? reason : DROP_ICMP_UNRELATED);
    else if (verdict_of_flow(t, entry, &xp))
        settle(t, &xp, 0, &inner);
}

static bool same_key(const struct flow_key *a, const struct flow_key *b)
{
    return a->ip_version && memcmp(a, b, sizeof(*a)) == 0;
}

// The keys of a connection to be: has one that the packet opened before it got here taken one of them?
static bool taken_by_itself(const struct tracing *t, const struct conn_flow flow[2])
{
    for (unsigned i = 0; i < t->n_answers; i++)
        for (unsigned dir = 0; dir < 2; dir++)
            if (same_key(&flow[dir].key, &t->openers[i]) || same_key(&flow[dir].key, &t->answers[i].key))
                return true;
    return false;
}

// [port lock] The binding that the walk takes is given back before anyone sees it.
static void by_layers(struct tracing *t)
{
    struct walk w;
    bool stateless;
    uint64_t exhausted = t->port->snat.exhausted;
    enum drop reason = walk_new(&t->c, t->port, t->policy, &t->pp, &t->key, &t->out->log, &w, &stateless);
    if (w.took_snat)
        snat_undo(&t->port->snat, &w.binding, t->pp.protocol);
    t->port->snat.exhausted = exhausted;
    bool taken = reason == DROP_NONE && !stateless &&
                 (conn_keys_taken(t->c.n->connections, w.flow, t->c.now / 1000000) || taken_by_itself(t, w.flow));
    if (reason == DROP_NONE && !stateless && !taken) {
        t->openers[t->n_answers] = w.flow[w.opener].key;
        t->answers[t->n_answers++] = w.flow[!w.opener];
    }
    if (reason != DROP_NONE)
        end(t, "dropped", reason);
    else if (taken)
        end_at(t, "flow-table", DROP_TUPLE_IN_USE);
    else
        settle(t, &w.flow[w.opener].xp, stateless ? 0 : w.flow[w.opener].mss, NULL);
}

// ---- A packet's pass through a port

static enum drop before_layers(struct tracing *t, const struct ip_addr *from)
{
    struct node *n = t->c.n;
    if (from && !ip_is_unspecified(from) && !vtep_good(&n->tables, t->port->vni, from, t->c.now))
        return DROP_BAD_VTEP;
    if (load_relaxed(&t->port->paused))
        return DROP_PORT_PAUSED;
    enum drop reason = parse_frame(t->p, &t->pp);
    if (reason != DROP_NONE)
        return reason;
    if (t->origin == FROM_GUEST && !t->port->any_mac && t->port->mac != mac_word(&t->pp.src_mac))
        return DROP_SPOOF_MAC;
    if (t->pp.flags & PARSE_SOURCE_ROUTE)
        return DROP_SOURCE_ROUTE;
    return DROP_NONE;
}

static void pass(struct tracing *t, const struct ip_addr *from)
{
    struct node *n = t->c.n;
    uint32_t index = t->port->index;
    t->policy = t->port->policy;
    enum drop reason = before_layers(t, from);
    if (reason != DROP_NONE) {
        end_at(t, "demux", reason);
        return;
    }
    flow_key_of(t->port, t->origin, &t->pp, &t->key);
    // A later fragment does as its first one did, which nobody can tell here.
    bool fragment = t->pp.flags & PARSE_FRAG_LATER, error = t->pp.flags & PARSE_ICMP_ERROR;
    conn_port_lock(n->connections, index);
    bool first = t->pp.flags & PARSE_FRAG_FIRST; // fragments see the gateway before the flow table
    bool decided = (first && by_gateway(t)) || (t->pp.ip_version && !fragment && !error && by_connection(t));
    if (!decided && (first || !by_gateway(t))) {
        if (fragment)
            end_at(t, "demux", DROP_FRAGMENT_ORPHAN);
        else if (error && (t->pp.flags & PARSE_FRAGMENT)) // what it quotes may be in another piece
            end_at(t, "demux", DROP_FRAGMENT);
        else if (error)
            by_quoted_flow(t);
        else
            by_layers(t);
    }
    conn_port_unlock(n->connections, index);
}

static enum origin origin_of(const struct trace_question *q)
{
    return q->dir == FLOW_OUT ? FROM_GUEST : q->outside ? FROM_OUTSIDE : FROM_VPC;
}

static bool run(struct tracing *t, const struct trace_question *q, struct node_error *e)
{
    const struct env *env = t->c.n->env;
    uint8_t *memory = env->alloc(env->ctx, PACKET_HEADROOM + PACKET_MIN_ROOM);
    if (!memory)
        return node_refuse(e, NODE_LIMIT, "", "not enough memory");
    memcpy(memory + PACKET_HEADROOM, q->frame, q->len);
    struct packet p = {.data = memory + PACKET_HEADROOM,
                       .len = q->len,
                       .head = q->len,
                       .room = PACKET_MIN_ROOM,
                       .headroom = PACKET_HEADROOM};
    t->p = &p;
    pass(t, t->origin == FROM_VPC ? &q->from : NULL);
    for (unsigned passes = 1; t->port; passes++) {
        if (passes == MAX_PASSES)
            end_at(t, "demux", DROP_RECIRCULATION);
        else
            pass(t, NULL);
    }
    env->free(env->ctx, memory);
    return true;
}

bool node_trace_ask(struct node *n, const struct trace_question *q, uint64_t now, struct trace *out,
                    struct node_error *e)
{
    *out = (struct trace){.verdict = "dropped"};
    *e = (struct node_error){0};
    struct tracing t = {.c = {.n = n, .now = now}, .origin = origin_of(q), .out = out};
    if (q->len > PACKET_MIN_ROOM)
        return node_refuse(e, NODE_INVALID, "/frame", "a frame for trace is at most 2048 bytes");
    t.trial = q->blueprint ? trial_make(n, q->blueprint, e) : NULL;
    if (q->blueprint && !t.trial)
        return false;
    t.port = t.trial ? t.trial : port_at(n, q->port);
    bool ok = t.port ? run(&t, q, e) : node_refuse(e, NODE_NOT_FOUND, "", "no such port on this node");
    trial_free(n, t.trial);
    return ok;
}

bool node_trace(struct node *n, uint32_t port, uint8_t dir, const struct ip_addr *from, const uint8_t *frame,
                uint32_t len, uint64_t now, struct trace *out, struct node_error *e)
{
    struct trace_question q = {.port = port, .dir = dir, .frame = frame, .len = len};
    if (from)
        q.from = *from;
    return node_trace_ask(n, &q, now, out, e);
}
