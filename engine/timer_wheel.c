// SPDX-License-Identifier: MPL-2.0
#include "engine/timer_wheel.h"

#define SLOT_BITS 6
#define SPAN (1u << (SLOT_BITS * TIMER_LEVELS)) // ticks the wheel reaches; later deadlines wait at its rim
_Static_assert(TIMER_SLOTS == 1 << SLOT_BITS, "a level's slot is a bit field of the tick");

static uint32_t *head_of(struct timer_wheel *w, unsigned level, uint32_t tick)
{
    return &w->heads[level * TIMER_SLOTS + ((tick >> (SLOT_BITS * level)) & (TIMER_SLOTS - 1))];
}

// Puts an item where the wheel meets it next, seen from tick `base`. An item of level n is at least 64^n ticks
// away, so its slot comes up (and hands it to a lower level) before its deadline.
static void place(struct timer_wheel *w, uint32_t item, struct timer_link *l, uint32_t base)
{
    uint32_t delta = l->deadline - base;
    uint32_t tick = delta < SPAN ? l->deadline : base + SPAN - 1;
    unsigned level = 0;
    while (level < TIMER_LEVELS - 1 && (delta >> (SLOT_BITS * (level + 1))) != 0)
        level++;

    uint32_t *head = head_of(w, level, tick);
    l->slot = (uint16_t)(head - w->heads + 1);
    l->prev = 0;
    l->next = *head;
    if (*head)
        w->link(w->ctx, *head)->prev = item;
    *head = item;
}

static void unplace(struct timer_wheel *w, struct timer_link *l)
{
    if (l->prev)
        w->link(w->ctx, l->prev)->next = l->next;
    else
        w->heads[l->slot - 1] = l->next;
    if (l->next)
        w->link(w->ctx, l->next)->prev = l->prev;
    l->next = l->prev = 0;
    l->slot = 0;
}

void timer_wheel_init(struct timer_wheel *w, uint64_t now_ms, struct timer_link *(*link)(void *, uint32_t), void *ctx)
{
    memset(w, 0, sizeof(*w));
    w->now = (uint32_t)(now_ms / TIMER_TICK_MS);
    w->link = link;
    w->ctx = ctx;
}

void timer_wheel_start(struct timer_wheel *w, uint32_t item, uint64_t deadline_ms)
{
    struct timer_link *l = w->link(w->ctx, item);
    if (l->slot)
        unplace(w, l);
    else
        w->armed++;
    l->deadline = (uint32_t)((deadline_ms + TIMER_TICK_MS - 1) / TIMER_TICK_MS); // up: late, never early
    if ((int32_t)(l->deadline - w->now) <= 0)
        l->deadline = w->now + 1;
    place(w, item, l, w->now);
}

void timer_wheel_stop(struct timer_wheel *w, uint32_t item)
{
    struct timer_link *l = w->link(w->ctx, item);
    if (!l->slot)
        return;
    unplace(w, l);
    w->armed--;
}

// The first tick after now, and not after target, at which a slot that holds something comes up; else target.
static uint32_t next_stop(struct timer_wheel *w, uint32_t target)
{
    uint32_t stop = target;
    for (unsigned level = 0; level < TIMER_LEVELS; level++) {
        unsigned shift = SLOT_BITS * level;
        uint32_t first = (w->now >> shift) + 1;
        uint32_t blocks = (stop >> shift) - (w->now >> shift);
        for (uint32_t i = 0; i < MIN(blocks, TIMER_SLOTS); i++) {
            if (*head_of(w, level, (first + i) << shift)) {
                stop = (first + i) << shift;
                break;
            }
        }
    }
    return stop;
}

struct advance {
    unsigned done, budget;
    void (*expired)(void *arg, uint32_t item);
    void *arg;
};

// Hands the items of higher levels down whose slots come up at tick `stop`.
static bool cascade(struct timer_wheel *w, uint32_t stop, struct advance *a)
{
    w->now = stop - 1; // nothing was due up to here; if the budget ends, the next call comes back to `stop`
    for (unsigned level = TIMER_LEVELS - 1; level > 0; level--) {
        if (stop & ((1u << (SLOT_BITS * level)) - 1))
            continue;
        for (uint32_t *head = head_of(w, level, stop); *head; a->done++) {
            if (a->done == a->budget)
                return false;
            uint32_t item = *head;
            struct timer_link *l = w->link(w->ctx, item);
            unplace(w, l);
            place(w, item, l, stop);
        }
    }
    return true;
}

static bool expire(struct timer_wheel *w, uint32_t stop, struct advance *a)
{
    w->now = stop; // what a callback starts is due at the next tick at the earliest
    for (uint32_t *head = head_of(w, 0, stop); *head; a->done++) {
        if (a->done == a->budget) {
            w->now = stop - 1;
            return false;
        }
        uint32_t item = *head;
        unplace(w, w->link(w->ctx, item));
        w->armed--;
        a->expired(a->arg, item);
    }
    return true;
}

unsigned timer_wheel_advance(struct timer_wheel *w, uint64_t now_ms, unsigned budget,
                             void (*expired)(void *arg, uint32_t item), void *arg)
{
    struct advance a = {.budget = budget, .expired = expired, .arg = arg};
    uint32_t target = (uint32_t)(now_ms / TIMER_TICK_MS);
    while (w->armed && (int32_t)(target - w->now) > 0) {
        uint32_t stop = next_stop(w, target);
        if (!cascade(w, stop, &a) || !expire(w, stop, &a))
            return a.done;
    }
    if ((int32_t)(target - w->now) > 0)
        w->now = target;
    return a.done;
}
