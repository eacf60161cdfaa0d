// SPDX-License-Identifier: MPL-2.0
// fragments.h: virtual reassembly. Only a datagram's first fragment names its ports; they are remembered here, so that
// the later ones can follow the same flow, each packet as it came. Nothing is put together.
//
// A set holds the datagrams of one owner (a port, a group of external addresses): what a flood costs, it costs that
// owner alone. Later fragments that come before the first wait for it, a few of each datagram; when the first was
// judged they go on or end like it. A datagram whose fragments overlap or contradict each other is dropped from there
// on (RFC 5722, RFC 1858); one fragment twice is no contradiction. A datagram that is complete is forgotten at once, so
// that its identification may be used again.
//
// Full sets give away the worst first: what waits without a first fragment, then what was refused, then what is under
// way; the oldest of them.
//
// Threads: everything here is under a lock of the caller's. Packets are the caller's again when a queue returns them.
#ifndef NEREUS_ENGINE_FRAGMENTS_H
#define NEREUS_ENGINE_FRAGMENTS_H

#include "engine/parse.h"

#define FRAGMENT_DATAGRAMS 64 // in a set
#define FRAGMENT_PIECES 64    // of a datagram: 64 KB at any MTU from 1,280
#define FRAGMENT_HELD 16      // packets of a datagram that wait for its first
#define FRAGMENT_HELD_SET 64  // in a set

struct fragment_key { // no padding: compared as bytes
    struct ip_addr src, dst;
    struct ip_addr from; // the node it came from, where that matters
    uint32_t id, vni;
    uint8_t ip_version;
    uint8_t protocol; // IPv6: 0. Only the first fragment's counts there (RFC 8200 section 4.5)
    uint8_t dir, realm;
    uint32_t zero;
};
_Static_assert(sizeof(struct fragment_key) == 64, "the key has no holes");

struct fragment_ports { // what the first fragment says of the datagram; as in struct parsed
    uint16_t sport, dport;
    uint8_t protocol;
};

struct fragment_queue { // packets that waited
    struct packet *packets[FRAGMENT_HELD];
    unsigned n;
    uint8_t dir;      // of their key
    enum drop reason; // DROP_NONE: they may go on
};

enum datagram_state {
    DATAGRAM_FREE = 0,
    DATAGRAM_WAITS,  // for its first fragment
    DATAGRAM_JUDGED, // its first fragment is being judged
    DATAGRAM_PASSES,
    DATAGRAM_REFUSED, // and why is in `reason`
};

struct datagram {
    struct fragment_key key;
    uint64_t deadline; // ns
    uint32_t total;    // bytes of the whole; 0 until the last fragment was seen
    uint32_t bytes;    // seen
    struct fragment_ports ports;
    uint8_t state; // enum datagram_state
    uint8_t n_pieces, n_held;
    enum drop reason;
    struct {
        uint16_t offset, bytes;
    } pieces[FRAGMENT_PIECES];
    struct packet *held[FRAGMENT_HELD];
};

struct fragments {                    // zeroed is empty
    unsigned held;                    // packets
    uint32_t ids[FRAGMENT_DATAGRAMS]; // of the keys, together for the search
    struct datagram datagrams[FRAGMENT_DATAGRAMS];
};

struct fragment_clock {
    uint64_t now, timeout; // ns
};

// Fills everything but `from`.
void fragment_key_from_parsed(struct fragment_key *key, const struct parsed *pp, uint32_t vni, uint8_t dir,
                              uint8_t realm);

// A first fragment, about to be judged: DROP_NONE or why it is refused. *gone: packets that end now, of this datagram
// or of one that had to make room (reason is set, n may be 0).
enum drop fragments_first(struct fragments *f, const struct fragment_key *key, const struct parsed *pp,
                          const struct fragment_clock *clock, struct fragment_queue *gone);

// The first fragment, or a later one after it, was judged: DROP_NONE or the reason for which the rest shall be dropped
// too. *waited: the packets that waited for it, to be treated alike; their ports are *ports.
void fragments_judged(struct fragments *f, const struct fragment_key *key, enum drop reason,
                      struct fragment_queue *waited, struct fragment_ports *ports);

enum fragment_answer {
    FRAGMENT_GO,   // as a packet with *ports
    FRAGMENT_HOLD, // the set has the packet now
    FRAGMENT_DROP, // for *reason
};
// A later fragment. may_hold: false when there is no more memory for it.
enum fragment_answer fragments_later(struct fragments *f, const struct fragment_key *key, const struct parsed *pp,
                                     struct packet *p, bool may_hold, const struct fragment_clock *clock,
                                     struct fragment_ports *ports, enum drop *reason, struct fragment_queue *gone);

// One datagram whose time is over and which has packets waiting: they are in *gone. False: there is none.
bool fragments_expire(struct fragments *f, uint64_t now, struct fragment_queue *gone);
void fragments_forget(struct fragments *f); // the time of all is over

#endif
