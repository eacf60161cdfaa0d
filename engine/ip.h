// SPDX-License-Identifier: MPL-2.0
// ip.h: addresses. One 16-byte type serves both families: an IPv4 address is held as its
// v4-mapped form ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2), so that tables, keys and mappings need
// one code path. The parser refuses IPv6 packets that carry such an address, so the forms never meet.
#ifndef NEREUS_ENGINE_IP_H
#define NEREUS_ENGINE_IP_H

#include "engine/base.h"

struct ip_addr { // network byte order
    union {
        uint8_t b[16];
        uint32_t w[4];
        uint64_t d[2];
    };
};

struct mac_addr {
    uint8_t b[6];
};

struct ip_prefix {
    struct ip_addr addr; // host bits are zero
    uint8_t len;         // 0..128 over the 16-byte form; an IPv4 /24 is 120
};

static inline struct ip_addr ip_from_v4(const void *four_bytes)
{
    struct ip_addr a = {.b = {[10] = 0xff, [11] = 0xff}};
    __builtin_memcpy(a.b + 12, four_bytes, 4);
    return a;
}

static inline struct ip_addr ip_from_v6(const void *sixteen_bytes)
{
    struct ip_addr a;
    __builtin_memcpy(a.b, sixteen_bytes, 16);
    return a;
}

static inline bool ip_is_v4(const struct ip_addr *a)
{
    return a->d[0] == 0 && a->w[2] == __builtin_bswap32(0xffff);
}

static inline bool ip_equal(const struct ip_addr *a, const struct ip_addr *b)
{
    return a->d[0] == b->d[0] && a->d[1] == b->d[1];
}

static inline bool ip_is_unspecified(const struct ip_addr *a) // :: or 0.0.0.0
{
    return a->d[0] == 0 && (a->d[1] == 0 || (ip_is_v4(a) && a->w[3] == 0));
}

static inline bool ip_is_link_local(const struct ip_addr *a) // fe80::/10 or 169.254/16
{
    if (ip_is_v4(a))
        return a->b[12] == 169 && a->b[13] == 254;
    return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

static inline bool ip_is_multicast(const struct ip_addr *a) // ff00::/8 or 224/4
{
    return ip_is_v4(a) ? (a->b[12] & 0xf0) == 0xe0 : a->b[0] == 0xff;
}

static inline bool ip_is_v4_broadcast(const struct ip_addr *a)
{
    return ip_is_v4(a) && a->w[3] == 0xffffffff;
}

// The families never meet: ::/0 and other IPv6 prefixes hold no IPv4 address, though its mapped form lies within.
static inline bool ip_in_prefix(const struct ip_addr *a, const struct ip_prefix *p)
{
    if (p->len < 96 && ip_is_v4(a))
        return false;
    uint64_t high = p->len == 0 ? 0 : ~0ull << (64 - MIN(p->len, 64));
    uint64_t low = p->len <= 64 ? 0 : ~0ull << (128 - p->len);
    return ((load_be64(a->b) ^ load_be64(p->addr.b)) & high) == 0 &&
           ((load_be64(a->b + 8) ^ load_be64(p->addr.b + 8)) & low) == 0;
}

static inline bool mac_equal(const struct mac_addr *a, const struct mac_addr *b)
{
    return __builtin_memcmp(a->b, b->b, 6) == 0;
}

static inline bool mac_is_multicast(const struct mac_addr *a)
{
    return a->b[0] & 1;
}

#endif
