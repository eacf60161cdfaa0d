// SPDX-License-Identifier: MPL-2.0
// Echo replies. The request is turned round in place and its payload never read: a ping of any size works,
// scattered or in fragments. The checksum follows the type by difference (RFC 1624); a request with a wrong
// one is answered with an equally wrong one, and the guest's own stack discards it.
#include "vpc/gateway/gateway_private.h"

bool gateway_icmp_is_echo(const struct parsed *pp)
{
    if (pp->protocol != (pp->ip_version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6))
        return false;
    // A later fragment of ICMP to the gateway is most likely an echo's, and can only go back to its sender.
    return (pp->flags & PARSE_FRAG_LATER) || pp->icmp_type == (pp->ip_version == 4 ? ICMP4_ECHO : ICMP6_ECHO);
}

static void swap(uint8_t *a, uint8_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

static void turn_ip(uint8_t *h, uint8_t version)
{
    if (version == 4) {
        swap(h + 12, h + 16, 4);
        h[8] = REPLY_TTL;
        checksum_write_ip4(h);
    } else {
        swap(h + 8, h + 24, 16);
        h[7] = REPLY_TTL;
    }
}

// The addresses' swap leaves the pseudo-header's sum as it was, so only the type counts.
static void turn_icmp(struct packet *p, const struct parsed *pp)
{
    uint8_t *icmp = p->data + pp->l4, old[2];
    memcpy(old, icmp, 2);
    icmp[0] = pp->ip_version == 4 ? ICMP4_ECHO_REPLY : ICMP6_ECHO_REPLY;
    if (p->csum != CSUM_PARTIAL) {
        uint16_t field;
        memcpy(&field, icmp + 2, 2);
        field = checksum_adjust(field, checksum_delta(old, icmp, 2));
        memcpy(icmp + 2, &field, 2);
        return;
    }
    uint32_t len = gateway_l4_len(pp);
    if (pp->l4 + len > p->head) // the payload is out of reach: the field is still the pseudo-header's sum
        return;
    checksum_write_l4(icmp, len, &pp->dst, &pp->src, pp->protocol);
    p->csum = CSUM_FULL;
}

enum gateway_verdict gateway_icmp_echo_out(struct ask *a)
{
    struct packet *p = a->p;
    const struct parsed *pp = a->pp;
    bool later = pp->flags & PARSE_FRAG_LATER;
    uint32_t ip_header = pp->ip_version == 4 ? IP4_LEN : IP6_LEN;
    uint32_t needed = later ? pp->l3 + ip_header : pp->l4 + 8u;
    if (needed > p->head || (!later && gateway_l4_len(pp) < 8))
        return refused(a, DROP_TRUNCATED);
    if (p->csum == CSUM_PARTIAL && p->csum_start != pp->l4) // an unfinished checksum inside the payload
        return refused(a, DROP_L4_CHECKSUM);

    gateway_reply_ethernet(p, &pp->src_mac, &a->g->b->gateway.mac, pp->ethertype);
    if (!later)
        turn_icmp(p, pp);
    turn_ip(p->data + pp->l3, pp->ip_version);
    return gateway_answered(a, "ICMP echo to", &pp->dst);
}
