// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/underlay_gso.h"

#include <string.h>

#include "engine/checksum.h"
#include "engine/parse.h"

#define TCP_CWR 0x80

static bool find_inner(const struct packet *p, struct vnet_headers *at)
{
    if (p->csum != CSUM_PARTIAL)
        return vnet_find_headers(p->data, p->len, p->encap_len, at);
    // The guest says where L4 starts: behind extension headers too.
    uint32_t l3 = (uint32_t)p->encap_len + ETHERNET_LEN;
    if (p->len < l3 + 20 || p->csum_start < l3 + 20 || (uint32_t)p->csum_start + 20 > p->len)
        return false;
    at->l3 = (uint16_t)l3;
    at->l4 = p->csum_start;
    at->ip_version = p->data[l3] >> 4;
    at->protocol = p->gso_type == GSO_UDP ? IPPROTO_UDP4 : IPPROTO_TCP4;
    uint32_t header = p->gso_type == GSO_UDP ? 8 : (uint32_t)(p->data[at->l4 + 12] >> 4) * 4;
    at->payload = (uint16_t)(at->l4 + header);
    if (at->ip_version == 6 && at->l4 < l3 + 40)
        return false;
    return header >= 8 && (at->protocol == IPPROTO_UDP4 || header >= 20) && at->payload <= p->len;
}

bool gso_plan_init(struct gso_plan *plan, const struct packet *p)
{
    struct vnet_headers *at = &plan->at;
    if (p->encap_len != OUTER_LEN + GENEVE_HEADER_LEN || p->gso_size == 0 || !find_inner(p, at))
        return false;
    bool is_tcp = at->protocol == IPPROTO_TCP4;
    if (is_tcp != (p->gso_type != GSO_UDP) || (at->ip_version != 4 && at->ip_version != 6) ||
        (p->gso_type == GSO_TCP4 && at->ip_version != 4) || (p->gso_type == GSO_TCP6 && at->ip_version != 6))
        return false;
    plan->frame = p->data;
    plan->header_len = (uint32_t)at->payload - OUTER_LEN;
    plan->payload_len = p->len - at->payload;
    plan->mss = p->gso_size;
    uint32_t datagram = plan->header_len + plan->mss;
    if (plan->header_len > GSO_MAX_HEADERS || datagram > GSO_MAX_FRAME - OUTER_LEN)
        return false;
    plan->segments = plan->payload_len ? (plan->payload_len + plan->mss - 1) / plan->mss : 1;
    plan->per_write = MIN((GSO_MAX_FRAME - OUTER_LEN) / datagram, GSO_MAX_SEGMENTS);
    const uint8_t *ip = p->data + at->l3;
    plan->pseudo_sum = at->ip_version == 4 ? checksum_add(0, ip + 12, 8) : checksum_add(0, ip + 8, 32);
    plan->pseudo_sum += (uint64_t)__builtin_bswap16(at->protocol);
    return true;
}

uint32_t gso_plan_mtu(const struct gso_plan *plan)
{
    return OUTER_LEN - ETHERNET_LEN + plan->header_len + MIN(plan->mss, plan->payload_len);
}

static void set_lengths(uint8_t *h, const struct gso_plan *plan, unsigned index, uint32_t payload)
{
    uint8_t *ip = h + plan->at.l3 - OUTER_LEN;
    uint32_t l4_len = (uint32_t)(plan->at.payload - plan->at.l4) + payload;
    uint32_t ip_header = (uint32_t)(plan->at.l4 - plan->at.l3);
    if (plan->at.ip_version == 4) {
        store_be16(ip + 2, (uint16_t)(ip_header + l4_len));
        store_be16(ip + 4, (uint16_t)(load_be16(ip + 4) + index));
        checksum_write_ip4(ip);
    } else {
        store_be16(ip + 4, (uint16_t)(ip_header - 40 + l4_len));
    }
    if (plan->at.protocol == IPPROTO_UDP4)
        store_be16(h + plan->at.l4 - OUTER_LEN + 4, (uint16_t)l4_len);
}

static void set_tcp(uint8_t *tcp, const struct gso_plan *plan, unsigned index)
{
    store_be32(tcp + 4, load_be32(tcp + 4) + index * plan->mss);
    if (index + 1 < plan->segments)
        tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    if (index > 0)
        tcp[13] &= (uint8_t)~TCP_CWR;
}

static void set_checksum(uint8_t *l4, const struct gso_plan *plan, const uint8_t *payload, uint32_t payload_len)
{
    bool udp = plan->at.protocol == IPPROTO_UDP4;
    uint8_t *field = l4 + (udp ? UDP_CSUM_OFFSET : TCP_CSUM_OFFSET);
    uint32_t header = (uint32_t)(plan->at.payload - plan->at.l4);
    memset(field, 0, 2);
    uint64_t sum = plan->pseudo_sum + __builtin_bswap16((uint16_t)(header + payload_len));
    sum = checksum_add(sum, l4, header);
    uint16_t check = (uint16_t)~checksum_fold(checksum_add(sum, payload, payload_len));
    if (udp && check == 0)
        check = 0xffff;
    memcpy(field, &check, 2);
}

static uint32_t put_segment(struct gso_writer *w, const struct gso_plan *plan, unsigned slot, unsigned index)
{
    uint32_t at = index * plan->mss, payload_len = MIN(plan->mss, plan->payload_len - at);
    const uint8_t *payload = plan->frame + plan->at.payload + at;
    uint8_t *h = w->headers[slot];
    memcpy(h, plan->frame + OUTER_LEN, plan->header_len);
    set_lengths(h, plan, index, payload_len);
    uint8_t *l4 = h + plan->at.l4 - OUTER_LEN;
    if (plan->at.protocol == IPPROTO_TCP4)
        set_tcp(l4, plan, index);
    set_checksum(l4, plan, payload, payload_len);
    w->iov[w->n_iov++] = (struct iovec){h, plan->header_len};
    w->iov[w->n_iov++] = (struct iovec){(uint8_t *)payload, payload_len};
    return plan->header_len + payload_len;
}

void underlay_outer_partial(uint8_t *frame, struct virtio_net_hdr *vnet)
{
    uint8_t *udp = frame + OUTER_UDP;
    uint64_t sum = checksum_add(0, frame + ETHERNET_LEN + 8, 32);
    sum += (uint64_t)__builtin_bswap16(load_be16(udp + 4)) + __builtin_bswap16(IPPROTO_UDP4);
    uint16_t check = checksum_fold(sum);
    memcpy(udp + UDP_CSUM_OFFSET, &check, 2);
    vnet->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    vnet->csum_start = OUTER_UDP;
    vnet->csum_offset = UDP_CSUM_OFFSET;
}

unsigned gso_build(struct gso_writer *w, const struct gso_plan *plan, unsigned first)
{
    unsigned count = MIN(plan->segments - first, plan->per_write);
    uint32_t payload = 0;
    w->n_iov = 2;
    for (unsigned i = 0; i < count; i++)
        payload += put_segment(w, plan, i, first + i);
    memcpy(w->outer, plan->frame, OUTER_LEN);
    store_be16(w->outer + ETHERNET_LEN + 4, (uint16_t)(8 + payload));
    store_be16(w->outer + OUTER_UDP + 4, (uint16_t)(8 + payload));
    w->bytes = OUTER_LEN + payload;
    w->vnet = (struct virtio_net_hdr){.hdr_len = OUTER_LEN};
    if (count > 1) {
        w->vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
        w->vnet.gso_size = (uint16_t)(plan->header_len + plan->mss);
    }
    underlay_outer_partial(w->outer, &w->vnet);
    w->iov[0] = (struct iovec){&w->vnet, VNET_HDR_LEN};
    w->iov[1] = (struct iovec){w->outer, OUTER_LEN};
    return count;
}
