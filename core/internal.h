// SPDX-License-Identifier: MPL-2.0
// internal.h: what the files of core share. A packet's way: receive_*.c finds the port and starts a run;
// run.c takes it through parse, flow table and, on a miss, the layers; send.c gives it to the driver.
#ifndef NEREUS_CORE_INTERNAL_H
#define NEREUS_CORE_INTERNAL_H

#include "core/flow_log.h"
#include "core/node.h"
#include "engine/fragments.h"
#include "engine/hit_path.h"
#include "vpc/walk.h"

#define MAX_WORKERS 16
#define MAX_LINKS 4
#define LOCK_EXTERNAL 256  // ENV lock of the external neighbours
#define LOCK_FRAGMENTS 257 // and the next seven: fragments, by owner
#define FRAGMENT_LOCKS 8
#define EDGE_FRAGMENT_SETS 16   // by external address
#define FRAGMENTS_HELD_MAX 1024 // packets that wait for a first fragment, in all sets
#define WAITING_MAX 64

struct token_bucket {   // under the port's connection lock
    uint64_t filled_at; // ns
    uint32_t tokens;
};
#define LOCAL_ICMP_PER_S 100
#define LOCAL_ICMP_BURST 50

struct CACHE_ALIGNED port_limits { // limits.c; any worker, relaxed
    uint64_t used[5]; // buckets of engine/rate.h: bits out, bits in, packets out, packets in, new connections
    uint64_t bps[2];  // by enum flow_dir; 0: no limit, as below
    uint32_t pps, new_per_s;
};
_Static_assert(sizeof(struct port_limits) == CACHE_LINE, "one line to fetch");

struct port_meters { // under the port's connection lock
    uint32_t n, room;
    struct meter_counter total[];
};
struct meter_base { // what of a connection's counters is in the totals already
    uint64_t packets[2], bytes[2];
};

enum port_event { // events.c
    EVENT_SNAT_EXHAUSTED,
    EVENT_FLOW_LIMIT,
    EVENT_SPOOFING,
    EVENT_RATE_LIMITED,
    EVENT_NO_MEMORY,
    PORT_EVENTS
};
struct watched {   // of one kind of event
    uint64_t told; // count at the last one
    uint64_t at;   // ns; 0 = never
};

struct denials;    // flow_record.c
#define DENIALS 32 // rules of a port whose refusals one second tells apart

struct port {
    // Read by workers for each packet, relaxed or acquire.
    CACHE_ALIGNED struct policy *policy; // NULL: no such port
    uint32_t generation;                 // flows made or confirmed under it are current
    uint32_t vni, mtu;
    uint8_t paused;
    uint8_t any_mac; // anti-spoof off, or allowed addresses with MACs of their own: hits do not check the source MAC
    uint8_t limited; // any rate limit
    struct fragments *fragments;                 // under its fragment lock; stays when the port goes
    uint64_t mac;                                // mac_word
    struct port_counters *counters[MAX_WORKERS]; // each worker's own; set before the policy is
    struct port_limits limits;
    // Under the port's connection lock.
    CACHE_ALIGNED struct snat snat;
    struct token_bucket icmp;
    struct port_meters *meters; // NULL: none
    struct denials *denials;    // NULL: no flow log
    // Worker 0's tick.
    struct watched watched[PORT_EVENTS];
    // Control thread and node_tick.
    struct uuid id;
    uint32_t index, mac_slot;
    uint8_t leaving; // removed, with packets perhaps still under way
    uint64_t applied_at;
    uint64_t next_ra;     // ns
    struct watched stale; // documents refused for an old generation
    bool attached;
    char device_error[128];
};

// A MAC address as one word: a worker never reads half of a change.
static inline uint64_t mac_word(const void *mac)
{
    uint64_t word = 0;
    memcpy(&word, mac, sizeof(struct mac_addr));
    return word;
}

struct mac_slot {
    uint32_t vni;
    struct mac_addr mac;
    uint32_t port;
};

struct kept_port { // zone "ports": an index belongs to a port across restarts, since connections name it
    struct uuid id;
    uint32_t used;
    uint32_t zero;
};

struct group {  // packets on their way to one destination, handed over together
    uint8_t to; // enum transposition_to; XP_NOWHERE: empty
    uint32_t dest, port;
    uint8_t dir;
    bool counts; // they count as sent by (port, dir); else they were made here
    unsigned n;
    uint32_t bytes[PLATFORM_BATCH];
    struct packet *packets[PLATFORM_BATCH];
};

enum origin { FROM_GUEST, FROM_VPC, FROM_OUTSIDE, FROM_SERVICE, FROM_SELF };

struct job { // one packet of a batch, with what the hit path found out about it
    struct packet *p;
    struct port *port;
    enum origin origin;
    bool canonical; // key, h and hash are valid
    struct hit h;
    uint64_t hash;
    uint32_t likely_entry; // what the hash points at; the key has not been compared
    struct flow_key key;
};

struct waiting { // a packet whose run begins or goes on when the one under way is done
    struct packet *p;
    struct port *port;
    enum origin origin;
    bool later; // a fragment with these ports
    struct fragment_ports ports;
};

struct CACHE_ALIGNED worker {
    struct group group;
    struct waiting waiting[WAITING_MAX];
    unsigned n_waiting;
    unsigned n_held; // fragments of the batch that the edge keeps: they count as received when they go on
    struct job jobs[PLATFORM_BATCH];
    unsigned n_jobs;
    bool slow; // a packet of the batch may have made or ended connections: entries found before it are old
    struct node_counters counters;
    uint64_t now;
    // The last outer source that was found good, and until when no table has changed.
    uint32_t vtep_vni;
    struct ip_addr vtep_node;
    uint64_t vtep_good_at;
};

struct neighbour { // of an external link
    // Written under LOCK_EXTERNAL and read without it, between two looks at `version` (odd: being written).
    uint32_t version;
    uint32_t state; // enum neighbour_state
    struct ip_addr ip;
    uint64_t mac;      // mac_word
    uint64_t deadline; // ns: ask again, or known until
    // Under LOCK_EXTERNAL.
    struct ip_addr sender; // in whose name it is asked for
    uint8_t tries, waiting;
    struct packet *queue[16];
};
enum neighbour_state { NEIGHBOUR_FREE, NEIGHBOUR_ASKING, NEIGHBOUR_KNOWN };
#define NEIGHBOURS 256

struct external_link {
    struct node_external_link config;
    struct neighbour *neighbours; // NEIGHBOURS; under LOCK_EXTERNAL
};

struct node {
    struct platform platform; // copied
    const struct env *env;    // its env
    struct node_config config;
    struct conn_table *connections;
    struct flow_table *flows;
    const struct flow_secret *secret;
    struct vpc_tables tables;
    struct walk_env walk_env;
    struct slot_map mac_map; // (vni, mac) -> port
    struct mac_slot *macs;
    struct port *ports; // max_ports
    struct kept_port *kept;
    struct worker *workers;
    struct external_link links[MAX_LINKS];
    struct fragments *edge_fragments; // EDGE_FRAGMENT_SETS
    uint32_t fragments_held;
    uint32_t last_generation;
    struct policy *retired;         // policies past their grace period, for the control thread to free
    struct meter_base *meter_bases; // by connection; NULL until a policy has classes
    struct flow_log *flow_log;      // NULL: none
    uint32_t event_port;            // where the next look for events begins, less one
    struct watched full, stale;     // control thread: tables without room, documents of an older epoch
    uint64_t denials_beyond;        // refusals that no record counts
    uint32_t capture_port;
    unsigned capture_points; // enum capture_point; 0 = off
};

struct context { // of one receive call
    struct node *n;
    unsigned worker;
    uint64_t now;
    bool made_here; // what is sent or dropped now was made here: it is no packet that came in
};

static inline struct worker *worker_of(const struct context *c)
{
    return &c->n->workers[c->worker];
}

static inline uint32_t now_ms(const struct context *c)
{
    return (uint32_t)(c->now / 1000000);
}

static inline struct port_counters *counters_of(const struct context *c, const struct port *p)
{
    return p->counters[c->worker];
}

static const uint8_t dir_of[] = {[FROM_GUEST] = FLOW_OUT,
                                 [FROM_VPC] = FLOW_IN,
                                 [FROM_OUTSIDE] = FLOW_IN,
                                 [FROM_SERVICE] = FLOW_IN,
                                 [FROM_SELF] = FLOW_IN};
static const uint8_t realm_of[] = {[FROM_GUEST] = REALM_VPC,
                                   [FROM_VPC] = REALM_VPC,
                                   [FROM_OUTSIDE] = REALM_OUTSIDE,
                                   [FROM_SERVICE] = REALM_SERVICE,
                                   [FROM_SELF] = REALM_SELF};

static inline void count_received(const struct context *c, const struct port *p, uint8_t dir, uint32_t bytes)
{
    counter_add(&counters_of(c, p)->received[dir], 1);
    counter_add(&counters_of(c, p)->received_bytes[dir], bytes);
}

struct next_pass {     // how a packet's way through a port ended
    struct port *port; // it goes on there; NULL: nowhere
    enum origin origin;
    enum drop reason; // it was dropped
};

// ---- run.c
// Takes a frame through the port's pipeline to its end, local hops between ports included. Consumes it.
void run_packet(struct context *c, struct port *port, enum origin origin, struct packet *p);
// The same for the first `count` of the worker's jobs (p, port and origin are set), together.
void run_jobs(struct context *c, unsigned count);
struct next_pass ended(struct context *c, struct port *port, uint8_t dir, struct packet *p, enum drop reason); // drops
// [related.c] An ICMP error about a packet of a known connection.
struct next_pass related(struct context *c, struct port *port, enum origin origin, struct packet *p,
                         const struct parsed *pp);
// The rewritten packet goes where its transposition says; a local hop is left to the caller.
struct next_pass forward(struct context *c, struct port *port, const struct flow_key *key,
                         const struct transposition *xp, uint64_t hash, uint8_t tos, struct packet *p);
// [miss.c] First packet, or one whose verdict is stale. *entry: current verdict to apply; or the reason.
struct miss {
    enum drop reason;
    uint32_t entry; // flow entry to go on with, FLOW_NONE: the transposition below, without state
    struct transposition stateless;
    bool answer_reject;
};
void flow_miss(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
               const struct flow_key *key, uint64_t hash, struct miss *out);
void flow_revalidate(struct context *c, struct port *port, const struct flow_key *key, uint64_t hash, uint32_t entry,
                     struct miss *out);
bool flow_is_current(const struct node *n, const struct port *port, const struct flow_entry *e,
                     const struct flow_hot *hot);
void flow_key_of(const struct port *port, enum origin origin, const struct parsed *pp, struct flow_key *key);
struct tcp_segment segment_of(const struct conn *k, uint8_t dir, const struct parsed *pp);
bool wants_tracking(const struct parsed *pp, const struct flow_hot *hot);
// The key of the flow that an ICMP error is about: it travels as the answers to the packet that it quotes do.
enum drop find_related(const struct port *port, enum origin origin, const struct packet *p, const struct parsed *pp,
                       struct parsed_embedded *inner, struct flow_key *key);
// Port of this node that a packet goes on to, and how it comes there; NULL: it is gone.
struct port *local_hop(struct node *n, const struct transposition *xp, enum origin *origin);
// [miss.c] What the layers say of a connection's first packet (stateless: it opens none), and of a connection that is
// judged again (ends: it is over). They change nothing but for a binding taken: w->took_snat. [port lock]
enum drop walk_new(struct context *c, struct port *port, const struct policy *policy, const struct parsed *pp,
                   const struct flow_key *key, struct trace_log *log, struct walk *w, bool *stateless);
enum drop walk_again(struct context *c, struct port *port, const struct policy *policy, const struct conn *k,
                     struct trace_log *log, struct walk *w, bool *ends);
#define MAX_PASSES 4 // between ports of this node: guest, peer, hairpin and back

// ---- send.c: each consumes the packet
void send_to(struct context *c, struct port *port, uint8_t dir, uint8_t to, uint32_t dest, struct packet *p);
void count_sent(struct context *c, struct port *port, uint8_t dir, uint32_t bytes); // without send_to; port may be NULL
void send_answer(struct context *c, struct port *port, struct packet *p);           // made here, to the guest
void send_flush(struct context *c);
void drop_packet(struct context *c, struct port *port, uint8_t dir, struct packet *p, enum drop reason);
void encapsulate(struct context *c, uint32_t tunnel, uint32_t vni, uint64_t hash, uint8_t tos, struct packet *p);
void capture_frame(struct context *c, uint32_t port, unsigned point, enum drop reason, const struct packet *p);
static inline void capture(struct context *c, uint32_t port, unsigned point, enum drop reason, const struct packet *p)
{
    if (unlikely(load_relaxed(&c->n->capture_points) & point))
        capture_frame(c, port, point, reason, p);
}
void packet_free(struct context *c, struct packet *p);

// ---- answer.c
// Local ICMP within the port's rate. Takes the port's lock.
bool icmp_allowed(struct context *c, struct port *port);
// Replaces p by an error from the gateway and sends it to the guest; or drops p. Counts the question.
void answer_error(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
                  enum icmp_problem problem, enum drop reason);
void answer_reject(struct context *c, struct port *port, struct packet *p, const struct parsed *pp);

// ---- limits.c; only where port->limited
bool limits_allow(const struct context *c, struct port *port, uint8_t dir, uint32_t bytes); // of the inner frame
bool limits_allow_new(const struct context *c, struct port *port);
// Beyond the port's rate: p is dropped then.
static inline bool over_limit(struct context *c, struct port *port, uint8_t dir, struct packet *p)
{
    if (likely(!load_relaxed(&port->limited)) || limits_allow(c, port, dir, p->len))
        return false;
    drop_packet(c, port, dir, p, DROP_RATE_LIMITED);
    return true;
}
void limits_set(struct port *port, const struct blueprint_qos *q);

// ---- meter.c
bool meters_prepare(struct node *n, const struct port *port, const struct blueprint *b, struct port_meters **fresh,
                    bool *too_many);
void meters_commit(struct node *n, struct port *port, struct port_meters *fresh);
void meters_discard(struct node *n, struct port_meters *m);
void meters_close(struct node *n, struct port *port);
void meter_begin(struct node *n, uint32_t index);                      // [port lock]
void meter_fold(struct node *n, const struct conn *k, uint32_t index); // [port lock]

// ---- flow_record.c
// What the rules of a walk say besides the verdict.
void marks_of(const struct node *n, const struct walk *w, uint32_t *meter, uint8_t *log);
void log_start(const struct context *c, const struct conn *k, uint32_t index);                      // [port lock]
void log_end(struct node *n, const struct conn *k, uint32_t index, enum conn_end why);              // [port lock]
void log_denied(const struct context *c, struct port *port, const struct walk *w, enum drop reason, // [port lock]
                uint32_t bytes);
bool denials_make(struct node *n, struct port *port);
void denials_flush(struct node *n, struct port *port, uint64_t now, bool all);

// ---- events.c
void events_look(struct context *c); // worker 0
// [control] Counts one, and tells of all if the last event of this kind is long ago.
void event_refused(struct node *n, struct watched *w, const char *kind, uint32_t port, const char *text);
// ---- fragment.c: virtual reassembly (engine/fragments.h)
// A first fragment, before it is judged: DROP_NONE, or why it ends.
enum drop fragment_first(struct context *c, struct port *port, const struct fragment_key *key, const struct parsed *pp);
// It was judged, or the rest is refused with a later one: those that waited follow (worker's `waiting`) or are dropped.
void fragment_judged(struct context *c, struct port *port, enum origin origin, const struct fragment_key *key,
                     enum drop reason);
// A later one. FRAGMENT_GO: its ports have been filled in. FRAGMENT_HOLD: it is no longer the caller's.
enum fragment_answer fragment_later(struct context *c, struct port *port, const struct fragment_key *key,
                                    struct packet *p, struct parsed *pp, enum drop *reason);
void fragment_fill(struct parsed *pp, const struct fragment_ports *ports);
// The same at an edge, where shared addresses are told apart by ports and nothing is judged. from: the node it came
// from, NULL: an external link. *waited: with a first fragment, those that go on behind it.
enum fragment_answer fragment_at_edge(struct context *c, const struct ip_addr *from, struct packet *p,
                                      struct parsed *pp, enum drop *reason, struct fragment_queue *waited,
                                      struct fragment_ports *ports);
void fragment_tick(struct context *c);
void fragment_forget(struct node *n, struct port *port); // the port is new: what another left there is over
void fragment_close(struct node *n);                     // no worker runs any more

// ---- oversize.c
bool is_too_big(const struct port *port, const struct packet *p, const struct parsed *pp);
bool can_be_cut(const struct port *port, const struct packet *p, const struct parsed *pp);
// A packet that does not fit the port's MTU is sent in pieces, or its sender is told. `pp` and p are as they came.
struct next_pass oversize(struct context *c, struct port *port, const struct flow_key *key,
                          const struct transposition *xp, uint64_t hash, struct packet *p, const struct parsed *pp);

// ---- external.c
// Sends an IP packet (its Ethernet header is rewritten) out of an edge's link on behalf of a port (NULL: transit from
// the underlay). Consumes it, perhaps to wait for the next hop; false: why in *reason, and it is still the caller's.
bool external_send(struct context *c, struct port *port, uint32_t link, struct packet *p, const struct ip_addr *src,
                   const struct ip_addr *dst, enum drop *reason);
// ARP and neighbour discovery on the link. True: p was for us and is consumed.
bool external_control(struct context *c, uint32_t link, struct packet *p, const struct parsed *pp);
void external_tick(struct context *c);
uint32_t external_link_for(const struct node *n, const struct ip_addr *external);

// ---- ports.c
struct port *port_at(struct node *n, uint32_t index); // NULL when there is none
uint32_t port_by_mac(void *node, uint32_t vni, const struct mac_addr *mac);
void drain_retired(struct node *n);
bool policy_any_mac(const struct blueprint *b);

// ---- trial.c
struct port *trial_make(struct node *n, const struct blueprint *b, struct node_error *e);
void trial_free(struct node *n, struct port *p);
bool node_refuse(struct node_error *e, int code, const char *pointer, const char *text);

#endif
