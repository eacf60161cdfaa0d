// SPDX-License-Identifier: MPL-2.0
// Port slices of a shared address: whose port is whose, for how long, and what happens when there is none left.
#include "tests/behaviour/outside.h"

#define FIRST 2000
#define SIZE 32
#define LAST (FIRST + SIZE - 1)

static void share(struct lab *l)
{
    give_snat(&l->guest, SHARED, FIRST, LAST);
    put(l->a, &l->guest);
}

// External port of a new flow.
static uint16_t open_flow(struct lab *l, uint8_t protocol, int family, uint16_t sport, struct frame *out)
{
    struct frame f = start(protocol, family, G, sport, via(OUTSIDE, GATEWAY_MAC), 443);
    send_guest(l, &f);
    *out = expect_outside(l->a);
    assert_true(goes(out, family, SHARED, OUTSIDE));
    uint16_t port = view_of(out).sport;
    assert_in_range(port, FIRST, LAST);
    return port;
}

static void expect_exhausted(struct lab *l, uint8_t protocol, int family, uint16_t sport)
{
    struct frame f = start(protocol, family, G, sport, via(OUTSIDE, GATEWAY_MAC), 443);
    send_guest(l, &f);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_SNAT_EXHAUSTED);
}

static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static void t52_slice(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        for (unsigned p = 0; p < ARRAY_LEN(protocols); p++) { // each protocol has the whole slice
            bool seen[SIZE] = {0};
            unsigned in_order = 0;
            uint16_t last = 0;
            for (unsigned i = 0; i < SIZE; i++) {
                struct frame out;
                uint16_t port = open_flow(l, protocols[p], family, (uint16_t)(7000 + i), &out);
                assert_false(seen[port - FIRST]);
                seen[port - FIRST] = true;
                in_order += port == last + 1;
                last = port;
            }
            assert_true(in_order < SIZE / 2);
            expect_exhausted(l, protocols[p], family, 7999);
        }
    }
}

// Two runs that differ in the random numbers only hand out different ports.
static void t52_unpredictable(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        uint16_t ports[2][8];
        unsigned same = 0;
        for (unsigned run = 0; run < 2; run++) {
            struct node_error e;
            for (unsigned i = 0; i < 8; i++) {
                struct frame out;
                ports[run][i] = open_flow(l, IPPROTO_UDP4, family, (uint16_t)(7000 + i), &out);
                same += run == 1 && ports[0][i] == ports[1][i];
            }
            assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
            fake_quiesce(l->a);
        }
        assert_true(same <= 2);
    }
}

static void end_tcp(struct lab *l, int family, struct frame *out)
{
    struct frame reset = reply_to(out, TCP_RST | TCP_ACK);
    from_outside(l->a, &reset);
    expect_at(l->a, l->g);
    fake_quiesce(l->a);
}

static void t52_quarantine(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        struct frame out[SIZE], again;
        for (unsigned i = 0; i < SIZE; i++)
            open_flow(l, IPPROTO_TCP4, family, (uint16_t)(7000 + i), &out[i]);
        end_tcp(l, family, &out[5]);
        expect_exhausted(l, IPPROTO_TCP4, family, 8000);
        fake_advance(l->a, 59900);
        expect_exhausted(l, IPPROTO_TCP4, family, 8000);
        fake_advance(l->a, 200);
        uint16_t port = open_flow(l, IPPROTO_TCP4, family, 8000, &again);
        assert_int_equal(port, view_of(&out[5]).sport);
        expect_exhausted(l, IPPROTO_TCP4, family, 8001);
    }
}

// Workers' clocks are a little apart: a port freed "in the future" has not rested for 49 days.
static void t52_clocks(void **state)
{
    struct lab *l = *state;
    fake_destroy(l->a);
    struct node_config c = edge_config(NODE_A);
    c.workers = 2;
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    draft_guest(&l->guest);
    serve(l->a, 1, 1, &NODE_A);
    give_snat(&l->guest, SHARED, FIRST, FIRST);
    l->g = put(l->a, &l->guest);
    struct frame out;
    open_flow(l, IPPROTO_TCP4, 4, 7000, &out);
    fake_advance(l->a, 20);
    end_tcp(l, 4, &out);
    struct frame f = start(IPPROTO_TCP4, 4, G, 7001, via(OUTSIDE, GATEWAY_MAC), 443);
    struct packet *p = fake_packet(l->a, f.bytes, f.len);
    node_receive_guest(l->a->node, 1, l->g, &p, 1, l->a->now - 10000000);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_SNAT_EXHAUSTED);
}

static void t53_exhausted(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        for (unsigned p = 0; p < ARRAY_LEN(protocols); p++) {
            struct frame out[SIZE];
            for (unsigned i = 0; i < SIZE; i++)
                open_flow(l, protocols[p], family, (uint16_t)(7000 + i), &out[i]);
            uint32_t before = flows(l->a, l->g);
            expect_exhausted(l, protocols[p], family, 8000);
            assert_int_equal(flows(l->a, l->g), before);
            for (unsigned i = 0; i < SIZE; i++) { // who has a port keeps it, both ways
                struct frame f = start(protocols[p], family, G, (uint16_t)(7000 + i), via(OUTSIDE, GATEWAY_MAC), 443);
                send_guest(l, &f);
                struct frame again = expect_outside(l->a);
                assert_int_equal(view_of(&again).sport, view_of(&out[i]).sport);
                struct frame reply = reply_to(&again, TCP_SYN | TCP_ACK);
                from_outside(l->a, &reply);
                expect_at(l->a, l->g);
            }
        }
    }
}

// A port whose UDP or ICMP flow ended serves the very next flow.
static void t53_freed(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        for (unsigned p = 1; p < ARRAY_LEN(protocols); p++) {
            struct frame out[SIZE], again;
            for (unsigned i = 0; i < SIZE; i++) {
                open_flow(l, protocols[p], family, (uint16_t)(7000 + i), &out[i]);
                if (i == 0)
                    fake_advance(l->a, 1000);
            }
            expect_exhausted(l, protocols[p], family, 8000);
            fake_advance(l->a, (protocols[p] == IPPROTO_UDP4 ? 120 : 60) * 1000 - 500); // only the first is due
            fake_forget(l->a);                                                          // router advertisements
            assert_int_equal(open_flow(l, protocols[p], family, 8000, &again), view_of(&out[0]).sport);
            expect_exhausted(l, protocols[p], family, 8001);
            fake_advance(l->a, 600000);
            fake_forget(l->a);
            assert_int_equal(flows(l->a, l->g), 0);
        }
    }
}

// A denied or refused packet leaves no port taken.
static void t53_refused(void **state)
{
    struct lab *l = *state;
    l->guest.b.limits.flows_max = 4;
    give_snat(&l->guest, SHARED, FIRST, FIRST + 3);
    put(l->a, &l->guest);
    struct frame out;
    for (unsigned i = 0; i < 4; i++) // live two-way flows: none may be evicted
        open_flow(l, IPPROTO_TCP4, 4, (uint16_t)(7000 + i), &out);
    for (unsigned i = 0; i < 100; i++) {
        struct frame f = start(IPPROTO_UDP4, 4, G, (uint16_t)(9000 + i), via(OUTSIDE, GATEWAY_MAC), 443);
        struct frame reset = tcp(4, G, (uint16_t)(9000 + i), via(OUTSIDE, GATEWAY_MAC), 443, TCP_RST, 1, 0, 0);
        send_guest(l, &f);
        send_guest(l, &reset);
    }
    fake_forget(l->a);
    struct node_error e;
    assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
    fake_quiesce(l->a);
    for (unsigned i = 0; i < 4; i++)
        open_flow(l, IPPROTO_UDP4, 4, (uint16_t)(9500 + i), &out);
}

// A slice that grows or shrinks is the same ports to those who hold them.
static void t52_resized(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, FIRST, FIRST + 7);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame out[8], again, f;
        for (unsigned i = 0; i < 8; i++)
            open_flow(l, IPPROTO_TCP4, family, (uint16_t)(7000 + i), &out[i]);
        uint16_t resting = view_of(&out[7]).sport;
        end_tcp(l, family, &out[7]);
        for (unsigned change = 0; change < 2; change++) {
            l->guest.b.nat.n_snat = 0;
            give_snat(&l->guest, SHARED, (uint16_t)(FIRST - 4 * change), FIRST + 15);
            put(l->a, &l->guest);
            for (unsigned i = 0; i < 7; i++) { // they go on, there and back, from the same port
                f = start(IPPROTO_TCP4, family, G, (uint16_t)(7000 + i), via(OUTSIDE, GATEWAY_MAC), 443);
                struct frame reply = reply_to(&out[i], TCP_SYN | TCP_ACK);
                from_outside(l->a, &reply);
                expect_at(l->a, l->g);
                send_guest(l, &f);
                again = expect_outside(l->a);
                assert_int_equal(view_of(&again).sport, view_of(&out[i]).sport);
            }
        }
        bool seen[20] = {0};
        for (unsigned i = 0; i < 8; i++)
            seen[view_of(&out[i]).sport - FIRST + 4] = true; // the resting one with them
        for (unsigned i = 0; i < 12; i++) {
            f = start(IPPROTO_TCP4, family, G, (uint16_t)(7100 + i), via(OUTSIDE, GATEWAY_MAC), 443);
            send_guest(l, &f);
            again = expect_outside(l->a);
            uint16_t port = view_of(&again).sport;
            assert_in_range(port, FIRST - 4, FIRST + 15);
            assert_false(seen[port - FIRST + 4]);
            seen[port - FIRST + 4] = true;
        }
        expect_exhausted(l, IPPROTO_TCP4, family, 7200);
        fake_advance(l->a, 61000);
        fake_forget(l->a);
        assert_int_equal(open_flow(l, IPPROTO_TCP4, family, 7201, &again), resting);

        l->guest.b.nat.n_snat = 0;
        give_snat(&l->guest, SHARED, FIRST, FIRST + 3); // who has a port outside loses it
        put(l->a, &l->guest);
        unsigned lost = 0;
        for (unsigned i = 0; i < 7; i++) {
            f = start(IPPROTO_TCP4, family, G, (uint16_t)(7000 + i), via(OUTSIDE, GATEWAY_MAC), 443);
            send_guest(l, &f);
            if (view_of(&out[i]).sport <= FIRST + 3) {
                expect_outside(l->a);
                continue;
            }
            expect_drop(l->a, l->g, COUNT_OUT, DROP_NAT_REVOKED);
            lost++;
        }
        assert_in_range(lost, 3, 4);
        struct node_error e;
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_advance(l->a, 61000);
        fake_forget(l->a);
        l->guest.b.nat.n_snat = 0;
        give_snat(&l->guest, SHARED, FIRST, FIRST + 7);
        put(l->a, &l->guest);
    }
}

// Other protocols have no ports to share.
static void nat_unsupported(void **state)
{
    struct lab *l = *state;
    share(l);
    EACH_FAMILY(family)
    {
        struct frame f = other(family, G, via(OUTSIDE, GATEWAY_MAC), 47, 40);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NAT_UNSUPPORTED);
    }
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE_TEST("T52 ports lie in the slice, one flow each, each protocol on its own", t52_slice),
        EDGE_TEST("T52 ports cannot be foretold", t52_unpredictable),
        EDGE_TEST("T52 a freed TCP port rests for the quarantine", t52_quarantine),
        EDGE_TEST("T52 a worker whose clock is behind does not cut the quarantine short", t52_clocks),
        EDGE_TEST("T52 a slice that grows or shrinks keeps the ports it still has, taken and resting", t52_resized),
        EDGE_TEST("T53 an exhausted slice refuses new flows and serves the old", t53_exhausted),
        EDGE_TEST("T53 a UDP or ICMP port whose flow ended serves at once", t53_freed),
        EDGE_TEST("T53 what is refused takes no port", t53_refused),
        EDGE_TEST("T53 a protocol without ports cannot share an address", nat_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
