// SPDX-License-Identifier: MPL-2.0
// sha256.h: SHA-256 (FIPS 180-4), for content hashes.
#ifndef NEREUS_API_JSON_SHA256_H
#define NEREUS_API_JSON_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t h[8];
    uint64_t length; // bytes so far
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_end(struct sha256 *s, uint8_t hash[32]);

#endif
