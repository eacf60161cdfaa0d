// SPDX-License-Identifier: MPL-2.0
// slot_map.h: a chained hash of numbered slots that workers read without a lock while the control
// thread changes it. Slots are numbers 1..capacity; what a slot holds is the caller's array of the same size.
//
// A linked slot's content does not change: to change it, link a new slot and unlink the old. An unlinked slot is
// reused only after a grace period. Each slot has a version that moves when it is unlinked, so that whoever
// remembers (slot, version) knows exactly whether it still stands: that is how a mapping change touches
// the flows to that mapping and no others.
//
// Threads: first, next, version: any. Everything else: one control thread.
#ifndef NEREUS_ENGINE_SLOT_MAP_H
#define NEREUS_ENGINE_SLOT_MAP_H

#include "engine/atomic.h"
#include "engine/env.h"

struct slot_map {
    const struct env *env;
    uint32_t capacity, mask, free_head, linked;
    uint32_t *heads;    // by hash
    uint32_t *next;     // by slot
    uint32_t *versions; // by slot
    uint32_t *hashes;   // by slot; control only
};

bool slot_map_init(struct slot_map *m, const struct env *env, uint32_t capacity);
void slot_map_fini(struct slot_map *m);

static inline bool slot_map_full(const struct slot_map *m)
{
    return load_acquire(&m->free_head) == 0;
}

// A slot to fill; 0 when full.
uint32_t slot_map_alloc(struct slot_map *m);
void slot_map_link(struct slot_map *m, uint32_t slot, uint32_t hash);
void slot_map_unlink(struct slot_map *m, uint32_t slot);
// Links `slot` in the very place of `old`, whose hash it has: a reader finds one of the two, never neither.
void slot_map_replace(struct slot_map *m, uint32_t old, uint32_t slot);

static inline uint32_t slot_map_first(const struct slot_map *m, uint32_t hash)
{
    return load_acquire(&m->heads[hash & m->mask]);
}

static inline uint32_t slot_map_next(const struct slot_map *m, uint32_t slot)
{
    return load_acquire(&m->next[slot]);
}

static inline uint32_t slot_map_version(const struct slot_map *m, uint32_t slot)
{
    return load_acquire(&m->versions[slot]);
}

// Marks what depends on the slot as stale without changing the slot.
void slot_map_touch(struct slot_map *m, uint32_t slot);

// Iterates linked slots; 0 at the end. Control thread.
uint32_t slot_map_iterate(const struct slot_map *m, uint32_t after);

// A fixed mixing hash for keys that no guest chooses alone (mappings come from the controller).
static inline uint32_t slot_map_hash(uint32_t seed, const void *bytes, size_t n)
{
    uint64_t h = seed * 0x9e3779b97f4a7c15ull + 1;
    const uint8_t *b = bytes;
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t w;
        __builtin_memcpy(&w, b, 8);
        h = (h ^ w) * 0xd6e8feb86659fd93ull;
        h ^= h >> 32;
    }
    for (; n; n--, b++)
        h = (h ^ *b) * 0xd6e8feb86659fd93ull;
    // The last bytes of a key stand highest in h: only the upper half of a further product depends on all of them.
    return (uint32_t)(h * 0xd6e8feb86659fd93ull >> 32);
}

#endif
