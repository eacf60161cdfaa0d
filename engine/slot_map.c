// SPDX-License-Identifier: MPL-2.0
#include "engine/slot_map.h"

#define UNLINKED 0xffffffffu // in hashes[]: the slot is not in a chain

bool slot_map_init(struct slot_map *m, const struct env *env, uint32_t capacity)
{
    uint32_t buckets = 16;
    while (buckets < capacity && buckets < 1u << 30)
        buckets *= 2;
    *m = (struct slot_map){.env = env, .capacity = capacity, .mask = buckets - 1};
    m->heads = env->alloc(env->ctx, (size_t)buckets * 4);
    m->next = env->alloc(env->ctx, ((size_t)capacity + 1) * 4);
    m->versions = env->alloc(env->ctx, ((size_t)capacity + 1) * 4);
    m->hashes = env->alloc(env->ctx, ((size_t)capacity + 1) * 4);
    if (!m->heads || !m->next || !m->versions || !m->hashes) {
        slot_map_fini(m);
        return false;
    }
    for (uint32_t slot = capacity; slot >= 1; slot--) {
        m->next[slot] = m->free_head;
        m->hashes[slot] = UNLINKED;
        m->versions[slot] = 1;
        m->free_head = slot;
    }
    return true;
}

void slot_map_fini(struct slot_map *m)
{
    if (!m->env)
        return;
    m->env->free(m->env->ctx, m->heads);
    m->env->free(m->env->ctx, m->next);
    m->env->free(m->env->ctx, m->versions);
    m->env->free(m->env->ctx, m->hashes);
    *m = (struct slot_map){0};
}

uint32_t slot_map_alloc(struct slot_map *m)
{
    uint32_t slot = load_acquire(&m->free_head);
    // Freed slots come back from whichever thread runs deferred calls.
    while (slot && !__atomic_compare_exchange_n(&m->free_head, &slot, load_relaxed(&m->next[slot]), false,
                                                __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        ;
    return slot;
}

static void give_back(void *arg, uint64_t slot)
{
    struct slot_map *m = arg;
    uint32_t head = load_relaxed(&m->free_head);
    do
        store_relaxed(&m->next[slot], head);
    while (
        !__atomic_compare_exchange_n(&m->free_head, &head, (uint32_t)slot, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

void slot_map_link(struct slot_map *m, uint32_t slot, uint32_t hash)
{
    hash &= m->mask;
    m->hashes[slot] = hash;
    store_relaxed(&m->next[slot], load_relaxed(&m->heads[hash]));
    store_release(&m->heads[hash], slot);
    m->linked++;
}

// The link that leads to a slot.
static uint32_t *link_to(struct slot_map *m, uint32_t slot)
{
    uint32_t *at = &m->heads[m->hashes[slot]];
    while (*at != slot)
        at = &m->next[*at];
    return at;
}

// Out of its chain; its own link stays until the grace period ends: a reader that stands on it walks on.
static void leave(struct slot_map *m, uint32_t slot)
{
    m->hashes[slot] = UNLINKED;
    m->linked--;
    slot_map_touch(m, slot);
    m->env->defer(m->env->ctx, give_back, m, slot);
}

void slot_map_unlink(struct slot_map *m, uint32_t slot)
{
    store_release(link_to(m, slot), load_relaxed(&m->next[slot]));
    leave(m, slot);
}

// In place: with the new slot at the chain's head, a reader already behind the head would miss both.
void slot_map_replace(struct slot_map *m, uint32_t old, uint32_t slot)
{
    m->hashes[slot] = m->hashes[old];
    store_relaxed(&m->next[slot], load_relaxed(&m->next[old]));
    store_release(link_to(m, old), slot);
    m->linked++;
    leave(m, old);
}

void slot_map_touch(struct slot_map *m, uint32_t slot)
{
    store_release(&m->versions[slot], load_relaxed(&m->versions[slot]) + 1);
}

uint32_t slot_map_iterate(const struct slot_map *m, uint32_t after)
{
    for (uint32_t slot = after + 1; slot <= m->capacity; slot++)
        if (m->hashes[slot] != UNLINKED)
            return slot;
    return 0;
}
