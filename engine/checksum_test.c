// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/test_packet.h"

// The definition, byte by byte (RFC 1071), in host order.
static uint16_t reference(const uint8_t *p, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += i & 1 ? p[i] : p[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static void sums_agree(void **state)
{
    struct test_random r = {1};
    for (unsigned n = 0; n < 300; n++) {
        uint8_t *b = malloc(n + 1);
        for (unsigned i = 0; i < n; i++)
            b[i + 1] = (uint8_t)test_rand(&r);
        uint16_t sum = checksum_fold(checksum_add(0, b + 1, n)); // odd address
        assert_int_equal(__builtin_bswap16(sum), reference(b + 1, n));
        free(b);
    }
    uint8_t ones[64];
    memset(ones, 0xff, sizeof(ones));
    assert_int_equal(checksum_fold(checksum_add(checksum_add(0, ones, 64), ones, 64)), 0xffff);
    assert_int_equal(checksum_fold(checksum_add(UINT64_MAX, ones, 64)), 0xffff);
    uint8_t zeros[64] = {0};
    assert_int_equal(checksum_fold(checksum_add(0, zeros, 64)), 0);
}

static void rfc1071_example(void **state)
{
    const uint8_t b[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    assert_int_equal(__builtin_bswap16(checksum_fold(checksum_add(0, b, 8))), 0xddf2);
}

// RFC 1624 section 4: the case that RFC 1141's equation gets wrong.
static void rfc1624_example(void **state)
{
    const uint8_t before[2] = {0x55, 0x55}, after[2] = {0x32, 0x85};
    uint16_t field = __builtin_bswap16(0xdd2f);
    assert_int_equal(checksum_adjust(field, checksum_delta(before, after, 2)), 0);
}

static void delta_equals_recomputation(void **state)
{
    struct test_random r = {2};
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t b[40], old[8];
        for (unsigned i = 0; i < sizeof(b); i++)
            b[i] = (uint8_t)test_rand(&r);
        uint16_t field = (uint16_t)~checksum_fold(checksum_add(0, b, sizeof(b)));
        memcpy(old, b + 8, 8);
        for (unsigned i = 8; i < 16; i++)
            b[i] = (uint8_t)test_rand(&r);
        uint16_t adjusted = checksum_adjust(field, checksum_delta(old, b + 8, 8));
        assert_int_equal(adjusted, (uint16_t)~checksum_fold(checksum_add(0, b, sizeof(b))));
    }
}

static void pseudo_header(void **state)
{
    struct ip_addr a = test_v4(10, 0, 0, 3), b = test_v4(10, 0, 0, 4);
    const uint8_t v4[] = {10, 0, 0, 3, 10, 0, 0, 4, 0, 17, 0x12, 0x34};
    assert_int_equal(checksum_fold(checksum_pseudo(&a, &b, 17, 0x1234)), checksum_fold(checksum_add(0, v4, 12)));
    struct ip_addr c = test_v6(0xfd00, 3), d = test_v6(0xfd00, 0xffff);
    uint8_t v6[40] = {[32] = 0, 1, 0x12, 0x34, 0, 0, 0, 58};
    memcpy(v6, c.b, 16);
    memcpy(v6 + 16, d.b, 16);
    assert_int_equal(checksum_fold(checksum_pseudo(&c, &d, 58, 0x11234)), checksum_fold(checksum_add(0, v6, 40)));
}

static void udp_zero_is_written_as_ones(void **state)
{
    struct test_frame f;
    unsigned met = 0;
    for (unsigned port = 1; port < 65536; port++) {
        uint8_t udp[8] = {0};
        struct ip_addr a = test_v4(10, 0, 0, 3), b = test_v4(10, 0, 0, 4);
        store_be16(udp, (uint16_t)port);
        store_be16(udp + 4, 8);
        checksum_write_l4(udp, 8, &a, &b, IPPROTO_UDP4);
        uint16_t field = load_be16(udp + 6);
        assert_int_not_equal(field, 0);
        met += field == 0xffff;
    }
    assert_int_equal(met, 1);
    test_frame_make(&f, &(struct test_spec){.ip_version = 6, .protocol = IPPROTO_UDP4, .payload_len = 3});
    struct packet p = test_packet(f.b, f.len);
    struct parsed pp;
    assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
    assert_true(test_l4_checksum_ok(&p, &pp));
    test_packet_free(&p);
}

static void short_headers_are_left_alone(void **state)
{
    uint8_t b[16];
    struct ip_addr a = test_v4(1, 2, 3, 4);
    memset(b, 0x5a, sizeof(b));
    checksum_write_l4(b, 16, &a, &a, IPPROTO_TCP4);
    checksum_write_l4(b, 16, &a, &a, 47);
    for (unsigned i = 0; i < sizeof(b); i++)
        assert_int_equal(b[i], 0x5a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "a sum over any length at any address equals the definition", .test_func = sums_agree},
        {.name = "the example of RFC 1071 section 3", .test_func = rfc1071_example},
        {.name = "the example of RFC 1624 section 4", .test_func = rfc1624_example},
        {.name = "adjusting by a delta equals computing again", .test_func = delta_equals_recomputation},
        {.name = "the pseudo-header of either family", .test_func = pseudo_header},
        {.name = "T67 a UDP checksum computed as 0 is written as 0xffff", .test_func = udp_zero_is_written_as_ones},
        {.name = "headers too short for a checksum field are left alone", .test_func = short_headers_are_left_alone},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
