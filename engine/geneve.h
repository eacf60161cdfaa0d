// SPDX-License-Identifier: MPL-2.0
// geneve.h: Geneve over IPv6 (RFC 8926, RFC 8200), 70 bytes without options:
// Ethernet 14, IPv6 40, UDP 8, Geneve 8.
#ifndef NEREUS_ENGINE_GENEVE_H
#define NEREUS_ENGINE_GENEVE_H

#include "engine/drop.h"
#include "engine/ip.h"
#include "engine/packet.h"

#define GENEVE_ENCAP_LEN 70
#define GENEVE_UDP_PORT 6081
#define GENEVE_VNI_EDGE 0xfffffe // reserved: traffic between nodes and edges, never a tenant's

struct geneve_template { // everything but the per-packet fields; Ethernet addresses are the driver's to fill
    uint8_t bytes[GENEVE_ENCAP_LEN];
    uint8_t zero[2];
};

// hop_limit for the outer header. src and dst are IPv6 node addresses.
void geneve_template_init(struct geneve_template *t, const struct ip_addr *src, const struct ip_addr *dst,
                          uint8_t hop_limit);

// Pushes the outer headers: lengths, VNI, source port and flow label from `hash`, traffic class from
// the inner packet (`inner_tos`; DSCP uniform, ECN by RFC 6040 section 4.1 normal mode). The outer UDP
// checksum field is left 0 and p->encap_len set: the driver completes it (a super-frame is split first).
void geneve_encap(struct packet *p, const struct geneve_template *t, uint32_t vni, uint64_t hash, uint8_t inner_tos);

struct geneve_info {
    struct ip_addr outer_src, outer_dst;
    uint32_t vni;
    uint16_t inner; // offset of the inner Ethernet header
    uint8_t outer_tos, outer_hop_limit;
};

// Reads outer Ethernet, IPv6, UDP and Geneve at p->data. DROP_NONE or the reason: version, OAM, lengths,
// unknown critical options (all are unknown), protocol. Reserved bits are ignored. A non-zero UDP checksum is
// verified unless p->csum is VERIFIED (it takes all bytes contiguous, else DROP_OUTER_CHECKSUM: a driver of scattered
// frames verifies itself); zero is accepted (RFC 6935) when allow_zero_checksum. On success p->csum speaks of the inner
// packet: FULL, or PARTIAL if it was PARTIAL with csum_start behind the outer headers; a super-frame's stays, because
// whoever put it together verified each segment.
// Trailing bytes behind the UDP length are cut off p->len.
enum drop geneve_parse(struct packet *p, struct geneve_info *out, bool allow_zero_checksum);

// ECN of the inner header on decapsulation, RFC 6040 section 4.2 figure 4: rewrites the inner ToS/traffic
// class (IPv4 checksum adjusted) or answers false: outer CE on a Not-ECT inner packet, which must be dropped.
bool geneve_decap_ecn(uint8_t *inner_ip, uint8_t ip_version, uint8_t outer_tos);

#endif
