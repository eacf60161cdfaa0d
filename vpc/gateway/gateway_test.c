// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/test_gateway.h"

static struct test_spec udp(struct ip_addr src, struct ip_addr dst)
{
    return (struct test_spec){.ip_version = ip_is_v4(&dst) ? 4 : 6,
                              .protocol = IPPROTO_UDP4,
                              .src = src,
                              .dst = dst,
                              .sport = 5000,
                              .dport = 5001,
                              .payload_len = 8};
}

static const uint8_t zero4[4];

static struct answer send_udp(const struct world *w, struct ip_addr src, struct ip_addr dst)
{
    struct test_spec s = udp(src, dst);
    return ask_spec(w, &s);
}

static struct answer send_udp_from(const struct world *w, struct ip_addr src, struct ip_addr dst,
                                   const struct mac_addr *from, const struct mac_addr *to)
{
    struct test_spec s = udp(src, dst);
    struct test_frame f;
    guest_frame(&f, &s, from, to);
    return ask_bytes(w, f.b, f.len);
}

static void own_addresses_pass(void **state)
{
    struct world w;
    world_init(&w);
    expect_verdict(send_udp(&w, test_v4(10, 0, 0, 3), test_v4(10, 0, 0, 4)), GATEWAY_PASS);
    expect_verdict(send_udp(&w, test_v4(10, 0, 0, 3), test_v4(8, 8, 8, 8)), GATEWAY_PASS);
    expect_verdict(send_udp(&w, test_v6(0xfd00, 3), test_v6(0xfd00, 4)), GATEWAY_PASS);
    w.addresses[2] = test_v4(10, 0, 0, 33);
    w.b.l2.n_addresses = 3;
    world_changed(&w);
    expect_verdict(send_udp(&w, test_v4(10, 0, 0, 33), test_v4(10, 0, 0, 4)), GATEWAY_PASS);
    assert_true(ip_equal(&w.g.guest4, &w.addresses[0]));
    assert_true(ip_equal(&w.g.guest6, &w.addresses[1]));
    assert_true(ip_equal(&w.g.link_local, &gateway_ll));
}

static void foreign_sources_are_dropped(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr peer4 = test_v4(10, 0, 0, 4), peer6 = test_v6(0xfd00, 4);
    struct ip_addr own4 = test_v4(10, 0, 0, 3), own6 = test_v6(0xfd00, 3);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 9), peer4), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, test_v6(0xfd00, 9), peer6), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 1), peer4), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, gateway_ll, gateway_ll), DROP_SPOOF_IP);
    expect_drop(send_udp_from(&w, own4, peer4, &other_mac, NULL), DROP_SPOOF_MAC);
    expect_drop(send_udp_from(&w, own6, peer6, &other_mac, NULL), DROP_SPOOF_MAC);
    expect_drop(send_udp(&w, ip_from_v4(zero4), peer4), DROP_BAD_ADDRESS);
    expect_drop(send_udp(&w, own4, test_v4(0, 1, 2, 3)), DROP_BAD_ADDRESS);
}

static void anti_spoof_off(void **state)
{
    struct world w;
    world_init(&w);
    w.b.l2.anti_spoof = false;
    struct ip_addr peer4 = test_v4(10, 0, 0, 4);
    expect_verdict(send_udp_from(&w, test_v4(10, 0, 0, 9), peer4, &other_mac, NULL), GATEWAY_PASS);
    expect_verdict(send_udp(&w, test_v6(0xfd00, 9), test_v6(0xfd00, 4)), GATEWAY_PASS);
    expect_drop(send_udp(&w, ip_from_v4(zero4), peer4), DROP_BAD_ADDRESS);
    expect_drop(send_udp(&w, test_v4(169, 254, 1, 1), peer4), DROP_LINK_LOCAL);
}

static void link_local_stays(void **state)
{
    struct world w;
    world_init(&w);
    expect_drop(send_udp(&w, guest_ll, test_v6(0xfd00, 4)), DROP_LINK_LOCAL);
    expect_drop(send_udp(&w, guest_ll, test_v6(0xfe80, 4)), DROP_LINK_LOCAL);
    expect_drop(send_udp(&w, test_v6(0xfd00, 3), test_v6(0xfe80, 4)), DROP_LINK_LOCAL);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 3), test_v4(169, 254, 7, 7)), DROP_LINK_LOCAL);
    expect_drop(send_udp(&w, test_v4(169, 254, 7, 7), test_v4(10, 0, 0, 4)), DROP_SPOOF_IP);
    expect_drop(send_udp_from(&w, guest_ll, gateway_ll, &other_mac, NULL), DROP_SPOOF_MAC);
    expect_drop(send_udp(&w, guest_ll, gateway_ll), DROP_GATEWAY_SERVICE);
    struct ip_addr elsewhere = test_v6(0xfe90, 1); // fe80::/10, yet not fe80::/64
    expect_drop(send_udp(&w, elsewhere, gateway_ll), DROP_SPOOF_IP);
    struct test_spec echo = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = guest_ll, .dst = gateway_ll};
    echo.dport = 128 << 8;
    expect_verdict(ask_spec(&w, &echo), GATEWAY_ANSWER);
}

static void transit(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr routed = test_v4(192, 168, 1, 1), peer = test_v4(10, 0, 0, 4);
    expect_drop(send_udp(&w, routed, peer), DROP_SPOOF_IP);

    w.b.l2.n_allowed = 1;
    w.allowed[0] = (struct blueprint_allowed){prefix(test_v4(192, 168, 0, 0), 112), false, {{0}}, BLUEPRINT_BOTH};
    expect_verdict(send_udp(&w, routed, peer), GATEWAY_PASS);
    expect_drop(send_udp_from(&w, routed, peer, &other_mac, NULL), DROP_SPOOF_MAC);
    assert_true(gateway_address_allowed(&w.g, &routed, &guest_mac, BLUEPRINT_IN));

    w.allowed[0].dir = BLUEPRINT_IN;
    expect_drop(send_udp(&w, routed, peer), DROP_SPOOF_IP);
    assert_true(gateway_address_allowed(&w.g, &routed, &guest_mac, BLUEPRINT_IN));
    assert_false(gateway_address_allowed(&w.g, &routed, &guest_mac, BLUEPRINT_OUT));

    w.allowed[0].dir = BLUEPRINT_OUT;
    assert_false(gateway_address_allowed(&w.g, &routed, &guest_mac, BLUEPRINT_IN));
    assert_true(gateway_address_allowed(&w.g, &routed, &guest_mac, BLUEPRINT_OUT));

    // With a MAC, as VRRP has: that MAC and that range go together.
    w.allowed[0].has_mac = true;
    w.allowed[0].mac = other_mac;
    expect_verdict(send_udp_from(&w, routed, peer, &other_mac, NULL), GATEWAY_PASS);
    expect_drop(send_udp(&w, routed, peer), DROP_SPOOF_IP);
    expect_drop(send_udp_from(&w, test_v4(10, 0, 0, 3), peer, &other_mac, NULL), DROP_SPOOF_IP);

    // 0.0.0.0/0 is IPv4 only and does not open the gateway's own addresses.
    w.allowed[0] = (struct blueprint_allowed){prefix(test_v4(0, 0, 0, 0), 96), false, {{0}}, BLUEPRINT_BOTH};
    expect_verdict(send_udp(&w, test_v4(8, 8, 8, 8), peer), GATEWAY_PASS);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 1), peer), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, test_v4(169, 254, 169, 254), peer), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, test_v6(0xfd00, 9), test_v6(0xfd00, 4)), DROP_SPOOF_IP);

    w.allowed[1] = (struct blueprint_allowed){prefix(test_v6(0xfd55, 0), 64), false, {{0}}, BLUEPRINT_OUT};
    w.b.l2.n_allowed = 2;
    expect_verdict(send_udp(&w, test_v6(0xfd55, 1), test_v6(0xfd00, 4)), GATEWAY_PASS);
}

static void slaac(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr made = test_v6(0xfd00, 0x1234);
    expect_drop(send_udp(&w, made, test_v6(0xfd00, 4)), DROP_SPOOF_IP);
    w.b.gateway.ra.slaac = true;
    expect_verdict(send_udp(&w, made, test_v6(0xfd00, 4)), GATEWAY_PASS);
    expect_drop(send_udp(&w, test_v6(0xfd00, 1), test_v6(0xfd00, 4)), DROP_SPOOF_IP);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 9), test_v4(10, 0, 0, 4)), DROP_SPOOF_IP);
}

static void groups(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own4 = test_v4(10, 0, 0, 3), own6 = test_v6(0xfd00, 3);
    expect_drop(send_udp_from(&w, own4, test_v4(255, 255, 255, 255), NULL, &broadcast_mac), DROP_BROADCAST);
    expect_drop(send_udp_from(&w, own4, test_v4(10, 0, 0, 255), NULL, &broadcast_mac), DROP_BROADCAST);
    expect_drop(send_udp_from(&w, own4, test_v4(10, 0, 0, 4), NULL, &broadcast_mac), DROP_BROADCAST);
    static const struct mac_addr group = {{0x01, 0, 0x5e, 0, 0, 0xfb}};
    expect_drop(send_udp_from(&w, own4, test_v4(224, 0, 0, 251), NULL, &group), DROP_MULTICAST);
    expect_drop(send_udp_from(&w, own4, test_v4(10, 0, 0, 4), NULL, &group), DROP_MULTICAST);
    expect_drop(send_udp(&w, own6, test_v6(0xff02, 0xfb)), DROP_MULTICAST);
    expect_drop(send_udp(&w, guest_ll, test_v6(0xff02, 0xfb)), DROP_MULTICAST);

    struct test_spec igmp = {
        .ip_version = 4, .protocol = IPPROTO_IGMP4, .dst = test_v4(224, 0, 0, 22), .payload_len = 16};
    static const uint8_t router_alert4[4] = {0x94, 4, 0, 0};
    igmp.options = router_alert4;
    igmp.options_len = 4;
    expect_drop(ask_spec(&w, &igmp), DROP_IGMP);

    static const uint8_t router_alert6[8] = {IPPROTO_ICMP6, 0, 5, 2, 0, 0, 1, 0};
    struct test_spec mld = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = guest_ll, .dst = test_v6(0xff02, 0x16)};
    mld.dport = 143 << 8;
    mld.chain = router_alert6;
    mld.chain_len = 8;
    mld.payload_len = 20;
    expect_drop(ask_spec(&w, &mld), DROP_MLD);
    struct test_frame f; // the kernel's first reports have no source yet
    guest_frame(&f, &mld, NULL, NULL);
    memset(f.b + 14 + 8, 0, 16);
    expect_drop(ask_bytes(&w, f.b, f.len), DROP_MLD);
}

static void dhcp_server(void **state)
{
    struct world w;
    world_init(&w);
    struct test_spec s = udp(test_v4(10, 0, 0, 3), test_v4(10, 0, 0, 4));
    s.sport = 67;
    s.dport = 68;
    expect_drop(ask_spec(&w, &s), DROP_DHCP_SERVER);
    s.dst = test_v4(255, 255, 255, 255);
    expect_drop(ask_spec(&w, &s), DROP_DHCP_SERVER);
    s = udp(test_v6(0xfd00, 3), test_v6(0xfd00, 4));
    s.sport = 547;
    s.dport = 546;
    expect_drop(ask_spec(&w, &s), DROP_DHCP_SERVER);
    s = udp(test_v4(10, 0, 0, 3), test_v4(10, 0, 0, 4)); // a client of somebody else's server
    s.sport = 68;
    s.dport = 67;
    expect_verdict(ask_spec(&w, &s), GATEWAY_PASS);
}

static void metadata(void **state)
{
    struct world w;
    world_init(&w);
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct test_spec s = {.ip_version = version, .protocol = IPPROTO_TCP4, .sport = 40000, .dport = 80};
        s.dst = version == 4 ? metadata_v4 : metadata_v6;
        s.tcp_flags = TCP_SYN;
        expect_verdict(ask_spec(&w, &s), GATEWAY_METADATA);
        s.dport = 443;
        expect_drop(ask_spec(&w, &s), DROP_METADATA_PORT);
        s.protocol = IPPROTO_UDP4;
        s.dport = 80;
        expect_drop(ask_spec(&w, &s), DROP_METADATA_PORT);
        s.protocol = version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6;
        s.dport = version == 4 ? 8 << 8 : 128 << 8;
        expect_verdict(ask_spec(&w, &s), GATEWAY_ANSWER);
        s.protocol = IPPROTO_TCP4;
        s.dport = 80;
        w.b.gateway.metadata.enabled = false;
        expect_drop(ask_spec(&w, &s), DROP_METADATA_OFF);
        w.b.gateway.metadata.enabled = true;
        s.src = version == 4 ? test_v4(10, 0, 0, 9) : test_v6(0xfd00, 9);
        expect_drop(ask_spec(&w, &s), DROP_SPOOF_IP);
    }
    struct test_spec s = {.ip_version = 6, .protocol = IPPROTO_TCP4, .src = guest_ll, .dst = metadata_v6, .dport = 80};
    expect_drop(ask_spec(&w, &s), DROP_LINK_LOCAL);
    s = (struct test_spec){.ip_version = 4, .protocol = IPPROTO_TCP4, .dst = metadata_v4, .dport = 80};
    s.fragment = 0x2000;
    s.payload_len = 4;
    expect_drop(ask_spec(&w, &s), DROP_FRAGMENT);
}

static void other_services(void **state)
{
    struct world w;
    world_init(&w);
    expect_drop(send_udp(&w, test_v4(10, 0, 0, 3), test_v4(10, 0, 0, 1)), DROP_GATEWAY_SERVICE);
    expect_drop(send_udp(&w, test_v6(0xfd00, 3), test_v6(0xfd00, 1)), DROP_GATEWAY_SERVICE);
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_TCP4, .dst = test_v4(10, 0, 0, 1), .dport = 22};
    expect_drop(ask_spec(&w, &s), DROP_GATEWAY_SERVICE);
    s.protocol = 0;
    expect_drop(ask_spec(&w, &s), DROP_GATEWAY_SERVICE);
    s.protocol = 255;
    expect_drop(ask_spec(&w, &s), DROP_GATEWAY_SERVICE);
}

static enum drop receive(const struct world *w, const struct test_spec *s)
{
    struct test_frame f;
    uint8_t *buffer;
    guest_frame(&f, s, &other_mac, &guest_mac);
    struct packet p = lend_packet(f.b, f.len, &buffer);
    struct parsed pp;
    enum drop reason = parse_frame(&p, &pp);
    if (!reason) {
        enum gateway_verdict v = gateway_in(&w->g, &p, &pp, &reason);
        assert_int_equal(v, reason ? GATEWAY_DROP : GATEWAY_PASS);
    }
    free(buffer);
    return reason;
}

static enum drop receive_udp(const struct world *w, struct ip_addr src, struct ip_addr dst)
{
    struct test_spec s = udp(src, dst);
    return receive(w, &s);
}

static void inbound(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own4 = test_v4(10, 0, 0, 3), peer4 = test_v4(10, 0, 0, 4);
    struct ip_addr own6 = test_v6(0xfd00, 3), peer6 = test_v6(0xfd00, 4);
    assert_drop(receive_udp(&w, peer4, own4), DROP_NONE);
    assert_drop(receive_udp(&w, peer6, own6), DROP_NONE);
    assert_drop(receive_udp(&w, peer4, test_v4(10, 0, 0, 9)), DROP_WRONG_DST);
    assert_drop(receive_udp(&w, peer6, test_v6(0xfd00, 9)), DROP_WRONG_DST);
    assert_drop(receive_udp(&w, own4, own4), DROP_LOOP);
    assert_drop(receive_udp(&w, own6, own6), DROP_LOOP);
    assert_drop(receive_udp(&w, guest_ll, own6), DROP_LINK_LOCAL);
    assert_drop(receive_udp(&w, peer6, guest_ll), DROP_LINK_LOCAL);
    assert_drop(receive_udp(&w, metadata_v4, own4), DROP_LINK_LOCAL);
    assert_drop(receive_udp(&w, metadata_v6, own6), DROP_SPOOF_IP);
    assert_drop(receive_udp(&w, ip_from_v4(zero4), own4), DROP_BAD_ADDRESS);
    assert_drop(receive_udp(&w, peer4, test_v4(224, 0, 0, 251)), DROP_MULTICAST);
    assert_drop(receive_udp(&w, peer6, all_nodes), DROP_MULTICAST);
    assert_drop(receive_udp(&w, peer4, test_v4(255, 255, 255, 255)), DROP_BROADCAST);
    assert_drop(receive_udp(&w, peer4, test_v4(10, 0, 0, 255)), DROP_BROADCAST);
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_IGMP4, .src = peer4, .dst = own4, .payload_len = 8};
    assert_drop(receive(&w, &s), DROP_IGMP);

    w.b.l2.n_allowed = 1;
    w.allowed[0] = (struct blueprint_allowed){prefix(test_v4(192, 168, 0, 0), 112), true, other_mac, BLUEPRINT_IN};
    assert_drop(receive_udp(&w, peer4, test_v4(192, 168, 1, 1)), DROP_NONE);
    w.allowed[0].dir = BLUEPRINT_OUT;
    assert_drop(receive_udp(&w, peer4, test_v4(192, 168, 1, 1)), DROP_WRONG_DST);
}

static void nd_and_arp_inbound(void **state)
{
    struct world w;
    world_init(&w);
    for (uint16_t type = 133; type <= 137; type++) {
        struct test_spec s = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = test_v6(0xfd00, 4)};
        s.dst = test_v6(0xfd00, 3);
        s.dport = (uint16_t)(type << 8);
        s.ttl = 255;
        s.payload_len = 16;
        assert_drop(receive(&w, &s), DROP_ND_OVERLAY);
    }
    struct test_spec mld = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .dst = test_v6(0xfd00, 3)};
    mld.src = test_v6(0xfd00, 4);
    mld.dport = 131 << 8;
    assert_drop(receive(&w, &mld), DROP_MLD);
    struct parsed pp = {.ethertype = ETHERTYPE_ARP, .l3 = 14};
    struct packet p = {0};
    enum drop reason;
    assert_int_equal(gateway_in(&w.g, &p, &pp, &reason), GATEWAY_DROP);
    assert_drop(reason, DROP_ARP_OVERLAY);
}

// Every prefix of a frame, in a buffer that held ones and in one that held zeros: what lies behind a packet's end is
// never read and never sent.
static void cut_anywhere(void **state)
{
    struct world w;
    world_init(&w);
    struct test_spec specs[] = {
        udp(test_v4(10, 0, 0, 3), test_v4(10, 0, 0, 4)),
        udp(test_v6(0xfd00, 3), test_v6(0xfd00, 4)),
        udp(test_v4(0, 0, 0, 0), test_v4(255, 255, 255, 255)),
        udp(guest_ll, (struct ip_addr){.b = {0xff, 2, [13] = 1, 0, 2}}),
        {.ip_version = 4, .protocol = IPPROTO_ICMP4, .dst = test_v4(10, 0, 0, 1), .dport = 8 << 8, .payload_len = 40},
        {.ip_version = 6, .protocol = IPPROTO_ICMP6, .dst = gateway_ll, .dport = 128 << 8, .payload_len = 40},
        {.ip_version = 6, .protocol = IPPROTO_ICMP6, .dst = gateway_ll, .dport = 135 << 8, .ttl = 255},
        {.ip_version = 4, .protocol = IPPROTO_TCP4, .dst = metadata_v4, .dport = 80},
    };
    specs[2].dport = 67;
    specs[3].dport = 547;
    specs[6].payload_len = 24;
    for (uint32_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct test_frame f;
        guest_frame(&f, &specs[i], NULL, NULL);
        for (uint32_t n = 0; n <= f.len; n++) {
            // The lengths inside are cut too, or the parser would have the last word.
            uint32_t l3 = f.b[12] == 0x86 ? 54 : 14;
            if (n >= l3)
                store_be16(f.b + (l3 == 54 ? 18 : 16), (uint16_t)(n - l3));
            if (l3 == 14)
                checksum_write_ip4(f.b + 14);
            struct packet p[2];
            struct parsed pp;
            enum drop reason[2];
            enum gateway_verdict verdict[2];
            uint8_t *buffer[2];
            for (uint32_t k = 0; k < 2; k++) {
                p[k] = lend_packet(NULL, 0, &buffer[k]);
                memset(p[k].data, k ? 0xff : 0, p[k].room);
                memcpy(p[k].data, f.b, n);
                p[k].len = p[k].head = n;
                reason[k] = parse_frame(&p[k], &pp);
                verdict[k] = reason[k] ? GATEWAY_DROP : gateway_out(&w.g, &p[k], &pp, &reason[k], NULL);
            }
            assert_int_equal(verdict[0], verdict[1]);
            assert_drop(reason[0], reason[1]);
            assert_int_equal(p[0].len, p[1].len);
            assert_memory_equal(p[0].data, p[1].data, p[0].len);
            free(buffer[0]);
            free(buffer[1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T8 a guest's own addresses pass", .test_func = own_addresses_pass},
        {.name = "T8 foreign source MAC and IP are dropped", .test_func = foreign_sources_are_dropped},
        {.name = "T8 without anti-spoof sources are free, link-local still stays", .test_func = anti_spoof_off},
        {.name = "T8 link-local reaches the gateway and nothing else", .test_func = link_local_stays},
        {.name = "T9 allowed prefixes open by direction, family and MAC", .test_func = transit},
        {.name = "T5 slaac lets the /64 through anti-spoof", .test_func = slaac},
        {.name = "T90 groups, IGMP and MLD are dropped by name", .test_func = groups},
        {.name = "T8 DHCP server messages from a guest are dropped", .test_func = dhcp_server},
        {.name = "T7 TCP port 80 of the metadata addresses goes to the service", .test_func = metadata},
        {.name = "other services of the gateway are dropped by name", .test_func = other_services},
        {.name = "T13 inbound must be for this port, not from it, not link-local", .test_func = inbound},
        {.name = "T2 T5 ARP and neighbour discovery from the overlay are dropped", .test_func = nd_and_arp_inbound},
        {.name = "T71 a frame cut anywhere is judged by its own bytes alone", .test_func = cut_anywhere},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
