// SPDX-License-Identifier: MPL-2.0
// flow_table.h: the exact-match cache that every pipeline shares.
//
// It knows keys only as 48 bytes and a 64-bit keyed hash. One bucket is one cache line of tags and indexes;
// full buckets chain to overflow lines from a preallocated pool, which keyed hashing keeps rare.
// Readers take no lock and write nothing but a flow's hot part, which lies on a line of its own behind the entry. A
// published entry's key and transposition never change: an update publishes a new entry and frees the old one after
// a grace period (env->defer).
//
// Threads: lookup on any worker. insert, replace, remove under the table's own striped locks: env locks 128..193.
// Memory: all at create. Full means NULL from flow_table_entry_alloc; who is evicted is the owner's choice.
#ifndef NEREUS_ENGINE_FLOW_TABLE_H
#define NEREUS_ENGINE_FLOW_TABLE_H

#include "engine/atomic.h"
#include "engine/env.h"
#include "engine/transposition.h"

#define FLOW_NONE 0u // entry index 0 is never used

// Ids of env locks, taken in this order and never two stripes at once.
#define FLOW_LOCK_STRIPES 128u // by bucket
#define FLOW_LOCK_STRIPE_COUNT 64u
#define FLOW_LOCK_ENTRIES 192u // list of free entries
#define FLOW_LOCK_LINES 193u   // list of free overflow lines

struct CACHE_ALIGNED flow_entry { // written before publication, then read only; plain data, may be a kept zone
    uint8_t key[FLOW_KEY_LEN];
    uint32_t owner;      // pipeline's object; vpc: connection index. 0 = free
    uint32_t dependency; // vpc: mapping slot the verdict depends on, 0 = none
    uint32_t hash_low;   // low half of the hash
    uint16_t mss;        // for XP_CLAMP_MSS
    uint8_t dir;         // enum flow_dir
    uint8_t pipeline;    // enum flow_pipeline
    struct transposition xp;
};
_Static_assert(sizeof(struct flow_entry) == 128, "two cache lines");

enum flow_pipeline { FLOW_VPC = 1, FLOW_BRIDGE, FLOW_P4 };

struct flow_hot {                // written on hits by any worker: relaxed atomics only
    uint64_t packets, bytes;     // bytes: inner frame bytes
    uint32_t generation;         // policy generation this verdict was made or confirmed under
    uint32_t dependency_version; // mapping version likewise
    uint32_t last_seen;          // flow clock, ms
    uint32_t flags;              // enum flow_entry_flags
};
_Static_assert(sizeof(struct flow_hot) == 32, "half a cache line");

// Three lines in a row: with many flows the walk of the page tables costs more than the lines, and this takes one.
struct flow_slot {
    struct flow_entry entry;
    CACHE_ALIGNED struct flow_hot hot;
};

enum flow_entry_flags {
    FLOW_TRACK = 1 << 0, // every packet goes through the owner's state (TCP not established, no reply yet)
};

struct flow_table;

// capacity: entries (two per connection). Entries live in the zone "flows" with `keep`; buckets do not, and hot parts
// are cleared. *kept says that former entries are there: all unpublished, for the owner to insert again or discard
// (flow_table_adopt_done puts the rest on the free list). NULL when memory is short.
struct flow_table *flow_table_create(const struct env *env, uint32_t capacity, bool keep, bool *kept);
void flow_table_adopt_done(struct flow_table *t);
void flow_table_destroy(struct flow_table *t); // no readers any more

struct flow_entry *flow_table_entry(const struct flow_table *t, uint32_t index);
struct flow_hot *flow_table_hot(const struct flow_table *t, uint32_t index);
uint32_t flow_table_capacity(const struct flow_table *t);
uint32_t flow_table_count(const struct flow_table *t); // published entries

// Prefetches; then the lookup. FLOW_NONE when absent. The result stays valid until the caller's next quiescent state.
// prefetch_entry returns the entry it fetched, FLOW_NONE if none: mostly the one, which flow_table_holds tells for less
// than a lookup costs. It does not tell whether the entry has been unpublished since.
void flow_table_prefetch_bucket(const struct flow_table *t, uint64_t hash);
uint32_t flow_table_prefetch_entry(const struct flow_table *t, uint64_t hash);
bool flow_table_holds(const struct flow_table *t, uint32_t index, const void *key48);
uint32_t flow_table_lookup(const struct flow_table *t, const void *key48, uint64_t hash);
// The same for a thread that has no quiescent states: under the bucket's lock. The caller holds what keeps the owner
// from removing the entry afterwards (vpc: the port's lock).
uint32_t flow_table_find(struct flow_table *t, const void *key48, uint64_t hash);

// An unpublished entry to fill, FLOW_NONE when the pool is empty.
uint32_t flow_table_entry_alloc(struct flow_table *t);
void flow_table_entry_discard(struct flow_table *t, uint32_t index); // never published

// Publishes; sets hash_low. Bucket and tag derive from the hash's low 32 bits alone. false: the key is there already,
// or overflow lines ran out; the entry stays the caller's.
bool flow_table_insert(struct flow_table *t, uint32_t index, uint64_t hash);
// Publishes `index` in place of `old` (published, same key); old is freed after a grace period.
void flow_table_replace(struct flow_table *t, uint32_t old, uint32_t index, uint64_t hash);
// Unpublishes; freed after a grace period. Its counters stay readable until then.
void flow_table_remove(struct flow_table *t, uint32_t index);

#endif
