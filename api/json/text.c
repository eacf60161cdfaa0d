// SPDX-License-Identifier: MPL-2.0
#include "api/json/text.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int hex_byte(const char *s) // -1: not two digits
{
    int high = hex_digit(s[0]);
    int low = high < 0 ? -1 : hex_digit(s[1]);
    return low < 0 ? -1 : high << 4 | low;
}

// Decimal without sign or leading zeros, at most `max`. Returns what follows, NULL when there is no such number.
static const char *decimal(const char *s, uint32_t max, uint32_t *out)
{
    if (*s < '0' || *s > '9')
        return NULL;
    if (*s == '0' && s[1] >= '0' && s[1] <= '9')
        return NULL;
    uint32_t value = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        value = value * 10 + (uint32_t)(*s - '0');
        if (value > max)
            return NULL;
    }
    *out = value;
    return s;
}

bool bytes_from_hex(const char *s, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int byte = hex_byte(s + 2 * i);
        if (byte < 0)
            return false;
        out[i] = (uint8_t)byte;
    }
    return s[2 * n] == '\0';
}

void bytes_to_hex(const uint8_t *b, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[b[i] >> 4];
        *out++ = digits[b[i] & 15];
    }
    *out = '\0';
}

bool uuid_from_text(const char *s, struct uuid *out)
{
    struct uuid u;
    if (strlen(s) != UUID_TEXT - 1)
        return false;
    for (unsigned i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            if (*s++ != '-')
                return false;
        }
        int byte = hex_byte(s);
        if (byte < 0)
            return false;
        u.b[i] = (uint8_t)byte;
        s += 2;
    }
    *out = u;
    return true;
}

void uuid_to_text(const struct uuid *u, char out[UUID_TEXT])
{
    static const uint8_t group[] = {4, 2, 2, 2, 6};
    const uint8_t *b = u->b;
    for (unsigned i = 0; i < 5; i++) {
        bytes_to_hex(b, group[i], out);
        b += group[i], out += 2 * group[i];
        if (i < 4)
            *out++ = '-';
    }
}

bool mac_from_text(const char *s, struct mac_addr *out)
{
    struct mac_addr m;
    if (strlen(s) != MAC_TEXT - 1)
        return false;
    for (unsigned i = 0; i < 6; i++, s += 3) {
        int byte = hex_byte(s);
        if (byte < 0 || s[2] != (i < 5 ? ':' : '\0'))
            return false;
        m.b[i] = (uint8_t)byte;
    }
    *out = m;
    return true;
}

void mac_to_text(const struct mac_addr *m, char out[MAC_TEXT])
{
    for (unsigned i = 0; i < 6; i++) {
        bytes_to_hex(m->b + i, 1, out + 3 * i);
        out[3 * i + 2] = i < 5 ? ':' : '\0';
    }
}

bool ip_from_text(const char *s, struct ip_addr *out)
{
    struct ip_addr a;
    uint8_t v4[4];
    if (inet_pton(AF_INET, s, v4) == 1) {
        *out = ip_from_v4(v4);
        return true;
    }
    if (inet_pton(AF_INET6, s, a.b) != 1 || ip_is_v4(&a))
        return false;
    *out = a;
    return true;
}

void ip_to_text(const struct ip_addr *a, char out[IP_TEXT])
{
    if (ip_is_v4(a))
        inet_ntop(AF_INET, a->b + 12, out, IP_TEXT);
    else
        inet_ntop(AF_INET6, a->b, out, IP_TEXT);
}

bool prefix_is_v4(const struct ip_prefix *p)
{
    return p->len >= 96 && ip_is_v4(&p->addr);
}

static bool clear_host_bits(struct ip_prefix *p) // true when any was set
{
    bool any = false;
    for (unsigned i = p->len / 8; i < 16; i++) {
        uint8_t keep = i == p->len / 8u ? (uint8_t)(0xff00 >> p->len % 8) : 0;
        any |= (p->addr.b[i] & (uint8_t)~keep) != 0;
        p->addr.b[i] &= keep;
    }
    return any;
}

enum prefix_text prefix_from_text(const char *s, struct ip_prefix *out)
{
    char address[IP_TEXT];
    struct ip_prefix p;
    uint32_t len;
    const char *slash = strchr(s, '/');
    if (!slash || (size_t)(slash - s) >= sizeof(address))
        return PREFIX_TEXT_MALFORMED;
    memcpy(address, s, (size_t)(slash - s));
    address[slash - s] = '\0';
    if (!ip_from_text(address, &p.addr))
        return PREFIX_TEXT_MALFORMED;
    bool v4 = ip_is_v4(&p.addr);
    const char *end = decimal(slash + 1, v4 ? 32 : 128, &len);
    if (!end || *end)
        return PREFIX_TEXT_MALFORMED;
    p.len = (uint8_t)(v4 ? len + 96 : len);
    bool host_bits = clear_host_bits(&p);
    *out = p;
    return host_bits ? PREFIX_TEXT_HOST_BITS : PREFIX_TEXT_OK;
}

void prefix_to_text(const struct ip_prefix *p, char out[PREFIX_TEXT])
{
    ip_to_text(&p->addr, out);
    size_t n = strlen(out);
    snprintf(out + n, PREFIX_TEXT - n, "/%u", prefix_is_v4(p) ? p->len - 96u : p->len);
}

bool ports_from_text(const char *s, struct port_range *out)
{
    uint32_t first, last;
    s = decimal(s, 65535, &first);
    last = first;
    if (s && *s == '-')
        s = decimal(s + 1, 65535, &last);
    if (!s || *s || first > last)
        return false;
    *out = (struct port_range){(uint16_t)first, (uint16_t)last};
    return true;
}

void ports_to_text(const struct port_range *r, char out[PORTS_TEXT])
{
    if (r->first == r->last)
        snprintf(out, PORTS_TEXT, "%u", r->first);
    else
        snprintf(out, PORTS_TEXT, "%u-%u", r->first, r->last);
}

static const struct {
    const char *name;
    uint16_t number;
} protocols[] = {{"any", PROTOCOL_ANY}, {"tcp", 6},  {"udp", 17}, {"icmp", 1}, {"icmp6", 58},
                 {"sctp", 132},         {"esp", 50}, {"gre", 47}, {"ah", 51}};

const char *protocol_name(uint16_t protocol)
{
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        if (protocols[i].number == protocol)
            return protocols[i].name;
    }
    return NULL;
}

bool protocol_from_text(const char *s, uint16_t *out)
{
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        if (strcmp(s, protocols[i].name) == 0) {
            *out = protocols[i].number;
            return true;
        }
    }
    uint32_t number;
    const char *end = decimal(s, 255, &number);
    if (!end || *end)
        return false;
    *out = (uint16_t)number;
    return true;
}

void protocol_to_text(uint16_t protocol, char out[PROTOCOL_TEXT])
{
    const char *name = protocol_name(protocol);
    if (name)
        snprintf(out, PROTOCOL_TEXT, "%s", name);
    else
        snprintf(out, PROTOCOL_TEXT, "%u", protocol);
}

static const char flag_letters[] = "FSRPAUEC"; // bit 0 is FIN (RFC 9293, RFC 3168)

bool tcp_flags_from_text(const char *s, uint8_t *out)
{
    uint8_t flags = 0;
    for (; *s; s++) {
        const char *at = strchr(flag_letters, *s);
        if (!at || flags & 1 << (at - flag_letters))
            return false;
        flags |= (uint8_t)(1 << (at - flag_letters));
    }
    *out = flags;
    return true;
}

void tcp_flags_to_text(uint8_t flags, char out[TCP_FLAGS_TEXT])
{
    for (unsigned i = 0; i < 8; i++) {
        if (flags & 1 << i)
            *out++ = flag_letters[i];
    }
    *out = '\0';
}
