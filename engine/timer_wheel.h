// SPDX-License-Identifier: MPL-2.0
// timer_wheel.h: hierarchical timing wheel over items named by index (Varghese and Lauck, 1987).
// Start, stop and expiry are O(1). Timers may be late by one tick, never early. No pointers inside
// the items, so that they can live in memory that outlives the process.
#ifndef NEREUS_ENGINE_TIMER_WHEEL_H
#define NEREUS_ENGINE_TIMER_WHEEL_H

#include "engine/base.h"

#define TIMER_TICK_MS 250
#define TIMER_LEVELS 4
#define TIMER_SLOTS 64 // 64^4 ticks of 250 ms = 48 days

struct timer_link {      // one per item, in the caller's array; zero = not armed
    uint32_t next, prev; // item indexes; 0 = none
    uint32_t deadline;   // tick
    uint16_t slot;       // level * TIMER_SLOTS + slot + 1; 0 = not armed
    uint16_t zero;
};

struct timer_wheel {
    uint32_t now; // tick
    uint32_t armed;
    uint32_t heads[TIMER_LEVELS * TIMER_SLOTS];
    struct timer_link *(*link)(void *ctx, uint32_t item);
    void *ctx;
};

void timer_wheel_init(struct timer_wheel *w, uint64_t now_ms, struct timer_link *(*link)(void *, uint32_t), void *ctx);
void timer_wheel_start(struct timer_wheel *w, uint32_t item, uint64_t deadline_ms); // re-arms if armed
void timer_wheel_stop(struct timer_wheel *w, uint32_t item);
// Moves the wheel to now_ms and calls `expired` for due items, `budget` at most; the item is disarmed before the
// call and may be started again in it. Items handed down a level count against the budget too, so that the time
// of one call is bounded. Returns the items called or handed down; == budget means: call again.
// A jump of hours costs O(slots), not O(ticks). A clock that steps back changes nothing.
unsigned timer_wheel_advance(struct timer_wheel *w, uint64_t now_ms, unsigned budget,
                             void (*expired)(void *arg, uint32_t item), void *arg);

#endif
