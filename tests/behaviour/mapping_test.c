// SPDX-License-Identifier: MPL-2.0
// Overlay: mappings that come, move and go; two guests on one node; what Geneve may carry.
#include "tests/behaviour/lab.h"

static const struct end FAR = {MAC_OF(77), "10.0.0.77", "fd00::77"};
static const struct end OTHER = {MAC_OF(5), "10.0.0.5", "fd00::5"};

static const char *address(int family, struct end e)
{
    return family == 4 ? e.v4 : e.v6;
}

static void t17_no_mapping(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = udp(family, G, 1000, via(FAR, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING);
        expect_counters(l->a, l->g, "out received=2 misses=2 no-mapping=2");
        assert_int_equal(flows(l->a, l->g), 0);
        map(l->a, 100, address(family, FAR), FAR.mac, NODE_C, 1);
        send_guest(l, &f);
        expect_inner(expect_underlay(l->a, NODE_C), f, FAR.mac, GUEST_MAC);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        fake_guest(l->a, l->g, f.bytes, f.len);
        expect_underlay(l->a, NODE_C);
        expect_counters(l->a, l->g, "out received=1 hits=1 sent=1");
        node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &(struct node_error){0});
    }
}

static void handshake(struct lab *l, int family, uint16_t port)
{
    struct frame syn = tcp(family, G, port, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
    struct frame answer = tcp(family, P, 80, G, port, TCP_SYN | TCP_ACK, 500, 101, 0);
    struct frame ack = tcp(family, G, port, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 0);
    send_guest(l, &syn);
    expect_underlay(l->a, NODE_B);
    receive_vpc(l, &answer);
    expect_deliver(l->a, l->g);
    send_guest(l, &ack);
    expect_underlay(l->a, NODE_B);
}

static void t18_mapping_moves(void **state)
{
    struct lab *l = *state;
    map(l->a, 100, OTHER.v4, OTHER.mac, NODE_B, 1);
    map(l->a, 100, OTHER.v6, OTHER.mac, NODE_B, 1);
    for (int family = 4; family <= 6; family += 2) {
        fake_forget(l->a);
        struct frame unrelated = udp(family, G, 999, via(OTHER, GATEWAY_MAC), 53, 10);
        send_guest(l, &unrelated);
        expect_underlay(l->a, NODE_B);
        node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &(struct node_error){0});
        handshake(l, family, 4000);
        expect_tcp_state(l->a, l->g, TCP_STATE_ESTABLISHED);
        struct flow_info before = only_flow(l->a, l->g);
        send_guest(l, &unrelated);
        expect_underlay(l->a, NODE_B);
        forget_counters(l->a);

        map(l->a, 100, address(family, P), (struct mac_addr)MAC_OF(44), NODE_C, 2);
        struct frame data = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_ACK | TCP_PSH, 101, 501, 50);
        send_guest(l, &data);
        expect_inner(expect_underlay(l->a, NODE_C), data, (struct mac_addr)MAC_OF(44), GUEST_MAC);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1"); // walked again, once
        send_guest(l, &data);
        expect_underlay(l->a, NODE_C);
        send_guest(l, &unrelated);
        expect_underlay(l->a, NODE_B);
        expect_counters(l->a, l->g, "out received=2 hits=2 sent=2"); // and nothing else is

        struct flow_info after;
        assert_int_not_equal(node_flow_next(l->a->node, l->g, before.index - 1, l->a->now, &after), 0);
        assert_int_equal(after.index, before.index);
        assert_int_equal(after.state, TCP_STATE_ESTABLISHED);
        assert_int_equal(after.packets[COUNT_OUT], before.packets[COUNT_OUT] + 2);
        assert_memory_equal(after.key, before.key, sizeof(after.key));
        // The answer may come from the new node, and for a while from the old one.
        struct frame answer = tcp(family, P, 80, G, 4000, TCP_ACK, 501, 151, 20);
        struct frame outer = in_geneve(&answer, 100, NODE_C, NODE_A);
        fake_underlay(l->a, outer.bytes, outer.len);
        expect_deliver(l->a, l->g);
        receive_vpc(l, &answer);
        expect_deliver(l->a, l->g);
        expect_counters(l->a, l->g, "in received=2 hits=2 sent=2");
        map(l->a, 100, address(family, P), PEER_MAC, NODE_B, 3);
        node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &(struct node_error){0});
    }
}

// A change of one family's mapping, or of another VPC's, is not looked at by flows to the other.
static void t18_only_flows_to_it(void **state)
{
    struct lab *l = *state;
    struct frame v4 = udp(4, G, 999, via(P, GATEWAY_MAC), 53, 10), v6 = udp(6, G, 999, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &v4);
    expect_underlay(l->a, NODE_B);
    send_guest(l, &v6);
    expect_underlay(l->a, NODE_B);
    forget_counters(l->a);
    map(l->a, 100, P.v6, PEER_MAC, NODE_C, 2);
    map(l->a, 200, P.v4, PEER_MAC, NODE_C, 2);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1); // the same again: no change
    send_guest(l, &v4);
    expect_underlay(l->a, NODE_B);
    expect_counters(l->a, l->g, "out received=1 hits=1 sent=1");
    send_guest(l, &v6);
    expect_underlay(l->a, NODE_C);
    expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
}

static void t19_mapping_removed(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        handshake(l, family, 4000);
        struct frame data = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 50);
        forget_counters(l->a);
        unmap(l->a, 100, address(family, P), 2);
        send_guest(l, &data);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING);
        send_guest(l, &data);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING);
        expect_counters(l->a, l->g, "out received=2 misses=2 no-mapping=2");
        // It comes back: the flow goes on, its state untouched.
        map(l->a, 100, address(family, P), PEER_MAC, NODE_C, 3);
        send_guest(l, &data);
        expect_underlay(l->a, NODE_C);
        expect_tcp_state(l->a, l->g, TCP_STATE_ESTABLISHED);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        map(l->a, 100, address(family, P), PEER_MAC, NODE_B, 4);
        node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &(struct node_error){0});
    }
}

static void t19_stale_epochs(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    map(l->a, 100, P.v4, PEER_MAC, NODE_C, 5);
    struct mapping old = {.vni = 100, .ip = ip(P.v4), .mac = PEER_MAC, .node = NODE_B, .epoch = 4};
    assert_false(node_mapping_put(l->a->node, &old, l->a->now, &e));
    assert_int_equal(e.code, NODE_STALE);
    old.epoch = 5;
    assert_false(node_mapping_put(l->a->node, &old, l->a->now, &e));
    assert_int_equal(e.code, NODE_CONFLICT);
    unmap(l->a, 100, P.v4, 6);
    old.epoch = 5; // a tombstone keeps the epoch
    assert_false(node_mapping_put(l->a->node, &old, l->a->now, &e));
    assert_int_equal(e.code, NODE_STALE);
}

// ---- T20: G and H on one node

struct neighbours {
    struct draft h;
    uint32_t port;
};

static struct neighbours add_neighbour(struct lab *l, bool open)
{
    static struct neighbours n;
    draft_init(&n.h, 5, 100, OTHER.v4, OTHER.v6, OTHER.mac);
    if (open)
        rule_ports(&n.h, draft_rule(&n.h, "web", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4), 80, 80);
    n.port = put(l->a, &n.h);
    map(l->a, 100, OTHER.v4, OTHER.mac, NODE_A, 1);
    map(l->a, 100, OTHER.v6, OTHER.mac, NODE_A, 1);
    map(l->a, 100, G.v4, GUEST_MAC, NODE_A, 1);
    map(l->a, 100, G.v6, GUEST_MAC, NODE_A, 1);
    fake_forget(l->a);
    forget_counters(l->a);
    return n;
}

static void t20_same_node(void **state)
{
    struct lab *l = *state;
    struct neighbours n = add_neighbour(l, true);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        const struct fake_call *c = expect_deliver(l->a, n.port); // the only call: nothing on the underlay
        frame_set_mac(&syn, OTHER.mac, GUEST_MAC);
        expect_same_frame(c, &syn); // TTL included: no hop within a subnet
        assert_true(frame_checksums_right(c->frame, c->len));
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        expect_counters(l->a, n.port, "in received=1 misses=1 sent=1");

        struct frame answer = tcp(family, OTHER, 80, via(G, GATEWAY_MAC), 4000, TCP_SYN | TCP_ACK, 500, 101, 0);
        fake_guest(l->a, n.port, answer.bytes, answer.len);
        c = expect_deliver(l->a, l->g);
        frame_set_mac(&answer, GUEST_MAC, OTHER.mac);
        expect_same_frame(c, &answer);
        expect_counters(l->a, l->g, "in received=1 hits=1 sent=1");
        expect_counters(l->a, n.port, "out received=1 hits=1 sent=1");

        struct frame ack = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 0);
        send_guest(l, &ack);
        expect_deliver(l->a, n.port);
        forget_counters(l->a);
    }
    assert_int_equal(flows(l->a, l->g), 2);
    assert_int_equal(flows(l->a, n.port), 2);
}

static void t20_both_firewalls(void **state)
{
    struct lab *l = *state;
    struct neighbours n = add_neighbour(l, true);
    for (int family = 4; family <= 6; family += 2) {
        struct frame closed = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 81, TCP_SYN, 100, 0, 0);
        send_guest(l, &closed);
        expect_drop(l->a, n.port, COUNT_IN, DROP_FIREWALL_DENY); // the receiver's
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        expect_counters(l->a, n.port, "in received=1 misses=1 firewall-deny=1");
    }
    rule_ports(&l->guest, draft_rule(&l->guest, "no", 100, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_TCP4), 80, 80);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame open = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &open);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY); // the sender's
        expect_counters(l->a, l->g, "out received=1 misses=1 firewall-deny=1");
        expect_counters(l->a, n.port, "");
    }
}

// The mapping says "here", but the port is gone, or paused, or its device is full.
static void t20_neighbour_in_trouble(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    struct neighbours n = add_neighbour(l, true);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_deliver(l->a, n.port);
        forget_counters(l->a);
        l->a->deliver_budget = 0;
        send_guest(l, &syn);
        expect_nothing(l->a);
        l->a->deliver_budget = -1;
        expect_counters(l->a, n.port, "in received=1 hits=1 port-full=1");
        assert_true(node_port_act(l->a->node, &n.h.b.port, NODE_PORT_PAUSE, &e));
        send_guest(l, &syn);
        expect_counters(l->a, n.port, "in received=1 port-paused=1");
        assert_true(node_port_act(l->a->node, &n.h.b.port, NODE_PORT_RESUME, &e));
    }
    check_conservation(l->a);
    assert_true(node_blueprint_delete(l->a->node, &n.h.b.port, &e));
    fake_quiesce(l->a);
    forget_counters(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, via(OTHER, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_UNKNOWN_PORT);
        expect_counters(l->a, l->g, "out received=1 hits=1 unknown-port=1");
        struct frame fresh = tcp(family, G, 4001, via(OTHER, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &fresh);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_UNKNOWN_PORT);
        expect_counters(l->a, l->g, "out received=1 misses=1 unknown-port=1");
    }
}

// ---- T15

struct oddity {
    const char *what;
    uint32_t at; // in the outer frame
    uint8_t value;
    enum drop reason;
};

static void t15_strange_headers(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    static const struct oddity odd[] = {
        {"version 1", 62, 0x40, DROP_GENEVE_VERSION},
        {"version 3", 62, 0xc0, DROP_GENEVE_VERSION},
        {"OAM", 63, 0x80, DROP_GENEVE_OAM},
        {"protocol is IPv4", 64, 0x08, DROP_GENEVE_PROTOCOL},
        {"options past the end", 62, 0x3f, DROP_GENEVE_LENGTH},
        {"not UDP", 20, 6, DROP_OUTER_INVALID},
        {"another UDP port", 57, 0, DROP_OUTER_INVALID},
        {"for another node", 53, 0x77, DROP_OUTER_INVALID},
        {"UDP shorter than Geneve", 59, 15, DROP_OUTER_INVALID},
    };
    for (int family = 4; family <= 6; family += 2) {
        for (unsigned i = 0; i < ARRAY_LEN(odd); i++) {
            struct frame in = udp(family, P, 53, G, 1000, 20), f = in_geneve(&in, 100, NODE_B, NODE_A);
            f.bytes[odd[i].at] = odd[i].value;
            if (odd[i].at == 59)
                f.bytes[58] = 0;
            fake_underlay(l->a, f.bytes, f.len);
            expect_drop(l->a, 0, 0, odd[i].reason);
        }
    }
    expect_counters(l->a, l->g, "");
}

// Options of 8 bytes: `type` carries the critical bit.
static struct frame with_option(const struct frame *outer, uint8_t type, uint8_t words)
{
    struct frame f = *outer;
    memmove(f.bytes + 78, f.bytes + 70, f.len - 70);
    memcpy(f.bytes + 70, (uint8_t[]){0x01, 0x23, type, words, 0xde, 0xad, 0xbe, 0xef}, 8);
    f.len += 8;
    f.bytes[62] = 2;
    store_be16(f.bytes + 18, (uint16_t)(load_be16(f.bytes + 18) + 8));
    store_be16(f.bytes + 58, (uint16_t)(load_be16(f.bytes + 58) + 8));
    return f;
}

static void t15_options(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame in = udp(family, P, 53, G, 1000, 20), outer = in_geneve(&in, 100, NODE_B, NODE_A);
        struct frame harmless = with_option(&outer, 0x42, 1), critical = with_option(&outer, 0xc2, 1);
        struct frame too_long = with_option(&outer, 0x42, 2);
        fake_underlay(l->a, harmless.bytes, harmless.len);
        expect_same_frame(expect_deliver(l->a, l->g), &in);
        fake_underlay(l->a, critical.bytes, critical.len);
        expect_drop(l->a, 0, 0, DROP_GENEVE_CRITICAL);
        fake_underlay(l->a, too_long.bytes, too_long.len);
        expect_drop(l->a, 0, 0, DROP_GENEVE_LENGTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T15 strange Geneve headers are dropped, each for its reason", t15_strange_headers),
        TEST("T15 unknown options pass, critical ones do not", t15_options),
        TEST("T17 no mapping, no flow; a mapping, and the next packet passes", t17_no_mapping),
        TEST("T18 a moved mapping takes the next packet along and leaves all else alone", t18_mapping_moves),
        TEST("T18 a mapping's change is seen by flows to it only", t18_only_flows_to_it),
        TEST("T19 a removed mapping stops the live flow, which may come back", t19_mapping_removed),
        TEST("T19 old epochs are refused, past a removal too", t19_stale_epochs),
        TEST("T20 two guests of one node need no underlay", t20_same_node),
        TEST("T20 both guests' firewalls judge", t20_both_firewalls),
        TEST("T20 a neighbour that is full, paused or gone", t20_neighbour_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
