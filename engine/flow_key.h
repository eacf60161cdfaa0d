// SPDX-License-Identifier: MPL-2.0
// flow_key.h: the canonical key of a VPC flow, and the keyed hash over keys of any pipeline.
//
// The VNI and the port are in every key, so tenants with equal addresses never meet. The hash is a
// multiply-fold (64x64 -> 128) over the key words with secret multipliers drawn at boot: an attacker who
// chooses packets cannot make keys collide. The outer source port is a second value of the same fold.
#ifndef NEREUS_ENGINE_FLOW_KEY_H
#define NEREUS_ENGINE_FLOW_KEY_H

#include "engine/ip.h"

enum flow_dir { FLOW_OUT = 0, FLOW_IN = 1 }; // from the guest; to the guest

// Where a packet to the guest came from. In the key, so that a packet from outside can never look like a peer's.
enum flow_realm { REALM_VPC = 0, REALM_OUTSIDE, REALM_SERVICE, REALM_SELF };

struct flow_key { // no padding: hashed and compared as bytes. Fields as they stand in the packet
    struct ip_addr src, dst;
    uint16_t sport, dport; // network order; ICMP: identifier, type << 8 | code (struct parsed); else 0
    uint32_t port;         // index of the port on this node
    uint32_t vni;          // the port's VPC
    uint8_t ip_version, protocol;
    uint8_t dir;   // enum flow_dir
    uint8_t realm; // enum flow_realm; FLOW_OUT keys have 0
};
#define FLOW_KEY_LEN 48
_Static_assert(sizeof(struct flow_key) == FLOW_KEY_LEN, "the key has no holes");

struct flow_secret { // drawn at boot; kept across a restart with the connections
    uint64_t m[8];   // odd
};

static inline uint64_t flow_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t flow_word(const void *key48, unsigned i)
{
    uint64_t w;
    __builtin_memcpy(&w, (const uint8_t *)key48 + 8 * i, 8);
    whole_word(w);
    return w;
}

// 64-bit hash of a 48-byte key (shorter keys are zero-padded by their owner).
static inline uint64_t flow_hash(const struct flow_secret *s, const void *key48)
{
    uint64_t h = flow_fold(flow_word(key48, 0) ^ s->m[0], flow_word(key48, 1) ^ s->m[1]);
    h ^= flow_fold(flow_word(key48, 2) ^ s->m[2], flow_word(key48, 3) ^ s->m[3]);
    h ^= flow_fold(flow_word(key48, 4) ^ s->m[4], flow_word(key48, 5) ^ s->m[5]);
    return flow_fold(h ^ s->m[6], s->m[7]);
}

// Outer UDP source port of a flow, host order, 49152..65535 (RFC 8926 section 3.3; RFC 6335 dynamic range).
static inline uint16_t flow_entropy_port(uint64_t hash)
{
    return (uint16_t)(49152 + (hash >> 48) % 16384);
}

// The key of a packet that answers a packet with key k: addresses and ports swapped, direction turned.
// ICMP queries keep the identifier and take the answering type (8 -> 0, 13 -> 14, 128 -> 129); false when
// the protocol's packet has no answer (other ICMP), and *out is then untouched. The realm of the answer is REALM_VPC.
bool flow_key_reply(const struct flow_key *k, struct flow_key *out);

#endif
