// SPDX-License-Identifier: MPL-2.0
#include "node/frame.h"

#include <string.h>

#include "engine/checksum.h"

enum { ICMP = 1, TCP = 6, UDP = 17, ICMP6 = 58, SCTP = 132 };
#define ETHERNET 14
#define DEFAULT_TTL 64

static const struct ip_addr *default_source(const struct blueprint *b, bool v4)
{
    for (uint32_t i = 0; i < b->l2.n_addresses; i++)
        if (ip_is_v4(&b->l2.addresses[i]) == v4)
            return &b->l2.addresses[i];
    return NULL;
}

// The gateway answers ARP for every address (T2), so its MAC is what a guest writes, whoever the peer is; only a
// guest that learnt a peer's MAC by itself would write that.
static void write_ethernet(uint8_t *f, const struct blueprint *b, bool out, bool v4)
{
    memcpy(f, out ? b->gateway.mac.b : b->l2.mac.b, 6);
    memcpy(f + 6, out ? b->l2.mac.b : b->gateway.mac.b, 6);
    store_be16(f + 12, v4 ? 0x0800 : 0x86dd);
}

static uint32_t l4_header(const struct trace_packet *t)
{
    switch (t->proto) {
    case TCP:
        return 20;
    case UDP:
    case ICMP:
    case ICMP6:
        return 8;
    case SCTP:
        return 12;
    default:
        return 0;
    }
}

static void write_l4(uint8_t *l4, uint32_t len, const struct trace_packet *t)
{
    switch (t->proto) {
    case TCP:
        store_be16(l4, t->sport);
        store_be16(l4 + 2, t->dport);
        store_be32(l4 + 4, 1);
        l4[12] = 5 << 4;
        l4[13] = t->flags;
        store_be16(l4 + 14, 65535);
        break;
    case UDP:
        store_be16(l4, t->sport);
        store_be16(l4 + 2, t->dport);
        store_be16(l4 + 4, (uint16_t)len);
        break;
    case SCTP:
        store_be16(l4, t->sport);
        store_be16(l4 + 2, t->dport);
        break;
    case ICMP:
    case ICMP6:
        l4[0] = t->has_icmp_type ? t->icmp_type : t->proto == ICMP ? 8 : 128;
        store_be16(l4 + 4, t->sport); // an echo's identifier
        break;
    default:
        break;
    }
}

static void write_ip4(uint8_t *ip, uint32_t len, const struct trace_packet *t, const struct ip_addr *src)
{
    ip[0] = 0x45;
    store_be16(ip + 2, (uint16_t)len);
    ip[6] = 0x40; // don't fragment
    ip[8] = DEFAULT_TTL;
    ip[9] = (uint8_t)t->proto;
    memcpy(ip + 12, src->b + 12, 4);
    memcpy(ip + 16, t->dst.b + 12, 4);
    checksum_write_ip4(ip);
}

static void write_ip6(uint8_t *ip, uint32_t len, const struct trace_packet *t, const struct ip_addr *src)
{
    ip[0] = 0x60;
    store_be16(ip + 4, (uint16_t)(len - 40));
    ip[6] = (uint8_t)t->proto;
    ip[7] = DEFAULT_TTL;
    memcpy(ip + 8, src->b, 16);
    memcpy(ip + 24, t->dst.b, 16);
}

uint32_t frame_make(const struct blueprint *b, const struct trace_packet *t, bool out, uint8_t frame[FRAME_MAX],
                    const char **why)
{
    bool v4 = ip_is_v4(&t->dst);
    const struct ip_addr *src = t->has_src ? &t->src : out ? default_source(b, v4) : NULL;
    *why = NULL;
    if (!src)
        *why = out ? "the port has no address of that family: say src" : "src is needed for a packet to the guest";
    else if (ip_is_v4(src) != v4)
        *why = "src and dst are of different families";
    else if (t->proto > 255)
        *why = "proto must be a protocol, not any";
    uint32_t ip_header = v4 ? 20 : 40, header = ip_header + l4_header(t);
    uint32_t len = t->has_length ? t->length : header;
    if (!*why && (len < header || len > FRAME_MAX - ETHERNET))
        *why = "length is below the headers' or above 9202";
    if (*why)
        return 0;

    memset(frame, 0, ETHERNET + len);
    write_ethernet(frame, b, out, v4);
    uint8_t *ip = frame + ETHERNET, *l4 = ip + ip_header;
    if (v4)
        write_ip4(ip, len, t, src);
    else
        write_ip6(ip, len, t, src);
    write_l4(l4, len - ip_header, t);
    if (l4_header(t) && t->proto != SCTP)
        checksum_write_l4(l4, len - ip_header, src, &t->dst, (uint8_t)t->proto);
    return ETHERNET + len;
}
