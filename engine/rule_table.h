// SPDX-License-Identifier: MPL-2.0
// rule_table.h: security-group rules of one direction, compiled. Never scanned: indexes over remote prefix,
// port range, protocol and ICMP type yield sets of candidate rules whose intersection's first member
// decides. Agrees with a linear reference on every input. Immutable once built.
#ifndef NEREUS_ENGINE_RULE_TABLE_H
#define NEREUS_ENGINE_RULE_TABLE_H

#include "engine/env.h"
#include "engine/ip.h"

enum rule_action { RULE_ALLOW = 0, RULE_DENY, RULE_REJECT };

#define RULE_PROTO_ANY 0xffff // any protocol
#define RULE_NONE 0xffffffffu // no rule matched: the default decides

struct rule_port_range {
    uint16_t first, last; // host order, inclusive
};

struct rule_icmp {
    int16_t type, code; // -1 = any
};

// Every condition that a rule states must hold: ports on a packet that has none, or ICMP types on one that is
// not ICMP, do not match whatever the protocol says.
struct rule { // one rule as the compiler takes it. Lower priority number wins; at equal priority deny and
              // reject win over allow, then the lower index in the array
    uint32_t priority;
    uint8_t action;                      // enum rule_action
    uint8_t ip_version;                  // 4, 6, 0 = both
    uint16_t protocol;                   // 0..255, RULE_PROTO_ANY
    const struct rule_port_range *ports; // destination ports, for TCP, UDP, SCTP (and ANY: those three); n 0 = any
    uint32_t n_ports;
    const struct rule_icmp *icmp; // n 0 = any; only for protocol 1 or 58
    uint32_t n_icmp;
    // The remote end: any of the parts. All absent (remote_any) = everywhere.
    bool remote_any;
    bool remote_vpc; // any address, but only of a packet from or to the overlay
    const struct ip_prefix *remotes;
    uint32_t n_remotes;
    const uint32_t *sets; // address sets by the caller's slot number; match overlay packets only
    uint32_t n_sets;
};

struct rule_query {
    struct ip_addr remote;
    uint8_t ip_version, protocol;
    bool overlay;   // the remote is inside the VPC (came over the overlay or goes to it), not outside an edge
    bool has_ports; // dport below is a port
    uint16_t dport; // host order
    uint8_t icmp_type, icmp_code;
};

// Answers whether `addr` is in address set `set` now. Must not block; called for sets the rules name.
typedef bool (*rule_set_member)(void *ctx, uint32_t set, const struct ip_addr *addr);

struct rule_table;
// NULL: out of memory. Rule ids of the result are indexes into `rules`, which need not outlive the call.
struct rule_table *rule_table_build(const struct env *env, const struct rule *rules, uint32_t n);
void rule_table_free(const struct env *env, struct rule_table *t);
uint32_t rule_table_match(const struct rule_table *t, const struct rule_query *q, rule_set_member member, void *ctx);
size_t rule_table_bytes(const struct rule_table *t);

// The reference: a plain scan. For tests and for whoever doubts the compiler.
uint32_t rule_match_linear(const struct rule *rules, uint32_t n, const struct rule_query *q, rule_set_member member,
                           void *ctx);

#endif
