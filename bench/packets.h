// SPDX-License-Identifier: MPL-2.0
// packets.h: frames of a scene's flows in a ring of buffers larger than the L2 cache, and the descriptors a driver
// would have filled for them.
#ifndef NEREUS_BENCH_PACKETS_H
#define NEREUS_BENCH_PACKETS_H

#include "bench/scene.h"

#define RING_PACKETS 16384u
#define FRAME_LEN 64u // of the inner frame

struct ring {
    uint8_t *memory;
    uint32_t len; // of each frame
    bool verified;
};

void ring_init(struct ring *r);
void ring_fini(struct ring *r);
// Writes into place `at` the next packet of flow i: from the guest, or as it comes on the underlay.
void ring_put_out(struct ring *r, uint32_t at, const struct scene *s, uint32_t i);
void ring_put_in(struct ring *r, uint32_t at, const struct scene *s, uint32_t i);
// Descriptors for n frames from place `at` on.
void ring_describe(const struct ring *r, uint32_t at, struct packet *packets, unsigned n);

#endif
