// SPDX-License-Identifier: MPL-2.0
// checksum.h: the Internet checksum, whole and by differences (RFC 1071, RFC 1624 equation 3).
//
// A "delta" is a 16-bit ones'-complement sum of (~old + new) over changed 16-bit words, in network
// order as loaded from memory without swapping: sums are byte-order neutral (RFC 1071 section 2B).
#ifndef NEREUS_ENGINE_CHECKSUM_H
#define NEREUS_ENGINE_CHECKSUM_H

#include "engine/ip.h"

// Folds a sum to 16 bits.
static inline uint16_t checksum_fold(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

// Sum of n bytes added to `sum`, not inverted; an odd last byte is padded with zero.
uint64_t checksum_add(uint64_t sum, const void *bytes, size_t n);

// Un-inverted pseudo-header sum for an L4 packet of `length` bytes, both families.
uint64_t checksum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t protocol, uint32_t length);

// Delta for `n` bytes (even) that change from old to new.
uint16_t checksum_delta(const void *old_bytes, const void *new_bytes, size_t n);

static inline uint16_t checksum_delta_add(uint16_t a, uint16_t b)
{
    return checksum_fold((uint64_t)a + b);
}

// A complete (inverted) checksum field after `delta`: HC' = ~(~HC + delta).
static inline uint16_t checksum_adjust(uint16_t field, uint16_t delta)
{
    return (uint16_t)~checksum_fold((uint64_t)(uint16_t)~field + delta);
}

// Completes the L4 checksum of the packet described by offsets, in place, over bytes present at data.
// UDP's computed 0 is written as 0xffff (RFC 768). Used for locally made replies and by drivers that must
// resolve CSUM_PARTIAL in software.
void checksum_write_l4(uint8_t *l4, uint32_t l4_len, const struct ip_addr *src, const struct ip_addr *dst,
                       uint8_t protocol);
void checksum_write_ip4(uint8_t *ip_header); // length by IHL

#endif
