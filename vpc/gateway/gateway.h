// SPDX-License-Identifier: MPL-2.0
// gateway.h: the gateway layer. To the guest it is the router, DHCP server and metadata address of its
// subnet, answered on the node: ARP, NDP, DHCPv4, DHCPv6, ICMP echo. Outbound it is also the
// anti-spoof filter; inbound it lets in only what is for this port.
//
// Works on first packets (flow misses) only: what it let pass once is in the flow table. Answers are built in
// place in the packet's own buffer (room >= 2048), with full checksums, Ethernet included, ready for the guest.
//
// Threads: gateway_out and gateway_in hold no lock and keep no state: struct gateway is immutable. Everything
// here treats the packet as hostile: bounds before reads, no unbounded loop, no recursion.
#ifndef NEREUS_VPC_GATEWAY_GATEWAY_H
#define NEREUS_VPC_GATEWAY_GATEWAY_H

#include "api/types/blueprint.h"
#include "engine/drop.h"
#include "engine/packet.h"
#include "engine/parse.h"

enum gateway_verdict {
    GATEWAY_PASS,     // not for the gateway: go on to the next layer
    GATEWAY_ANSWER,   // p now holds the answer, for the guest
    GATEWAY_DROP,     // *reason
    GATEWAY_METADATA, // TCP to the metadata address: to be translated to the node's service
};

// Precomputed from a blueprint, which must outlive it.
struct gateway {
    const struct blueprint *b;
    struct ip_addr link_local;     // fe80::/64 with the EUI-64 of the gateway MAC (RFC 4291 appendix A)
    struct ip_addr guest4, guest6; // first address of each family; unspecified if none
};
void gateway_init(struct gateway *g, const struct blueprint *b);

// 169.254.169.254 and fd00:ec2::254
extern const struct ip_addr metadata_v4, metadata_v6;

// From the guest. `now_s`: wall seconds, for nothing but lease arithmetic. note: what was done, for trace
// ("answered DHCPOFFER 10.0.0.3"); may be NULL.
struct gateway_note {
    char text[128];
};
enum gateway_verdict gateway_out(const struct gateway *g, struct packet *p, const struct parsed *pp, enum drop *reason,
                                 struct gateway_note *note);
// To the guest, from overlay or outside, after NAT (pp's addresses are the guest's own). GATEWAY_PASS or DROP.
enum gateway_verdict gateway_in(const struct gateway *g, const struct packet *p, const struct parsed *pp,
                                enum drop *reason);

// Is `addr` (with the source MAC) one the guest may send from (dir BLUEPRINT_OUT) or be sent to (BLUEPRINT_IN)?
bool gateway_address_allowed(const struct gateway *g, const struct ip_addr *addr, const struct mac_addr *mac,
                             enum blueprint_direction dir);

// Messages the gateway sends of itself; each writes a whole frame at p->data and sets p->len.
void gateway_make_ra(const struct gateway *g, struct packet *p, const struct mac_addr *dst_mac,
                     const struct ip_addr *dst); // multicast: 33:33:00:00:00:01, ff02::1
void gateway_make_announcement(const struct gateway *g, struct packet *p, bool v6); // gateway GARP or unsolicited NA

// ICMP errors and resets toward the sender of p, which is replaced by the answer. `from`: source of the error.
// False where none may be sent (RFC 1812 4.3.2.7, RFC 4443 2.4 e): errors about ICMP errors, later fragments,
// multicast or broadcast, unspecified sources. `to_mac`/`from_mac` make the Ethernet header.
enum icmp_problem { ICMP_TOO_BIG, ICMP_TTL_EXPIRED, ICMP_ADMIN_PROHIBITED, ICMP_NO_ROUTE };
bool icmp_make_error(struct packet *p, const struct parsed *pp, enum icmp_problem problem, uint32_t mtu,
                     const struct ip_addr *from, const struct mac_addr *from_mac, const struct mac_addr *to_mac);
// TCP RST in answer to segment p (RFC 9293 section 3.10.7.1). False when p is itself a RST.
bool tcp_make_reset(struct packet *p, const struct parsed *pp, const struct mac_addr *from_mac,
                    const struct mac_addr *to_mac);

#endif
