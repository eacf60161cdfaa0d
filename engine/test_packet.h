// SPDX-License-Identifier: MPL-2.0
// test_packet.h: frames for unit tests, and buffers of exactly their size so that ASan sees the byte too many.
// Hosted code; for tests only.
#ifndef NEREUS_ENGINE_TEST_PACKET_H
#define NEREUS_ENGINE_TEST_PACKET_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checksum.h"
#include "engine/packet.h"
#include "engine/parse.h"

#define TEST_FRAME_MAX 2048

struct test_frame {
    uint8_t b[TEST_FRAME_MAX];
    uint32_t len;
    uint32_t l4; // offset
};

struct test_spec {
    uint8_t ip_version, protocol;
    struct ip_addr src, dst; // unspecified: 10.0.0.3 -> 10.0.0.4, fd00::3 -> fd00::4
    uint16_t sport, dport;   // host order; ICMP: identifier, type << 8 | code
    uint8_t tcp_flags, tos, ttl;
    uint16_t fragment;    // IPv4: the flags and offset word
    const void *options;  // IPv4 options, TCP options by `tcp_options`
    uint32_t options_len; // multiple of 4
    const void *tcp_options;
    uint32_t tcp_options_len; // multiple of 4
    const void *chain;        // IPv6 extension headers
    uint32_t chain_len;
    uint8_t chain_first; // type of the first of them
    const void *payload; // NULL: counting bytes
    uint32_t payload_len;
    bool zero_checksum; // UDP
};

static inline struct ip_addr test_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    return ip_from_v4((uint8_t[]){a, b, c, d});
}

static inline struct ip_addr test_v6(uint16_t first, uint16_t last)
{
    struct ip_addr a = {.b = {(uint8_t)(first >> 8), (uint8_t)first}};
    a.b[14] = (uint8_t)(last >> 8);
    a.b[15] = (uint8_t)last;
    return a;
}

static inline uint32_t test_l4_header(uint8_t *l4, const struct test_spec *s)
{
    store_be16(l4, s->sport);
    store_be16(l4 + 2, s->dport);
    switch (s->protocol) {
    case IPPROTO_TCP4:
        store_be32(l4 + 4, 0x01020304);
        store_be32(l4 + 8, 0x05060708);
        l4[12] = (uint8_t)((20 + s->tcp_options_len) / 4 << 4);
        l4[13] = s->tcp_flags;
        store_be16(l4 + 14, 0x7210);
        if (s->tcp_options_len)
            memcpy(l4 + 20, s->tcp_options, s->tcp_options_len);
        return 20 + s->tcp_options_len;
    case IPPROTO_UDP4:
        store_be16(l4 + 4, (uint16_t)(8 + s->payload_len));
        return 8;
    case IPPROTO_SCTP4:
        store_be32(l4 + 4, 0xcafe0001);
        return 12;
    case IPPROTO_ICMP4:
    case IPPROTO_ICMP6:
        store_be16(l4, s->dport);
        store_be16(l4 + 2, 0);
        store_be16(l4 + 4, s->sport);
        store_be16(l4 + 6, 7);
        return 8;
    default:
        return 0;
    }
}

static inline void test_frame_make(struct test_frame *f, const struct test_spec *s)
{
    static const uint8_t macs[12] = {0x02, 0, 0, 0, 0, 0x04, 0x02, 0, 0, 0, 0, 0x03};
    bool v4 = s->ip_version == 4;
    struct ip_addr src = s->src, dst = s->dst;
    if (ip_is_unspecified(&src) && !ip_is_v4(&src))
        src = v4 ? test_v4(10, 0, 0, 3) : test_v6(0xfd00, 3);
    if (ip_is_unspecified(&dst) && !ip_is_v4(&dst))
        dst = v4 ? test_v4(10, 0, 0, 4) : test_v6(0xfd00, 4);
    memset(f, 0, sizeof(*f));
    memcpy(f->b, macs, 12);
    store_be16(f->b + 12, v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    uint8_t *ip = f->b + 14;
    f->l4 = 14 + (v4 ? 20 + s->options_len : 40 + s->chain_len);
    uint8_t *l4 = f->b + f->l4;
    uint32_t header = test_l4_header(l4, s);
    for (uint32_t i = 0; i < s->payload_len; i++)
        l4[header + i] = s->payload ? ((const uint8_t *)s->payload)[i] : (uint8_t)(i * 7 + 1);
    f->len = f->l4 + header + s->payload_len;
    assert(f->len <= TEST_FRAME_MAX);
    uint8_t ttl = s->ttl ? s->ttl : 64;
    if (v4) {
        ip[0] = (uint8_t)(0x40 | (20 + s->options_len) / 4);
        ip[1] = s->tos;
        store_be16(ip + 2, (uint16_t)(f->len - 14));
        store_be16(ip + 4, 0x1234);
        store_be16(ip + 6, s->fragment);
        ip[8] = ttl;
        ip[9] = s->protocol;
        memcpy(ip + 12, src.b + 12, 4);
        memcpy(ip + 16, dst.b + 12, 4);
        if (s->options_len)
            memcpy(ip + 20, s->options, s->options_len);
        checksum_write_ip4(ip);
    } else {
        store_be32(ip, 0x60000000u | (uint32_t)s->tos << 20 | 0x12345);
        store_be16(ip + 4, (uint16_t)(f->len - 54));
        ip[6] = s->chain_len ? s->chain_first : s->protocol;
        ip[7] = ttl;
        memcpy(ip + 8, src.b, 16);
        memcpy(ip + 24, dst.b, 16);
        if (s->chain_len)
            memcpy(ip + 40, s->chain, s->chain_len);
    }
    if (!(s->protocol == IPPROTO_UDP4 && s->zero_checksum))
        checksum_write_l4(l4, f->len - f->l4, &src, &dst, s->protocol);
}

// A packet whose buffer is exactly n bytes long; test_packet_free afterwards.
static inline struct packet test_packet(const void *bytes, uint32_t n)
{
    struct packet p = {.len = n, .head = n, .room = n};
    p.data = malloc(n ? n : 1);
    assert(p.data);
    if (n)
        memcpy(p.data, bytes, n);
    p.driver = p.data;
    return p;
}

static inline void test_packet_free(struct packet *p)
{
    free(p->driver);
}

// Turns a complete TCP or UDP checksum into the form a guest with offload sends.
static inline void test_make_partial(struct packet *p, const struct parsed *pp)
{
    uint16_t at = pp->protocol == IPPROTO_TCP4 ? 16 : pp->protocol == IPPROTO_UDP4 ? 6 : 2;
    uint32_t len = pp->l3 + pp->ip_len - pp->l4;
    uint16_t sum = 0;
    if (pp->protocol != IPPROTO_ICMP4)
        sum = checksum_fold(checksum_pseudo(&pp->src, &pp->dst, pp->protocol, len));
    memcpy(p->data + pp->l4 + at, &sum, 2);
    p->csum = CSUM_PARTIAL;
    p->csum_start = pp->l4;
    p->csum_offset = at;
}

// Does what a device does with a partial checksum.
static inline void test_resolve_partial(struct packet *p)
{
    if (p->csum != CSUM_PARTIAL)
        return;
    uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, p->data + p->csum_start, p->len - p->csum_start));
    if (sum == 0)
        sum = 0xffff;
    memcpy(p->data + p->csum_start + p->csum_offset, &sum, 2);
    p->csum = CSUM_FULL;
}

// Is the L4 checksum of a complete, unfragmented packet right?
static inline bool test_l4_checksum_ok(const struct packet *p, const struct parsed *pp)
{
    uint32_t len = pp->l3 + pp->ip_len - pp->l4;
    uint64_t sum = pp->protocol == IPPROTO_ICMP4 ? 0 : checksum_pseudo(&pp->src, &pp->dst, pp->protocol, len);
    return checksum_fold(checksum_add(sum, p->data + pp->l4, len)) == 0xffff;
}

struct test_random {
    uint64_t s;
};

static inline uint32_t test_rand(struct test_random *r) // xorshift64*
{
    r->s ^= r->s >> 12;
    r->s ^= r->s << 25;
    r->s ^= r->s >> 27;
    return (uint32_t)((r->s * 0x2545f4914f6cdd1dull) >> 32);
}

#endif
