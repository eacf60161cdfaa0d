// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/flow_key.h"
#include "engine/test_packet.h"

static struct flow_key key(uint8_t version, uint8_t protocol, uint16_t sport, uint16_t dport)
{
    struct flow_key k = {.sport = __builtin_bswap16(sport), .dport = __builtin_bswap16(dport), .port = 7, .vni = 100};
    k.ip_version = version;
    k.protocol = protocol;
    k.dir = FLOW_OUT;
    k.src = version == 4 ? test_v4(10, 0, 0, 3) : test_v6(0xfd00, 3);
    k.dst = version == 4 ? test_v4(10, 0, 0, 4) : test_v6(0xfd00, 4);
    return k;
}

static void assert_reply(const struct flow_key *k, uint16_t sport, uint16_t dport)
{
    struct flow_key want = *k, got, back;
    want.src = k->dst;
    want.dst = k->src;
    want.sport = __builtin_bswap16(sport);
    want.dport = __builtin_bswap16(dport);
    want.dir = FLOW_IN;
    assert_true(flow_key_reply(k, &got));
    assert_memory_equal(&got, &want, sizeof(got));
    if (flow_key_reply(&got, &back))
        assert_memory_equal(&back, k, sizeof(back));
}

static void replies(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct flow_key tcp = key(version, IPPROTO_TCP4, 1000, 80), gre = key(version, 47, 0, 0);
        assert_reply(&tcp, 80, 1000);
        assert_reply(&gre, 0, 0);
    }
    struct flow_key echo = key(4, IPPROTO_ICMP4, 77, 8 << 8), stamp = key(4, IPPROTO_ICMP4, 77, 13 << 8);
    struct flow_key echo6 = key(6, IPPROTO_ICMP6, 77, 128 << 8), alien = key(6, IPPROTO_ICMP4, 0, 0);
    assert_reply(&echo, 77, 0);
    assert_reply(&stamp, 77, 14 << 8);
    assert_reply(&echo6, 77, 129 << 8);
    assert_reply(&alien, 0, 0);
}

static void no_reply(void **state)
{
    const uint16_t types4[] = {0, 3, 5, 11, 14, 17, 40}, types6[] = {1, 2, 129, 133, 135};
    struct flow_key untouched, out;
    memset(&untouched, 0xa5, sizeof(untouched));
    for (unsigned i = 0; i < ARRAY_LEN(types4) + ARRAY_LEN(types6); i++) {
        bool v4 = i < ARRAY_LEN(types4);
        uint16_t type = v4 ? types4[i] : types6[i - ARRAY_LEN(types4)];
        struct flow_key k = key(v4 ? 4 : 6, v4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6, 1, (uint16_t)(type << 8));
        out = untouched;
        assert_false(flow_key_reply(&k, &out));
        assert_memory_equal(&out, &untouched, sizeof(out));
    }
}

static struct flow_secret secret(uint64_t seed)
{
    struct test_random r = {seed};
    struct flow_secret s;
    for (unsigned i = 0; i < 8; i++)
        s.m[i] = ((uint64_t)test_rand(&r) << 32 | test_rand(&r)) | 1;
    return s;
}

static void ports_spread(void **state)
{
    static uint8_t used[65536];
    struct flow_secret s = secret(3);
    unsigned distinct = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct flow_key k = key(4, IPPROTO_TCP4, (uint16_t)(40000 + i), 80);
        uint16_t port = flow_entropy_port(flow_hash(&s, &k));
        assert_true(port >= 49152);
        distinct += !used[port];
        used[port] = 1;
    }
    assert_true(distinct >= 900);
}

static void every_bit_counts(void **state)
{
    struct flow_secret s = secret(4);
    struct flow_key k = key(6, IPPROTO_UDP4, 1, 2);
    uint64_t h = flow_hash(&s, &k);
    assert_int_equal(h, flow_hash(&s, &k));
    for (unsigned bit = 0; bit < 8 * sizeof(k); bit++) {
        struct flow_key other = k;
        ((uint8_t *)&other)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(flow_hash(&s, &other) != h);
    }
    struct flow_secret t = secret(5);
    assert_true(flow_hash(&t, &k) != h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "the key of an answer swaps sides and turns direction", .test_func = replies},
        {.name = "ICMP other than queries has no answer", .test_func = no_reply},
        {.name = "T14 at least 900 of 1000 flows have an outer port of their own", .test_func = ports_spread},
        {.name = "T47 every key bit and the secret change the hash", .test_func = every_bit_counts},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
