// SPDX-License-Identifier: MPL-2.0
// tables.h: what all VPCs of a node share: V2P mappings, the nodes behind them (tunnels), address sets,
// external addresses and the edges that serve them.
//
// Threads: *_put, *_delete and iteration on the control thread; lookups on any worker, without a lock. What a
// lookup returns stays valid until the caller's next quiescent state.
#ifndef NEREUS_VPC_TABLES_H
#define NEREUS_VPC_TABLES_H

#include "api/types/mapping.h"
#include "engine/geneve.h"
#include "engine/lpm.h"
#include "engine/slot_map.h"

#define VTEP_GRACE_NS (120ull * 1000000000) // frames of a node named by a tombstone this young are still accepted

struct tunnel { // a remote node
    struct ip_addr node;
    struct geneve_template encap;
    uint32_t refs; // control only
};

struct mapping_slot {
    struct mapping m;
    uint32_t tunnel;     // 0: the mapping's node is this node
    uint64_t changed_at; // ns
};

struct vtep_slot { // node that may send frames of a VNI
    uint32_t vni;
    struct ip_addr node;
    uint32_t refs;       // live mappings; control only
    uint64_t good_until; // ns; UINT64_MAX while refs > 0
};

struct external_slot { // where packets to an external address go
    struct external_mapping m;
    uint32_t tunnel;  // 0: local
    uint32_t port;    // local port index when tunnel is 0
    bool from_policy; // made by a local port's blueprint, not by the mapping stream
};

struct edge_slot {
    struct ip_prefix prefix;
    uint32_t n_nodes;
    uint64_t epoch;
    struct {
        struct ip_addr node;
        uint32_t tunnel; // 0: this node is the edge
    } nodes[8];
};

struct address_set_slot {
    struct uuid id;
    uint64_t generation;
    struct lpm *members;     // swapped whole
    struct ip_prefix *cidrs; // control only
    uint32_t n_cidrs, users; // control only: policies that name it
    bool present;            // false: only named by a policy, empty
};

struct vpc_tables_config {
    struct ip_addr self; // underlay address of this node
    uint8_t outer_hop_limit;
    uint32_t max_mappings, max_tunnels, max_externals, max_sets, max_edges;
    void *ctx;
    void (*tunnel_open)(void *ctx, uint32_t tunnel, const struct ip_addr *node);
    void (*tunnel_close)(void *ctx, uint32_t tunnel);
};

struct vpc_tables {
    const struct env *env;
    struct vpc_tables_config config;
    struct slot_map mapping_map, vtep_map, tunnel_map, external_map, edge_map, set_map;
    struct mapping_slot *mappings;
    struct vtep_slot *vteps;
    struct tunnel *tunnels;
    struct external_slot *externals;
    struct edge_slot *edges;
    struct address_set_slot *sets;
    uint32_t external_count[129]; // linked externals by prefix length; control only
    uint64_t external_lengths[2]; // bit n: there are some of length n < 128
    uint32_t outside_version;     // moves when anything about external addresses or edges changes
};

bool vpc_tables_init(struct vpc_tables *t, const struct env *env, const struct vpc_tables_config *config);
void vpc_tables_fini(struct vpc_tables *t);

enum put_result { PUT_OK, PUT_UNCHANGED, PUT_STALE, PUT_CONFLICT, PUT_FULL, PUT_ABSENT };

enum put_result mapping_put(struct vpc_tables *t, const struct mapping *m, uint64_t now);
uint32_t mapping_lookup(const struct vpc_tables *t, uint32_t vni,
                        const struct ip_addr *ip); // slot, 0 = none; tombstones are none
bool vtep_good(const struct vpc_tables *t, uint32_t vni, const struct ip_addr *node, uint64_t now);

// Can external addresses come as this prefix (len over the 16-byte form)? Lookups try each length in use, so not all
// lengths can; and its host bits are zero.
bool external_prefix_ok(const struct ip_addr *address, unsigned len);
uint8_t external_length(const struct external_mapping *m); // of its prefix over the 16-byte form; 128: one address
enum put_result external_put(struct vpc_tables *t, const struct external_mapping *m);
// A local port's own external addresses: replaces all it had before. n 0 removes them. All or nothing.
enum put_result external_set_port(struct vpc_tables *t, uint32_t port, const struct external_mapping *m, uint32_t n);
uint32_t external_lookup(const struct vpc_tables *t, const struct ip_addr *address, uint8_t protocol, uint16_t port);
// Is any external mapping of this address at hand? For ARP and NS on an edge's link.
bool external_owned(const struct vpc_tables *t, const struct ip_addr *address);
// Do ports or protocols matter to where packets of this address go?
bool external_is_shared(const struct vpc_tables *t, const struct ip_addr *address);

enum put_result edge_set_put(struct vpc_tables *t, const struct edge_set *s);
const struct edge_slot *edge_lookup(const struct vpc_tables *t, const struct ip_addr *external); // longest prefix
// Rendezvous hash: the node index in `e` that serves the flow; removing a node moves only its flows.
uint32_t edge_choose(const struct edge_slot *e, uint64_t flow_hash);
bool edge_is_node(const struct vpc_tables *t, const struct ip_addr *node);

enum put_result address_set_put(struct vpc_tables *t, const struct address_set *s);
enum put_result address_set_delete(struct vpc_tables *t, const struct uuid *id);
// Slot of a set for a policy, made empty if unknown; counted until address_set_release. 0 = full.
uint32_t address_set_use(struct vpc_tables *t, const struct uuid *id);
void address_set_release(struct vpc_tables *t, uint32_t slot);
uint32_t address_set_find(const struct vpc_tables *t, const struct uuid *id);
bool address_set_member(void *tables, uint32_t slot, const struct ip_addr *addr); // a rule_set_member

// Slot, or 0: this node itself, or UINT32_MAX: full. Counted until tunnel_release.
uint32_t tunnel_use(struct vpc_tables *t, const struct ip_addr *node);
void tunnel_release(struct vpc_tables *t, uint32_t tunnel);

#endif
