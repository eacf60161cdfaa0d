// SPDX-License-Identifier: MPL-2.0
// tables_bench: nanoseconds per lookup, build time and memory of rule tables and route tables.
#include <stdio.h>
#include <time.h>

#include "engine/lpm.h"
#include "engine/rule_table.h"
#include "engine/test_env.h"

enum { QUERIES = 4096, ROUNDS = 400 };

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static double now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static struct ip_addr addr_v4(uint32_t a)
{
    uint8_t bytes[4];
    store_be32(bytes, a);
    return ip_from_v4(bytes);
}

static struct ip_prefix prefix_v4(uint32_t a, unsigned len)
{
    return (struct ip_prefix){addr_v4(len ? a & (~0u << (32 - len)) : 0), (uint8_t)(96 + len)};
}

static bool no_member(void *ctx, uint32_t set, const struct ip_addr *addr)
{
    return false;
}

// Security-group-like rules: one or two ports, a prefix; one in eight open to everyone, one in eight by address set.
static void bench_rules(const struct env *env, uint32_t n)
{
    struct rule *rules = calloc(n, sizeof(*rules));
    struct rule_port_range *ports = calloc(n, sizeof(*ports));
    struct ip_prefix *remotes = calloc(n, sizeof(*remotes));
    uint32_t *sets = calloc(n, sizeof(*sets));
    for (uint32_t i = 0; i < n; i++) {
        uint16_t port = (uint16_t)(random_u32() % 10000);
        ports[i] = (struct rule_port_range){port, (uint16_t)(port + random_u32() % 20)};
        remotes[i] = prefix_v4(10u << 24 | (random_u32() & 0xffffff), 16 + random_u32() % 17);
        sets[i] = random_u32() % 16;
        rules[i] = (struct rule){.priority = random_u32() % 1000,
                                 .action = random_u32() % 4 == 0,
                                 .protocol = random_u32() % 3 ? 6 : 17,
                                 .ports = &ports[i],
                                 .n_ports = 1,
                                 .remotes = &remotes[i],
                                 .n_remotes = i % 8 > 1,
                                 .sets = &sets[i],
                                 .n_sets = i % 8 == 1};
    }
    double start = now_ns();
    struct rule_table *t = rule_table_build(env, rules, n);
    double build_ms = (now_ns() - start) / 1e6;

    static struct rule_query queries[QUERIES];
    for (unsigned i = 0; i < QUERIES; i++) {
        uint32_t remote =
            i % 2 ? 10u << 24 | (random_u32() & 0xffffff) : load_be32(remotes[random_u32() % n].addr.b + 12);
        queries[i] = (struct rule_query){.remote = addr_v4(remote),
                                         .ip_version = 4,
                                         .protocol = 6,
                                         .has_ports = true,
                                         .overlay = i % 4 == 0,
                                         .dport = (uint16_t)(random_u32() % 10000)};
    }
    uint32_t sum = 0;
    start = now_ns();
    for (unsigned r = 0; r < ROUNDS; r++) {
        for (unsigned i = 0; i < QUERIES; i++)
            sum += rule_table_match(t, &queries[i], no_member, NULL);
    }
    double ns = (now_ns() - start) / ROUNDS / QUERIES;
    printf("rules  %7u  %7.1f ns/lookup  build %8.2f ms  %9zu bytes  (%x)\n", n, ns, build_ms, rule_table_bytes(t),
           sum);
    rule_table_free(env, t);
    free(rules);
    free(ports);
    free(remotes);
    free(sets);
}

static void bench_routes(const struct env *env, uint32_t n)
{
    struct lpm_route *routes = calloc(n, sizeof(*routes));
    for (uint32_t i = 0; i < n; i++)
        routes[i] = (struct lpm_route){prefix_v4(random_u32(), 8 + random_u32() % 25), i};
    double start = now_ns();
    struct lpm *t = lpm_build(env, routes, n);
    double build_ms = (now_ns() - start) / 1e6;

    static struct ip_addr addrs[QUERIES];
    for (unsigned i = 0; i < QUERIES; i++)
        addrs[i] = i % 2 ? addr_v4(random_u32()) : routes[random_u32() % n].prefix.addr;
    uint32_t sum = 0;
    start = now_ns();
    for (unsigned r = 0; r < ROUNDS; r++) {
        for (unsigned i = 0; i < QUERIES; i++)
            sum += lpm_lookup(t, &addrs[i]);
    }
    double ns = (now_ns() - start) / ROUNDS / QUERIES;
    printf("routes %7u  %7.1f ns/lookup  build %8.2f ms  %9zu bytes  (%x)\n", n, ns, build_ms, lpm_bytes(t), sum);
    lpm_free(env, t);
    free(routes);
}

int main(void)
{
    struct test_env *env = test_env_create();
    const uint32_t rules[] = {10, 1000, 10000}, routes[] = {100, 100000};
    for (unsigned i = 0; i < ARRAY_LEN(rules); i++)
        bench_rules(&env->env, rules[i]);
    for (unsigned i = 0; i < ARRAY_LEN(routes); i++)
        bench_routes(&env->env, routes[i]);
    test_env_destroy(env);
}
