// SPDX-License-Identifier: MPL-2.0
// vip.h: the virtual IPs of a port, compiled: found by where a packet goes, and a target chosen by a hash. Which target
// a connection has is the connection's own memory (layer_nat_vip.c); nothing here changes once built.
#ifndef NEREUS_VPC_VIP_H
#define NEREUS_VPC_VIP_H

#include "api/types/blueprint.h"
#include "engine/env.h"
#include "engine/flow_key.h"
#include "vpc/maglev.h"

struct vip {
    const struct blueprint_vip *b;
    uint8_t *table;        // Maglev's; NULL for the plain hash
    uint32_t total_weight; // of the active targets; 0: nobody takes new connections
};

struct vips {
    struct vip *list; // by address, protocol, port
    uint32_t n;
};

// false: no memory. `b` must outlive it. vips_free takes what was half made, too.
bool vips_build(const struct env *env, struct vips *v, const struct blueprint *b);
void vips_free(const struct env *env, struct vips *v);

// The virtual IP that a packet is for, the most exact one: port and protocol, protocol, any. port: host order.
const struct vip *vip_find(const struct vips *v, const struct ip_addr *address, uint8_t protocol, uint16_t port);
bool vip_has_address(const struct vips *v, const struct ip_addr *address);
// Has the protocol real ports? Only then a virtual IP may be one of a port.
bool vip_protocol_has_ports(uint16_t protocol);

// A target for a new connection; NULL: nobody is active.
const struct blueprint_vip_target *vip_choose(const struct vip *v, uint64_t hash);
uint64_t vip_hash_client(const struct ip_addr *client); // the same on every node and after every restart
// May a connection keep this target?
bool vip_keeps(const struct vip *v, const struct ip_addr *address, uint16_t port);
// The port that the target is reached by when the packet came for `port`.
uint16_t vip_target_port(const struct vip *v, const struct blueprint_vip_target *t, uint16_t port);

#endif
