// SPDX-License-Identifier: MPL-2.0
#include "engine/transposition.h"

#include "engine/checksum.h"
#include "engine/crc32c.h"
#include "engine/hit_path.h"

enum { TCP_OPT_END = 0, TCP_OPT_NOP = 1, TCP_OPT_MSS = 2 };

static inline bool is_icmp(uint8_t ip_version, uint8_t protocol)
{
    return protocol == (ip_version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6);
}

static inline bool has_ports(uint8_t protocol)
{
    return protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4 || protocol == IPPROTO_SCTP4;
}

// Does a change of address change the L4 checksum?
static inline bool has_pseudo_header(uint8_t ip_version, uint8_t protocol)
{
    return protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4 || (ip_version == 6 && protocol == IPPROTO_ICMP6);
}

void transposition_compose(struct transposition *xp, const struct transposition *next)
{
    uint16_t f = next->flags;
    if (f & XP_SRC_MAC)
        xp->src_mac = next->src_mac;
    if (f & XP_DST_MAC)
        xp->dst_mac = next->dst_mac;
    if (f & XP_SRC_IP)
        xp->src_ip = next->src_ip;
    if (f & XP_DST_IP)
        xp->dst_ip = next->dst_ip;
    if (f & XP_SRC_PORT)
        xp->src_port = next->src_port;
    if (f & XP_DST_PORT)
        xp->dst_port = next->dst_port;
    xp->flags |= f;
    if (next->to != XP_NOWHERE) {
        xp->to = next->to;
        xp->dest = next->dest;
        xp->vni = next->vni;
    }
}

// Keeps an address write only where it changes something; adds to the delta what it changes.
static void finish_address(struct transposition *xp, uint16_t flag, struct ip_addr *to, const struct ip_addr *from,
                           uint8_t ip_version)
{
    if (!(xp->flags & flag) || ip_equal(to, from)) {
        xp->flags &= (uint16_t)~flag;
        __builtin_memset(to, 0, sizeof(*to));
        return;
    }
    unsigned at = ip_version == 4 ? 12 : 0;
    xp->ip_delta = checksum_delta_add(xp->ip_delta, checksum_delta(from->b + at, to->b + at, 16 - at));
}

static void finish_port(struct transposition *xp, uint16_t flag, bool possible, uint16_t *to, uint16_t from)
{
    if (!(xp->flags & flag) || !possible || *to == from) {
        xp->flags &= (uint16_t)~flag;
        *to = 0;
        return;
    }
    xp->l4_delta = checksum_delta_add(xp->l4_delta, checksum_delta(&from, to, 2));
}

void transposition_finish(struct transposition *xp, const struct flow_key *key)
{
    xp->ip_delta = xp->l4_delta = 0;
    finish_address(xp, XP_SRC_IP, &xp->src_ip, &key->src, key->ip_version);
    finish_address(xp, XP_DST_IP, &xp->dst_ip, &key->dst, key->ip_version);
    bool ports = has_ports(key->protocol);
    bool id = is_icmp(key->ip_version, key->protocol) && icmp_has_id(key->protocol, (uint8_t)(key->dport & 0xff));
    finish_port(xp, XP_SRC_PORT, ports || id, &xp->src_port, key->sport);
    finish_port(xp, XP_DST_PORT, ports, &xp->dst_port, key->dport);
    if (has_pseudo_header(key->ip_version, key->protocol))
        xp->l4_delta = checksum_delta_add(xp->l4_delta, xp->ip_delta);
    if (key->protocol != IPPROTO_TCP4)
        xp->flags &= (uint16_t)~XP_CLAMP_MSS;
}

static inline bool is_partial(const struct packet *p, uint32_t l4)
{
    return p->csum == CSUM_PARTIAL && p->csum_start == l4;
}

static inline void adjust(uint8_t *at, uint16_t delta)
{
    uint16_t field;
    __builtin_memcpy(&field, at, 2);
    field = checksum_adjust(field, delta);
    __builtin_memcpy(at, &field, 2);
}

// Lowers the MSS option to `mss`. Options may stand at odd offsets: there the delta's bytes change places.
static void clamp_mss(struct packet *p, const struct parsed *pp, uint16_t mss)
{
    uint8_t *tcp = p->data + pp->l4;
    uint32_t end = (uint32_t)(pp->payload - pp->l4), at = 20;
    while (at + 4 <= end && tcp[at] != TCP_OPT_END) {
        if (tcp[at] == TCP_OPT_NOP) {
            at++;
            continue;
        }
        uint32_t len = tcp[at + 1];
        if (tcp[at] == TCP_OPT_MSS && len == 4) {
            if (load_be16(tcp + at + 2) <= mss)
                return;
            uint8_t old[2] = {tcp[at + 2], tcp[at + 3]};
            store_be16(tcp + at + 2, mss);
            uint16_t delta = checksum_delta(old, tcp + at + 2, 2);
            if (!is_partial(p, pp->l4))
                adjust(tcp + 16, at & 1 ? __builtin_bswap16(delta) : delta);
            return;
        }
        if (len < 2)
            return;
        at += len;
    }
}

static void rewrite_icmp(const struct transposition *xp, struct packet *p, const struct parsed *pp)
{
    uint8_t *icmp = p->data + pp->l4;
    bool id = pp->flags & PARSE_HAS_ICMP_ID;
    uint16_t address = pp->protocol == IPPROTO_ICMP6 ? xp->ip_delta : 0;
    if (is_partial(p, pp->l4)) {
        uint16_t sum;
        __builtin_memcpy(&sum, icmp + 2, 2);
        sum = checksum_delta_add(sum, address);
        __builtin_memcpy(icmp + 2, &sum, 2);
    } else {
        adjust(icmp + 2, id ? xp->l4_delta : address);
    }
    if (id && (xp->flags & XP_SRC_PORT))
        __builtin_memcpy(icmp + 4, &xp->src_port, 2);
}

// SCTP's CRC covers no addresses. A first fragment's covers bytes that are not here: only its length would be needed,
// which nobody knows yet, so it goes out wrong and is dropped by its receiver.
static void rewrite_sctp(const struct transposition *xp, struct packet *p, const struct parsed *pp)
{
    uint8_t *sctp = p->data + pp->l4;
    uint8_t change[4];
    __builtin_memcpy(change, sctp, 4);
    if (xp->flags & XP_SRC_PORT)
        __builtin_memcpy(sctp, &xp->src_port, 2);
    if (xp->flags & XP_DST_PORT)
        __builtin_memcpy(sctp + 2, &xp->dst_port, 2);
    uint32_t crc, zero = 0;
    __builtin_memcpy(&crc, sctp + 8, 4);                       // stored low byte first (RFC 9260 appendix A)
    if (__builtin_memcmp(change, sctp, 4) == 0 || crc == zero) // RFC 9653: zero is "none"
        return;
    for (unsigned i = 0; i < 4; i++)
        change[i] ^= sctp[i];
    crc ^= crc32c_change(change, pp->l3 + pp->ip_len - pp->l4 - 4u);
    __builtin_memcpy(sctp + 8, &crc, 4);
}

void transposition_apply(const struct transposition *xp, struct packet *p, const struct parsed *pp, uint16_t mss)
{
    if (pp->l4 && (pp->protocol == IPPROTO_TCP4 || pp->protocol == IPPROTO_UDP4)) {
        hit_rewrite(xp, p, pp->l3, pp->l4, pp->ip_version, pp->protocol);
        if (unlikely((xp->flags & XP_CLAMP_MSS) && mss && pp->protocol == IPPROTO_TCP4 && (pp->tcp_flags & TCP_SYN)))
            clamp_mss(p, pp, mss);
        return;
    }
    hit_rewrite_l3(xp, p->data, pp->l3, pp->ip_version);
    if (!pp->l4)
        return;
    if (pp->protocol == IPPROTO_SCTP4)
        rewrite_sctp(xp, p, pp);
    else
        rewrite_icmp(xp, p, pp);
}

// Writes n bytes (even, at an even offset) and returns the delta.
static uint16_t put(uint8_t *at, const void *bytes, size_t n)
{
    uint16_t delta = checksum_delta(at, bytes, n);
    __builtin_memcpy(at, bytes, n);
    return delta;
}

static uint16_t put_address(uint8_t *ip, uint8_t ip_version, bool dst, const struct ip_addr *a)
{
    if (ip_version == 4)
        return put(ip + (dst ? 16 : 12), a->b + 12, 4);
    return put(ip + (dst ? 24 : 8), a->b, 16);
}

// Adjusts a checksum field; returns the delta of the field itself.
static uint16_t put_checksum(uint8_t *at, uint16_t delta, bool udp)
{
    uint16_t field;
    __builtin_memcpy(&field, at, 2);
    field = checksum_adjust(field, delta);
    if (udp && field == 0)
        field = 0xffff;
    return put(at, &field, 2);
}

// Ports of the quoted packet; its source is the other side's destination.
static uint16_t rewrite_quoted_ports(const struct transposition *xp, uint8_t *l4, const struct parsed_embedded *inner)
{
    uint16_t delta = 0;
    if (is_icmp(inner->ip_version, inner->protocol)) {
        if ((xp->flags & XP_SRC_PORT) && icmp_has_id(inner->protocol, l4[0]))
            delta = put(l4 + 4, &xp->src_port, 2);
    } else if (has_ports(inner->protocol)) {
        if (xp->flags & XP_DST_PORT)
            delta = put(l4, &xp->dst_port, 2);
        if (xp->flags & XP_SRC_PORT)
            delta = checksum_delta_add(delta, put(l4 + 2, &xp->src_port, 2));
    }
    return delta;
}

// Where the quoted L4 checksum lies; 0 when there is none, or it was cut off.
static uint32_t quoted_checksum(const uint8_t *l4, const struct parsed_embedded *inner)
{
    if (inner->protocol == IPPROTO_TCP4)
        return inner->l4_available >= 18 ? 16 : 0;
    if (inner->protocol == IPPROTO_UDP4)
        return l4[6] | l4[7] ? 6 : 0;
    return is_icmp(inner->ip_version, inner->protocol) ? 2 : 0;
}

// The quoted packet travelled against xp's direction. Returns the delta of everything that was written.
static uint16_t rewrite_quoted(const struct transposition *xp, struct packet *p, const struct parsed_embedded *inner)
{
    uint8_t *ip = p->data + inner->l3, *l4 = p->data + inner->l4;
    uint16_t address = 0;
    if (xp->flags & XP_DST_IP)
        address = put_address(ip, inner->ip_version, false, &xp->dst_ip);
    if (xp->flags & XP_SRC_IP)
        address = checksum_delta_add(address, put_address(ip, inner->ip_version, true, &xp->src_ip));
    uint16_t port = rewrite_quoted_ports(xp, l4, inner);
    uint16_t all = checksum_delta_add(address, port);
    if (inner->ip_version == 4)
        all = checksum_delta_add(all, put_checksum(ip + 10, address, false));
    uint32_t at = quoted_checksum(l4, inner);
    if (at) {
        if (has_pseudo_header(inner->ip_version, inner->protocol))
            port = checksum_delta_add(port, address);
        all = checksum_delta_add(all, put_checksum(l4 + at, port, inner->protocol == IPPROTO_UDP4));
    }
    return all;
}

void transposition_apply_icmp_error(const struct transposition *xp, const struct flow_key *flow, struct packet *p,
                                    const struct parsed *pp, const struct parsed_embedded *inner)
{
    uint16_t quoted = rewrite_quoted(xp, p, inner);

    // The outer header is a flow of its own: its addresses are the sender's, maybe a router's between the peers.
    struct transposition outer = *xp;
    if (!ip_equal(&pp->src, &flow->src))
        outer.flags &= (uint16_t)~XP_SRC_IP;
    struct flow_key key = {.src = pp->src, .dst = pp->dst, .ip_version = pp->ip_version, .protocol = pp->protocol};
    key.dport = pp->dport; // an error: no identifier
    transposition_finish(&outer, &key);
    if (!is_partial(p, pp->l4))
        outer.l4_delta = checksum_delta_add(outer.l4_delta, quoted);
    hit_rewrite_l3(&outer, p->data, pp->l3, pp->ip_version);
    uint8_t *field = p->data + pp->l4 + 2;
    if (is_partial(p, pp->l4)) {
        uint16_t sum;
        __builtin_memcpy(&sum, field, 2);
        sum = checksum_delta_add(sum, outer.l4_delta);
        __builtin_memcpy(field, &sum, 2);
    } else {
        adjust(field, outer.l4_delta);
    }
}
