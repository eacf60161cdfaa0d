// SPDX-License-Identifier: MPL-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "engine/flow_key.h"
#include "vpc/maglev.h"

static uint64_t name_of(unsigned i)
{
    return flow_fold(i + 1, 0x9e3779b97f4a7c15ull) ^ flow_fold(i + 77, 0xd6e8feb86659fd93ull);
}

static void some(struct maglev_target *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        t[i] = (struct maglev_target){.name = name_of(i), .weight = 1};
}

static void count(const uint8_t *table, unsigned *held)
{
    memset(held, 0, MAGLEV_TARGETS * sizeof(*held));
    for (unsigned s = 0; s < MAGLEV_SLOTS; s++) {
        assert_true(table[s] < MAGLEV_TARGETS);
        held[table[s]]++;
    }
}

static void equal_shares(void **state)
{
    struct maglev_target t[MAGLEV_TARGETS];
    uint8_t table[MAGLEV_SLOTS];
    unsigned held[MAGLEV_TARGETS];
    for (unsigned n = 1; n <= MAGLEV_TARGETS; n++) {
        some(t, n);
        maglev_fill(table, t, n, 1);
        count(table, held);
        for (unsigned i = 0; i < n; i++)
            assert_in_range(held[i], MAGLEV_SLOTS / n, MAGLEV_SLOTS / n + 1);
    }
}

static void weighted_shares(void **state)
{
    static const unsigned weights[] = {1, 2, 5, 10, 32};
    struct maglev_target t[5];
    uint8_t table[MAGLEV_SLOTS];
    unsigned held[MAGLEV_TARGETS], sum = 50;
    some(t, 5);
    for (unsigned i = 0; i < 5; i++)
        t[i].weight = weights[i];
    maglev_fill(table, t, 5, 32);
    count(table, held);
    for (unsigned i = 0; i < 5; i++) {
        unsigned fair = MAGLEV_SLOTS * weights[i] / sum;
        assert_in_range(held[i], fair * 95 / 100, fair * 105 / 100 + 1);
    }
    t[0].weight = 1;
    t[1].weight = 256;
    for (unsigned i = 2; i < 5; i++)
        t[i].weight = 256;
    maglev_fill(table, t, 5, 256);
    count(table, held);
    assert_in_range(held[0], 1, 6);
}

// Of the slots that the others held, few change hands; all that the one who left held go round evenly.
static void little_moves(void **state)
{
    struct maglev_target t[MAGLEV_TARGETS];
    uint8_t before[MAGLEV_SLOTS], after[MAGLEV_SLOTS];
    for (unsigned n = 2; n <= MAGLEV_TARGETS; n += n < 10 ? 1 : 23) {
        for (unsigned gone = 0; gone < n; gone += n < 10 ? 1 : 17) {
            unsigned held[MAGLEV_TARGETS];
            some(t, n);
            maglev_fill(before, t, n, 1);
            t[gone].weight = 0;
            maglev_fill(after, t, n, 1);
            count(after, held);
            assert_int_equal(held[gone], 0);
            unsigned moved = 0;
            for (unsigned s = 0; s < MAGLEV_SLOTS; s++)
                moved += before[s] != gone && before[s] != after[s];
            assert_true(moved * 100 <= MAGLEV_SLOTS * 15);
            t[gone].weight = 1; // it comes back to what it had
            maglev_fill(after, t, n, 1);
            assert_memory_equal(before, after, sizeof(before));
        }
    }
}

static void order_is_nothing(void **state)
{
    struct maglev_target t[7], turned[7];
    uint8_t a[MAGLEV_SLOTS], b[MAGLEV_SLOTS];
    some(t, 7);
    for (unsigned i = 0; i < 7; i++)
        turned[i] = t[6 - i];
    maglev_fill(a, t, 7, 1);
    maglev_fill(b, turned, 7, 1);
    unsigned differ = 0;
    for (unsigned s = 0; s < MAGLEV_SLOTS; s++)
        differ += a[s] != 6 - b[s];
    assert_true(differ * 100 <= MAGLEV_SLOTS * 25); // who takes first within a turn may win a slot; no more than that
}

static void nobody(void **state)
{
    struct maglev_target t[2];
    uint8_t table[MAGLEV_SLOTS];
    some(t, 2);
    t[0].weight = t[1].weight = 0;
    maglev_fill(table, t, 2, 5);
    maglev_fill(table, t, 0, 1);
    for (unsigned s = 0; s < MAGLEV_SLOTS; s++)
        assert_int_equal(table[s], MAGLEV_NOBODY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "targets of equal weight hold equal shares, to one slot", .test_func = equal_shares},
        {.name = "shares follow the weights within 5 %, and the lightest has one", .test_func = weighted_shares},
        {.name = "when a target goes few others' slots move; when it returns all is as before",
         .test_func = little_moves},
        {.name = "the order of the list decides little", .test_func = order_is_nothing},
        {.name = "without a willing target nobody holds a slot", .test_func = nobody},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
