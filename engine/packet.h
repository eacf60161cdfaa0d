// SPDX-License-Identifier: MPL-2.0
// packet.h: a view on one frame. The driver owns the buffer and the struct; the engine moves `data`
// inside it and reads and writes headers only.
//
// Guarantees of the driver: `head` >= MIN(len, 256) bytes are contiguous at data; `headroom` >= 128
// writable bytes before data when the packet enters the engine; `room` (contiguous writable bytes at
// data, room >= head) >= 2048, so that a reply can be built in place. Bytes behind `head` are payload
// that the engine never touches.
#ifndef NEREUS_ENGINE_PACKET_H
#define NEREUS_ENGINE_PACKET_H

#include "engine/base.h"

// State of the innermost transport checksum.
enum csum_mode {
    CSUM_FULL = 0, // the field holds a complete checksum, right or wrong; pass it on, adjust it by deltas
    CSUM_PARTIAL,  // the field holds the un-inverted pseudo-header sum; csum_start/csum_offset say where.
                   // An address change adds its delta to the field; a port change must not touch it
    CSUM_VERIFIED, // complete, and known to be right
};

enum gso_type { GSO_NONE = 0, GSO_TCP4, GSO_TCP6, GSO_UDP };

#define PACKET_HEADROOM 128
#define PACKET_MIN_ROOM 2048

struct packet {
    uint8_t *data;     // first byte of the frame (Ethernet destination)
    uint32_t len;      // bytes in the frame, all parts
    uint32_t head;     // contiguous bytes at data
    uint32_t room;     // contiguous writable bytes at data, used or not
    uint32_t headroom; // writable bytes before data

    uint8_t csum;         // enum csum_mode
    uint8_t gso_type;     // enum gso_type; not NONE: one super-frame of many segments
    uint16_t gso_size;    // payload bytes per segment
    uint16_t csum_start;  // CSUM_PARTIAL: from data
    uint16_t csum_offset; // from csum_start
    uint16_t encap_len;   // outer bytes in front of the inner frame, 0 if none; csum_* and gso_* describe the inner one
    uint16_t vlan;        // driver's choice, e.g. an accelerated tag; 0 = none
    uint32_t hash;        // flow hash for queue choice by the driver, 0 = not known

    void *driver; // the driver's own; the engine does not look
};

// Grows the frame at the front by n bytes (n <= headroom is the caller's duty) or shrinks it (n <= head).
static inline void packet_push(struct packet *p, uint32_t n)
{
    p->data -= n;
    p->len += n;
    p->head += n;
    p->room += n;
    p->headroom -= n;
    if (p->csum == CSUM_PARTIAL)
        p->csum_start = (uint16_t)(p->csum_start + n);
}

static inline void packet_pull(struct packet *p, uint32_t n)
{
    p->data += n;
    p->len -= n;
    p->head -= n;
    p->room -= n;
    p->headroom += n;
    if (p->csum == CSUM_PARTIAL)
        p->csum_start = (uint16_t)(p->csum_start - n);
}

// Declares the buffer's first n bytes the whole frame (n <= room), with plain full checksums.
static inline void packet_set_reply(struct packet *p, uint32_t n)
{
    p->len = p->head = n;
    p->csum = CSUM_FULL;
    p->gso_type = GSO_NONE;
    p->gso_size = 0;
    p->encap_len = 0;
}

#endif
