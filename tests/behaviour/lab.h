// SPDX-License-Identifier: MPL-2.0
// lab.h: the words in which behaviours are told: a node on the fake platform, guests with blueprints, packets.
//
// Notation as in the tests: G = guest port (10.0.0.3, fd00::3, VNI 100) on node A; GW = 10.0.0.1; P = peer
// 10.0.0.4 on node B. Every statement about IPv4 runs again for IPv6: `family` picks the addresses.
#ifndef NEREUS_TESTS_BEHAVIOUR_LAB_H
#define NEREUS_TESTS_BEHAVIOUR_LAB_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "engine/checksum.h"
#include "engine/geneve.h"
#include "platform/fake/fake.h"

extern const struct ip_addr NODE_A, NODE_B, NODE_C; // fd00:cabe::a, b, c
extern const struct mac_addr GUEST_MAC, PEER_MAC, GATEWAY_MAC;
struct ip_addr ip(const char *text); // "10.0.0.3", "fd00::3"; asserts
struct ip_prefix prefix(const char *text);
struct mac_addr mac(const char *text);

// A blueprint to change before it is put; arrays have room.
struct draft {
    struct blueprint b;
    struct ip_addr addresses[4];
    struct ip_prefix subnets[4];
    struct blueprint_allowed allowed[4];
    struct blueprint_rule rules[64], posture_out[8], posture_in[8];
    struct port_range ranges[64][4];
    struct blueprint_icmp icmp[64];
    struct ip_prefix cidrs[64][4];
    struct blueprint_route routes[16];
    struct blueprint_floating floating[4];
    struct blueprint_snat snat[4];
    struct ip_prefix attached[4];
    struct blueprint_vip vips[4];
    struct blueprint_vip_target targets[4][4];
    struct ip_addr dns[2];
};
// Port number `id` of VNI `vni` with the guest's addresses, deny in, allow out, routes local and default by NAT.
void draft_init(struct draft *d, uint8_t id, uint32_t vni, const char *v4, const char *v6, struct mac_addr mac);
void draft_guest(struct draft *d); // G
struct blueprint_rule *draft_rule(struct draft *d, const char *id, uint32_t prio, uint8_t dir, uint8_t action,
                                  uint16_t proto);                                         // any remote, any port
void rule_ports(struct draft *d, struct blueprint_rule *r, uint16_t first, uint16_t last); // adds a range
void rule_icmp(struct draft *d, struct blueprint_rule *r, int type, int code);
void rule_cidr(struct draft *d, struct blueprint_rule *r, const char *cidr); // adds
void draft_floating(struct draft *d, const char *external, const char *internal);
void draft_snat(struct draft *d, const char *address, uint16_t first, uint16_t last);
struct blueprint_vip *draft_vip(struct draft *d, const char *address, uint16_t protocol, uint16_t port);
struct blueprint_vip_target *vip_target(struct draft *d, struct blueprint_vip *v, const char *address, uint16_t port);
void draft_route(struct draft *d, const char *prefix, uint8_t kind, const char *via);

struct lab {
    struct fake *a; // node A, with guest G as port `g`
    struct draft guest;
    uint32_t g;
};
struct node_config lab_config(struct ip_addr self);
int lab_setup(void **state);    // node A with G, and the mapping of P on node B
int lab_teardown(void **state); // checks conservation on every port, then that nothing leaked

uint32_t put(struct fake *f, struct draft *d); // puts with a new generation and hash; returns the index; asserts
bool try_put(struct fake *f, struct draft *d, struct node_error *e);
void map(struct fake *f, uint32_t vni, const char *ip, struct mac_addr mac, struct ip_addr node, uint64_t epoch);
void unmap(struct fake *f, uint32_t vni, const char *ip, uint64_t epoch);

// Packets. `family` 4 or 6 chooses between the two addresses of an end.
struct end {
    struct mac_addr mac;
    const char *v4, *v6;
};
#define MAC_OF(n) \
    { \
        { \
            2, 0, 0, 0, 0, n \
        } \
    }
extern const struct end G, P, OUTSIDE; // OUTSIDE: 203.0.113.9, 2001:db8:9::9

struct frame {
    uint8_t bytes[2048];
    uint32_t len;
};
struct frame tcp(int family, struct end src, uint16_t sport, struct end dst, uint16_t dport, uint8_t flags,
                 uint32_t seq, uint32_t ack, uint32_t payload);
struct frame udp(int family, struct end src, uint16_t sport, struct end dst, uint16_t dport, uint32_t payload);
struct frame icmp_echo(int family, struct end src, struct end dst, bool reply, uint16_t id, uint16_t seq,
                       uint32_t payload);
struct frame icmp(int family, struct end src, struct end dst, uint8_t type, uint8_t code);
struct frame other(int family, struct end src, struct end dst, uint8_t protocol, uint32_t payload);
struct frame arp_request(struct mac_addr sender_mac, const char *sender, const char *target);
struct frame in_geneve(const struct frame *inner, uint32_t vni, struct ip_addr from, struct ip_addr to);
void frame_set_mac(struct frame *f, struct mac_addr dst, struct mac_addr src);
void frame_fix(struct frame *f); // recomputes IP and L4 checksums
bool frame_checksums_right(const uint8_t *frame, uint32_t len);
struct end via(struct end e, struct mac_addr mac); // the same end behind another MAC

// Sends, then says what came: the single packet call since, or none.
void send_guest(struct lab *l, const struct frame *f);
void receive_vpc(struct lab *l, const struct frame *inner);                   // from node B in VNI 100
const struct fake_call *expect_underlay(struct fake *f, struct ip_addr node); // asserts that it is the only one
const struct fake_call *expect_deliver(struct fake *f, uint32_t port);
void expect_nothing(struct fake *f);
void expect_drop(struct fake *f, uint32_t port, int dir,
                 enum drop reason); // one more than at the last call, nothing out
uint64_t drops(struct fake *f, uint32_t port, int dir, enum drop reason);
uint32_t flows(struct fake *f, uint32_t port); // connections of the port
void check_conservation(struct fake *f);
const uint8_t *inner_of(const struct fake_call *c, uint32_t *len); // behind the 70 outer bytes

// ---- state.c: compared whole, so that drift shows at once

// Every counter of the port that moved since the last call, in this order and these words: "out received=1 hits=1
// misses=1 sent=1 answered=1 consumed=1 generated=1 <drop reason>=1 in received=1 ..."; "" when none did.
void expect_counters(struct fake *f, uint32_t port, const char *moved);
// The node's own: "received=1 to-port=1 forwarded=1 <drop reason>=1 service-received=1 ...".
void expect_node_counters(struct fake *f, const char *moved);
void forget_counters(struct fake *f);
// All that a node counts and remembers, as text; the caller frees it.
char *whole_state(struct fake *f);
void expect_same_state(const char *a, const char *b); // names the first line that differs
void expect_state(struct fake *f, char *was);
struct flow_info only_flow(struct fake *f, uint32_t port); // asserts that there is one
void expect_tcp_state(struct fake *f, uint32_t port, enum tcp_state state);
void pass_time(struct fake *f, uint64_t ms); // nothing but router advertisements may come of it
void expect_same_frame(const struct fake_call *c, const struct frame *f);
// The frame inside Geneve is f with these MAC addresses.
void expect_inner(const struct fake_call *c, struct frame f, struct mac_addr dst, struct mac_addr src);

#define TEST(text, fn) \
    { \
        text, fn, lab_setup, lab_teardown, NULL \
    }

#endif
