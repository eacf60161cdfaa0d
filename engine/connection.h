// SPDX-License-Identifier: MPL-2.0
// connection.h: one object for both directions of a conversation, on top of two flow-table entries.
//
// There is one lifetime: timers, TCP state, NAT binding and the deciding rules belong to the connection, so
// nothing can drift apart. Records are plain data linked by index in zones that can outlive the process
// ("flows" and "connections"); after a restart conn_table_create checks each record and adopts it or frees it.
// Adopted flows carry generation 0, so their first packet is judged again by the policy in force.
//
// Full tables never lie and never kill: memory is preallocated, each port has a guarantee and a cap, and
// eviction is O(1), worst first (closed, half-open, one-packet, idle), never an active established flow.
// Who floods a table evicts its own connections first.
//
// Threads: everything marked [port lock] is called between conn_port_lock and conn_port_unlock of that
// connection's port; a port's lists, timers and quota belong to that lock. Hits touch only flow_entry and flow_hot.
// Never hold two port locks: ports share lock ids. Env locks: 0..127 ports, 194 quota; the flow table's are taken
// inside.
//
// A record that ended is not used again before a grace period ends, like its entries. So a worker that found an entry
// may lock its port afterwards and ask: conn_track says TCP_PASS_NEW of an ended connection (any protocol), conn_close
// and conn_update leave it alone.
#ifndef NEREUS_ENGINE_CONNECTION_H
#define NEREUS_ENGINE_CONNECTION_H

#include "engine/drop.h"
#include "engine/flow_table.h"
#include "engine/tcp_state.h"
#include "engine/timer_wheel.h"

#define CONN_LOCK_PORTS 128u // env locks 0..127, by port index modulo this
#define CONN_LOCK_QUOTA 194u

enum conn_class {   // worst first; eviction takes from the front. A record's class is looked at again when it is met
    CONN_CLOSED,    // RST or both FINs
    CONN_HALF_OPEN, // TCP before the handshake ended
    CONN_ONE_WAY,   // no reply seen (UDP, ICMP, other)
    CONN_IDLE,      // two-way, silent longer than a quarter of its timeout
    CONN_ACTIVE,    // never evicted
    CONN_CLASSES
};

enum conn_end {       // why a connection ended
    CONN_END_CLOSED,  // RST, both FINs, or another one took its place
    CONN_END_EXPIRED, // silence
    CONN_END_EVICTED, // it made room
    CONN_END_REVOKED, // conn_close: no longer allowed
    CONN_END_PORT,    // conn_port_flush
    CONN_ENDS
};

enum conn_nat { // new ones at the end: records outlive the process
    CONN_NAT_NONE = 0,
    CONN_NAT_FLOATING,
    CONN_NAT_SNAT,
    CONN_NAT_SERVICE,
    CONN_NAT_HAIRPIN,  // to the guest from itself by a virtual IP, which is `external`
    CONN_NAT_VIP,      // external: the virtual IP. The target is in the opening direction's transposition
    CONN_NAT_ATTACHED, // to or from outside, untranslated: external is the guest's side
    CONN_NAT_KINDS
};

struct conn_binding {        // what translation the connection holds; never renewed by a re-walk
    struct ip_addr external; // the address that stands for the guest outside (SERVICE: the service-side address)
    uint16_t external_port;  // network order; ICMP: identifier; 0 where ports are not translated
    uint8_t kind;            // enum conn_nat
    uint8_t zero;
    uint32_t spare;
};

struct conn {          // 128 bytes, plain data
    uint32_t entry[2]; // by enum flow_dir; FLOW_NONE when that direction has none
    uint32_t port;     // port index
    uint8_t live;      // record in use
    uint8_t opener;    // enum flow_dir of the first packet
    uint8_t class_;    // enum conn_class: the list it is on
    uint8_t protocol;
    struct tcp_track tcp; // zero unless TCP
    struct conn_binding nat;
    uint32_t rule,
        posture_rule; // index of the deciding rules in the policy of the opening or last re-walk; RULE_NONE = default
    uint32_t opened;  // flow clock, ms
    struct timer_link timer;
    uint32_t next, prev; // class list of the port
    uint32_t check;      // guards the record across a restart
    uint8_t strict;      // TCP window checks drop
    uint8_t replied;     // a packet of the other direction was seen
    uint8_t log;         // its end is to be logged
    uint8_t spare;
    uint32_t meter; // class that its packets count for; 0 = none
    uint8_t spare2[4];
};
_Static_assert(sizeof(struct conn) == 128, "two cache lines");

// Seconds, at most 2,000,000 each. Defaults in conn_timeouts_default. A connection with a NAT binding of any kind has
// the _nat ones. Half-closed TCP has the established timeout: one side may stay silent for long.
struct conn_timeouts {
    uint32_t tcp_syn, tcp_syn_nat, tcp_established, tcp_closing, tcp_closing_nat;
    uint32_t udp_one_way, udp_two_way, udp_one_way_nat, udp_two_way_nat;
    uint32_t icmp, other;
};
extern const struct conn_timeouts conn_timeouts_default;

struct conn_table;

struct conn_table_config {
    uint32_t max_connections;
    uint32_t max_ports;              // port indexes 1..max_ports-1
    bool keep;                       // records outlive the process
    struct flow_secret fresh_secret; // used unless a kept one is found
    struct conn_timeouts timeouts;
    // Called under the port lock when a connection ends for any reason; its entries are still readable. It must not
    // call back into this table.
    void (*closed)(void *ctx, const struct conn *c, uint32_t index, enum conn_end why);
    void *ctx;
};

// Records and entries exceed max_connections by an eighth and 1,024, for those that wait for a grace period.
// NULL: no memory. *adopted: connections taken over from a former process (0 when none or not kept).
struct conn_table *conn_table_create(const struct env *env, const struct conn_table_config *config, uint64_t now_ms,
                                     uint32_t *adopted);
void conn_table_destroy(struct conn_table *t); // no readers, and nothing deferred that has not run
struct flow_table *conn_table_flows(const struct conn_table *t);
const struct flow_secret *conn_table_secret(const struct conn_table *t);
struct conn *conn_get(const struct conn_table *t, uint32_t index);
uint32_t conn_count(const struct conn_table *t);
uint32_t conn_last(const struct conn_table *t); // no index is above it
uint32_t conn_port_count(const struct conn_table *t, uint32_t port);

void conn_port_lock(struct conn_table *t, uint32_t port);
void conn_port_unlock(struct conn_table *t, uint32_t port);

// Control thread. Guarantee: connections other ports cannot take; cap: most this port may hold.
// Takes the port lock itself. `false`: the sum of guarantees would exceed the table. May be called again; a port that
// holds more than it now may sheds the worst in conn_table_tick. A port that goes away: flush, then (0, 0).
bool conn_port_open(struct conn_table *t, uint32_t port, uint32_t guarantee, uint32_t cap);
// Ends all connections of the port (T43 reset), or of a port that goes away.
void conn_port_flush(struct conn_table *t, uint32_t port);

struct conn_flow {       // one direction to be
    struct flow_key key; // key.ip_version 0: this direction has no entry
    struct transposition xp;
    uint32_t dependency, dependency_version;
    uint16_t mss;
};

struct conn_spec {
    uint32_t port;
    uint8_t opener;
    uint8_t protocol;
    uint8_t strict;
    struct conn_flow flow[2]; // by enum flow_dir
    uint32_t generation;
    struct conn_binding nat;
    uint32_t rule, posture_rule;
    uint32_t meter;
    uint8_t log;
    const struct tcp_segment *tcp; // the first packet, or NULL
    uint32_t bytes;                // of the first packet: counted on the opener's entry
};

// [port lock] Whether a record found without the lock, or through an entry, is still a connection of this port: it may
// have ended, and another port's taken its place.
static inline bool conn_stands(const struct conn *c, uint32_t port)
{
    return load_acquire(&c->live) && load_relaxed(&c->port) == port;
}

// [port lock] Makes the connection, evicting a worse one of the same port if need be. flow[opener] has a key.
// DROP_NONE; DROP_FLOW_LIMIT: cap reached or table full and nothing may be evicted; DROP_TUPLE_IN_USE: one of the keys
// belongs to a live connection (look up first under the lock; one of class CONN_CLOSED, or that has no answers, is
// ended instead); DROP_NO_MEMORY. FLOW_TRACK is set on both entries of a TCP connection, and on the reply's entry of
// any other.
enum drop conn_open(struct conn_table *t, const struct conn_spec *spec, uint64_t now_ms, uint32_t *index);
// [port lock] Would conn_open say DROP_TUPLE_IN_USE?
bool conn_keys_taken(const struct conn_table *t, const struct conn_flow flow[2], uint64_t now_ms);

// [port lock]
void conn_close(struct conn_table *t, uint32_t index);

// [port lock] What rules say of a connection besides its verdict.
void conn_set_marks(struct conn_table *t, uint32_t index, uint32_t meter, uint8_t log);

// [port lock] Follows a packet whose entry says FLOW_TRACK, or a TCP segment with SYN, FIN or RST (s; NULL for other
// protocols; side and sent are filled in here). Updates last_seen, state, FLOW_TRACK of both entries, class and timer;
// packets and bytes are the caller's. The verdict is TCP's (PASS otherwise). After a believed RST and with TCP_PASS_NEW
// the connection has ended: its entries may be used for this one packet, until the next quiescent state.
enum tcp_verdict conn_track(struct conn_table *t, uint32_t index, uint8_t dir, const struct tcp_segment *s,
                            uint64_t now_ms);

// [port lock] What conn_track would say, with nothing changed.
enum tcp_verdict conn_foresee(const struct conn_table *t, uint32_t index, uint8_t dir, const struct tcp_segment *s);

// [port lock] After a re-walk that still allows the connection: new verdict for both directions where it differs,
// new generation and dependency versions in any case. The keys and the binding stay. DROP_NONE or DROP_NO_MEMORY
// (then nothing changed). The counters go on in the new entry.
enum drop conn_update(struct conn_table *t, uint32_t index, const struct conn_flow flow[2], uint32_t generation,
                      uint32_t rule, uint32_t posture_rule);

// Worker or control. Ends what is due; `budget` bounds the work of one call. Takes port locks itself. Returns the work
// done: timers that fired (ended or, since hits came, going on) or were handed down; == budget means: call again.
unsigned conn_table_tick(struct conn_table *t, uint64_t now_ms, unsigned budget);

// Next live connection with index > after whose port is `port` (0 = any); 0 at the end. Control thread, between
// quiescent states. Records change under their port lock: hold it to look into one, and check `live` and `port` then.
uint32_t conn_next(const struct conn_table *t, uint32_t port, uint32_t after);

// Seconds of silence after which the connection ends, by its state now; and its class.
uint32_t conn_timeout(const struct conn_table *t, const struct conn *c);
enum conn_class conn_classify(const struct conn_table *t, const struct conn *c, uint64_t now_ms);
const char *conn_class_name(enum conn_class c);
const char *conn_end_name(enum conn_end why);

struct conn_stats {                   // relaxed counters
    uint64_t opened, closed, expired; // closed: by RST, renewal, conn_close or flush
    uint64_t evicted[CONN_CLASSES];
    uint64_t refused;               // conn_open that did not make one
    uint64_t adopted, adopt_failed; // records of a former process; opened + adopted = those that ended + conn_count
};
void conn_table_stats(const struct conn_table *t, struct conn_stats *out);

#endif
