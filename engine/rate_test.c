// SPDX-License-Identifier: MPL-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>

#include "engine/rate.h"

#define SECOND 1000000000ull

static void exact(void **state)
{
    static const uint64_t rates[] = {1, 7, 999, 100000000, 333333333, 999999999, 1000000001, 400000000003, RATE_MAX};
    static const uint64_t times[] = {0, 1, 999999999, SECOND, 3 * SECOND + 1, 86400 * SECOND + 123456789};
    for (unsigned i = 0; i < ARRAY_LEN(rates); i++)
        for (unsigned j = 0; j < ARRAY_LEN(times); j++)
            assert_int_equal(rate_clock(rates[i], times[j]),
                             (uint64_t)((unsigned __int128)rates[i] * times[j] / SECOND));
}

// Three units each 10 s, asked for 100 times a second for an hour: not one more or less than is due.
static void slow_rate_loses_nothing(void **state)
{
    uint64_t used = 0, taken = 0;
    for (uint64_t now = 0; now <= 3600 * SECOND; now += SECOND / 100)
        taken += rate_take(&used, 3, 5, 1, now);
    assert_int_equal(taken, 5 + 3 * 3600);
}

static void burst_bound(void **state)
{
    uint64_t used = 0, now = 5 * SECOND, taken = 0;
    while (rate_take(&used, 1000, 64, 1, now))
        taken++;
    assert_int_equal(taken, 64);
    assert_false(rate_take(&used, 1000, 64, 1, now + 999999));
    assert_true(rate_take(&used, 1000, 64, 1, now + 1000000));
    assert_false(rate_take(&used, 1000, 64, 1, now + 1000000));
    // Idle for a year: one burst, not a year's worth.
    now += 31536000 * SECOND;
    for (taken = 0; rate_take(&used, 1000, 64, 1, now); taken++)
        ;
    assert_int_equal(taken, 64);
}

// A word left by another rate may be anywhere: it counts as idle, and does not shut the port.
static void foreign_word(void **state)
{
    static const uint64_t words[] = {1, 1000000, 1ull << 40, 1ull << 62, 1ull << 63, UINT64_MAX};
    for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
        uint64_t used = words[i];
        assert_true(rate_take(&used, 1000, 64, 64, 77 * SECOND));
    }
}

static void given_back(void **state)
{
    uint64_t used = 0;
    assert_true(rate_take(&used, 1000, 64, 64, SECOND));
    assert_false(rate_take(&used, 1000, 64, 1, SECOND));
    rate_give_back(&used, 2);
    assert_true(rate_take(&used, 1000, 64, 2, SECOND));
    assert_false(rate_take(&used, 1000, 64, 1, SECOND));
}

struct shared {
    uint64_t used;
    uint64_t taken;
};

static void *take_all(void *arg)
{
    struct shared *s = arg;
    uint64_t taken = 0;
    for (unsigned i = 0; i < 200000; i++)
        taken += rate_take(&s->used, 1000000, 50000, 1, SECOND + i * 1000);
    fetch_add_relaxed(&s->taken, taken);
    return NULL;
}

// Four workers, each with its own time: together a burst and 200 ms worth, and what was on credit at the most.
static void shared_by_workers(void **state)
{
    struct shared s = {0};
    pthread_t t[4];
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_all, &s), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_in_range(s.taken, 200000, 250000 + 4 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a bucket's clock is exact at every rate", exact, NULL, NULL, NULL},
        {"a slow rate loses nothing to rounding", slow_rate_loses_nothing, NULL, NULL, NULL},
        {"the burst is a bound, also after a year of silence", burst_bound, NULL, NULL, NULL},
        {"a word of another rate counts as idle", foreign_word, NULL, NULL, NULL},
        {"what is given back can be taken again", given_back, NULL, NULL, NULL},
        {"workers share one bucket", shared_by_workers, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
