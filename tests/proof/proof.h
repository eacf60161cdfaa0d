// SPDX-License-Identifier: MPL-2.0
// proof.h: what the exhaustive checks share: a named claim per line, and a count that ./run reads.
#ifndef NEREUS_TESTS_PROOF_PROOF_H
#define NEREUS_TESTS_PROOF_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned proof_passed, proof_failed;

static inline double proof_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Runs `claim`, which says whether it holds for every case that it names.
static inline void proof(const char *text, bool (*claim)(void))
{
    double start = proof_now();
    bool holds = claim();
    printf("%s  %-78s %6.1f s\n", holds ? "ok  " : "FAIL", text, proof_now() - start);
    fflush(stdout);
    holds ? proof_passed++ : proof_failed++;
}

static inline int proof_end(void)
{
    printf("%u passed, %u failed\n", proof_passed, proof_failed);
    return proof_failed != 0;
}

static inline uint64_t proof_random(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

#endif
