// SPDX-License-Identifier: MPL-2.0
// Edges: node A has the external link, the guests are on B (G) and C (Q). Translation is where the guest is.
#include "tests/behaviour/outside.h"

struct world {
    struct fake *nodes[3];
    struct fake *a, *b, *c;
    struct draft g, q;
    uint32_t pg, pq;
};

static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static struct fake *node(struct node_config c)
{
    struct fake *f = fake_create();
    assert_true(fake_start(f, &c));
    serve(f, 1, 1, &NODE_A);
    return f;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    w->a = w->nodes[0] = node(edge_config(NODE_A));
    w->b = w->nodes[1] = node(lab_config(NODE_B));
    w->c = w->nodes[2] = node(lab_config(NODE_C));
    draft_guest(&w->g);
    draft_init(&w->q, 5, 100, Q.v4, Q.v6, Q.mac);
    w->pg = put(w->b, &w->g);
    w->pq = put(w->c, &w->q);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < 3; i++) {
        check_conservation(w->nodes[i]);
        fake_destroy(w->nodes[i]);
    }
    free(w);
    return 0;
}

static void pump(struct world *w)
{
    fake_pump(w->nodes, 3);
}

static void floating_on_b(struct world *w)
{
    give_floating(&w->g, FLOATING, G);
    w->pg = put(w->b, &w->g);
    map_external(w->a, FLOATING, 0, 65535, NODE_B, 1);
}

static void shared_on_b(struct world *w)
{
    give_snat(&w->g, SHARED, 2000, 2999);
    w->pg = put(w->b, &w->g);
    map_external(w->a, SHARED, 2000, 2999, NODE_B, 1);
}

static unsigned flows_of(struct fake *f)
{
    struct flow_info info;
    unsigned n = 0;
    for (uint32_t i = node_flow_next(f->node, 0, 0, f->now, &info); i; i = node_flow_next(f->node, 0, i, f->now, &info))
        n++;
    return n;
}

static void out_and_back(struct world *w, struct end external)
{
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame sent = start(protocols[i], family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443);
            for (int round = 0; round < 2; round++) {
                send_from(w->b, w->pg, &sent);
                pump(w);
                struct frame out = expect_outside(w->a);
                assert_true(goes(&out, family, external, OUTSIDE));
                assert_int_equal(view_of(&out).ttl, 63);
                struct frame reply = reply_to(&out, TCP_SYN | TCP_ACK);
                from_outside(w->a, &reply);
                pump(w);
                struct frame at = expect_at(w->b, w->pg);
                assert_true(goes(&at, family, OUTSIDE, G));
                assert_int_equal(protocols[i] == IPPROTO_ICMP4 ? view_of(&at).sport : view_of(&at).dport, 4000);
            }
        }
    }
    assert_int_equal(flows_of(w->a), 0);
    assert_int_equal(flows_of(w->b), 6);
    struct node_counters n;
    node_counters(w->a->node, &n);
    assert_int_equal(n.external_forwarded, 12);
    assert_int_equal(n.underlay_forwarded, 12);
}

static void by_snat(void **state)
{
    struct world *w = *state;
    shared_on_b(w);
    out_and_back(w, SHARED);
}

static void by_floating(void **state)
{
    struct world *w = *state;
    floating_on_b(w);
    out_and_back(w, FLOATING);
}

static void new_inbound(void **state)
{
    struct world *w = *state;
    allow_all_in(&w->g);
    floating_on_b(w);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame in = start(protocols[i], family, OUTSIDE, 5000, FLOATING, 22);
            from_outside(w->a, &in);
            pump(w);
            struct frame at = expect_at(w->b, w->pg);
            assert_true(goes(&at, family, OUTSIDE, G));
            struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
            send_from(w->b, w->pg, &answer);
            pump(w);
            struct frame out = expect_outside(w->a);
            assert_true(goes(&out, family, FLOATING, OUTSIDE));
        }
    }
    assert_int_equal(flows_of(w->a), 0);
}

static void icmp_errors(void **state)
{
    struct world *w = *state;
    const struct end hop = {ROUTER_MAC, "192.0.2.77", "2001:db8:77::1"};
    allow_all_in(&w->g);
    shared_on_b(w);
    floating_on_b(w);
    w->g.b.nat.n_floating = 0;
    put(w->b, &w->g);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_from(w->b, w->pg, &sent);
        pump(w);
        struct frame out = expect_outside(w->a);
        struct frame error =
            error_about(family, hop, ip(address_of(SHARED, family)), &out, 60, family == 4 ? 11 : 3, 0);
        from_outside(w->a, &error);
        pump(w);
        struct frame at = expect_at(w->b, w->pg);
        assert_true(goes(&at, family, hop, G));
    }
    give_floating(&w->g, FLOATING, G);
    put(w->b, &w->g);
    EACH_FAMILY(family)
    { // and a guest's error about what came in
        struct frame in = udp(family, OUTSIDE, 5000, FLOATING, 33434, 10);
        from_outside(w->a, &in);
        pump(w);
        struct frame at = expect_at(w->b, w->pg);
        struct frame error = error_about(family, via(G, GUEST_MAC), ip(address_of(OUTSIDE, family)), &at, 60,
                                         family == 4 ? 3 : 1, family == 4 ? 3 : 4);
        frame_set_mac(&error, GATEWAY_MAC, GUEST_MAC);
        send_from(w->b, w->pg, &error);
        pump(w);
        struct frame out = expect_outside(w->a);
        assert_true(goes(&out, family, FLOATING, OUTSIDE));
    }
}

// A packet from outside that carries a peer's address as its source is no peer's.
static void t28_not_a_peer(void **state)
{
    struct world *w = *state;
    const struct uuid set = {.b = {9}};
    map(w->b, 100, Q.v4, Q.mac, NODE_C, 1);
    map(w->b, 100, Q.v6, Q.mac, NODE_C, 1);
    floating_on_b(w);
    for (int by_set = 0; by_set < 2; by_set++) {
        w->g.b.firewall.n_rules = 0;
        struct blueprint_rule *r = draft_rule(&w->g, "peers", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
        r->remote.kind = by_set ? BLUEPRINT_REMOTE_SET : BLUEPRINT_REMOTE_VPC;
        r->remote.set = set;
        struct ip_prefix members[] = {prefix("10.0.0.5/32"), prefix("fd00::5/128")};
        struct address_set s = {.id = set, .generation = 1, .cidrs = members, .n_cidrs = 2};
        struct node_error e;
        assert_true(node_address_set_put(w->b->node, &s, &e));
        put(w->b, &w->g);
        EACH_FAMILY(family)
        {
            for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
                uint16_t sport = (uint16_t)(5000 + by_set);
                struct frame inside = start(protocols[i], family, via(Q, Q.mac), sport, via(G, GUEST_MAC), 22);
                struct frame wire = in_geneve(&inside, 100, NODE_C, NODE_B);
                fake_underlay(w->b, wire.bytes, wire.len);
                expect_at(w->b, w->pg);
                struct frame forged = start(protocols[i], family, Q, sport, FLOATING, 22);
                from_outside(w->a, &forged);
                pump(w);
                expect_drop(w->b, w->pg, COUNT_IN, DROP_FIREWALL_DENY);
                forged = start(protocols[i], family, Q, sport, G, 22); // at the inner address: nobody's out there
                from_outside(w->a, &forged);
                expect_outside_drop(w->a, DROP_NO_EXTERNAL_MAPPING);
            }
        }
    }
}

static void in_vni(struct fake *f, const struct frame *inner, uint32_t vni, struct ip_addr from)
{
    struct frame wire = in_geneve(inner, vni, from, f->address);
    fake_underlay(f, wire.bytes, wire.len);
}

static void bad_vtep(void **state)
{
    struct world *w = *state;
    allow_all_in(&w->g);
    floating_on_b(w);
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, OUTSIDE, 5000, FLOATING, 22, 10);
        in_vni(w->b, &in, GENEVE_VNI_EDGE, NODE_C); // not an edge
        expect_drop(w->b, 0, 0, DROP_BAD_VTEP);
        in_vni(w->b, &in, GENEVE_VNI_EDGE, ip("fd00:cabe::99"));
        expect_drop(w->b, 0, 0, DROP_BAD_VTEP);
        in_vni(w->b, &in, GENEVE_VNI_EDGE, NODE_A);
        expect_at(w->b, w->pg);
        struct frame peer = udp(family, Q, 5000, via(G, GUEST_MAC), 22, 10);
        in_vni(w->b, &peer, 100, NODE_A); // an edge is no node of the VPC
        expect_drop(w->b, 0, 0, DROP_BAD_VTEP);
        struct frame out = udp(family, FLOATING, 5000, OUTSIDE, 443, 10);
        in_vni(w->a, &out, GENEVE_VNI_EDGE, NODE_C); // not the node that has the address
        expect_drop(w->a, 0, 0, DROP_BAD_VTEP);
        out = udp(family, FLOATING_2, 5000, OUTSIDE, 443, 10); // nobody's address
        in_vni(w->a, &out, GENEVE_VNI_EDGE, NODE_B);
        expect_drop(w->a, 0, 0, DROP_BAD_VTEP);
        out = udp(family, G, 5000, OUTSIDE, 443, 10); // not translated
        in_vni(w->a, &out, GENEVE_VNI_EDGE, NODE_B);
        expect_drop(w->a, 0, 0, DROP_BAD_VTEP);
    }
    // Of a shared address only the slice is the node's.
    map_external(w->a, SHARED, 2000, 2999, NODE_B, 1);
    struct frame out = udp(4, SHARED, 3000, OUTSIDE, 443, 10);
    in_vni(w->a, &out, GENEVE_VNI_EDGE, NODE_B);
    expect_drop(w->a, 0, 0, DROP_BAD_VTEP);
    serve(w->b, 2, 1, &NODE_C);
    struct frame in = udp(4, OUTSIDE, 5001, FLOATING, 22, 10);
    in_vni(w->b, &in, GENEVE_VNI_EDGE, NODE_A); // an edge no more
    expect_drop(w->b, 0, 0, DROP_BAD_VTEP);
}

// ---- the link's neighbours

static struct frame solicitation(struct ip_addr target)
{
    struct frame f = icmp(6, (struct end){ROUTER_MAC, NULL, "2001:db8:e::1"}, OUTSIDE, 135, 0);
    struct view v = view_of(&f);
    struct ip_addr group = ip("ff02::1:ff00:0");
    memcpy(group.b + 13, target.b + 13, 3);
    v.l3[7] = 255;
    memcpy(v.l3 + 24, group.b, 16);
    store_be16(v.l3 + 4, 32);
    f.len = 14 + 40 + 32;
    memcpy(v.l4 + 8, target.b, 16);
    v.l4[24] = 1;
    v.l4[25] = 1;
    memcpy(v.l4 + 26, ROUTER_MAC.b, 6);
    frame_fix(&f);
    frame_set_mac(&f, mac("33:33:ff:00:00:03"), ROUTER_MAC);
    return f;
}

static void asks(struct world *w, struct end who, bool answered)
{
    struct frame arp = arp_request(ROUTER_MAC, "198.51.100.1", who.v4), ns = solicitation(ip(who.v6));
    fake_external(w->a, 0, arp.bytes, arp.len);
    const struct fake_call *c = fake_next(w->a);
    assert_int_equal(c != NULL, answered);
    if (c) {
        assert_int_equal(c->kind, FAKE_EXTERNAL);
        assert_int_equal(c->len, 42);
        assert_memory_equal(c->frame, ROUTER_MAC.b, 6);
        assert_memory_equal(c->frame + 6, LINK_MAC.b, 6);
        assert_int_equal(load_be16(c->frame + 20), 2);
        assert_memory_equal(c->frame + 22, LINK_MAC.b, 6);
        assert_memory_equal(c->frame + 28, ip(who.v4).b + 12, 4);
        assert_memory_equal(c->frame + 32, ROUTER_MAC.b, 6);
    }
    fake_external(w->a, 0, ns.bytes, ns.len);
    c = fake_next(w->a);
    assert_int_equal(c != NULL, answered);
    if (c) {
        struct frame na = {.len = c->len};
        memcpy(na.bytes, c->frame, c->len);
        struct view v = view_of(&na);
        assert_int_equal(v.l4[0], 136);
        assert_int_equal(v.ttl, 255);
        assert_memory_equal(v.src.b, ip(who.v6).b, 16);
        assert_memory_equal(v.dst.b, ip("2001:db8:e::1").b, 16);
        assert_memory_equal(v.l4 + 8, ip(who.v6).b, 16);
        assert_memory_equal(v.l4 + 26, LINK_MAC.b, 6);
        assert_true(frame_checksums_right(na.bytes, na.len));
    }
}

static void owned_addresses(void **state)
{
    struct world *w = *state;
    struct draft local;
    asks(w, FLOATING, false);
    map_external(w->a, FLOATING, 0, 65535, NODE_B, 1);
    asks(w, FLOATING, true); // of another node's port
    asks(w, FLOATING_2, false);
    draft_init(&local, 7, 100, "10.0.0.7", "fd00::7", mac("02:00:00:00:00:07"));
    give_snat(&local, SHARED, 2000, 2999);
    put(w->a, &local);
    asks(w, SHARED, true); // of a port here
    asks(w, OUTSIDE, false);
    asks(w, G, false); // inner addresses are nobody's business
    EACH_FAMILY(family)
    {
        struct external_mapping m = {.address = ip(address_of(FLOATING, family)),
                                     .protocol = PROTOCOL_ANY,
                                     .ports = {0, 65535},
                                     .epoch = 2,
                                     .state = MAPPING_TOMBSTONE};
        struct node_error e;
        assert_true(node_external_mapping_put(w->a->node, &m, &e));
    }
    fake_quiesce(w->a);
    asks(w, FLOATING, false);
    struct node_error e;
    assert_true(node_blueprint_delete(w->a->node, &local.b.port, &e));
    fake_quiesce(w->a);
    asks(w, SHARED, false);
}

static unsigned questions(struct fake *f, unsigned *packets)
{
    unsigned n = 0;
    *packets = 0;
    for (const struct fake_call *c = fake_next(f); c; c = fake_next(f)) {
        bool arp = load_be16(c->frame + 12) == ETHERTYPE_ARP, ns = c->len == 86 && c->frame[54] == 135;
        n += arp || ns;
        *packets += !arp && !ns;
    }
    return n;
}

static void next_hop(void **state)
{
    struct world *w = *state;
    unsigned packets;
    floating_on_b(w);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 20; i++) {
            struct frame f = udp(family, FLOATING, (uint16_t)(5000 + i), OUTSIDE, 443, 10);
            in_vni(w->a, &f, GENEVE_VNI_EDGE, NODE_B);
        }
        assert_int_equal(questions(w->a, &packets), 1); // asked once, and nothing leaves meanwhile
        assert_int_equal(packets, 0);
        assert_int_equal(drops(w->a, 0, 0, DROP_NEXT_HOP_PENDING), family == 4 ? 4 : 8); // 16 wait
        fake_advance(w->a, 1100);
        assert_int_equal(questions(w->a, &packets), 1);
        fake_advance(w->a, 1100);
        assert_int_equal(questions(w->a, &packets), 1);
        fake_advance(w->a, 1100); // then it is given up, and what waited is accounted for
        assert_int_equal(questions(w->a, &packets), 0);
        assert_int_equal(outside_drops(w->a, DROP_NEXT_HOP_FAILED), family == 4 ? 16 : 32);
        struct frame f = udp(family, FLOATING, 5000, OUTSIDE, 443, 10);
        in_vni(w->a, &f, GENEVE_VNI_EDGE, NODE_B); // and asked for again
        struct frame out = expect_outside(w->a);
        assert_true(goes(&out, family, FLOATING, OUTSIDE));
        in_vni(w->a, &f, GENEVE_VNI_EDGE, NODE_B); // known now
        assert_int_equal(questions(w->a, &packets), 0);
        assert_int_equal(packets, 1);
    }
}

static void next_hop_order(void **state)
{
    struct world *w = *state;
    floating_on_b(w);
    EACH_FAMILY(family)
    {
        const struct end neighbour = {ROUTER_MAC, "198.51.100.77", "2001:db8:e::77"}; // on the link itself
        for (unsigned i = 0; i < 5; i++) {
            struct frame f = udp(family, FLOATING, (uint16_t)(5000 + i), neighbour, 443, 10);
            in_vni(w->a, &f, GENEVE_VNI_EDGE, NODE_B);
        }
        const struct fake_call *c = fake_next(w->a);
        struct ip_addr asked = family == 4 ? ip_from_v4(c->frame + 38) : ip_from_v6(c->frame + 62);
        struct ip_addr expected = ip(address_of(neighbour, family));
        assert_true(ip_equal(&asked, &expected)); // not the router
        w->a->next--;
        while (w->a->calls[w->a->next].frame != c->frame)
            w->a->next--;
        for (unsigned i = 0; i < 5; i++) {
            if (i == 0) { // the answer lets all go, in the order they came
                const struct fake_call *q = fake_next(w->a);
                struct frame answer = {.len = q->len};
                memcpy(answer.bytes, q->frame, q->len);
                if (family == 4) {
                    store_be16(answer.bytes + 20, 2);
                    memcpy(answer.bytes + 32, answer.bytes + 22, 10);
                    memcpy(answer.bytes + 28, expected.b + 12, 4);
                    memcpy(answer.bytes + 22, ROUTER_MAC.b, 6);
                } else {
                    struct view v = view_of(&answer);
                    memcpy(v.l3 + 24, v.l3 + 8, 16);
                    memcpy(v.l3 + 8, expected.b, 16);
                    v.l4[0] = 136;
                    v.l4[24] = 2;
                    memcpy(v.l4 + 26, ROUTER_MAC.b, 6);
                    frame_fix(&answer);
                }
                frame_set_mac(&answer, LINK_MAC, ROUTER_MAC);
                fake_external(w->a, 0, answer.bytes, answer.len);
            }
            const struct fake_call *sent = fake_next(w->a);
            assert_non_null(sent);
            struct frame f = {.len = sent->len};
            memcpy(f.bytes, sent->frame, sent->len);
            assert_int_equal(view_of(&f).sport, 5000 + i);
            assert_memory_equal(f.bytes, ROUTER_MAC.b, 6);
        }
    }
}

// ---- between external addresses

static void meet(struct world *w, struct fake *from, uint32_t from_port, struct end inner, struct end as,
                 struct fake *to, uint32_t to_port, struct end at_address, struct end target)
{
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame sent = start(protocols[i], family, inner, 4000, via(target, GATEWAY_MAC), 80);
            for (int round = 0; round < 2; round++) {
                send_from(from, from_port, &sent);
                pump(w);
                struct frame at = expect_at(to, to_port);
                assert_true(goes(&at, family, as, at_address));
                struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
                send_from(to, to_port, &answer);
                pump(w);
                at = expect_at(from, from_port);
                assert_true(goes(&at, family, target, inner));
            }
        }
    }
}

static void hairpin(void **state)
{
    struct world *w = *state;
    allow_all_in(&w->g);
    allow_all_in(&w->q);
    floating_on_b(w);
    give_floating(&w->q, FLOATING_2, Q);
    put(w->c, &w->q);
    map_external(w->a, FLOATING_2, 0, 65535, NODE_C, 1);
    meet(w, w->b, w->pg, G, FLOATING, w->c, w->pq, Q, FLOATING_2);
    assert_int_equal(flows_of(w->a), 0);
    meet(w, w->c, w->pq, Q, FLOATING_2, w->b, w->pg, G, FLOATING);
}

static void hairpin_at_edge(void **state)
{
    struct world *w = *state;
    struct draft local;
    const struct end seven = {{{2, 0, 0, 0, 0, 7}}, "10.0.0.7", "fd00::7"};
    allow_all_in(&w->g);
    floating_on_b(w);
    draft_init(&local, 7, 200, seven.v4, seven.v6, seven.mac);
    give_floating(&local, FLOATING_2, seven);
    allow_all_in(&local);
    uint32_t port = put(w->a, &local);
    meet(w, w->b, w->pg, G, FLOATING, w->a, port, seven, FLOATING_2);
    meet(w, w->a, port, seven, FLOATING_2, w->b, w->pg, G, FLOATING);
}

// ---- which edge

static void t21_spread(void **state)
{
    struct lab *l = *state;
    enum { FLOWS = 10000, EDGES = 4 };
    static uint8_t chosen[2][FLOWS];
    struct ip_addr edges[EDGES] = {ip("fd00:cabe::21"), ip("fd00:cabe::22"), ip("fd00:cabe::23"), ip("fd00:cabe::24")};
    const struct ip_addr fewer[] = {edges[0], edges[1], edges[3]};
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        for (unsigned round = 0; round < 2; round++) {
            unsigned count[EDGES] = {0};
            serve(l->a, (uint64_t)family * 10 + round, round ? 3 : 4, round ? fewer : edges);
            for (unsigned i = 0; i < FLOWS; i++) {
                struct frame f = udp(family, G, (uint16_t)(10000 + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
                send_guest(l, &f);
                const struct fake_call *c = fake_next(l->a);
                assert_non_null(c);
                unsigned e = c->node.b[15] - 0x21u;
                assert_in_range(e, 0, EDGES - 1);
                assert_int_equal(load_be32(c->frame + 66) >> 8, GENEVE_VNI_EDGE);
                chosen[round][i] = (uint8_t)e;
                count[e]++;
                if (i % 10 == 0) { // each packet of a flow
                    send_guest(l, &f);
                    c = fake_next(l->a);
                    assert_int_equal(c->node.b[15] - 0x21u, e);
                }
                if (round)
                    assert_true(chosen[0][i] == 2 ? e != 2 : e == chosen[0][i]);
                if (i % 1000 == 999) {
                    struct node_error error;
                    assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &error));
                    fake_quiesce(l->a);
                }
            }
            for (unsigned e = 0; round == 0 && e < EDGES; e++)
                assert_in_range(count[e], FLOWS / EDGES * 9 / 10, FLOWS / EDGES * 11 / 10);
        }
    }
}

// The binding is the guest node's: when an edge goes, its flows go on by another, as the same address and port.
static void t21_edge_goes(void **state)
{
    struct world *w = *state;
    shared_on_b(w);
    struct frame sent = udp(4, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
    send_from(w->b, w->pg, &sent);
    struct frame first = expect_carried(w->b, NODE_A, GENEVE_VNI_EDGE);
    serve(w->b, 2, 1, &NODE_C);
    send_from(w->b, w->pg, &sent);
    struct frame second = expect_carried(w->b, NODE_C, GENEVE_VNI_EDGE);
    assert_int_equal(view_of(&first).sport, view_of(&second).sport);
    serve(w->b, 3, 0, NULL);
    send_from(w->b, w->pg, &sent);
    expect_drop(w->b, w->pg, COUNT_OUT, DROP_NO_EDGE);
    serve(w->b, 4, 1, &NODE_A);
    send_from(w->b, w->pg, &sent);
    struct frame third = expect_carried(w->b, NODE_A, GENEVE_VNI_EDGE);
    assert_int_equal(view_of(&first).sport, view_of(&third).sport);
}

#define WORLD(text, fn) \
    { \
        text, fn, setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD("an edge carries another node's guest outside and back by SNAT, without state", by_snat),
        WORLD("an edge carries another node's guest outside and back by floating IP, without state", by_floating),
        WORLD("an edge carries new flows to a floating IP of another node", new_inbound),
        WORLD("T55, T56 ICMP errors find their way through an edge, both ways", icmp_errors),
        WORLD("T28 a packet from outside with a peer's address is not in the VPC", t28_not_a_peer),
        WORLD("T12 the reserved VNI is for edges, and at an edge for the nodes of its addresses", bad_vtep),
        WORLD("ARP and NS on the link are answered for owned addresses only", owned_addresses),
        WORLD("packets wait for their next hop, and are accounted for when there is none", next_hop),
        WORLD("packets that waited for their next hop leave in order", next_hop_order),
        WORLD("T58 floating IPs of two nodes meet at the edge", hairpin),
        WORLD("T58 a floating IP at the edge itself and one of another node meet", hairpin_at_edge),
        TEST("T21 10,000 flows spread over 4 edges, and removing one moves only its own", t21_spread),
        WORLD("T21 a flow whose edge goes keeps its address and port", t21_edge_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
