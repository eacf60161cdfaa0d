// SPDX-License-Identifier: MPL-2.0
// Blueprint: one complete document per port, nothing referred to by name.
//
// Strings are NUL-terminated UTF-8, "" when absent. Arrays are pointer and count. All memory belongs to
// whoever made the document (api/json: one arena) and is read only.
#ifndef NEREUS_API_TYPES_BLUEPRINT_H
#define NEREUS_API_TYPES_BLUEPRINT_H

#include "api/types/types.h"

enum blueprint_pipeline { BLUEPRINT_PIPELINE_VPC };

struct blueprint_vpc {
    struct uuid id;
    uint32_t vni; // 1..0xfffffd
    uint32_t mtu; // 1280..65535, the guest's IP MTU
};

enum blueprint_device_kind {
    BLUEPRINT_DEVICE_VETH,      // host end of a veth, by ifname
    BLUEPRINT_DEVICE_TAP,       // a persistent tap of our own
    BLUEPRINT_DEVICE_TAP_ADOPT, // a tap someone else made and holds
    BLUEPRINT_DEVICE_VHOST_USER,
    BLUEPRINT_DEVICE_NETDEV, // any Linux netdev
    BLUEPRINT_DEVICE_NONE,   // no device: tests, staged ports
};

struct blueprint_device {
    uint8_t kind;       // enum blueprint_device_kind
    const char *ifname; // up to 15 characters
    const char *socket;
    bool server; // mode: "server" (else "client")
    uint32_t queues; // 1..16
    bool offloads;
};

enum blueprint_direction { BLUEPRINT_IN = 1, BLUEPRINT_OUT = 2, BLUEPRINT_BOTH = 3 };

struct blueprint_allowed {
    struct ip_prefix cidr;
    bool has_mac;
    struct mac_addr mac;
    uint8_t dir; // enum blueprint_direction
};

struct blueprint_l2 {
    struct mac_addr mac;
    const struct ip_addr *addresses; // at least one; the first of each family is the one DHCP gives
    uint32_t n_addresses;
    bool anti_spoof;
    const struct blueprint_allowed *allowed;
    uint32_t n_allowed;
};

struct blueprint_dhcp_route {
    struct ip_prefix prefix;
    struct ip_addr via; // unspecified: the gateway
};

struct blueprint_dhcp4 {
    bool enabled; // the object is present
    uint32_t lease_s;
    const struct ip_addr *dns;
    uint32_t n_dns;
    const char *domain, *hostname;
    const struct blueprint_dhcp_route *routes;
    uint32_t n_routes;
};

struct blueprint_dhcp6 {
    bool enabled;
    uint32_t lease_s;
    const struct ip_addr *dns;
    uint32_t n_dns;
    const char *domain;
};

struct blueprint_ra {
    bool enabled;
    bool slaac;
};

struct blueprint_metadata {
    bool enabled;
    bool token_required;
    const char *document; // canonical JSON text of the "document" object, "{}" when absent
};

struct blueprint_gateway {
    struct mac_addr mac;
    bool has_v4, has_v6;
    struct ip_addr v4, v6;
    const struct ip_prefix *subnets;
    uint32_t n_subnets;
    bool guest_prefix_subnet; // guest_prefix: "subnet"
    struct blueprint_dhcp4 dhcp4;
    struct blueprint_dhcp6 dhcp6;
    struct blueprint_ra ra;
    struct blueprint_metadata metadata;
};

enum blueprint_action { BLUEPRINT_ALLOW, BLUEPRINT_DENY, BLUEPRINT_REJECT };

struct blueprint_icmp {
    int32_t type, code; // -1: null, any
};

enum blueprint_remote_kind { BLUEPRINT_REMOTE_ANY, BLUEPRINT_REMOTE_VPC, BLUEPRINT_REMOTE_CIDRS, BLUEPRINT_REMOTE_SET };

struct blueprint_remote {
    uint8_t kind; // enum blueprint_remote_kind
    const struct ip_prefix *cidrs;
    uint32_t n_cidrs;
    struct uuid set;
};

struct blueprint_rule {
    const char *id;
    uint32_t prio; // 0..65535
    uint8_t dir;   // BLUEPRINT_IN or BLUEPRINT_OUT
    uint8_t action;
    uint16_t proto; // 0..255 or PROTOCOL_ANY
    const struct port_range *ports;
    uint32_t n_ports;
    const struct blueprint_icmp *icmp;
    uint32_t n_icmp;
    struct blueprint_remote remote;
    bool stateful;
    bool log;
    uint32_t meter;
};

struct blueprint_firewall {
    bool default_in_allow, default_out_allow;
    bool established_keep; // established: "keep" (else "revalidate")
    bool tcp_strict;
    const struct blueprint_rule *rules;
    uint32_t n_rules;
};

struct blueprint_posture { // the operator's rules, over the tenant's; no match: allow
    const struct blueprint_rule *out;
    uint32_t n_out;
    const struct blueprint_rule *in;
    uint32_t n_in;
};

enum blueprint_target_kind {
    BLUEPRINT_TARGET_LOCAL,    // destination is in the VPC: look up its own mapping
    BLUEPRINT_TARGET_IP,       // next hop: mapping of `ip`
    BLUEPRINT_TARGET_PORT,     // the same, an appliance
    BLUEPRINT_TARGET_EXTERNAL, // internet gateway: floating IP only
    BLUEPRINT_TARGET_NAT,      // NAT gateway: floating IP if there is one, else SNAT
    BLUEPRINT_TARGET_PEERING,  // mapping of the destination in VPC `vni`
    BLUEPRINT_TARGET_BLACKHOLE,
};

struct blueprint_target {
    uint8_t kind;
    struct ip_addr ip;
    uint32_t vni;
    bool has_network;
    struct uuid network; // external network, to choose among external addresses
};

struct blueprint_route {
    struct ip_prefix prefix;
    struct blueprint_target target;
    bool custom; // origin: "custom" (else "system"); wins over system for an equal prefix
};

struct blueprint_floating {
    struct ip_addr external, internal;
    bool has_network;
    struct uuid network;
};

struct blueprint_snat {
    struct ip_addr address;
    struct port_range ports;
    bool has_network;
    struct uuid network;
};

struct blueprint_nat {
    const struct blueprint_floating *floating;
    uint32_t n_floating;
    const struct blueprint_snat *snat;
    uint32_t n_snat;
};

struct blueprint_limits {
    uint32_t flows_min, flows_max;
};

struct blueprint {
    uint32_t schema; // 1
    struct uuid port;
    uint64_t generation;
    uint8_t hash[32]; // SHA-256 over the canonical document without generation and hash
    const char *name;
    uint8_t pipeline;
    struct blueprint_vpc vpc;
    struct blueprint_device device;
    struct blueprint_l2 l2;
    struct blueprint_gateway gateway;
    struct blueprint_posture posture;
    struct blueprint_firewall firewall;
    const struct blueprint_route *routes;
    uint32_t n_routes;
    struct blueprint_nat nat;
    struct blueprint_limits limits;
};

#endif
