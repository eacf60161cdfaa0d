// SPDX-License-Identifier: MPL-2.0
// scene.h: a node with one port in the VPC that the rows speak of: security-group rules, routes, peers on other
// nodes, external addresses behind an edge. Flow number i has an address tuple of its own, worked out from i.
#ifndef NEREUS_BENCH_SCENE_H
#define NEREUS_BENCH_SCENE_H

#include "bench/null_platform.h"

#define SCENE_PEERS 256u
#define SCENE_FLOWS_MAX (SCENE_PEERS * 60000u)

enum scene_nat { NAT_NONE, NAT_FLOATING, NAT_SNAT };

struct scene_options {
    uint8_t family; // 4 or 6
    uint8_t nat;    // enum scene_nat
    uint32_t nodes; // that the peers are spread over
    uint32_t rules, routes;
    uint32_t connections; // room for
    uint32_t rest_s;      // quarantine of freed ports
};

struct scene {
    struct scene_options options;
    struct null_platform np;
    struct node *node;
    uint32_t port;
    uint64_t now;    // ns
    uint32_t opened; // flows 0..opened-1 have a connection
};

extern const struct mac_addr scene_guest_mac, scene_gateway_mac;
extern const struct ip_addr scene_self, scene_edge;

struct scene_flow { // as the guest sees it
    struct ip_addr guest, peer;
    uint16_t guest_port, peer_port; // host order
};
struct scene_flow scene_flow(const struct scene *s, uint32_t i);
struct ip_addr scene_guest_external(const struct scene *s);
struct ip_addr scene_node(const struct scene *s, uint32_t i); // where flow i's peer is
#define SCENE_VNI 100u

struct scene *scene_create(const struct scene_options *o);
void scene_destroy(struct scene *s);
// Forgets all connections.
void scene_reset(struct scene *s);

#endif
