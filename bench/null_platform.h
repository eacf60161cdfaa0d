// SPDX-License-Identifier: MPL-2.0
// null_platform.h: a platform that costs next to nothing, so that what is measured is the node. Packets belong to the
// bench, which uses them again; locks are real but never contended; deferred calls run when told.
#ifndef NEREUS_BENCH_NULL_PLATFORM_H
#define NEREUS_BENCH_NULL_PLATFORM_H

#include "core/node.h"

struct deferral {
    void (*fn)(void *arg, uint64_t value);
    void *arg;
    uint64_t value;
};

struct null_platform {
    struct platform platform;
    size_t bytes; // of memory handed out
    uint64_t transmitted, delivered, freed;
    uint64_t random_state;
    struct deferral *deferred;
    size_t n_deferred, deferred_capacity;
    struct zone *zones;
    uint8_t locks[ENV_LOCKS];
    struct packet *spare; // for what the node sends of itself
};

void null_platform_init(struct null_platform *np);
void null_platform_fini(struct null_platform *np); // after node_destroy
// All workers were quiescent: runs what was deferred.
void null_platform_quiesce(struct null_platform *np);

#endif
