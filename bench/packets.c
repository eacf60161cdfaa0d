// SPDX-License-Identifier: MPL-2.0
#include "bench/packets.h"

#include <err.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/checksum.h"
#include "engine/geneve.h"
#include "engine/parse.h"

// Odd in cache lines, so that the frames' first lines spread over all sets of a cache.
#define BUFFER (PACKET_HEADROOM + PACKET_MIN_ROOM + 64u)

void ring_init(struct ring *r)
{
    size_t bytes = ((size_t)RING_PACKETS * BUFFER + (2u << 20)) & ~((2ul << 20) - 1);
    *r = (struct ring){.memory = aligned_alloc(2 << 20, bytes)};
    if (!r->memory)
        err(1, "packets");
    madvise(r->memory, bytes, MADV_HUGEPAGE);
    __builtin_memset(r->memory, 0, bytes);
}

void ring_fini(struct ring *r)
{
    free(r->memory);
}

static uint8_t *frame_at(const struct ring *r, uint32_t at)
{
    return r->memory + (size_t)at * BUFFER + PACKET_HEADROOM;
}

struct ends {
    const struct mac_addr *src_mac, *dst_mac;
    struct ip_addr src, dst;
    uint16_t sport, dport;
};

// A UDP packet of FRAME_LEN bytes.
static void write_frame(uint8_t *b, bool four, const struct ends *e)
{
    uint8_t *ip = b + 14, *udp = ip + (four ? 20 : 40);
    uint16_t udp_len = (uint16_t)(b + FRAME_LEN - udp);
    memcpy(b, e->dst_mac->b, 6);
    memcpy(b + 6, e->src_mac->b, 6);
    store_be16(b + 12, four ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    memset(ip, 0, FRAME_LEN - 14);
    if (four) {
        ip[0] = 0x45;
        store_be16(ip + 2, FRAME_LEN - 14);
        ip[8] = 64;
        ip[9] = IPPROTO_UDP4;
        memcpy(ip + 12, e->src.b + 12, 4);
        memcpy(ip + 16, e->dst.b + 12, 4);
        checksum_write_ip4(ip);
    } else {
        ip[0] = 0x60;
        store_be16(ip + 4, udp_len);
        ip[6] = IPPROTO_UDP4;
        ip[7] = 64;
        memcpy(ip + 8, e->src.b, 16);
        memcpy(ip + 24, e->dst.b, 16);
    }
    store_be16(udp, e->sport);
    store_be16(udp + 2, e->dport);
    store_be16(udp + 4, udp_len);
    checksum_write_l4(udp, udp_len, &e->src, &e->dst, IPPROTO_UDP4);
}

void ring_put_out(struct ring *r, uint32_t at, const struct scene *s, uint32_t i)
{
    struct scene_flow f = scene_flow(s, i);
    struct ends e = {&scene_guest_mac, &scene_gateway_mac, f.guest, f.peer, f.guest_port, f.peer_port};
    write_frame(frame_at(r, at), s->options.family == 4, &e);
    r->len = FRAME_LEN;
    r->verified = false;
}

void ring_put_in(struct ring *r, uint32_t at, const struct scene *s, uint32_t i)
{
    bool outside = s->options.nat != NAT_NONE;
    struct scene_flow f = scene_flow(s, i);
    struct ends e = {&scene_gateway_mac, &scene_guest_mac, f.peer, outside ? scene_guest_external(s) : f.guest,
                     f.peer_port,        f.guest_port};
    struct ip_addr node = scene_node(s, i);
    uint8_t *b = frame_at(r, at);
    struct geneve_template t;
    struct packet p = {.data = b + GENEVE_ENCAP_LEN,
                       .len = FRAME_LEN,
                       .head = FRAME_LEN,
                       .room = FRAME_LEN,
                       .headroom = GENEVE_ENCAP_LEN};
    write_frame(p.data, s->options.family == 4, &e);
    geneve_template_init(&t, &node, &scene_self, 64);
    geneve_encap(&p, &t, outside ? GENEVE_VNI_EDGE : SCENE_VNI, (uint64_t)i * 0x9e3779b97f4a7c15ull, 0);
    r->len = FRAME_LEN + GENEVE_ENCAP_LEN;
    r->verified = true;
}

void ring_describe(const struct ring *r, uint32_t at, struct packet *packets, unsigned n)
{
    uint8_t csum = r->verified ? CSUM_VERIFIED : CSUM_FULL;
    for (unsigned k = 0; k < n; k++)
        packets[k] = (struct packet){.data = frame_at(r, at + k),
                                     .len = r->len,
                                     .head = r->len,
                                     .room = PACKET_MIN_ROOM,
                                     .headroom = PACKET_HEADROOM,
                                     .csum = csum};
}
