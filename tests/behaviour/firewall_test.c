// SPDX-License-Identifier: MPL-2.0
// Firewall: verdicts, state, and what a change of policy means to running connections.
#include "tests/behaviour/lab.h"

static const struct end INSIDE = {MAC_OF(4), "10.0.9.9", "fd00:0:0:9::9"};

static struct blueprint_rule *allow_in(struct lab *l, const char *id, uint32_t prio, uint16_t proto)
{
    return draft_rule(&l->guest, id, prio, BLUEPRINT_IN, BLUEPRINT_ALLOW, proto);
}

static void no_rules(struct lab *l)
{
    l->guest.b.firewall.n_rules = 0;
    memset(l->guest.rules, 0, sizeof(l->guest.rules));
    memset(l->guest.ranges, 0, sizeof(l->guest.ranges));
}

// Does this packet from the peer, as the first of its flow, pass? It leaves no flow behind.
static bool passes_in(struct lab *l, const struct frame *f)
{
    struct node_error e;
    receive_vpc(l, f);
    const struct fake_call *c = fake_next(l->a);
    if (c)
        expect_same_frame(c, f);
    else
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e);
    fake_quiesce(l->a);
    return c != NULL;
}

static bool tcp_passes(struct lab *l, int family, uint16_t port)
{
    struct frame f = tcp(family, P, 40000, G, port, TCP_SYN, 1, 0, 0);
    return passes_in(l, &f);
}

static void t22_flood(void **state)
{
    struct lab *l = *state;
    for (uint32_t i = 0; i < 100000; i++) {
        struct end e = {MAC_OF(4), "10.0.0.4", "fd00::4"};
        struct frame f = tcp(i & 1 ? 4 : 6, e, (uint16_t)(i >> 1), G, (uint16_t)(i * 31), TCP_SYN, i, 0, 0);
        receive_vpc(l, &f);
    }
    expect_nothing(l->a);
    expect_counters(l->a, l->g, "in received=100000 misses=100000 firewall-deny=100000");
    assert_int_equal(flows(l->a, l->g), 0);
    // All of the capacity is still there.
    for (uint32_t i = 0; i < 1024; i++) {
        struct frame f = udp(i & 1 ? 4 : 6, G, (uint16_t)(1024 + i), via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_B);
    }
    assert_int_equal(flows(l->a, l->g), 1024);
    expect_counters(l->a, l->g, "out received=1024 misses=1024 sent=1024");
}

static void t24_udp(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame query = udp(family, G, 5000, via(P, GATEWAY_MAC), 53, 10), reply = udp(family, P, 53, G, 5000, 90);
        send_guest(l, &query);
        expect_underlay(l->a, NODE_B);
        assert_int_equal(only_flow(l->a, l->g).timeout_s, 30);
        pass_time(l->a, 29000);
        receive_vpc(l, &reply);
        expect_same_frame(expect_deliver(l->a, l->g), &reply);
        assert_int_equal(only_flow(l->a, l->g).timeout_s, 180);
        for (unsigned i = 0; i < 5; i++) { // each packet refreshes, whichever way it goes
            pass_time(l->a, 170000);
            if (i & 1) {
                send_guest(l, &query);
                expect_underlay(l->a, NODE_B);
            } else {
                receive_vpc(l, &reply);
                expect_deliver(l->a, l->g);
            }
        }
        pass_time(l->a, 181000);
        assert_int_equal(flows(l->a, l->g), 0);
        receive_vpc(l, &reply);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
        expect_counters(l->a, l->g, "in received=1 misses=1 firewall-deny=1");

        send_guest(l, &query);
        expect_underlay(l->a, NODE_B);
        pass_time(l->a, 31000);
        receive_vpc(l, &reply);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

static void t25_priorities(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        no_rules(l);
        draft_rule(&l->guest, "no", 200, BLUEPRINT_IN, BLUEPRINT_DENY, PROTOCOL_ANY);
        rule_ports(&l->guest, allow_in(l, "ssh", 100, IPPROTO_TCP4), 22, 22);
        put(l->a, &l->guest);
        assert_true(tcp_passes(l, family, 22));
        assert_false(tcp_passes(l, family, 23));
        for (int order = 0; order < 2; order++) { // equal priority: deny wins
            no_rules(l);
            for (int i = 0; i < 2; i++)
                draft_rule(&l->guest, i ? "a" : "b", 100, BLUEPRINT_IN, i == order ? BLUEPRINT_ALLOW : BLUEPRINT_DENY,
                           IPPROTO_TCP4);
            put(l->a, &l->guest);
            assert_false(tcp_passes(l, family, 22));
        }
    }
}

static void t26_ports(void **state)
{
    struct lab *l = *state;
    struct blueprint_rule *r = allow_in(l, "some", 100, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 22, 22);
    rule_ports(&l->guest, r, 80, 90);
    rule_ports(&l->guest, r, 65535, 65535);
    put(l->a, &l->guest);
    static const struct {
        uint16_t port;
        bool passes;
    } some[] = {{21, false}, {22, true},  {23, false},    {79, false},   {80, true}, {85, true},
                {90, true},  {91, false}, {65534, false}, {65535, true}, {0, false}};
    for (int family = 4; family <= 6; family += 2)
        for (unsigned i = 0; i < ARRAY_LEN(some); i++)
            assert_int_equal(tcp_passes(l, family, some[i].port), some[i].passes);
    struct frame f = udp(4, P, 40000, G, 80, 10);
    assert_false(passes_in(l, &f)); // TCP's ports are not UDP's
    no_rules(l);
    rule_ports(&l->guest, allow_in(l, "all", 100, IPPROTO_TCP4), 0, 65535);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        static const uint16_t ports[] = {0, 1, 22, 32768, 65535};
        for (unsigned i = 0; i < ARRAY_LEN(ports); i++)
            assert_true(tcp_passes(l, family, ports[i]));
    }
}

static void t27_icmp(void **state)
{
    struct lab *l = *state;
    rule_icmp(&l->guest, allow_in(l, "echo", 100, IPPROTO_ICMP4), 8, -1);
    rule_icmp(&l->guest, allow_in(l, "echo6", 100, IPPROTO_ICMP6), 128, -1);
    rule_icmp(&l->guest, allow_in(l, "time", 100, IPPROTO_ICMP4), 42, 4);
    rule_icmp(&l->guest, allow_in(l, "code6", 100, IPPROTO_ICMP6), 200, 4);
    put(l->a, &l->guest);
    struct frame echo4 = icmp_echo(4, P, G, false, 7, 1, 56), echo6 = icmp_echo(6, P, G, false, 7, 1, 56);
    assert_true(passes_in(l, &echo4));
    assert_true(passes_in(l, &echo6));
    static const struct {
        int family;
        uint8_t type, code;
        bool passes;
    } some[] = {{4, 13, 0, false}, {6, 144, 0, false}, {4, 42, 4, true}, {4, 42, 3, false},
                {6, 200, 4, true}, {6, 200, 0, false}, {4, 0, 0, false}, {6, 129, 0, false}};
    for (unsigned i = 0; i < ARRAY_LEN(some); i++) {
        struct frame f = icmp(some[i].family, P, G, some[i].type, some[i].code);
        assert_int_equal(passes_in(l, &f), some[i].passes);
    }
    // The answer to an echo goes back under the connection, also where the guest may send nothing of its own.
    l->guest.b.firewall.default_out_allow = false;
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame request = icmp_echo(family, P, G, false, 9, 1, 56);
        receive_vpc(l, &request);
        expect_deliver(l->a, l->g);
        struct frame reply = icmp_echo(family, G, via(P, GATEWAY_MAC), true, 9, 1, 56);
        send_guest(l, &reply);
        expect_underlay(l->a, NODE_B);
        struct frame stray = icmp_echo(family, G, via(P, GATEWAY_MAC), true, 10, 1, 56);
        send_guest(l, &stray);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
    }
}

static struct frame quoting(int family, struct end from, struct end to, uint8_t type, uint8_t code,
                            const struct frame *quoted)
{
    struct frame f = icmp(family, from, to, type, code);
    uint32_t l4 = family == 4 ? 34 : 54;
    memcpy(f.bytes + l4 + 8, quoted->bytes + 14, quoted->len - 14);
    f.len = l4 + 8 + quoted->len - 14;
    if (family == 4)
        store_be16(f.bytes + 16, (uint16_t)(f.len - 14));
    else
        store_be16(f.bytes + 18, (uint16_t)(f.len - 54));
    frame_fix(&f);
    return f;
}

// ICMP errors follow the connection of the packet they quote, from whichever router they come.
static void t27_icmp_errors(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame query = udp(family, G, 5000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &query);
        expect_underlay(l->a, NODE_B);
        uint8_t type = family == 4 ? 3 : 1, code = family == 4 ? 3 : 4; // port unreachable
        struct frame error = quoting(family, P, G, type, code, &query);
        receive_vpc(l, &error);
        expect_same_frame(expect_deliver(l->a, l->g), &error);
        struct frame between = quoting(family, INSIDE, G, type, code, &query);
        receive_vpc(l, &between);
        expect_same_frame(expect_deliver(l->a, l->g), &between);
        struct frame alien = udp(family, G, 5001, via(P, GATEWAY_MAC), 53, 10);
        struct frame unrelated = quoting(family, P, G, type, code, &alien);
        receive_vpc(l, &unrelated);
        expect_drop(l->a, l->g, COUNT_IN, DROP_ICMP_UNRELATED);
        forget_counters(l->a);
    }
    assert_int_equal(flows(l->a, l->g), 2);
}

static void t28_vpc_remote(void **state)
{
    struct lab *l = *state;
    allow_in(l, "vpc", 100, PROTOCOL_ANY)->remote.kind = BLUEPRINT_REMOTE_VPC;
    draft_floating(&l->guest, "198.51.100.7", G.v4);
    draft_floating(&l->guest, "2001:db8::7", G.v6);
    put(l->a, &l->guest);
    struct edge_set edges = {.prefix = prefix("198.51.100.0/24"), .nodes = &NODE_C, .n_nodes = 1, .epoch = 1};
    struct node_error e;
    assert_true(node_edge_set_put(l->a->node, &edges, &e));
    edges.prefix = prefix("2001:db8::/32");
    assert_true(node_edge_set_put(l->a->node, &edges, &e));
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct frame peer = udp(family, P, 40000, G, 53, 10);
        assert_true(passes_in(l, &peer));
        struct end floating = {MAC_OF(3), "198.51.100.7", "2001:db8::7"};
        struct frame outside = udp(family, P, 40000, floating, 53, 10);
        struct frame outer = in_geneve(&outside, GENEVE_VNI_EDGE, NODE_C, NODE_A);
        fake_underlay(l->a, outer.bytes, outer.len);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

static void t29_other_protocols(void **state)
{
    struct lab *l = *state;
    static const uint8_t protocols[] = {50, 47, 132, 94};
    static const char *const names[] = {"esp", "gre", "sctp", "ipip"};
    struct frame denied = other(4, P, G, 50, 40);
    assert_false(passes_in(l, &denied));
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++)
        allow_in(l, names[i], 100, protocols[i]);
    l->guest.b.firewall.default_out_allow = false;
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame in = other(family, P, G, protocols[i], 40);
            struct frame out = other(family, G, via(P, GATEWAY_MAC), protocols[i], 60);
            if (protocols[i] == 132) { // SCTP has ports: the answer's are the other way round
                memcpy(out.bytes + out.len - 60, in.bytes + in.len - 40 + 2, 2);
                memcpy(out.bytes + out.len - 58, in.bytes + in.len - 40, 2);
            }
            send_guest(l, &out);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
            receive_vpc(l, &in);
            expect_same_frame(expect_deliver(l->a, l->g), &in);
            send_guest(l, &out);
            expect_inner(expect_underlay(l->a, NODE_B), out, PEER_MAC, GUEST_MAC);
            forget_counters(l->a);
            if (protocols[i] != 132)
                continue;
            out.bytes[out.len - 60] ^= 1;
            send_guest(l, &out);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
            forget_counters(l->a);
        }
    }
}

static void establish(struct lab *l, int family, bool from_guest)
{
    struct end gateway_side = via(P, GATEWAY_MAC);
    struct frame out = tcp(family, G, 4000, gateway_side, 80, TCP_SYN, 100, 0, 0);
    struct frame in = tcp(family, P, 80, G, 4000, TCP_SYN | TCP_ACK, 500, 101, 0);
    struct frame ack = tcp(family, G, 4000, gateway_side, 80, TCP_ACK, 101, 501, 0);
    if (!from_guest) {
        in = tcp(family, P, 80, G, 4000, TCP_SYN, 500, 0, 0);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        out = tcp(family, G, 4000, gateway_side, 80, TCP_SYN | TCP_ACK, 100, 501, 0);
        send_guest(l, &out);
        expect_underlay(l->a, NODE_B);
        in = tcp(family, P, 80, G, 4000, TCP_ACK, 501, 101, 0);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        return;
    }
    send_guest(l, &out);
    expect_underlay(l->a, NODE_B);
    receive_vpc(l, &in);
    expect_deliver(l->a, l->g);
    send_guest(l, &ack);
    expect_underlay(l->a, NODE_B);
}

static void t30_equal_policy(void **state)
{
    struct lab *l = *state;
    rule_ports(&l->guest, allow_in(l, "in", 100, IPPROTO_TCP4), 4000, 4000);
    for (int family = 4; family <= 6; family += 2) {
        for (int from_guest = 0; from_guest < 2; from_guest++) {
            put(l->a, &l->guest);
            establish(l, family, from_guest);
            struct flow_info before = only_flow(l->a, l->g);
            forget_counters(l->a);
            put(l->a, &l->guest);
            struct frame data = tcp(family, P, 80, G, 4000, TCP_ACK | TCP_PSH, 501, 101, 300);
            receive_vpc(l, &data); // the first packet under the new list is an inbound one
            expect_same_frame(expect_deliver(l->a, l->g), &data);
            expect_counters(l->a, l->g, "in received=1 misses=1 sent=1");
            receive_vpc(l, &data);
            expect_deliver(l->a, l->g);
            expect_counters(l->a, l->g, "in received=1 hits=1 sent=1");
            struct frame out = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 801, 0);
            send_guest(l, &out);
            expect_underlay(l->a, NODE_B);
            expect_counters(l->a, l->g, "out received=1 hits=1 sent=1"); // one walk serves both directions
            struct flow_info after = only_flow(l->a, l->g);
            assert_int_equal(after.index, before.index);
            assert_int_equal(after.state, TCP_STATE_ESTABLISHED);
            assert_string_equal(after.rule, from_guest ? "default-out" : "in");
            node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &(struct node_error){0});
        }
    }
}

static void send_data(struct lab *l, int family, int dir)
{
    struct frame out = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 9);
    struct frame in = tcp(family, P, 80, G, 4000, TCP_ACK, 501, 101, 9);
    if (dir == COUNT_OUT)
        send_guest(l, &out);
    else
        receive_vpc(l, &in);
}

static void set_policy(struct lab *l, bool allow, bool keep)
{
    no_rules(l);
    l->guest.b.firewall.established_keep = keep;
    l->guest.b.firewall.default_out_allow = allow;
    if (allow)
        rule_ports(&l->guest, allow_in(l, "in", 100, IPPROTO_TCP4), 4000, 4000);
    put(l->a, &l->guest);
}

// Whoever opened it and whoever sends next.
static void t31_revalidate(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        for (int from_guest = 0; from_guest < 2; from_guest++) {
            for (int next = 0; next < 2; next++) {
                set_policy(l, true, false);
                establish(l, family, from_guest);
                set_policy(l, false, false);
                forget_counters(l->a);
                send_data(l, family, next);
                expect_drop(l->a, l->g, next, DROP_REVALIDATE_DENY);
                expect_counters(l->a, l->g,
                                next == COUNT_OUT ? "out received=1 misses=1 revalidate-deny=1"
                                                  : "in received=1 misses=1 revalidate-deny=1");
                assert_int_equal(flows(l->a, l->g), 0);
                send_data(l, family, !next); // and the other side finds nothing
                expect_drop(l->a, l->g, !next, DROP_FIREWALL_DENY);
            }
        }
    }
}

static void t31_keep(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        for (int from_guest = 0; from_guest < 2; from_guest++) {
            set_policy(l, true, true);
            establish(l, family, from_guest);
            set_policy(l, false, true);
            forget_counters(l->a);
            for (int round = 0; round < 2; round++) {
                send_data(l, family, COUNT_IN);
                expect_deliver(l->a, l->g);
                send_data(l, family, COUNT_OUT);
                expect_underlay(l->a, NODE_B);
            }
            expect_counters(l->a, l->g, "out received=2 hits=2 sent=2 in received=2 hits=1 misses=1 sent=2");
            // New connections are judged by the new list, and this one ends like any other.
            struct frame fresh = tcp(family, G, 4001, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
            send_guest(l, &fresh);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
            struct frame rst = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_RST | TCP_ACK, 110, 510, 0);
            send_guest(l, &rst);
            expect_underlay(l->a, NODE_B);
            fake_quiesce(l->a);
            assert_int_equal(flows(l->a, l->g), 0);
            send_data(l, family, COUNT_OUT);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
        }
    }
}

// A deny that is added works as one that replaces: T31 is one behaviour for both.
static void t31_added_deny(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        no_rules(l);
        put(l->a, &l->guest);
        establish(l, family, true);
        rule_cidr(&l->guest, draft_rule(&l->guest, "no", 10, BLUEPRINT_OUT, BLUEPRINT_DENY, PROTOCOL_ANY),
                  family == 4 ? "10.0.0.4/32" : "fd00::4/128");
        put(l->a, &l->guest);
        send_data(l, family, COUNT_IN);
        expect_drop(l->a, l->g, COUNT_IN, DROP_REVALIDATE_DENY);
        memset(l->guest.cidrs, 0, sizeof(l->guest.cidrs));
    }
}

static void t34_silent(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "no", 100, BLUEPRINT_OUT, BLUEPRINT_DENY, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
        expect_counters(l->a, l->g, "out received=1 misses=1 firewall-deny=1");
    }
}

static void t34_reject(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "no", 100, BLUEPRINT_OUT, BLUEPRINT_REJECT, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        const struct fake_call *c = expect_deliver(l->a, l->g);
        struct frame rst = tcp(family, via(P, GATEWAY_MAC), 80, G, 4000, TCP_RST | TCP_ACK, 0, 101, 0);
        uint32_t l4 = family == 4 ? 34 : 54;
        assert_int_equal(c->len, rst.len);
        assert_memory_equal(c->frame, rst.bytes, 14);
        assert_memory_equal(c->frame + l4, rst.bytes + l4, 14); // ports, numbers, flags
        assert_true(frame_checksums_right(c->frame, c->len));
        expect_counters(l->a, l->g, "out received=1 misses=1 firewall-reject=1 in generated=1");

        struct frame query = udp(family, G, 4000, via(P, GATEWAY_MAC), 53, 40);
        send_guest(l, &query);
        c = expect_deliver(l->a, l->g);
        assert_int_equal(c->frame[l4], family == 4 ? 3 : 1);
        assert_int_equal(c->frame[l4 + 1], family == 4 ? 13 : 1);
        assert_memory_equal(c->frame + l4 + 8, query.bytes + 14, query.len - 14);
        assert_memory_equal(c->frame + 14 + (family == 4 ? 12 : 8),
                            family == 4 ? ip("10.0.0.1").b + 12 : ip("fd00::1").b, family == 4 ? 4 : 16);
        assert_true(frame_checksums_right(c->frame, c->len));
        expect_counters(l->a, l->g, "out received=1 misses=1 firewall-reject=1 in generated=1");

        struct frame reset = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_RST, 100, 0, 0); // never answered
        send_guest(l, &reset);
        expect_nothing(l->a);
        expect_counters(l->a, l->g, "out received=1 misses=1 firewall-reject=1");
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

// Inbound, a reject is a silent drop: nothing is ever sent to a stranger.
static void t34_reject_inbound(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "no", 100, BLUEPRINT_IN, BLUEPRINT_REJECT, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, P, 4000, G, 80, TCP_SYN, 100, 0, 0);
        receive_vpc(l, &syn);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_REJECT);
        expect_counters(l->a, l->g, "in received=1 misses=1 firewall-reject=1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T22 100,000 denied SYNs leave all of the capacity", t22_flood),
        TEST("T24 a UDP reply passes in time, each packet refreshes", t24_udp),
        TEST("T25 the lower number wins, and deny where they are equal", t25_priorities),
        TEST("T26 port ranges, their ends included", t26_ports),
        TEST("T27 ICMP types and codes", t27_icmp),
        TEST("T27 ICMP errors follow the connection they quote", t27_icmp_errors),
        TEST("T28 'the VPC' is the overlay, not an address", t28_vpc_remote),
        TEST("T29 any protocol is a flow: ESP, GRE, SCTP by ports", t29_other_protocols),
        TEST("T30 an equal list changes nothing, an inbound packet first", t30_equal_policy),
        TEST("T31 revalidate: no longer allowed ends with the next packet", t31_revalidate),
        TEST("T31 keep: established connections live on", t31_keep),
        TEST("T31 an added deny ends what it names", t31_added_deny),
        TEST("T34 deny is silent", t34_silent),
        TEST("T34 reject answers the guest", t34_reject),
        TEST("T34 reject answers no stranger", t34_reject_inbound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
