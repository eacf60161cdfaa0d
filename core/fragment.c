// SPDX-License-Identifier: MPL-2.0
// Fragments: each port has a set of datagrams of its own, and so have the external addresses that this node tells apart
// by ports. Fragments are never on the fast way; a later one finds its flow by the ports that its first one had.
#include "core/internal.h"

struct owner { // of a set
    struct fragments *set;
    unsigned lock;
    struct port *port; // NULL: the edge's
};

static struct owner owner_port(struct port *port)
{
    return (struct owner){load_acquire(&port->fragments), LOCK_FRAGMENTS + port->index % FRAGMENT_LOCKS, port};
}

static struct owner owner_edge(struct node *n, unsigned set)
{
    return (struct owner){&n->edge_fragments[set], LOCK_FRAGMENTS + set % FRAGMENT_LOCKS, NULL};
}

static void lock(struct context *c, const struct owner *o)
{
    c->n->env->lock(c->n->env->ctx, o->lock);
}

static void unlock(struct context *c, const struct owner *o)
{
    c->n->env->unlock(c->n->env->ctx, o->lock);
}

static struct fragment_clock clock_of(const struct context *c)
{
    return (struct fragment_clock){c->now, c->n->config.fragment_timeout_s * 1000000000ull};
}

static void count_held(struct node *n, int change)
{
    __atomic_fetch_add(&n->fragments_held, (uint32_t)change, __ATOMIC_RELAXED);
}

// They counted as received nowhere yet.
static void drop_edge(struct context *c, struct packet *p, uint8_t dir, enum drop reason)
{
    struct node_counters *k = &worker_of(c)->counters;
    counter_add(dir == FLOW_OUT ? &k->underlay_received : &k->external_received, 1);
    counter_add(&(dir == FLOW_OUT ? k->underlay_drops : k->external_drops)[reason], 1);
    capture(c, 0, CAPTURE_DROP, reason, p);
    packet_free(c, p);
}

static void drop_queue(struct context *c, struct port *port, const struct fragment_queue *q)
{
    count_held(c->n, -(int)q->n);
    for (unsigned i = 0; i < q->n; i++) {
        if (!port) {
            drop_edge(c, q->packets[i], q->dir, q->reason);
            continue;
        }
        count_received(c, port, q->dir, q->packets[i]->len);
        drop_packet(c, port, q->dir, q->packets[i], q->reason);
    }
}

void fragment_fill(struct parsed *pp, const struct fragment_ports *ports)
{
    pp->sport = ports->sport;
    pp->dport = ports->dport;
    pp->protocol = ports->protocol;
}

enum drop fragment_first(struct context *c, struct port *port, const struct fragment_key *key, const struct parsed *pp)
{
    struct owner o = owner_port(port);
    struct fragment_clock clock = clock_of(c);
    struct fragment_queue gone;
    lock(c, &o);
    enum drop reason = fragments_first(o.set, key, pp, &clock, &gone);
    unlock(c, &o);
    drop_queue(c, port, &gone);
    return reason;
}

// They go on when the run under way, which is their first one's, is done.
static void follow(struct context *c, struct port *port, enum origin origin, const struct fragment_queue *q,
                   const struct fragment_ports *ports)
{
    struct worker *w = worker_of(c);
    count_held(c->n, -(int)q->n);
    for (unsigned i = 0; i < q->n; i++) {
        if (w->n_waiting < WAITING_MAX) {
            w->waiting[w->n_waiting++] = (struct waiting){q->packets[i], port, origin, true, *ports};
            continue;
        }
        count_received(c, port, q->dir, q->packets[i]->len);
        drop_packet(c, port, q->dir, q->packets[i], DROP_FRAGMENT_LIMIT);
    }
}

void fragment_judged(struct context *c, struct port *port, enum origin origin, const struct fragment_key *key,
                     enum drop reason)
{
    struct owner o = owner_port(port);
    struct fragment_queue waited;
    struct fragment_ports ports;
    lock(c, &o);
    fragments_judged(o.set, key, reason, &waited, &ports);
    unlock(c, &o);
    if (waited.n == 0)
        return;
    if (reason == DROP_NONE)
        follow(c, port, origin, &waited, &ports);
    else
        drop_queue(c, port, &waited);
}

static enum fragment_answer later(struct context *c, const struct owner *o, const struct fragment_key *key,
                                  struct packet *p, struct parsed *pp, enum drop *reason)
{
    struct fragment_clock clock = clock_of(c);
    struct fragment_queue gone;
    struct fragment_ports ports;
    bool may_hold = load_relaxed(&c->n->fragments_held) < FRAGMENTS_HELD_MAX;
    lock(c, o);
    enum fragment_answer a = fragments_later(o->set, key, pp, p, may_hold, &clock, &ports, reason, &gone);
    if (a == FRAGMENT_HOLD)
        count_held(c->n, 1);
    unlock(c, o);
    if (a == FRAGMENT_GO)
        fragment_fill(pp, &ports);
    drop_queue(c, o->port, &gone);
    return a;
}

enum fragment_answer fragment_later(struct context *c, struct port *port, const struct fragment_key *key,
                                    struct packet *p, struct parsed *pp, enum drop *reason)
{
    struct owner o = owner_port(port);
    return later(c, &o, key, p, pp, reason);
}

// ---- At the edge

static enum drop edge_first(struct context *c, const struct owner *o, const struct fragment_key *key,
                            const struct parsed *pp, struct fragment_queue *waited, struct fragment_ports *ports)
{
    struct fragment_clock clock = clock_of(c);
    struct fragment_queue gone;
    enum drop refused = pp->flags & PARSE_ICMP_ERROR ? DROP_FRAGMENT : DROP_NONE;
    lock(c, o);
    enum drop reason = fragments_first(o->set, key, pp, &clock, &gone);
    if (reason == DROP_NONE)
        fragments_judged(o->set, key, refused, waited, ports);
    unlock(c, o);
    drop_queue(c, NULL, &gone);
    if (reason == DROP_NONE && refused != DROP_NONE) {
        drop_queue(c, NULL, waited);
        waited->n = 0;
    }
    count_held(c->n, -(int)waited->n);
    return reason != DROP_NONE ? reason : refused;
}

enum fragment_answer fragment_at_edge(struct context *c, const struct ip_addr *from, struct packet *p,
                                      struct parsed *pp, enum drop *reason, struct fragment_queue *waited,
                                      struct fragment_ports *ports)
{
    struct node *n = c->n;
    bool shared_dst = external_is_shared(&n->tables, &pp->dst);
    *reason = DROP_NONE;
    waited->n = 0;
    if (!shared_dst && !external_is_shared(&n->tables, &pp->src))
        return FRAGMENT_GO; // addresses say enough
    // A flood costs the address that it uses.
    const struct ip_addr *address = shared_dst ? &pp->dst : &pp->src;
    struct owner o = owner_edge(n, slot_map_hash(3, address->b, 16) % EDGE_FRAGMENT_SETS);
    struct fragment_key key;
    fragment_key_from_parsed(&key, pp, 0, from ? FLOW_OUT : FLOW_IN, REALM_OUTSIDE);
    if (from)
        key.from = *from;
    if (pp->flags & PARSE_FRAG_FIRST) {
        *reason = edge_first(c, &o, &key, pp, waited, ports);
        return *reason == DROP_NONE ? FRAGMENT_GO : FRAGMENT_DROP;
    }
    enum fragment_answer a = later(c, &o, &key, p, pp, reason);
    worker_of(c)->n_held += a == FRAGMENT_HOLD;
    return a;
}

// ---- Time, and the life of a port

static void expire(struct context *c, const struct owner *o)
{
    struct fragment_queue gone;
    for (bool more = o->set != NULL; more;) {
        lock(c, o);
        more = fragments_expire(o->set, c->now, &gone);
        unlock(c, o);
        drop_queue(c, o->port, &gone);
    }
}

void fragment_tick(struct context *c)
{
    struct node *n = c->n;
    if (load_relaxed(&n->fragments_held) == 0)
        return;
    for (uint32_t i = 1; i < n->config.max_ports; i++) {
        struct owner o = owner_port(&n->ports[i]);
        expire(c, &o);
    }
    for (unsigned i = 0; i < EDGE_FRAGMENT_SETS; i++) {
        struct owner o = owner_edge(n, i);
        expire(c, &o);
    }
}

void fragment_forget(struct node *n, struct port *port)
{
    struct owner o = owner_port(port);
    n->env->lock(n->env->ctx, o.lock);
    fragments_forget(o.set);
    n->env->unlock(n->env->ctx, o.lock);
}

static void close_set(struct node *n, struct fragments *set)
{
    struct fragment_queue gone;
    if (!set)
        return;
    fragments_forget(set);
    while (fragments_expire(set, 0, &gone))
        for (unsigned i = 0; i < gone.n; i++)
            n->platform.packet_free(n->platform.ctx, 0, gone.packets[i]);
}

void fragment_close(struct node *n)
{
    for (uint32_t i = 1; n->ports && i < n->config.max_ports; i++) {
        close_set(n, n->ports[i].fragments);
        n->env->free(n->env->ctx, n->ports[i].fragments);
    }
    for (unsigned i = 0; n->edge_fragments && i < EDGE_FRAGMENT_SETS; i++)
        close_set(n, &n->edge_fragments[i]);
    n->env->free(n->env->ctx, n->edge_fragments);
}
