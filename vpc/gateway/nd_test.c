// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/test_gateway.h"

enum { RS = 133, RA = 134, NS = 135, NA = 136, REDIRECT = 137 };

static const struct ip_addr none6;

// payload: what follows the first 8 bytes of the message; bytes 4..7 are zero but in NA, where they are `flags`.
static struct answer ask_nd(const struct world *w, uint8_t type, struct ip_addr src, struct ip_addr dst, uint8_t ttl,
                            const uint8_t *payload, uint32_t len, const struct mac_addr *mac)
{
    struct test_frame f;
    struct test_spec s = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = src, .dst = dst, .ttl = ttl};
    s.dport = (uint16_t)(type << 8);
    s.payload = payload;
    s.payload_len = len;
    guest_frame(&f, &s, mac, NULL);
    if (ip_equal(&src, &none6)) { // test_frame_make's default is not what we want
        memset(f.b + 22, 0, 16);
        checksum_write_l4(f.b + f.l4, f.len - f.l4, &src, &dst, IPPROTO_ICMP6);
    }
    memset(f.b + f.l4 + 4, 0, 4);
    checksum_write_l4(f.b + f.l4, f.len - f.l4, &src, &dst, IPPROTO_ICMP6);
    return ask_bytes(w, f.b, f.len);
}

static uint32_t put_ll(uint8_t *at, uint8_t type, const struct mac_addr *mac)
{
    at[0] = type;
    at[1] = 1;
    memcpy(at + 2, mac->b, 6);
    return 8;
}

static struct ip_addr solicited_node(struct ip_addr target)
{
    struct ip_addr group = {.b = {0xff, 2, [11] = 1, [12] = 0xff}};
    memcpy(group.b + 13, target.b + 13, 3);
    return group;
}

static struct answer ask_ns(const struct world *w, struct ip_addr src, struct ip_addr target)
{
    uint8_t body[24];
    bool probe = ip_equal(&src, &none6);
    memcpy(body, target.b, 16);
    put_ll(body + 16, 1, &guest_mac);
    return ask_nd(w, NS, src, solicited_node(target), 255, body, probe ? 16 : 24, NULL);
}

static void expect_na(struct answer a, struct ip_addr target, struct ip_addr to, uint8_t flags)
{
    assert_drop(a.reason, DROP_NONE);
    assert_int_equal(a.verdict, GATEWAY_ANSWER);
    bool group = ip_is_multicast(&to);
    static const struct mac_addr nodes = {{0x33, 0x33, 0, 0, 0, 1}};
    const uint8_t *icmp = a.p.data + 54;
    assert_memory_equal(a.pp.dst_mac.b, group ? nodes.b : guest_mac.b, 6);
    assert_true(ip_equal(&a.pp.src, flags & 0x20 ? &target : &gateway_ll) && ip_equal(&a.pp.dst, &to));
    assert_int_equal(a.pp.ttl, 255);
    assert_int_equal(a.p.len, 54 + 32);
    assert_int_equal(icmp[0], NA);
    assert_int_equal(icmp[1], 0);
    assert_int_equal(load_be32(icmp + 4), (uint32_t)flags << 24);
    assert_memory_equal(icmp + 8, target.b, 16);
    uint8_t ll[8];
    put_ll(ll, 2, &gateway_mac);
    assert_memory_equal(icmp + 24, ll, 8);
    done(&a);
}

static void gateway_and_metadata(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own = test_v6(0xfd00, 3), gw = test_v6(0xfd00, 1);
    expect_na(ask_ns(&w, guest_ll, gateway_ll), gateway_ll, guest_ll, 0xe0);
    expect_na(ask_ns(&w, own, gateway_ll), gateway_ll, own, 0xe0);
    expect_na(ask_ns(&w, own, gw), gw, own, 0xe0);
    expect_na(ask_ns(&w, guest_ll, metadata_v6), metadata_v6, guest_ll, 0xe0);
    // DAD for an address that is taken: the answer goes to all nodes, unsolicited (RFC 4861 section 7.2.4)
    expect_na(ask_ns(&w, none6, gateway_ll), gateway_ll, all_nodes, 0xa0);
    expect_na(ask_ns(&w, none6, gw), gw, all_nodes, 0xa0);
    uint8_t body[16]; // unicast, without option: a neighbour cache refreshes itself
    memcpy(body, gw.b, 16);
    expect_na(ask_nd(&w, NS, own, gw, 255, body, 16, NULL), gw, own, 0xe0);
    w.b.gateway.metadata.enabled = false;
    expect_drop(ask_ns(&w, own, metadata_v6), DROP_METADATA_OFF);
}

static void neighbours(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own = test_v6(0xfd00, 3), peer = test_v6(0xfd00, 4);
    expect_na(ask_ns(&w, own, peer), peer, own, 0xc0);
    expect_drop(ask_ns(&w, own, test_v6(0xfd77, 4)), DROP_ND_INVALID);
    expect_drop(ask_ns(&w, own, test_v6(0xfe80, 4)), DROP_LINK_LOCAL);
    w.addresses[0] = test_v6(0xfd00, 33);
    expect_drop(ask_ns(&w, own, test_v6(0xfd00, 33)), DROP_MULTICAST);
}

static void duplicate_detection(void **state)
{
    struct world w;
    world_init(&w);
    expect_drop(ask_ns(&w, none6, test_v6(0xfd00, 3)), DROP_MULTICAST);
    expect_drop(ask_ns(&w, none6, guest_ll), DROP_MULTICAST);
    expect_drop(ask_ns(&w, none6, test_v6(0xfd00, 9)), DROP_SPOOF_ND);
    w.b.gateway.ra.slaac = true;
    expect_drop(ask_ns(&w, none6, test_v6(0xfd00, 9)), DROP_MULTICAST);
}

static void spoofed(void **state)
{
    struct world w;
    world_init(&w);
    uint8_t body[24];
    struct ip_addr own = test_v6(0xfd00, 3);
    expect_drop(ask_ns(&w, test_v6(0xfd00, 9), gateway_ll), DROP_SPOOF_ND);
    expect_drop(ask_ns(&w, gateway_ll, test_v6(0xfd00, 4)), DROP_SPOOF_ND);
    memcpy(body, gateway_ll.b, 16);
    put_ll(body + 16, 1, &other_mac);
    expect_drop(ask_nd(&w, NS, own, gateway_ll, 255, body, 24, NULL), DROP_SPOOF_ND);
    expect_drop(ask_nd(&w, NS, own, gateway_ll, 255, body, 24, &other_mac), DROP_SPOOF_MAC);

    put_ll(body + 16, 2, &guest_mac);
    memcpy(body, own.b, 16);
    expect_drop(ask_nd(&w, NA, own, all_nodes, 255, body, 24, NULL), DROP_ND_FROM_GUEST);
    memcpy(body, guest_ll.b, 16);
    expect_drop(ask_nd(&w, NA, guest_ll, all_nodes, 255, body, 24, NULL), DROP_ND_FROM_GUEST);
    memcpy(body, gateway_ll.b, 16);
    expect_drop(ask_nd(&w, NA, own, all_nodes, 255, body, 24, NULL), DROP_SPOOF_ND);
    struct ip_addr peer = test_v6(0xfd00, 4);
    memcpy(body, peer.b, 16);
    expect_drop(ask_nd(&w, NA, own, all_nodes, 255, body, 24, NULL), DROP_SPOOF_ND);
    expect_drop(ask_nd(&w, RA, guest_ll, all_nodes, 255, body, 8, NULL), DROP_ND_FROM_GUEST);
    expect_drop(ask_nd(&w, REDIRECT, guest_ll, all_nodes, 255, body, 24, NULL), DROP_ND_FROM_GUEST);

    w.b.l2.anti_spoof = false;
    expect_verdict(ask_ns(&w, test_v6(0xfd00, 9), gateway_ll), GATEWAY_ANSWER);
    expect_drop(ask_nd(&w, RA, guest_ll, all_nodes, 255, body, 8, NULL), DROP_ND_FROM_GUEST);
}

static void malformed(void **state)
{
    struct world w;
    world_init(&w);
    uint8_t body[64] = {0};
    struct ip_addr own = test_v6(0xfd00, 3), group = solicited_node(gateway_ll);
    memcpy(body, gateway_ll.b, 16);
    put_ll(body + 16, 1, &guest_mac);
    expect_verdict(ask_nd(&w, NS, own, group, 255, body, 24, NULL), GATEWAY_ANSWER);
    expect_drop(ask_nd(&w, NS, own, group, 64, body, 24, NULL), DROP_ND_INVALID);
    for (uint32_t n = 0; n < 24; n++)
        if (n != 16)
            expect_drop(ask_nd(&w, NS, own, group, 255, body, n, NULL), DROP_ND_INVALID);
    body[17] = 0;
    expect_drop(ask_nd(&w, NS, own, group, 255, body, 24, NULL), DROP_ND_INVALID);
    body[17] = 2;
    expect_drop(ask_nd(&w, NS, own, group, 255, body, 24, NULL), DROP_ND_INVALID);
    body[17] = 1;
    expect_drop(ask_nd(&w, NS, none6, group, 255, body, 24, NULL), DROP_ND_INVALID); // DAD with an option
    expect_drop(ask_nd(&w, NS, none6, gateway_ll, 255, body, 16, NULL), DROP_ND_INVALID);
    body[0] = 0xff;
    expect_drop(ask_nd(&w, NS, own, group, 255, body, 24, NULL), DROP_ND_INVALID);

    struct test_frame f; // a wrong checksum and a wrong code
    struct test_spec s = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = guest_ll, .dst = all_routers, .ttl = 255};
    s.dport = RS << 8;
    guest_frame(&f, &s, NULL, NULL);
    f.b[f.l4 + 2] ^= 1;
    expect_drop(ask_bytes(&w, f.b, f.len), DROP_ND_INVALID);
    s.dport = RS << 8 | 1;
    expect_drop(ask_spec(&w, &s), DROP_ND_INVALID);
    static const uint8_t fragment[8] = {IPPROTO_ICMP6, 0, 0, 1, 0, 0, 0, 1}; // RFC 6980
    s.dport = RS << 8;
    s.chain = fragment;
    s.chain_len = 8;
    s.chain_first = 44;
    expect_drop(ask_spec(&w, &s), DROP_ND_INVALID);
}

static void expect_ra(struct answer *a, const struct world *w, struct ip_addr to, uint8_t flags, bool prefix_too,
                      unsigned n_dns)
{
    assert_drop(a->reason, DROP_NONE);
    assert_int_equal(a->verdict, GATEWAY_ANSWER);
    assert_true(ip_equal(&a->pp.src, &gateway_ll) && ip_equal(&a->pp.dst, &to));
    assert_int_equal(a->pp.ttl, 255);
    const uint8_t *ra = a->p.data + 54;
    assert_int_equal(ra[0], RA);
    assert_int_equal(ra[4], 64);
    assert_int_equal(ra[5], flags);
    assert_int_equal(load_be16(ra + 6), 1800);
    assert_int_equal(load_be64(ra + 8), 0);
    unsigned seen = 0;
    for (const uint8_t *o = ra + 16, *end = a->p.data + a->p.len; o < end; o += o[1] * 8) {
        assert_true(o[1] > 0 && o + o[1] * 8 <= end);
        assert_false(seen & 1u << o[0]);
        seen |= 1u << o[0];
        if (o[0] == 1)
            assert_memory_equal(o + 2, gateway_mac.b, 6);
        if (o[0] == 5)
            assert_int_equal(load_be32(o + 4), w->b.vpc.mtu);
        if (o[0] == 3) {
            assert_int_equal(o[2], 64);
            assert_int_equal(o[3], 0x40); // A=1 L=0
            assert_true(load_be32(o + 8) > 0 && load_be32(o + 4) >= load_be32(o + 8));
            assert_memory_equal(o + 16, w->subnets[1].addr.b, 16);
        }
        if (o[0] == 25) {
            assert_int_equal(o[1], 1 + 2 * n_dns);
            assert_true(load_be32(o + 4) >= 600);
            assert_memory_equal(o + 8, w->dns6, 16 * n_dns);
        }
    }
    assert_int_equal(seen, 1u << 1 | 1u << 5 | (prefix_too ? 1u << 3 : 0) | (n_dns ? 1u << 25 : 0));
    done(a);
}

static void router_solicitation(void **state)
{
    struct world w;
    world_init(&w);
    uint8_t ll[8];
    put_ll(ll, 1, &guest_mac);
    struct answer a = ask_nd(&w, RS, guest_ll, all_routers, 255, ll, 8, NULL);
    assert_memory_equal(a.p.data, guest_mac.b, 6);
    expect_ra(&a, &w, guest_ll, 0xc0, false, 2);
    static const struct mac_addr nodes = {{0x33, 0x33, 0, 0, 0, 1}};
    a = ask_nd(&w, RS, none6, all_routers, 255, NULL, 0, NULL);
    assert_memory_equal(a.p.data, nodes.b, 6);
    expect_ra(&a, &w, all_nodes, 0xc0, false, 2);
    expect_drop(ask_nd(&w, RS, none6, all_routers, 255, ll, 8, NULL), DROP_ND_INVALID);
    expect_drop(ask_nd(&w, RS, guest_ll, all_routers, 64, ll, 8, NULL), DROP_ND_INVALID);

    w.b.gateway.ra.slaac = true;
    a = ask_nd(&w, RS, guest_ll, all_routers, 255, ll, 8, NULL);
    expect_ra(&a, &w, guest_ll, 0xc0, true, 2);
    w.b.gateway.dhcp6.enabled = false;
    w.b.gateway.dhcp6.n_dns = 0;
    a = ask_nd(&w, RS, guest_ll, all_routers, 255, ll, 8, NULL);
    expect_ra(&a, &w, guest_ll, 0, true, 0);
    w.b.gateway.ra.enabled = false;
    expect_drop(ask_nd(&w, RS, guest_ll, all_routers, 255, ll, 8, NULL), DROP_MULTICAST);
}

static void partial_checksum(void **state)
{
    struct world w;
    world_init(&w);
    struct test_frame f;
    struct test_spec s = {.ip_version = 6, .protocol = IPPROTO_ICMP6, .src = guest_ll, .dst = all_routers, .ttl = 255};
    s.dport = RS << 8;
    guest_frame(&f, &s, NULL, NULL);
    memset(f.b + f.l4 + 4, 0, 4);
    uint8_t *buffer;
    struct packet p = lend_packet(f.b, f.len, &buffer);
    struct parsed pp;
    assert_drop(parse_frame(&p, &pp), DROP_NONE);
    test_make_partial(&p, &pp);
    struct answer a = ask_packet(&w, p, buffer);
    expect_ra(&a, &w, guest_ll, 0xc0, false, 2);
}

static void unsolicited(void **state)
{
    struct world w;
    world_init(&w);
    static const struct mac_addr nodes = {{0x33, 0x33, 0, 0, 0, 1}};
    struct answer a = {.verdict = GATEWAY_ANSWER, .note.text = "-"};
    a.p = lend_packet(NULL, 0, &a.buffer);
    gateway_make_ra(&w.g, &a.p, &nodes, &all_nodes);
    assert_sound(&a);
    expect_ra(&a, &w, all_nodes, 0xc0, false, 2);

    a = (struct answer){.verdict = GATEWAY_ANSWER, .note.text = "-"};
    a.p = lend_packet(NULL, 0, &a.buffer);
    gateway_make_announcement(&w.g, &a.p, true);
    assert_sound(&a);
    expect_na(a, test_v6(0xfd00, 1), all_nodes, 0xa0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T1 T5 solicitations for the gateway and metadata are answered", .test_func = gateway_and_metadata},
        {.name = "T2 solicitations for other hosts of the subnet are answered by proxy", .test_func = neighbours},
        {.name = "T5 DAD for the guest's own addresses gets no answer", .test_func = duplicate_detection},
        {.name = "T5 RA, NA, redirect and foreign senders from a guest are dropped", .test_func = spoofed},
        {.name = "T5 malformed neighbour discovery is dropped", .test_func = malformed},
        {.name = "T5 router solicitation gets an advertisement", .test_func = router_solicitation},
        {.name = "O3 a solicitation with a partial checksum gets a full one back", .test_func = partial_checksum},
        {.name = "T5 O6 unsolicited advertisements", .test_func = unsolicited},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
