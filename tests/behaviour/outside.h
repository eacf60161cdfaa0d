// SPDX-License-Identifier: MPL-2.0
// outside.h: the words for what lies beyond the VPC: edges with an external link, external addresses, answers.
//
// An edge's link is 198.51.100.0/24 and 2001:db8:e::/64; a router at .1 and ::1 leads to OUTSIDE.
#ifndef NEREUS_TESTS_BEHAVIOUR_OUTSIDE_H
#define NEREUS_TESTS_BEHAVIOUR_OUTSIDE_H

#include "tests/behaviour/lab.h"

#define EACH_FAMILY(family) for (int family = 4; family <= 6; family += 2)

extern const struct mac_addr LINK_MAC, ROUTER_MAC;
extern const struct node_external_link LINK;
extern const struct end FLOATING, FLOATING_2, SHARED; // external addresses ending in 3, 4 and 2
extern const struct end Q;                            // another guest: 10.0.0.5, fd00::5, on port number 5

const char *address_of(struct end e, int family);

struct node_config edge_config(struct ip_addr self); // lab_config with the link
int edge_setup(void **state);                        // as lab_setup, but node A is an edge, and the only one
void serve(struct fake *f, uint64_t epoch, unsigned n, const struct ip_addr nodes[]); // edge sets of both families
void map_external(struct fake *f, struct end e, uint16_t first, uint16_t last, struct ip_addr node, uint64_t epoch);
void give_floating(struct draft *d, struct end external, struct end internal); // both families
void give_snat(struct draft *d, struct end external, uint16_t first, uint16_t last);
void allow_all_in(struct draft *d);

// A packet as its reader sees it.
struct view {
    struct ip_addr src, dst;
    uint8_t protocol, ttl;
    uint16_t sport, dport; // host order; ICMP: the identifier, both
    uint8_t *l3, *l4;
};
struct view view_of(struct frame *f);
bool goes(struct frame *f, int family, struct end src, struct end dst); // from src to dst, checksums right?
struct frame reply_to(const struct frame *f, uint8_t tcp_flags);        // ends swapped; echo becomes echo reply
struct frame error_about(int family, struct end from, struct ip_addr to, const struct frame *sent, uint32_t quoted,
                         uint8_t type, uint8_t code); // an ICMP error that quotes so many bytes of IP packet
struct frame start(uint8_t protocol, int family, struct end src, uint16_t sport, struct end dst, uint16_t dport);

// Sends, and what came of it as a frame of the inner packet. Questions for the router's MAC are answered on the way.
struct frame expect_outside(struct fake *f);
struct frame expect_at(struct fake *f, uint32_t port);
bool answer_question(struct fake *f, const struct fake_call *c); // in the router's name; false: it is none
struct frame expect_carried(struct fake *f, struct ip_addr node, uint32_t vni);
void send_from(struct fake *f, uint32_t port, const struct frame *frame);
void from_outside(struct fake *f, const struct frame *frame);
void expect_outside_drop(struct fake *f, enum drop reason); // by the edge, before any port; counts up by one
uint64_t outside_drops(struct fake *f, enum drop reason);

#endif
