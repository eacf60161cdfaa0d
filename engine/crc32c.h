// SPDX-License-Identifier: MPL-2.0
// crc32c.h: SCTP's checksum (RFC 9260 appendix A) by difference. A CRC is linear: what a change near the front does to
// it depends on the change and on how many bytes follow, not on those bytes.
#ifndef NEREUS_ENGINE_CRC32C_H
#define NEREUS_ENGINE_CRC32C_H

#include "engine/base.h"

// What to exclusive-or to the CRC of a message when four of its bytes change by `xored` (old ^ new) and `behind` bytes
// follow them.
uint32_t crc32c_change(const uint8_t xored[4], uint32_t behind);

#endif
