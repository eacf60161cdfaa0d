// SPDX-License-Identifier: MPL-2.0
// rate.h: a rate limit in one 64-bit word, for any number of workers, without a lock.
//
// The bucket has a clock of its own that counts units (bits, packets) instead of time: how many have come free since
// the beginning, floor(now * per_s / 10^9), computed anew each time, so that nothing is ever lost to rounding. The word
// says up to which unit they are used. What is used ahead of the clock may be at most `burst`; what was not used in
// time is gone. All of it is modulo 2^64: a lead that no bucket can have is a bucket that was idle, or whose rate has
// changed.
#ifndef NEREUS_ENGINE_RATE_H
#define NEREUS_ENGINE_RATE_H

#include "engine/atomic.h"
#include "engine/base.h"

#define RATE_MAX 1000000000000ull // units per second
#define RATE_TRIES 8u
#define RATE_LEAD_MAX 8u // bursts: workers' clocks may differ by this, less one

static inline uint64_t rate_clock(uint64_t per_s, uint64_t now)
{
    const uint64_t second = 1000000000;
    uint64_t s = now / second, ns = now % second;
    return s * per_s + per_s / second * ns + per_s % second * ns / second;
}

// Takes `cost` units if the burst allows. per_s is 1..RATE_MAX, burst at least the greatest cost, at most RATE_MAX.
static inline bool rate_take(uint64_t *used, uint64_t per_s, uint64_t burst, uint64_t cost, uint64_t now)
{
    uint64_t clock = rate_clock(per_s, now), was = load_relaxed(used);
    for (unsigned i = 0; i < RATE_TRIES; i++) {
        uint64_t lead = was - clock;
        if (lead > RATE_LEAD_MAX * burst) // behind the clock: a difference below 0 is a great one
            lead = 0;
        if (lead + cost > burst)
            return false;
        if (__atomic_compare_exchange_n(used, &was, clock + lead + cost, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    }
    fetch_add_relaxed(used, cost); // others were faster each time: on credit, so that nobody waits
    return true;
}

static inline void rate_give_back(uint64_t *used, uint64_t cost)
{
    fetch_add_relaxed(used, 0 - cost);
}

#endif
