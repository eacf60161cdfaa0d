// SPDX-License-Identifier: MPL-2.0
// Full tables: who gives way, and that nobody else notices.
#include <stdio.h>

#include "tests/behaviour/lab.h"

static const struct end OTHER = {MAC_OF(5), "10.0.0.5", "fd00::5"};

static void restart(struct lab *l, uint32_t table, uint32_t cap)
{
    struct node_config c = lab_config(NODE_A);
    c.max_connections = table;
    fake_destroy(l->a);
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    l->guest.b.limits.flows_max = cap;
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    fake_forget(l->a);
}

static void ask(struct lab *l, uint32_t port, struct end who, int family, uint16_t sport)
{
    struct frame f = udp(family, who, sport, via(P, GATEWAY_MAC), 53, 10);
    fake_guest(l->a, port, f.bytes, f.len);
    fake_quiesce(l->a);
}

static void reply(struct lab *l, struct end who, int family, uint16_t sport)
{
    struct frame f = udp(family, P, 53, who, sport, 10);
    receive_vpc(l, &f);
}

// Eight two-way flows are active: none gives way, and the ninth is refused until one is idle.
static void t44_flow_limit(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        restart(l, 4096, 8);
        struct draft second;
        draft_init(&second, 5, 100, OTHER.v4, OTHER.v6, OTHER.mac);
        uint32_t h = put(l->a, &second);
        fake_forget(l->a);
        for (uint16_t i = 0; i < 8; i++) {
            ask(l, l->g, G, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
            reply(l, G, family, 5000 + i);
            expect_deliver(l->a, l->g);
        }
        forget_counters(l->a);
        ask(l, l->g, G, family, 6000);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_FLOW_LIMIT);
        expect_counters(l->a, l->g, "out received=1 misses=1 flow-limit=1");
        for (uint16_t i = 0; i < 8; i++) {
            ask(l, l->g, G, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
        }
        expect_counters(l->a, l->g, "out received=8 hits=8 sent=8");
        assert_int_equal(flows(l->a, l->g), 8);
        for (uint16_t i = 0; i < 20; i++) { // other ports know nothing of it
            ask(l, h, OTHER, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
        }
        expect_counters(l->a, h, "out received=20 misses=20 sent=20");
        // Idle for a quarter of its time, the oldest gives way.
        pass_time(l->a, 50000);
        for (uint16_t i = 1; i < 8; i++) {
            ask(l, l->g, G, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
        }
        forget_counters(l->a);
        ask(l, l->g, G, family, 6000);
        expect_underlay(l->a, NODE_B);
        assert_int_equal(flows(l->a, l->g), 8);
        for (uint16_t i = 1; i < 8; i++) {
            ask(l, l->g, G, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
        }
        expect_counters(l->a, l->g, "out received=8 hits=7 misses=1 sent=8");
    }
}

static void syn(struct lab *l, int family, uint16_t sport, uint32_t seq)
{
    struct frame f = tcp(family, G, sport, via(P, GATEWAY_MAC), 80, TCP_SYN, seq, 0, 0);
    send_guest(l, &f);
    fake_quiesce(l->a);
}

static void handshake(struct lab *l, int family, uint16_t sport)
{
    syn(l, family, sport, 100);
    expect_underlay(l->a, NODE_B);
    struct frame answer = tcp(family, P, 80, G, sport, TCP_SYN | TCP_ACK, 500, 101, 0);
    receive_vpc(l, &answer);
    expect_deliver(l->a, l->g);
    struct frame ack = tcp(family, G, sport, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 0);
    send_guest(l, &ack);
    expect_underlay(l->a, NODE_B);
}

static void data_passes(struct lab *l, int family, uint16_t sport)
{
    struct frame in = tcp(family, P, 80, G, sport, TCP_ACK | TCP_PSH, 501, 101, 30);
    receive_vpc(l, &in);
    expect_same_frame(expect_deliver(l->a, l->g), &in);
}

// The table of a node with one guest, half of it established, the other half flooded many times over.
static void flood(struct lab *l, int family, void (*one)(struct lab *, int, uint16_t, uint32_t), uint32_t table,
                  uint32_t cap)
{
    restart(l, table, cap);
    uint32_t room = MIN(table, cap), kept = room / 2;
    for (uint16_t i = 0; i < kept; i++)
        handshake(l, family, 2000 + i);
    for (uint32_t i = 0; i < 10 * room; i++) {
        one(l, family, (uint16_t)(10000 + i), i);
        expect_underlay(l->a, NODE_B); // each is let through: it evicts an older one of its kind
    }
    assert_int_equal(flows(l->a, l->g), room);
    handshake(l, family, 9000); // a legitimate one
    forget_counters(l->a);
    data_passes(l, family, 9000);
    for (uint16_t i = 0; i < kept; i++)
        data_passes(l, family, 2000 + i);
    expect_nothing(l->a);
    char counters[64];
    snprintf(counters, sizeof(counters), "in received=%u hits=%u sent=%u", kept + 1, kept + 1, kept + 1);
    expect_counters(l->a, l->g, counters);
    // The oldest embryonic ones went: those that came last are still known.
    one(l, family, (uint16_t)(10000 + 10 * room - 1), 10 * room - 1);
    expect_underlay(l->a, NODE_B);
    expect_counters(l->a, l->g, "out received=1 hits=1 sent=1");
    assert_int_equal(flows(l->a, l->g), room);
}

static void t45_half_open(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        flood(l, family, syn, 4096, 64);  // the port's cap
        flood(l, family, syn, 64, 65536); // the node's table
    }
}

static void query(struct lab *l, int family, uint16_t sport, uint32_t unused)
{
    ask(l, l->g, G, family, sport);
}

static void t46_one_packet_udp(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        flood(l, family, query, 4096, 64);
        flood(l, family, query, 64, 65536);
    }
}

static void bare_ack(struct lab *l, int family, uint16_t sport, uint32_t seq)
{
    struct frame f = tcp(family, G, sport, via(P, GATEWAY_MAC), 80, TCP_ACK, seq, 1, 0);
    send_guest(l, &f);
    fake_quiesce(l->a);
}

// Segments without a handshake look established, but were never answered.
static void t45_bare_segments(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2)
        flood(l, family, bare_ack, 64, 65536);
}

static void t49_guarantee(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    for (int family = 4; family <= 6; family += 2) {
        restart(l, 64, 1024);
        struct draft second;
        draft_init(&second, 5, 100, OTHER.v4, OTHER.v6, OTHER.mac);
        second.b.limits.flows_min = 16;
        second.b.limits.flows_max = 32;
        uint32_t h = put(l->a, &second);
        fake_forget(l->a);
        for (uint16_t i = 0; i < 100; i++) { // A takes all that it can get, and keeps it busy
            ask(l, l->g, G, family, 5000 + i);
            if (fake_next(l->a))
                reply(l, G, family, 5000 + i);
            fake_forget(l->a);
        }
        assert_int_equal(flows(l->a, l->g), 48);
        forget_counters(l->a);
        for (uint16_t i = 0; i < 16; i++) {
            ask(l, h, OTHER, family, 5000 + i);
            expect_underlay(l->a, NODE_B);
            reply(l, OTHER, family, 5000 + i);
            expect_deliver(l->a, h);
        }
        ask(l, h, OTHER, family, 6000);
        expect_drop(l->a, h, COUNT_OUT, DROP_FLOW_LIMIT);
        expect_counters(l->a, h, "out received=17 misses=17 sent=16 flow-limit=1 in received=16 hits=16 sent=16");
        expect_counters(l->a, l->g, "");
        assert_int_equal(flows(l->a, l->g), 48);
        assert_int_equal(flows(l->a, h), 16);
        // More guarantees than the table has are refused, and change nothing.
        second.b.limits.flows_min = 65;
        second.b.limits.flows_max = 1024;
        assert_false(try_put(l->a, &second, &e));
        assert_int_equal(e.code, NODE_LIMIT);
        assert_string_equal(e.pointer, "/limits/flows_min");
        ask(l, h, OTHER, family, 5000);
        expect_underlay(l->a, NODE_B);
        expect_counters(l->a, h, "out received=1 hits=1 sent=1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T44 at the flow limit the ninth flow waits for an idle one", t44_flow_limit),
        TEST("T45 half-open connections give way, established ones do not", t45_half_open),
        TEST("T45 bare segments give way, established connections do not", t45_bare_segments),
        TEST("T46 one-packet UDP gives way to a connection", t46_one_packet_udp),
        TEST("T49 no port takes another's guarantee", t49_guarantee),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
