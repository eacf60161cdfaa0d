// SPDX-License-Identifier: MPL-2.0
#include "engine/checksum.h"

#include "engine/parse.h"

// One's-complement addition of 64-bit words: the carry comes back in at the low end. 2^16 - 1 divides 2^64 - 1, so
// the result folds to the same 16 bits as a sum of 16-bit words.
static inline uint64_t add_carry(uint64_t sum, uint64_t word)
{
    sum += word;
    return sum + (sum < word);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    return v;
}

uint64_t checksum_add(uint64_t sum, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    uint64_t other = 0; // a second chain, so that additions overlap
    for (; n >= 32; n -= 32, p += 32) {
        sum = add_carry(sum, load64(p));
        other = add_carry(other, load64(p + 8));
        sum = add_carry(sum, load64(p + 16));
        other = add_carry(other, load64(p + 24));
    }
    for (; n >= 8; n -= 8, p += 8)
        sum = add_carry(sum, load64(p));
    uint64_t tail = 0;
    for (size_t i = 0; i < n; i++)
        tail |= (uint64_t)p[i] << (8 * i);
    sum = add_carry(add_carry(sum, other), tail);
    return (sum & 0xffffffff) + (sum >> 32); // 33 bits: callers may add many of these
}

uint64_t checksum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t protocol, uint32_t length)
{
    uint64_t sum = (uint64_t)protocol << 8; // the word {0, protocol} as loaded
    sum += __builtin_bswap32(length);
    if (ip_is_v4(src) && ip_is_v4(dst))
        return sum + src->w[3] + dst->w[3];
    return checksum_add(checksum_add(sum, src->b, 16), dst->b, 16);
}

uint16_t checksum_delta(const void *old_bytes, const void *new_bytes, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 2 <= n; i += 2) {
        uint16_t before, after;
        __builtin_memcpy(&before, (const uint8_t *)old_bytes + i, 2);
        __builtin_memcpy(&after, (const uint8_t *)new_bytes + i, 2);
        sum += (uint16_t)~before;
        sum += after;
    }
    return checksum_fold(sum);
}

void checksum_write_l4(uint8_t *l4, uint32_t l4_len, const struct ip_addr *src, const struct ip_addr *dst,
                       uint8_t protocol)
{
    uint32_t at;
    if (protocol == IPPROTO_TCP4)
        at = 16;
    else if (protocol == IPPROTO_UDP4)
        at = 6;
    else if (protocol == IPPROTO_ICMP4 || protocol == IPPROTO_ICMP6)
        at = 2;
    else
        return; // no Internet checksum
    if (l4_len < at + 2)
        return;
    __builtin_memset(l4 + at, 0, 2);
    uint64_t sum = protocol == IPPROTO_ICMP4 ? 0 : checksum_pseudo(src, dst, protocol, l4_len);
    uint16_t field = (uint16_t)~checksum_fold(checksum_add(sum, l4, l4_len));
    if (field == 0 && protocol == IPPROTO_UDP4)
        field = 0xffff;
    __builtin_memcpy(l4 + at, &field, 2);
}

void checksum_write_ip4(uint8_t *ip_header)
{
    __builtin_memset(ip_header + 10, 0, 2);
    uint16_t field = (uint16_t)~checksum_fold(checksum_add(0, ip_header, (size_t)(ip_header[0] & 15) * 4));
    __builtin_memcpy(ip_header + 10, &field, 2);
}
