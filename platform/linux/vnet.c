// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/vnet.h"

#include "engine/checksum.h"
#include "engine/parse.h"

static bool gso_from_vnet(const struct virtio_net_hdr *h, struct packet *p)
{
    switch (h->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
    case VIRTIO_NET_HDR_GSO_NONE:
        p->gso_type = GSO_NONE;
        p->gso_size = 0;
        return true;
    case VIRTIO_NET_HDR_GSO_TCPV4:
        p->gso_type = GSO_TCP4;
        break;
    case VIRTIO_NET_HDR_GSO_TCPV6:
        p->gso_type = GSO_TCP6;
        break;
    case VIRTIO_NET_HDR_GSO_UDP_L4:
        p->gso_type = GSO_UDP;
        break;
    default: // UFO and what may come
        return false;
    }
    p->gso_size = h->gso_size;
    return h->gso_size != 0 && h->gso_size != 0xffff; // 0xffff is the kernel's GSO_BY_FRAGS
}

bool vnet_to_packet(const struct virtio_net_hdr *h, struct packet *p)
{
    p->csum_start = p->csum_offset = 0;
    if (h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
        if (h->csum_start < ETHERNET_LEN || (uint32_t)h->csum_start + h->csum_offset + 2 > p->len)
            return false;
        p->csum = CSUM_PARTIAL;
        p->csum_start = h->csum_start;
        p->csum_offset = h->csum_offset;
    } else {
        p->csum = h->flags & VIRTIO_NET_HDR_F_DATA_VALID ? CSUM_VERIFIED : CSUM_FULL;
    }
    return gso_from_vnet(h, p);
}

static bool l4_payload(const uint8_t *frame, uint32_t len, struct vnet_headers *out)
{
    uint32_t header = 8;
    if (out->protocol == IPPROTO_TCP4) {
        if (len < out->l4 + 20u)
            return false;
        header = (uint32_t)(frame[out->l4 + 12] >> 4) * 4;
        if (header < 20)
            return false;
    } else if (out->protocol != IPPROTO_UDP4) {
        return false;
    }
    out->payload = (uint16_t)(out->l4 + header);
    return len >= out->l4 + header;
}

bool vnet_find_headers(const uint8_t *frame, uint32_t len, uint16_t l2, struct vnet_headers *out)
{
    if (len < l2 + ETHERNET_LEN + 20u)
        return false;
    uint16_t ethertype = load_be16(frame + l2 + 12);
    const uint8_t *ip = frame + l2 + ETHERNET_LEN;
    out->l3 = (uint16_t)(l2 + ETHERNET_LEN);
    if (ethertype == ETHERTYPE_IPV4) {
        uint32_t header = (uint32_t)(ip[0] & 15) * 4;
        if (ip[0] >> 4 != 4 || header < 20 || (load_be16(ip + 6) & 0x3fff) != 0)
            return false;
        out->ip_version = 4;
        out->protocol = ip[9];
        out->l4 = (uint16_t)(out->l3 + header);
        return l4_payload(frame, len, out);
    }
    if (ethertype != ETHERTYPE_IPV6 || ip[0] >> 4 != 6 || len < l2 + ETHERNET_LEN + 40u)
        return false;
    out->ip_version = 6;
    out->protocol = ip[6];
    out->l4 = (uint16_t)(out->l3 + 40);
    return l4_payload(frame, len, out);
}

static uint64_t pseudo_sum(const uint8_t *frame, const struct vnet_headers *at, uint32_t l4_len)
{
    const uint8_t *ip = frame + at->l3;
    struct ip_addr src = at->ip_version == 4 ? ip_from_v4(ip + 12) : ip_from_v6(ip + 8);
    struct ip_addr dst = at->ip_version == 4 ? ip_from_v4(ip + 16) : ip_from_v6(ip + 24);
    return checksum_pseudo(&src, &dst, at->protocol, l4_len);
}

bool vnet_make_partial(struct packet *p)
{
    struct vnet_headers at;
    if (p->csum == CSUM_PARTIAL)
        return true;
    if (!vnet_find_headers(p->data, p->len, p->encap_len, &at))
        return false;
    p->csum = CSUM_PARTIAL;
    p->csum_start = at.l4;
    p->csum_offset = at.protocol == IPPROTO_TCP4 ? TCP_CSUM_OFFSET : UDP_CSUM_OFFSET;
    uint16_t sum = checksum_fold(pseudo_sum(p->data, &at, p->len - at.l4));
    __builtin_memcpy(p->data + at.l4 + p->csum_offset, &sum, 2);
    return true;
}

void vnet_complete_checksum(struct packet *p)
{
    if (p->csum != CSUM_PARTIAL)
        return;
    p->csum = CSUM_FULL;
    if ((uint32_t)p->csum_start + p->csum_offset + 2 > p->len)
        return;
    // The field holds the pseudo-header sum, so the sum over everything completes it.
    uint8_t *l4 = p->data + p->csum_start;
    uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, l4, p->len - p->csum_start));
    if (sum == 0 && p->csum_offset == UDP_CSUM_OFFSET)
        sum = 0xffff; // RFC 768: zero means none
    __builtin_memcpy(l4 + p->csum_offset, &sum, 2);
}

static bool gso_to_vnet(struct packet *p, struct virtio_net_hdr *h)
{
    struct vnet_headers at = {.l4 = 0};
    if (!vnet_make_partial(p))
        return false;
    at.l4 = p->csum_start;
    at.protocol = p->gso_type == GSO_UDP ? IPPROTO_UDP4 : IPPROTO_TCP4;
    if (!l4_payload(p->data, p->len, &at))
        return false;
    static const uint8_t types[] = {[GSO_TCP4] = VIRTIO_NET_HDR_GSO_TCPV4,
                                    [GSO_TCP6] = VIRTIO_NET_HDR_GSO_TCPV6,
                                    [GSO_UDP] = VIRTIO_NET_HDR_GSO_UDP_L4};
    h->gso_type = types[p->gso_type];
    if (p->gso_type != GSO_UDP && p->data[at.l4 + 13] & 0x80) // CWR: on the first segment only
        h->gso_type |= VIRTIO_NET_HDR_GSO_ECN;
    h->gso_size = p->gso_size;
    h->hdr_len = at.payload;
    return true;
}

bool vnet_from_packet(struct packet *p, struct virtio_net_hdr *h)
{
    *h = (struct virtio_net_hdr){0};
    if (p->gso_type > GSO_UDP)
        return false;
    if (p->gso_type != GSO_NONE && !gso_to_vnet(p, h))
        return false;
    if (p->csum == CSUM_PARTIAL) {
        if ((uint32_t)p->csum_start + p->csum_offset + 2 > p->len)
            return false;
        h->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        h->csum_start = p->csum_start;
        h->csum_offset = p->csum_offset;
    } else if (p->csum == CSUM_VERIFIED) {
        h->flags = VIRTIO_NET_HDR_F_DATA_VALID;
    }
    return true;
}
