// SPDX-License-Identifier: MPL-2.0
// Floating IPs that come and go, and guests of one node that meet by their external addresses.
#include "tests/behaviour/outside.h"

static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static void take_away(struct draft *d, struct end external)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < d->b.nat.n_floating; i++) {
        struct ip_addr v4 = ip(external.v4), v6 = ip(external.v6);
        if (!ip_equal(&d->floating[i].external, &v4) && !ip_equal(&d->floating[i].external, &v6))
            d->floating[kept++] = d->floating[i];
    }
    d->b.nat.n_floating = kept;
}

static void t57_detached(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    {
        struct frame flow = tcp(family, G, 30000, via(OUTSIDE, GATEWAY_MAC), 443, TCP_SYN, 1, 0, 0);
        struct frame inside = udp(family, G, 30000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &flow);
        struct frame out = expect_outside(l->a);
        send_guest(l, &inside);
        expect_underlay(l->a, NODE_B);
        uint32_t before = flows(l->a, l->g);

        take_away(&l->guest, FLOATING);
        put(l->a, &l->guest);
        struct frame reply = reply_to(&out, TCP_SYN | TCP_ACK);
        from_outside(l->a, &reply); // nobody's address now
        expect_outside_drop(l->a, DROP_NO_EXTERNAL_MAPPING);
        send_guest(l, &flow);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NAT_REVOKED);
        assert_int_equal(flows(l->a, l->g), before - 1);
        send_guest(l, &inside);
        expect_underlay(l->a, NODE_B);

        give_floating(&other, FLOATING, Q); // elsewhere the old reply is a stranger, even with all doors open
        put(l->a, &other);
        other.b.firewall.default_in_allow = false;
        put(l->a, &other);
        from_outside(l->a, &reply);
        expect_drop(l->a, q, COUNT_IN, DROP_FIREWALL_DENY);
        send_guest(l, &flow);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);

        take_away(&other, FLOATING);
        put(l->a, &other);
        give_floating(&l->guest, FLOATING, G);
        put(l->a, &l->guest);
    }
}

// The same address for another of the guest's own addresses is another binding.
static void t57_moved_within_the_port(void **state)
{
    struct lab *l = *state;
    l->guest.addresses[2] = ip("10.0.0.33");
    l->guest.addresses[3] = ip("fd00::33");
    l->guest.b.l2.n_addresses = 4;
    allow_all_in(&l->guest);
    const struct end second = {G.mac, "10.0.0.33", "fd00::33"};
    EACH_FAMILY(family)
    {
        take_away(&l->guest, FLOATING);
        give_floating(&l->guest, FLOATING, G);
        put(l->a, &l->guest);
        struct frame in = udp(family, OUTSIDE, 5000, FLOATING, 80, 10);
        from_outside(l->a, &in);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, OUTSIDE, G));
        struct frame answer = reply_to(&at, 0);

        take_away(&l->guest, FLOATING);
        give_floating(&l->guest, FLOATING, second);
        put(l->a, &l->guest);
        send_guest(l, &answer); // never leaves as an address that is not its own any more
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NAT_REVOKED);
        from_outside(l->a, &in);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, OUTSIDE, second));
        answer = reply_to(&at, 0);
        send_guest(l, &answer);
        struct frame out = expect_outside(l->a);
        assert_true(goes(&out, family, FLOATING, OUTSIDE));

        // The packet from outside is the first to meet the change.
        take_away(&l->guest, FLOATING);
        give_floating(&l->guest, FLOATING, G);
        put(l->a, &l->guest);
        from_outside(l->a, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_NAT_REVOKED);
        from_outside(l->a, &in);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, OUTSIDE, G));
        struct node_error e;
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_quiesce(l->a);
    }
}

// One packet between two guests (or one guest and itself) by external addresses, and its answer.
static void meet(struct lab *l, uint8_t protocol, int family, struct end from, struct end as, uint32_t from_port,
                 struct end to, uint32_t to_port, struct end inside, uint16_t sport)
{
    struct frame sent = start(protocol, family, from, sport, via(to, GATEWAY_MAC), 80);
    for (int round = 0; round < 2; round++) {
        send_from(l->a, from_port, &sent);
        struct frame at = expect_at(l->a, to_port);
        assert_true(goes(&at, family, as, inside)); // the source is translated too: the answer must come back this way
        assert_memory_equal(at.bytes, inside.mac.b, 6);
        if (protocol == IPPROTO_TCP4 && round) // the handshake goes on
            assert_int_equal(view_of(&at).dport, 80);
        struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
        frame_set_mac(&answer, GATEWAY_MAC, inside.mac);
        send_from(l->a, to_port, &answer);
        at = expect_at(l->a, from_port);
        assert_true(goes(&at, family, to, from));
        assert_memory_equal(at.bytes, from.mac.b, 6);
        assert_int_equal(protocol == IPPROTO_ICMP4 ? view_of(&at).sport : view_of(&at).dport, sport);
    }
}

static void t58_own(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++)
        meet(l, protocols[i], family, G, FLOATING, l->g, FLOATING, l->g, G, 4000);
}

static void t58_another(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    draft_init(&other, 5, 200, Q.v4, Q.v6, Q.mac); // of another VPC: outside they are equals
    give_floating(&other, FLOATING_2, Q);
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++)
        meet(l, protocols[i], family, G, FLOATING, l->g, FLOATING_2, q, Q, 4000);
}

static void t58_by_snat(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    give_floating(&other, FLOATING_2, Q);
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++)
        meet(l, protocols[i], family, G, SHARED, l->g, FLOATING_2, q, Q, 4000);
}

// Both firewalls stand between them: the other one's rules decide, and it is not "in the VPC" this way.
static void t58_firewall(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    give_floating(&other, FLOATING_2, Q);
    draft_rule(&other, "peers", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY)->remote.kind = BLUEPRINT_REMOTE_VPC;
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame sent = start(protocols[i], family, G, 4000, via(FLOATING_2, GATEWAY_MAC), 80);
            send_guest(l, &sent);
            expect_drop(l->a, q, COUNT_IN, DROP_FIREWALL_DENY);
        }
    }
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE_TEST("T57 a detached floating IP ends its flows with the next packet, and no others", t57_detached),
        EDGE_TEST("T57 a floating IP moved within the port ends its flows too", t57_moved_within_the_port),
        EDGE_TEST("T58 a guest reaches itself by its floating IP", t58_own),
        EDGE_TEST("T58 a guest reaches another guest of the node by its floating IP", t58_another),
        EDGE_TEST("T58 a guest behind SNAT reaches another guest of the node by its floating IP", t58_by_snat),
        EDGE_TEST("T58 between external addresses the other guest's firewall decides", t58_firewall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
