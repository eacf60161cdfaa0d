// SPDX-License-Identifier: MPL-2.0
// neighbours.h: next hops of the underlay. A tunnel's node address leads by the kernel's routes to a next hop, and the
// kernel's neighbour table to its MAC. AF_PACKET does not keep kernel neighbours fresh, so we ask it to (NTF_USE).
//
// Workers read one word per tunnel. The monitor thread does everything else: lookups, refresh, sending what waited.
#ifndef NEREUS_PLATFORM_LINUX_NEIGHBOURS_H
#define NEREUS_PLATFORM_LINUX_NEIGHBOURS_H

#include <pthread.h>

#include "engine/packet.h"
#include "platform/linux/netlink.h"

#define NEIGHBOURS_WAITING 16       // packets per tunnel; the oldest is dropped
#define NEIGHBOURS_WAITING_ALL 1024 // packets in all
#define NEIGHBOURS_CHUNK 256
#define NEIGHBOURS_CHUNKS 4096

enum hop_state { HOP_CLOSED = 0, HOP_PENDING, HOP_READY, HOP_FAILED };

struct tunnel {
    uint64_t hop;   // atomic: enum hop_state << 48 | MAC
    uint8_t used;   // atomic: packets go there since the last refresh
    uint8_t lookup; // atomic: the monitor should look again
    // Under the lock:
    struct ip_addr node, next_hop;
    unsigned n_waiting;
    struct packet *waiting[NEIGHBOURS_WAITING];
    // Monitor only:
    uint64_t looked_at; // ns
};

struct neighbours {
    struct tunnel *chunks[NEIGHBOURS_CHUNKS]; // atomic pointers; chunks stay
    uint32_t end;                             // atomic: one behind the highest tunnel ever opened
    pthread_mutex_t lock;
    unsigned n_waiting;
    uint64_t dropped_pending, dropped_failed; // atomic
    uint8_t lookup_all;                       // atomic: routes changed
    struct netlink netlink;                   // monitor's
};

static inline enum hop_state hop_state(uint64_t hop)
{
    return (enum hop_state)(hop >> 48);
}

struct linux_platform;
bool neighbours_init(struct neighbours *n);
void neighbours_destroy(struct linux_platform *l);

void neighbours_open(void *ctx, uint32_t tunnel, const struct ip_addr *node); // [control]
void neighbours_close(void *ctx, uint32_t tunnel);                            // [control]

// The tunnel's hop at this moment; HOP_FAILED also provokes another try, at most each second.
uint64_t neighbours_hop(struct linux_platform *l, uint32_t tunnel);
// Lets packets wait (takes them). False when the hop is no longer pending: look again.
bool neighbours_wait(struct linux_platform *l, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n);

// Monitor: a netlink notice; and the work that is due.
void neighbours_notice(struct linux_platform *l, const struct nlmsghdr *h);
void neighbours_work(struct linux_platform *l, uint64_t now);

#endif
