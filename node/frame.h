// SPDX-License-Identifier: MPL-2.0
// frame.h: the frame that a trace request describes in words, with the addresses and checksums a real one would have.
#ifndef NEREUS_NODE_FRAME_H
#define NEREUS_NODE_FRAME_H

#include "api/types/blueprint.h"
#include "api/types/trace.h"

#define FRAME_MAX 9216

// Writes the frame for packet `t` that enters port `b` in direction `out` (from the guest) or not. Returns its length,
// 0 when it cannot be: *why says so.
uint32_t frame_make(const struct blueprint *b, const struct trace_packet *t, bool out, uint8_t frame[FRAME_MAX],
                    const char **why);

#endif
