// SPDX-License-Identifier: MPL-2.0
// random.h: splitmix64, the same numbers in every run.
#ifndef NEREUS_BENCH_RANDOM_H
#define NEREUS_BENCH_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((random_next(state) >> 32) * n) >> 32);
}

#endif
