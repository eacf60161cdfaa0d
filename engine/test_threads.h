// SPDX-License-Identifier: MPL-2.0
// test_threads.h: a struct env for tests with threads: mutexes, and grace periods counted by epochs in atomics that
// ThreadSanitizer understands. Hosted code; for tests only.
#ifndef NEREUS_ENGINE_TEST_THREADS_H
#define NEREUS_ENGINE_TEST_THREADS_H

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/env.h"

#define THREADS_MAX 8
#define THREADS_OFFLINE UINT64_MAX

struct deferred_call {
    struct deferred_call *next;
    void (*fn)(void *, uint64_t);
    void *arg;
    uint64_t value, epoch;
};

struct threads {
    struct env env;
    pthread_mutex_t locks[ENV_LOCKS];
    pthread_mutex_t defer_lock;
    struct deferred_call *first, **last;
    uint64_t epoch;             // of the newest deferred call
    uint64_t seen[THREADS_MAX]; // per thread: no reference older than this epoch is held
    uint64_t ran;               // deferred calls that ran
    void *zones[16];
    unsigned n_zones;
};

static inline void *threads_alloc(void *ctx, size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return memory ? memset(memory, 0, bytes) : NULL;
}

static inline void threads_free(void *ctx, void *memory)
{
    free(memory);
}

static inline void *threads_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    struct threads *t = ctx;
    if (kept)
        *kept = false;
    assert(t->n_zones < ARRAY_LEN(t->zones));
    return t->zones[t->n_zones++] = threads_alloc(ctx, bytes);
}

static inline void threads_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    struct threads *t = ctx;
    struct deferred_call *call = malloc(sizeof(*call));
    *call = (struct deferred_call){.fn = fn, .arg = arg, .value = value};
    pthread_mutex_lock(&t->defer_lock);
    call->epoch = __atomic_add_fetch(&t->epoch, 1, __ATOMIC_ACQ_REL);
    *t->last = call;
    t->last = &call->next;
    pthread_mutex_unlock(&t->defer_lock);
}

// The caller holds no references and no lock. Also runs what is due.
static inline void threads_quiesce(struct threads *t, unsigned thread)
{
    __atomic_store_n(&t->seen[thread], __atomic_load_n(&t->epoch, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    pthread_mutex_lock(&t->defer_lock);
    uint64_t safe = THREADS_OFFLINE;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        uint64_t seen = __atomic_load_n(&t->seen[i], __ATOMIC_ACQUIRE); // once: MIN would load it twice
        safe = MIN(safe, seen);
    }
    struct deferred_call *due = NULL, **end = &due;
    while (t->first && t->first->epoch <= safe) {
        *end = t->first;
        end = &t->first->next;
        t->first = t->first->next;
    }
    *end = NULL;
    if (!t->first)
        t->last = &t->first;
    pthread_mutex_unlock(&t->defer_lock);
    while (due) {
        struct deferred_call *call = due;
        due = call->next;
        call->fn(call->arg, call->value);
        free(call);
        __atomic_fetch_add(&t->ran, 1, __ATOMIC_RELAXED);
    }
}

static inline void threads_offline(struct threads *t, unsigned thread)
{
    __atomic_store_n(&t->seen[thread], THREADS_OFFLINE, __ATOMIC_RELEASE);
}

static inline void threads_lock(void *ctx, unsigned lock)
{
    pthread_mutex_lock(&((struct threads *)ctx)->locks[lock]);
}

static inline void threads_unlock(void *ctx, unsigned lock)
{
    pthread_mutex_unlock(&((struct threads *)ctx)->locks[lock]);
}

static inline struct threads *threads_create(unsigned n) // threads 0..n-1 are online from the start
{
    struct threads *t = calloc(1, sizeof(*t));
    t->env = (struct env){t, threads_alloc, threads_free, threads_zone, threads_defer, threads_lock, threads_unlock};
    for (unsigned i = 0; i < ENV_LOCKS; i++)
        pthread_mutex_init(&t->locks[i], NULL);
    pthread_mutex_init(&t->defer_lock, NULL);
    t->last = &t->first;
    for (unsigned i = n; i < THREADS_MAX; i++)
        t->seen[i] = THREADS_OFFLINE;
    return t;
}

static inline void threads_destroy(struct threads *t)
{
    while (t->n_zones)
        free(t->zones[--t->n_zones]);
    free(t);
}

static inline uint32_t threads_random(uint64_t *state) // xorshift: one per thread
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 16);
}

#endif
