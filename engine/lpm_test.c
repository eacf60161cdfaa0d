// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/lpm.h"
#include "engine/test_env.h"

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static struct ip_addr v4(unsigned a, unsigned b, unsigned c, unsigned d)
{
    uint8_t bytes[4] = {(uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d};
    return ip_from_v4(bytes);
}

static struct ip_addr v6(uint64_t high, uint64_t low)
{
    struct ip_addr a;
    store_be64(a.b, high);
    store_be64(a.b + 8, low);
    return a;
}

static struct ip_prefix prefix(struct ip_addr addr, unsigned len)
{
    for (unsigned i = len; i < 128; i++)
        addr.b[i / 8] &= (uint8_t) ~(0x80 >> (i % 8));
    return (struct ip_prefix){addr, (uint8_t)len};
}

static uint32_t reference(const struct lpm_route *routes, uint32_t n, const struct ip_addr *addr)
{
    uint32_t value = LPM_NONE;
    int longest = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (routes[i].prefix.len > longest && ip_in_prefix(addr, &routes[i].prefix)) {
            longest = routes[i].prefix.len;
            value = routes[i].value;
        }
    }
    return value;
}

// Addresses that share bytes with each other, so that prefixes nest and paths branch late.
static struct ip_addr random_addr(bool is_v4, unsigned spread)
{
    struct ip_addr a = is_v4 ? v4(10, 0, 0, 0) : v6(0xfd00ull << 48, 0);
    for (unsigned i = is_v4 ? 12 : 0; i < 16; i++) {
        if (random_u32() % 4 == 0)
            a.b[i] = (uint8_t)(random_u32() % spread);
    }
    return a;
}

static void test_reference(void **state)
{
    struct test_env *env = test_env_create();
    for (unsigned round = 0; round < 1500; round++) {
        uint32_t n = round % 20 == 0 ? 2000 : random_u32() % 40;
        unsigned spread = round % 3 ? 4 : 256, mix = random_u32() % 3;
        struct lpm_route *routes = calloc(n + 1, sizeof(*routes));
        for (uint32_t i = 0; i < n; i++) {
            bool is_v4 = mix == 2 ? random_u32() % 2 : mix;
            unsigned len = is_v4 ? 96 + random_u32() % 33 : random_u32() % 129;
            routes[i] = (struct lpm_route){prefix(random_addr(is_v4, spread), len), random_u32() % 8};
        }
        struct lpm *t = lpm_build(&env->env, routes, n);
        assert_non_null(t);
        for (unsigned i = 0; i < 300; i++) {
            struct ip_addr addr = random_addr(random_u32() % 2, spread);
            if (n && i % 2) { // at the edges of a prefix
                const struct ip_prefix *p = &routes[random_u32() % n].prefix;
                addr = p->addr;
                if (random_u32() % 2 && p->len < 128)
                    addr.b[15] ^= (uint8_t)random_u32();
            }
            assert_int_equal(lpm_lookup(t, &addr), reference(routes, n, &addr));
        }
        lpm_free(&env->env, t);
        free(routes);
    }
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
}

static void test_100k(void **state)
{
    enum { N = 100000 };
    struct test_env *env = test_env_create();
    struct lpm_route *routes = calloc(N, sizeof(*routes));
    for (uint32_t i = 0; i < N; i++) {
        struct ip_addr a = v4(random_u32(), random_u32(), random_u32(), random_u32());
        if (i % 4 == 0)
            a = v6(0x20010db800000000ull | random_u32(), random_u32());
        routes[i] = (struct lpm_route){prefix(a, i % 4 == 0 ? 32 + random_u32() % 64 : 104 + random_u32() % 25), i};
    }
    struct lpm *t = lpm_build(&env->env, routes, N);
    assert_non_null(t);
    for (unsigned i = 0; i < 500; i++) {
        struct ip_addr addr = routes[random_u32() % N].prefix.addr;
        addr.b[15] ^= (uint8_t)(random_u32() % 4);
        assert_int_equal(lpm_lookup(t, &addr), reference(routes, N, &addr));
    }
    assert_true(lpm_bytes(t) < 64u << 20);
    lpm_free(&env->env, t);
    free(routes);
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
}

static void test_empty(void **state)
{
    struct test_env *env = test_env_create();
    struct lpm *t = lpm_build(&env->env, NULL, 0);
    assert_non_null(t);
    struct ip_addr a = v4(10, 0, 0, 1), b = v6(1, 2);
    assert_int_equal(lpm_lookup(t, &a), LPM_NONE);
    assert_int_equal(lpm_lookup(t, &b), LPM_NONE);
    lpm_free(&env->env, t);
    lpm_free(&env->env, NULL);
    test_env_destroy(env);
}

static void test_defaults(void **state)
{
    struct test_env *env = test_env_create();
    const struct lpm_route both[] = {{prefix(v4(0, 0, 0, 0), 96), 4}, {prefix(v6(0, 0), 0), 6}};
    struct ip_addr a = v4(192, 0, 2, 1), b = v6(0x20010db8ull << 32, 1), zero4 = v4(0, 0, 0, 0), zero6 = v6(0, 0);
    struct lpm *t = lpm_build(&env->env, both, 2);
    assert_int_equal(lpm_lookup(t, &a), 4);
    assert_int_equal(lpm_lookup(t, &zero4), 4);
    assert_int_equal(lpm_lookup(t, &b), 6);
    assert_int_equal(lpm_lookup(t, &zero6), 6);
    lpm_free(&env->env, t);

    t = lpm_build(&env->env, both + 1, 1); // ::/0 alone
    assert_int_equal(lpm_lookup(t, &a), LPM_NONE);
    assert_int_equal(lpm_lookup(t, &b), 6);
    lpm_free(&env->env, t);
    test_env_destroy(env);
}

static void test_duplicates(void **state)
{
    struct test_env *env = test_env_create();
    const struct lpm_route routes[] = {{prefix(v4(10, 0, 0, 0), 104), 1},
                                       {prefix(v4(10, 0, 0, 0), 120), 2},
                                       {prefix(v4(10, 0, 0, 0), 104), 3},
                                       {prefix(v4(10, 0, 0, 0), 120), 4}};
    struct lpm *t = lpm_build(&env->env, routes, ARRAY_LEN(routes));
    struct ip_addr a = v4(10, 9, 9, 9), b = v4(10, 0, 0, 200);
    assert_int_equal(lpm_lookup(t, &a), 1);
    assert_int_equal(lpm_lookup(t, &b), 2);
    lpm_free(&env->env, t);
    test_env_destroy(env);
}

static void test_host_bits(void **state)
{
    struct test_env *env = test_env_create();
    const struct lpm_route routes[] = {{{v4(10, 0, 0, 255), 121}, 1}, {{v4(255, 255, 255, 255), 97}, 2}};
    struct lpm *t = lpm_build(&env->env, routes, ARRAY_LEN(routes));
    struct ip_addr a = v4(10, 0, 0, 130), b = v4(128, 0, 0, 1);
    assert_int_equal(lpm_lookup(t, &a), 1);
    assert_int_equal(lpm_lookup(t, &b), 2);
    lpm_free(&env->env, t);
    test_env_destroy(env);
}

static void test_no_memory(void **state)
{
    struct test_env *env = test_env_create();
    const struct lpm_route routes[] = {{prefix(v4(10, 0, 0, 0), 104), 1}, {prefix(v6(1ull << 60, 0), 64), 2}};
    long site = 0;
    for (;; site++) {
        env->fail_after = site;
        struct lpm *t = lpm_build(&env->env, routes, ARRAY_LEN(routes));
        if (t) {
            env->fail_after = -1;
            lpm_free(&env->env, t);
            break;
        }
        assert_int_equal(env->live, 0);
    }
    assert_int_equal(site, 4);
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T61 lookup equals a plain scan on random routes of both families", .test_func = test_reference},
        {.name = "T61 100,000 routes: lookup equals a plain scan", .test_func = test_100k},
        {.name = "an empty table covers nothing", .test_func = test_empty},
        {.name = "the default route of one family does not serve the other", .test_func = test_defaults},
        {.name = "the first of two equal prefixes wins", .test_func = test_duplicates},
        {.name = "host bits of a route are ignored", .test_func = test_host_bits},
        {.name = "T48 each failed allocation ends the build without a leak", .test_func = test_no_memory},
    };
    return cmocka_run_group_tests_name("lpm", tests, NULL, NULL);
}
