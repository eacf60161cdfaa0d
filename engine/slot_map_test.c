// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/ip.h"
#include "engine/slot_map.h"
#include "engine/test_env.h"

#define KEYS 65536

// Keys as tenants have them: addresses in a row, of either family, and MACs that differ in their last bytes.
static size_t make_key(unsigned shape, unsigned i, uint8_t key[16])
{
    struct ip_addr v4 = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, (uint8_t)(i >> 8), (uint8_t)i}};
    struct ip_addr v6 = {.b = {0xfd, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i}};
    struct ip_addr v6_subnets = {.b = {0xfd, [6] = (uint8_t)(i >> 8), [7] = (uint8_t)i, [15] = 1}};
    const uint8_t mac[6] = {2, 0, 0, 0, (uint8_t)(i >> 8), (uint8_t)i};
    if (shape == 3) {
        memcpy(key, mac, 6);
        return 6;
    }
    memcpy(key, shape == 0 ? v4.b : shape == 1 ? v6.b : v6_subnets.b, 16);
    return 16;
}

static void keys_in_a_row_do_not_share_chains(void **state)
{
    for (unsigned shape = 0; shape < 4; shape++) {
        struct test_env *env = test_env_create();
        struct slot_map m;
        assert_true(slot_map_init(&m, &env->env, KEYS));
        for (unsigned i = 0; i < KEYS; i++) {
            uint8_t key[16];
            size_t n = make_key(shape, i, key);
            uint32_t slot = slot_map_alloc(&m);
            assert_int_not_equal(slot, 0);
            slot_map_link(&m, slot, slot_map_hash(100, key, n));
        }
        unsigned longest = 0;
        for (uint32_t bucket = 0; bucket <= m.mask; bucket++) {
            unsigned length = 0;
            for (uint32_t s = slot_map_first(&m, bucket); s; s = slot_map_next(&m, s))
                length++;
            longest = MAX(longest, length);
        }
        assert_true(longest <= 12); // a random function's longest of 65,536 in as many buckets is 8 or 9
        slot_map_fini(&m);
        test_env_destroy(env);
    }
}

static void the_seed_separates_equal_keys(void **state)
{
    const struct ip_addr ip = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 4}};
    unsigned equal = 0;
    for (uint32_t vni = 1; vni < 1000; vni++)
        equal += (slot_map_hash(vni, ip.b, 16) & 1023) == (slot_map_hash(vni + 1, ip.b, 16) & 1023);
    assert_true(equal < 20);
}

// A reader is a slot it stands on, or the head it has not left yet.
static void a_replaced_slot_is_never_missed(void **state)
{
    struct test_env *env = test_env_create();
    struct slot_map m;
    uint32_t slots[4];
    assert_true(slot_map_init(&m, &env->env, 8));
    for (unsigned i = 0; i < 3; i++)
        slot_map_link(&m, slots[i] = slot_map_alloc(&m), 5); // the chain is 2, 1, 0
    slots[3] = slot_map_alloc(&m);
    uint32_t before = slot_map_first(&m, 5), on_it = slots[1], version = slot_map_version(&m, on_it);
    assert_int_equal(before, slots[2]);
    slot_map_replace(&m, slots[1], slots[3]);
    assert_int_equal(slot_map_next(&m, before), slots[3]); // who stands before it finds the new one
    assert_int_equal(slot_map_next(&m, on_it), slots[0]);  // who stands on the old one goes on from there
    assert_int_equal(slot_map_next(&m, slots[3]), slots[0]);
    assert_int_not_equal(slot_map_version(&m, on_it), version);
    assert_int_equal(m.linked, 3);
    slot_map_unlink(&m, slots[2]);
    assert_int_equal(slot_map_first(&m, 5), slots[3]);
    test_env_quiesce(env);
    slot_map_fini(&m);
    test_env_destroy(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_a_row_do_not_share_chains),
        cmocka_unit_test(the_seed_separates_equal_keys),
        {.name = "T86 a slot that takes another's place is found by every reader, or the other is",
         .test_func = a_replaced_slot_is_never_missed},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
