// SPDX-License-Identifier: MPL-2.0
// T63: external subnets routed to a port: 192.0.2.8/29 and 2001:db8:a::/48. Nothing of theirs is translated.
#include "tests/behaviour/outside.h"

static const char *const subnets[] = {"192.0.2.8/29", "2001:db8:a::/48"};
static const struct end INSIDE = {MAC_OF(3), "192.0.2.10", "2001:db8:a:1::10"}; // within, behind G
static const struct end BESIDE = {MAC_OF(3), "192.0.2.17", "2001:db8:b::1"};    // next to it
static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static void serve_subnets(struct fake *f, struct ip_addr edge)
{
    for (unsigned i = 0; i < 2; i++) {
        struct edge_set s = {.prefix = prefix(subnets[i]), .nodes = &edge, .n_nodes = 1, .epoch = 1};
        struct node_error e;
        assert_true(node_edge_set_put(f->node, &s, &e));
    }
    fake_quiesce(f);
}

static void attach(struct draft *d)
{
    for (unsigned i = 0; i < 2; i++)
        d->attached[i] = prefix(subnets[i]);
    d->b.nat.n_attached = 2;
}

static int setup(void **state)
{
    assert_int_equal(edge_setup(state), 0);
    struct lab *l = *state;
    serve_subnets(l->a, NODE_A);
    attach(&l->guest);
    put(l->a, &l->guest);
    return 0;
}

static struct frame answer_of(struct frame *out)
{
    return reply_to(out, TCP_SYN | TCP_ACK);
}

static void t63_passes(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G); // the guest's own addresses are translated as ever
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
        struct frame sent = start(protocols[i], family, INSIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 443);
        for (int round = 0; round < 2; round++) {
            send_guest(l, &sent);
            struct frame out = expect_outside(l->a);
            assert_true(goes(&out, family, INSIDE, OUTSIDE));
            assert_int_equal(view_of(&out).sport, 4000);
            assert_int_equal(view_of(&out).ttl, 63);
            struct frame reply = answer_of(&out);
            from_outside(l->a, &reply);
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, OUTSIDE, INSIDE));
            assert_memory_equal(at.bytes, GUEST_MAC.b, 6);
            assert_memory_equal(at.bytes + 6, GATEWAY_MAC.b, 6);
            assert_int_equal(view_of(&at).ttl, 63);
            put(l->a, &l->guest);
        }
        struct frame own = start(protocols[i], family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443);
        send_guest(l, &own);
        struct frame out = expect_outside(l->a);
        assert_true(goes(&out, family, FLOATING, OUTSIDE));
    }
}

static void t63_by_internet_gateway(void **state)
{
    struct lab *l = *state;
    l->guest.routes[2].target.kind = l->guest.routes[3].target.kind = BLUEPRINT_TARGET_EXTERNAL;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, INSIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        struct frame out = expect_outside(l->a);
        assert_true(goes(&out, family, INSIDE, OUTSIDE));
        f = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
    }
}

static void t63_not_attached(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, BESIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        struct frame in = udp(family, OUTSIDE, 53, BESIDE, 4000, 10);
        from_outside(l->a, &in);
        expect_outside_drop(l->a, DROP_NO_EXTERNAL_MAPPING);
    }
    // The guest may use it, but nobody routes it here.
    l->guest.allowed[0] = (struct blueprint_allowed){.cidr = prefix("192.0.2.16/29"), .dir = BLUEPRINT_BOTH};
    l->guest.allowed[1] = (struct blueprint_allowed){.cidr = prefix("2001:db8:b::/48"), .dir = BLUEPRINT_BOTH};
    l->guest.b.l2.n_allowed = 2;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, BESIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void t63_from_outside(void **state)
{
    struct lab *l = *state;
    struct blueprint_rule *r = draft_rule(&l->guest, "web", 10, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 80, 80);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame in = tcp(family, OUTSIDE, 5000, INSIDE, 80, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, OUTSIDE, INSIDE));
        struct frame reply = answer_of(&at);
        frame_set_mac(&reply, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &reply);
        struct frame out = expect_outside(l->a);
        assert_true(goes(&out, family, INSIDE, OUTSIDE));
        in = tcp(family, OUTSIDE, 5000, INSIDE, 81, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

static void t63_detached(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, INSIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &sent);
        struct frame out = expect_outside(l->a), reply = answer_of(&out);
        struct frame in = udp(family, OUTSIDE, 5000, INSIDE, 80, 10);
        from_outside(l->a, &in);
        struct frame at = expect_at(l->a, l->g), answer = answer_of(&at);
        frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
        assert_int_equal(flows(l->a, l->g), 2);

        l->guest.b.nat.n_attached = 0;
        put(l->a, &l->guest);
        from_outside(l->a, &reply);
        expect_outside_drop(l->a, DROP_NO_EXTERNAL_MAPPING);
        send_guest(l, &sent);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        send_guest(l, &answer);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NAT_REVOKED);
        assert_int_equal(flows(l->a, l->g), 0);

        l->guest.b.nat.n_attached = 2;
        put(l->a, &l->guest);
    }
}

static void t63_errors(void **state)
{
    struct lab *l = *state;
    const struct end hop = {MAC_OF(1), "192.0.2.200", "2001:db8:77::1"};
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, INSIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 30);
        send_guest(l, &sent);
        struct frame out = expect_outside(l->a);
        struct frame error =
            error_about(family, hop, ip(address_of(INSIDE, family)), &out, 60, family == 4 ? 11 : 3, 0);
        from_outside(l->a, &error);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, hop, INSIDE));
    }
}

static void t63_arp(void **state)
{
    struct lab *l = *state;
    struct frame question = arp_request(ROUTER_MAC, "198.51.100.1", "192.0.2.10");
    fake_external(l->a, 0, question.bytes, question.len);
    const struct fake_call *c = fake_next(l->a);
    assert_non_null(c);
    assert_int_equal(c->kind, FAKE_EXTERNAL);
    assert_memory_equal(c->frame + 22, LINK_MAC.b, 6);
    question = arp_request(ROUTER_MAC, "198.51.100.1", "192.0.2.17");
    fake_external(l->a, 0, question.bytes, question.len);
    expect_nothing(l->a);
}

// ---- The edge is another node: the mapping stream tells it the prefix

static void map_prefix(struct fake *f, const char *text, struct ip_addr node, uint64_t epoch, uint8_t state)
{
    struct ip_prefix p = prefix(text);
    struct external_mapping m = {.address = p.addr,
                                 .prefix_len = (uint8_t)(p.len - (ip_is_v4(&p.addr) ? 96 : 0)),
                                 .protocol = PROTOCOL_ANY,
                                 .ports = {0, 65535},
                                 .node = node,
                                 .epoch = epoch,
                                 .state = state};
    struct node_error e;
    if (!node_external_mapping_put(f->node, &m, &e))
        fail_msg("external mapping refused: %s", e.text);
    fake_quiesce(f);
}

static struct fake *start_node(struct node_config c)
{
    struct fake *f = fake_create();
    assert_true(fake_start(f, &c));
    serve(f, 1, 1, &NODE_A);
    serve_subnets(f, NODE_A);
    return f;
}

static void t63_by_an_edge(void **state)
{
    struct fake *edge = start_node(edge_config(NODE_A)), *own = start_node(lab_config(NODE_B));
    struct fake *nodes[] = {edge, own};
    struct draft d;
    draft_guest(&d);
    attach(&d);
    allow_all_in(&d);
    uint32_t g = put(own, &d);
    for (unsigned i = 0; i < 2; i++)
        map_prefix(edge, subnets[i], NODE_B, 1, MAPPING_ACTIVE);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
        struct frame sent = start(protocols[i], family, INSIDE, 4000, via(OUTSIDE, GATEWAY_MAC), 443);
        send_from(own, g, &sent);
        fake_pump(nodes, 2);
        struct frame out = expect_outside(edge);
        assert_true(goes(&out, family, INSIDE, OUTSIDE));
        struct frame reply = answer_of(&out);
        from_outside(edge, &reply);
        fake_pump(nodes, 2);
        struct frame at = expect_at(own, g);
        assert_true(goes(&at, family, OUTSIDE, INSIDE));
        struct frame in = start(protocols[i], family, OUTSIDE, 5000, INSIDE, 80);
        from_outside(edge, &in);
        fake_pump(nodes, 2);
        at = expect_at(own, g);
        assert_true(goes(&at, family, OUTSIDE, INSIDE));
    }
    for (unsigned i = 0; i < 2; i++)
        check_conservation(nodes[i]);
    fake_destroy(edge);
    fake_destroy(own);
}

static void longest_prefix(void **state)
{
    struct fake *edge = start_node(edge_config(NODE_A));
    const struct {
        const char *prefix;
        struct ip_addr node;
    } maps[] = {
        {"192.0.2.0/24", NODE_B}, {"192.0.2.8/29", NODE_C}, {"2001:db8:a::/48", NODE_B}, {"2001:db8:a:1::/64", NODE_C}};
    struct end inner = INSIDE, outer = {MAC_OF(3), "192.0.2.200", "2001:db8:a:2::1"};
    for (unsigned i = 0; i < ARRAY_LEN(maps); i++)
        map_prefix(edge, maps[i].prefix, maps[i].node, 1, MAPPING_ACTIVE);
    EACH_FAMILY(family)
    {
        struct frame in = udp(family, OUTSIDE, 5000, inner, 80, 10);
        from_outside(edge, &in);
        expect_carried(edge, NODE_C, GENEVE_VNI_EDGE);
        in = udp(family, OUTSIDE, 5000, outer, 80, 10);
        from_outside(edge, &in);
        expect_carried(edge, NODE_B, GENEVE_VNI_EDGE);
        struct external_mapping one = {.address = ip(address_of(inner, family)),
                                       .protocol = PROTOCOL_ANY,
                                       .ports = {80, 80},
                                       .node = NODE_B,
                                       .epoch = 1};
        struct node_error e;
        assert_true(node_external_mapping_put(edge->node, &one, &e));
        in = udp(family, OUTSIDE, 5000, inner, 80, 10);
        from_outside(edge, &in);
        expect_carried(edge, NODE_B, GENEVE_VNI_EDGE); // an address of its own wins
        in = udp(family, OUTSIDE, 5000, inner, 81, 10);
        from_outside(edge, &in);
        expect_carried(edge, NODE_C, GENEVE_VNI_EDGE); // where it covers
    }
    map_prefix(edge, "192.0.2.8/29", NODE_C, 2, MAPPING_TOMBSTONE);
    struct frame in = udp(4, OUTSIDE, 5000, inner, 81, 10);
    from_outside(edge, &in);
    expect_carried(edge, NODE_B, GENEVE_VNI_EDGE);
    fake_destroy(edge);
}

static void refusals(void **state)
{
    struct lab *l = *state;
    static const char *const bad[] = {"192.0.2.0/23",    "2001:db8:a::/65", "2001:db8::/32",   "10.0.0.0/24",
                                      "10.0.0.0/28",     "224.0.0.0/24",    "198.51.100.0/24", "169.254.1.0/24",
                                      "2001:db8:a::/64", "192.0.2.8/30",    "198.51.100.2/32"};
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        struct node_error e;
        draft_guest(&l->guest);
        l->guest.b.generation = 1000 + i;
        give_floating(&l->guest, FLOATING, G);
        give_snat(&l->guest, SHARED, 2000, 2999);
        attach(&l->guest);
        l->guest.attached[2] = prefix(bad[i]);
        l->guest.b.nat.n_attached = 3;
        if (try_put(l->a, &l->guest, &e))
            fail_msg("%s was attached", bad[i]);
        assert_string_equal(e.pointer, "/nat/attached/2");
    }
    struct external_mapping m = {
        .address = ip("192.0.2.1"), .prefix_len = 24, .ports = {0, 65535}, .node = NODE_B, .epoch = 1};
    struct node_error e;
    assert_false(node_external_mapping_put(l->a->node, &m, &e));
    assert_string_equal(e.pointer, "/prefix_len");
}

#define T63(text, fn) \
    { \
        "T63 " text, fn, setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        T63("a source within an attached subnet passes untranslated, both ways", t63_passes),
        T63("by an internet gateway too", t63_by_internet_gateway),
        T63("sources that are not attached are dropped", t63_not_attached),
        T63("from outside the subnet is found, and the firewall decides", t63_from_outside),
        T63("detached, its flows end with the next packet", t63_detached),
        T63("ICMP errors come to the address within", t63_errors),
        T63("the edge answers ARP for the subnet's addresses, and no others", t63_arp),
        {.name = "T63 by an edge that is another node", .test_func = t63_by_an_edge},
        {.name = "T63 the longest external prefix wins, and one address over all", .test_func = longest_prefix},
        T63("prefixes that cannot be attached are refused with their pointer", refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
