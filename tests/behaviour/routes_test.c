// SPDX-License-Identifier: MPL-2.0
// Routes: next hops, the longest prefix, and route tables that make no sense.
#include "tests/behaviour/outside.h"

#include <stdio.h>

static const struct end APPLIANCE = {{{2, 0, 0, 0, 0, 0x50}}, "10.0.0.50", "fd00::50"};

static void custom(struct draft *d, const char *prefix, const char *via)
{
    draft_route(d, prefix, BLUEPRINT_TARGET_IP, via);
    d->routes[d->b.n_routes - 1].custom = true;
}

static void map_both(struct lab *l, struct end e, struct ip_addr node, uint64_t epoch)
{
    EACH_FAMILY(family)
    map(l->a, 100, address_of(e, family), e.mac, node, epoch);
}

static void t60_next_hop(void **state)
{
    struct lab *l = *state;
    map_both(l, APPLIANCE, NODE_C, 1);
    map_both(l, Q, NODE_B, 1);
    custom(&l->guest, "10.0.0.4/32", APPLIANCE.v4);
    custom(&l->guest, "fd00::4/128", APPLIANCE.v6);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        for (int round = 0; round < 2; round++) {
            send_guest(l, &f);
            struct frame out = expect_carried(l->a, NODE_C, 100);
            assert_true(goes(&out, family, G, P)); // the inner destination stays
            assert_memory_equal(out.bytes, APPLIANCE.mac.b, 6);
            assert_memory_equal(out.bytes + 6, GATEWAY_MAC.b, 6);
        }
        f = udp(family, G, 1000, via(Q, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_memory_equal(out.bytes, Q.mac.b, 6);
    }
    // The flow depends on the next hop's mapping, not on the destination's.
    map_both(l, APPLIANCE, NODE_B, 2);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_carried(l->a, NODE_B, 100);
    }
}

static void t60_custom_wins(void **state)
{
    struct lab *l = *state;
    map_both(l, APPLIANCE, NODE_C, 1);
    custom(&l->guest, "10.0.0.0/16", APPLIANCE.v4); // the same prefixes as the system's local routes
    custom(&l->guest, "fd00::/48", APPLIANCE.v6);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_carried(l->a, NODE_C, 100);
    }
    // And wherever they stand in the list.
    struct blueprint_route last = l->guest.routes[5];
    memmove(&l->guest.routes[1], &l->guest.routes[0], 5 * sizeof(last));
    l->guest.routes[0] = last;
    put(l->a, &l->guest);
    struct frame f = udp(6, G, 1001, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    expect_carried(l->a, NODE_C, 100);
}

// The appliance is on this node: the packet enters its port, which must be allowed to be sent foreign destinations.
static void t60_local_appliance(void **state)
{
    struct lab *l = *state;
    struct draft d;
    draft_init(&d, 50, 100, APPLIANCE.v4, APPLIANCE.v6, APPLIANCE.mac);
    allow_all_in(&d);
    uint32_t appliance = put(l->a, &d);
    map_both(l, APPLIANCE, NODE_A, 1);
    custom(&l->guest, "10.0.0.4/32", APPLIANCE.v4);
    custom(&l->guest, "fd00::4/128", APPLIANCE.v6);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, appliance, COUNT_IN, DROP_WRONG_DST);
    }
    d.b.l2.n_allowed = 2;
    d.allowed[0] = (struct blueprint_allowed){.cidr = prefix("10.0.0.4/32"), .dir = BLUEPRINT_BOTH};
    d.allowed[1] = (struct blueprint_allowed){.cidr = prefix("fd00::4/128"), .dir = BLUEPRINT_BOTH};
    put(l->a, &d);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        struct frame at = expect_at(l->a, appliance);
        assert_true(goes(&at, family, G, P));
        assert_memory_equal(at.bytes, APPLIANCE.mac.b, 6);
    }
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// 2,000 random routes to 16 next hops: every packet goes where a linear look says. (100,000 are the LPM's own test.)
static void t61_many(void **state)
{
    struct lab *l = *state;
    enum { ROUTES = 2000, HOPS = 16 };
    static struct blueprint_route routes[ROUTES];
    struct draft d = l->guest;
    uint32_t seed = 61;
    d.b.routes = routes;
    d.b.n_routes = ROUTES;
    memset(routes, 0, sizeof(routes));
    for (unsigned h = 0; h < HOPS; h++) {
        EACH_FAMILY(family)
        {
            char address[40];
            snprintf(address, sizeof(address), family == 4 ? "10.0.1.%u" : "fd00:0:0:1::%x", h + 16);
            map(l->a, 100, address, (struct mac_addr){{2, 0, 0, 0, 1, (uint8_t)h}}, NODE_B, 1);
        }
    }
    for (unsigned i = 0; i < ROUTES; i++) {
        struct blueprint_route *r = &routes[i];
        bool v4 = i % 2;
        r->target.kind = BLUEPRINT_TARGET_IP;
        uint32_t address = (next(&seed) & 0x3) << 30 | next(&seed) % 64 << 22 | (next(&seed) & 0xffff);
        unsigned bits = i < 2 ? 0 : 1 + next(&seed) % 32;
        uint32_t network = bits ? address & (0xffffffffu << (32 - bits)) : 0;
        char text[64];
        snprintf(text, sizeof(text), v4 ? "%u.%u.%u.%u/%u" : "%02x%02x:%02x%02x::/%u", network >> 24,
                 network >> 16 & 255, network >> 8 & 255, network & 255, bits);
        r->prefix = prefix(text);
        snprintf(text, sizeof(text), v4 ? "10.0.1.%u" : "fd00:0:0:1::%x", 16 + next(&seed) % HOPS);
        r->target.ip = ip(text);
        r->custom = i > ROUTES / 2;
    }
    d.b.firewall.default_in_allow = true;
    put(l->a, &d);
    for (unsigned i = 0; i < 4000; i++) {
        bool v4 = i % 2;
        uint32_t address = (next(&seed) & 0x3) << 30 | next(&seed) % 64 << 22 | (next(&seed) & 0xffff);
        if (v4 && ((address >> 24) >= 224 || address >> 24 == 127 || address >> 24 == 0 || address >> 16 == 0xa9fe))
            continue;
        uint8_t top = (uint8_t)(address >> 24);
        if (!v4 && (top == 0xff || top == 0xfe || address == 0))
            continue;
        char text[64];
        snprintf(text, sizeof(text), v4 ? "%u.%u.%u.%u" : "%02x%02x:%02x%02x::9", address >> 24, address >> 16 & 255,
                 address >> 8 & 255, address & 255);
        struct ip_addr dst = ip(text);
        const struct blueprint_route *best = NULL;
        for (unsigned k = 0; k < ROUTES; k++) {
            const struct blueprint_route *r = &routes[k];
            if (ip_is_v4(&r->prefix.addr) != v4 || !ip_in_prefix(&dst, &r->prefix))
                continue;
            if (!best || r->prefix.len > best->prefix.len ||
                (r->prefix.len == best->prefix.len && r->custom && !best->custom))
                best = r;
        }
        struct end to = {GATEWAY_MAC, text, text};
        struct frame f = udp(v4 ? 4 : 6, G, (uint16_t)(1000 + i), to, 53, 10);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_int_equal(out.bytes[5] + 16, best->target.ip.b[15]);
        if (i % 500 == 499) {
            struct node_error e;
            assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
            fake_quiesce(l->a);
        }
    }
}

static void t62_families(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    struct frame f = udp(4, G, 1000, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    struct port_counters before, after;
    node_port_counters(l->a->node, l->g, &before);
    struct draft d = l->guest;
    for (int bad = 0; bad < 2; bad++) {
        d = l->guest;
        d.b.routes = d.routes;
        draft_route(&d, bad ? "fd99::/64" : "10.99.0.0/24", BLUEPRINT_TARGET_IP, bad ? "10.0.0.50" : "fd00::50");
        assert_false(try_put(l->a, &d, &e));
        assert_int_equal(e.code, NODE_INVALID);
        assert_string_equal(e.pointer, "/routes/4/target/ip");
        assert_true(e.text[0]);
    }
    struct node_port_status s;
    assert_true(node_port_status(l->a->node, l->g, &s));
    assert_int_equal(s.generation, l->guest.b.generation);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    node_port_counters(l->a->node, l->g, &after);
    assert_int_equal(after.misses[COUNT_OUT], before.misses[COUNT_OUT]); // the flow was not even looked at
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T60 a next hop gets the packet at its MAC, with the destination as it was", t60_next_hop),
        TEST("T60 a custom route beats a system route of the same prefix", t60_custom_wins),
        TEST("T60 a next hop on this node gets what its port allows", t60_local_appliance),
        TEST("T61 every destination takes the longest prefix's way", t61_many),
        TEST("T62 a target of another family is refused by name and nothing changes", t62_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
