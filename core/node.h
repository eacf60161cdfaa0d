// SPDX-License-Identifier: MPL-2.0
// node.h: a node's dataplane, independent of any OS: ports, demultiplexing, the VPC pipeline over the
// shared flow table, mappings, edges. The driver feeds packets in, the control thread feeds documents in.
//
// Threads. Receive calls and node_tick: any worker, each with its own number. Everything marked [control]:
// one control thread, which never runs on a packet worker; it may block shortly, and never stops packets.
// The driver reports quiescent states to its own env (engine/env.h: defer).
// Time: `now` is monotonic nanoseconds; `wall` is Unix seconds.
#ifndef NEREUS_CORE_NODE_H
#define NEREUS_CORE_NODE_H

#include "api/types/blueprint.h"
#include "api/types/mapping.h"
#include "core/platform.h"
#include "engine/connection.h"
#include "vpc/trace.h"

struct node;

struct node_external_link {            // an edge's link to the outside
    struct mac_addr mac;               // of the link: answers ARP and NS for external addresses
    struct ip_prefix prefix4, prefix6; // on-link prefixes; len 0 = family absent
    struct ip_addr gateway4, gateway6; // unspecified = everything is on-link
    uint32_t mtu;
};

struct node_config {
    struct ip_addr underlay; // this node's IPv6 address
    uint32_t underlay_mtu;   // IP MTU
    uint32_t workers;        // 1..16
    uint32_t max_ports, max_connections, max_mappings;
    bool keep_state; // connections outlive the process
    bool allow_zero_udp_checksum;
    uint8_t outer_hop_limit;
    struct conn_timeouts timeouts;
    uint32_t tcp_port_quarantine_s; // freed SNAT ports, default 60
    uint32_t fragment_timeout_s;    // of a datagram whose fragments are not all there, default 30
    struct mac_addr service_mac;    // of the metadata tap
    const struct node_external_link *external;
    uint32_t n_external;
    uint32_t flow_log_records; // room for the flow log, a power of two; 0 = none is kept
    bool flow_log_all;         // of every connection and refusal, not only where a rule says so
};
void node_config_default(struct node_config *c);

// A refusal: where in the document (api/json turns the field path into a JSON pointer) and why.
struct node_error {
    enum { NODE_OK = 0, NODE_INVALID, NODE_STALE, NODE_CONFLICT, NODE_NOT_FOUND, NODE_LIMIT, NODE_DEVICE } code;
    char pointer[96]; // JSON pointer, e.g. "/firewall/rules/3/ports/0"
    char text[160];   // a sentence for a person
};

struct node *node_create(const struct platform *platform, const struct node_config *config, uint64_t now);
// After the workers have stopped and everything deferred has run.
void node_destroy(struct node *n);

// ---- Documents [control]. The document is copied; all or nothing. Same generation/epoch and same content: OK, no
// effect.
bool node_blueprint_put(struct node *n, const struct blueprint *b, uint64_t now, uint64_t wall, struct node_error *e);
bool node_blueprint_delete(struct node *n, const struct uuid *port, struct node_error *e);
bool node_mapping_put(struct node *n, const struct mapping *m, uint64_t now, struct node_error *e);
bool node_external_mapping_put(struct node *n, const struct external_mapping *m, struct node_error *e);
bool node_edge_set_put(struct node *n, const struct edge_set *s, struct node_error *e); // n_nodes 0 = removed
bool node_address_set_put(struct node *n, const struct address_set *s, struct node_error *e);
bool node_address_set_delete(struct node *n, const struct uuid *id, struct node_error *e); // conflict while in use
// Dry run of a blueprint: validates and compiles, applies nothing.
bool node_blueprint_check(struct node *n, const struct blueprint *b, struct node_error *e);

enum node_port_action { NODE_PORT_PAUSE, NODE_PORT_RESUME, NODE_PORT_RESET };
bool node_port_act(struct node *n, const struct uuid *port, enum node_port_action action, struct node_error *e);

// ---- Packets [worker]
void node_receive_guest(struct node *n, unsigned worker, uint32_t port, struct packet **packets, unsigned count,
                        uint64_t now);
void node_receive_underlay(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now);
void node_receive_external(struct node *n, unsigned worker, uint32_t link, struct packet **packets, unsigned count,
                           uint64_t now);
void node_receive_service(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now);
// Timers: expiry, router advertisements, next hops. Call at least each 250 ms while ports exist. Returns the
// time (ns) when it wants to be called next.
uint64_t node_tick(struct node *n, unsigned worker, uint64_t now, uint64_t wall);

// ---- Looking in [control]
enum { COUNT_OUT = 0, COUNT_IN = 1 };
struct port_counters { // sums over workers; index: COUNT_OUT from the guest, COUNT_IN to the guest
    uint64_t received[2], received_bytes[2];
    uint64_t sent[2], sent_bytes[2];
    uint64_t answered[2];  // ended in a local reply: the packet was the question
    uint64_t consumed[2];  // taken by a local service
    uint64_t generated[2]; // made here (answers, RA, ICMP errors); outside the conservation sum
    uint64_t hits[2], misses[2];
    uint64_t drops[2][DROP_COUNT];
};
struct node_counters { // packets that never reached a port, and the edge's own traffic
    uint64_t underlay_received, underlay_to_port, underlay_forwarded; // forwarded: redirects, edge transit
    uint64_t underlay_drops[DROP_COUNT];
    uint64_t external_received, external_to_port, external_forwarded, external_answered, external_sent;
    uint64_t external_drops[DROP_COUNT];
    uint64_t service_received, service_to_port;
    uint64_t service_drops[DROP_COUNT];
};
struct node_port_status {
    struct uuid id;
    uint32_t index;
    uint32_t vni;
    const char *name; // valid until the next [control] call
    uint64_t generation;
    uint8_t hash[32];
    uint64_t applied_at; // wall, s
    bool paused, attached;
    char device_error[128];
    uint32_t connections, connections_max;
};
uint32_t node_port_find(struct node *n, const struct uuid *id); // 0 = none
uint32_t node_port_next(struct node *n, uint32_t after);        // iterates indexes; 0 at the end
bool node_port_status(struct node *n, uint32_t port, struct node_port_status *out);
void node_port_counters(struct node *n, uint32_t port, struct port_counters *out);
void node_counters(struct node *n, struct node_counters *out);
// The stored documents, for GET and for saving. NULL at the end or when absent; valid until the next [control] call.
const struct blueprint *node_blueprint(struct node *n, uint32_t port);
bool node_mapping_next(struct node *n, uint32_t *cursor, struct mapping *out); // cursor starts at 0
uint32_t node_mapping_count(struct node *n);

struct rule_counter { // per rule of the policy in force; default rules come last, as "default-in" and "default-out"
    const char *id;
    const char *layer; // "firewall", "posture"
    uint8_t dir;       // COUNT_OUT, COUNT_IN
    uint8_t action;    // enum rule_action
    uint64_t hits;     // decisions (first packets and re-walks)
};
unsigned node_rule_counters(struct node *n, uint32_t port, struct rule_counter *out, unsigned max);

#define METER_CLASSES 256 // of one port, in its life
struct meter_counter {    // by direction, as the guest sees it; bytes of inner frames
    uint32_t class_;
    uint64_t packets[2], bytes[2];
};
// Brings the totals up to date: those of one port, or of all (0). Then they can be read.
void node_meters_update(struct node *n, uint32_t port);
unsigned node_meters(struct node *n, uint32_t port, struct meter_counter *out, unsigned max);

// ---- How full things are [control]
#define NODE_TABLES 7
struct table_use {
    const char *table;
    uint32_t used, limit;
};
unsigned node_tables(struct node *n, struct table_use out[NODE_TABLES]);
struct port_use {
    uint32_t connections, guarantee, cap;
    uint32_t snat_ports;   // of all slices; each protocol has them to itself
    uint32_t snat_used[3]; // TCP (with those in quarantine), UDP, ICMP
};
bool node_port_use(struct node *n, uint32_t port, struct port_use *out);
void node_conn_stats(struct node *n, struct conn_stats *out);

// ---- Flow log [control]
enum flow_record_kind { FLOW_RECORD_START, FLOW_RECORD_END, FLOW_RECORD_DENIED };
struct flow_record {
    uint64_t time; // ns, the node's clock
    uint64_t packets[2], bytes[2];
    struct flow_key key[2]; // by enum flow_dir, as in the flow table: what the guest sends, what comes for it
    uint8_t has[2];
    uint8_t kind, opener; // a refusal has one key, the opener's
    uint8_t nat;          // enum conn_nat
    uint8_t action;       // enum rule_action
    uint8_t why;          // enum conn_end
    uint16_t drop;        // enum drop of a refusal
    uint32_t index, vni, connection, age_ms;
    struct uuid port;
    const char *layer;
    char rule[64]; // "": not known any more
};
bool node_flow_log_take(struct node *n, struct flow_record *out); // the oldest; false: none
uint64_t node_flow_log_lost(const struct node *n);

struct flow_info { // one connection
    uint32_t index, port;
    struct flow_key key[2];
    uint8_t opener, state /* enum tcp_state */, class_, has[2];
    struct conn_binding nat;
    const char *rule; // id of the deciding firewall rule
    uint64_t packets[2], bytes[2];
    uint32_t age_ms, idle_ms, timeout_s;
    struct transposition xp[2];
};
// Next connection after cursor; 0 at the end.
uint32_t node_flow_next(struct node *n, uint32_t port, uint32_t after, uint64_t now, struct flow_info *out);

// Explains a packet without sending it, counting it or making state: what each layer said.
struct trace {
    enum drop reason;     // DROP_NONE: it passes
    const char *verdict;  // "sent", "delivered", "answered", "dropped", "consumed"
    bool hit;             // an existing connection decided
    struct trace_log log; // vpc/trace.h: n, steps[] {layer, result, detail}
    struct transposition xp;
    struct ip_addr tunnel; // node the packet would go to, for XP_TO_TUNNEL
};
// dir FLOW_OUT: the frame as the guest would send it. FLOW_IN: the inner frame as it would come from node `from`
// in the port's VNI (`from` unspecified: any node of the VPC).
bool node_trace(struct node *n, uint32_t port, uint8_t dir, const struct ip_addr *from, const uint8_t *frame,
                uint32_t len, uint64_t now, struct trace *out, struct node_error *e);

struct trace_question {
    uint32_t port; // index; not looked at with a blueprint
    const struct blueprint
        *blueprint; // NULL, or what the port would have: as if it were in force, and nothing is applied
    uint8_t dir;
    bool outside; // FLOW_IN: from an external link, not from the VPC
    struct ip_addr from;
    const uint8_t *frame;
    uint32_t len;
};
bool node_trace_ask(struct node *n, const struct trace_question *q, uint64_t now, struct trace *out,
                    struct node_error *e);

// Capture points: the driver's `capture` is called for matching frames while set. port 0 = every port.
enum capture_point {
    CAPTURE_FROM_GUEST = 1,
    CAPTURE_TO_GUEST = 2,
    CAPTURE_DROP = 4,
    CAPTURE_TO_UNDERLAY = 8,
    CAPTURE_FROM_UNDERLAY = 16
};
void node_capture_set(struct node *n, uint32_t port, unsigned points);

// Metadata: the port behind a service-side client address, NULL when none; and its document.
const struct blueprint *node_metadata_port(struct node *n, const struct ip_addr *client);

#endif
