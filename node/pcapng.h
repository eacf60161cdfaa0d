// SPDX-License-Identifier: MPL-2.0
// pcapng.h: blocks of the pcapng format (draft-ietf-opsawg-pcapng), as they are written one after another.
// Little-endian; timestamps in nanoseconds since 1970.
#ifndef NEREUS_NODE_PCAPNG_H
#define NEREUS_NODE_PCAPNG_H

#include <stdint.h>

#include "node/blob.h"

enum pcapng_direction { PCAPNG_UNKNOWN, PCAPNG_INBOUND, PCAPNG_OUTBOUND }; // as the switch sees it

struct pcapng_frame {
    uint32_t interface; // the interface blocks of a section count from 0
    uint64_t time;      // ns, wall
    const uint8_t *data;
    uint32_t captured, length; // bytes at data; bytes the frame had
    enum pcapng_direction direction;
    uint64_t lost;       // frames lost since the last block, 0 = none: option epb_dropcount
    const char *comment; // NULL: none
};

void pcapng_section(struct blob *out, const char *application);
void pcapng_interface(struct blob *out, const char *name, uint32_t snap_len);
void pcapng_frame(struct blob *out, const struct pcapng_frame *f);

#endif
