// SPDX-License-Identifier: MPL-2.0
// types.h: scalars that API documents are made of, as freestanding C.
#ifndef NEREUS_API_TYPES_TYPES_H
#define NEREUS_API_TYPES_TYPES_H

#include "engine/ip.h"

struct uuid {
    uint8_t b[16];
};

struct port_range { // inclusive, host order
    uint16_t first, last;
};

static inline bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return __builtin_memcmp(a->b, b->b, 16) == 0;
}

#define PROTOCOL_ANY 0xffff // else 0..255

#endif
