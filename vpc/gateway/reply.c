// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/gateway_private.h"

const struct mac_addr gateway_mac_broadcast = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
const struct mac_addr gateway_mac_all_nodes = {{0x33, 0x33, 0, 0, 0, 1}};
const struct ip_addr gateway_ip4_broadcast = {.b = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
const struct ip_addr gateway_ip6_all_nodes = {.b = {0xff, 2, [15] = 1}};

uint32_t gateway_l4_len(const struct parsed *pp)
{
    uint32_t headers = (uint32_t)(pp->l4 - pp->l3);
    return pp->l4 > pp->l3 && pp->ip_len > headers ? pp->ip_len - headers : 0;
}

bool gateway_l4_checksum_right(const struct packet *p, const struct parsed *pp, uint32_t len)
{
    if (p->csum != CSUM_FULL)
        return true;
    uint64_t sum = 0;
    if (pp->protocol != IPPROTO_ICMP4) // the only one without a pseudo-header
        sum = checksum_pseudo(&pp->src, &pp->dst, pp->protocol, len);
    return checksum_fold(checksum_add(sum, p->data + pp->l4, len)) == 0xffff;
}

const uint8_t *gateway_udp_payload(const struct packet *p, const struct parsed *pp, uint32_t *len)
{
    uint32_t available = gateway_l4_len(pp);
    if (available < UDP_LEN || (uint32_t)pp->l4 + UDP_LEN > p->head)
        return NULL;
    const uint8_t *udp = p->data + pp->l4;
    uint32_t n = load_be16(udp + 4);
    if (n < UDP_LEN || n > available || pp->l4 + n > p->head)
        return NULL;
    bool unchecked = pp->ip_version == 4 && load_be16(udp + 6) == 0; // RFC 768: no checksum was made
    if (!unchecked && !gateway_l4_checksum_right(p, pp, n))
        return NULL;
    *len = n - UDP_LEN;
    return udp + UDP_LEN;
}

void gateway_reply_ethernet(struct packet *p, const struct mac_addr *to, const struct mac_addr *from,
                            uint16_t ethertype)
{
    memcpy(p->data, to->b, 6);
    memcpy(p->data + 6, from->b, 6);
    store_be16(p->data + 12, ethertype);
}

static void write_ip4(uint8_t *h, const struct reply *r, uint32_t len)
{
    memset(h, 0, IP4_LEN);
    h[0] = 0x45;
    store_be16(h + 2, (uint16_t)(IP4_LEN + len));
    store_be16(h + 6, 0x4000); // DF: an atomic datagram needs no identification (RFC 6864 section 4.1)
    h[8] = r->ttl;
    h[9] = r->protocol;
    memcpy(h + 12, r->from.b + 12, 4);
    memcpy(h + 16, r->to.b + 12, 4);
    checksum_write_ip4(h);
}

static void write_ip6(uint8_t *h, const struct reply *r, uint32_t len)
{
    memset(h, 0, 8);
    h[0] = 0x60;
    store_be16(h + 4, (uint16_t)len);
    h[6] = r->protocol;
    h[7] = r->ttl;
    memcpy(h + 8, r->from.b, 16);
    memcpy(h + 24, r->to.b, 16);
}

void gateway_reply_finish(struct packet *p, const struct reply *r, uint32_t len)
{
    bool v6 = !ip_is_v4(&r->to);
    gateway_reply_ethernet(p, &r->to_mac, &r->from_mac, v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
    if (v6)
        write_ip6(p->data + ETHERNET_LEN, r, len);
    else
        write_ip4(p->data + ETHERNET_LEN, r, len);
    checksum_write_l4(reply_l4(p, v6), len, &r->from, &r->to, r->protocol);
    packet_set_reply(p, reply_l4_offset(v6) + len);
}

void gateway_reply_udp(uint8_t *udp, uint16_t sport, uint16_t dport, uint32_t payload_len)
{
    store_be16(udp, sport);
    store_be16(udp + 2, dport);
    store_be16(udp + 4, (uint16_t)(UDP_LEN + payload_len));
    store_be16(udp + 6, 0);
}

// ---- Trace words

static void note_char(struct gateway_note *note, uint32_t *at, char c)
{
    if (*at + 1 < sizeof(note->text))
        note->text[(*at)++] = c;
}

static uint32_t note_length(const struct gateway_note *note)
{
    uint32_t n = 0;
    while (n + 1 < sizeof(note->text) && note->text[n])
        n++;
    return n;
}

void gateway_note_text(struct gateway_note *note, const char *text)
{
    if (!note)
        return;
    uint32_t at = note_length(note);
    while (*text)
        note_char(note, &at, *text++);
    note->text[at] = 0;
}

static void note_number(struct gateway_note *note, uint32_t *at, uint32_t value, uint32_t base)
{
    char digits[8];
    uint32_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value && n < sizeof(digits));
    while (n)
        note_char(note, at, digits[--n]);
}

// Start of the longest run of two or more zero groups (RFC 5952 section 4.2), 8 when there is none.
static uint32_t longest_zeros(const struct ip_addr *addr, uint32_t *length)
{
    uint32_t best = 8, run = 0;
    *length = 1;
    for (uint32_t i = 0; i < 8; i++) {
        run = load_be16(addr->b + 2 * i) ? 0 : run + 1;
        if (run > *length) {
            *length = run;
            best = i + 1 - run;
        }
    }
    return best;
}

static void note_ip6(struct gateway_note *note, uint32_t *at, const struct ip_addr *addr)
{
    uint32_t length, gap = longest_zeros(addr, &length);
    for (uint32_t i = 0; i < 8; i++) {
        if (i == gap) {
            note_char(note, at, ':');
            note_char(note, at, ':');
            i += length - 1;
            continue;
        }
        if (i && i != gap + length)
            note_char(note, at, ':');
        note_number(note, at, load_be16(addr->b + 2 * i), 16);
    }
}

void gateway_note_ip(struct gateway_note *note, const struct ip_addr *addr)
{
    if (!note)
        return;
    uint32_t at = note_length(note);
    if (ip_is_v4(addr)) {
        for (uint32_t i = 12; i < 16; i++) {
            if (i > 12)
                note_char(note, &at, '.');
            note_number(note, &at, addr->b[i], 10);
        }
    } else {
        note_ip6(note, &at, addr);
    }
    note->text[at] = 0;
}

enum gateway_verdict gateway_answered(struct ask *a, const char *what, const struct ip_addr *addr)
{
    gateway_note_text(a->note, "answered ");
    gateway_note_text(a->note, what);
    if (addr) {
        gateway_note_text(a->note, " ");
        gateway_note_ip(a->note, addr);
    }
    return GATEWAY_ANSWER;
}
