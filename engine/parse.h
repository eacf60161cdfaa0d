// SPDX-License-Identifier: MPL-2.0
// parse.h: finds the headers of a frame. Total (every byte string has an answer), bounds-checked,
// loop bounded; yields offsets and the fields that policy needs, never copies of the packet.
#ifndef NEREUS_ENGINE_PARSE_H
#define NEREUS_ENGINE_PARSE_H

#include "engine/drop.h"
#include "engine/ip.h"
#include "engine/packet.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define ETHERTYPE_IPV6 0x86dd

enum {
    IPPROTO_ICMP4 = 1,
    IPPROTO_IGMP4 = 2,
    IPPROTO_TCP4 = 6,
    IPPROTO_UDP4 = 17,
    IPPROTO_ICMP6 = 58,
    IPPROTO_SCTP4 = 132,
};

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_PSH = 0x08, TCP_ACK = 0x10 };

enum parse_flags {
    PARSE_CANONICAL = 1 << 0,  // the hit path's shape: no options, no extension headers, no fragment, TCP or UDP
    PARSE_IP_OPTIONS = 1 << 1, // IPv4 options or IPv6 extension headers are present
    PARSE_FRAG_FIRST = 1 << 2, // fragment with offset 0 and more to come
    PARSE_FRAG_LATER = 1 << 3, // fragment with offset > 0: no L4 header
    PARSE_SOURCE_ROUTE = 1 << 4,
    PARSE_ICMP_ERROR = 1 << 5,                            // an ICMP error: `embedded` below may be set
    PARSE_HAS_PORTS = 1 << 6,                             // TCP, UDP, SCTP: sport and dport are real ports
    PARSE_HAS_ICMP_ID = 1 << 7,                           // echo, timestamp: sport is the identifier
    PARSE_DF = 1 << 8,                                    // IPv4 don't fragment
    PARSE_FRAGMENT = PARSE_FRAG_FIRST | PARSE_FRAG_LATER, // for tests of either
};

struct ip_fragment { // of the datagram's fragmentable part
    uint32_t id;
    uint16_t offset, bytes;
    bool more; // to come behind it
};

struct parsed {
    uint16_t ethertype;    // host order, after any VLAN tags
    uint16_t l3, l4;       // offsets from data; l4 is 0 unless a TCP, UDP, SCTP or ICMP header is here
    uint16_t payload;      // offset behind the L4 header
    uint16_t flags;        // enum parse_flags
    uint8_t ip_version;    // 4, 6; 0 for ARP
    uint8_t protocol;      // final L4 protocol
    uint8_t ttl, tos;      // hop limit and traffic class for IPv6
    uint32_t ip_len;       // bytes from l3 to the end of the IP packet (padding excluded)
    uint16_t sport, dport; // network order. ICMP: sport = identifier (else 0), dport = htons(type << 8 | code).
                           // Neither: 0
    uint8_t icmp_type, icmp_code, tcp_flags;
    uint32_t tcp_seq, tcp_ack;   // host order
    uint32_t l4_payload_len;     // TCP: bytes of data
    struct ip_fragment fragment; // PARSE_FRAGMENT only
    struct mac_addr dst_mac, src_mac;
    struct ip_addr src, dst;
};

// The packet inside an ICMP error: enough of it to find the connection it belongs to.
struct parsed_embedded {
    uint16_t l3, l4;       // offsets from data; at least 8 bytes lie at l4 (RFC 792, RFC 4443 section 2.4)
    uint16_t l4_available; // bytes present from l4
    uint8_t ip_version, protocol;
    uint16_t sport, dport; // as in struct parsed
    struct ip_addr src, dst;
};

// Reads the frame at p->data. DROP_NONE, or why the frame is refused whatever the policy. ARP yields
// ethertype and l3 only. A frame with a VLAN tag is DROP_VLAN_TAGGED. IPv4 header checksums are checked
// unless p->csum says VERIFIED or PARTIAL (a header from a guest's own stack). Ethernet padding is legal.
// gso_* and csum_* metadata are checked against the headers (DROP_BAD_GSO, DROP_L4_CHECKSUM). CSUM_PARTIAL may also
// describe a packet further in (a guest's own tunnel): csum_start > l4; the L4 checksum found is then a complete one.
// LSRR, SSRR and routing header 0 are DROP_SOURCE_ROUTE, with PARSE_SOURCE_ROUTE set.
// Fragments parse (flags tell), with a tiny first TCP fragment refused as DROP_BAD_L4_HEADER, and one that is empty or
// ends behind the largest datagram as DROP_BAD_IP_HEADER. An atomic fragment (RFC 6946) is a whole packet.
// Source MAC must be unicast and non-zero; source IP must not be multicast, broadcast or loopback, nor the
// destination loopback.
// Unspecified sources are legal here (DHCP, DAD): policy judges them. IPv6 chains: at most 8 headers.
enum drop parse_frame(const struct packet *p, struct parsed *out);

// For PARSE_ICMP_ERROR: reads the embedded packet. DROP_NONE or DROP_ICMP_UNRELATED / DROP_TRUNCATED.
enum drop parse_embedded(const struct packet *p, const struct parsed *outer, struct parsed_embedded *out);

// True for ICMP error types of either family (never answered with an ICMP error).
bool icmp_is_error(uint8_t protocol, uint8_t type);

// True for the ICMP types that carry an identifier: echo, timestamp, and their answers.
static inline bool icmp_has_id(uint8_t protocol, uint8_t type)
{
    if (protocol == IPPROTO_ICMP6)
        return type == 128 || type == 129;
    return protocol == IPPROTO_ICMP4 && (type == 8 || type == 0 || type == 13 || type == 14);
}

#endif
