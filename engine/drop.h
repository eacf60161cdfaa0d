// SPDX-License-Identifier: MPL-2.0
// drop.h: every reason for which a packet ends here, in one list: code, API name, help text.
// Each packet that comes in is accounted for exactly once:
// received = sent + answered + consumed + sum of drops, per port and direction.
#ifndef NEREUS_ENGINE_DROP_H
#define NEREUS_ENGINE_DROP_H

#define DROP_REASONS(X) \
    X(NONE, "none", "not dropped") \
    /* shape of the packet (engine/parse) */ \
    X(TRUNCATED, "truncated", "a header or length runs past the end of the packet") \
    X(BAD_ETHERTYPE, "bad-ethertype", "neither IPv4, IPv6 nor ARP (802.3 and LLC included)") \
    X(VLAN_TAGGED, "vlan-tagged", "a VLAN tag where none is expected") \
    X(BAD_SRC_MAC, "bad-src-mac", "source MAC is multicast or zero") \
    X(BAD_IP_HEADER, "bad-ip-header", "IP version, header length or total length is wrong") \
    X(BAD_IP_CHECKSUM, "bad-ip-checksum", "IPv4 header checksum is wrong") \
    X(BAD_ADDRESS, "bad-address", "loopback, multicast or unspecified source, or a v4-mapped IPv6 address") \
    X(BAD_L4_HEADER, "bad-l4-header", "TCP, UDP, SCTP or ICMP header is impossible") \
    X(IP6_EXT_CHAIN, "ip6-ext-chain", "IPv6 extension header chain too long or malformed") \
    X(SOURCE_ROUTE, "source-route", "LSRR, SSRR or routing header type 0") \
    X(FRAGMENT, "fragment", "IP fragment of what is never sent in fragments: DHCP, neighbour discovery, ICMP errors") \
    X(FRAGMENT_OVERLAP, "fragment-overlap", "overlaps or contradicts another fragment of its datagram") \
    X(FRAGMENT_LIMIT, "fragment-limit", "too many fragments wait for the first of their datagram") \
    X(FRAGMENT_TIMEOUT, "fragment-timeout", "the first fragment of its datagram never came") \
    X(FRAGMENT_ORPHAN, "fragment-orphan", "the connection of its datagram ended before it came") \
    X(TOO_BIG, "too-big", "larger than the MTU") \
    X(TTL_EXPIRED, "ttl-expired", "TTL or hop limit ran out at the virtual router") \
    X(L4_CHECKSUM, "l4-checksum", "checksum metadata is impossible (start or offset beyond the packet)") \
    X(BAD_GSO, "bad-gso", "segmentation metadata does not fit the packet") \
    /* gateway layer */ \
    X(SPOOF_MAC, "spoof-mac", "source MAC is not the port's") \
    X(SPOOF_IP, "spoof-ip", "source address is not the port's nor allowed") \
    X(SPOOF_ARP, "spoof-arp", "ARP sender is not the port, or a gratuitous ARP") \
    X(SPOOF_ND, "spoof-nd", "neighbour discovery for an address that is not the port's") \
    X(ARP_INVALID, "arp-invalid", "malformed ARP, or ARP for an address outside the subnet") \
    X(ARP_OVERLAY, "arp-overlay", "ARP from the overlay") \
    X(ND_INVALID, "nd-invalid", "malformed neighbour discovery, or hop limit not 255") \
    X(ND_FROM_GUEST, "nd-from-guest", "router advertisement, redirect or unsolicited NA from a guest") \
    X(ND_OVERLAY, "nd-overlay", "neighbour discovery from the overlay") \
    X(DHCP_INVALID, "dhcp-invalid", "malformed DHCP message") \
    X(DHCP_SERVER, "dhcp-server", "DHCP server message from a guest") \
    X(DHCP_IGNORED, "dhcp-ignored", "DHCP message that asks for no answer") \
    X(DHCP_OFF, "dhcp-off", "DHCP is not enabled on this port") \
    X(GATEWAY_SERVICE, "gateway-service", "sent to the gateway, which offers no such service") \
    X(LINK_LOCAL, "link-local", "link-local address that may not leave or enter the port") \
    X(BROADCAST, "broadcast", "broadcast that the gateway does not answer") \
    X(MULTICAST, "multicast", "multicast that the gateway does not answer") \
    X(IGMP, "igmp", "IGMP: no multicast groups here") \
    X(MLD, "mld", "MLD: no multicast groups here") \
    X(WRONG_DST, "wrong-dst", "destination address is not this port's") \
    X(LOOP, "loop", "the port's own address comes back as the source") \
    X(METADATA_OFF, "metadata-off", "the metadata service is not reachable") \
    X(METADATA_PORT, "metadata-port", "metadata address on a port other than TCP 80") \
    X(RATE_ICMP, "rate-icmp", "rate limit of locally made ICMP") \
    /* posture, firewall */ \
    X(POSTURE_DENY, "posture-deny", "refused by an operator rule") \
    X(FIREWALL_DENY, "firewall-deny", "refused by a security group rule or its default") \
    X(FIREWALL_REJECT, "firewall-reject", "refused by a rule that answers") \
    X(REVALIDATE_DENY, "revalidate-deny", "connection no longer allowed by the policy in force") \
    X(TCP_STRICT, "tcp-strict", "TCP segment without connection while strict") \
    X(TCP_WINDOW, "tcp-window", "TCP segment out of window") \
    X(ICMP_UNRELATED, "icmp-unrelated", "ICMP error for no known connection") \
    /* router */ \
    X(NO_ROUTE, "no-route", "no route to the destination") \
    X(BLACKHOLE, "blackhole", "route target is blackhole") \
    X(SOURCE_CHECK, "source-check", "source address has no route back") \
    /* nat */ \
    X(NO_EXTERNAL_IP, "no-external-ip", "route leads outside but the port has no external address") \
    X(SNAT_EXHAUSTED, "snat-exhausted", "no free port in the SNAT slice") \
    X(NAT_REVOKED, "nat-revoked", "the connection's external address is no longer the port's") \
    X(NAT_UNSUPPORTED, "nat-unsupported", "protocol without ports cannot share an address") \
    X(NO_NAT_STATE, "no-nat-state", "inbound to a shared external address without a connection") \
    X(VIP_NO_TARGET, "vip-no-target", "the virtual IP has no target that takes new connections") \
    X(VIP_TARGET_GONE, "vip-target-gone", "the connection's virtual IP or target is down or was removed") \
    X(VIP_OUTSIDE, "vip-outside", "the virtual IP's target is not inside the VPC") \
    /* overlay */ \
    X(NO_MAPPING, "no-mapping", "no mapping for the destination in this VPC") \
    X(UNKNOWN_PORT, "unknown-port", "no port here with that VNI and MAC") \
    X(BAD_VTEP, "bad-vtep", "outer source is not a node of that VPC") \
    X(ECN, "ecn", "outer congestion mark on an inner packet that cannot carry it (RFC 6040)") \
    X(GENEVE_VERSION, "geneve-version", "Geneve version is not 0") \
    X(GENEVE_LENGTH, "geneve-length", "Geneve options run past the end") \
    X(GENEVE_CRITICAL, "geneve-critical", "unknown critical Geneve option") \
    X(GENEVE_OAM, "geneve-oam", "Geneve control packet") \
    X(GENEVE_PROTOCOL, "geneve-protocol", "Geneve payload is not Ethernet") \
    X(OUTER_INVALID, "outer-invalid", "outer headers are malformed or not for this node") \
    X(OUTER_CHECKSUM, "outer-checksum", "outer UDP checksum is wrong") \
    X(NO_EDGE, "no-edge", "no edge serves the external address") \
    X(NO_EXTERNAL_MAPPING, "no-external-mapping", "no external mapping for the address") \
    X(NEXT_HOP_PENDING, "next-hop-pending", "too many packets wait for a next hop") \
    X(NEXT_HOP_FAILED, "next-hop-failed", "next hop is unreachable") \
    /* limits and life cycle */ \
    X(FLOW_LIMIT, "flow-limit", "the port's connection limit is reached") \
    X(RATE_LIMITED, "rate-limited", "beyond the port's bits or packets per second") \
    X(RATE_NEW, "rate-new", "beyond the port's new connections per second") \
    X(TUPLE_IN_USE, "tuple-in-use", \
      "another connection of the port has the same addresses and ports on the guest's side") \
    X(NO_MEMORY, "no-memory", "an allocation failed") \
    X(PORT_PAUSED, "port-paused", "the port is paused") \
    X(PORT_FULL, "port-full", "the guest's receive queue is full") \
    X(PORT_GONE, "port-gone", "the port went away") \
    X(UNDERLAY_FULL, "underlay-full", "the underlay's transmit queue is full") \
    X(NO_POLICY, "no-policy", "the port has no blueprint yet") \
    X(RECIRCULATION, "recirculation", "too many passes between local ports")

#define DROP_ENUM(id, name, help) DROP_##id,
enum drop { DROP_REASONS(DROP_ENUM) DROP_COUNT };
#undef DROP_ENUM

const char *drop_name(enum drop reason); // stable API name, e.g. "spoof-ip"
const char *drop_help(enum drop reason); // one sentence without a full stop

#endif
