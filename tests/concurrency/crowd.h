// SPDX-License-Identifier: MPL-2.0
// crowd.h: a platform for several threads on one node: packet workers, the control thread, and a janitor who runs
// deferred calls. It records no calls, it counts them: by worker, so that it hides no race of the node's own.
//
// Every thread says who it is (crowd_self). Packets are counted by who took and who ended them; at the end the sums
// must agree. Locks, allocations and deferrals are counted too: that is the hook which shows what a hit costs.
#ifndef NEREUS_TESTS_CONCURRENCY_CROWD_H
#define NEREUS_TESTS_CONCURRENCY_CROWD_H

#include <pthread.h>

#include "platform/linux/epochs.h"
#include "tests/behaviour/outside.h"

#define CROWD_MAX 16       // workers
#define CROWD_CONTROL (-1) // crowd_self of the thread that also made the crowd
#define CROWD_JANITOR (-2)
#define CROWD_TUNNELS 64

extern _Thread_local int crowd_self;

struct CACHE_ALIGNED crowd_worker { // written by its worker only
    uint64_t locks, defers, allocations;
    uint64_t taken, ended; // packets
    uint64_t delivered, underlay, external, service;
    uint64_t to_tunnel[CROWD_TUNNELS];
    struct crowd_buffer *spare;
    uint64_t random;
};

struct crowd {
    struct platform platform;
    struct fake lab; // only node and time are set: the lab's words for documents and counters read those
    struct epochs epochs;
    pthread_mutex_t locks[ENV_LOCKS];
    struct crowd_worker workers[CROWD_MAX], control;
    // Sees what goes to the underlay, on the worker's thread; or NULL.
    void (*watch)(struct crowd *c, unsigned worker, uint32_t tunnel, const struct packet *p);
    void *watcher;              // watch's own
    uint64_t control_on_worker; // calls that belong to the control thread, made by a packet worker
    struct crowd_zone *zones;
    pthread_t janitor;
    bool stop;
};

struct crowd *crowd_create(const struct node_config *config);
void crowd_destroy(struct crowd *c); // workers have ended; checks packets and who called what
// A worker's packet holding a copy of the frame.
struct packet *crowd_packet(struct crowd *c, unsigned worker, const void *frame, uint32_t len);
// The caller speaks as this worker for the time of one batch; afterwards it is quiescent, and control again.
enum crowd_side { CROWD_GUEST, CROWD_UNDERLAY, CROWD_OUTSIDE };
void crowd_receive(struct crowd *c, unsigned worker, enum crowd_side side, uint32_t port, struct packet **packets,
                   unsigned n);
struct crowd_worker crowd_sum(const struct crowd *c);
uint64_t crowd_random(uint64_t *state);
uint64_t crowd_clock(void); // real time, ns

#endif
