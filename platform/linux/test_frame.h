// SPDX-License-Identifier: MPL-2.0
// test_frame.h: makes TCP and UDP frames, plain or in Geneve, for the driver's unit tests.
#ifndef NEREUS_PLATFORM_LINUX_TEST_FRAME_H
#define NEREUS_PLATFORM_LINUX_TEST_FRAME_H

#include <string.h>

#include "engine/checksum.h"
#include "engine/geneve.h"
#include "engine/parse.h"
#include "platform/linux/underlay_gso.h"

enum { PSH = TCP_PSH, CWR = 0x80 };

struct shape { // of a test's TCP or UDP frame
    bool v6, udp;
    uint8_t flags;
    uint8_t options; // bytes of TCP options
    uint32_t seq, payload;
    uint16_t id;
};

// Deterministic bytes; distinct at each position of the stream.
static inline uint8_t stream_byte(uint32_t at)
{
    return (uint8_t)(at * 2654435761u >> 13);
}

static inline uint32_t l4_header(const struct shape *s)
{
    return s->udp ? 8 : 20u + s->options;
}

// Writes an Ethernet frame with complete checksums; returns its length.
static inline uint32_t put_frame(uint8_t *f, const struct shape *s)
{
    uint32_t ip_header = s->v6 ? 40 : 20, l4_len = l4_header(s) + s->payload;
    static const uint8_t macs[12] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    memcpy(f, macs, 12);
    store_be16(f + 12, s->v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
    uint8_t *ip = f + 14, *l4 = ip + ip_header;
    memset(ip, 0, ip_header + l4_header(s));
    struct ip_addr src, dst;
    if (s->v6) {
        store_be32(ip, 6u << 28 | 2u << 20 | 0x777);
        store_be16(ip + 4, (uint16_t)l4_len);
        ip[6] = s->udp ? 17 : 6;
        ip[7] = 64;
        ip[8] = ip[24] = 0xfd;
        ip[23] = 1;
        ip[39] = 2;
        src = ip_from_v6(ip + 8);
        dst = ip_from_v6(ip + 24);
    } else {
        ip[0] = 0x45;
        ip[1] = 2;
        store_be16(ip + 2, (uint16_t)(20 + l4_len));
        store_be16(ip + 4, s->id);
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = s->udp ? 17 : 6;
        memcpy(ip + 12, "\x0a\0\0\1\x0a\0\0\2", 8);
        checksum_write_ip4(ip);
        src = ip_from_v4(ip + 12);
        dst = ip_from_v4(ip + 16);
    }
    store_be16(l4, 40000);
    store_be16(l4 + 2, 5001);
    if (s->udp) {
        store_be16(l4 + 4, (uint16_t)l4_len);
    } else {
        store_be32(l4 + 4, s->seq);
        store_be32(l4 + 8, 0x01020304);
        l4[12] = (uint8_t)((20 + s->options) / 4 << 4);
        l4[13] = s->flags;
        store_be16(l4 + 14, 512);
        memset(l4 + 20, 1, s->options);
    }
    for (uint32_t i = 0; i < s->payload; i++)
        l4[l4_header(s) + i] = stream_byte(s->seq + i);
    checksum_write_l4(l4, l4_len, &src, &dst, s->udp ? 17 : 6);
    return 14 + ip_header + l4_len;
}

static inline void put_outer(uint8_t *f, uint32_t inner_len, uint16_t sport)
{
    memset(f, 0, GENEVE_ENCAP_LEN);
    memcpy(f, "\2\0\0\0\0\xbb\2\0\0\0\0\xaa", 12);
    store_be16(f + 12, ETHERTYPE_IPV6);
    store_be32(f + 14, 6u << 28 | 2u << 20 | 0x12345);
    store_be16(f + 18, (uint16_t)(inner_len + 16));
    f[20] = 17;
    f[21] = 64;
    f[22] = f[38] = 0xfd;
    f[37] = 0xa;
    f[53] = 0xb;
    store_be16(f + 54, sport);
    store_be16(f + 56, GENEVE_UDP_PORT);
    store_be16(f + 58, (uint16_t)(inner_len + 16));
    store_be16(f + 64, 0x6558);
    store_be32(f + 66, 100u << 8);
}

static inline void complete_outer(uint8_t *f, uint32_t len)
{
    struct ip_addr src = ip_from_v6(f + 22), dst = ip_from_v6(f + 38);
    checksum_write_l4(f + OUTER_UDP, len - OUTER_UDP, &src, &dst, 17);
}

#endif
