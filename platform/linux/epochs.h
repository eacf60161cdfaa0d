// SPDX-License-Identifier: MPL-2.0
// epochs.h: RCU by quiescent states. Each packet worker says once per loop that it holds no reference, and
// that it is offline while it sleeps; what was deferred before runs after every worker has said so.
#ifndef NEREUS_PLATFORM_LINUX_EPOCHS_H
#define NEREUS_PLATFORM_LINUX_EPOCHS_H

#include <pthread.h>

#include "engine/base.h"

#define EPOCHS_MAX_WORKERS 16

struct epochs_item {
    void (*fn)(void *arg, uint64_t value);
    void *arg;
    uint64_t value;
    uint64_t epoch;
};

struct epochs {
    struct {
        uint64_t seen; // last epoch this worker passed; 0 = offline
    } CACHE_ALIGNED workers[EPOCHS_MAX_WORKERS];
    uint64_t now CACHE_ALIGNED;
    pthread_mutex_t running; // held while callbacks run
    pthread_mutex_t lock;    // of the queue, a ring
    struct epochs_item *items;
    size_t first, count, capacity;
    uint64_t lost; // no memory to remember an item: leaked, never run
    int wake;      // eventfd written when the queue becomes non-empty
};

bool epochs_init(struct epochs *e, int wake);
void epochs_destroy(struct epochs *e); // runs what is left: no worker may be online

void epochs_online(struct epochs *e, unsigned worker);
void epochs_quiescent(struct epochs *e, unsigned worker);
void epochs_offline(struct epochs *e, unsigned worker);

void epochs_defer(struct epochs *e, void (*fn)(void *, uint64_t), void *arg, uint64_t value); // any thread
// Runs what may run, after whoever is at it has finished. True when nothing is left.
bool epochs_run(struct epochs *e);

#endif
