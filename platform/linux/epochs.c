// SPDX-License-Identifier: MPL-2.0
// Order: a worker going online stores `seen`, then reads `now` again; a writer unlinks, raises `now`, then reads
// `seen`. All four are sequentially consistent, so either the worker sees the new epoch (and with it the
// unlinked state) or the writer sees the worker.
#include "platform/linux/epochs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_CAPACITY 4096
#define RUN_BATCH 256

bool epochs_init(struct epochs *e, int wake)
{
    memset(e, 0, sizeof(*e));
    e->now = 1;
    e->wake = wake;
    e->capacity = FIRST_CAPACITY;
    e->items = malloc(sizeof(*e->items) * e->capacity);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->running, NULL);
    return e->items != NULL;
}

void epochs_destroy(struct epochs *e)
{
    if (e->items)
        while (!epochs_run(e))
            ;
    free(e->items);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->running);
}

void epochs_online(struct epochs *e, unsigned worker)
{
    uint64_t now = __atomic_load_n(&e->now, __ATOMIC_SEQ_CST), again;
    for (;; now = again) {
        __atomic_store_n(&e->workers[worker].seen, now, __ATOMIC_SEQ_CST);
        again = __atomic_load_n(&e->now, __ATOMIC_SEQ_CST);
        if (again == now)
            return;
    }
}

void epochs_quiescent(struct epochs *e, unsigned worker)
{
    uint64_t now = __atomic_load_n(&e->now, __ATOMIC_ACQUIRE);
    __atomic_store_n(&e->workers[worker].seen, now, __ATOMIC_RELEASE);
}

void epochs_offline(struct epochs *e, unsigned worker)
{
    __atomic_store_n(&e->workers[worker].seen, 0, __ATOMIC_RELEASE);
}

static bool grow(struct epochs *e)
{
    struct epochs_item *items = malloc(sizeof(*items) * e->capacity * 2);
    if (!items)
        return false;
    for (size_t i = 0; i < e->count; i++)
        items[i] = e->items[(e->first + i) % e->capacity];
    free(e->items);
    e->items = items;
    e->first = 0;
    e->capacity *= 2;
    return true;
}

void epochs_defer(struct epochs *e, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    pthread_mutex_lock(&e->lock);
    bool was_empty = e->count == 0;
    if (e->count < e->capacity || grow(e)) {
        // Raised under the lock: the queue is sorted by epoch.
        uint64_t epoch = __atomic_add_fetch(&e->now, 1, __ATOMIC_SEQ_CST);
        e->items[(e->first + e->count++) % e->capacity] = (struct epochs_item){fn, arg, value, epoch};
    } else {
        e->lost++;
    }
    pthread_mutex_unlock(&e->lock);
    if (was_empty && e->wake >= 0) {
        uint64_t one = 1;
        ssize_t ignored = write(e->wake, &one, sizeof(one));
        (void)ignored; // a full counter wakes as well
    }
}

static uint64_t oldest_seen(struct epochs *e)
{
    // Never beyond the epoch of this moment: a worker may come online, and an item be queued, after the loop.
    uint64_t oldest = __atomic_load_n(&e->now, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < EPOCHS_MAX_WORKERS; i++) {
        uint64_t seen = __atomic_load_n(&e->workers[i].seen, __ATOMIC_SEQ_CST);
        if (seen && seen < oldest)
            oldest = seen;
    }
    return oldest;
}

static bool run_due(struct epochs *e)
{
    struct epochs_item batch[RUN_BATCH];
    for (;;) {
        uint64_t oldest = oldest_seen(e);
        unsigned n = 0;
        pthread_mutex_lock(&e->lock);
        while (n < RUN_BATCH && e->count && e->items[e->first].epoch <= oldest) {
            batch[n++] = e->items[e->first];
            e->first = (e->first + 1) % e->capacity;
            e->count--;
        }
        bool empty = e->count == 0;
        pthread_mutex_unlock(&e->lock);
        for (unsigned i = 0; i < n; i++)
            batch[i].fn(batch[i].arg, batch[i].value);
        if (n < RUN_BATCH)
            return empty;
    }
}

bool epochs_run(struct epochs *e)
{
    pthread_mutex_lock(&e->running); // who comes second finds what the first took done
    bool empty = run_due(e);
    pthread_mutex_unlock(&e->running);
    return empty;
}
