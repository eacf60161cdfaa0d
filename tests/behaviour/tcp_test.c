// SPDX-License-Identifier: MPL-2.0
// TCP's life as the node follows it, and the clock behind it.
#include "tests/behaviour/lab.h"

// Segments of one connection between G:4000 and P:80; `out` is from the guest.
struct talk {
    struct lab *l;
    int family;
    uint32_t seq[2], last; // next number of each side; the number of the last segment
};

static struct frame segment(const struct talk *t, int dir, uint8_t flags, uint32_t seq, uint32_t payload)
{
    uint32_t ack = flags & TCP_ACK ? t->seq[!dir] : 0;
    if (dir == COUNT_OUT)
        return tcp(t->family, G, 4000, via(P, GATEWAY_MAC), 80, flags, seq, ack, payload);
    return tcp(t->family, P, 80, G, 4000, flags, seq, ack, payload);
}

// Sends the next segment of that side; it must pass.
static void say(struct talk *t, int dir, uint8_t flags, uint32_t payload)
{
    struct frame f = segment(t, dir, flags, t->seq[dir], payload);
    t->last = t->seq[dir];
    t->seq[dir] += payload + !!(flags & TCP_SYN) + !!(flags & TCP_FIN);
    if (dir == COUNT_OUT) {
        send_guest(t->l, &f);
        expect_inner(expect_underlay(t->l->a, NODE_B), f, PEER_MAC, GUEST_MAC);
    } else {
        receive_vpc(t->l, &f);
        expect_same_frame(expect_deliver(t->l->a, t->l->g), &f);
    }
}

static void say_again(struct talk *t, int dir, uint8_t flags, uint32_t payload)
{
    t->seq[dir] = t->last;
    say(t, dir, flags, payload);
}

static void refused(struct talk *t, int dir, uint8_t flags, uint32_t payload, enum drop reason)
{
    struct frame f = segment(t, dir, flags, t->seq[dir], payload);
    if (dir == COUNT_OUT)
        send_guest(t->l, &f);
    else
        receive_vpc(t->l, &f);
    expect_drop(t->l->a, t->l->g, dir, reason);
}

static void state_is(struct talk *t, enum tcp_state state)
{
    expect_tcp_state(t->l->a, t->l->g, state);
}

static struct talk begin(struct lab *l, int family)
{
    struct node_error e;
    node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e);
    fake_quiesce(l->a);
    return (struct talk){.l = l, .family = family, .seq = {0xffffff00u, 7000}}; // numbers that wrap
}

static void establish(struct talk *t)
{
    say(t, COUNT_OUT, TCP_SYN, 0);
    state_is(t, TCP_STATE_SYN_SENT);
    say(t, COUNT_IN, TCP_SYN | TCP_ACK, 0);
    state_is(t, TCP_STATE_SYN_RECEIVED);
    say(t, COUNT_OUT, TCP_ACK, 0);
    state_is(t, TCP_STATE_ESTABLISHED);
}

static void t35_unanswered(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        say(&t, COUNT_OUT, TCP_SYN, 0);
        state_is(&t, TCP_STATE_SYN_SENT);
        pass_time(l->a, 29900);
        assert_int_equal(flows(l->a, l->g), 1);
        pass_time(l->a, 1100);
        assert_int_equal(flows(l->a, l->g), 0);
        refused(&t, COUNT_IN, TCP_SYN | TCP_ACK, 0, DROP_FIREWALL_DENY);
        expect_counters(l->a, l->g, "in received=1 misses=1 firewall-deny=1");
    }
}

static void t36_whole_life(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        say(&t, COUNT_OUT, TCP_ACK | TCP_PSH, 700);
        say(&t, COUNT_IN, TCP_ACK | TCP_PSH, 1300);
        say(&t, COUNT_OUT, TCP_ACK | TCP_FIN, 0);
        state_is(&t, TCP_STATE_FIN_WAIT_1);
        say(&t, COUNT_IN, TCP_ACK, 0);
        state_is(&t, TCP_STATE_FIN_WAIT_2);
        say(&t, COUNT_IN, TCP_ACK, 900); // the other half still speaks
        say(&t, COUNT_OUT, TCP_ACK, 0);
        state_is(&t, TCP_STATE_FIN_WAIT_2);
        say(&t, COUNT_IN, TCP_ACK | TCP_FIN, 0);
        say(&t, COUNT_OUT, TCP_ACK, 0); // the last ACK is forwarded
        state_is(&t, TCP_STATE_TIME_WAIT);
        assert_int_equal(only_flow(l->a, l->g).timeout_s, 120);
        pass_time(l->a, 119000);
        assert_int_equal(flows(l->a, l->g), 1);
        pass_time(l->a, 2000);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void t36_peer_closes_first(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        say(&t, COUNT_IN, TCP_ACK | TCP_FIN, 10);
        state_is(&t, TCP_STATE_CLOSE_WAIT);
        say(&t, COUNT_OUT, TCP_ACK, 0);
        state_is(&t, TCP_STATE_LAST_ACK);
        say(&t, COUNT_OUT, TCP_ACK | TCP_FIN, 20);
        state_is(&t, TCP_STATE_CLOSING);
        say(&t, COUNT_IN, TCP_ACK, 0);
        state_is(&t, TCP_STATE_TIME_WAIT);
        say_again(&t, COUNT_IN, TCP_ACK, 0); // repeated, late: still forwarded
        state_is(&t, TCP_STATE_TIME_WAIT);
    }
}

static void t37_reset(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        for (int by = 0; by < 2; by++) {
            struct talk t = begin(l, family);
            establish(&t);
            say(&t, COUNT_IN, TCP_ACK, 100);
            forget_counters(l->a);
            say(&t, by, TCP_RST | TCP_ACK, 0); // forwarded
            expect_counters(l->a, l->g,
                            by == COUNT_OUT ? "out received=1 hits=1 sent=1" : "in received=1 hits=1 sent=1");
            assert_int_equal(flows(l->a, l->g), 0);
            refused(&t, COUNT_IN, TCP_ACK, 100, DROP_FIREWALL_DENY);
            expect_counters(l->a, l->g, "in received=1 misses=1 firewall-deny=1");
            assert_int_equal(flows(l->a, l->g), 0);
        }
    }
}

// A reset of a connection nobody knows passes where the rules allow it, and is not remembered.
static void t37_stray_reset(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        forget_counters(l->a);
        say(&t, COUNT_OUT, TCP_RST | TCP_ACK, 0);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        refused(&t, COUNT_IN, TCP_RST | TCP_ACK, 0, DROP_FIREWALL_DENY);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void t39_reuse(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        say(&t, COUNT_OUT, TCP_ACK | TCP_FIN, 0);
        say(&t, COUNT_IN, TCP_ACK | TCP_FIN, 0);
        say(&t, COUNT_OUT, TCP_ACK, 0);
        state_is(&t, TCP_STATE_TIME_WAIT);
        forget_counters(l->a);
        t.seq[COUNT_OUT] = 0x12345678;
        t.seq[COUNT_IN] = 0x87654321;
        establish(&t); // at once, through all its states
        expect_counters(l->a, l->g, "out received=2 hits=2 misses=1 sent=2 in received=1 hits=1 sent=1");
        say(&t, COUNT_IN, TCP_ACK | TCP_PSH, 400);
        say(&t, COUNT_OUT, TCP_ACK, 0);
        state_is(&t, TCP_STATE_ESTABLISHED);
    }
}

static void t41_idle(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        assert_int_equal(only_flow(l->a, l->g).timeout_s, 8000);
        pass_time(l->a, 7999000);
        say(&t, COUNT_IN, TCP_ACK, 10);
        for (int i = 0; i < 24; i++) { // keepalives each two hours, two days long
            pass_time(l->a, 7200000);
            say(&t, i & 1, TCP_ACK, 0);
        }
        state_is(&t, TCP_STATE_ESTABLISHED);
        pass_time(l->a, 8001000);
        assert_int_equal(flows(l->a, l->g), 0);
        refused(&t, COUNT_IN, TCP_ACK, 10, DROP_FIREWALL_DENY);
    }
}

static void t41_configured(void **state)
{
    struct lab *l = *state;
    struct node_config c = lab_config(NODE_A);
    c.timeouts.tcp_established = 100;
    struct fake *own = l->a;
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        pass_time(l->a, 99000);
        say(&t, COUNT_OUT, TCP_ACK, 10);
        pass_time(l->a, 101000);
        assert_int_equal(flows(l->a, l->g), 0);
    }
    fake_destroy(l->a);
    l->a = own;
}

static void t43_pause(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        establish(&t);
        forget_counters(l->a);
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_PAUSE, &e));
        refused(&t, COUNT_OUT, TCP_ACK, 10, DROP_PORT_PAUSED);
        refused(&t, COUNT_IN, TCP_ACK, 10, DROP_PORT_PAUSED);
        expect_counters(l->a, l->g, "out received=1 port-paused=1 in received=1 port-paused=1");
        assert_int_equal(flows(l->a, l->g), 1);
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESUME, &e));
        say(&t, COUNT_IN, TCP_ACK, 10);
        say(&t, COUNT_OUT, TCP_ACK, 10);
        expect_counters(l->a, l->g, "out received=1 hits=1 sent=1 in received=1 hits=1 sent=1");
        state_is(&t, TCP_STATE_ESTABLISHED);

        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        assert_int_equal(flows(l->a, l->g), 0);
        say(&t, COUNT_OUT, TCP_ACK, 10); // walked again: picked up
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        say(&t, COUNT_IN, TCP_ACK, 10);
        state_is(&t, TCP_STATE_ESTABLISHED);
        expect_counters(l->a, l->g, "in received=1 hits=1 sent=1");
    }
}

static void t89_pick_up(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        forget_counters(l->a);
        refused(&t, COUNT_IN, TCP_ACK | TCP_PSH, 40, DROP_FIREWALL_DENY); // by the rules, like any new connection
        refused(&t, COUNT_IN, TCP_SYN | TCP_ACK, 0, DROP_FIREWALL_DENY);
        assert_int_equal(flows(l->a, l->g), 0);
        say(&t, COUNT_OUT, TCP_ACK | TCP_PSH, 40);
        state_is(&t, TCP_STATE_ESTABLISHED);
        t.seq[COUNT_IN] += 0x30000000; // window checks are off until this side was seen
        say(&t, COUNT_IN, TCP_ACK, 500);
        say(&t, COUNT_OUT, TCP_ACK | TCP_FIN, 0);
        state_is(&t, TCP_STATE_FIN_WAIT_1);
        say(&t, COUNT_IN, TCP_ACK | TCP_FIN, 0);
        say(&t, COUNT_OUT, TCP_ACK, 0);
        state_is(&t, TCP_STATE_TIME_WAIT);
    }
}

static void t89_strict(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    l->guest.b.firewall.tcp_strict = true;
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct talk t = begin(l, family);
        for (int dir = 0; dir < 2; dir++) {
            refused(&t, dir, TCP_ACK | TCP_PSH, 40, DROP_TCP_STRICT);
            refused(&t, dir, TCP_SYN | TCP_ACK, 0, DROP_TCP_STRICT);
            refused(&t, dir, TCP_RST | TCP_ACK, 0, DROP_TCP_STRICT);
            refused(&t, dir, TCP_FIN | TCP_ACK, 0, DROP_TCP_STRICT);
        }
        assert_int_equal(flows(l->a, l->g), 0);
        establish(&t);
    }
}

static void t85_jump(void **state)
{
    struct lab *l = *state;
    struct talk t = begin(l, 4);
    establish(&t);
    struct frame query = udp(6, G, 5000, via(P, GATEWAY_MAC), 53, 10), reply = udp(6, P, 53, G, 5000, 10);
    send_guest(l, &query);
    expect_underlay(l->a, NODE_B);
    receive_vpc(l, &reply);
    expect_deliver(l->a, l->g);
    assert_int_equal(flows(l->a, l->g), 2);
    pass_time(l->a, 3600000); // an hour at once: UDP's time is over, TCP's is not
    state_is(&t, TCP_STATE_ESTABLISHED);
    say(&t, COUNT_IN, TCP_ACK, 10);
}

// Workers' clocks differ a little: what another worker saw "later" than now is not old.
static void t85_skew(void **state)
{
    struct lab *l = *state;
    struct node_config c = lab_config(NODE_A);
    c.workers = 2;
    struct fake *own = l->a;
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = udp(family, G, 5000, via(P, GATEWAY_MAC), 53, 10);
        for (unsigned i = 0; i < 50; i++) {
            struct packet *p = fake_packet(l->a, f.bytes, f.len);
            node_receive_guest(l->a->node, i & 1, l->g, &p, 1, l->a->now - (i & 1) * 1000000);
            expect_underlay(l->a, NODE_B);
            node_tick(l->a->node, 1, l->a->now - 1000000, l->a->wall);
            node_tick(l->a->node, 0, l->a->now, l->a->wall);
            assert_int_equal(flows(l->a, l->g), family == 4 ? 1 : 2);
            if (i % 10 == 9)
                pass_time(l->a, 1);
        }
        fake_forget(l->a);
    }
    struct port_counters k;
    node_port_counters(l->a->node, l->g, &k);
    assert_int_equal(k.misses[COUNT_OUT], 2);
    assert_int_equal(k.hits[COUNT_OUT], 98);
    fake_destroy(l->a);
    l->a = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T35 a SYN without answer is forgotten in time, its late answer refused", t35_unanswered),
        TEST("T36 handshake, data, FIN both ways: every state, and the end", t36_whole_life),
        TEST("T36 the peer closes first", t36_peer_closes_first),
        TEST("T37 a reset ends both directions at once and is forwarded", t37_reset),
        TEST("T37 a stray reset leaves no trace", t37_stray_reset),
        TEST("T39 a new SYN reuses a tuple in TIME_WAIT at once", t39_reuse),
        TEST("T41 established and idle for 7,999 s; keepalives keep it", t41_idle),
        TEST("T41 the established timeout is configurable", t41_configured),
        TEST("T43 pause keeps flows, reset forgets them", t43_pause),
        TEST("T89 a segment without connection is judged by the rules and picked up", t89_pick_up),
        TEST("T89 strict: a segment without connection is dropped", t89_strict),
        TEST("T85 an hour's jump expires by the timers", t85_jump),
        TEST("T85 a millisecond's skew between workers expires nothing", t85_skew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
