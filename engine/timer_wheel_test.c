// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/timer_wheel.h"

#define ITEMS 500
#define FOREVER 0xffffffffu

struct fixture {
    struct timer_wheel wheel;
    struct timer_link links[ITEMS];
    uint64_t deadline[ITEMS]; // the reference: ms, 0 = not armed
    uint64_t now;
    unsigned fired, early, late_ticks;
    bool restart;
};

static struct timer_link *link_of(void *ctx, uint32_t item)
{
    return &((struct fixture *)ctx)->links[item];
}

static void start(struct fixture *f, uint32_t item, uint64_t deadline)
{
    timer_wheel_start(&f->wheel, item, deadline);
    f->deadline[item] = deadline;
}

static void expired(void *arg, uint32_t item)
{
    struct fixture *f = arg;
    assert_true(item > 0 && item < ITEMS);
    assert_int_equal(f->links[item].slot, 0);
    assert_true(f->deadline[item] != 0);
    assert_true(f->now >= f->deadline[item]);
    f->deadline[item] = 0;
    f->fired++;
    if (f->restart)
        start(f, item, 1);
}

static unsigned pending_due(const struct fixture *f)
{
    unsigned n = 0;
    for (unsigned i = 1; i < ITEMS; i++)
        n += f->deadline[i] && f->deadline[i] + TIMER_TICK_MS <= f->now;
    return n;
}

static struct fixture *fixture(uint64_t now)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->now = now;
    timer_wheel_init(&f->wheel, now, link_of, f);
    return f;
}

static void advance_to(struct fixture *f, uint64_t now)
{
    f->now = now;
    while (timer_wheel_advance(&f->wheel, now, 7, expired, f) == 7)
        ;
    assert_int_equal(pending_due(f), 0);
}

static void test_never_early(void **state)
{
    struct fixture *f = fixture(1000003);
    start(f, 1, 1000003 + 30000);
    advance_to(f, 1000003 + 29999);
    assert_int_equal(f->fired, 0);
    advance_to(f, 1000003 + 30000 + TIMER_TICK_MS);
    assert_int_equal(f->fired, 1);
    assert_int_equal(f->wheel.armed, 0);
    free(f);
}

static void test_stop(void **state)
{
    struct fixture *f = fixture(5);
    for (uint32_t i = 1; i <= 3; i++) // one slot: the middle, head and tail of its list
        start(f, i, 60000);
    timer_wheel_stop(&f->wheel, 2);
    timer_wheel_stop(&f->wheel, 2);
    timer_wheel_stop(&f->wheel, 3);
    timer_wheel_stop(&f->wheel, 1);
    f->deadline[1] = f->deadline[2] = f->deadline[3] = 0;
    advance_to(f, 70000);
    assert_int_equal(f->fired, 0);
    for (unsigned i = 0; i < ARRAY_LEN(f->wheel.heads); i++)
        assert_int_equal(f->wheel.heads[i], 0);
    free(f);
}

static void test_past(void **state)
{
    struct fixture *f = fixture(100000);
    start(f, 1, 5);
    assert_int_equal(timer_wheel_advance(&f->wheel, 100000, 10, expired, f), 0);
    advance_to(f, 100000 + TIMER_TICK_MS);
    assert_int_equal(f->fired, 1);
    free(f);
}

static void test_restart_in_callback(void **state)
{
    struct fixture *f = fixture(0);
    f->restart = true;
    start(f, 1, 1000);
    f->now = 10 * 1000;
    unsigned done = timer_wheel_advance(&f->wheel, f->now, 100000, expired, f);
    assert_true(done <= 10 * 1000 / TIMER_TICK_MS);
    assert_true(f->fired > 30);
    free(f);
}

static void test_budget(void **state)
{
    struct fixture *f = fixture(0);
    for (uint32_t i = 1; i < ITEMS; i++)
        start(f, i, 100 * 1000); // level 1: each is handed down once and called once
    f->now = 101 * 1000;
    unsigned calls = 0, done;
    while ((done = timer_wheel_advance(&f->wheel, f->now, 10, expired, f)) == 10)
        calls++;
    assert_true(done < 10);
    assert_int_equal(f->fired, ITEMS - 1);
    assert_in_range(calls, 2 * (ITEMS - 1) / 10, 2 * (ITEMS - 1) / 10 + 1);
    free(f);
}

static void test_jump(void **state)
{
    struct fixture *f = fixture(12345);
    start(f, 1, 12345 + 30 * 1000);
    start(f, 2, 12345 + 3599 * 1000);
    start(f, 3, 12345 + 3601 * 1000);
    start(f, 4, 12345 + 8000 * 1000);
    advance_to(f, 12345 + 3600 * 1000);
    assert_int_equal(f->fired, 2);
    advance_to(f, 12345 + 3600 * 1000 - 1); // a clock that steps back
    assert_int_equal(f->fired, 2);
    advance_to(f, 12345 + 3602 * 1000);
    assert_int_equal(f->fired, 3);
    advance_to(f, 12345 + 8001 * 1000);
    assert_int_equal(f->fired, 4);
    free(f);
}

static void test_beyond_the_rim(void **state)
{
    const uint64_t day = 86400 * 1000ull;
    struct fixture *f = fixture(77);
    start(f, 1, 200 * day);
    for (unsigned d = 1; d < 200; d++)
        advance_to(f, d * day);
    assert_int_equal(f->fired, 0);
    advance_to(f, 200 * day + TIMER_TICK_MS);
    assert_int_equal(f->fired, 1);
    free(f);
}

static uint64_t random_below(uint64_t n)
{
    return (((uint64_t)random() << 31) ^ (uint64_t)random()) % n;
}

static void test_reference(void **state)
{
    static const uint64_t spans[] = {300, 20 * 1000, 600 * 1000, 9000 * 1000, 40 * 86400ull * 1000};
    for (unsigned seed = 0; seed < 20; seed++) {
        srandom(seed);
        struct fixture *f = fixture(random_below(1u << 30));
        for (unsigned step = 0; step < 20000; step++) {
            uint32_t item = 1 + (uint32_t)random_below(ITEMS - 1);
            uint64_t span = spans[random_below(ARRAY_LEN(spans))];
            switch (random_below(8)) {
            case 0:
                timer_wheel_stop(&f->wheel, item);
                f->deadline[item] = 0;
                break;
            case 1: // one bounded call, possibly leaving work behind
                f->now += random_below(span / 100 + 1);
                timer_wheel_advance(&f->wheel, f->now, (unsigned)random_below(4), expired, f);
                break;
            case 2:
                advance_to(f, f->now + random_below(span / 10 + 1));
                break;
            default:
                start(f, item, f->now + random_below(span));
            }
        }
        unsigned armed = 0;
        for (unsigned i = 1; i < ITEMS; i++)
            armed += f->deadline[i] != 0;
        assert_int_equal(f->wheel.armed, armed);
        advance_to(f, f->now + 100 * 86400ull * 1000);
        assert_int_equal(f->wheel.armed, 0);
        free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "a timer is never early and at most one tick late", .test_func = test_never_early},
        {.name = "a stopped timer does not fire, wherever it stands in its list", .test_func = test_stop},
        {.name = "a deadline in the past fires at the next tick", .test_func = test_past},
        {.name = "a timer restarted in its callback cannot hold the wheel", .test_func = test_restart_in_callback},
        {.name = "one call does at most its budget of work and the next goes on", .test_func = test_budget},
        {.name = "T85 a jump of an hour expires what is due and no more; a step back expires nothing",
         .test_func = test_jump},
        {.name = "a deadline beyond the wheel's span is kept", .test_func = test_beyond_the_rim},
        {.name = "random starts, stops and steps agree with a list of deadlines", .test_func = test_reference},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
