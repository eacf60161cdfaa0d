// SPDX-License-Identifier: MPL-2.0
// transposition.h: what a flow's packets must look like on their way out, and where they go.
//
// Plain data, no pointers: it is composed once per flow from what each layer wants, cached in the flow
// table, and applied to every later packet. Checksum deltas are worked out when it is finished, so
// that applying it costs a few stores. Composition is checked by test: applying the composed
// transposition equals applying each layer's in turn, byte for byte. (One's complement has two zeros. RFC 1624's
// equation never yields 0xffff from a field that is not 0xffff, UDP's 0 is written as 0xffff, so each protocol has one
// form of zero and keeps it. Only a field that came in with the other form, 0xffff for anything but UDP, may leave in
// either: both verify alike.)
//
// Encapsulation is not written here: XP_TO_TUNNEL names a tunnel (core/tunnel.h) whose outer header
// template, with `vni`, is pushed after the rewrite.
#ifndef NEREUS_ENGINE_TRANSPOSITION_H
#define NEREUS_ENGINE_TRANSPOSITION_H

#include "engine/flow_key.h"
#include "engine/packet.h"
#include "engine/parse.h"

enum transposition_flags {
    XP_SRC_MAC = 1 << 0,
    XP_DST_MAC = 1 << 1,
    XP_SRC_IP = 1 << 2,
    XP_DST_IP = 1 << 3,
    XP_SRC_PORT = 1 << 4, // for ICMP queries: the identifier, in both directions
    XP_DST_PORT = 1 << 5,
    XP_DEC_TTL = 1 << 6,
    XP_CLAMP_MSS = 1 << 7, // SYN segments: MSS option at most `mss`
};

enum transposition_to {
    XP_NOWHERE = 0,
    XP_TO_GUEST,          // dest: port index; the packet is delivered to that port's guest
    XP_TO_PORT,           // dest: port index; the packet enters that port's inbound side (same node, same VPC)
    XP_TO_TUNNEL,         // dest: tunnel index; Geneve with `vni`
    XP_TO_EXTERNAL,       // dest: external link index; this node is the edge
    XP_TO_LOCAL_EXTERNAL, // dest: port index; enters that port from outside (hairpin between external addresses)
    XP_TO_SERVICE,        // dest: unused; the node's metadata service
    XP_TO_SELF,           // dest: the port's own index; enters its inbound side (hairpin of a virtual IP)
};

struct transposition {
    uint16_t flags;
    uint8_t to; // enum transposition_to
    uint8_t zero;
    uint32_t dest;
    uint32_t vni; // for XP_TO_TUNNEL and XP_TO_PORT
    struct mac_addr src_mac, dst_mac;
    struct ip_addr src_ip, dst_ip; // network order; IPv4 as v4-mapped
    uint16_t src_port, dst_port;   // network order
    uint16_t ip_delta;             // IPv4 header checksum delta of the address writes
    uint16_t l4_delta;             // address and port writes; CSUM_FULL and CSUM_VERIFIED
};
_Static_assert(sizeof(struct transposition) == 64, "one cache line");

// Adds `next` to `xp`: later writes win, TTL decrements once at most, destination of next if it has one.
void transposition_compose(struct transposition *xp, const struct transposition *next);

// Works out the checksum deltas for packets of the flow `key` (their fields before the rewrite), and
// removes writes that change nothing. Call once, after the last compose.
void transposition_finish(struct transposition *xp, const struct flow_key *key);

// Rewrites the headers of p in place. `pp` describes p before; it is not updated. Never fails: the caller has
// checked TTL > 1 where XP_DEC_TTL is set. Handles every csum_mode, UDP checksum zero (stays zero), and a
// UDP checksum that becomes 0 (written 0xffff). A packet without L4 header (other protocols) gets
// L3 writes only. SCTP's CRC is adjusted. mss: the limit for XP_CLAMP_MSS, 0 = leave. Not for PARSE_ICMP_ERROR that
// belongs to a flow: that is transposition_apply_icmp_error.
void transposition_apply(const struct transposition *xp, struct packet *p, const struct parsed *pp, uint16_t mss);

// Rewrites an ICMP error that belongs to `flow`: `xp` is the transposition of the error's own direction, as finished
// for `flow`. The embedded packet travelled the other way and gets the inverse: its source takes what xp writes to the
// destination side, and its destination what xp writes to the source side. The outer source is rewritten only when it
// is flow->src: an error from a router in between keeps the router's address (RFC 5508 section 4.2). The embedded and
// the outer checksums are made right, also where the embedded L4 header is cut to 8 bytes.
void transposition_apply_icmp_error(const struct transposition *xp, const struct flow_key *flow, struct packet *p,
                                    const struct parsed *pp, const struct parsed_embedded *inner);

#endif
