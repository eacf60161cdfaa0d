// SPDX-License-Identifier: MPL-2.0
// The way in: which port is a packet for? Packets that reach no port are counted by the node.
#include "core/internal.h"

#include "engine/geneve.h"

#define AHEAD 4u // packets whose memory is on its way

static struct context begin(struct node *n, unsigned worker, uint64_t now)
{
    store_relaxed(&n->workers[worker].now, now);
    return (struct context){.n = n, .worker = worker, .now = now};
}

static void run_all(struct context *c)
{
    struct worker *w = worker_of(c);
    run_jobs(c, w->n_jobs);
    w->n_jobs = 0;
}

static void add_job(struct context *c, struct port *port, enum origin origin, struct packet *p)
{
    struct worker *w = worker_of(c);
    if (w->n_jobs == PLATFORM_BATCH)
        run_all(c);
    struct job *j = &w->jobs[w->n_jobs++];
    j->p = p;
    j->port = port;
    j->origin = origin;
}

static void finish(struct context *c)
{
    run_all(c);
    send_flush(c);
}

void node_receive_guest(struct node *n, unsigned worker, uint32_t port, struct packet **packets, unsigned count,
                        uint64_t now)
{
    struct context c = begin(n, worker, now);
    struct port *p = port_at(n, port);
    for (unsigned i = 0; i < count; i++) {
        if (!p) {
            packet_free(&c, packets[i]); // the port went away while its device still spoke
            continue;
        }
        capture(&c, port, CAPTURE_FROM_GUEST, DROP_NONE, packets[i]);
        add_job(&c, p, FROM_GUEST, packets[i]);
    }
    finish(&c);
}

static void drop_underlay(struct context *c, struct packet *p, enum drop reason)
{
    counter_add(&worker_of(c)->counters.underlay_drops[reason], 1);
    capture(c, 0, CAPTURE_DROP, reason, p);
    packet_free(c, p);
}

static void to_port(struct context *c, struct port *port, enum origin origin, struct packet *p)
{
    counter_add(&worker_of(c)->counters.underlay_to_port, 1);
    capture(c, port->index, CAPTURE_FROM_UNDERLAY, DROP_NONE, p);
    add_job(c, port, origin, p);
}

// Frames of a flow come from the same node mostly: the last good one is remembered for a while.
static bool source_is_node(struct context *c, uint32_t vni, const struct ip_addr *outer_src)
{
    struct worker *w = worker_of(c);
    if (w->vtep_vni == vni && ip_equal(&w->vtep_node, outer_src) && w->vtep_good_at == c->now)
        return true;
    if (!vtep_good(&c->n->tables, vni, outer_src, c->now))
        return false;
    w->vtep_vni = vni;
    w->vtep_node = *outer_src;
    w->vtep_good_at = c->now;
    return true;
}

static enum drop receive_tenant(struct context *c, const struct geneve_info *g, struct packet *p, struct port **port)
{
    struct mac_addr dst;
    if (p->len < 14)
        return DROP_TRUNCATED;
    memcpy(dst.b, p->data, 6);
    if (!source_is_node(c, g->vni, &g->outer_src))
        return DROP_BAD_VTEP;
    if (mac_is_multicast(&dst))
        return DROP_MULTICAST;
    *port = port_at(c->n, port_by_mac(c->n, g->vni, &dst));
    return *port ? DROP_NONE : DROP_UNKNOWN_PORT;
}

// What an external packet is looked up by: an ICMP error is for whoever sent the packet inside it.
struct external_tuple {
    struct ip_addr src, dst;
    uint8_t protocol;
    uint16_t src_port, dst_port; // host order; ICMP queries: the identifier on both sides
};

static enum drop read_external(const struct packet *p, const struct parsed *pp, struct external_tuple *t)
{
    if (pp->ip_version == 0)
        return DROP_BAD_ETHERTYPE;
    *t = (struct external_tuple){pp->src, pp->dst, pp->protocol, load_be16(&pp->sport), load_be16(&pp->dport)};
    if (pp->protocol == IPPROTO_ICMP4 || pp->protocol == IPPROTO_ICMP6)
        t->dst_port = t->src_port;
    if (!(pp->flags & PARSE_ICMP_ERROR))
        return DROP_NONE;
    struct parsed_embedded inner;
    enum drop reason = parse_embedded(p, pp, &inner);
    bool query = inner.protocol == IPPROTO_ICMP4 || inner.protocol == IPPROTO_ICMP6;
    t->protocol = inner.protocol;
    t->dst_port = load_be16(&inner.sport);
    t->src_port = load_be16(query ? &inner.sport : &inner.dport);
    return reason;
}

// The reserved VNI: from an edge to a port here, or, where this node is the edge, from a port's node to the outside.
static enum drop route_edge(struct context *c, const struct ip_addr *outer_src, struct packet *p,
                            const struct parsed *pp, struct port **port)
{
    struct node *n = c->n;
    struct external_tuple t;
    enum drop reason = read_external(p, pp, &t);
    if (reason != DROP_NONE)
        return reason;
    uint32_t to = external_lookup(&n->tables, &t.dst, t.protocol, t.dst_port);
    const struct external_slot *dst = &n->tables.externals[to];
    if (to && dst->tunnel == 0 && edge_is_node(&n->tables, outer_src)) {
        *port = port_at(n, dst->port);
        return *port ? DROP_NONE : DROP_UNKNOWN_PORT;
    }
    uint32_t from = external_lookup(&n->tables, &t.src, t.protocol, t.src_port);
    const struct external_slot *src = &n->tables.externals[from];
    if (!from || src->tunnel == 0 || !ip_equal(&src->m.node, outer_src))
        return DROP_BAD_VTEP;
    if (to && dst->tunnel == 0) { // from another node's external address to one of a port here
        *port = port_at(n, dst->port);
        return *port ? DROP_NONE : DROP_UNKNOWN_PORT;
    }
    if (to) {
        encapsulate(c, dst->tunnel, GENEVE_VNI_EDGE,
                    flow_hash(n->secret, &(struct flow_key){.src = t.src, .dst = t.dst}), pp->tos, p);
        send_to(c, NULL, FLOW_OUT, XP_TO_TUNNEL, dst->tunnel, p);
        return DROP_NONE;
    }
    if (n->config.n_external == 0)
        return DROP_NO_EXTERNAL_MAPPING;
    external_send(c, NULL, external_link_for(n, &t.src), p, &t.src, &t.dst, &reason);
    return reason;
}

static void to_edge(struct context *c, const struct ip_addr *outer_src, struct packet *p, const struct parsed *pp)
{
    struct port *port = NULL;
    enum drop reason = route_edge(c, outer_src, p, pp, &port);
    if (reason != DROP_NONE)
        drop_underlay(c, p, reason);
    else if (port)
        to_port(c, port, FROM_OUTSIDE, p);
}

// Did the fragment go on? Then those that waited for it are in *waited.
static bool fragment_goes_on(struct context *c, const struct ip_addr *from, struct packet *p, struct parsed *pp,
                             enum drop *reason, struct fragment_queue *waited, struct fragment_ports *ports)
{
    waited->n = 0;
    *reason = DROP_NONE;
    return !(pp->flags & PARSE_FRAGMENT) || fragment_at_edge(c, from, p, pp, reason, waited, ports) == FRAGMENT_GO;
}

static void receive_edge(struct context *c, const struct ip_addr *outer_src, struct packet *p)
{
    struct parsed pp;
    struct fragment_queue waited = {.n = 0};
    struct fragment_ports ports = {0};
    enum drop reason = parse_frame(p, &pp);
    bool goes_on = reason == DROP_NONE && fragment_goes_on(c, outer_src, p, &pp, &reason, &waited, &ports);
    if (reason != DROP_NONE)
        drop_underlay(c, p, reason);
    if (!goes_on)
        return;
    to_edge(c, outer_src, p, &pp);
    counter_add(&worker_of(c)->counters.underlay_received, waited.n);
    for (unsigned i = 0; i < waited.n; i++) {
        reason = parse_frame(waited.packets[i], &pp);
        fragment_fill(&pp, &ports);
        if (reason == DROP_NONE)
            to_edge(c, outer_src, waited.packets[i], &pp);
        else
            drop_underlay(c, waited.packets[i], reason);
    }
}

static bool decap_ecn(struct packet *p, uint8_t outer_tos)
{
    uint16_t ethertype = p->head >= 34 ? load_be16(p->data + 12) : 0;
    int version = ethertype == ETHERTYPE_IPV4 ? 4 : ethertype == ETHERTYPE_IPV6 && p->head >= 54 ? 6 : 0;
    return !version || geneve_decap_ecn(p->data + 14, (uint8_t)version, outer_tos);
}

static void receive_one(struct context *c, struct packet *p)
{
    struct geneve_info g;
    struct port *port = NULL;
    enum drop reason = geneve_parse(p, &g, c->n->config.allow_zero_udp_checksum || p->csum == CSUM_VERIFIED);
    if (reason == DROP_NONE && !ip_equal(&g.outer_dst, &c->n->config.underlay))
        reason = DROP_OUTER_INVALID;
    if (reason != DROP_NONE) {
        drop_underlay(c, p, reason);
        return;
    }
    packet_pull(p, g.inner);
    p->encap_len = 0;
    p->vlan = 0;
    if (!decap_ecn(p, g.outer_tos)) {
        drop_underlay(c, p, DROP_ECN);
        return;
    }
    if (g.vni == GENEVE_VNI_EDGE) {
        receive_edge(c, &g.outer_src, p);
        return;
    }
    reason = receive_tenant(c, &g, p, &port);
    if (reason != DROP_NONE)
        drop_underlay(c, p, reason);
    else
        to_port(c, port, FROM_VPC, p);
}

static void fetch(const struct packet *p) // outer headers, and the inner ones behind them
{
    for (unsigned line = 0; line < 3; line++)
        __builtin_prefetch(p->data + line * CACHE_LINE, 1);
}

void node_receive_underlay(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now)
{
    struct context c = begin(n, worker, now);
    struct worker *w = worker_of(&c);
    w->n_held = 0;
    for (unsigned i = 0; i < MIN(count, AHEAD); i++)
        fetch(packets[i]);
    for (unsigned i = 0; i < count; i++) {
        if (i + AHEAD < count)
            fetch(packets[i + AHEAD]);
        receive_one(&c, packets[i]);
    }
    counter_add(&w->counters.underlay_received, count - w->n_held);
    finish(&c);
}

static enum drop route_outside(struct context *c, struct packet *p, const struct parsed *pp)
{
    struct node *n = c->n;
    struct external_tuple t;
    enum drop reason = read_external(p, pp, &t);
    if (reason != DROP_NONE)
        return reason;
    uint32_t to = external_lookup(&n->tables, &t.dst, t.protocol, t.dst_port);
    if (!to)
        return DROP_NO_EXTERNAL_MAPPING;
    const struct external_slot *dst = &n->tables.externals[to];
    if (dst->tunnel) {
        encapsulate(c, dst->tunnel, GENEVE_VNI_EDGE,
                    flow_hash(n->secret, &(struct flow_key){.src = t.src, .dst = t.dst, .sport = t.src_port}), pp->tos,
                    p);
        send_to(c, NULL, FLOW_IN, XP_TO_TUNNEL, dst->tunnel, p);
        return DROP_NONE;
    }
    struct port *port = port_at(n, dst->port);
    if (!port)
        return DROP_UNKNOWN_PORT;
    counter_add(&worker_of(c)->counters.external_to_port, 1);
    run_packet(c, port, FROM_OUTSIDE, p);
    return DROP_NONE;
}

static void drop_outside(struct context *c, struct packet *p, enum drop reason)
{
    counter_add(&worker_of(c)->counters.external_drops[reason], 1);
    capture(c, 0, CAPTURE_DROP, reason, p);
    packet_free(c, p);
}

static void receive_outside(struct context *c, uint32_t link, struct packet *p)
{
    struct parsed pp;
    struct fragment_queue waited = {.n = 0};
    struct fragment_ports ports = {0};
    enum drop reason = parse_frame(p, &pp);
    if (reason == DROP_NONE && external_control(c, link, p, &pp))
        return;
    bool goes_on = reason == DROP_NONE && fragment_goes_on(c, NULL, p, &pp, &reason, &waited, &ports);
    if (goes_on)
        reason = route_outside(c, p, &pp);
    if (reason != DROP_NONE)
        drop_outside(c, p, reason);
    if (!goes_on)
        return;
    counter_add(&worker_of(c)->counters.external_received, waited.n);
    for (unsigned i = 0; i < waited.n; i++) {
        reason = parse_frame(waited.packets[i], &pp);
        fragment_fill(&pp, &ports);
        if (reason == DROP_NONE)
            reason = route_outside(c, waited.packets[i], &pp);
        if (reason != DROP_NONE)
            drop_outside(c, waited.packets[i], reason);
    }
}

void node_receive_external(struct node *n, unsigned worker, uint32_t link, struct packet **packets, unsigned count,
                           uint64_t now)
{
    struct context c = begin(n, worker, now);
    struct worker *w = worker_of(&c);
    w->n_held = 0;
    for (unsigned i = 0; i < count; i++) {
        if (link < n->config.n_external)
            receive_outside(&c, link, packets[i]);
        else
            drop_outside(&c, packets[i], DROP_PORT_GONE);
    }
    counter_add(&w->counters.external_received, count - w->n_held);
    send_flush(&c);
}

void node_receive_service(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now)
{
    struct context c = begin(n, worker, now);
    struct node_counters *k = &worker_of(&c)->counters;
    counter_add(&k->service_received, count);
    for (unsigned i = 0; i < count; i++) {
        struct parsed pp;
        enum drop reason = parse_frame(packets[i], &pp);
        uint32_t index = reason == DROP_NONE && pp.ip_version ? service_port(&pp.dst) : 0;
        struct port *port = port_at(n, index);
        if (port) {
            counter_add(&k->service_to_port, 1);
            run_packet(&c, port, FROM_SERVICE, packets[i]);
            continue;
        }
        counter_add(&k->service_drops[reason ? reason : DROP_UNKNOWN_PORT], 1);
        packet_free(&c, packets[i]);
    }
    send_flush(&c);
}
