// SPDX-License-Identifier: MPL-2.0
// Readers against writers, meant for ThreadSanitizer (and true without). Keys crowd into three buckets, so that every
// chain has overflow lines that come and go.
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/flow_key.h"
#include "engine/flow_table.h"
#include "engine/test_threads.h"

enum { STAY = 40, REPLACED = 40, COME_AND_GO = 120, KEYS = STAY + REPLACED + COME_AND_GO };
enum { WRITERS = 2, READERS = 2, ROUNDS = 40000, CAPACITY = 2000 };

struct shared {
    struct threads *threads;
    struct flow_table *t;
    unsigned writers_left;
    unsigned missed, foreign, torn, backward, hits;
};

struct worker {
    struct shared *s;
    unsigned number;
};

static struct flow_key key_of(uint32_t n)
{
    struct flow_key k = {.port = n, .ip_version = 6};
    memset(k.src.b, (uint8_t)n, 16);
    memset(k.dst.b, (uint8_t)(n >> 3), 16);
    return k;
}

static uint64_t hash_of(uint32_t n)
{
    return n % 3 * 0x55550000u + n % 16; // tags collide too
}

static uint32_t new_entry(struct flow_table *t, uint32_t n, uint32_t version)
{
    uint32_t index = flow_table_entry_alloc(t);
    if (!index)
        return 0;
    struct flow_key k = key_of(n);
    struct flow_entry *e = flow_table_entry(t, index);
    memcpy(e->key, &k, sizeof(k));
    e->owner = n + 1;
    e->xp.dest = version;
    e->xp.vni = ~version;
    return index;
}

static void *reader(void *arg)
{
    struct worker *w = arg;
    struct shared *s = w->s;
    uint32_t version[KEYS] = {0};
    uint64_t seed = 77 + w->number;
    unsigned hits = 0;
    do { // once at least: on a busy machine the writers may be done before this thread first runs
        for (unsigned burst = 0; burst < 32; burst++) {
            uint32_t n = threads_random(&seed) % KEYS;
            struct flow_key k = key_of(n);
            flow_table_prefetch_entry(s->t, hash_of(n));
            uint32_t index = flow_table_lookup(s->t, &k, hash_of(n));
            if (!index) {
                if (n < STAY + REPLACED)
                    fetch_add_relaxed(&s->missed, 1);
                continue;
            }
            hits++;
            const struct flow_entry *e = flow_table_entry(s->t, index);
            fetch_add_relaxed(&flow_table_hot(s->t, index)->packets, 1);
            if (e->owner != n + 1)
                fetch_add_relaxed(&s->foreign, 1);
            if (e->xp.vni != ~e->xp.dest)
                fetch_add_relaxed(&s->torn, 1);
            if (n < STAY + REPLACED && e->xp.dest < version[n])
                fetch_add_relaxed(&s->backward, 1);
            version[n] = e->xp.dest;
        }
        threads_quiesce(s->threads, w->number);
    } while (load_acquire(&s->writers_left));
    threads_offline(s->threads, w->number);
    fetch_add_relaxed(&s->hits, hits);
    return NULL;
}

static void *writer(void *arg)
{
    struct worker *w = arg;
    struct shared *s = w->s;
    uint32_t at[KEYS] = {0}, version = 1;
    uint64_t seed = 5 + w->number;
    for (uint32_t n = w->number; n < KEYS; n += WRITERS) {
        struct flow_key k = key_of(n);
        at[n] = flow_table_lookup(s->t, &k, hash_of(n));
    }
    for (unsigned done = 0; done < ROUNDS;) {
        // Each writer has keys of its own (as a port's lock orders them); buckets are shared.
        uint32_t n = STAY + threads_random(&seed) % ((KEYS - STAY) / WRITERS) * WRITERS + w->number;
        if (at[n] && n >= STAY + REPLACED) {
            flow_table_remove(s->t, at[n]);
            at[n] = 0;
        } else {
            uint32_t index = new_entry(s->t, n, ++version);
            if (index && at[n]) {
                flow_table_replace(s->t, at[n], index, hash_of(n));
                at[n] = index;
            } else if (index && flow_table_insert(s->t, index, hash_of(n))) {
                at[n] = index;
            } else {
                if (index)
                    flow_table_entry_discard(s->t, index);
                threads_quiesce(s->threads, w->number);
                sched_yield(); // everything waits for the readers
                continue;
            }
        }
        if (++done % 16 == 0)
            threads_quiesce(s->threads, w->number);
    }
    for (uint32_t n = STAY + REPLACED; n < KEYS; n++) {
        if (at[n])
            flow_table_remove(s->t, at[n]);
    }
    threads_offline(s->threads, w->number);
    __atomic_fetch_sub(&s->writers_left, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_readers_and_writers(void **state)
{
    struct shared s = {.threads = threads_create(WRITERS + READERS), .writers_left = WRITERS};
    bool kept;
    s.t = flow_table_create(&s.threads->env, CAPACITY, false, &kept);
    assert_non_null(s.t);
    for (uint32_t n = KEYS; n-- > 0;) // what stays stands at the end of the chains, behind lines that will empty
        assert_true(flow_table_insert(s.t, new_entry(s.t, n, 1), hash_of(n)));

    pthread_t thread[WRITERS + READERS];
    struct worker worker[WRITERS + READERS];
    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        worker[i] = (struct worker){&s, i};
        pthread_create(&thread[i], NULL, i < WRITERS ? writer : reader, &worker[i]);
    }
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        pthread_join(thread[i], NULL);

    assert_int_equal(s.missed, 0);
    assert_int_equal(s.foreign, 0);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.backward, 0);
    assert_true(s.hits > 0);
    assert_int_equal(flow_table_count(s.t), STAY + REPLACED);
    threads_quiesce(s.threads, THREADS_MAX - 1);
    threads_offline(s.threads, THREADS_MAX - 1);
    threads_quiesce(s.threads, THREADS_MAX - 1);
    assert_true(s.threads->ran > 0);
    uint32_t free_entries = 0;
    while (flow_table_entry_alloc(s.t))
        free_entries++;
    assert_int_equal(free_entries, CAPACITY - STAY - REPLACED);
    flow_table_destroy(s.t);
    threads_destroy(s.threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T86 readers never miss what stays, nor see what was freed, while writers work",
         .test_func = test_readers_and_writers},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
