// SPDX-License-Identifier: MPL-2.0
// The first behaviours: the gateway answers, the overlay carries, the firewall keeps state.
#include "tests/behaviour/lab.h"

static void t1_arp(void **state)
{
    struct lab *l = *state;
    struct frame f = arp_request(GUEST_MAC, "10.0.0.3", "10.0.0.1");
    send_guest(l, &f);
    const struct fake_call *c = expect_deliver(l->a, l->g);
    assert_int_equal(load_be16(c->frame + 20), 2); // reply
    assert_memory_equal(c->frame + 22, GATEWAY_MAC.b, 6);
    assert_memory_equal(c->frame + 28, ip("10.0.0.1").b + 12, 4);
    assert_int_equal(flows(l->a, l->g), 0);
}

static void t14_encapsulation(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        unsigned distinct = 0;
        static uint8_t seen[65536];
        memset(seen, 0, sizeof(seen));
        for (unsigned i = 0; i < 500; i++) {
            struct frame f = udp(family, G, (uint16_t)(10000 + i), via(P, GATEWAY_MAC), 53, 100);
            send_guest(l, &f);
            const struct fake_call *c = expect_underlay(l->a, NODE_B);
            assert_int_equal(c->len, f.len + 70);
            assert_memory_equal(c->frame + 14 + 8, NODE_A.b, 16);
            assert_memory_equal(c->frame + 14 + 24, NODE_B.b, 16);
            uint16_t sport = load_be16(c->frame + 54);
            assert_int_equal(load_be16(c->frame + 56), 6081);
            assert_true(sport >= 49152);
            assert_int_equal(load_be16(c->frame + 58), f.len + 16);
            assert_int_equal(load_be16(c->frame + 64), 0x6558);
            assert_int_equal(load_be32(c->frame + 66) >> 8, 100);
            assert_int_equal(c->frame[21], 64);
            uint32_t len;
            const uint8_t *inner = inner_of(c, &len);
            assert_memory_equal(inner, PEER_MAC.b, 6);
            assert_memory_equal(inner + 6, GUEST_MAC.b, 6); // within a subnet the guest's own
            assert_memory_equal(inner + 12, f.bytes + 12, f.len - 12);
            distinct += !seen[sport];
            seen[sport] = 1;
            send_guest(l, &f); // the same flow keeps its port
            assert_int_equal(load_be16(expect_underlay(l->a, NODE_B)->frame + 54), sport);
        }
        assert_true(distinct >= 450);
    }
}

static void t22_denied_syn(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = tcp(family, P, 40000, G, 80, TCP_SYN, 1, 0, 0);
        for (unsigned i = 0; i < 1000; i++) {
            receive_vpc(l, &f);
            expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
        }
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

static void t23_stateful(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 40000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_underlay(l->a, NODE_B);
        struct frame answer = tcp(family, P, 80, G, 40000, TCP_SYN | TCP_ACK, 500, 101, 0);
        receive_vpc(l, &answer);
        const struct fake_call *c = expect_deliver(l->a, l->g);
        assert_int_equal(c->len, answer.len);
        assert_memory_equal(c->frame, answer.bytes, answer.len);
        struct frame stray = tcp(family, P, 81, G, 40000, TCP_SYN | TCP_ACK, 500, 101, 0);
        receive_vpc(l, &stray);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T1 ARP for the gateway is answered on the node", t1_arp),
        TEST("T14 encapsulation: addresses, ports, VNI, lengths, entropy", t14_encapsulation),
        TEST("T22 a denied SYN takes no slot, however often", t22_denied_syn),
        TEST("T23 answers need no inbound rule, strays do", t23_stateful),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
