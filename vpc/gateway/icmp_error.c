// SPDX-License-Identifier: MPL-2.0
// ICMP errors (RFC 792, RFC 1812 section 4.3, RFC 4443) and TCP resets in answer to a packet, which they replace.
#include "vpc/gateway/gateway_private.h"

#define ICMP_LEN 8
#define TCP_LEN 20
#define ICMP4_ERROR_MAX 576  // whole datagram, RFC 1812 section 4.3.2.3
#define ICMP6_ERROR_MAX 1280 // whole packet, RFC 4443 section 2.4 c

static const struct {
    uint8_t type4, code4, type6, code6;
} problems[] = {
    [ICMP_TOO_BIG] = {3, 4, 2, 0},
    [ICMP_TTL_EXPIRED] = {11, 0, 3, 0},
    [ICMP_ADMIN_PROHIBITED] = {3, 13, 1, 1},
    [ICMP_NO_ROUTE] = {3, 0, 1, 0},
};

// One host sent it, to one host; so an answer cannot be turned against a group.
static bool is_between_hosts(const struct parsed *pp)
{
    if (pp->ip_version != 4 && pp->ip_version != 6)
        return false;
    if (ip_is_unspecified(&pp->src) || ip_is_multicast(&pp->src) || ip_is_v4_broadcast(&pp->src))
        return false;
    return !ip_is_multicast(&pp->dst) && !ip_is_v4_broadcast(&pp->dst) && !mac_is_multicast(&pp->dst_mac);
}

static bool may_have_error(const struct parsed *pp)
{
    if (!is_between_hosts(pp) || (pp->flags & (PARSE_FRAG_LATER | PARSE_ICMP_ERROR)))
        return false;
    bool icmp = pp->protocol == (pp->ip_version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6);
    if (!icmp)
        return true;
    // RFC 4443 section 2.4 e: nor about a redirect
    return !icmp_is_error(pp->protocol, pp->icmp_type) && !(pp->ip_version == 6 && pp->icmp_type == ND_REDIRECT);
}

// How much of the packet can be quoted: what is within reach, of the IP packet, without exceeding the limits.
static uint32_t quote_len(const struct packet *p, const struct parsed *pp, bool v6)
{
    uint32_t max = v6 ? ICMP6_ERROR_MAX - IP6_LEN - ICMP_LEN : ICMP4_ERROR_MAX - IP4_LEN - ICMP_LEN;
    uint32_t room = p->room - reply_l4_offset(v6) - ICMP_LEN;
    return MIN(MIN(p->head - pp->l3, pp->ip_len), MIN(max, room));
}

bool icmp_make_error(struct packet *p, const struct parsed *pp, enum icmp_problem problem, uint32_t mtu,
                     const struct ip_addr *from, const struct mac_addr *from_mac, const struct mac_addr *to_mac)
{
    bool v6 = pp->ip_version == 6;
    if ((unsigned)problem >= ARRAY_LEN(problems) || !may_have_error(pp))
        return false;
    if (ip_is_unspecified(from) || ip_is_v4(from) == v6 || pp->l3 >= p->head)
        return false;

    uint32_t quoted = quote_len(p, pp, v6);
    uint8_t *icmp = reply_l4(p, v6);
    memmove(icmp + ICMP_LEN, p->data + pp->l3, quoted);
    memset(icmp, 0, ICMP_LEN);
    icmp[0] = v6 ? problems[problem].type6 : problems[problem].type4;
    icmp[1] = v6 ? problems[problem].code6 : problems[problem].code4;
    if (problem == ICMP_TOO_BIG) {
        if (v6)
            store_be32(icmp + 4, mtu);
        else
            store_be16(icmp + 6, (uint16_t)MIN(mtu, 0xffff)); // RFC 1191 section 4
    }
    struct reply r = {.from_mac = *from_mac, .to_mac = *to_mac, .from = *from, .to = pp->src, .ttl = REPLY_TTL};
    r.protocol = v6 ? IPPROTO_ICMP6 : IPPROTO_ICMP4;
    gateway_reply_finish(p, &r, ICMP_LEN + quoted);
    return true;
}

bool tcp_make_reset(struct packet *p, const struct parsed *pp, const struct mac_addr *from_mac,
                    const struct mac_addr *to_mac)
{
    if (!is_between_hosts(pp) || pp->protocol != IPPROTO_TCP4 || (pp->flags & PARSE_FRAG_LATER))
        return false;
    if (!(pp->flags & PARSE_HAS_PORTS) || (pp->tcp_flags & TCP_RST))
        return false;

    uint8_t *tcp = reply_l4(p, pp->ip_version == 6);
    memset(tcp, 0, TCP_LEN);
    memcpy(tcp, &pp->dport, 2);
    memcpy(tcp + 2, &pp->sport, 2);
    tcp[12] = TCP_LEN / 4 << 4;
    if (pp->tcp_flags & TCP_ACK) {
        store_be32(tcp + 4, pp->tcp_ack);
        tcp[13] = TCP_RST;
    } else {
        uint32_t length = pp->l4_payload_len + !!(pp->tcp_flags & TCP_SYN) + !!(pp->tcp_flags & TCP_FIN);
        store_be32(tcp + 8, pp->tcp_seq + length);
        tcp[13] = TCP_RST | TCP_ACK;
    }
    struct reply r = {*from_mac, *to_mac, pp->dst, pp->src, IPPROTO_TCP4, REPLY_TTL};
    gateway_reply_finish(p, &r, TCP_LEN);
    return true;
}
