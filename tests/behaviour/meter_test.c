// SPDX-License-Identifier: MPL-2.0
// Metering by class: what is counted, and that nothing is lost or counted twice.
#include <stdio.h>

#include "tests/behaviour/lab.h"

static void meter(struct lab *l, const char *id, const char *cidr, uint32_t class_)
{
    struct blueprint_rule *r = draft_rule(&l->guest, id, 100, BLUEPRINT_OUT, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    rule_cidr(&l->guest, r, cidr);
    r->meter = class_;
}

static void expect_meter(struct lab *l, uint32_t class_, uint64_t packets_out, uint64_t bytes_out, uint64_t packets_in,
                         uint64_t bytes_in)
{
    struct meter_counter m[METER_CLASSES];
    node_meters_update(l->a->node, 0);
    unsigned n = node_meters(l->a->node, l->g, m, METER_CLASSES);
    for (unsigned i = 0; i < n; i++) {
        if (m[i].class_ != class_)
            continue;
        assert_int_equal(m[i].packets[COUNT_OUT], packets_out);
        assert_int_equal(m[i].bytes[COUNT_OUT], bytes_out);
        assert_int_equal(m[i].packets[COUNT_IN], packets_in);
        assert_int_equal(m[i].bytes[COUNT_IN], bytes_in);
        return;
    }
    fail_msg("no class %u", class_);
}

static void exchange(struct lab *l, int family, uint16_t sport, unsigned packets)
{
    for (unsigned i = 0; i < packets; i++) {
        struct frame out = udp(family, G, sport, P, 53, 100), in = udp(family, P, 53, G, sport, 500);
        send_guest(l, &out);
        expect_underlay(l->a, NODE_B);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
    }
    fake_quiesce(l->a);
}

enum { OUT4 = 14 + 20 + 8 + 100, IN4 = 14 + 20 + 8 + 500, OUT6 = OUT4 + 20, IN6 = IN4 + 20 };

static void t83_inner_bytes_by_destination(void **state)
{
    struct lab *l = *state;
    meter(l, "peer4", "10.0.0.4/32", 7);
    meter(l, "peer6", "fd00::4/128", 8);
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 3);
    exchange(l, 6, 4000, 2);
    expect_meter(l, 7, 3, 3 * OUT4, 3, 3 * IN4);
    expect_meter(l, 8, 2, 2 * OUT6, 2, 2 * IN6);
    expect_meter(l, 7, 3, 3 * OUT4, 3, 3 * IN4); // asking counts nothing
    // The total outlives the connection.
    pass_time(l->a, 400000);
    assert_int_equal(flows(l->a, l->g), 0);
    expect_meter(l, 7, 3, 3 * OUT4, 3, 3 * IN4);
    exchange(l, 4, 4001, 1);
    expect_meter(l, 7, 4, 4 * OUT4, 4, 4 * IN4);
}

static void t83_survives_judging_again(void **state)
{
    struct lab *l = *state;
    meter(l, "peer4", "10.0.0.4/32", 7);
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 3);
    for (unsigned i = 0; i < 3; i++) { // new generations, the same class
        l->g = put(l->a, &l->guest);
        exchange(l, 4, 4000, 2);
    }
    expect_meter(l, 7, 9, 9 * OUT4, 9, 9 * IN4);
    map(l->a, 100, P.v4, PEER_MAC, NODE_C, 2); // a mapping moves: new entries
    struct frame out = udp(4, G, 4000, P, 53, 100);
    send_guest(l, &out);
    expect_underlay(l->a, NODE_C);
    expect_meter(l, 7, 10, 10 * OUT4, 9, 9 * IN4);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 3);
    fake_quiesce(l->a);
    // Another class: what was counted stays the old one's, what follows is the new one's.
    l->guest.rules[0].meter = 9;
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 5);
    expect_meter(l, 7, 10, 10 * OUT4, 9, 9 * IN4);
    expect_meter(l, 9, 5, 5 * OUT4, 5, 5 * IN4);
    // No class, and one again.
    l->guest.rules[0].meter = 0;
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 4);
    l->guest.rules[0].meter = 7;
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 1);
    expect_meter(l, 7, 11, 11 * OUT4, 10, 10 * IN4);
    expect_meter(l, 9, 5, 5 * OUT4, 5, 5 * IN4);
}

static void t83_dropped_is_not_metered(void **state)
{
    struct lab *l = *state;
    meter(l, "peer4", "10.0.0.4/32", 7);
    l->guest.b.qos.pps = 1;
    l->g = put(l->a, &l->guest);
    for (unsigned i = 0; i < 200; i++) {
        struct frame out = udp(4, G, 4000, P, 53, 100);
        send_guest(l, &out);
    }
    expect_meter(l, 7, 64, 64 * OUT4, 0, 0);
    fake_discard(l->a);
}

static void t83_posture_class_and_limit(void **state)
{
    struct lab *l = *state;
    l->guest.posture_out[0] = (struct blueprint_rule){.id = "bill",
                                                      .dir = BLUEPRINT_OUT,
                                                      .action = BLUEPRINT_ALLOW,
                                                      .proto = PROTOCOL_ANY,
                                                      .stateful = true,
                                                      .meter = 4000000000u};
    l->guest.b.posture.n_out = 1;
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4000, 1);
    expect_meter(l, 4000000000u, 1, OUT4, 1, IN4);
    // No more classes than there is room for; the refusal changes nothing.
    static struct blueprint_rule many[METER_CLASSES];
    static char ids[METER_CLASSES][8];
    for (unsigned i = 0; i < METER_CLASSES; i++) {
        snprintf(ids[i], sizeof(ids[i]), "r%u", i);
        many[i] = l->guest.posture_out[0];
        many[i].id = ids[i];
        many[i].meter = i + 1;
    }
    struct node_error e;
    l->guest.b.firewall.rules = many;
    l->guest.b.firewall.n_rules = METER_CLASSES;
    assert_false(try_put(l->a, &l->guest, &e));
    assert_int_equal(e.code, NODE_LIMIT);
    exchange(l, 4, 4000, 1);
    expect_meter(l, 4000000000u, 2, 2 * OUT4, 2, 2 * IN4);
    l->guest.b.firewall.n_rules = METER_CLASSES - 1;
    l->g = put(l->a, &l->guest);
    exchange(l, 4, 4001, 1);
    expect_meter(l, 1, 1, OUT4, 1, IN4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T83 bytes of inner frames are counted by the class of their destination", t83_inner_bytes_by_destination),
        TEST("T83 totals survive new policies, mappings and a change of class", t83_survives_judging_again),
        TEST("T83 what the rate limit drops is not metered", t83_dropped_is_not_metered),
        TEST("T83 posture gives a class too, and classes are limited", t83_posture_class_and_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
