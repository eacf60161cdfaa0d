// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/flow_key.h"
#include "engine/flow_table.h"
#include "engine/test_env.h"

static const struct flow_secret secret = {.m = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
                                                0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db,
                                                0x8ebc6af09c88c6e3, 0x589965cc75374cc3}};

static struct flow_key key_of(uint32_t n)
{
    struct flow_key k = {.port = 1, .vni = 100, .ip_version = 6, .protocol = 17, .sport = (uint16_t)n};
    k.src.w[0] = n;
    return k;
}

static uint64_t hash_of(uint32_t n)
{
    struct flow_key k = key_of(n);
    return flow_hash(&secret, &k);
}

static uint32_t new_entry(struct flow_table *t, uint32_t n)
{
    struct flow_key k = key_of(n);
    uint32_t index = flow_table_entry_alloc(t);
    if (index) {
        memcpy(flow_table_entry(t, index)->key, &k, sizeof(k));
        flow_table_entry(t, index)->owner = n + 1;
    }
    return index;
}

static uint32_t add(struct flow_table *t, uint32_t n)
{
    uint32_t index = new_entry(t, n);
    assert_int_not_equal(index, FLOW_NONE);
    assert_true(flow_table_insert(t, index, hash_of(n)));
    return index;
}

static uint32_t find(struct flow_table *t, uint32_t n)
{
    struct flow_key k = key_of(n);
    uint64_t hash = hash_of(n);
    flow_table_prefetch_bucket(t, hash);
    uint32_t likely_entry = flow_table_prefetch_entry(t, hash);
    uint32_t found = flow_table_lookup(t, &k, hash);
    if (flow_table_holds(t, likely_entry, &k))
        assert_int_equal(likely_entry, found);
    return found;
}

static struct flow_table *create(struct test_env *e, uint32_t capacity)
{
    bool kept;
    struct flow_table *t = flow_table_create(&e->env, capacity, false, &kept);
    assert_non_null(t);
    assert_false(kept);
    return t;
}

static void test_fills_up(void **state)
{
    struct test_env *e = test_env_create();
    const uint32_t n = 20000;
    struct flow_table *t = create(e, n);
    uint32_t *index = calloc(n, sizeof(*index));
    for (uint32_t i = 0; i < n; i++)
        index[i] = add(t, i);
    assert_int_equal(flow_table_entry_alloc(t), FLOW_NONE);
    assert_int_equal(flow_table_count(t), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(find(t, i), index[i]);
    for (uint32_t i = n; i < 2 * n; i++)
        assert_int_equal(find(t, i), FLOW_NONE);
    for (uint32_t i = 0; i < n; i++) {
        flow_table_remove(t, index[i]);
        assert_int_equal(find(t, i), FLOW_NONE);
    }
    assert_int_equal(flow_table_count(t), 0);
    assert_int_equal(flow_table_entry_alloc(t), FLOW_NONE); // grace period not over
    test_env_quiesce(e);
    for (uint32_t i = 0; i < n; i++)
        add(t, i + 7);
    free(index);
    flow_table_destroy(t);
    assert_int_equal(e->live, 0);
    test_env_destroy(e);
}

static void test_duplicate(void **state)
{
    struct test_env *e = test_env_create();
    struct flow_table *t = create(e, 8);
    uint32_t first = add(t, 5), second = new_entry(t, 5);
    assert_false(flow_table_insert(t, second, hash_of(5)));
    flow_table_entry_discard(t, second);
    assert_int_equal(find(t, 5), first);
    assert_int_equal(flow_table_count(t), 1);
    flow_table_destroy(t);
    test_env_destroy(e);
}

static void test_replace(void **state)
{
    struct test_env *e = test_env_create();
    struct flow_table *t = create(e, 8);
    uint32_t old = add(t, 5), next = new_entry(t, 5);
    flow_table_hot(t, old)->packets = 3;
    flow_table_replace(t, old, next, hash_of(5));
    assert_int_equal(find(t, 5), next);
    assert_int_equal(flow_table_entry(t, old)->owner, 6); // readable until the grace period ends
    assert_int_equal(flow_table_hot(t, old)->packets, 3);
    assert_int_equal(flow_table_count(t), 1);
    test_env_quiesce(e);
    assert_int_equal(flow_table_entry(t, old)->owner, 0);
    assert_int_equal(flow_table_entry_alloc(t), old);
    assert_int_equal(flow_table_hot(t, old)->packets, 0);
    flow_table_destroy(t);
    test_env_destroy(e);
}

static void test_collisions(void **state)
{
    struct test_env *e = test_env_create();
    struct flow_table *t = create(e, 4000);
    const uint64_t hash = 0x12345678; // everything in one bucket, all tags equal
    uint32_t index[2000], n = 0;
    for (; n < ARRAY_LEN(index); n++) {
        index[n] = new_entry(t, n);
        if (!flow_table_insert(t, index[n], hash))
            break;
    }
    assert_in_range(n, 1000, 1999); // overflow lines are bounded, and running out is an answer
    flow_table_entry_discard(t, index[n]);
    for (uint32_t i = 0; i < n; i++) {
        struct flow_key k = key_of(i);
        assert_int_equal(flow_table_lookup(t, &k, hash), index[i]);
    }
    for (uint32_t i = 0; i < n; i += 2) // holes: what stays is still found
        flow_table_remove(t, index[i]);
    for (uint32_t i = 0; i < n; i++) {
        struct flow_key k = key_of(i);
        assert_int_equal(flow_table_lookup(t, &k, hash), i % 2 ? index[i] : FLOW_NONE);
    }
    for (uint32_t i = 1; i < n; i += 2)
        flow_table_remove(t, index[i]);
    test_env_quiesce(e);
    uint32_t again = 0; // the lines came back
    for (; again < ARRAY_LEN(index); again++) {
        index[again] = new_entry(t, again);
        if (!flow_table_insert(t, index[again], hash))
            break;
    }
    assert_int_equal(again, n);
    flow_table_destroy(t);
    test_env_destroy(e);
}

static void test_model(void **state)
{
    enum { KEYS = 3000, CAPACITY = 1000 };
    struct test_env *e = test_env_create();
    struct flow_table *t = create(e, CAPACITY);
    static uint32_t model[KEYS];
    uint32_t count = 0;
    memset(model, 0, sizeof(model));
    srandom(1);
    for (unsigned step = 0; step < 300000; step++) {
        uint32_t n = (uint32_t)random() % KEYS;
        assert_int_equal(find(t, n), model[n]);
        uint32_t what = (uint32_t)random() % 4;
        if (!model[n]) {
            uint32_t index = new_entry(t, n);
            if (!index) {
                test_env_quiesce(e);
                continue;
            }
            assert_true(flow_table_insert(t, index, hash_of(n)));
            model[n] = index;
            count++;
        } else if (what == 0) {
            uint32_t index = new_entry(t, n);
            if (!index)
                continue;
            flow_table_replace(t, model[n], index, hash_of(n));
            model[n] = index;
        } else if (what < 3) {
            flow_table_remove(t, model[n]);
            model[n] = 0;
            count--;
        }
        assert_int_equal(flow_table_count(t), count);
        if (random() % 50 == 0)
            test_env_quiesce(e);
    }
    test_env_quiesce(e);
    flow_table_destroy(t);
    test_env_destroy(e);
}

static void test_load(void **state)
{
    struct test_env *e = test_env_create();
    for (uint32_t capacity = 1; capacity < 3000; capacity = capacity * 3 / 2 + 1) {
        struct flow_table *t = create(e, capacity);
        for (uint32_t i = 0; i < capacity; i++)
            add(t, i * 977);
        assert_int_equal(flow_table_entry_alloc(t), FLOW_NONE);
        flow_table_destroy(t);
    }
    test_env_destroy(e);
}

static void test_adoption(void **state)
{
    struct test_env *e = test_env_create();
    bool kept;
    struct flow_table *t = flow_table_create(&e->env, 100, true, &kept);
    assert_false(kept);
    uint32_t a = add(t, 1), b = add(t, 2), c = add(t, 3);
    flow_table_destroy(t);

    t = flow_table_create(&e->env, 100, true, &kept);
    assert_true(kept);
    assert_int_equal(flow_table_count(t), 0);
    assert_int_equal(find(t, 1), FLOW_NONE);
    assert_int_equal(flow_table_entry_alloc(t), FLOW_NONE); // not before the owner has looked
    assert_true(flow_table_insert(t, a, hash_of(1)));
    assert_true(flow_table_insert(t, b, hash_of(2)));
    flow_table_remove(t, b);
    flow_table_entry_discard(t, c);
    flow_table_adopt_done(t);
    assert_int_equal(find(t, 1), a);
    assert_int_equal(flow_table_count(t), 1);
    assert_int_equal(flow_table_entry(t, b)->owner, 0);
    assert_int_equal(flow_table_entry(t, c)->owner, 0);
    unsigned got = 0;
    bool seen[101] = {[0] = true};
    for (uint32_t i; (i = flow_table_entry_alloc(t)) != FLOW_NONE; got++) {
        assert_false(seen[i] || i == a);
        seen[i] = true;
    }
    assert_int_equal(got, 99);
    flow_table_destroy(t);
    test_env_destroy(e);
}

static void test_memory_short(void **state)
{
    for (long site = 0;; site++) {
        struct test_env *e = test_env_create();
        bool kept;
        e->fail_after = site;
        struct flow_table *t = flow_table_create(&e->env, 100, false, &kept);
        bool done = t != NULL;
        flow_table_destroy(t);
        assert_int_equal(e->live, 0);
        test_env_destroy(e);
        if (done) {
            assert_int_equal(site, 3);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "every entry of a full table is found, and none beside them", .test_func = test_fills_up},
        {.name = "a key is published once", .test_func = test_duplicate},
        {.name = "a replaced entry stays readable until the grace period ends", .test_func = test_replace},
        {.name = "equal hashes cost overflow lines, which are bounded and come back", .test_func = test_collisions},
        {.name = "random inserts, replaces and removes agree with a model", .test_func = test_model},
        {.name = "a table of any size takes as many entries as it promised", .test_func = test_load},
        {.name = "entries of a former process are published or freed", .test_func = test_adoption},
        {.name = "T48 a table that gets no memory leaves nothing behind", .test_func = test_memory_short},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
