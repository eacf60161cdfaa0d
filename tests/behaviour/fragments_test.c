// SPDX-License-Identifier: MPL-2.0
// Fragments: each goes its own way as it came, but with the verdict that its datagram's first one got.
#include "tests/behaviour/pieces.h"

#define EACH 400

static const uint8_t protocols[] = {IPPROTO_UDP4, IPPROTO_TCP4, IPPROTO_ICMP4};

static struct frame big(uint8_t protocol, int family, struct end src, struct end dst)
{
    switch (protocol) {
    case IPPROTO_UDP4:
        return udp(family, src, 4000, dst, 9000, 1000);
    case IPPROTO_TCP4:
        return tcp(family, src, 4000, dst, 9000, TCP_SYN, 1, 0, 1000);
    default:
        return icmp_echo(family, src, dst, false, 77, 1, 1000);
    }
}

static struct pieces three(const struct frame *whole, uint32_t id)
{
    struct pieces p = cut(whole, EACH, id);
    assert_int_equal(p.n, 3);
    return p;
}

static void allow_port(struct draft *d, uint16_t port)
{
    struct blueprint_rule *r = draft_rule(d, "in", 10, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_UDP4);
    rule_ports(d, r, port, port);
}

// All that came since, with `skip` bytes in front.
static struct pieces came(struct fake *f, enum fake_kind kind, uint32_t skip)
{
    struct pieces p = {0};
    for (const struct fake_call *c = fake_next(f); c; c = fake_next(f)) {
        assert_int_equal(c->kind, kind);
        assert_true(p.n < PIECES);
        p.f[p.n].len = c->len - skip;
        memcpy(p.f[p.n++].bytes, c->frame + skip, c->len - skip);
    }
    return p;
}

static struct pieces came_out(struct fake *f)
{
    return came(f, FAKE_UNDERLAY, GENEVE_ENCAP_LEN);
}

static struct pieces came_in(struct fake *f)
{
    return came(f, FAKE_DELIVER, 0);
}

static void spend(struct fake *f, uint32_t port, int dir, enum drop reason, unsigned n)
{
    uint64_t *spent = &f->spent_drops[port][dir][reason];
    expect_nothing(f);
    if (drops(f, port, dir, reason) != *spent + n)
        fail_msg("%lu more were dropped as %s, not %u", drops(f, port, dir, reason) - *spent, drop_name(reason), n);
    *spent += n;
}

// ---- Whole ways

static void out(void **state)
{
    struct lab *l = *state;
    uint32_t id = 1;
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame whole = big(protocols[i], family, G, via(P, GATEWAY_MAC));
            struct pieces p = three(&whole, id++);
            uint16_t path = 0;
            for (unsigned k = 0; k < 3; k++) {
                send_guest(l, &p.f[k]);
                const struct fake_call *c = expect_underlay(l->a, NODE_B);
                expect_inner(c, p.f[k], PEER_MAC, GUEST_MAC);
                assert_true(k == 0 || load_be16(c->frame + 54) == path); // one flow, one path
                path = load_be16(c->frame + 54);
            }
            assert_int_equal(flows(l->a, l->g), 1);
            struct flow_info flow = only_flow(l->a, l->g);
            assert_int_equal(flow.packets[FLOW_OUT], 3);
            struct node_error e;
            assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
            fake_quiesce(l->a);
        }
    }
}

static void every_order(void **state)
{
    struct lab *l = *state;
    allow_port(&l->guest, 9000);
    put(l->a, &l->guest);
    uint32_t id = 1;
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, P, 4000, G, 9000, 1500);
        struct frame sent = udp(family, G, 5000, via(P, GATEWAY_MAC), 9000, 1500);
        for (unsigned i = 0; i < 24; i++) {
            unsigned order[4];
            order_of(4, i, order);
            struct pieces p = cut(&in, EACH, id), q = cut(&sent, EACH, id);
            id++;
            assert_int_equal(p.n, 4);
            for (unsigned k = 0; k < 4; k++)
                receive_vpc(l, &p.f[order[k]]);
            struct pieces got = came_in(l->a);
            assert_int_equal(got.n, 4);
            struct frame whole = join(&got);
            assert_memory_equal(whole.bytes + 14, in.bytes + 14, family == 4 ? 4 : 40);
            assert_true(goes(&whole, family, P, G));
            for (unsigned k = 0; k < 4; k++)
                send_guest(l, &q.f[order[k]]);
            got = came_out(l->a);
            assert_int_equal(got.n, 4);
            whole = join(&got);
            assert_true(goes(&whole, family, G, P));
        }
    }
    check_conservation(l->a);
}

static void denied(void **state)
{
    struct lab *l = *state;
    allow_port(&l->guest, 9000);
    put(l->a, &l->guest);
    uint32_t id = 1;
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, P, 4000, G, 22, 1000);
        for (unsigned i = 0; i < 6; i++) {
            unsigned order[3];
            order_of(3, i, order);
            struct pieces p = three(&in, id++);
            for (unsigned k = 0; k < 3; k++)
                receive_vpc(l, &p.f[order[k]]);
            spend(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY, 3);
        }
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void rejected(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "no", 10, BLUEPRINT_OUT, BLUEPRINT_REJECT, IPPROTO_UDP4);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame whole = big(IPPROTO_UDP4, family, G, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 9);
        send_guest(l, &p.f[1]);
        expect_nothing(l->a);
        send_guest(l, &p.f[0]);
        expect_deliver(l->a, l->g); // one answer for the datagram
        send_guest(l, &p.f[2]);
        spend(l->a, l->g, COUNT_OUT, DROP_FIREWALL_REJECT, 3);
    }
}

static void no_ports_no_flow(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame whole = other(family, P, G, 47, 1000); // GRE: a flow without ports
        struct pieces p = three(&whole, 3);
        receive_vpc(l, &p.f[0]);
        receive_vpc(l, &p.f[1]);
        spend(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY, 2);
        whole = other(family, G, via(P, GATEWAY_MAC), 47, 1000);
        p = three(&whole, 3);
        for (unsigned k = 0; k < 3; k++) {
            send_guest(l, &p.f[k]);
            expect_inner(expect_underlay(l->a, NODE_B), p.f[k], PEER_MAC, GUEST_MAC);
        }
    }
}

// ---- Hostile ones

static void overlapping(void **state)
{
    static const struct {
        uint16_t offset, bytes;
        bool more;
    } bad[] = {{8, 400, true}, {392, 400, true}, {400, 408, true}, {400, 392, true}, {400, 400, false}, {16, 8, false}};
    struct lab *l = *state;
    allow_port(&l->guest, 9000);
    put(l->a, &l->guest);
    uint32_t id = 1;
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, P, 4000, G, 9000, 1500);
        for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
            struct pieces p = cut(&in, EACH, id);
            struct frame evil = cut_one(&in, bad[i].offset, bad[i].bytes, bad[i].more, id++);
            receive_vpc(l, &p.f[0]);
            receive_vpc(l, &p.f[1]);
            assert_int_equal(came_in(l->a).n, 2);
            receive_vpc(l, &evil);
            receive_vpc(l, &p.f[2]); // RFC 5722: and the rest with it
            spend(l->a, l->g, COUNT_IN, DROP_FRAGMENT_OVERLAP, 2);

            p = cut(&in, EACH, id); // the same before anything was passed
            evil = cut_one(&in, bad[i].offset, bad[i].bytes, bad[i].more, id++);
            receive_vpc(l, &p.f[1]);
            receive_vpc(l, &evil);
            receive_vpc(l, &p.f[0]);
            spend(l->a, l->g, COUNT_IN, DROP_FRAGMENT_OVERLAP, 3);
        }
    }
}

static void repeated(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame whole = big(IPPROTO_UDP4, family, G, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 5);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned k = 0; k < 2; k++)
                send_guest(l, &p.f[k]);
        assert_int_equal(came_out(l->a).n, 4);
        send_guest(l, &p.f[2]);
        assert_int_equal(came_out(l->a).n, 1);
    }
}

static void second_first(void **state)
{
    struct lab *l = *state;
    allow_port(&l->guest, 9000);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame good = udp(family, P, 4000, G, 9000, 1000), evil = udp(family, P, 4000, G, 22, 1000);
        struct pieces p = three(&good, 5), q = three(&evil, 5);
        receive_vpc(l, &p.f[0]);
        expect_deliver(l->a, l->g);
        receive_vpc(l, &q.f[0]);
        receive_vpc(l, &p.f[1]);
        receive_vpc(l, &p.f[2]);
        spend(l->a, l->g, COUNT_IN, DROP_FRAGMENT_OVERLAP, 3);
    }
}

static void tiny(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame in = tcp(family, P, 4000, G, 80, TCP_SYN, 1, 0, 1000);
        struct frame f = cut_one(&in, 0, 16, true, 1); // the TCP flags are in the next one
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_BAD_L4_HEADER);
        f = cut_one(&in, 8, 400, true, 1); // RFC 3128: would overwrite them
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_BAD_L4_HEADER);
        f = cut_one(&in, 400, 0, true, 1);
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_BAD_IP_HEADER);
        f = cut_one(&in, 65528, 400, false, 1); // ping of death
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_BAD_IP_HEADER);
        f = cut_one(&in, 400, 399, true, 1);
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_BAD_IP_HEADER);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void errors_in_pieces(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 4000, via(P, GATEWAY_MAC), 9000, 1000);
        send_guest(l, &sent);
        expect_underlay(l->a, NODE_B);
        struct frame error = error_about(family, P, ip(address_of(G, family)), &sent, 900, family == 4 ? 3 : 1, 1);
        frame_set_mac(&error, GUEST_MAC, PEER_MAC);
        struct pieces p = three(&error, 1);
        for (unsigned k = 0; k < 3; k++)
            receive_vpc(l, &p.f[(k + 1) % 3]);
        spend(l->a, l->g, COUNT_IN, DROP_FRAGMENT, 3);
    }
}

static void spoofed(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct end liar = {GUEST_MAC, Q.v4, Q.v6};
        struct frame whole = big(IPPROTO_UDP4, family, liar, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 1);
        for (unsigned k = 0; k < 3; k++) {
            send_guest(l, &p.f[2 - k]);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        }
    }
}

// ---- Bounds

static void too_many_wait(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame whole = udp(family, G, 4000, via(P, GATEWAY_MAC), 9000, 1000);
        for (unsigned k = 1; k <= 16; k++) {
            struct frame f = cut_one(&whole, 8 * k, 8, true, 6);
            send_guest(l, &f);
            expect_nothing(l->a);
        }
        assert_int_equal(l->a->live_packets, 16);
        struct frame f = cut_one(&whole, 8 * 17, 8, true, 6);
        send_guest(l, &f);
        spend(l->a, l->g, COUNT_OUT, DROP_FRAGMENT_LIMIT, 17); // without that one the others are worth nothing
        assert_int_equal(l->a->live_packets, 0);
        f = cut_one(&whole, 0, 8, true, 6);
        send_guest(l, &f);
        spend(l->a, l->g, COUNT_OUT, DROP_FRAGMENT_LIMIT, 1);
    }
}

static void expires(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame whole = big(IPPROTO_UDP4, family, G, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 8);
        send_guest(l, &p.f[1]);
        send_guest(l, &p.f[2]);
        fake_advance(l->a, 29000);
        assert_int_equal(l->a->live_packets, 2);
        fake_advance(l->a, 1000);
        fake_forget(l->a); // an advertisement perhaps
        spend(l->a, l->g, COUNT_OUT, DROP_FRAGMENT_TIMEOUT, 2);
        assert_int_equal(l->a->live_packets, 0);

        send_guest(l, &p.f[0]);
        expect_underlay(l->a, NODE_B);
        fake_advance(l->a, 30000);
        fake_forget(l->a);
        send_guest(l, &p.f[1]); // the first one is forgotten
        expect_nothing(l->a);
        fake_advance(l->a, 30000);
        fake_forget(l->a);
        spend(l->a, l->g, COUNT_OUT, DROP_FRAGMENT_TIMEOUT, 1);
    }
}

static void flood(void **state)
{
    struct lab *l = *state;
    struct draft d;
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    uint32_t q = put(l->a, &d);
    EACH_FAMILY(family)
    {
        struct frame mine = udp(family, Q, 4000, via(P, GATEWAY_MAC), 9000, 1000);
        struct frame theirs = udp(family, G, 4000, via(P, GATEWAY_MAC), 9000, 1000);
        struct pieces p = three(&mine, 1);
        send_from(l->a, q, &p.f[1]);
        for (uint32_t id = 0; id < 20000; id++) {
            struct frame f = cut_one(&theirs, id & 1 ? 400 : 0, 400, true, id);
            send_guest(l, &f);
            assert_true(l->a->live_packets <= 65);
        }
        fake_forget(l->a);
        send_from(l->a, q, &p.f[2]);
        send_from(l->a, q, &p.f[0]);
        assert_int_equal(came_out(l->a).n, 3); // another's flood cost this guest nothing
        fake_advance(l->a, 31000);
        fake_forget(l->a);
        assert_int_equal(l->a->live_packets, 0);
        assert_int_equal(drops(l->a, q, COUNT_OUT, DROP_FRAGMENT_LIMIT), 0);
    }
}

// ---- Policy and ports that change in between

static void revoked(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        l->guest.b.firewall.default_in_allow = true;
        put(l->a, &l->guest);
        struct frame in = udp(family, P, 4000, G, 9000, 1500);
        struct pieces p = cut(&in, EACH, 2);
        receive_vpc(l, &p.f[0]);
        receive_vpc(l, &p.f[1]);
        assert_int_equal(came_in(l->a).n, 2);
        l->guest.b.firewall.default_in_allow = false;
        put(l->a, &l->guest);
        receive_vpc(l, &p.f[2]);
        receive_vpc(l, &p.f[3]);
        spend(l->a, l->g, COUNT_IN, DROP_REVALIDATE_DENY, 2);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void connection_ended(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    EACH_FAMILY(family)
    {
        struct frame whole = big(IPPROTO_UDP4, family, G, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 2);
        send_guest(l, &p.f[0]);
        expect_underlay(l->a, NODE_B);
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_quiesce(l->a);
        send_guest(l, &p.f[1]);
        send_guest(l, &p.f[2]);
        spend(l->a, l->g, COUNT_OUT, DROP_FRAGMENT_ORPHAN, 2);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void port_goes(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    EACH_FAMILY(family)
    {
        struct frame whole = big(IPPROTO_UDP4, family, G, via(P, GATEWAY_MAC));
        struct pieces p = three(&whole, 2);
        send_guest(l, &p.f[1]);
        assert_int_equal(l->a->live_packets, 1);
        assert_true(node_blueprint_delete(l->a->node, &l->guest.b.port, &e));
        fake_quiesce(l->a);
        l->g = put(l->a, &l->guest);
        send_guest(l, &p.f[0]);
        assert_int_equal(came_out(l->a).n, 1); // what another port's life left has nothing to do with it
        fake_advance(l->a, 250);
        fake_forget(l->a);
        assert_int_equal(l->a->live_packets, 0);
        check_conservation(l->a);
        memset(l->a->spent_drops, 0, sizeof(l->a->spent_drops));
    }
    struct frame whole = big(IPPROTO_UDP4, 4, G, via(P, GATEWAY_MAC));
    struct frame f = cut_one(&whole, 400, 400, true, 99);
    send_guest(l, &f); // and the node itself may go while one waits
}

// ---- The gateway, atomic fragments

static void echo_to_gateway(void **state)
{
    static const struct end gateway = {MAC_OF(1), "10.0.0.1", "fd00::1"};
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame ping = icmp_echo(family, G, gateway, false, 5, 1, 1000);
        struct pieces p = three(&ping, 1);
        for (unsigned k = 0; k < 3; k++)
            send_guest(l, &p.f[2 - k]);
        struct pieces got = came_in(l->a);
        assert_int_equal(got.n, 3);
        struct frame whole = join(&got);
        assert_true(goes(&whole, family, gateway, G));
        assert_int_equal(*view_of(&whole).l4, family == 4 ? 0 : 129);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void atomic(void **state)
{
    struct lab *l = *state;
    struct frame whole = udp(6, G, 4000, via(P, GATEWAY_MAC), 9000, 100);
    send_guest(l, &whole);
    expect_underlay(l->a, NODE_B);
    for (unsigned i = 0; i < 3; i++) { // one identification for all, as RFC 6946 says
        struct frame f = cut_one(&whole, 0, 108, false, 0);
        send_guest(l, &f);
        expect_inner(expect_underlay(l->a, NODE_B), f, PEER_MAC, GUEST_MAC);
    }
    assert_int_equal(only_flow(l->a, l->g).packets[FLOW_OUT], 4);
}

// ---- Between ports and through translation

static void local_ports(void **state)
{
    struct lab *l = *state;
    struct draft d;
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    allow_all_in(&d);
    uint32_t q = put(l->a, &d);
    map(l->a, 100, Q.v4, Q.mac, NODE_A, 1);
    map(l->a, 100, Q.v6, Q.mac, NODE_A, 1);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 6; i++) {
            unsigned order[3];
            order_of(3, i, order);
            struct frame whole = big(protocols[i % 3], family, G, via(Q, GATEWAY_MAC));
            struct pieces p = three(&whole, 100 + i);
            for (unsigned k = 0; k < 3; k++)
                send_guest(l, &p.f[order[k]]);
            unsigned at = l->a->next;
            struct pieces got = came_in(l->a);
            assert_int_equal(got.n, 3);
            assert_int_equal(l->a->calls[at].where, q);
            struct frame joined = join(&got);
            assert_true(goes(&joined, family, G, Q));
        }
    }
}

static void hairpin(void **state)
{
    struct lab *l = *state;
    struct draft d;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    give_floating(&d, FLOATING_2, Q);
    allow_all_in(&d);
    put(l->a, &d);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 6; i++) {
            unsigned order[3];
            order_of(3, i, order);
            struct frame whole = big(protocols[i % 3], family, G, via(FLOATING_2, GATEWAY_MAC));
            struct pieces p = three(&whole, 100 + i);
            for (unsigned k = 0; k < 3; k++)
                send_guest(l, &p.f[order[k]]);
            struct pieces got = came_in(l->a);
            assert_int_equal(got.n, 3);
            struct frame joined = join(&got);
            assert_true(goes(&joined, family, FLOATING, Q));
        }
    }
}

static struct frame outside_of(struct fake *f, struct pieces *p)
{
    *p = came(f, FAKE_EXTERNAL, 0);
    return join(p);
}

static void know_router(struct lab *l)
{
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1, via(OUTSIDE, GATEWAY_MAC), 1, 1);
        send_guest(l, &f);
        expect_outside(l->a);
    }
}

static void out_and_back(struct lab *l, struct end external)
{
    uint32_t id = 1;
    know_router(l);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 18; i++) {
            unsigned order[3];
            order_of(3, i / 3, order);
            struct frame whole = big(protocols[i % 3], family, G, via(OUTSIDE, GATEWAY_MAC));
            struct pieces p = three(&whole, id++), got;
            for (unsigned k = 0; k < 3; k++)
                send_guest(l, &p.f[order[k]]);
            struct frame sent = outside_of(l->a, &got);
            assert_int_equal(got.n, 3);
            assert_true(goes(&sent, family, external, OUTSIDE));
            assert_int_equal(view_of(&sent).ttl, 63);

            struct frame reply = reply_to(&sent, TCP_SYN | TCP_ACK);
            p = three(&reply, id++);
            for (unsigned k = 0; k < 3; k++)
                from_outside(l->a, &p.f[order[k]]);
            got = came_in(l->a);
            assert_int_equal(got.n, 3);
            struct frame at = join(&got);
            assert_true(goes(&at, family, OUTSIDE, G));
            assert_int_equal(protocols[i % 3] == IPPROTO_ICMP4 ? view_of(&at).sport : view_of(&at).dport,
                             protocols[i % 3] == IPPROTO_ICMP4 ? 77 : 4000);
        }
    }
}

static void snat(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    out_and_back(l, SHARED);
}

static void floating(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    out_and_back(l, FLOATING);
}

// Two guests behind one shared address: only ports tell whose the later fragments are.
static void shared_by_two(void **state)
{
    struct lab *l = *state;
    struct draft d;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    give_snat(&d, SHARED, 3000, 3999);
    uint32_t q = put(l->a, &d);
    EACH_FAMILY(family)
    {
        struct frame a = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 1000);
        struct frame b = udp(family, Q, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 1000);
        send_guest(l, &a);
        struct frame out_a = expect_outside(l->a);
        send_from(l->a, q, &b);
        struct frame out_b = expect_outside(l->a);
        struct frame reply_a = reply_to(&out_a, 0), reply_b = reply_to(&out_b, 0);
        struct pieces pa = three(&reply_a, 1), pb = three(&reply_b, 2);
        for (int k = 2; k >= 0; k--) {
            from_outside(l->a, &pa.f[k]);
            from_outside(l->a, &pb.f[k]);
        }
        unsigned to_a = 0, to_b = 0;
        for (const struct fake_call *c = fake_next(l->a); c; c = fake_next(l->a)) {
            assert_int_equal(c->kind, FAKE_DELIVER);
            assert_memory_equal(c->frame, c->where == q ? Q.mac.b : G.mac.b, 6);
            to_a += c->where == l->g;
            to_b += c->where == q;
        }
        assert_int_equal(to_a, 3);
        assert_int_equal(to_b, 3);
        struct frame stray = cut_one(&reply_a, 400, 8, true, 77);
        from_outside(l->a, &stray);
        expect_nothing(l->a);
        fake_advance(l->a, 31000);
        fake_forget(l->a);
        expect_outside_drop(l->a, DROP_FRAGMENT_TIMEOUT);
    }
}

// ---- The edge is another node

struct remote {
    struct fake *nodes[2];
    struct fake *a, *b; // edge, guest's
    struct draft g;
    uint32_t port;
};

static int remote_setup(void **state)
{
    struct remote *r = calloc(1, sizeof(*r));
    struct node_config edge = edge_config(NODE_A), plain = lab_config(NODE_B);
    r->a = r->nodes[0] = fake_create();
    r->b = r->nodes[1] = fake_create();
    assert_true(fake_start(r->a, &edge) && fake_start(r->b, &plain));
    serve(r->a, 1, 1, &NODE_A);
    serve(r->b, 1, 1, &NODE_A);
    draft_guest(&r->g);
    *state = r;
    return 0;
}

static int remote_teardown(void **state)
{
    struct remote *r = *state;
    for (unsigned i = 0; i < 2; i++) {
        check_conservation(r->nodes[i]);
        fake_destroy(r->nodes[i]);
    }
    free(r);
    return 0;
}

static void through_edge(struct remote *r, struct end external)
{
    uint32_t id = 1;
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1, via(OUTSIDE, GATEWAY_MAC), 1, 1);
        send_from(r->b, r->port, &f);
        fake_pump(r->nodes, 2);
        expect_outside(r->a);
        for (unsigned i = 0; i < 18; i++) {
            unsigned order[3];
            order_of(3, i / 3, order);
            struct frame whole = big(protocols[i % 3], family, G, via(OUTSIDE, GATEWAY_MAC));
            struct pieces p = three(&whole, id++), got;
            for (unsigned k = 0; k < 3; k++) {
                send_from(r->b, r->port, &p.f[order[k]]);
                fake_pump(r->nodes, 2);
            }
            struct frame sent = outside_of(r->a, &got);
            assert_int_equal(got.n, 3);
            assert_true(goes(&sent, family, external, OUTSIDE));

            struct frame reply = reply_to(&sent, TCP_SYN | TCP_ACK);
            p = three(&reply, id++);
            for (unsigned k = 0; k < 3; k++) {
                from_outside(r->a, &p.f[order[k]]);
                fake_pump(r->nodes, 2);
            }
            got = came_in(r->b);
            assert_int_equal(got.n, 3);
            struct frame at = join(&got);
            assert_true(goes(&at, family, OUTSIDE, G));
            expect_nothing(r->a);
        }
    }
}

static void snat_elsewhere(void **state)
{
    struct remote *r = *state;
    give_snat(&r->g, SHARED, 2000, 2999);
    r->port = put(r->b, &r->g);
    map_external(r->a, SHARED, 2000, 2999, NODE_B, 1);
    through_edge(r, SHARED);
}

static void floating_elsewhere(void **state)
{
    struct remote *r = *state;
    give_floating(&r->g, FLOATING, G);
    r->port = put(r->b, &r->g);
    map_external(r->a, FLOATING, 0, 65535, NODE_B, 1);
    through_edge(r, FLOATING);
}

// What another node sends in the name of an address that is not its own joins no datagram.
static void foreign_node(void **state)
{
    struct remote *r = *state;
    give_snat(&r->g, SHARED, 2000, 2999);
    r->port = put(r->b, &r->g);
    map_external(r->a, SHARED, 2000, 2999, NODE_B, 1);
    EACH_FAMILY(family)
    {
        struct frame whole = udp(family, SHARED, 2000, via(OUTSIDE, LINK_MAC), 53, 1000);
        struct pieces p = three(&whole, 1);
        struct frame f = in_geneve(&p.f[0], GENEVE_VNI_EDGE, NODE_B, NODE_A);
        fake_underlay(r->a, f.bytes, f.len);
        expect_outside(r->a);
        f = in_geneve(&p.f[1], GENEVE_VNI_EDGE, NODE_C, NODE_A);
        fake_underlay(r->a, f.bytes, f.len);
        expect_nothing(r->a);
        fake_advance(r->a, 31000);
        fake_forget(r->a);
        expect_drop(r->a, 0, 0, DROP_FRAGMENT_TIMEOUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T64 fragments of a datagram go the way of the first, as they came", out),
        TEST("T64 fragments pass in any order", every_order),
        TEST("T64 a denied first fragment denies its datagram in any order", denied),
        TEST("T64 a rejected datagram is answered once", rejected),
        TEST("T64 fragments of protocols without ports", no_ports_no_flow),
        TEST("T64 overlapping fragments end their datagram", overlapping),
        TEST("T64 the same fragment again passes", repeated),
        TEST("T64 a second first fragment with other ports ends the datagram", second_first),
        TEST("T64 tiny, empty and impossible fragments drop", tiny),
        TEST("T64 ICMP errors are never sent in fragments", errors_in_pieces),
        TEST("T64 spoofed fragments never wait", spoofed),
        TEST("T64 few fragments of a datagram wait for its first", too_many_wait),
        TEST("T64 a datagram without its first fragment ends after 30 s", expires),
        TEST("T64 a flood of identifications is bounded and costs only its guest", flood),
        TEST("T64 fragments of a revoked flow drop", revoked),
        TEST("T64 fragments open no connection again", connection_ended),
        TEST("T64 a port that goes takes its fragments along", port_goes),
        TEST("T6 T64 an echo to the gateway in fragments is answered in fragments", echo_to_gateway),
        TEST("T64 an atomic fragment is a whole packet", atomic),
        TEST("T64 fragments between ports of a node", local_ports),
        {"T58 T64 fragments by hairpin", hairpin, edge_setup, lab_teardown, NULL},
        {"T50 T64 fragments through SNAT and back", snat, edge_setup, lab_teardown, NULL},
        {"T51 T64 fragments through a floating IP and back", floating, edge_setup, lab_teardown, NULL},
        {"T64 fragments to an address that two guests share", shared_by_two, edge_setup, lab_teardown, NULL},
        {"T64 fragments through SNAT and another node's edge", snat_elsewhere, remote_setup, remote_teardown, NULL},
        {"T64 fragments through a floating IP and another node's edge", floating_elsewhere, remote_setup,
         remote_teardown, NULL},
        {"T64 fragments of a node that has not the address join nothing", foreign_node, remote_setup, remote_teardown,
         NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
