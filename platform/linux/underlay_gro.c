// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/underlay_gro.h"

#include <string.h>

#include "engine/atomic.h"
#include "engine/checksum.h"
#include "engine/geneve.h"
#include "engine/parse.h"
#include "platform/linux/underlay_gso.h"

#define MIN_MSS 64            // smaller segments are not worth a super-frame, and parsers refuse tiny ones
#define MAX_MERGED_IP6 65535u // payload of the outer IPv6 packet

struct segment {            // a Geneve datagram that might be merged
    const uint8_t *outer;   // OUTER_LEN bytes
    const uint8_t *frame;   // Geneve header; inner frame behind it
    uint32_t len;           // from the Geneve header
    struct vnet_headers at; // as if outer and frame were joined
    uint32_t seq, payload_len;
};

// Header bytes of the segment at an offset of the joined frame (behind the outer headers).
static const uint8_t *segment_at(const struct segment *s, uint32_t offset)
{
    return s->frame + (offset - OUTER_LEN);
}

static bool plain_ip(const uint8_t *ip, const struct vnet_headers *at, uint32_t ip_len)
{
    if (at->ip_version == 4)
        return at->l4 == at->l3 + 20 && load_be16(ip + 2) == ip_len && (load_be16(ip + 6) & 0xbfff) == 0;
    return load_be16(ip + 4) + 40u == ip_len;
}

enum segment_kind {
    SEGMENT_UNKNOWN, // any flow
    SEGMENT_OTHER,   // no TCP
    SEGMENT_CONTROL, // TCP that goes alone
    SEGMENT_DATA,    // TCP with data, nothing but ACK and PSH, in plain headers
};

static enum segment_kind segment_find(struct segment *s, const uint8_t *outer, const uint8_t *frame, uint32_t len)
{
    static const uint8_t geneve[4] = {0, 0, 0x65, 0x58}; // version 0, no options, no flags, Ethernet
    struct vnet_headers at;
    if (len < GENEVE_HEADER_LEN || memcmp(frame, geneve, sizeof(geneve)) != 0 ||
        !vnet_find_headers(frame, len, GENEVE_HEADER_LEN, &at))
        return SEGMENT_UNKNOWN;
    if (at.protocol != IPPROTO_TCP4)
        return SEGMENT_OTHER;
    const uint8_t *tcp = frame + at.l4;
    *s = (struct segment){.outer = outer, .frame = frame, .len = len, .at = at};
    s->seq = load_be32(tcp + 4);
    s->payload_len = len - at.payload;
    s->at.l3 += OUTER_LEN;
    s->at.l4 += OUTER_LEN;
    s->at.payload += OUTER_LEN;
    bool data = plain_ip(frame + at.l3, &at, len - at.l3) && (tcp[13] & ~TCP_PSH) == TCP_ACK && at.payload < len;
    return data ? SEGMENT_DATA : SEGMENT_CONTROL;
}

static bool inner_checksum_is_right(const uint8_t *ip, const uint8_t *l4, const struct vnet_headers *at,
                                    uint32_t l4_len)
{
    uint64_t sum = at->ip_version == 4 ? checksum_add(0, ip + 12, 8) : checksum_add(0, ip + 8, 32);
    sum += (uint64_t)__builtin_bswap16((uint16_t)l4_len) + __builtin_bswap16(at->protocol);
    if (at->ip_version == 4 && checksum_fold(checksum_add(0, ip, 20)) != 0xffff)
        return false;
    return checksum_fold(checksum_add(sum, l4, l4_len)) == 0xffff;
}

static bool segment_is_right(const struct segment *s)
{
    return inner_checksum_is_right(segment_at(s, s->at.l3), segment_at(s, s->at.l4), &s->at,
                                   s->len - (s->at.l4 - OUTER_LEN));
}

static bool same(const uint8_t *a, const uint8_t *b, uint32_t from, uint32_t n)
{
    return memcmp(a + from, b + from, n) == 0;
}

static bool same_flow(const struct gro_flow *f, const struct segment *s)
{
    const uint8_t *a = f->packet->data;
    if (f->at.l4 != s->at.l4 || f->at.ip_version != s->at.ip_version)
        return false;
    uint32_t addresses = f->at.ip_version == 4 ? 12 : 8, n = f->at.ip_version == 4 ? 8 : 32;
    return memcmp(a + f->at.l4, segment_at(s, s->at.l4), 4) == 0 &&                         // ports
           memcmp(a + f->at.l3 + addresses, segment_at(s, s->at.l3 + addresses), n) == 0 && // inner
           memcmp(a + OUTER_LEN + 4, s->frame + 4, 4) == 0 &&                               // VNI
           same(a, s->outer, ETHERNET_LEN + 8, 16);                                         // node
}

static bool same_outer(const struct gro_flow *f, const struct segment *s)
{
    const uint8_t *a = f->packet->data, *b = s->outer;
    return same(a, b, 0, ETHERNET_LEN + 4) &&  // Ethernet; version, class, flow label
           same(a, b, ETHERNET_LEN + 6, 34) && // next header, hop limit, addresses
           same(a, b, OUTER_UDP, 4) &&         // ports
           memcmp(a + OUTER_LEN, s->frame, GENEVE_HEADER_LEN + ETHERNET_LEN) == 0;
}

static bool same_ip(const struct gro_flow *f, const struct segment *s)
{
    const uint8_t *a = f->packet->data + f->at.l3, *b = segment_at(s, s->at.l3);
    if (f->at.ip_version == 6)
        return same(a, b, 0, 4) && same(a, b, 6, 34);
    if (!same(a, b, 0, 2) || !same(a, b, 6, 4) || !same(a, b, 12, 8))
        return false;
    uint16_t id = load_be16(b + 4);
    bool fixed = id == f->ip_id && b[6] & 0x40;
    bool next = id == (uint16_t)(f->ip_id + 1);
    return f->segments == 1 ? fixed || next : f->fixed_id ? fixed : next;
}

static bool same_tcp(const struct gro_flow *f, const struct segment *s)
{
    const uint8_t *a = f->packet->data + f->at.l4, *b = segment_at(s, s->at.l4);
    return f->at.payload == s->at.payload && same(a, b, 8, 5) &&                           // ACK number, header length
           same(a, b, 14, 2) && same(a, b, 18, (uint32_t)(f->at.payload - f->at.l4) - 18); // window; urgent, options
}

static bool fits(const struct gro_flow *f, const struct segment *s)
{
    uint32_t len = f->packet->len + s->payload_len;
    return len <= f->packet->room && len - ETHERNET_LEN - 40 <= MAX_MERGED_IP6 && f->segments < 0xffff;
}

static bool can_append(const struct gro_flow *f, const struct segment *s)
{
    return s->seq == f->next_seq && s->payload_len <= f->mss && fits(f, s) && same_outer(f, s) && same_ip(f, s) &&
           same_tcp(f, s);
}

// The first segment's own checksum is checked when a second one comes.
static bool first_is_right(const struct gro_flow *f)
{
    const uint8_t *data = f->packet->data;
    return f->segments > 1 ||
           inner_checksum_is_right(data + f->at.l3, data + f->at.l4, &f->at, f->packet->len - f->at.l4);
}

static void append(struct gro *g, struct gro_flow *f, const struct segment *s)
{
    struct packet *p = f->packet;
    const uint8_t *ip = segment_at(s, s->at.l3);
    uint16_t id = load_be16(ip + 4);
    f->fixed_id = f->segments == 1 && f->at.ip_version == 4 && id == f->ip_id ? true : f->fixed_id;
    f->ip_id = id;
    p->data[f->at.l4 + 13] |= segment_at(s, s->at.l4)[13] & TCP_PSH;
    memcpy(p->data + p->len, segment_at(s, s->at.payload), s->payload_len);
    p->len += s->payload_len;
    p->head = p->len;
    f->next_seq += s->payload_len;
    f->segments++;
    counter_add(&g->merged, 1);
}

static void finish(struct gro_flow *f)
{
    struct packet *p = f->packet;
    if (f->segments < 2)
        return;
    uint8_t *ip = p->data + f->at.l3;
    p->gso_type = f->at.ip_version == 4 ? GSO_TCP4 : GSO_TCP6;
    p->gso_size = f->mss;
    p->csum = CSUM_VERIFIED;
    if (f->at.ip_version == 4) {
        store_be16(ip + 2, (uint16_t)(p->len - f->at.l3));
        checksum_write_ip4(ip);
    } else {
        store_be16(ip + 4, (uint16_t)(p->len - f->at.l3 - 40));
    }
    uint16_t outer = (uint16_t)(p->len - OUTER_UDP);
    store_be16(p->data + ETHERNET_LEN + 4, outer);
    store_be16(p->data + OUTER_UDP + 4, outer);
}

static void close_flow(struct gro *g, struct gro_flow *f)
{
    finish(f);
    *f = g->flows[--g->n_flows];
}

void gro_flush(struct gro *g)
{
    while (g->n_flows)
        close_flow(g, &g->flows[g->n_flows - 1]);
    if (g->n)
        g->deliver(g->ctx, g->out, g->n);
    g->n = 0;
}

static void emit(struct gro *g, struct packet *p)
{
    if (g->n == PLATFORM_BATCH)
        gro_flush(g);
    g->out[g->n++] = p;
}

static void open_flow(struct gro *g, struct packet *p, const struct segment *s)
{
    if (g->n_flows == GRO_FLOWS)
        close_flow(g, &g->flows[g->oldest++ % GRO_FLOWS]);
    g->flows[g->n_flows++] = (struct gro_flow){.packet = p,
                                               .at = s->at,
                                               .next_seq = s->seq + s->payload_len,
                                               .mss = (uint16_t)s->payload_len,
                                               .segments = 1,
                                               .ip_id = load_be16(p->data + s->at.l3 + 4)};
}

// Appends the segment to an open frame. False: it goes on alone, behind its flow's frame, which is closed.
static bool merge(struct gro *g, const struct segment *s, enum segment_kind kind)
{
    if (kind == SEGMENT_UNKNOWN)
        while (g->n_flows)
            close_flow(g, &g->flows[g->n_flows - 1]);
    for (unsigned i = 0; kind >= SEGMENT_CONTROL && i < g->n_flows; i++) {
        struct gro_flow *f = &g->flows[i];
        if (!same_flow(f, s))
            continue;
        bool merged = kind == SEGMENT_DATA && can_append(f, s) && first_is_right(f) && segment_is_right(s);
        if (merged)
            append(g, f, s);
        if (!merged || s->payload_len < f->mss || f->packet->data[f->at.l4 + 13] & TCP_PSH)
            close_flow(g, f);
        return merged;
    }
    return false;
}

static bool wants_to_grow(const struct segment *s, enum segment_kind kind)
{
    return kind == SEGMENT_DATA && s->payload_len >= MIN_MSS && s->payload_len < 0xffff &&
           !(segment_at(s, s->at.l4)[13] & TCP_PSH);
}

static bool is_outer(const uint8_t *frame, uint32_t len)
{
    return len >= OUTER_LEN + GENEVE_HEADER_LEN && load_be16(frame + 12) == ETHERTYPE_IPV6 &&
           frame[ETHERNET_LEN] >> 4 == 6 && frame[ETHERNET_LEN + 6] == IPPROTO_UDP4 &&
           load_be16(frame + OUTER_UDP + 2) == GENEVE_UDP_PORT;
}

static bool outer_checksum_is_right(const uint8_t *frame, uint32_t len)
{
    const uint8_t *udp = frame + OUTER_UDP;
    uint32_t udp_len = len - OUTER_UDP;
    if (load_be16(udp + UDP_CSUM_OFFSET) == 0)
        return false; // none: policy is the core's
    uint64_t sum = checksum_add(0, frame + ETHERNET_LEN + 8, 32);
    sum += (uint64_t)__builtin_bswap16((uint16_t)udp_len) + __builtin_bswap16(IPPROTO_UDP4);
    return checksum_fold(checksum_add(sum, udp, udp_len)) == 0xffff;
}

// One datagram in a packet of its own.
static void receive_datagram(struct gro *g, struct packet *p)
{
    struct segment s;
    enum segment_kind kind = SEGMENT_UNKNOWN;
    if (is_outer(p->data, p->len) && load_be16(p->data + ETHERNET_LEN + 4) == p->len - ETHERNET_LEN - 40 &&
        load_be16(p->data + OUTER_UDP + 4) == p->len - OUTER_UDP)
        kind = segment_find(&s, p->data, p->data + OUTER_LEN, p->len - OUTER_LEN);
    if (kind == SEGMENT_DATA && p->csum != CSUM_VERIFIED) {
        if (outer_checksum_is_right(p->data, p->len))
            p->csum = CSUM_VERIFIED;
        else
            kind = SEGMENT_CONTROL;
    }
    if (merge(g, &s, kind)) {
        buffers_free(g->buffers, g->user, p);
        return;
    }
    emit(g, p);
    if (wants_to_grow(&s, kind))
        open_flow(g, p, &s);
}

// A datagram of a UDP super-frame gets a buffer and outer headers of its own.
static struct packet *lift(struct gro *g, const uint8_t *outer, const uint8_t *datagram, uint32_t len, bool may_grow)
{
    uint32_t total = OUTER_LEN + len;
    enum buffer_class class = may_grow ? BUFFER_CLASS_LARGE : buffers_class(total);
    struct packet *p = total <= BUFFER_LARGE ? buffers_alloc(g->buffers, g->user, class) : NULL;
    if (!p) {
        counter_add(&g->no_buffer, 1);
        return NULL;
    }
    memcpy(p->data, outer, OUTER_LEN);
    memcpy(p->data + OUTER_LEN, datagram, len);
    store_be16(p->data + ETHERNET_LEN + 4, (uint16_t)(total - ETHERNET_LEN - 40));
    store_be16(p->data + OUTER_UDP + 4, (uint16_t)(total - OUTER_UDP));
    p->len = p->head = total;
    p->csum = CSUM_VERIFIED;
    return p;
}

static void receive_super_frame(struct gro *g, struct packet *p, uint32_t size)
{
    for (uint32_t at = OUTER_LEN; at < p->len; at += size) {
        struct segment s;
        const uint8_t *datagram = p->data + at;
        uint32_t len = MIN(size, p->len - at);
        enum segment_kind kind = segment_find(&s, p->data, datagram, len);
        if (merge(g, &s, kind))
            continue;
        bool may_grow = wants_to_grow(&s, kind);
        struct packet *own = lift(g, p->data, datagram, len, may_grow);
        if (!own)
            continue;
        emit(g, own);
        if (may_grow)
            open_flow(g, own, &s);
    }
    buffers_free(g->buffers, g->user, p);
}

void gro_receive(struct gro *g, struct packet *p, const struct virtio_net_hdr *h)
{
    uint8_t type = h->gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;
    // A checksum that is still to be computed never was on a wire: as good as verified (outer UDP only).
    bool partial = h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM && h->csum_start == OUTER_UDP;
    p->csum = partial || h->flags & VIRTIO_NET_HDR_F_DATA_VALID ? CSUM_VERIFIED : CSUM_FULL;
    p->gso_type = GSO_NONE;
    p->gso_size = 0;
    if (type == VIRTIO_NET_HDR_GSO_NONE) {
        receive_datagram(g, p);
        return;
    }
    if (type != VIRTIO_NET_HDR_GSO_UDP_L4 || !is_outer(p->data, p->len) || h->gso_size < GENEVE_HEADER_LEN) {
        counter_add(&g->bad, 1);
        buffers_free(g->buffers, g->user, p);
        return;
    }
    if (p->len - OUTER_LEN <= h->gso_size)
        receive_datagram(g, p);
    else
        receive_super_frame(g, p, h->gso_size);
}
