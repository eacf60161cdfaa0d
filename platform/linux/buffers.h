// SPDX-License-Identifier: MPL-2.0
// buffers.h: packet buffers. Two classes: small ones for replies and single datagrams, large ones that hold any
// super-frame. Each worker has a cache of its own, last in first out, so that few buffers stay hot; caches exchange
// batches with a shared depot, which makes a free on another worker (or on a thread without a cache) safe.
#ifndef NEREUS_PLATFORM_LINUX_BUFFERS_H
#define NEREUS_PLATFORM_LINUX_BUFFERS_H

#include <pthread.h>

#include "engine/packet.h"

#define BUFFER_HEADROOM 256
#define BUFFER_SMALL 2304  // PACKET_MIN_ROOM, also after an outer header is pulled
#define BUFFER_LARGE 66048 // 65535 + Ethernet + VLAN, and room to round
#define BUFFER_BATCH 32

enum buffer_class { BUFFER_CLASS_SMALL, BUFFER_CLASS_LARGE, BUFFER_CLASSES };

struct buffer {
    struct packet packet; // first: a packet's address is its buffer's
    struct buffer *next;
    uint8_t class;
    _Alignas(CACHE_LINE) uint8_t bytes[]; // headroom, then the frame
};

struct buffer_cache {
    struct {
        struct buffer *top;
        unsigned n;
    } stack[BUFFER_CLASSES];
} CACHE_ALIGNED;

struct buffers {
    unsigned n_caches;
    struct buffer_cache *caches; // users 0 .. n_caches-1; any other user goes to the depot
    pthread_mutex_t lock;        // of the depot
    struct {
        struct buffer *top;
        uint8_t *region;
        size_t region_size;
    } depot[BUFFER_CLASSES];
};

bool buffers_init(struct buffers *pool, unsigned n_caches, unsigned n_small, unsigned n_large);
void buffers_destroy(struct buffers *pool);

// NULL when there is none. The packet is empty (len 0), room is the class's size.
struct packet *buffers_alloc(struct buffers *pool, unsigned user, enum buffer_class class);
void buffers_free(struct buffers *pool, unsigned user, struct packet *p);
// A copy of frame and metadata in a buffer of the smallest class that fits.
struct packet *buffers_clone(struct buffers *pool, unsigned user, const struct packet *p);

// The smallest class whose frame area holds len bytes and the room that the core asks for.
static inline enum buffer_class buffers_class(uint32_t len)
{
    return len <= PACKET_MIN_ROOM ? BUFFER_CLASS_SMALL : BUFFER_CLASS_LARGE;
}

#endif
