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

// ---- T47: what a lookup costs is how many keys share its bucket, as flow_table takes buckets from the hash

enum { BUCKETS = 1024, ATTACK = 4096 };

static uint32_t bucket(const struct flow_secret *s, const struct flow_key *k)
{
    return (uint32_t)(((flow_hash(s, k) & 0xffffffff) * BUCKETS) >> 32);
}

// Keys that one finds in the bucket of a key looked up, times ATTACK.
static uint64_t cost(const struct flow_secret *s, const struct flow_key *keys)
{
    static uint32_t in[BUCKETS];
    uint64_t sum = 0;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < ATTACK; i++)
        in[bucket(s, &keys[i])]++;
    for (unsigned b = 0; b < BUCKETS; b++)
        sum += (uint64_t)in[b] * in[b];
    return sum;
}

static void random_keys(struct flow_key *keys)
{
    struct test_random r = {8};
    for (unsigned i = 0; i < ATTACK; i++) {
        keys[i] = key(4, IPPROTO_UDP4, (uint16_t)test_rand(&r), (uint16_t)test_rand(&r));
        store_be32(keys[i].dst.b + 12, test_rand(&r));
    }
}

static void colliding_keys_need_the_secret(void **state)
{
    static struct flow_key chosen[ATTACK], plain[ATTACK];
    struct flow_secret known = secret(6);
    struct flow_key k = key(4, IPPROTO_UDP4, 0, 53);
    unsigned found = 0;
    for (uint32_t i = 0; found < ATTACK; i++) { // the attacker's search, with the secret of another machine
        store_be32(k.dst.b + 12, i >> 16);
        store_be16(&k.sport, (uint16_t)i);
        if (bucket(&known, &k) == 0)
            chosen[found++] = k;
    }
    random_keys(plain);
    assert_int_equal(cost(&known, chosen), (uint64_t)ATTACK * ATTACK); // there, one chain has them all
    for (uint64_t seed = 100; seed < 132; seed++) {
        struct flow_secret ours = secret(seed);
        assert_true(cost(&ours, chosen) <= 2 * cost(&ours, plain));
    }
}

// Patterns that need no search: counters, addresses in step with ports, single bits far apart, both ends equal.
static struct flow_key pattern(unsigned which, uint32_t i)
{
    struct flow_key k = key(which % 2 ? 6 : 4, IPPROTO_TCP4, 1024, 80);
    switch (which / 2) {
    case 0:
        store_be16(&k.sport, (uint16_t)i);
        break;
    case 1:
        store_be32(k.dst.b + 12, i);
        break;
    case 2:
        store_be32(k.dst.b + 12, i << 20);
        break;
    case 3:
        store_be32(k.src.b + 12, i);
        store_be32(k.dst.b + 12, 0u - i);
        break;
    case 4:
        store_be32(k.src.b + 12, i);
        store_be32(k.dst.b + 12, i);
        store_be16(&k.sport, (uint16_t)i);
        store_be16(&k.dport, (uint16_t)i);
        break;
    default:
        k.src.b[i % 16] ^= (uint8_t)(i >> 4);
        k.dst.b[15 - i % 16] ^= (uint8_t)(i >> 4);
        k.sport ^= (uint16_t)(i % 16);
    }
    return k;
}

static void patterns_do_not_collide(void **state)
{
    static struct flow_key keys[ATTACK], plain[ATTACK];
    random_keys(plain);
    for (unsigned which = 0; which < 12; which++) {
        for (uint32_t i = 0; i < ATTACK; i++)
            keys[i] = pattern(which, i);
        for (uint64_t seed = 200; seed < 216; seed++) {
            struct flow_secret ours = secret(seed);
            assert_true(cost(&ours, keys) <= 2 * cost(&ours, plain));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "the key of an answer swaps sides and turns direction", .test_func = replies},
        {.name = "ICMP other than queries has no answer", .test_func = no_reply},
        {.name = "T14 at least 900 of 1000 flows have an outer port of their own", .test_func = ports_spread},
        {.name = "T47 every key bit and the secret change the hash", .test_func = every_bit_counts},
        {.name = "T47 keys that collide under one secret cost no more than any under another",
         .test_func = colliding_keys_need_the_secret},
        {.name = "T47 keys in patterns cost no more than random ones", .test_func = patterns_do_not_collide},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
