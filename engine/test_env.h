// SPDX-License-Identifier: MPL-2.0
// test_env.h: a struct env for unit tests: malloc, deferred calls run when the test says so, locks that
// check their own use, allocations that can be made to fail. Hosted code; for tests only.
#ifndef NEREUS_ENGINE_TEST_ENV_H
#define NEREUS_ENGINE_TEST_ENV_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/env.h"

struct test_env {
    struct env env;
    long fail_after; // allocations until one fails; -1 = never
    unsigned live;   // allocations not freed
    struct {
        char name[24];
        void *memory;
        size_t bytes;
    } zones[16]; // a kept zone survives test_env_restart
    struct {
        void (*fn)(void *, uint64_t);
        void *arg;
        uint64_t value;
    } deferred[65536];
    unsigned n_deferred;
    bool locked[ENV_LOCKS];
};

static inline bool test_env_fails(struct test_env *t)
{
    return t->fail_after >= 0 && t->fail_after-- == 0;
}

static inline void *test_env_alloc(void *ctx, size_t bytes)
{
    struct test_env *t = ctx;
    if (test_env_fails(t))
        return NULL;
    size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded ? rounded : 64);
    if (memory) {
        memset(memory, 0, rounded);
        t->live++;
    }
    return memory;
}

static inline void test_env_free(void *ctx, void *memory)
{
    struct test_env *t = ctx;
    if (memory)
        t->live--;
    free(memory);
}

static inline void *test_env_zone(void *ctx, const char *name, size_t bytes, bool keep, bool *kept)
{
    struct test_env *t = ctx;
    if (kept)
        *kept = false;
    if (test_env_fails(t))
        return NULL;
    for (unsigned i = 0; i < ARRAY_LEN(t->zones); i++) {
        if (t->zones[i].memory && strcmp(t->zones[i].name, name) == 0) {
            if (keep && t->zones[i].bytes == bytes) {
                if (kept)
                    *kept = true;
                return t->zones[i].memory;
            }
            free(t->zones[i].memory);
            t->zones[i].memory = NULL;
        }
        if (!t->zones[i].memory) {
            strncpy(t->zones[i].name, name, sizeof(t->zones[i].name) - 1);
            size_t rounded = (bytes + 63) / 64 * 64;
            t->zones[i].memory = aligned_alloc(64, rounded);
            t->zones[i].bytes = bytes;
            memset(t->zones[i].memory, 0, rounded);
            return t->zones[i].memory;
        }
    }
    return NULL;
}

static inline void test_env_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    struct test_env *t = ctx;
    assert(t->n_deferred < ARRAY_LEN(t->deferred));
    t->deferred[t->n_deferred].fn = fn;
    t->deferred[t->n_deferred].arg = arg;
    t->deferred[t->n_deferred++].value = value;
}

// All readers have passed a quiescent state: runs what was deferred.
static inline void test_env_quiesce(struct test_env *t)
{
    for (unsigned i = 0; i < t->n_deferred; i++)
        t->deferred[i].fn(t->deferred[i].arg, t->deferred[i].value);
    t->n_deferred = 0;
}

static inline void test_env_lock(void *ctx, unsigned lock)
{
    struct test_env *t = ctx;
    assert(lock < ENV_LOCKS && !t->locked[lock]);
    t->locked[lock] = true;
}

static inline void test_env_unlock(void *ctx, unsigned lock)
{
    struct test_env *t = ctx;
    assert(lock < ENV_LOCKS && t->locked[lock]);
    t->locked[lock] = false;
}

static inline struct test_env *test_env_create(void)
{
    struct test_env *t = calloc(1, sizeof(*t));
    t->fail_after = -1;
    t->env =
        (struct env){t, test_env_alloc, test_env_free, test_env_zone, test_env_defer, test_env_lock, test_env_unlock};
    return t;
}

static inline void test_env_destroy(struct test_env *t)
{
    test_env_quiesce(t);
    for (unsigned i = 0; i < ARRAY_LEN(t->zones); i++)
        free(t->zones[i].memory);
    free(t);
}

#endif
