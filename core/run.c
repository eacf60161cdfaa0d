// SPDX-License-Identifier: MPL-2.0
// A packet's run: parse, one lookup, one rewrite, out. Everything that is not a plain hit leaves this file.
#include "core/internal.h"

#include "engine/geneve.h"
#include "engine/hit_path.h"

#define AHEAD 8u // packets whose memory is on its way

void flow_key_of(const struct port *port, enum origin origin, const struct parsed *pp, struct flow_key *key)
{
    flow_key_from_parsed(key, pp, port->index, load_relaxed(&port->vni), dir_of[origin], realm_of[origin]);
}

bool flow_is_current(const struct node *n, const struct port *port, const struct flow_entry *e,
                     const struct flow_hot *hot)
{
    if (load_relaxed(&hot->generation) != load_acquire(&port->generation) || e->xp.to == XP_NOWHERE)
        return false;
    if (e->dependency == 0)
        return true;
    uint32_t version = e->dependency == DEPENDS_OUTSIDE ? load_acquire(&n->tables.outside_version)
                                                        : slot_map_version(&n->tables.mapping_map, e->dependency);
    return load_relaxed(&hot->dependency_version) == version;
}

struct next_pass ended(struct context *c, struct port *port, uint8_t dir, struct packet *p, enum drop reason)
{
    drop_packet(c, port, dir, p, reason);
    return (struct next_pass){.reason = reason};
}

struct tcp_segment segment_of(const struct conn *k, uint8_t dir, const struct parsed *pp)
{
    return (struct tcp_segment){.side = dir != k->opener,
                                .flags = pp->tcp_flags,
                                .window = 0xffff,
                                .seq = pp->tcp_seq,
                                .ack = pp->tcp_ack,
                                .payload = pp->l4_payload_len};
}

// Connection state that a plain hit does not need. False: the packet's end was decided (reason; NONE = judge it anew).
static bool track(struct context *c, struct port *port, const struct flow_entry *e, const struct parsed *pp,
                  enum drop *reason)
{
    struct conn_table *t = c->n->connections;
    *reason = DROP_NONE;
    conn_port_lock(t, port->index);
    struct conn *k = conn_get(t, e->owner);
    if (!conn_stands(k, port->index)) { // ended since the lookup
        conn_port_unlock(t, port->index);
        return false;
    }
    struct tcp_segment s = segment_of(k, e->dir, pp);
    bool strict = k->strict;
    enum tcp_verdict v = conn_track(t, e->owner, e->dir, &s, c->now / 1000000);
    conn_port_unlock(t, port->index);
    if (v == TCP_OUT_OF_WINDOW && strict)
        *reason = DROP_TCP_WINDOW;
    return v == TCP_PASS || (v == TCP_OUT_OF_WINDOW && !strict);
}

bool wants_tracking(const struct parsed *pp, const struct flow_hot *hot)
{
    if (pp->flags & PARSE_FRAG_LATER) // the first one said it all
        return false;
    return (load_relaxed(&hot->flags) & FLOW_TRACK) ||
           (pp->protocol == IPPROTO_TCP4 && (pp->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)));
}

struct port *local_hop(struct node *n, const struct transposition *xp, enum origin *origin)
{
    struct port *port = port_at(n, xp->dest);
    *origin = xp->to == XP_TO_PORT ? FROM_VPC : xp->to == XP_TO_SELF ? FROM_SELF : FROM_OUTSIDE;
    // The index may have gone to another port since: its MAC and VNI tell.
    bool other = port && *origin == FROM_VPC &&
                 (load_relaxed(&port->vni) != xp->vni || load_relaxed(&port->mac) != mac_word(&xp->dst_mac));
    return other ? NULL : port;
}

static bool source_mac_is(const struct port *port, const void *mac)
{
    return load_relaxed(&port->any_mac) || load_relaxed(&port->mac) == mac_word(mac);
}

// Inlined: every hit goes through here.
static inline struct next_pass forward_now(struct context *c, struct port *port, const struct flow_key *key,
                                           const struct transposition *xp, uint64_t hash, uint8_t tos, struct packet *p)
{
    uint8_t dir = key->dir;
    struct node *n = c->n;
    struct next_pass next = {0};
    enum drop reason = DROP_UNKNOWN_PORT;
    switch ((enum transposition_to)xp->to) {
    case XP_TO_TUNNEL:
        encapsulate(c, xp->dest, xp->vni, hash, tos, p);
        send_to(c, port, dir, XP_TO_TUNNEL, xp->dest, p);
        return next;
    case XP_TO_GUEST:
    case XP_TO_SERVICE:
        send_to(c, port, dir, xp->to, xp->dest, p);
        return next;
    case XP_TO_EXTERNAL: {
        const struct ip_addr *src = xp->flags & XP_SRC_IP ? &xp->src_ip : &key->src;
        const struct ip_addr *dst = xp->flags & XP_DST_IP ? &xp->dst_ip : &key->dst;
        if (external_send(c, port, xp->dest, p, src, dst, &reason))
            return next;
        break;
    }
    case XP_TO_PORT:
    case XP_TO_LOCAL_EXTERNAL:
    case XP_TO_SELF:
        next.port = local_hop(n, xp, &next.origin);
        if (next.port) {
            count_sent(c, port, dir, p->len);
            return next;
        }
        break;
    case XP_NOWHERE:
        reason = DROP_NO_MAPPING;
        break;
    }
    return ended(c, port, dir, p, reason);
}

struct next_pass forward(struct context *c, struct port *port, const struct flow_key *key,
                         const struct transposition *xp, uint64_t hash, uint8_t tos, struct packet *p)
{
    return forward_now(c, port, key, xp, hash, tos, p);
}

static struct next_pass apply(struct context *c, struct port *port, const struct flow_key *key,
                              const struct transposition *xp, uint16_t mss, uint64_t hash, struct packet *p,
                              const struct parsed *pp)
{
    uint8_t dir = key->dir;
    if (unlikely((xp->flags & XP_DEC_TTL) && pp->ttl <= 1)) {
        if (dir != FLOW_OUT)
            return ended(c, port, dir, p, DROP_TTL_EXPIRED);
        answer_error(c, port, p, pp, ICMP_TTL_EXPIRED, DROP_TTL_EXPIRED);
        return (struct next_pass){.reason = DROP_TTL_EXPIRED};
    }
    if (unlikely(is_too_big(port, p, pp)) && xp->to != XP_TO_SERVICE)
        return oversize(c, port, key, xp, hash, p, pp);
    transposition_apply(xp, p, pp, mss);
    return forward(c, port, key, xp, hash, pp->tos, p);
}

// What the gateway answers or refuses itself. True: the packet's end was decided (*refused: it was dropped).
static bool gateway(struct context *c, struct port *port, enum origin origin, struct packet *p, const struct parsed *pp,
                    enum drop *refused)
{
    const struct policy *policy = load_acquire(&port->policy);
    uint8_t dir = dir_of[origin];
    enum drop reason = DROP_NO_POLICY;
    enum gateway_verdict v = GATEWAY_DROP;
    if (policy && origin == FROM_GUEST)
        v = gateway_out(&policy->gateway, p, pp, &reason, NULL);
    else if (policy && origin == FROM_VPC)
        v = gateway_in(&policy->gateway, p, pp, &reason);
    else if (policy) // addresses are not the guest's until NAT: the gateway layer of the walk judges them
        v = pp->ip_version ? GATEWAY_PASS : GATEWAY_DROP;
    if (v == GATEWAY_PASS || v == GATEWAY_METADATA)
        return false;
    *refused = v == GATEWAY_DROP ? reason : DROP_NONE;
    if (v == GATEWAY_DROP) {
        drop_packet(c, port, dir, p, reason);
        return true;
    }
    bool icmp_echo = pp->ip_version && (pp->icmp_type == 8 || pp->icmp_type == 128) &&
                     (pp->protocol == IPPROTO_ICMP4 || pp->protocol == IPPROTO_ICMP6);
    if (icmp_echo && !icmp_allowed(c, port)) {
        *refused = DROP_RATE_ICMP;
        drop_packet(c, port, dir, p, DROP_RATE_ICMP);
        return true;
    }
    counter_add(&counters_of(c, port)->answered[dir], 1);
    send_answer(c, port, p);
    return true;
}

static struct next_pass miss(struct context *c, struct port *port, enum origin origin, struct packet *p,
                             const struct parsed *pp, const struct flow_key *key, uint64_t hash)
{
    struct next_pass end = {0};
    uint8_t dir = dir_of[origin];
    counter_add(&counters_of(c, port)->misses[dir], 1);
    if (!(pp->flags & PARSE_FRAGMENT) && gateway(c, port, origin, p, pp, &end.reason)) // fragments have been there
        return end;
    if (pp->flags & PARSE_FRAG_LATER) // by itself it opens no connection
        return ended(c, port, dir, p, DROP_FRAGMENT_ORPHAN);
    if (pp->flags & PARSE_ICMP_ERROR)
        return pp->flags & PARSE_FRAGMENT ? ended(c, port, dir, p, DROP_FRAGMENT) : related(c, port, origin, p, pp);
    struct miss m;
    flow_miss(c, port, p, pp, key, hash, &m);
    if (m.reason == DROP_FIREWALL_REJECT && dir == FLOW_OUT) {
        answer_reject(c, port, p, pp);
        return (struct next_pass){.reason = m.reason};
    }
    if (m.reason != DROP_NONE)
        return ended(c, port, dir, p, m.reason);
    if (m.entry == FLOW_NONE)
        return apply(c, port, key, &m.stateless, 0, hash, p, pp);
    const struct flow_entry *e = flow_table_entry(c->n->flows, m.entry);
    return apply(c, port, key, &e->xp, e->mss, hash, p, pp);
}

static struct next_pass hit(struct context *c, struct port *port, enum origin origin, struct packet *p,
                            const struct parsed *pp, const struct flow_key *key, uint64_t hash, uint32_t entry)
{
    struct node *n = c->n;
    uint8_t dir = dir_of[origin];
    struct flow_entry *e = flow_table_entry(n->flows, entry);
    struct flow_hot *hot = flow_table_hot(n->flows, entry);
    if (unlikely(!flow_is_current(n, port, e, hot))) {
        struct miss m;
        counter_add(&counters_of(c, port)->misses[dir], 1);
        flow_revalidate(c, port, key, hash, entry, &m);
        if (m.reason != DROP_NONE)
            return ended(c, port, dir, p, m.reason);
        if (m.entry == FLOW_NONE) // it ended meanwhile
            return miss(c, port, origin, p, pp, key, hash);
        e = flow_table_entry(n->flows, m.entry);
        hot = flow_table_hot(n->flows, m.entry);
    } else {
        counter_add(&counters_of(c, port)->hits[dir], 1);
    }
    if (over_limit(c, port, dir, p))
        return (struct next_pass){.reason = DROP_RATE_LIMITED};
    if (unlikely(wants_tracking(pp, hot))) {
        enum drop reason;
        if (!track(c, port, e, pp, &reason)) {
            if (reason == DROP_NONE)
                return miss(c, port, origin, p, pp, key, hash);
            return ended(c, port, dir, p, reason);
        }
    }
    counter_add(&hot->packets, 1);
    counter_add(&hot->bytes, p->len);
    store_relaxed(&hot->last_seen, now_ms(c));
    return apply(c, port, key, &e->xp, e->mss, hash, p, pp);
}

static struct next_pass look_up(struct context *c, struct port *port, enum origin origin, struct packet *p,
                                const struct parsed *pp)
{
    struct flow_key key;
    flow_key_of(port, origin, pp, &key);
    uint64_t hash = flow_hash(c->n->secret, &key);
    bool never_a_flow = pp->ip_version == 0 || (pp->flags & PARSE_ICMP_ERROR);
    uint32_t entry = never_a_flow ? FLOW_NONE : flow_table_lookup(c->n->flows, &key, hash);
    return entry != FLOW_NONE ? hit(c, port, origin, p, pp, &key, hash, entry)
                              : miss(c, port, origin, p, pp, &key, hash);
}

static struct next_pass run_first(struct context *c, struct port *port, enum origin origin, struct packet *p,
                                  const struct parsed *pp, const struct fragment_key *key)
{
    struct next_pass next = {0};
    bool at_gateway = gateway(c, port, origin, p, pp, &next.reason);
    if (at_gateway && next.reason == DROP_NONE)
        return next; // answered, as the later ones will be, each by itself
    enum drop reason = fragment_first(c, port, key, pp);
    if (reason != DROP_NONE)
        return at_gateway ? next : ended(c, port, dir_of[origin], p, reason);
    if (!at_gateway)
        next = look_up(c, port, origin, p, pp);
    fragment_judged(c, port, origin, key, next.reason);
    return next;
}

// False: it waits for the first.
static bool run_later(struct context *c, struct port *port, enum origin origin, struct packet *p, struct parsed *pp,
                      const struct fragment_key *key, struct next_pass *next)
{
    if (gateway(c, port, origin, p, pp, &next->reason))
        return true;
    switch (fragment_later(c, port, key, p, pp, &next->reason)) {
    case FRAGMENT_HOLD:
        return false;
    case FRAGMENT_DROP:
        drop_packet(c, port, dir_of[origin], p, next->reason);
        return true;
    case FRAGMENT_GO:
        break;
    }
    *next = look_up(c, port, origin, p, pp);
    if (next->reason != DROP_NONE) // without this one the rest is worth nothing
        fragment_judged(c, port, origin, key, next->reason);
    return true;
}

static struct next_pass run_fragment(struct context *c, struct port *port, enum origin origin, struct packet *p,
                                     struct parsed *pp)
{
    struct next_pass next = {0};
    struct fragment_key key;
    uint32_t bytes = p->len;
    fragment_key_from_parsed(&key, pp, port->vni, dir_of[origin], realm_of[origin]);
    if (pp->flags & PARSE_FRAG_FIRST)
        next = run_first(c, port, origin, p, pp, &key);
    else if (!run_later(c, port, origin, p, pp, &key, &next))
        return next; // counts when it goes on
    count_received(c, port, dir_of[origin], bytes);
    return next;
}

static enum drop before_flows(const struct port *port, uint8_t dir, const struct packet *p, struct parsed *pp)
{
    enum drop reason = load_relaxed(&port->paused) ? DROP_PORT_PAUSED : parse_frame(p, pp);
    if (reason == DROP_NONE && dir == FLOW_OUT && !source_mac_is(port, &pp->src_mac))
        reason = DROP_SPOOF_MAC;
    if (reason == DROP_NONE && (pp->flags & PARSE_SOURCE_ROUTE))
        reason = DROP_SOURCE_ROUTE;
    return reason;
}

static struct next_pass run_once(struct context *c, struct port *port, enum origin origin, struct packet *p)
{
    uint8_t dir = dir_of[origin];
    struct parsed pp;
    enum drop reason = before_flows(port, dir, p, &pp);
    if (reason == DROP_NONE && unlikely(pp.flags & PARSE_FRAGMENT))
        return run_fragment(c, port, origin, p, &pp);
    count_received(c, port, dir, p->len);
    if (reason != DROP_NONE)
        return ended(c, port, dir, p, reason);
    return look_up(c, port, origin, p, &pp);
}

static void run_on(struct context *c, struct next_pass next, struct packet *p, unsigned passes)
{
    for (; next.port; passes++) {
        worker_of(c)->slow = true;
        if (passes == MAX_PASSES) {
            count_received(c, next.port, dir_of[next.origin], p->len);
            drop_packet(c, next.port, dir_of[next.origin], p, DROP_RECIRCULATION);
            return;
        }
        next = run_once(c, next.port, next.origin, p);
    }
}

static void resume(struct context *c, const struct waiting *w)
{
    struct parsed pp;
    if (!w->later) {
        run_on(c, (struct next_pass){w->port, w->origin, DROP_NONE}, w->p, 1);
        return;
    }
    uint8_t dir = dir_of[w->origin];
    enum drop reason = before_flows(w->port, dir, w->p, &pp);
    count_received(c, w->port, dir, w->p->len);
    if (reason != DROP_NONE) {
        drop_packet(c, w->port, dir, w->p, reason);
        return;
    }
    fragment_fill(&pp, &w->ports);
    run_on(c, look_up(c, w->port, w->origin, w->p, &pp), w->p, 1);
}

static void resume_waiting(struct context *c)
{
    struct worker *w = worker_of(c);
    for (unsigned i = 0; i < w->n_waiting; i++) { // which may make others wait
        struct waiting next = w->waiting[i];
        resume(c, &next);
    }
    w->n_waiting = 0;
}

void run_packet(struct context *c, struct port *port, enum origin origin, struct packet *p)
{
    run_on(c, (struct next_pass){port, origin, DROP_NONE}, p, 0);
    resume_waiting(c);
}

// ---- The hit path: canonical packets of current flows, 32 at a time, so that memory is fetched ahead.

static void prepare(struct context *c, struct job *j)
{
    struct port *port = j->port;
    j->canonical =
        hit_parse(j->p, port->index, load_relaxed(&port->vni), dir_of[j->origin], realm_of[j->origin], &j->key, &j->h);
    if (!j->canonical)
        return;
    j->hash = flow_hash(c->n->secret, &j->key);
    flow_table_prefetch_bucket(c->n->flows, j->hash);
}

// Super-frames are sized by what their segments will be; that is rare enough for the slow path to judge.
static bool fits(const struct port *port, const struct packet *p, const struct hit *h)
{
    uint32_t mtu = load_relaxed(&port->mtu);
    return p->gso_type == GSO_NONE ? h->ip_len <= mtu
                                   : (uint32_t)(h->l4 - h->l3) + HIT_MAX_L4_HEADER + p->gso_size <= mtu;
}

static void fetch(const struct packet *p)
{
    __builtin_prefetch(p->data, 1);
    __builtin_prefetch(p->data - CACHE_LINE, 1); // where the outer headers will be
}

// False: something about the packet wants the slow path, and nothing has been changed yet.
static bool hit_fast(struct context *c, struct job *j)
{
    struct node *n = c->n;
    struct port *port = j->port;
    struct packet *p = j->p;
    uint32_t index = j->likely_entry;
    if (unlikely(!flow_table_holds(n->flows, index, &j->key)))
        index = flow_table_lookup(n->flows, &j->key, j->hash);
    if (unlikely(index == FLOW_NONE))
        return false;
    const struct flow_entry *e = flow_table_entry(n->flows, index);
    struct flow_hot *hot = flow_table_hot(n->flows, index);
    uint8_t dir = j->key.dir;
    if (unlikely((j->h.tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)) || (load_relaxed(&hot->flags) & FLOW_TRACK) ||
                 load_relaxed(&port->paused) || !flow_is_current(n, port, e, hot) || !fits(port, p, &j->h) ||
                 (dir == FLOW_OUT && !source_mac_is(port, p->data + 6))))
        return false;
    count_received(c, port, dir, p->len);
    counter_add(&counters_of(c, port)->hits[dir], 1);
    if (over_limit(c, port, dir, p))
        return true;
    counter_add(&hot->packets, 1);
    counter_add(&hot->bytes, p->len);
    store_relaxed(&hot->last_seen, now_ms(c));
    hit_rewrite(&e->xp, p, j->h.l3, j->h.l4, j->h.ip_version, j->h.protocol);
    run_on(c, forward_now(c, port, &j->key, &e->xp, j->hash, j->h.tos, p), p, 1);
    return true;
}

void run_jobs(struct context *c, unsigned count)
{
    struct worker *w = worker_of(c);
    struct job *jobs = w->jobs;
    for (unsigned i = 0; i < MIN(count, AHEAD); i++)
        fetch(jobs[i].p);
    for (unsigned i = 0; i < count; i++) {
        if (i + AHEAD < count)
            fetch(jobs[i + AHEAD].p);
        prepare(c, &jobs[i]);
    }
    for (unsigned i = 0; i < count; i++)
        if (likely(jobs[i].canonical))
            jobs[i].likely_entry = flow_table_prefetch_entry(c->n->flows, jobs[i].hash);
    w->slow = false;
    for (unsigned i = 0; i < count; i++) {
        if (w->slow)
            jobs[i].likely_entry = FLOW_NONE;
        if (jobs[i].canonical && hit_fast(c, &jobs[i]))
            continue;
        run_packet(c, jobs[i].port, jobs[i].origin, jobs[i].p);
    }
    resume_waiting(c);
}
