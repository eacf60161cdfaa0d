// SPDX-License-Identifier: MPL-2.0
// gateway_private.h: what the files of the gateway layer share.
//
// A question (struct ask) is one packet from the guest on its way through the layer. Each service takes it and
// ends it with gateway_answered() or refused(). An answer overwrites the question in its own buffer, so a service first
// copies what it needs from the question (addresses are copies already: struct parsed).
#ifndef NEREUS_VPC_GATEWAY_GATEWAY_PRIVATE_H
#define NEREUS_VPC_GATEWAY_GATEWAY_PRIVATE_H

#include "engine/checksum.h"
#include "vpc/gateway/gateway.h"

#define ETHERNET_LEN 14
#define IP4_LEN 20
#define IP6_LEN 40
#define UDP_LEN 8
#define REPLY_TTL 64

enum { DHCP4_SERVER_PORT = 67, DHCP4_CLIENT_PORT = 68, DHCP6_CLIENT_PORT = 546, DHCP6_SERVER_PORT = 547 };
enum { ICMP4_ECHO_REPLY = 0, ICMP4_ECHO = 8, ICMP6_ECHO = 128, ICMP6_ECHO_REPLY = 129 };
enum { ND_RS = 133, ND_RA = 134, ND_NS = 135, ND_NA = 136, ND_REDIRECT = 137 };

struct ask {
    const struct gateway *g;
    struct packet *p;
    const struct parsed *pp;
    enum drop reason;
    struct gateway_note *note; // may be NULL
};

static inline enum gateway_verdict refused(struct ask *a, enum drop reason)
{
    a->reason = reason;
    return GATEWAY_DROP;
}

// Services: the packet is known to be for them.
enum gateway_verdict gateway_arp_out(struct ask *a);
enum gateway_verdict gateway_nd_out(struct ask *a);
enum gateway_verdict gateway_dhcp4_out(struct ask *a);
enum gateway_verdict gateway_dhcp6_out(struct ask *a);
bool gateway_icmp_is_echo(const struct parsed *pp); // an echo request, or a later fragment of ICMP
enum gateway_verdict gateway_icmp_echo_out(struct ask *a);

void gateway_arp_announcement(const struct gateway *g, struct packet *p);
void gateway_nd_announcement(const struct gateway *g, struct packet *p);

// Whose address is it? (gateway.c)
bool gateway_is_own(const struct gateway *g, const struct ip_addr *addr);       // the gateway's, link-local included
bool gateway_is_guests(const struct gateway *g, const struct ip_addr *addr);    // the port's, whatever the MAC
bool gateway_is_neighbour(const struct gateway *g, const struct ip_addr *addr); // a host address of the subnets
bool gateway_is_port_mac(const struct gateway *g, const struct mac_addr *mac);  // the port's, or an allowed one

static inline bool ip_is_fe80_64(const struct ip_addr *addr)
{
    return load_be64(addr->b) == 0xfe80ull << 48;
}

static inline bool gateway_is_metadata(const struct ip_addr *addr)
{
    return ip_equal(addr, &metadata_v4) || ip_equal(addr, &metadata_v6);
}

extern const struct mac_addr gateway_mac_broadcast, gateway_mac_all_nodes; // ff:ff:ff:ff:ff:ff, 33:33:00:00:00:01
extern const struct ip_addr gateway_ip4_broadcast, gateway_ip6_all_nodes;  // 255.255.255.255, ff02::1

// Reading L4 (reply.c). gateway_l4_len: bytes from the L4 header to the end of the IP packet.
uint32_t gateway_l4_len(const struct parsed *pp);
// Is the checksum over `len` bytes at pp->l4 right, or vouched for by the driver? The bytes are within p->head.
bool gateway_l4_checksum_right(const struct packet *p, const struct parsed *pp, uint32_t len);
// The UDP payload, whole, checked and within p->head; NULL when it is not.
const uint8_t *gateway_udp_payload(const struct packet *p, const struct parsed *pp, uint32_t *len);

// Writing an answer (reply.c): the caller places `l4_len` bytes at reply_l4(p, v6), then gateway_reply_finish writes
// the headers in front of them, the checksums, and declares the frame.
struct reply {
    struct mac_addr from_mac, to_mac;
    struct ip_addr from, to;
    uint8_t protocol, ttl;
};
static inline uint32_t reply_l4_offset(bool v6)
{
    return ETHERNET_LEN + (v6 ? IP6_LEN : IP4_LEN);
}
static inline uint8_t *reply_l4(struct packet *p, bool v6)
{
    return p->data + reply_l4_offset(v6);
}
void gateway_reply_finish(struct packet *p, const struct reply *r, uint32_t len);
void gateway_reply_ethernet(struct packet *p, const struct mac_addr *to, const struct mac_addr *from,
                            uint16_t ethertype);
void gateway_reply_udp(uint8_t *udp, uint16_t sport, uint16_t dport, uint32_t payload_len);

// A bounded output: nothing is ever written past `end`; a write that does not fit writes nothing and says so.
struct writer {
    uint8_t *at, *end;
};
static inline uint8_t *writer_take(struct writer *w, uint32_t n) // zeroed room for n bytes, or NULL
{
    if ((size_t)(w->end - w->at) < n)
        return NULL;
    uint8_t *room = w->at;
    memset(room, 0, n);
    w->at += n;
    return room;
}

// Trace words. All accept NULL.
void gateway_note_text(struct gateway_note *note, const char *text);
void gateway_note_ip(struct gateway_note *note, const struct ip_addr *addr);
enum gateway_verdict gateway_answered(struct ask *a, const char *what, const struct ip_addr *addr); // addr may be NULL

#endif
