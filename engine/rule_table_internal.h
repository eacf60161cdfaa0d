// SPDX-License-Identifier: MPL-2.0
// rule_table_internal.h: how a compiled table lies in memory.
//
// Rules are numbered by precedence (position 0 wins over all). A *vector* is a set of positions. Each dimension
// of a packet (protocol and family; remote prefix; port or ICMP type) looks up the vector of rules that accept its
// value there; the first position in all of them decides. Bits lie in 64-byte blocks; a vector is a summary, one bit
// per 64-bit word that is not zero, and a block number per 512 positions. Equal blocks and equal vectors are stored
// once: vectors of neighbouring values differ by a rule or two, so they share nearly all blocks and memory
// grows with the rules, not with their square.
#ifndef NEREUS_ENGINE_RULE_TABLE_INTERNAL_H
#define NEREUS_ENGINE_RULE_TABLE_INTERNAL_H

#include "engine/intern.h"
#include "engine/lpm.h"
#include "engine/rule_table.h"

#define BLOCK_WORDS 8
#define BLOCK_BITS (64 * BLOCK_WORDS)
#define ASKED_MAX 4096 // sets whose answer one query remembers; beyond, a set named twice is asked twice

struct interval_map { // 16-bit value -> vector, by binary search. Interval i begins at first[i]; first[0] is 0
    const uint16_t *first;
    const uint32_t *vectors;
    uint32_t n;
};

struct rule_table {
    size_t bytes;                    // without `prefixes`
    uint32_t n, n_summary, n_blocks; // rules; summary words and block numbers of a vector
    uint32_t vector_words;           // stride of `vectors`
    const uint64_t (*blocks)[BLOCK_WORDS];
    const uint64_t *vectors;
    const uint32_t *ids; // position -> index in the caller's array

    uint32_t n_classes; // of protocols: 0 for those no rule names
    uint16_t protocol_class[256];
    const uint32_t *protocol_vectors; // [family][class]

    struct lpm *prefixes;              // remote address -> index into:
    const uint32_t *prefix_vectors[2]; // [overlay]: rules with this prefix or a shorter one, or for everywhere
    uint32_t elsewhere[2];             // [overlay]: the vector for addresses in no prefix

    uint32_t portless;                   // vector for packets with neither ports nor ICMP type: rules that ask for none
    struct interval_map ports;           // includes the portless
    struct interval_map icmp, icmp_code; // by type << 8 | code, includes the portless; and for {any type, code}
    uint32_t nothing;                    // the empty vector

    uint32_t with_sets; // vector of rules that name address sets
    uint32_t n_sets;
    const uint32_t *sets;        // distinct, the caller's slot numbers
    const uint32_t *sets_begin;  // position -> range in set_indexes
    const uint32_t *set_indexes; // into `sets`
};

static inline bool query_is_icmp(const struct rule_query *q)
{
    return q->protocol == 1 || q->protocol == 58;
}

static inline bool query_has_ports(const struct rule_query *q)
{
    return q->has_ports && !query_is_icmp(q);
}

static inline bool rule_is_everywhere(const struct rule *r)
{
    return r->remote_any || (!r->remote_vpc && r->n_remotes == 0 && r->n_sets == 0);
}

// Lower priority number, then deny and reject before allow, then the lower index.
static inline bool rule_precedes(const struct rule *a, uint32_t a_index, const struct rule *b, uint32_t b_index)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    bool a_allows = a->action == RULE_ALLOW, b_allows = b->action == RULE_ALLOW;
    if (a_allows != b_allows)
        return b_allows;
    return a_index < b_index;
}

#define FAMILIES 3 // IPv4, IPv6, neither
static inline unsigned family_row(uint8_t ip_version)
{
    return ip_version == 4 ? 0 : ip_version == 6 ? 1 : 2;
}

// ---- Building (rule_table_build.c, rule_table_dimensions.c)

struct rule_build {
    const struct env *env;
    const struct rule *rules;
    struct rule_table table; // counts and vector numbers; arrays below are copied behind it at the end
    struct intern blocks, vectors;
    uint64_t *bits;   // the vector being made, n_blocks * BLOCK_WORDS words
    uint64_t *record; // its record
    uint32_t *ids, *protocol_vectors, *prefix_vectors[2];
    uint32_t n_prefixes; // distinct
    struct lpm *prefixes;
    struct interval_arrays {
        uint16_t *first;
        uint32_t *vectors;
    } ports, icmp, icmp_code;
    uint32_t *sets, *sets_begin, *set_indexes;
    uint64_t n_set_refs;
};

// Each returns false when memory ran out; what was made so far is released with the build.
bool rule_build_protocols(struct rule_build *b);
bool rule_build_remotes(struct rule_build *b);
bool rule_build_l4(struct rule_build *b);
bool rule_build_sets(struct rule_build *b);

void *rule_build_alloc(struct rule_build *b, uint64_t n, size_t size); // an array, never of 0 bytes
void rule_build_release(struct rule_build *b, void *memory);           // NULL is fine
void rule_build_clear(struct rule_build *b);                           // no rule in b->bits
void rule_build_expand(struct rule_build *b, uint32_t vector);         // b->bits = the vector
bool rule_build_store(struct rule_build *b, uint32_t *vector);         // the number of b->bits as a vector

static inline const struct rule *rule_build_at(const struct rule_build *b, uint32_t position)
{
    return &b->rules[b->ids[position]];
}

static inline void rule_build_set(struct rule_build *b, uint32_t position)
{
    b->bits[position / 64] |= 1ull << (position % 64);
}

static inline void rule_build_unset(struct rule_build *b, uint32_t position)
{
    b->bits[position / 64] &= ~(1ull << (position % 64));
}

#endif
