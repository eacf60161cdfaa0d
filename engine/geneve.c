// SPDX-License-Identifier: MPL-2.0
#include "engine/geneve.h"

#include "engine/checksum.h"
#include "engine/flow_key.h"
#include "engine/parse.h"

// Offsets in the outer frame.
enum { OUTER_IP = 14, OUTER_UDP = 54, OUTER_GENEVE = 62, OUTER_OPTIONS = 70 };
_Static_assert(OUTER_OPTIONS == GENEVE_ENCAP_LEN, "options would follow the template");

enum { GENEVE_PROTOCOL_ETHERNET = 0x6558, GENEVE_OAM_BIT = 0x80, GENEVE_CRITICAL_TYPE = 0x80 };
enum { ECN_NOT_ECT = 0, ECN_ECT1 = 1, ECN_ECT0 = 2, ECN_CE = 3 };

void geneve_template_init(struct geneve_template *t, const struct ip_addr *src, const struct ip_addr *dst,
                          uint8_t hop_limit)
{
    uint8_t *b = t->bytes;
    __builtin_memset(t, 0, sizeof(*t));
    store_be16(b + 12, ETHERTYPE_IPV6);
    b[OUTER_IP] = 0x60;
    b[OUTER_IP + 6] = IPPROTO_UDP4;
    b[OUTER_IP + 7] = hop_limit;
    __builtin_memcpy(b + OUTER_IP + 8, src->b, 16);
    __builtin_memcpy(b + OUTER_IP + 24, dst->b, 16);
    store_be16(b + OUTER_UDP + 2, GENEVE_UDP_PORT);
    store_be16(b + OUTER_GENEVE + 2, GENEVE_PROTOCOL_ETHERNET);
}

void geneve_encap(struct packet *p, const struct geneve_template *t, uint32_t vni, uint64_t hash, uint8_t inner_tos)
{
    packet_push(p, GENEVE_ENCAP_LEN);
    p->encap_len = GENEVE_ENCAP_LEN;
    uint8_t *b = p->data;
    __builtin_memcpy(b, t->bytes, GENEVE_ENCAP_LEN);
    uint32_t length = p->len - OUTER_UDP;
    if (length > 65535)
        length = 0; // a super-frame: each segment gets its own
    store_be32(b + OUTER_IP, 0x60000000u | (uint32_t)inner_tos << 20 | (uint32_t)(hash & 0xfffff));
    store_be16(b + OUTER_IP + 4, (uint16_t)length);
    store_be16(b + OUTER_UDP, flow_entropy_port(hash));
    store_be16(b + OUTER_UDP + 4, (uint16_t)length);
    store_be32(b + OUTER_GENEVE + 4, vni << 8);
}

// Options are framed right and none is critical: no option is known here. `b`..`b + len` lies in the head.
static enum drop check_options(const uint8_t *b, uint32_t len)
{
    for (uint32_t at = 0; at < len;) {
        if (len - at < 4)
            return DROP_GENEVE_LENGTH;
        uint32_t option = 4 + (b[at + 3] & 0x1fu) * 4;
        if (option > len - at)
            return DROP_GENEVE_LENGTH;
        if (b[at + 2] & GENEVE_CRITICAL_TYPE)
            return DROP_GENEVE_CRITICAL;
        at += option;
    }
    return DROP_NONE;
}

static enum drop check_geneve(const struct packet *p, struct geneve_info *out, uint32_t udp_len)
{
    const uint8_t *g = p->data + OUTER_GENEVE;
    uint32_t options = (g[0] & 0x3fu) * 4;
    if (g[0] >> 6 != 0)
        return DROP_GENEVE_VERSION;
    if (8 + 8 + options > udp_len || OUTER_OPTIONS + options > p->head)
        return DROP_GENEVE_LENGTH;
    if (g[1] & GENEVE_OAM_BIT)
        return DROP_GENEVE_OAM;
    enum drop d = check_options(g + 8, options);
    if (d)
        return d;
    if (load_be16(g + 2) != GENEVE_PROTOCOL_ETHERNET)
        return DROP_GENEVE_PROTOCOL;
    out->vni = load_be32(g + 4) >> 8;
    out->inner = (uint16_t)(OUTER_OPTIONS + options);
    return DROP_NONE;
}

static enum drop check_udp_checksum(const struct packet *p, const struct geneve_info *out, uint32_t udp_len,
                                    bool allow_zero)
{
    const uint8_t *udp = p->data + OUTER_UDP;
    if (p->csum == CSUM_VERIFIED)
        return DROP_NONE;
    if (p->csum == CSUM_PARTIAL && p->csum_start == OUTER_UDP)
        return DROP_NONE; // never left this machine
    if (load_be16(udp + 6) == 0)
        return allow_zero ? DROP_NONE : DROP_OUTER_CHECKSUM;
    if (OUTER_UDP + udp_len > p->head)
        return DROP_OUTER_CHECKSUM; // scattered: the driver has to verify it
    uint64_t sum = checksum_pseudo(&out->outer_src, &out->outer_dst, IPPROTO_UDP4, udp_len);
    return checksum_fold(checksum_add(sum, udp, udp_len)) == 0xffff ? DROP_NONE : DROP_OUTER_CHECKSUM;
}

enum drop geneve_parse(struct packet *p, struct geneve_info *out, bool allow_zero_checksum)
{
    const uint8_t *b = p->data, *ip = b + OUTER_IP, *udp = b + OUTER_UDP;
    if (p->head < OUTER_OPTIONS || load_be16(b + 12) != ETHERTYPE_IPV6 || ip[0] >> 4 != 6)
        return DROP_OUTER_INVALID;
    uint32_t payload = load_be16(ip + 4), udp_len = load_be16(udp + 4);
    if (ip[6] != IPPROTO_UDP4 || payload > p->len - OUTER_UDP || load_be16(udp + 2) != GENEVE_UDP_PORT)
        return DROP_OUTER_INVALID;
    if (udp_len < 16 || udp_len > payload)
        return DROP_OUTER_INVALID;
    out->outer_src = ip_from_v6(ip + 8);
    out->outer_dst = ip_from_v6(ip + 24);
    out->outer_tos = (uint8_t)(load_be16(ip) >> 4);
    out->outer_hop_limit = ip[7];

    enum drop d = check_geneve(p, out, udp_len);
    if (!d)
        d = check_udp_checksum(p, out, udp_len, allow_zero_checksum);
    if (d)
        return d;
    // What was said of the outer checksum says nothing of the inner one, which its sender may have got wrong.
    // A super-frame is another matter: to put it together the driver verified each segment of it.
    if (p->gso_type == GSO_NONE && (p->csum != CSUM_PARTIAL || p->csum_start < out->inner))
        p->csum = CSUM_FULL;
    p->len = OUTER_UDP + udp_len;
    p->head = MIN(p->head, p->len);
    return DROP_NONE;
}

bool geneve_decap_ecn(uint8_t *inner_ip, uint8_t ip_version, uint8_t outer_tos)
{
    uint8_t outer = outer_tos & 3;
    uint8_t tos = ip_version == 4 ? inner_ip[1] : (uint8_t)(load_be16(inner_ip) >> 4);
    uint8_t inner = tos & 3, result = inner;
    if (outer == ECN_CE) {
        if (inner == ECN_NOT_ECT)
            return false;
        result = ECN_CE;
    } else if (outer == ECN_ECT1 && inner == ECN_ECT0) {
        result = ECN_ECT1;
    }
    if (result == inner)
        return true;
    tos = (uint8_t)((tos & 0xfc) | result);
    if (ip_version == 6) {
        store_be16(inner_ip, (uint16_t)((load_be16(inner_ip) & 0xf00f) | tos << 4));
        return true;
    }
    uint8_t old[2] = {inner_ip[0], inner_ip[1]};
    inner_ip[1] = tos;
    uint16_t field;
    __builtin_memcpy(&field, inner_ip + 10, 2);
    field = checksum_adjust(field, checksum_delta(old, inner_ip, 2));
    __builtin_memcpy(inner_ip + 10, &field, 2);
    return true;
}
