// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/rule_table.h"
#include "engine/test_env.h"

enum { TCP = 6, UDP = 17, ICMP = 1, ICMP6 = 58, GRE = 47, ESP = 50, SCTP = 132 };

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static struct ip_addr v4(unsigned a, unsigned b, unsigned c, unsigned d)
{
    uint8_t bytes[4] = {(uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d};
    return ip_from_v4(bytes);
}

// Set s holds the addresses whose last byte leaves the remainder s modulo 7; asked[s] counts the questions.
struct members {
    unsigned asked[64];
    unsigned total;
};

static bool is_member(void *ctx, uint32_t set, const struct ip_addr *addr)
{
    struct members *m = ctx;
    m->asked[set % 64]++;
    m->total++;
    return addr->b[15] % 7 == set % 7;
}

static bool never_asked(void *ctx, uint32_t set, const struct ip_addr *addr)
{
    fail_msg("set %u was asked", set);
    return false;
}

// Builds a table, matches once, compares with the reference.
static uint32_t match(const struct rule *rules, uint32_t n, const struct rule_query *q)
{
    struct test_env *env = test_env_create();
    struct rule_table *t = rule_table_build(&env->env, rules, n);
    assert_non_null(t);
    struct members m = {0};
    uint32_t compiled = rule_table_match(t, q, is_member, &m);
    assert_int_equal(compiled, rule_match_linear(rules, n, q, is_member, &m));
    rule_table_free(&env->env, t);
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
    return compiled;
}

static struct rule_query tcp_to(uint16_t dport)
{
    return (struct rule_query){
        .remote = v4(10, 0, 0, 4), .ip_version = 4, .protocol = TCP, .has_ports = true, .dport = dport};
}

static struct rule_query icmp_of(uint8_t type, uint8_t code)
{
    return (struct rule_query){
        .remote = v4(10, 0, 0, 4), .ip_version = 4, .protocol = ICMP, .icmp_type = type, .icmp_code = code};
}

static void test_priorities(void **state)
{
    const struct rule_port_range ssh = {22, 22};
    const struct rule rules[] = {
        {.priority = 200, .action = RULE_DENY, .protocol = RULE_PROTO_ANY},
        {.priority = 100, .action = RULE_ALLOW, .protocol = TCP, .ports = &ssh, .n_ports = 1},
    };
    struct rule_query to22 = tcp_to(22), to23 = tcp_to(23);
    assert_int_equal(match(rules, 2, &to22), 1);
    assert_int_equal(match(rules, 2, &to23), 0);
}

static void test_ties(void **state)
{
    struct rule_query q = tcp_to(22);
    for (unsigned action = RULE_DENY; action <= RULE_REJECT; action++) {
        struct rule rules[] = {{.priority = 5, .action = RULE_ALLOW, .protocol = TCP},
                               {.priority = 5, .action = (uint8_t)action, .protocol = TCP},
                               {.priority = 5, .action = RULE_ALLOW, .protocol = TCP}};
        assert_int_equal(match(rules, 3, &q), 1);
        struct rule first = rules[0];
        rules[0] = rules[1];
        rules[1] = first;
        assert_int_equal(match(rules, 3, &q), 0);
        assert_int_equal(match(rules + 1, 2, &q), 0); // two allows: the earlier
    }
}

static void test_ports(void **state)
{
    const struct rule_port_range ports[] = {{22, 22}, {80, 90}, {65535, 65535}};
    const struct rule rule = {.protocol = TCP, .ports = ports, .n_ports = 3};
    const uint16_t pass[] = {22, 80, 85, 90, 65535}, drop[] = {0, 21, 23, 79, 91, 65534};
    for (unsigned i = 0; i < ARRAY_LEN(pass); i++) {
        struct rule_query q = tcp_to(pass[i]);
        assert_int_equal(match(&rule, 1, &q), 0);
    }
    for (unsigned i = 0; i < ARRAY_LEN(drop); i++) {
        struct rule_query q = tcp_to(drop[i]);
        assert_int_equal(match(&rule, 1, &q), RULE_NONE);
    }
    const struct rule_port_range all = {0, 65535};
    const struct rule any = {.protocol = TCP, .ports = &all, .n_ports = 1};
    for (unsigned port = 0; port < 65536; port += 4369) {
        struct rule_query q = tcp_to((uint16_t)port);
        assert_int_equal(match(&any, 1, &q), 0);
    }
}

static void test_overlapping_ranges(void **state)
{
    const struct rule_port_range ports[] = {{80, 90}, {85, 100}, {101, 101}, {90, 80}};
    const struct rule rule = {.protocol = UDP, .ports = ports, .n_ports = 4};
    for (uint16_t port = 78; port < 104; port++) {
        struct rule_query q = tcp_to(port);
        q.protocol = UDP;
        assert_int_equal(match(&rule, 1, &q), port >= 80 && port <= 101 ? 0 : RULE_NONE);
    }
}

static void test_ports_of_any_protocol(void **state)
{
    const struct rule_port_range dns = {53, 53};
    const struct rule rule = {.protocol = RULE_PROTO_ANY, .ports = &dns, .n_ports = 1};
    const uint8_t with_ports[] = {TCP, UDP, SCTP};
    for (unsigned i = 0; i < ARRAY_LEN(with_ports); i++) {
        struct rule_query q = tcp_to(53);
        q.protocol = with_ports[i];
        assert_int_equal(match(&rule, 1, &q), 0);
        q.dport = 54;
        assert_int_equal(match(&rule, 1, &q), RULE_NONE);
    }
    struct rule_query gre = {.remote = v4(10, 0, 0, 4), .ip_version = 4, .protocol = GRE, .dport = 53};
    assert_int_equal(match(&rule, 1, &gre), RULE_NONE);
    struct rule_query ping = icmp_of(0, 53);
    assert_int_equal(match(&rule, 1, &ping), RULE_NONE);
}

static void test_icmp_types(void **state)
{
    const struct rule_icmp echo = {8, -1}, frag_needed = {3, 4}, code4 = {-1, 4}, all = {-1, -1};
    struct rule rule = {.protocol = ICMP, .icmp = &echo, .n_icmp = 1};
    struct rule_query ping = icmp_of(8, 0), timestamp = icmp_of(13, 0), needed = icmp_of(3, 4), host = icmp_of(3, 1);
    assert_int_equal(match(&rule, 1, &ping), 0);
    assert_int_equal(match(&rule, 1, &timestamp), RULE_NONE);
    rule.icmp = &frag_needed;
    assert_int_equal(match(&rule, 1, &needed), 0);
    assert_int_equal(match(&rule, 1, &host), RULE_NONE);
    rule.icmp = &code4;
    assert_int_equal(match(&rule, 1, &needed), 0);
    assert_int_equal(match(&rule, 1, &ping), RULE_NONE);
    rule.icmp = &all;
    assert_int_equal(match(&rule, 1, &host), 0);

    rule.icmp = &echo; // ICMP of one family is not that of the other
    struct rule_query other = ping;
    other.protocol = ICMP6;
    assert_int_equal(match(&rule, 1, &other), RULE_NONE);
}

static void test_vpc(void **state)
{
    const struct rule rule = {.protocol = TCP, .remote_vpc = true};
    struct rule_query q = tcp_to(80);
    assert_int_equal(match(&rule, 1, &q), RULE_NONE); // the same address, from the internet
    q.overlay = true;
    assert_int_equal(match(&rule, 1, &q), 0);
}

static void test_any_protocol_number(void **state)
{
    const uint8_t numbers[] = {ESP, GRE, SCTP, 0, 255};
    for (unsigned i = 0; i < ARRAY_LEN(numbers); i++) {
        const struct rule rule = {.protocol = numbers[i]};
        struct rule_query q = {.remote = v4(10, 0, 0, 4), .ip_version = 4, .protocol = numbers[i]};
        assert_int_equal(match(&rule, 1, &q), 0);
        q.protocol = TCP;
        assert_int_equal(match(&rule, 1, &q), RULE_NONE);
    }
}

static void test_families(void **state)
{
    struct rule_query q4 = tcp_to(80), q6 = tcp_to(80);
    uint8_t bytes[16] = {0x20, 1, 0xd, 0xb8};
    q6.remote = ip_from_v6(bytes);
    q6.ip_version = 6;
    const struct rule only6 = {.ip_version = 6, .protocol = TCP};
    assert_int_equal(match(&only6, 1, &q4), RULE_NONE);
    assert_int_equal(match(&only6, 1, &q6), 0);

    const struct ip_prefix all4 = {v4(0, 0, 0, 0), 96}, all6 = {{.d = {0, 0}}, 0};
    const struct rule from4 = {.protocol = TCP, .remotes = &all4, .n_remotes = 1};
    const struct rule from6 = {.protocol = TCP, .remotes = &all6, .n_remotes = 1};
    assert_int_equal(match(&from4, 1, &q4), 0);
    assert_int_equal(match(&from4, 1, &q6), RULE_NONE);
    assert_int_equal(match(&from6, 1, &q4), RULE_NONE);
    assert_int_equal(match(&from6, 1, &q6), 0);
}

static void test_sets(void **state)
{
    const uint32_t four[] = {4}, three_four[] = {3, 4};
    struct test_env *env = test_env_create();
    const struct rule_port_range ssh = {22, 22}, web = {80, 80};
    const struct rule rules[] = {
        {.priority = 1, .protocol = TCP, .ports = &ssh, .n_ports = 1, .sets = four, .n_sets = 1},
        {.priority = 2, .protocol = TCP, .ports = &web, .n_ports = 1, .sets = three_four, .n_sets = 2},
        {.priority = 3, .protocol = TCP, .ports = &web, .n_ports = 1, .sets = three_four, .n_sets = 2},
        {.priority = 4, .protocol = TCP},
        {.priority = 5, .protocol = TCP, .sets = (const uint32_t[]){9}, .n_sets = 1},
    };
    struct rule_table *t = rule_table_build(&env->env, rules, ARRAY_LEN(rules));
    struct rule_query q = tcp_to(80);
    q.overlay = true;

    struct members m = {0}; // 10.0.0.4 is in set 4
    assert_int_equal(rule_table_match(t, &q, is_member, &m), 1);
    assert_int_equal(m.total, 2);

    m = (struct members){0};
    q.remote = v4(10, 0, 0, 5); // in neither: each is asked once, though two rules name it; set 9 is behind rule 3
    assert_int_equal(rule_table_match(t, &q, is_member, &m), 3);
    assert_int_equal(m.asked[3], 1);
    assert_int_equal(m.asked[4], 1);
    assert_int_equal(m.total, 2);

    q.dport = 8080; // no rule with a set can match before rule 3
    assert_int_equal(rule_table_match(t, &q, never_asked, NULL), 3);
    q.dport = 80;
    q.overlay = false; // nor from outside
    assert_int_equal(rule_table_match(t, &q, never_asked, NULL), 3);
    rule_table_free(&env->env, t);
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
}

static void test_empty(void **state)
{
    struct rule_query q = tcp_to(80);
    q.overlay = true;
    assert_int_equal(match(NULL, 0, &q), RULE_NONE);
}

// ---- Random rules against the reference

enum { MOST_PARTS = 4 };
struct parts { // what a rule points to
    struct rule_port_range ports[MOST_PARTS];
    struct rule_icmp icmp[MOST_PARTS];
    struct ip_prefix remotes[MOST_PARTS];
    uint32_t sets[MOST_PARTS];
};

static struct ip_addr random_remote(void)
{
    if (random_below(2))
        return v4(10, random_below(2), random_below(3), random_below(random_below(2) ? 6 : 256));
    uint8_t bytes[16] = {0xfd, (uint8_t)random_below(2)};
    bytes[7] = (uint8_t)random_below(3);
    bytes[15] = (uint8_t)random_below(6);
    return ip_from_v6(bytes);
}

static struct ip_prefix random_prefix(void)
{
    struct ip_addr a = random_remote();
    unsigned len = ip_is_v4(&a) ? 96 + random_below(33) : random_below(129);
    for (unsigned i = len; i < 128; i++)
        a.b[i / 8] &= (uint8_t) ~(0x80 >> (i % 8));
    return (struct ip_prefix){a, (uint8_t)len};
}

static const uint8_t protocols[] = {TCP, UDP, SCTP, ICMP, ICMP6, GRE, ESP, 0, 255};

static void random_rule(struct rule *r, struct parts *parts, uint32_t priorities)
{
    *r = (struct rule){.priority = random_below(priorities), .action = (uint8_t)random_below(3)};
    r->protocol = random_below(4) ? protocols[random_below(ARRAY_LEN(protocols))] : RULE_PROTO_ANY;
    r->ip_version = (uint8_t)(random_below(4) ? 0 : 4 + 2 * random_below(2));
    r->ports = parts->ports;
    r->icmp = parts->icmp;
    r->remotes = parts->remotes;
    r->sets = parts->sets;
    bool icmp = r->protocol == ICMP || r->protocol == ICMP6;
    if (random_below(8) == 0)
        icmp = !icmp; // conditions of the other kind, or of both
    if (!icmp || random_below(16) == 0)
        r->n_ports = random_below(MOST_PARTS + 1);
    if (icmp)
        r->n_icmp = random_below(MOST_PARTS + 1);
    if (random_below(3))
        r->n_remotes = random_below(MOST_PARTS + 1);
    if (random_below(3) == 0)
        r->n_sets = random_below(MOST_PARTS + 1);
    r->remote_vpc = random_below(8) == 0;
    r->remote_any = random_below(16) == 0;
    for (unsigned i = 0; i < MOST_PARTS; i++) {
        uint32_t first = random_below(random_below(2) ? 30 : 65536);
        parts->ports[i] = (struct rule_port_range){(uint16_t)first, (uint16_t)MIN(first + random_below(20), 65535)};
        if (random_below(10) == 0)
            parts->ports[i].last = (uint16_t)random_below(65536);
        parts->icmp[i] = (struct rule_icmp){(int16_t)(random_below(6) - 1), (int16_t)(random_below(4) - 1)};
        parts->remotes[i] = random_prefix();
        parts->sets[i] = random_below(12);
    }
}

static struct rule_query random_query(void)
{
    struct rule_query q = {.remote = random_remote(), .protocol = protocols[random_below(ARRAY_LEN(protocols))]};
    q.ip_version = ip_is_v4(&q.remote) ? 4 : 6;
    q.overlay = random_below(2);
    q.has_ports = q.protocol == TCP || q.protocol == UDP || q.protocol == SCTP;
    if (random_below(20) == 0)
        q.has_ports = !q.has_ports; // a later fragment; or nonsense, on which both must agree as well
    q.dport = (uint16_t)random_below(random_below(2) ? 40 : 65536);
    q.icmp_type = (uint8_t)random_below(6);
    q.icmp_code = (uint8_t)random_below(4);
    return q;
}

static void differential(unsigned tables, uint32_t most_rules, unsigned queries)
{
    struct test_env *env = test_env_create();
    struct rule *rules = calloc(most_rules, sizeof(*rules));
    struct parts *parts = calloc(most_rules, sizeof(*parts));
    unsigned matched = 0;
    for (unsigned i = 0; i < tables; i++) {
        uint32_t n = random_below(most_rules + 1), priorities = random_below(2) ? 3 : 2 * most_rules;
        for (uint32_t r = 0; r < n; r++)
            random_rule(&rules[r], &parts[r], priorities);
        struct rule_table *t = rule_table_build(&env->env, rules, n);
        assert_non_null(t);
        for (unsigned k = 0; k < queries; k++) {
            struct rule_query q = random_query();
            struct members a = {0}, b = {0};
            uint32_t expected = rule_match_linear(rules, n, &q, is_member, &a);
            assert_int_equal(rule_table_match(t, &q, is_member, &b), expected);
            for (unsigned s = 0; s < ARRAY_LEN(b.asked); s++)
                assert_true(b.asked[s] <= 1);
            matched += expected != RULE_NONE;
        }
        rule_table_free(&env->env, t);
    }
    assert_true(matched > tables); // the comparison is not one of nothing with nothing
    assert_int_equal(env->live, 0);
    free(rules);
    free(parts);
    test_env_destroy(env);
}

static void test_differential_small(void **state)
{
    differential(4000, 12, 60);
}

static void test_differential_medium(void **state)
{
    differential(150, 200, 200);
}

static void test_differential_large(void **state)
{
    differential(20, 1000, 400);
}

static void test_differential_huge(void **state)
{
    differential(2, 10000, 400);
}

static void test_many_sets(void **state)
{
    enum { N = 5000 }; // more sets than one query remembers
    struct test_env *env = test_env_create();
    struct rule *rules = calloc(N, sizeof(*rules));
    uint32_t *sets = calloc(N, sizeof(*sets));
    for (uint32_t i = 0; i < N; i++) {
        sets[i] = i * 7; // remainder 0: only an address ending in a multiple of 7 is a member
        rules[i] = (struct rule){.priority = i, .protocol = TCP, .sets = &sets[i], .n_sets = 1};
    }
    sets[N - 1] = 4;
    struct rule_table *t = rule_table_build(&env->env, rules, N);
    struct rule_query q = tcp_to(80);
    q.overlay = true;
    struct members m = {0};
    assert_int_equal(rule_table_match(t, &q, is_member, &m), N - 1);
    assert_int_equal(m.total, N);
    rule_table_free(&env->env, t);
    free(rules);
    free(sets);
    test_env_destroy(env);
}

static void test_memory(void **state)
{
    enum { N = 10000 };
    struct test_env *env = test_env_create();
    struct rule *rules = calloc(N, sizeof(*rules));
    struct parts *parts = calloc(N, sizeof(*parts));
    for (uint32_t i = 0; i < N; i++) { // the worst kind: every rule its own prefix and its own port range
        parts[i].ports[0] = (struct rule_port_range){(uint16_t)(i * 3), (uint16_t)(i * 3 + 10000)};
        parts[i].remotes[0] = (struct ip_prefix){v4(10, i >> 8, i, 0), 120};
        rules[i] = (struct rule){.priority = i,
                                 .protocol = TCP,
                                 .ports = parts[i].ports,
                                 .n_ports = 1,
                                 .remotes = parts[i].remotes,
                                 .n_remotes = 1};
    }
    struct rule_table *t = rule_table_build(&env->env, rules, N);
    size_t bytes = rule_table_bytes(t);
    assert_true(bytes > N * 4 && bytes < N * 700);
    rule_table_free(&env->env, t);
    t = rule_table_build(&env->env, rules, 10);
    assert_true(rule_table_bytes(t) < 8192);
    rule_table_free(&env->env, t);
    free(rules);
    free(parts);
    test_env_destroy(env);
}

static void test_no_memory(void **state)
{
    struct test_env *env = test_env_create();
    static struct rule rules[100];
    static struct parts parts[100];
    for (uint32_t i = 0; i < 100; i++)
        random_rule(&rules[i], &parts[i], 10);
    long site = 0;
    for (;; site++) {
        env->fail_after = site;
        struct rule_table *t = rule_table_build(&env->env, rules, 100);
        if (t) {
            env->fail_after = -1;
            rule_table_free(&env->env, t);
            break;
        }
        assert_int_equal(env->live, 0);
    }
    assert_true(site > 25);
    assert_int_equal(env->live, 0);
    test_env_destroy(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T25 the lower priority number wins", .test_func = test_priorities},
        {.name = "T25 at equal priority deny and reject win, then the earlier rule", .test_func = test_ties},
        {.name = "T26 a list of ports and ranges matches its bounds and nothing beside", .test_func = test_ports},
        {.name = "T26 overlapping, adjoining and empty ranges", .test_func = test_overlapping_ranges},
        {.name = "ports of any protocol match TCP, UDP and SCTP only", .test_func = test_ports_of_any_protocol},
        {.name = "T27 ICMP type and code", .test_func = test_icmp_types},
        {.name = "T28 remote vpc matches packets of the overlay only", .test_func = test_vpc},
        {.name = "T29 rules by any protocol number", .test_func = test_any_protocol_number},
        {.name = "rules and prefixes of one family leave the other alone", .test_func = test_families},
        {.name = "sets are asked once, for overlay packets, when a rule depends on it", .test_func = test_sets},
        {.name = "an empty table matches nothing", .test_func = test_empty},
        {.name = "T33 4,000 random tables of up to 12 rules", .test_func = test_differential_small},
        {.name = "T33 150 random tables of up to 200 rules", .test_func = test_differential_medium},
        {.name = "T33 20 random tables of up to 1,000 rules", .test_func = test_differential_large},
        {.name = "T33 2 random tables of up to 10,000 rules", .test_func = test_differential_huge},
        {.name = "more sets than a query remembers", .test_func = test_many_sets},
        {.name = "memory grows with the rules, not with their square", .test_func = test_memory},
        {.name = "T48 each failed allocation ends the build without a leak", .test_func = test_no_memory},
    };
    return cmocka_run_group_tests_name("rule_table", tests, NULL, NULL);
}
