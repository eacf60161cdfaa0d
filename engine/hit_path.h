// SPDX-License-Identifier: MPL-2.0
// hit_path.h: what every packet of a known flow costs, in one header that each target compiles for itself: user
// space, BPF, another kernel. Constant offsets, no loops, no calls.
//
// hit_parse recognises the canonical shape only: untagged Ethernet; IPv4 without options or fragments, or IPv6 without
// extension headers; TCP or UDP; TTL above 1; lengths and offload metadata that agree. Anything else is SLOW (false)
// and goes through parse_frame, which says what is wrong with it. The two agree: what hit_parse accepts parse_frame
// accepts, with the same key, and PARSE_CANONICAL says that, TTL apart, hit_parse would have accepted.
//
// A SYN of a flow with XP_CLAMP_MSS needs transposition_apply: options are a loop.
#ifndef NEREUS_ENGINE_HIT_PATH_H
#define NEREUS_ENGINE_HIT_PATH_H

#include "engine/checksum.h"
#include "engine/parse.h"
#include "engine/transposition.h"

// May the `n` bytes at offset `at` be read? A BPF verifier wants the comparison with the packet's end, which its driver
// keeps in p->driver; ISO C has no pointer behind an object's end, so elsewhere lengths are compared.
#ifdef __bpf__
#define HIT_HAS(p, at, n) ((p)->data + (at) + (n) <= (uint8_t *)(p)->driver)
#else
#define HIT_HAS(p, at, n) ((p)->head >= (uint32_t)(at) + (n))
#endif

#define HIT_L3 14u
#define HIT_MAX_L4_HEADER 60u     // TCP with all its options
#define HIT_MIN_TCP_GSO 8u        // no stack sends less data per segment: 48 bytes of MSS less 40 of options
#define HIT_MAX_UDP_SEGMENTS 128u // of one super-frame

struct hit {         // of a canonical packet, besides its key
    uint16_t l3, l4; // offsets from data
    uint8_t ip_version, protocol;
    uint8_t tcp_flags; // 0 unless TCP
    uint8_t tos;
    uint32_t ip_len;
};

static inline uint32_t hit_load32(const uint8_t *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return v;
}

static inline uint64_t hit_load64(const uint8_t *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    return v;
}

static inline uint16_t hit_fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)(sum + (sum >> 16));
}

// The key of a packet that parse_frame accepted.
static inline void flow_key_from_parsed(struct flow_key *key, const struct parsed *pp, uint32_t port, uint32_t vni,
                                        uint8_t dir, uint8_t realm)
{
    key->src = pp->src;
    key->dst = pp->dst;
    key->sport = pp->sport;
    key->dport = pp->dport;
    key->port = port;
    key->vni = vni;
    key->ip_version = pp->ip_version;
    key->protocol = pp->protocol;
    key->dir = dir;
    key->realm = realm;
}

// Does a super-frame's metadata fit a whole TCP or UDP packet with its L4 header at l4? Each segment will get a
// checksum of its own, so the frame's must not be one to hand on as it is.
static inline bool hit_gso_fits(const struct packet *p, uint8_t ip_version, uint8_t protocol, uint32_t l4,
                                uint32_t payload_len)
{
    if (p->csum == CSUM_FULL || (p->csum == CSUM_PARTIAL && p->csum_start != l4))
        return false;
    if (p->gso_type == GSO_UDP)
        return protocol == IPPROTO_UDP4 && p->gso_size != 0 && payload_len <= p->gso_size * HIT_MAX_UDP_SEGMENTS;
    if (protocol != IPPROTO_TCP4 || p->gso_size < HIT_MIN_TCP_GSO)
        return false;
    return p->gso_type == (ip_version == 4 ? GSO_TCP4 : GSO_TCP6);
}

// The key's last 16 bytes in two stores: the hash loads them as two words, and would wait for smaller ones.
static inline void hit_key_tail(struct flow_key *key, uint32_t ports, const struct hit *h, uint32_t port, uint32_t vni,
                                uint8_t dir, uint8_t realm)
{
    uint64_t w4 = ports | (uint64_t)port << 32;
    uint64_t w5 =
        vni | (uint64_t)h->ip_version << 32 | (uint64_t)h->protocol << 40 | (uint64_t)dir << 48 | (uint64_t)realm << 56;
    whole_word(w4);
    whole_word(w5);
    __builtin_memcpy((uint8_t *)key + offsetof(struct flow_key, sport), &w4, 8);
    __builtin_memcpy((uint8_t *)key + offsetof(struct flow_key, vni), &w5, 8);
}
_Static_assert(offsetof(struct flow_key, port) == 36 && offsetof(struct flow_key, ip_version) == 44 &&
                   offsetof(struct flow_key, protocol) == 45 && offsetof(struct flow_key, dir) == 46,
               "hit_key_tail knows the layout");

// L4 of a packet whose IP header left l4_len bytes at l4. *ports: source in the low half, as in the packet.
static inline bool hit_l4(const struct packet *p, struct hit *h, uint32_t l4, uint32_t l4_len, uint32_t *ports)
{
    const uint8_t *b = p->data + l4;
    uint32_t header, payload, csum_offset;
    if (h->protocol == IPPROTO_TCP4) {
        if (!HIT_HAS(p, l4, 20u))
            return false;
        header = (b[12] >> 4) * 4u;
        if (header < 20 || header > l4_len || !HIT_HAS(p, l4, header))
            return false;
        h->tcp_flags = b[13];
        payload = l4_len - header;
        csum_offset = 16;
    } else {
        if (h->protocol != IPPROTO_UDP4 || !HIT_HAS(p, l4, 8u))
            return false;
        header = load_be16(b + 4); // and payload
        if (header < 8 || header > l4_len)
            return false;
        h->tcp_flags = 0;
        payload = header - 8;
        csum_offset = 6;
    }
    if (p->csum == CSUM_PARTIAL && (p->csum_start != l4 || p->csum_offset != csum_offset))
        return false;
    if (p->gso_type != GSO_NONE && !hit_gso_fits(p, h->ip_version, h->protocol, l4, payload))
        return false;
    h->l4 = (uint16_t)l4;
    *ports = hit_load32(b);
    return true;
}

static inline bool hit_parse_ip4(const struct packet *p, struct flow_key *key, struct hit *h, uint32_t *ports)
{
    const uint8_t *ip = p->data + HIT_L3;
    uint32_t w0 = hit_load32(ip), w1 = hit_load32(ip + 4), w2 = hit_load32(ip + 8);
    uint32_t src = hit_load32(ip + 12), dst = hit_load32(ip + 16);
    uint32_t total = __builtin_bswap16((uint16_t)(w0 >> 16));
    if ((w0 & 0xff) != 0x45 || (w1 & 0xff3f0000) || (w2 & 0xff) <= 1) // version and length, fragment, TTL
        return false;
    if (total < 20 || total > p->len - HIT_L3)
        return false;
    if (p->csum == CSUM_FULL) {
        uint64_t sum = (uint64_t)w0 + w1 + w2 + src + dst;
        if (checksum_fold(sum) != 0xffff)
            return false;
    }
    if ((src & 0xf0) == 0xe0 || src == 0xffffffff || (src & 0xff) == 127 || (dst & 0xff) == 127)
        return false;
    h->ip_version = 4;
    h->protocol = (uint8_t)(w2 >> 8);
    h->tos = (uint8_t)(w0 >> 8);
    h->ip_len = total;
    uint64_t mapped_src = (uint64_t)src << 32 | 0xffff0000, mapped_dst = (uint64_t)dst << 32 | 0xffff0000;
    whole_word(mapped_src);
    whole_word(mapped_dst);
    key->src.d[0] = key->dst.d[0] = 0;
    key->src.d[1] = mapped_src;
    key->dst.d[1] = mapped_dst;
    return hit_l4(p, h, HIT_L3 + 20, total - 20, ports);
}

static inline bool hit_ip6_martian(uint64_t high, uint64_t low) // v4-mapped or loopback
{
    return high == 0 && ((uint32_t)low == 0xffff0000 || low == __builtin_bswap64(1));
}

static inline bool hit_parse_ip6(const struct packet *p, struct flow_key *key, struct hit *h, uint32_t *ports)
{
    const uint8_t *ip = p->data + HIT_L3;
    if (!HIT_HAS(p, HIT_L3, 48u))
        return false;
    uint64_t first = hit_load64(ip);
    uint32_t payload = __builtin_bswap16((uint16_t)(first >> 32));
    if ((first & 0xf0) != 0x60 || first >> 56 <= 1 || 40 + payload > p->len - HIT_L3) // version, hop limit, length
        return false;
    key->src.d[0] = hit_load64(ip + 8);
    key->src.d[1] = hit_load64(ip + 16);
    key->dst.d[0] = hit_load64(ip + 24);
    key->dst.d[1] = hit_load64(ip + 32);
    if (key->src.b[0] == 0xff || hit_ip6_martian(key->src.d[0], key->src.d[1]) ||
        hit_ip6_martian(key->dst.d[0], key->dst.d[1]))
        return false;
    h->ip_version = 6;
    h->protocol = (uint8_t)(first >> 48);
    h->tos = (uint8_t)((first & 0x0f) << 4 | (first >> 12 & 0x0f));
    h->ip_len = 40 + payload;
    return hit_l4(p, h, HIT_L3 + 40, payload, ports);
}

// True: *key and *h are complete. False: SLOW, and their contents mean nothing.
static inline bool hit_parse(const struct packet *p, uint32_t port, uint32_t vni, uint8_t dir, uint8_t realm,
                             struct flow_key *key, struct hit *h)
{
    if (!HIT_HAS(p, 0, HIT_L3 + 28))
        return false;
    uint64_t word = hit_load64(p->data + 6); // source MAC and ethertype
    if ((word & 1) || (word & 0xffffffffffff) == 0)
        return false;
    h->l3 = HIT_L3;
    uint32_t ports;
    if (word >> 48 == __builtin_bswap16(ETHERTYPE_IPV4)) {
        if (!hit_parse_ip4(p, key, h, &ports))
            return false;
    } else if (word >> 48 != __builtin_bswap16(ETHERTYPE_IPV6) || !hit_parse_ip6(p, key, h, &ports)) {
        return false;
    }
    hit_key_tail(key, ports, h, port, vni, dir, realm);
    return true;
}

// Writes MACs, TTL and addresses; makes the IPv4 header checksum right.
static inline void hit_rewrite_l3(const struct transposition *xp, uint8_t *data, uint32_t l3, uint8_t ip_version)
{
    uint32_t flags = xp->flags;
    uint8_t *ip = data + l3;
    if (flags & XP_DST_MAC)
        __builtin_memcpy(data, xp->dst_mac.b, 6);
    if (flags & XP_SRC_MAC)
        __builtin_memcpy(data + 6, xp->src_mac.b, 6);
    if (ip_version == 4) {
        uint32_t down = flags & XP_DEC_TTL ? 1 : 0;
        uint16_t field;
        __builtin_memcpy(&field, ip + 10, 2);
        field = (uint16_t)~hit_fold((uint16_t)~field + xp->ip_delta + (0xffff - down) * down); // -1 is 0xfffe
        __builtin_memcpy(ip + 10, &field, 2);
        ip[8] = (uint8_t)(ip[8] - down);
        if (flags & XP_SRC_IP)
            __builtin_memcpy(ip + 12, xp->src_ip.b + 12, 4);
        if (flags & XP_DST_IP)
            __builtin_memcpy(ip + 16, xp->dst_ip.b + 12, 4);
        return;
    }
    if (flags & XP_DEC_TTL)
        ip[7] = (uint8_t)(ip[7] - 1);
    if (flags & XP_SRC_IP)
        __builtin_memcpy(ip + 8, xp->src_ip.b, 16);
    if (flags & XP_DST_IP)
        __builtin_memcpy(ip + 24, xp->dst_ip.b, 16);
}

// The whole rewrite of a TCP or UDP packet. The one implementation: transposition_apply is built on it too.
static inline void hit_rewrite(const struct transposition *xp, struct packet *p, uint32_t l3, uint32_t l4,
                               uint8_t ip_version, uint8_t protocol)
{
    uint32_t flags = xp->flags;
    hit_rewrite_l3(xp, p->data, l3, ip_version);
    if (!(flags & (XP_SRC_IP | XP_DST_IP | XP_SRC_PORT | XP_DST_PORT)))
        return;
    uint8_t *b = p->data + l4, *at = b + (protocol == IPPROTO_TCP4 ? 16 : 6);
    uint16_t field;
    __builtin_memcpy(&field, at, 2);
    if (p->csum == CSUM_PARTIAL && p->csum_start == l4) {
        field = hit_fold((uint32_t)field + xp->ip_delta); // the ports are no part of the pseudo-header
    } else if (protocol == IPPROTO_TCP4 || field != 0) {
        field = (uint16_t)~hit_fold((uint32_t)(uint16_t)~field + xp->l4_delta);
        if (protocol != IPPROTO_TCP4 && field == 0)
            field = 0xffff; // UDP: 0 would say "none"
    }
    __builtin_memcpy(at, &field, 2);
    if (flags & XP_SRC_PORT)
        __builtin_memcpy(b, &xp->src_port, 2);
    if (flags & XP_DST_PORT)
        __builtin_memcpy(b + 2, &xp->dst_port, 2);
}

#endif
