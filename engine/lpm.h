// SPDX-License-Identifier: MPL-2.0
// lpm.h: longest prefix match over 16-byte addresses (IPv4 as v4-mapped, lengths 96..128). Built whole
// at control time, immutable afterwards: replacing a table is replacing the pointer. The families never
// meet: an IPv6 prefix, ::/0 included, covers no IPv4 address (as ip_in_prefix says).
#ifndef NEREUS_ENGINE_LPM_H
#define NEREUS_ENGINE_LPM_H

#include "engine/env.h"
#include "engine/ip.h"

struct lpm_route {
    struct ip_prefix prefix;
    uint32_t value; // the caller's; not LPM_NONE
};
#define LPM_NONE 0xffffffffu

struct lpm;
// Duplicate prefixes: the first in the array wins. NULL: out of memory. n may be 0.
struct lpm *lpm_build(const struct env *env, const struct lpm_route *routes, uint32_t n);
void lpm_free(const struct env *env, struct lpm *t);
uint32_t lpm_lookup(const struct lpm *t, const struct ip_addr *addr); // LPM_NONE when nothing covers it
size_t lpm_bytes(const struct lpm *t);

#endif
