// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/test_packet.h"

static enum drop parse_bytes(const void *bytes, uint32_t n, struct parsed *pp)
{
    struct packet p = test_packet(bytes, n);
    enum drop d = parse_frame(&p, pp);
    test_packet_free(&p);
    return d;
}

static enum drop parse_spec(const struct test_spec *s, struct parsed *pp)
{
    struct test_frame f;
    test_frame_make(&f, s);
    return parse_bytes(f.b, f.len, pp);
}

#define assert_drop(got, want) assert_string_equal(drop_name(got), drop_name(want))

static void plain_tcp(void **state)
{
    struct test_frame f;
    for (uint8_t version = 4; version <= 6; version += 2) {
        uint16_t ip = version == 4 ? 20 : 40;
        struct parsed pp;
        test_frame_make(&f, &(struct test_spec){.ip_version = version,
                                                .protocol = IPPROTO_TCP4,
                                                .sport = 1000,
                                                .dport = 80,
                                                .tcp_flags = TCP_ACK | TCP_PSH,
                                                .tos = 0x2e,
                                                .ttl = 9,
                                                .payload_len = 33});
        memset(f.b + f.len, 0xee, 6); // Ethernet padding
        assert_drop(parse_bytes(f.b, f.len + 6, &pp), DROP_NONE);
        struct parsed want;
        memset(&want, 0, sizeof(want)); // holes too
        want.ethertype = version == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6;
        want.l3 = 14;
        want.l4 = 14 + ip;
        want.payload = 14 + ip + 20;
        want.flags = PARSE_CANONICAL | PARSE_HAS_PORTS;
        want.ip_version = version;
        want.protocol = IPPROTO_TCP4;
        want.ttl = 9;
        want.tos = 0x2e;
        want.ip_len = ip + 53u;
        want.sport = __builtin_bswap16(1000);
        want.dport = __builtin_bswap16(80);
        want.tcp_flags = TCP_ACK | TCP_PSH;
        want.tcp_seq = 0x01020304;
        want.tcp_ack = 0x05060708;
        want.l4_payload_len = 33;
        want.dst_mac = (struct mac_addr){{2, 0, 0, 0, 0, 4}};
        want.src_mac = (struct mac_addr){{2, 0, 0, 0, 0, 3}};
        want.src = version == 4 ? test_v4(10, 0, 0, 3) : test_v6(0xfd00, 3);
        want.dst = version == 4 ? test_v4(10, 0, 0, 4) : test_v6(0xfd00, 4);
        assert_memory_equal(&pp, &want, sizeof(pp));
    }
}

static void other_protocols(void **state)
{
    struct parsed pp;
    assert_drop(parse_spec(
                    &(struct test_spec){
                        .ip_version = 4, .protocol = IPPROTO_ICMP4, .sport = 77, .dport = 8 << 8, .payload_len = 5},
                    &pp),
                DROP_NONE);
    assert_int_equal(pp.flags, PARSE_HAS_ICMP_ID);
    assert_int_equal(pp.sport, __builtin_bswap16(77));
    assert_int_equal(pp.dport, __builtin_bswap16(8 << 8));
    assert_int_equal(pp.icmp_type, 8);
    assert_drop(parse_spec(
                    &(struct test_spec){
                        .ip_version = 6, .protocol = IPPROTO_ICMP6, .sport = 77, .dport = 135 << 8, .payload_len = 16},
                    &pp),
                DROP_NONE);
    assert_int_equal(pp.flags, 0);
    assert_int_equal(pp.sport, 0);
    assert_drop(
        parse_spec(
            &(struct test_spec){.ip_version = 6, .protocol = IPPROTO_SCTP4, .sport = 5, .dport = 6, .payload_len = 4},
            &pp),
        DROP_NONE);
    assert_int_equal(pp.flags, PARSE_HAS_PORTS);
    assert_int_equal(pp.payload, 14 + 40 + 12);
    for (unsigned protocol = 0; protocol < 256; protocol += 255) // 0 and 255 are protocols like any other in IPv4
        assert_drop(
            parse_spec(&(struct test_spec){.ip_version = 4, .protocol = (uint8_t)protocol, .payload_len = 9}, &pp),
            DROP_NONE);
    assert_int_equal(pp.l4, 0);
    assert_int_equal(pp.flags, 0);
    assert_int_equal(pp.payload, 34);
    // The other family's ICMP has no meaning here: no type, no identifier.
    assert_drop(parse_spec(&(struct test_spec){.ip_version = 4, .protocol = IPPROTO_ICMP6, .dport = 128 << 8}, &pp),
                DROP_NONE);
    assert_int_equal(pp.l4, 0);
}

static void arp(void **state)
{
    uint8_t b[42] = {2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 0x08, 0x06};
    struct parsed pp;
    assert_drop(parse_bytes(b, 14, &pp), DROP_NONE);
    assert_int_equal(pp.ethertype, ETHERTYPE_ARP);
    assert_int_equal(pp.l3, 14);
    assert_int_equal(pp.ip_version, 0);
    assert_int_equal(pp.src_mac.b[5], 3);
}

static void shapes(void **state)
{
    static const struct {
        uint8_t tag[6];
        enum drop reason;
    } cases[] = {
        {{0x81, 0x00, 0x00, 0x05, 0x08, 0x00}, DROP_VLAN_TAGGED},
        {{0x88, 0xa8, 0x00, 0x05, 0x81, 0x00}, DROP_VLAN_TAGGED},
        {{0x00, 0x26, 0x42, 0x42, 0x03, 0x00}, DROP_BAD_ETHERTYPE}, // 802.3 with LLC
        {{0x00, 0x00}, DROP_BAD_ETHERTYPE},
        {{0x88, 0xcc}, DROP_BAD_ETHERTYPE}, // LLDP
        {{0x88, 0x47}, DROP_BAD_ETHERTYPE}, // MPLS
        {{0xff, 0xff}, DROP_BAD_ETHERTYPE},
    };
    struct parsed pp;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t b[64] = {2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3};
        memcpy(b + 12, cases[i].tag, 6);
        assert_drop(parse_bytes(b, 64, &pp), cases[i].reason);
    }
    uint8_t stacked[1514] = {2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3};
    for (unsigned i = 12; i < 412; i += 4)
        stacked[i] = 0x81;
    assert_drop(parse_bytes(stacked, sizeof(stacked), &pp), DROP_VLAN_TAGGED);
}

static void source_macs(void **state)
{
    struct test_frame f;
    struct parsed pp;
    test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4});
    f.b[6] = 3;
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_SRC_MAC);
    memset(f.b + 6, 0, 6);
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_SRC_MAC);
    memset(f.b + 6, 0xff, 6);
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_SRC_MAC);
}

static void addresses(void **state)
{
    const struct {
        struct ip_addr src, dst;
        enum drop reason;
    } cases[] = {
        {test_v4(224, 0, 0, 1), test_v4(10, 0, 0, 4), DROP_BAD_ADDRESS},
        {test_v4(255, 255, 255, 255), test_v4(10, 0, 0, 4), DROP_BAD_ADDRESS},
        {test_v4(127, 0, 0, 1), test_v4(10, 0, 0, 4), DROP_BAD_ADDRESS},
        {test_v4(10, 0, 0, 3), test_v4(127, 1, 2, 3), DROP_BAD_ADDRESS},
        {test_v4(0, 0, 0, 0), test_v4(255, 255, 255, 255), DROP_NONE}, // DHCP
        {test_v4(10, 0, 0, 3), test_v4(224, 0, 0, 251), DROP_NONE},
        {test_v6(0xff02, 1), test_v6(0xfd00, 4), DROP_BAD_ADDRESS},
        {test_v6(0, 1), test_v6(0xfd00, 4), DROP_BAD_ADDRESS},
        {test_v6(0xfd00, 3), test_v6(0, 1), DROP_BAD_ADDRESS},
        {test_v6(0xfd00, 3), test_v4(10, 0, 0, 4), DROP_BAD_ADDRESS},
        {test_v4(10, 0, 0, 3), test_v6(0xfd00, 4), DROP_BAD_ADDRESS},
        {test_v6(0xfe80, 3), test_v6(0xff02, 2), DROP_NONE},
    };
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct parsed pp;
        struct test_spec s = {.ip_version = ip_is_v4(&cases[i].src) && ip_is_v4(&cases[i].dst) ? 4 : 6,
                              .protocol = IPPROTO_UDP4,
                              .src = cases[i].src,
                              .dst = cases[i].dst};
        assert_drop(parse_spec(&s, &pp), cases[i].reason);
    }
    struct test_frame f;
    struct parsed pp;
    test_frame_make(&f, &(struct test_spec){.ip_version = 6, .protocol = IPPROTO_UDP4});
    memset(f.b + 14 + 8, 0, 16); // duplicate address detection
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_NONE);
}

static void ip4_header_lengths(void **state)
{
    struct parsed pp;
    static const uint8_t good[] = {148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0}; // router alert, record route, end
    assert_drop(parse_spec(
                    &(struct test_spec){
                        .ip_version = 4, .protocol = IPPROTO_UDP4, .options = good, .options_len = 12, .dport = 53},
                    &pp),
                DROP_NONE);
    assert_int_equal(pp.flags, PARSE_IP_OPTIONS | PARSE_HAS_PORTS);
    assert_int_equal(pp.l4, 46);
    assert_int_equal(pp.dport, __builtin_bswap16(53));
    static const uint8_t junk_after_end[] = {1, 0, 7, 0};
    assert_drop(
        parse_spec(
            &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4, .options = junk_after_end, .options_len = 4},
            &pp),
        DROP_NONE);
    static const uint8_t bad[][4] = {{7, 0, 0, 0}, {7, 1, 0, 0},   {7, 5, 4, 0},
                                     {1, 1, 1, 7}, {131, 3, 4, 0}, {137, 3, 4}};
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        assert_drop(
            parse_spec(
                &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4, .options = bad[i], .options_len = 4},
                &pp),
            i < 4 ? DROP_BAD_IP_HEADER : DROP_SOURCE_ROUTE);
    assert_true(pp.flags & PARSE_SOURCE_ROUTE);

    struct test_frame f;
    for (uint8_t ihl = 0; ihl < 16; ihl++) {
        test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4});
        f.b[14] = 0x40 | ihl;
        enum drop d = parse_bytes(f.b, f.len, &pp);
        assert_drop(d, ihl == 5 ? DROP_NONE : ihl < 5 || ihl > 7 ? DROP_BAD_IP_HEADER : DROP_BAD_IP_CHECKSUM);
    }
    for (uint32_t total = 0; total < 40; total++) {
        test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4});
        store_be16(f.b + 16, (uint16_t)total);
        checksum_write_ip4(f.b + 14);
        enum drop want = total < 20 ? DROP_BAD_IP_HEADER : total == 28 ? DROP_NONE : DROP_TRUNCATED;
        assert_drop(parse_bytes(f.b, f.len, &pp), want);
    }
    test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4});
    f.b[14] = 0x65;
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_IP_HEADER);
}

static void ip4_checksum(void **state)
{
    static const uint8_t nops[40] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t options = 0; options <= 40; options += 40) {
        struct test_frame f;
        struct parsed pp;
        test_frame_make(&f, &(struct test_spec){
                                .ip_version = 4, .protocol = IPPROTO_UDP4, .options = nops, .options_len = options});
        f.b[14 + 11] ^= 1;
        struct packet p = test_packet(f.b, f.len);
        assert_drop(parse_frame(&p, &pp), DROP_BAD_IP_CHECKSUM);
        p.csum = CSUM_VERIFIED;
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        p.csum = CSUM_PARTIAL;
        p.csum_start = (uint16_t)f.l4;
        p.csum_offset = 6;
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        test_packet_free(&p);
    }
}

static void ip6_chains(void **state)
{
    uint8_t chain[9 * 8] = {0};
    struct parsed pp;
    struct test_spec s = {.ip_version = 6,
                          .protocol = IPPROTO_TCP4,
                          .dport = 443,
                          .tcp_flags = TCP_SYN,
                          .chain = chain,
                          .chain_first = 60,
                          .payload_len = 3};
    for (unsigned n = 0; n <= 9; n++) {
        for (unsigned i = 0; i < n; i++)
            chain[8 * i] = i + 1 == n ? IPPROTO_TCP4 : 60;
        s.chain_len = n * 8;
        s.chain_first = 60;
        assert_drop(parse_spec(&s, &pp), n == 9 ? DROP_IP6_EXT_CHAIN : DROP_NONE);
        if (n < 9)
            assert_int_equal(pp.dport, __builtin_bswap16(443));
        if (n && n < 9)
            assert_int_equal(pp.flags, PARSE_IP_OPTIONS | PARSE_HAS_PORTS);
        if (n && n < 9) { // hop-by-hop is legal in front, and nowhere else
            s.chain_first = 0;
            assert_drop(parse_spec(&s, &pp), DROP_NONE);
        }
    }
    uint8_t late_hbh[16] = {0, 0, 0, 0, 0, 0, 0, 0, IPPROTO_TCP4};
    s.chain = late_hbh;
    s.chain_len = 16;
    s.chain_first = 60;
    assert_drop(parse_spec(&s, &pp), DROP_IP6_EXT_CHAIN);
    uint8_t ah[12] = {IPPROTO_TCP4, 1}, route0[8] = {IPPROTO_TCP4, 0, 0, 0}, route2[24] = {IPPROTO_TCP4, 2, 2, 1};
    s.chain = ah;
    s.chain_len = 12;
    s.chain_first = 51;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.l4, 14 + 40 + 12);
    ah[1] = 255;
    assert_drop(parse_spec(&s, &pp), DROP_IP6_EXT_CHAIN);
    s.chain = route2;
    s.chain_len = 24;
    s.chain_first = 43;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    s.chain = route0;
    s.chain_len = 8;
    assert_drop(parse_spec(&s, &pp), DROP_SOURCE_ROUTE);
    assert_true(pp.flags & PARSE_SOURCE_ROUTE);
    s.chain = NULL;
    s.chain_len = 0;
    s.protocol = 50; // ESP
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.protocol, 50);
    assert_int_equal(pp.l4 | pp.sport | pp.dport, 0);
    s.protocol = 59; // no next header
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.protocol, 59);
}

static void fragments(void **state)
{
    struct parsed pp;
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_UDP4, .dport = 53, .payload_len = 16};
    s.fragment = 0x2000;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_FRAG_FIRST | PARSE_HAS_PORTS);
    s.fragment = 0x2001;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_FRAG_LATER);
    assert_int_equal(pp.l4 | pp.sport | pp.dport, 0);
    s.fragment = 0x4000;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_CANONICAL | PARSE_DF | PARSE_HAS_PORTS);
    s.fragment = 0x1fff; // ping of death: ends behind 65535
    assert_drop(parse_spec(&s, &pp), DROP_BAD_IP_HEADER);
    s.fragment = 0x2000;
    s.payload_len = 17; // not a multiple of 8, and more to come
    assert_drop(parse_spec(&s, &pp), DROP_BAD_IP_HEADER);

    struct test_frame f;
    test_frame_make(
        &f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_TCP4, .fragment = 0x2000, .payload_len = 4});
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_NONE);
    store_be16(f.b + 16, 20 + 16); // the flags lie in the second fragment
    checksum_write_ip4(f.b + 14);
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_L4_HEADER);
    store_be16(f.b + 20, 0x2001); // and that second fragment
    checksum_write_ip4(f.b + 14);
    assert_drop(parse_bytes(f.b, f.len, &pp), DROP_BAD_L4_HEADER);
}

static void fragments_v6(void **state)
{
    struct parsed pp;
    uint8_t frag[8] = {IPPROTO_UDP4};
    struct test_spec s = {.ip_version = 6,
                          .protocol = IPPROTO_UDP4,
                          .dport = 53,
                          .payload_len = 16,
                          .chain = frag,
                          .chain_len = 8,
                          .chain_first = 44};
    assert_drop(parse_spec(&s, &pp), DROP_NONE); // atomic: RFC 6946
    assert_int_equal(pp.flags, PARSE_IP_OPTIONS | PARSE_HAS_PORTS);
    frag[3] = 1;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_IP_OPTIONS | PARSE_FRAG_FIRST | PARSE_HAS_PORTS);
    frag[3] = 8;
    assert_drop(parse_spec(&s, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_IP_OPTIONS | PARSE_FRAG_LATER);
    assert_int_equal(pp.l4, 0);
    frag[0] = IPPROTO_TCP4;
    assert_drop(parse_spec(&s, &pp), DROP_BAD_L4_HEADER);
    frag[2] = 0xff;
    frag[3] = 0xf8;
    assert_drop(parse_spec(&s, &pp), DROP_BAD_IP_HEADER);
    uint8_t twice[16] = {44, 0, 0, 0, 0, 0, 0, 0, IPPROTO_UDP4};
    s.chain = twice;
    s.chain_len = 16;
    assert_drop(parse_spec(&s, &pp), DROP_IP6_EXT_CHAIN);
}

static void l4_headers(void **state)
{
    struct test_frame f;
    struct parsed pp;
    for (uint8_t doff = 0; doff < 16; doff++) {
        test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_TCP4, .payload_len = 12});
        f.b[f.l4 + 12] = (uint8_t)(doff << 4);
        assert_drop(parse_bytes(f.b, f.len, &pp), doff < 5 || doff > 8 ? DROP_BAD_L4_HEADER : DROP_NONE);
    }
    for (uint16_t length = 0; length < 30; length++) {
        test_frame_make(&f, &(struct test_spec){.ip_version = 6, .protocol = IPPROTO_UDP4, .payload_len = 12});
        store_be16(f.b + f.l4 + 4, length);
        assert_drop(parse_bytes(f.b, f.len, &pp), length < 8 || length > 20 ? DROP_BAD_L4_HEADER : DROP_NONE);
    }
}

static void udp_zero(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct parsed pp;
        assert_drop(
            parse_spec(&(struct test_spec){.ip_version = version, .protocol = IPPROTO_UDP4, .zero_checksum = true},
                       &pp),
            DROP_NONE);
        assert_true(pp.flags & PARSE_CANONICAL);
    }
}

static enum drop with_metadata(const struct test_spec *s, uint8_t csum, uint16_t start, uint16_t offset, uint8_t gso,
                               uint16_t size)
{
    struct test_frame f;
    struct parsed pp;
    test_frame_make(&f, s);
    struct packet p = test_packet(f.b, f.len);
    p.csum = csum;
    p.csum_start = start;
    p.csum_offset = offset;
    p.gso_type = gso;
    p.gso_size = size;
    enum drop d = parse_frame(&p, &pp);
    if (!d)
        assert_int_equal(!!(pp.flags & PARSE_CANONICAL), csum != CSUM_PARTIAL || start == pp.l4);
    test_packet_free(&p);
    return d;
}

static void metadata(void **state)
{
    const struct test_spec tcp4 = {.ip_version = 4, .protocol = IPPROTO_TCP4, .payload_len = 100};
    const struct test_spec tcp6 = {.ip_version = 6, .protocol = IPPROTO_TCP4, .payload_len = 100};
    const struct test_spec udp4 = {.ip_version = 4, .protocol = IPPROTO_UDP4, .payload_len = 1200};
    const struct test_spec part = {.ip_version = 4, .protocol = IPPROTO_UDP4, .payload_len = 16, .fragment = 0x2000};
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, GSO_TCP4, 50), DROP_NONE);
    assert_drop(with_metadata(&tcp6, CSUM_PARTIAL, 54, 16, GSO_TCP6, 50), DROP_NONE);
    assert_drop(with_metadata(&tcp6, CSUM_VERIFIED, 0, 0, GSO_TCP6, 50), DROP_NONE);
    assert_drop(with_metadata(&udp4, CSUM_PARTIAL, 34, 6, GSO_UDP, 50), DROP_NONE);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, GSO_TCP6, 50), DROP_BAD_GSO);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, GSO_UDP, 50), DROP_BAD_GSO);
    assert_drop(with_metadata(&udp4, CSUM_PARTIAL, 34, 6, GSO_TCP4, 50), DROP_BAD_GSO);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, 77, 50), DROP_BAD_GSO);
    assert_drop(with_metadata(&tcp4, CSUM_FULL, 0, 0, GSO_TCP4, 50), DROP_BAD_GSO);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, GSO_TCP4, 0), DROP_BAD_GSO);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 16, GSO_TCP4, 1), DROP_BAD_GSO); // 65,000 segments in one frame
    assert_drop(with_metadata(&udp4, CSUM_PARTIAL, 34, 6, GSO_UDP, 9), DROP_BAD_GSO);
    assert_drop(with_metadata(&part, CSUM_VERIFIED, 0, 0, GSO_UDP, 50), DROP_BAD_GSO);

    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 34, 6, GSO_NONE, 0), DROP_L4_CHECKSUM);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 14, 10, GSO_NONE, 0), DROP_L4_CHECKSUM);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 36, 14, GSO_NONE, 0), DROP_L4_CHECKSUM);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 65535, 65535, GSO_NONE, 0), DROP_L4_CHECKSUM);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 152, 1, GSO_NONE, 0), DROP_L4_CHECKSUM);
    assert_drop(with_metadata(&part, CSUM_PARTIAL, 34, 6, GSO_NONE, 0), DROP_L4_CHECKSUM);
    // A guest's own tunnel leaves the checksum of its inner packet to the device.
    assert_drop(with_metadata(&udp4, CSUM_PARTIAL, 100, 16, GSO_NONE, 0), DROP_NONE);
    assert_drop(with_metadata(&tcp4, CSUM_PARTIAL, 100, 16, GSO_TCP4, 50), DROP_BAD_GSO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "a TCP segment of either family yields every field", .test_func = plain_tcp},
        {.name = "T29 ICMP, SCTP and protocols without ports", .test_func = other_protocols},
        {.name = "ARP yields its offset only", .test_func = arp},
        {.name = "T73 VLAN tags, 802.3 and unknown ethertypes are refused by name", .test_func = shapes},
        {.name = "a source MAC that is multicast or zero is refused", .test_func = source_macs},
        {.name = "martian and v4-mapped addresses are refused, unspecified sources are not", .test_func = addresses},
        {.name = "T65 IPv4 options pass, impossible header lengths do not", .test_func = ip4_header_lengths},
        {.name = "an IPv4 header checksum is judged unless the driver vouches", .test_func = ip4_checksum},
        {.name = "T66 IPv6 chains of up to eight headers lead to L4", .test_func = ip6_chains},
        {.name = "T64 fragments are told apart, tiny and oversized ones refused", .test_func = fragments},
        {.name = "T64 the same for IPv6, atomic fragments are whole", .test_func = fragments_v6},
        {.name = "impossible TCP and UDP lengths are refused", .test_func = l4_headers},
        {.name = "T67 a zero UDP checksum parses in both families", .test_func = udp_zero},
        {.name = "T68 offload metadata must fit the headers", .test_func = metadata},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
