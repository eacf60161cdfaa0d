// SPDX-License-Identifier: MPL-2.0
#include "engine/parse.h"

#include "engine/checksum.h"
#include "engine/hit_path.h"

#define ETH_LEN 14
#define MAX_EXT_HEADERS 8

enum {
    EXT_HOP_BY_HOP = 0,
    EXT_ROUTING = 43,
    EXT_FRAGMENT = 44,
    EXT_AUTH = 51,
    EXT_DEST = 60,
    EXT_MOBILITY = 135,
    EXT_HIP = 139,
    EXT_SHIM6 = 140
};
enum { IP4_MF = 0x2000, IP4_DF = 0x4000, IP4_OFFSET = 0x1fff };
enum { OPT_END = 0, OPT_NOP = 1, OPT_LSRR = 131, OPT_SSRR = 137 };

struct view {
    const uint8_t *data;
    uint32_t head; // bytes that may be read
    uint32_t end;  // of the IP packet; may lie behind head
    bool quoted;   // in an ICMP error: cut anywhere, so lengths prove nothing
};

// Can n bytes at `at` be read, and do they belong to the IP packet? Offsets stay far below 2^31.
static inline bool has(const struct view *v, uint32_t at, uint32_t n)
{
    return at + n <= MIN(v->head, v->end);
}

bool icmp_is_error(uint8_t protocol, uint8_t type)
{
    if (protocol == IPPROTO_ICMP6)
        return type < 128;
    return protocol == IPPROTO_ICMP4 && (type == 3 || type == 4 || type == 5 || type == 11 || type == 12);
}

static inline bool is_icmp(uint8_t ip_version, uint8_t protocol)
{
    return protocol == (ip_version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6);
}

static inline bool is_loopback(const struct ip_addr *a)
{
    if (ip_is_v4(a))
        return a->b[12] == 127;
    return a->d[0] == 0 && a->d[1] == __builtin_bswap64(1);
}

static bool bad_addresses(const struct parsed *out)
{
    if (out->ip_version == 6 && (ip_is_v4(&out->src) || ip_is_v4(&out->dst)))
        return true;
    return ip_is_multicast(&out->src) || ip_is_v4_broadcast(&out->src) || is_loopback(&out->src) ||
           is_loopback(&out->dst);
}

// IPv4 options in [at, end). Only their framing and source routes matter here.
static enum drop ip4_options(const struct view *v, uint32_t at, uint32_t end, uint16_t *flags)
{
    *flags |= PARSE_IP_OPTIONS;
    while (at < end) {
        uint8_t kind = v->data[at];
        if (kind == OPT_END)
            break;
        if (kind == OPT_NOP) {
            at++;
            continue;
        }
        if (at + 2 > end || v->data[at + 1] < 2 || v->data[at + 1] > end - at)
            return DROP_BAD_IP_HEADER;
        if (kind == OPT_LSRR || kind == OPT_SSRR)
            *flags |= PARSE_SOURCE_ROUTE;
        at += v->data[at + 1];
    }
    return *flags & PARSE_SOURCE_ROUTE ? DROP_SOURCE_ROUTE : DROP_NONE;
}

// DROP_NONE, or why no datagram with `headers` bytes in front of its fragmentable part can contain the fragment.
static enum drop judge_fragment(const struct view *v, const struct ip_fragment *f, uint32_t headers, uint16_t *flags)
{
    if (!f->offset && !f->more)
        return DROP_NONE; // the whole
    *flags |= f->offset ? PARSE_FRAG_LATER : PARSE_FRAG_FIRST;
    if (v->quoted)
        return DROP_NONE;
    bool odd = f->more && (f->bytes & 7);
    return odd || f->bytes == 0 || headers + f->offset + f->bytes > 65535 ? DROP_BAD_IP_HEADER : DROP_NONE;
}

// Sets protocol, addresses, flags and where the header after IPv4's begins.
static enum drop parse_ip4(const struct packet *p, struct view *v, struct parsed *out, uint32_t *l4)
{
    const uint8_t *ip = v->data + out->l3;
    if (!has(v, out->l3, 20))
        return DROP_TRUNCATED;
    uint32_t header = (ip[0] & 15u) * 4, total = load_be16(ip + 2);
    if (ip[0] >> 4 != 4 || header < 20 || total < header)
        return DROP_BAD_IP_HEADER;
    if (total > v->end - out->l3)
        return DROP_TRUNCATED;
    v->end = out->l3 + total;
    if (!has(v, out->l3, header))
        return DROP_TRUNCATED;
    if (p->csum == CSUM_FULL && checksum_fold(checksum_add(0, ip, header)) != 0xffff)
        return DROP_BAD_IP_CHECKSUM;

    out->ip_version = 4;
    out->ip_len = total;
    out->tos = ip[1];
    out->ttl = ip[8];
    out->protocol = ip[9];
    out->src = ip_from_v4(ip + 12);
    out->dst = ip_from_v4(ip + 16);
    *l4 = out->l3 + header;

    uint16_t word = load_be16(ip + 6);
    if (word & IP4_DF)
        out->flags |= PARSE_DF;
    if (word & (IP4_MF | IP4_OFFSET)) {
        out->fragment = (struct ip_fragment){load_be16(ip + 4), (uint16_t)((word & IP4_OFFSET) * 8),
                                             (uint16_t)(total - header), word & IP4_MF};
        enum drop d = judge_fragment(v, &out->fragment, header, &out->flags);
        if (d)
            return d;
    }
    return header > 20 ? ip4_options(v, out->l3 + 20, *l4, &out->flags) : DROP_NONE;
}

// Bytes of an extension header, 0 when `type` is none of them.
static inline uint32_t ext_header_len(uint8_t type, const uint8_t *ext)
{
    switch (type) {
    case EXT_HOP_BY_HOP:
    case EXT_ROUTING:
    case EXT_DEST:
    case EXT_MOBILITY:
    case EXT_HIP:
    case EXT_SHIM6:
        return (ext[1] + 1u) * 8;
    case EXT_AUTH:
        return (ext[1] + 2u) * 4;
    case EXT_FRAGMENT:
        return 8;
    default:
        return 0;
    }
}

static inline bool is_ext_header(uint8_t type)
{
    static const uint8_t none[2];
    return ext_header_len(type, none) != 0;
}

// Walks the chain from header `*type` at `*at`, to the first header that is no extension or to a later fragment.
static enum drop ip6_chain(const struct view *v, uint8_t *type, uint32_t *at, struct ip_fragment *f, uint16_t *flags)
{
    uint32_t first = *at;
    bool fragmented = false;
    for (unsigned n = 0; is_ext_header(*type); n++) {
        *flags |= PARSE_IP_OPTIONS;
        if (n == MAX_EXT_HEADERS || (*type == EXT_HOP_BY_HOP && *at != first))
            return DROP_IP6_EXT_CHAIN;
        if (!has(v, *at, 8))
            return *at + 8 > v->end ? DROP_TRUNCATED : DROP_IP6_EXT_CHAIN;
        const uint8_t *ext = v->data + *at;
        uint32_t len = ext_header_len(*type, ext);
        if (len < 8 || len > v->end - *at)
            return DROP_IP6_EXT_CHAIN;
        if (*type == EXT_ROUTING && ext[2] == 0) {
            *flags |= PARSE_SOURCE_ROUTE;
            return DROP_SOURCE_ROUTE;
        }
        if (*type == EXT_FRAGMENT) {
            if (fragmented)
                return DROP_IP6_EXT_CHAIN;
            fragmented = true;
            uint16_t word = load_be16(ext + 2);
            *f = (struct ip_fragment){load_be32(ext + 4), word & 0xfff8, (uint16_t)(v->end - *at - 8), word & 1};
            enum drop d = judge_fragment(v, f, *at - first, flags);
            if (d)
                return d;
        }
        *type = ext[0];
        *at += len;
        if (*flags & PARSE_FRAG_LATER)
            break;
    }
    return DROP_NONE;
}

static enum drop parse_ip6(struct view *v, struct parsed *out, uint32_t *l4)
{
    const uint8_t *ip = v->data + out->l3;
    if (!has(v, out->l3, 40))
        return DROP_TRUNCATED;
    uint32_t total = 40u + load_be16(ip + 4);
    if (ip[0] >> 4 != 6)
        return DROP_BAD_IP_HEADER;
    if (total > v->end - out->l3)
        return DROP_TRUNCATED;
    v->end = out->l3 + total;

    out->ip_version = 6;
    out->ip_len = total;
    out->tos = (uint8_t)(load_be16(ip) >> 4);
    out->protocol = ip[6];
    out->ttl = ip[7];
    out->src = ip_from_v6(ip + 8);
    out->dst = ip_from_v6(ip + 24);
    *l4 = out->l3 + 40u;
    return ip6_chain(v, &out->protocol, l4, &out->fragment, &out->flags);
}

static enum drop parse_tcp(const struct view *v, struct parsed *out, uint32_t at)
{
    bool first = out->flags & PARSE_FRAG_FIRST; // the whole header must be in it (RFC 1858, RFC 3128)
    if (!has(v, at, 20))
        return first ? DROP_BAD_L4_HEADER : DROP_TRUNCATED;
    const uint8_t *tcp = v->data + at;
    uint32_t header = (tcp[12] >> 4) * 4u;
    if (header < 20 || header > v->end - at)
        return DROP_BAD_L4_HEADER;
    if (!has(v, at, header))
        return DROP_TRUNCATED;
    out->flags |= PARSE_HAS_PORTS;
    out->tcp_flags = tcp[13];
    out->tcp_seq = load_be32(tcp + 4);
    out->tcp_ack = load_be32(tcp + 8);
    out->payload = (uint16_t)(at + header);
    out->l4_payload_len = v->end - at - header;
    return DROP_NONE;
}

static enum drop parse_udp(const struct view *v, struct parsed *out, uint32_t at)
{
    if (!has(v, at, 8))
        return DROP_TRUNCATED;
    uint32_t length = load_be16(v->data + at + 4);
    if (length < 8)
        return DROP_BAD_L4_HEADER;
    if (length > v->end - at) {
        if (!(out->flags & PARSE_FRAG_FIRST)) // a first fragment tells the whole datagram's length
            return DROP_BAD_L4_HEADER;
        length = v->end - at;
    }
    out->flags |= PARSE_HAS_PORTS;
    out->payload = (uint16_t)(at + 8);
    out->l4_payload_len = length - 8;
    return DROP_NONE;
}

static enum drop parse_icmp(const struct view *v, struct parsed *out, uint32_t at)
{
    if (!has(v, at, 8))
        return DROP_TRUNCATED;
    out->icmp_type = v->data[at];
    out->icmp_code = v->data[at + 1];
    if (icmp_is_error(out->protocol, out->icmp_type))
        out->flags |= PARSE_ICMP_ERROR;
    else if (icmp_has_id(out->protocol, out->icmp_type))
        out->flags |= PARSE_HAS_ICMP_ID;
    out->payload = (uint16_t)(at + 8);
    out->l4_payload_len = v->end - at - 8;
    return DROP_NONE;
}

// sport and dport as the key wants them, from 8 readable bytes of the L4 header.
static void read_ports(const uint8_t *l4, uint8_t ip_version, uint8_t protocol, uint16_t *sport, uint16_t *dport)
{
    if (is_icmp(ip_version, protocol)) {
        __builtin_memcpy(dport, l4, 2); // type, code
        if (icmp_has_id(protocol, l4[0]))
            __builtin_memcpy(sport, l4 + 4, 2);
    } else if (protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4 || protocol == IPPROTO_SCTP4) {
        __builtin_memcpy(sport, l4, 2);
        __builtin_memcpy(dport, l4 + 2, 2);
    }
}

static enum drop parse_l4(const struct view *v, struct parsed *out, uint32_t at)
{
    enum drop d;
    out->payload = (uint16_t)at;
    out->l4_payload_len = v->end - at;
    if (out->flags & PARSE_FRAG_LATER) {
        // Data at offset 8 would overwrite TCP flags on reassembly (RFC 3128): no honest stack cuts there. IPv4's
        // offset word says so directly; IPv6's is in the fragment header just behind us.
        uint16_t word =
            out->ip_version == 4 ? load_be16(v->data + out->l3 + 6) & IP4_OFFSET : load_be16(v->data + at - 6) >> 3;
        return out->protocol == IPPROTO_TCP4 && word == 1 ? DROP_BAD_L4_HEADER : DROP_NONE;
    }
    if (out->protocol == IPPROTO_TCP4) {
        d = parse_tcp(v, out, at);
    } else if (out->protocol == IPPROTO_UDP4) {
        d = parse_udp(v, out, at);
    } else if (is_icmp(out->ip_version, out->protocol)) {
        d = parse_icmp(v, out, at);
    } else if (out->protocol == IPPROTO_SCTP4) {
        d = has(v, at, 12) ? DROP_NONE : DROP_TRUNCATED;
        out->flags |= PARSE_HAS_PORTS;
        out->payload = (uint16_t)(at + 12);
        out->l4_payload_len = v->end - at - 12;
    } else {
        return DROP_NONE; // any other protocol is a flow of its own without ports
    }
    if (d)
        return d;
    out->l4 = (uint16_t)at;
    read_ports(v->data + at, out->ip_version, out->protocol, &out->sport, &out->dport);
    return DROP_NONE;
}

// Where the checksum field lies in the L4 header; 0 when the protocol has no Internet checksum.
static inline uint32_t checksum_offset(const struct parsed *out)
{
    if (out->protocol == IPPROTO_TCP4)
        return 16;
    if (out->protocol == IPPROTO_UDP4)
        return 6;
    return is_icmp(out->ip_version, out->protocol) ? 2 : 0;
}

// CSUM_PARTIAL may describe the L4 header found, or one further in: a guest's own tunnel whose inner packet its kernel
// left to the device. Nothing in front of the L4 header, nothing behind the packet.
static enum drop check_partial(const struct packet *p, const struct view *v, const struct parsed *out)
{
    if (p->csum != CSUM_PARTIAL)
        return DROP_NONE;
    uint32_t start = p->csum_start, at = out->l4 ? out->l4 : out->payload;
    if (start < at || (uint64_t)start + p->csum_offset + 2 > v->end)
        return DROP_L4_CHECKSUM;
    if (out->flags & PARSE_FRAGMENT) // a sum over one fragment is no checksum
        return DROP_L4_CHECKSUM;
    if (out->l4 && start == out->l4 && p->csum_offset != checksum_offset(out))
        return DROP_L4_CHECKSUM;
    if (out->l4 && start != out->l4 && start < out->payload)
        return DROP_L4_CHECKSUM;
    return DROP_NONE;
}

static enum drop check_gso(const struct packet *p, const struct parsed *out)
{
    if (likely(p->gso_type == GSO_NONE))
        return DROP_NONE;
    if ((out->flags & PARSE_FRAGMENT) || !out->l4 ||
        !hit_gso_fits(p, out->ip_version, out->protocol, out->l4, out->l4_payload_len))
        return DROP_BAD_GSO;
    return DROP_NONE;
}

static inline bool is_canonical(const struct packet *p, const struct parsed *out)
{
    return !(out->flags & (PARSE_IP_OPTIONS | PARSE_FRAGMENT)) &&
           (out->protocol == IPPROTO_TCP4 || out->protocol == IPPROTO_UDP4) &&
           (p->csum != CSUM_PARTIAL || p->csum_start == out->l4);
}

static enum drop parse_ethernet(const struct packet *p, struct parsed *out)
{
    if (p->head < ETH_LEN)
        return DROP_TRUNCATED;
    __builtin_memcpy(out->dst_mac.b, p->data, 6);
    __builtin_memcpy(out->src_mac.b, p->data + 6, 6);
    out->ethertype = load_be16(p->data + 12);
    out->l3 = ETH_LEN;
    static const struct mac_addr zero;
    if (mac_is_multicast(&out->src_mac) || mac_equal(&out->src_mac, &zero))
        return DROP_BAD_SRC_MAC;
    switch (out->ethertype) {
    case ETHERTYPE_IPV4:
    case ETHERTYPE_IPV6:
    case ETHERTYPE_ARP:
        return DROP_NONE;
    case ETHERTYPE_VLAN:
    case ETHERTYPE_QINQ:
        return DROP_VLAN_TAGGED;
    default:
        return DROP_BAD_ETHERTYPE;
    }
}

enum drop parse_frame(const struct packet *p, struct parsed *out)
{
    __builtin_memset(out, 0, sizeof(*out));
    enum drop d = parse_ethernet(p, out);
    if (d || out->ethertype == ETHERTYPE_ARP)
        return d;
    struct view v = {.data = p->data, .head = MIN(p->head, p->len), .end = p->len};
    uint32_t l4 = 0;
    d = out->ethertype == ETHERTYPE_IPV4 ? parse_ip4(p, &v, out, &l4) : parse_ip6(&v, out, &l4);
    if (d)
        return d;
    if (bad_addresses(out))
        return DROP_BAD_ADDRESS;
    d = parse_l4(&v, out, l4);
    if (!d)
        d = check_gso(p, out);
    if (!d)
        d = check_partial(p, &v, out);
    if (!d && is_canonical(p, out))
        out->flags |= PARSE_CANONICAL;
    return d;
}

// Addresses, protocol and the L4 offset of the packet at out->l3. Its lengths describe the packet as it was sent, of
// which only a part is here; its header checksum is not judged either: routers quote what they had decremented.
static enum drop embedded_ip(const struct view *v, struct parsed_embedded *out, uint32_t *l4)
{
    const uint8_t *ip = v->data + out->l3;
    struct ip_fragment fragment;
    uint16_t flags = 0;
    if (out->ip_version == 4) {
        if (!has(v, out->l3, 20))
            return DROP_TRUNCATED;
        uint32_t header = (ip[0] & 15u) * 4;
        if (ip[0] >> 4 != 4 || header < 20 || (load_be16(ip + 6) & IP4_OFFSET))
            return DROP_ICMP_UNRELATED;
        out->protocol = ip[9];
        out->src = ip_from_v4(ip + 12);
        out->dst = ip_from_v4(ip + 16);
        *l4 = out->l3 + header;
        return DROP_NONE;
    }
    if (!has(v, out->l3, 40))
        return DROP_TRUNCATED;
    if (ip[0] >> 4 != 6)
        return DROP_ICMP_UNRELATED;
    out->protocol = ip[6];
    out->src = ip_from_v6(ip + 8);
    out->dst = ip_from_v6(ip + 24);
    *l4 = out->l3 + 40u;
    enum drop d = ip6_chain(v, &out->protocol, l4, &fragment, &flags);
    if (d == DROP_TRUNCATED)
        return d;
    bool alien = ip_is_v4(&out->src) || ip_is_v4(&out->dst);
    return d || alien || (flags & PARSE_FRAG_LATER) ? DROP_ICMP_UNRELATED : DROP_NONE;
}

enum drop parse_embedded(const struct packet *p, const struct parsed *outer, struct parsed_embedded *out)
{
    __builtin_memset(out, 0, sizeof(*out));
    if (!(outer->flags & PARSE_ICMP_ERROR))
        return DROP_ICMP_UNRELATED;
    struct view v = {.data = p->data, .head = MIN(p->head, p->len), .end = outer->l3 + outer->ip_len, .quoted = true};
    out->l3 = outer->payload;
    out->ip_version = outer->ip_version;
    uint32_t l4 = 0;
    enum drop d = embedded_ip(&v, out, &l4);
    if (d)
        return d;
    if (!has(&v, l4, 8))
        return DROP_TRUNCATED;
    if (is_icmp(out->ip_version, out->protocol) && icmp_is_error(out->protocol, v.data[l4]))
        return DROP_ICMP_UNRELATED; // an error about an error is no one's
    out->l4 = (uint16_t)l4;
    out->l4_available = (uint16_t)(MIN(v.head, v.end) - l4);
    read_ports(v.data + l4, out->ip_version, out->protocol, &out->sport, &out->dport);
    return DROP_NONE;
}
