// SPDX-License-Identifier: MPL-2.0
// Mappings and address sets: versioned streams beside the blueprints.
#ifndef NEREUS_API_TYPES_MAPPING_H
#define NEREUS_API_TYPES_MAPPING_H

#include "api/types/types.h"

enum mapping_state { MAPPING_ACTIVE, MAPPING_MOVING, MAPPING_TOMBSTONE };

struct mapping { // key: vni, ip
    uint32_t vni;
    struct ip_addr ip;
    struct mac_addr mac;
    struct ip_addr node; // underlay IPv6 address
    uint64_t epoch;
    uint8_t state; // enum mapping_state
};

struct external_mapping { // key: address, protocol, ports
    struct ip_addr address;
    uint16_t protocol; // 0..255 or PROTOCOL_ANY
    struct port_range ports; // 0-65535 = all
    struct ip_addr node;
    struct uuid port;
    uint64_t epoch;
    uint8_t state; // enum mapping_state
};

struct edge_set { // which edges serve the external addresses of a prefix; key: prefix
    struct ip_prefix prefix;
    const struct ip_addr *nodes; // underlay addresses; a flow sticks to one by rendezvous hash
    uint32_t n_nodes;
    uint64_t epoch;
};

struct address_set { // key: id
    struct uuid id;
    uint64_t generation;
    const struct ip_prefix *cidrs;
    uint32_t n_cidrs;
};

#endif
