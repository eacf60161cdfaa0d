// SPDX-License-Identifier: MPL-2.0
// Isolation and anti-spoof: who may speak as whom, and that tenants never meet.
#include "tests/behaviour/lab.h"

static const struct end STRANGER = {MAC_OF(3), "10.0.0.9", "fd00::9"}; // G's MAC, another's address
static const struct end FORGER = {MAC_OF(9), "10.0.0.3", "fd00::3"};   // G's address, another's MAC
static const struct end TRANSIT = {MAC_OF(3), "192.168.1.1", "fd77::1"};

static void t8_spoofed_source(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame address = udp(family, STRANGER, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &address);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        expect_counters(l->a, l->g, "out received=1 misses=1 spoof-ip=1");
        struct frame hardware = udp(family, FORGER, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &hardware);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_MAC);
        expect_counters(l->a, l->g, "out received=1 spoof-mac=1");
        struct frame gateway =
            udp(family, (struct end){MAC_OF(3), "10.0.0.1", "fd00::1"}, 1, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &gateway);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        expect_counters(l->a, l->g, "out received=1 misses=1 spoof-ip=1");
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

// A running flow does not open a door: the MAC is looked at on every packet.
static void t8_forged_mac_on_a_flow(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame good = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &good);
        expect_underlay(l->a, NODE_B);
        struct frame bad = udp(family, FORGER, 1000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &bad);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_MAC);
        expect_counters(l->a, l->g, "out received=2 misses=1 sent=1 spoof-mac=1");
    }
    assert_int_equal(flows(l->a, l->g), 2);
}

static void t8_link_local(void **state)
{
    struct lab *l = *state;
    const struct end self = {MAC_OF(3), "169.254.7.7", "fe80::1234:5678:9abc:def0"};
    const struct end router = {MAC_OF(1), "10.0.0.1", "fe80::ff:fe00:1"};
    struct frame echo = icmp_echo(6, self, router, false, 7, 1, 33);
    send_guest(l, &echo);
    const struct fake_call *c = expect_deliver(l->a, l->g);
    assert_int_equal(c->frame[54], 129);
    expect_counters(l->a, l->g, "out received=1 misses=1 answered=1 in generated=1");

    struct frame away = udp(6, self, 1000, via(P, GATEWAY_MAC), 53, 10);
    send_guest(l, &away);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_LINK_LOCAL);
    struct frame peer = udp(6, self, 1000, (struct end){MAC_OF(1), NULL, "fe80::77"}, 53, 10);
    send_guest(l, &peer);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_LINK_LOCAL);
    struct frame to = udp(6, G, 1000, (struct end){MAC_OF(1), NULL, "fe80::77"}, 53, 10);
    send_guest(l, &to);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_LINK_LOCAL);
    struct frame v4 = udp(4, self, 1000, via(P, GATEWAY_MAC), 53, 10); // 169.254/16 is nobody's
    send_guest(l, &v4);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
    struct frame forged = icmp_echo(6, via(self, (struct mac_addr)MAC_OF(9)), router, false, 7, 1, 33);
    send_guest(l, &forged);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_MAC);

    const struct end neighbour = {MAC_OF(4), "169.254.7.7", "fe80::4"};
    for (int family = 4; family <= 6; family += 2) {
        struct frame in = udp(family, neighbour, 1000, G, 53, 10);
        receive_vpc(l, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_LINK_LOCAL);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void allow_transit(struct lab *l, int dir)
{
    l->guest.b.l2.n_allowed = dir ? 2 : 0;
    l->guest.allowed[0] = (struct blueprint_allowed){.cidr = prefix("192.168.0.0/16"), .dir = (uint8_t)dir};
    l->guest.allowed[1] = (struct blueprint_allowed){.cidr = prefix("fd77::/64"), .dir = (uint8_t)dir};
    put(l->a, &l->guest);
}

static void t9_transit(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    for (int family = 4; family <= 6; family += 2) {
        struct frame out = udp(family, TRANSIT, 1000, via(P, GATEWAY_MAC), 53, 10);
        struct frame in = udp(family, P, 2000, TRANSIT, 53, 10);
        allow_transit(l, 0);
        send_guest(l, &out);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        receive_vpc(l, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_WRONG_DST);

        allow_transit(l, BLUEPRINT_IN);
        send_guest(l, &out);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);

        allow_transit(l, BLUEPRINT_BOTH);
        send_guest(l, &out);
        expect_underlay(l->a, NODE_B);
        struct frame answer = udp(family, P, 53, TRANSIT, 1000, 20);
        receive_vpc(l, &answer);
        expect_deliver(l->a, l->g);
        receive_vpc(l, &in);
        expect_deliver(l->a, l->g);
        assert_int_equal(flows(l->a, l->g), 2);

        // Removed: the very next packet of either flow, in either direction, is the last of its flow.
        allow_transit(l, 0);
        receive_vpc(l, &answer);
        expect_drop(l->a, l->g, COUNT_IN, DROP_SPOOF_IP);
        receive_vpc(l, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_WRONG_DST);
        assert_int_equal(flows(l->a, l->g), 0);
        send_guest(l, &out);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SPOOF_IP);
    }
}

static struct frame from_node(struct fake *f, const struct frame *inner, uint32_t vni, struct ip_addr node)
{
    struct frame outer = in_geneve(inner, vni, node, NODE_A);
    fake_underlay(f, outer.bytes, outer.len);
    return outer;
}

static void t10_two_vpcs_with_equal_addresses(void **state)
{
    struct lab *l = *state;
    struct draft twin;
    draft_init(&twin, 4, 200, G.v4, G.v6, GUEST_MAC);
    uint32_t g2 = put(l->a, &twin);
    map(l->a, 200, P.v4, PEER_MAC, NODE_C, 1);
    map(l->a, 200, P.v6, PEER_MAC, NODE_C, 1);
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 10);
        fake_guest(l->a, l->g, f.bytes, f.len);
        const struct fake_call *c = expect_underlay(l->a, NODE_B);
        assert_int_equal(load_be32(c->frame + 66) >> 8, 100);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1");
        expect_counters(l->a, g2, "");
        fake_guest(l->a, g2, f.bytes, f.len);
        c = expect_underlay(l->a, NODE_C);
        assert_int_equal(load_be32(c->frame + 66) >> 8, 200);
        expect_counters(l->a, l->g, "");
        expect_counters(l->a, g2, "out received=1 misses=1 sent=1");

        struct frame answer = udp(family, P, 53, G, 1000, 20);
        from_node(l->a, &answer, 100, NODE_B);
        expect_deliver(l->a, l->g);
        from_node(l->a, &answer, 200, NODE_C);
        expect_deliver(l->a, g2);
        expect_counters(l->a, l->g, "in received=1 hits=1 sent=1");
        expect_counters(l->a, g2, "in received=1 hits=1 sent=1");
        // The nodes of one VPC are strangers in the other.
        forget_counters(l->a);
        from_node(l->a, &answer, 200, NODE_B);
        from_node(l->a, &answer, 100, NODE_C);
        expect_nothing(l->a);
        expect_node_counters(l->a, "received=2 bad-vtep=2");
    }
}

static void t11_no_such_port(void **state)
{
    struct lab *l = *state;
    map(l->a, 300, P.v4, PEER_MAC, NODE_B, 1); // a VPC whose mappings are here, but no port
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        forget_counters(l->a);
        struct frame in = udp(family, P, 53, G, 1000, 20);
        from_node(l->a, &in, 300, NODE_B);
        struct frame other_mac = udp(family, P, 53, via(G, (struct mac_addr)MAC_OF(9)), 1000, 20);
        from_node(l->a, &other_mac, 100, NODE_B);
        expect_nothing(l->a);
        expect_node_counters(l->a, "received=2 unknown-port=2");
        from_node(l->a, &in, 301, NODE_B); // a VPC nobody told us of
        struct frame group = udp(family, P, 53, via(G, mac("ff:ff:ff:ff:ff:ff")), 1000, 20);
        from_node(l->a, &group, 100, NODE_B);
        expect_nothing(l->a);
        expect_node_counters(l->a, "received=2 multicast=1 bad-vtep=1");
        expect_counters(l->a, l->g, "");
    }
}

static void t12_bad_vtep(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame in = udp(family, P, 53, G, 1000, 20);
        forget_counters(l->a);
        from_node(l->a, &in, 100, NODE_C);
        from_node(l->a, &in, 100, NODE_A);             // our own address from the wire
        from_node(l->a, &in, GENEVE_VNI_EDGE, NODE_B); // a node, but no edge
        expect_nothing(l->a);
        expect_node_counters(l->a, "received=3 bad-vtep=3");
        expect_counters(l->a, l->g, "");
        from_node(l->a, &in, 100, NODE_B);
        expect_deliver(l->a, l->g);
        forget_counters(l->a);
    }
}

// A node keeps the right to send for two minutes after the last mapping left it: stragglers of a move.
static void t12_grace(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_C, 2);
    map(l->a, 100, P.v6, PEER_MAC, NODE_C, 2);
    for (int family = 4; family <= 6; family += 2) {
        struct frame in = udp(family, P, 53, G, 1000, 20);
        from_node(l->a, &in, 100, NODE_B);
        expect_deliver(l->a, l->g);
        from_node(l->a, &in, 100, NODE_C);
        expect_deliver(l->a, l->g);
    }
    pass_time(l->a, 121000);
    struct frame in = udp(4, P, 53, G, 1000, 20);
    from_node(l->a, &in, 100, NODE_B);
    expect_node_counters(l->a, "received=1 bad-vtep=1");
}

static void t13_wrong_inner_address(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame wrong = udp(family, P, 53, STRANGER, 1000, 20);
        receive_vpc(l, &wrong);
        expect_drop(l->a, l->g, COUNT_IN, DROP_WRONG_DST);
        expect_counters(l->a, l->g, "in received=1 misses=1 wrong-dst=1");
        struct frame loop = udp(family, via(G, PEER_MAC), 53, G, 1000, 20);
        receive_vpc(l, &loop);
        expect_drop(l->a, l->g, COUNT_IN, DROP_LOOP);
        expect_counters(l->a, l->g, "in received=1 misses=1 loop=1");
        struct frame self = udp(family, G, 53, via(G, GATEWAY_MAC), 1000, 20);
        send_guest(l, &self);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_LOOP);
        expect_counters(l->a, l->g, "out received=1 misses=1 loop=1");
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void t16_geneve_of_the_guests_own(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame payload = udp(4, P, 1, G, 2, 10), inside = in_geneve(&payload, 200, NODE_B, NODE_A);
        struct frame f = udp(family, G, 50000, via(P, GATEWAY_MAC), 6081, inside.len - 62);
        memcpy(f.bytes + f.len - (inside.len - 62), inside.bytes + 62, inside.len - 62);
        frame_fix(&f);
        send_guest(l, &f);
        const struct fake_call *c = expect_underlay(l->a, NODE_B);
        assert_int_equal(load_be32(c->frame + 66) >> 8, 100);
        expect_inner(c, f, PEER_MAC, GUEST_MAC);
        // And to the guest: delivered as it is, once the firewall lets it.
        struct frame back = udp(family, P, 6081, G, 50000, 64);
        receive_vpc(l, &back);
        expect_same_frame(expect_deliver(l->a, l->g), &back);
        expect_counters(l->a, l->g, "out received=1 misses=1 sent=1 in received=1 hits=1 sent=1");
    }
    const struct end node = {MAC_OF(1), NULL, "fd00:cabe::b"};
    struct frame f = udp(6, G, 50000, node, 6081, 64);
    send_guest(l, &f);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
}

struct refusal {
    struct frame frame;
    enum drop reason;
};

static void t90_groups_from_the_guest(void **state)
{
    struct lab *l = *state;
    const struct end broadcast = {{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, "255.255.255.255", NULL};
    const struct end directed = {{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, "10.0.0.255", NULL};
    const struct end group = {{{0x33, 0x33, 0, 0, 0, 0x77}}, "239.1.1.1", "ff02::77"};
    const struct end routers = {{{0x33, 0x33, 0, 0, 0, 0x16}}, "224.0.0.22", "ff02::16"};
    struct refusal list[] = {
        {udp(4, G, 1, broadcast, 9, 4), DROP_BROADCAST},
        {udp(4, G, 1, directed, 9, 4), DROP_BROADCAST},
        {udp(4, G, 1, via(P, broadcast.mac), 9, 4), DROP_BROADCAST},
        {udp(4, G, 1, group, 9, 4), DROP_MULTICAST},
        {udp(6, G, 1, group, 9, 4), DROP_MULTICAST},
        {udp(6, G, 1, via(P, group.mac), 9, 4), DROP_MULTICAST},
        {other(4, G, routers, IPPROTO_IGMP4, 8), DROP_IGMP},
        {icmp(6, G, routers, 143, 0), DROP_MLD},
        {icmp(6, G, routers, 131, 0), DROP_MLD},
    };
    for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
        send_guest(l, &list[i].frame);
        expect_drop(l->a, l->g, COUNT_OUT, list[i].reason);
    }
    expect_counters(l->a, l->g, "out received=9 misses=9 broadcast=3 multicast=3 igmp=1 mld=2");
    assert_int_equal(flows(l->a, l->g), 0);
}

static void t90_groups_from_the_overlay(void **state)
{
    struct lab *l = *state;
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    const struct end group = {MAC_OF(3), "239.1.1.1", "ff02::77"}, broadcast = {MAC_OF(3), "255.255.255.255", NULL};
    struct refusal list[] = {
        {udp(4, P, 1, group, 9, 4), DROP_MULTICAST},     {udp(6, P, 1, group, 9, 4), DROP_MULTICAST},
        {udp(4, P, 1, broadcast, 9, 4), DROP_BROADCAST}, {other(4, P, group, IPPROTO_IGMP4, 8), DROP_IGMP},
        {icmp(6, P, group, 143, 0), DROP_MLD},           {icmp(6, P, G, 135, 0), DROP_ND_OVERLAY},
    };
    for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
        receive_vpc(l, &list[i].frame);
        expect_drop(l->a, l->g, COUNT_IN, list[i].reason);
    }
    struct frame arp = arp_request(PEER_MAC, "10.0.0.4", "10.0.0.3");
    frame_set_mac(&arp, GUEST_MAC, PEER_MAC);
    receive_vpc(l, &arp);
    expect_drop(l->a, l->g, COUNT_IN, DROP_ARP_OVERLAY);
    assert_int_equal(flows(l->a, l->g), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T8 a spoofed source address or MAC makes no flow", t8_spoofed_source),
        TEST("T8 a forged MAC does not ride on a running flow", t8_forged_mac_on_a_flow),
        TEST("T8 link-local sources reach the gateway and never leave the node", t8_link_local),
        TEST("T9 transit CIDRs, by direction; removal stops flows at once", t9_transit),
        TEST("T10 equal addresses in two VPCs never meet", t10_two_vpcs_with_equal_addresses),
        TEST("T11 frames for no port here end, counted", t11_no_such_port),
        TEST("T12 only nodes of the VPC may send into it", t12_bad_vtep),
        TEST("T12 a node that a mapping has left may send for two minutes more", t12_grace),
        TEST("T13 wrong inner destination, own address as source", t13_wrong_inner_address),
        TEST("T16 a guest's own Geneve is ordinary UDP", t16_geneve_of_the_guests_own),
        TEST("T90 broadcast and multicast from the guest are named drops", t90_groups_from_the_guest),
        TEST("T90 groups, ARP and ND from the overlay are named drops", t90_groups_from_the_overlay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
