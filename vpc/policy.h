// SPDX-License-Identifier: MPL-2.0
// policy.h: a blueprint compiled for the packet path. Immutable once built (its counters apart); a port's
// policy is replaced by swapping one pointer and freed after a grace period.
#ifndef NEREUS_VPC_POLICY_H
#define NEREUS_VPC_POLICY_H

#include "engine/flow_key.h"
#include "engine/rule_table.h"
#include "vpc/gateway/gateway.h"
#include "vpc/tables.h"
#include "vpc/vip.h"

#define POLICY_POINTER 96
#define POLICY_TEXT 160

struct policy_error {
    char pointer[POLICY_POINTER]; // JSON pointer into the blueprint
    char text[POLICY_TEXT];
};

// The rules of one layer and direction: compiled, with their way back to the blueprint.
struct policy_rules {
    struct rule_table *table;
    const struct blueprint_rule *rules; // the blueprint's array
    uint32_t *index;                    // compiled rule -> rules[]
    uint64_t *hits;                     // by compiled rule; the last one counts the default
    uint32_t n;
    bool default_allow;
};

struct policy {
    struct blueprint *blueprint; // own copy
    struct gateway gateway;
    struct policy_rules firewall[2], posture[2]; // by enum flow_dir
    struct vips vips;
    struct lpm *routes; // value: index into blueprint->routes
    uint32_t *sets;     // address set slots in use, counted
    uint32_t n_sets;
    uint32_t generation;         // node's own number, moves at every change of what the port may do
    struct policy *next_retired; // core: waiting to be freed
};

// NULL with *error filled. Checks meaning: addresses, families, overlaps. Takes references on address sets.
struct policy *policy_build(struct vpc_tables *t, const struct blueprint *b, struct policy_error *error);
void policy_free(struct vpc_tables *t, struct policy *p);

bool policy_same_subnet(const struct policy *p, const struct ip_addr *a, const struct ip_addr *b);
bool policy_owns(const struct policy *p, const struct ip_addr *a);     // one of l2.addresses
bool policy_attached(const struct policy *p, const struct ip_addr *a); // in an external subnet routed to the port
// Name of the rule behind a compiled index, "default-in" and so on for RULE_NONE.
const char *policy_rule_name(const struct policy_rules *r, uint32_t rule, enum flow_dir dir);

#endif
