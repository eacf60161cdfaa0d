// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/test_packet.h"

#define assert_drop(got, want) assert_string_equal(drop_name(got), drop_name(want))

static const uint8_t router_alert[] = {148, 4, 0, 0};
static uint8_t chain24[24] = {60, 0, 1, 4, 0, 0, 0, 0, IPPROTO_TCP4, 1, 1, 12};
static uint8_t frag6[8] = {IPPROTO_UDP4, 0, 0, 1};
static uint8_t mss_option[8] = {2, 4, 5, 0xb4, 1, 3, 3, 7};
static uint8_t quoted4[28] = {0x45, 0, 0, 60, 0, 1, 0x40, 0, 60, 6, 0, 0, 10, 0, 0, 4, 10, 0, 0, 3, 0, 80, 3, 0xe8};
static uint8_t quoted6[48] = {0x60, 0, 0, 0, 0, 20, 17, 60, 0xfd, [23] = 4, 0xfd, [39] = 3, 0, 53, 3, 0xe8, 0, 20};

static const struct test_spec base_packets[] = {
    {.ip_version = 4, .protocol = IPPROTO_TCP4, .payload_len = 80},
    {.ip_version = 4, .protocol = IPPROTO_TCP4, .tcp_flags = TCP_SYN, .tcp_options = mss_option, .tcp_options_len = 8},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .payload_len = 90},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .options = router_alert, .options_len = 4, .payload_len = 70},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .fragment = 0x2000, .payload_len = 64},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .fragment = 0x0010, .payload_len = 64},
    {.ip_version = 4, .protocol = IPPROTO_ICMP4, .dport = 8 << 8, .payload_len = 56},
    {.ip_version = 4, .protocol = IPPROTO_ICMP4, .dport = 3 << 8 | 4, .payload = quoted4, .payload_len = 28},
    {.ip_version = 4, .protocol = IPPROTO_SCTP4, .payload_len = 60},
    {.ip_version = 4, .protocol = 47, .payload_len = 60},
    {.ip_version = 6, .protocol = IPPROTO_TCP4, .payload_len = 40},
    {.ip_version = 6, .protocol = IPPROTO_UDP4, .payload_len = 40},
    {.ip_version = 6, .protocol = IPPROTO_ICMP6, .dport = 135 << 8, .payload_len = 24},
    {.ip_version = 6, .protocol = IPPROTO_ICMP6, .dport = 2 << 8, .payload = quoted6, .payload_len = 48},
    {.ip_version = 6, .protocol = IPPROTO_TCP4, .chain = chain24, .chain_len = 24, .payload_len = 20},
    {.ip_version = 6, .protocol = IPPROTO_UDP4, .chain = frag6, .chain_len = 8, .chain_first = 44, .payload_len = 64},
    {.ip_version = 6, .protocol = 50, .payload_len = 40},
};

// Parses what is here as the engine would, embedded packet included.
static enum drop parse_all(const struct packet *p)
{
    struct parsed pp;
    struct parsed_embedded inner;
    enum drop d = parse_frame(p, &pp);
    assert_true((unsigned)d < DROP_COUNT);
    if (d == DROP_NONE && (pp.flags & PARSE_ICMP_ERROR))
        d = parse_embedded(p, &pp, &inner);
    return d;
}

static void truncation(void **state)
{
    for (unsigned i = 0; i < ARRAY_LEN(base_packets); i++) {
        struct test_frame f;
        test_frame_make(&f, &base_packets[i]);
        bool v4 = base_packets[i].ip_version == 4;
        for (uint32_t cut = 0; cut <= 120 && cut <= f.len; cut++) {
            struct packet p = test_packet(f.b, cut);
            enum drop d = parse_all(&p);
            assert_int_equal(d == DROP_NONE, cut == f.len);

            p.len = f.len; // the rest is in another segment
            d = parse_all(&p);
            if (cut >= 110)
                assert_drop(d, DROP_NONE);
            p.len = cut;
            if (cut >= 34) { // lengths that agree with the cut: now it is L4's turn
                store_be16(p.data + (v4 ? 16 : 18), (uint16_t)(v4 ? cut - 14 : MAX(cut, 54u) - 54));
                p.csum = CSUM_VERIFIED;
                parse_all(&p);
            }
            test_packet_free(&p);
        }
    }
}

static void noise(void **state)
{
    struct test_random r = {9};
    for (unsigned round = 0; round < 100000; round++) {
        struct test_frame f;
        test_frame_make(&f, &base_packets[test_rand(&r) % ARRAY_LEN(base_packets)]);
        for (unsigned n = test_rand(&r) % 4; n; n--)
            f.b[12 + test_rand(&r) % 90] = (uint8_t)test_rand(&r);
        struct packet p = test_packet(f.b, f.len);
        p.csum = test_rand(&r) % 3;
        p.csum_start = (uint16_t)(test_rand(&r) % 200);
        p.csum_offset = (uint16_t)(test_rand(&r) % 20);
        p.gso_type = test_rand(&r) % 8 == 0 ? test_rand(&r) % 5 : 0;
        p.gso_size = (uint16_t)test_rand(&r);
        parse_all(&p);
        test_packet_free(&p);
    }
}

static void embedded(void **state)
{
    struct test_frame f;
    struct parsed pp;
    struct parsed_embedded inner;
    test_frame_make(&f, &base_packets[7]);
    struct packet p = test_packet(f.b, f.len);
    assert_drop(parse_frame(&p, &pp), DROP_NONE);
    assert_int_equal(pp.flags, PARSE_ICMP_ERROR);
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_NONE);
    struct parsed_embedded want;
    memset(&want, 0, sizeof(want)); // holes too
    want.l3 = 42;
    want.l4 = 62;
    want.l4_available = 8;
    want.ip_version = 4;
    want.protocol = IPPROTO_TCP4;
    want.sport = __builtin_bswap16(80);
    want.dport = __builtin_bswap16(1000);
    want.src = test_v4(10, 0, 0, 4);
    want.dst = test_v4(10, 0, 0, 3);
    assert_memory_equal(&inner, &want, sizeof(inner));
    p.data[42 + 9] = IPPROTO_ICMP4;
    p.data[62] = 3; // an error about an error
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_ICMP_UNRELATED);
    p.data[62] = 8;
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_NONE);
    p.data[42 + 7] = 1; // later fragment
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_ICMP_UNRELATED);
    p.data[42 + 7] = 0;
    p.data[42] = 0x46; // options: the ports are out of reach
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_TRUNCATED);
    p.data[42] = 0x60; // the other family
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_ICMP_UNRELATED);
    test_packet_free(&p);

    test_frame_make(&f, &base_packets[13]);
    p = test_packet(f.b, f.len);
    assert_drop(parse_frame(&p, &pp), DROP_NONE);
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_NONE);
    assert_int_equal(inner.l4, 14 + 40 + 8 + 40);
    assert_int_equal(inner.sport, __builtin_bswap16(53));
    struct ip_addr src = test_v6(0xfd00, 4);
    assert_true(ip_equal(&inner.src, &src));
    pp.flags = 0;
    assert_drop(parse_embedded(&p, &pp, &inner), DROP_ICMP_UNRELATED);
    test_packet_free(&p);
}

static void icmp_errors(void **state)
{
    for (unsigned type = 0; type < 256; type++) {
        bool v4 = type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
        assert_int_equal(icmp_is_error(IPPROTO_ICMP4, (uint8_t)type), v4);
        assert_int_equal(icmp_is_error(IPPROTO_ICMP6, (uint8_t)type), type < 128);
        assert_false(icmp_is_error(IPPROTO_TCP4, (uint8_t)type));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T71 every base packet cut at every offset up to 120", .test_func = truncation},
        {.name = "T71 mutated packets with random metadata", .test_func = noise},
        {.name = "T55 the packet inside an ICMP error", .test_func = embedded},
        {.name = "O2 which ICMP types are errors", .test_func = icmp_errors},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
