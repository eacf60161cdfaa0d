// SPDX-License-Identifier: MPL-2.0
// fake.h: a platform for tests. Records every call with its arguments, in order; time and random numbers are
// scripted; any call can be made to fail; deferred work runs when the test says that workers were quiescent.
// Each packet must be ended exactly once, which fake_destroy checks. Several nodes can live in one process.
#ifndef NEREUS_PLATFORM_FAKE_H
#define NEREUS_PLATFORM_FAKE_H

#include "core/node.h"

enum fake_kind {
    FAKE_DELIVER,  // where: port
    FAKE_UNDERLAY, // where: tunnel; `node` is its address
    FAKE_EXTERNAL, // where: link
    FAKE_SERVICE,
    FAKE_ATTACH, // where: port
    FAKE_DETACH,
    FAKE_TUNNEL_OPEN, // where: tunnel
    FAKE_TUNNEL_CLOSE,
    FAKE_EVENT,
    FAKE_CAPTURE, // where: port
};

struct fake_call {
    enum fake_kind kind;
    uint32_t where;
    struct ip_addr node;
    uint8_t *frame; // a copy
    uint32_t len;
    struct packet meta; // csum, gso, encap_len as they were; pointers mean nothing
    bool carried;       // fake_pump took it to another node
    unsigned point;     // capture
    enum drop reason;   // capture
    const char *event;  // its kind
    uint64_t count;     // event
};

struct fake {
    struct platform platform;
    struct node *node;
    struct ip_addr address; // of the node
    uint64_t now, wall;     // ns, s
    uint64_t random_state;

    struct fake_call *calls;
    unsigned n_calls, capacity, next; // next: first call that no test has looked at

    struct ip_addr *tunnels; // [n_tunnels] by number: the node last opened
    uint32_t n_tunnels;

    // Faults: how many more packets each way takes before it refuses; -1 = all.
    long deliver_budget, underlay_budget;
    enum drop underlay_reason;
    bool attach_fails;
    long fail_after; // allocations (memory and packets) until one fails; -1 = never
    unsigned allocations;

    uint64_t spent_drops[64][2][DROP_COUNT]; // for tests: drops already accounted for by an expectation
    struct port_counters seen_port[64];      // for tests: as an expectation last saw them
    struct node_counters seen_node;
    unsigned live_packets;
    void *zones; // kept across fake_restart
    void *deferred;
    bool locked[ENV_LOCKS];
};

struct fake *fake_create(void);
// Starts the node; false when an injected failure stopped it.
bool fake_start(struct fake *f, const struct node_config *config);
// kill -9: the node is gone, kept zones and time stay.
void fake_crash(struct fake *f);
// Ends everything; asserts that no packet leaked.
void fake_destroy(struct fake *f);

void fake_quiesce(struct fake *f);              // workers were quiescent: runs what was deferred
void fake_advance(struct fake *f, uint64_t ms); // moves time, ticking as a worker would

struct packet *fake_packet(struct fake *f, const void *frame, uint32_t len); // a driver's packet holding a copy
void fake_guest(struct fake *f, uint32_t port, const void *frame, uint32_t len);
void fake_underlay(struct fake *f, const void *frame, uint32_t len); // checksum taken as verified
void fake_external(struct fake *f, uint32_t link, const void *frame, uint32_t len);
void fake_service(struct fake *f, const void *frame, uint32_t len);

// The next recorded packet call (deliver, underlay, external, service) that no test has looked at; NULL if none.
const struct fake_call *fake_next(struct fake *f);
// Carries underlay frames that no test has looked at between nodes, until all is quiet.
void fake_pump(struct fake **nodes, unsigned n);
void fake_forget(struct fake *f);  // all calls so far
void fake_discard(struct fake *f); // and gives back their memory, for tests with very many of them

#endif
