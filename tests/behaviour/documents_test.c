// SPDX-License-Identifier: MPL-2.0
// Documents: what is refused changes nothing, what is repeated disturbs nothing.
#include "tests/behaviour/outside.h"

static struct port_counters counters(struct fake *f, uint32_t port)
{
    struct port_counters c;
    node_port_counters(f->node, port, &c);
    return c;
}

// A UDP conversation with P, both ways.
static void converse(struct lab *l, int family)
{
    struct frame f = udp(family, G, 4000, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    struct frame answer = udp(family, P, 53, via(G, GUEST_MAC), 4000, 10);
    receive_vpc(l, &answer);
    expect_deliver(l->a, l->g);
}

static void t78_generations(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    EACH_FAMILY(family)
    {
        put(l->a, &l->guest);
        converse(l, family);
        uint32_t had = flows(l->a, l->g);
        struct port_counters before = counters(l->a, l->g);

        assert_true(node_blueprint_put(l->a->node, &l->guest.b, l->a->now, l->a->wall, &e)); // the same again
        fake_quiesce(l->a);
        converse(l, family);
        struct port_counters after = counters(l->a, l->g);
        assert_int_equal(flows(l->a, l->g), had);
        for (int dir = 0; dir < 2; dir++) {
            assert_int_equal(after.misses[dir], before.misses[dir]);
            assert_int_equal(after.hits[dir], before.hits[dir] + 1);
        }

        struct blueprint old = l->guest.b;
        old.generation--;
        assert_false(node_blueprint_put(l->a->node, &old, l->a->now, l->a->wall, &e));
        assert_int_equal(e.code, NODE_STALE);
        old = l->guest.b;
        old.hash[31] ^= 1;
        old.firewall.default_out_allow = false;
        assert_false(node_blueprint_put(l->a->node, &old, l->a->now, l->a->wall, &e));
        assert_int_equal(e.code, NODE_CONFLICT);
        fake_quiesce(l->a);
        converse(l, family);
        after = counters(l->a, l->g);
        assert_int_equal(after.misses[COUNT_OUT], before.misses[COUNT_OUT]);
        assert_int_equal(after.misses[COUNT_IN], before.misses[COUNT_IN]);
        struct node_port_status s;
        assert_true(node_port_status(l->a->node, l->g, &s));
        assert_int_equal(s.generation, l->guest.b.generation);
        assert_memory_equal(s.hash, l->guest.b.hash, 32);
    }
}

static void t77_one_bad_rule(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    converse(l, 4);
    converse(l, 6);
    struct port_counters before = counters(l->a, l->g);
    struct draft d = l->guest;
    d.b.firewall.rules = d.rules;
    d.b.firewall.default_out_allow = false; // would end the conversation
    for (unsigned i = 0; i < 10; i++)
        draft_rule(&d, "fine", 100 + i, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(&d, &d.rules[7], 100, 99);
    assert_false(try_put(l->a, &d, &e));
    assert_int_equal(e.code, NODE_INVALID);
    assert_string_equal(e.pointer, "/firewall/rules/7/ports");
    assert_false(node_blueprint_check(l->a->node, &d.b, &e));
    assert_string_equal(e.pointer, "/firewall/rules/7/ports");
    d.rules[7].n_ports = 0;
    rule_cidr(&d, &d.rules[3], "fd00::/64");
    d.rules[3].proto = IPPROTO_ICMP4;
    assert_false(try_put(l->a, &d, &e));
    assert_string_equal(e.pointer, "/firewall/rules/3/remote/cidrs");
    d.rules[3].proto = IPPROTO_ICMP6;
    struct blueprint_rule posture = d.rules[0];
    posture.icmp = &d.icmp[0];
    posture.n_icmp = 1;
    d.posture_in[0] = posture;
    d.b.posture.in = d.posture_in;
    d.b.posture.n_in = 1;
    assert_false(try_put(l->a, &d, &e));
    assert_string_equal(e.pointer, "/posture/in/0/icmp");
    struct node_port_status s;
    assert_true(node_port_status(l->a->node, l->g, &s));
    assert_int_equal(s.generation, l->guest.b.generation);
    converse(l, 4);
    converse(l, 6);
    struct port_counters after = counters(l->a, l->g);
    assert_int_equal(after.misses[COUNT_OUT], before.misses[COUNT_OUT]);
    assert_int_equal(after.misses[COUNT_IN], before.misses[COUNT_IN]);
    d.b.posture.n_in = 0; // and with nothing wrong it is taken whole
    assert_true(node_blueprint_check(l->a->node, &d.b, &e));
    assert_int_equal(e.code, NODE_OK);
    put(l->a, &d);
    struct frame f = udp(4, G, 4000, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_REVALIDATE_DENY);
}

static void t76_nonsense(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    struct draft d;
    const char *expected[] = {
        "/vpc/vni",          "/vpc/mtu",          "/l2/mac", "/l2/addresses", "/nat/floating/0/internal",
        "/nat/snat/1/ports", "/limits/flows_min", "/l2/mac"};
    for (unsigned i = 0; i < ARRAY_LEN(expected); i++) {
        draft_init(&d, 9, 100, "10.0.0.9", "fd00::9", mac("02:00:00:00:00:09"));
        switch (i) {
        case 0:
            d.b.vpc.vni = GENEVE_VNI_EDGE;
            break;
        case 1:
            d.b.vpc.mtu = 1279;
            break;
        case 2:
            d.b.l2.mac = mac("03:00:00:00:00:09");
            break;
        case 3:
            d.b.l2.n_addresses = 0;
            break;
        case 4:
            draft_floating(&d, "198.51.100.9", "10.0.0.10");
            break;
        case 5:
            draft_snat(&d, "198.51.100.9", 100, 200);
            draft_snat(&d, "198.51.100.9", 200, 300);
            break;
        case 6:
            d.b.limits.flows_min = 2000;
            break;
        case 7:
            d.b.l2.mac = GUEST_MAC; // G has it
            break;
        }
        assert_false(try_put(l->a, &d, &e));
        assert_int_equal(e.code, NODE_INVALID);
        assert_string_equal(e.pointer, expected[i]);
        assert_int_equal(node_port_find(l->a->node, &d.b.port), 0);
    }
    converse(l, 4);
    converse(l, 6);
    assert_false(node_blueprint_delete(l->a->node, &d.b.port, &e));
    assert_int_equal(e.code, NODE_NOT_FOUND);
}

static void t78_streams(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    EACH_FAMILY(family)
    {
        converse(l, family);
        struct port_counters before = counters(l->a, l->g);
        struct mapping m = {.vni = 100, .ip = ip(address_of(P, family)), .mac = PEER_MAC, .node = NODE_B, .epoch = 1};
        assert_true(node_mapping_put(l->a->node, &m, l->a->now, &e)); // as it is
        m.epoch = 0;
        assert_false(node_mapping_put(l->a->node, &m, l->a->now, &e));
        assert_int_equal(e.code, NODE_STALE);
        m.epoch = 1;
        m.node = NODE_C;
        assert_false(node_mapping_put(l->a->node, &m, l->a->now, &e));
        assert_int_equal(e.code, NODE_CONFLICT);
        m.vni = GENEVE_VNI_EDGE;
        assert_false(node_mapping_put(l->a->node, &m, l->a->now, &e));
        assert_int_equal(e.code, NODE_INVALID);
        assert_string_equal(e.pointer, "/vni");
        m.vni = 100;
        m.epoch = 2;
        m.node = ip("10.1.1.1");
        assert_false(node_mapping_put(l->a->node, &m, l->a->now, &e));
        assert_string_equal(e.pointer, "/node");
        converse(l, family);
        struct port_counters after = counters(l->a, l->g);
        assert_int_equal(after.misses[COUNT_OUT], before.misses[COUNT_OUT]);
    }
}

// A blueprint of another port on the node that changes no external address is nobody else's business.
static void t57_others_untouched(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    serve(l->a, 1, 1, &NODE_C);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    give_floating(&other, FLOATING_2, Q);
    put(l->a, &other);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_C);
        struct port_counters before = counters(l->a, l->g);
        draft_rule(&other, "more", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
        put(l->a, &other);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_C);
        struct port_counters after = counters(l->a, l->g);
        assert_int_equal(after.misses[COUNT_OUT], before.misses[COUNT_OUT]);
    }
}

// ---- address sets

static const struct uuid SET = {.b = {7}};

static bool try_members(struct lab *l, uint64_t generation, unsigned n, const char *const cidrs[], struct node_error *e)
{
    struct ip_prefix list[8];
    for (unsigned i = 0; i < n; i++)
        list[i] = prefix(cidrs[i]);
    struct address_set s = {.id = SET, .generation = generation, .cidrs = list, .n_cidrs = n};
    bool ok = node_address_set_put(l->a->node, &s, e);
    fake_quiesce(l->a);
    return ok;
}

static void members(struct lab *l, uint64_t generation, unsigned n, const char *const cidrs[])
{
    struct node_error e;
    assert_true(try_members(l, generation, n, cidrs, &e));
}

static void t28_address_set(void **state)
{
    struct lab *l = *state;
    struct draft other;
    struct node_error e;
    const char *const both[] = {"10.0.0.4/32", "fd00::4/128"};
    struct blueprint_rule *r = draft_rule(&l->guest, "group", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->remote.kind = BLUEPRINT_REMOTE_SET;
    r->remote.set = SET;
    put(l->a, &l->guest); // before the set is known: it is empty
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    uint64_t generation = 0;
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, P, 5000, via(G, GUEST_MAC), 22, 10);
        struct frame to_q = udp(family, P, 5000, via(Q, Q.mac), 22, 10);
        receive_vpc(l, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
        receive_vpc(l, &to_q);
        expect_deliver(l->a, q);
        members(l, ++generation, 2, both);
        struct port_counters before = counters(l->a, q);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        receive_vpc(l, &to_q);
        expect_deliver(l->a, q);
        members(l, ++generation, 1, (const char *const[]){"10.9.0.0/16"});
        receive_vpc(l, &in); // no longer a member: judged again with the next packet
        expect_drop(l->a, l->g, COUNT_IN, DROP_REVALIDATE_DENY);
        receive_vpc(l, &to_q);
        expect_deliver(l->a, q);
        assert_int_equal(counters(l->a, q).misses[COUNT_IN],
                         before.misses[COUNT_IN]); // a port that does not name the set
    }
    // The stream's own rules.
    assert_false(try_members(l, generation - 1, 2, both, &e));
    assert_int_equal(e.code, NODE_STALE);
    assert_false(try_members(l, generation, 2, both, &e));
    assert_int_equal(e.code, NODE_CONFLICT);
    assert_true(try_members(l, generation, 1, (const char *const[]){"10.9.0.0/16"}, &e));
    assert_false(node_address_set_delete(l->a->node, &SET, &e));
    assert_int_equal(e.code, NODE_CONFLICT);
    l->guest.b.firewall.n_rules = 0;
    put(l->a, &l->guest);
    assert_true(node_address_set_delete(l->a->node, &SET, &e));
    assert_false(node_address_set_delete(l->a->node, &SET, &e));
    assert_int_equal(e.code, NODE_NOT_FOUND);
}

// A set re-put as it is disturbs no flow.
static void t28_same_set(void **state)
{
    struct lab *l = *state;
    const char *const both[] = {"10.0.0.4/32", "fd00::4/128"};
    struct blueprint_rule *r = draft_rule(&l->guest, "group", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->remote.kind = BLUEPRINT_REMOTE_SET;
    r->remote.set = SET;
    members(l, 1, 2, both);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, P, 5000, via(G, GUEST_MAC), 22, 10);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        struct port_counters before = counters(l->a, l->g);
        members(l, 1, 2, both);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        assert_int_equal(counters(l->a, l->g).misses[COUNT_IN], before.misses[COUNT_IN]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T78 the same generation again changes nothing, an older one is stale, another content a conflict",
             t78_generations),
        TEST("T77 one invalid rule refuses the whole blueprint and is named", t77_one_bad_rule),
        TEST("T76 a document that makes no sense is refused by field and leaves no port", t76_nonsense),
        TEST("T78 mappings: stale, conflicting and invalid ones change nothing", t78_streams),
        TEST("T57 flows outside of other ports are not judged again for a port's new rules", t57_others_untouched),
        TEST("T28 a member added or removed counts from the next packet, for the set's users only", t28_address_set),
        TEST("T28 an address set put as it is disturbs no flow", t28_same_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
