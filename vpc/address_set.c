// SPDX-License-Identifier: MPL-2.0
// Address sets: members of security groups, a stream beside the blueprints that name them.
#include "vpc/tables.h"

static uint32_t hash_id(const struct uuid *id)
{
    return slot_map_hash(3, id->b, 16);
}

uint32_t address_set_find(const struct vpc_tables *t, const struct uuid *id)
{
    uint32_t s = slot_map_first(&t->set_map, hash_id(id));
    while (s && !uuid_equal(&t->sets[s].id, id))
        s = slot_map_next(&t->set_map, s);
    return s;
}

static void free_lpm(void *arg, uint64_t lpm)
{
    lpm_free(arg, (struct lpm *)(uintptr_t)lpm);
}

static void set_members(struct vpc_tables *t, uint32_t slot, struct lpm *members)
{
    struct lpm *old = t->sets[slot].members;
    store_release(&t->sets[slot].members, members);
    if (old)
        t->env->defer(t->env->ctx, free_lpm, (void *)(uintptr_t)t->env, (uint64_t)(uintptr_t)old);
}

uint32_t address_set_use(struct vpc_tables *t, const struct uuid *id)
{
    uint32_t s = address_set_find(t, id);
    if (!s) {
        s = slot_map_alloc(&t->set_map);
        if (!s)
            return 0;
        t->sets[s] = (struct address_set_slot){.id = *id};
        slot_map_link(&t->set_map, s, hash_id(id));
    }
    t->sets[s].users++;
    return s;
}

static void drop_set(struct vpc_tables *t, uint32_t slot)
{
    set_members(t, slot, NULL);
    t->env->free(t->env->ctx, t->sets[slot].cidrs);
    t->sets[slot].cidrs = NULL;
    slot_map_unlink(&t->set_map, slot);
}

void address_set_release(struct vpc_tables *t, uint32_t slot)
{
    if (--t->sets[slot].users == 0 && !t->sets[slot].present)
        drop_set(t, slot);
}

static bool same_cidrs(const struct address_set_slot *had, const struct address_set *s)
{
    if (had->n_cidrs != s->n_cidrs)
        return false;
    for (uint32_t i = 0; i < s->n_cidrs; i++)
        if (had->cidrs[i].len != s->cidrs[i].len || !ip_equal(&had->cidrs[i].addr, &s->cidrs[i].addr))
            return false;
    return true;
}

enum put_result address_set_put(struct vpc_tables *t, const struct address_set *s)
{
    uint32_t slot = address_set_find(t, &s->id);
    struct address_set_slot *had = &t->sets[slot];
    if (slot && had->present) {
        if (s->generation < had->generation)
            return PUT_STALE;
        if (s->generation == had->generation)
            return same_cidrs(had, s) ? PUT_UNCHANGED : PUT_CONFLICT;
    }
    const struct env *env = t->env;
    size_t count = s->n_cidrs ? s->n_cidrs : 1;
    struct ip_prefix *cidrs = env->alloc(env->ctx, count * sizeof(*cidrs));
    struct lpm_route *routes = env->alloc(env->ctx, count * sizeof(*routes));
    struct lpm *members = NULL;
    if (cidrs && routes) {
        for (uint32_t i = 0; i < s->n_cidrs; i++) {
            cidrs[i] = s->cidrs[i];
            routes[i] = (struct lpm_route){s->cidrs[i], 1};
        }
        members = lpm_build(env, routes, s->n_cidrs);
    }
    env->free(env->ctx, routes);
    if (members && !slot) {
        slot = address_set_use(t, &s->id);
        if (slot)
            t->sets[slot].users = 0;
    }
    if (!members || !slot) {
        lpm_free(env, members);
        env->free(env->ctx, cidrs);
        return PUT_FULL;
    }
    had = &t->sets[slot];
    env->free(env->ctx, had->cidrs);
    had->cidrs = cidrs;
    had->n_cidrs = s->n_cidrs;
    had->generation = s->generation;
    had->present = true;
    set_members(t, slot, members);
    return PUT_OK;
}

enum put_result address_set_delete(struct vpc_tables *t, const struct uuid *id)
{
    uint32_t slot = address_set_find(t, id);
    if (!slot || !t->sets[slot].present)
        return PUT_ABSENT;
    if (t->sets[slot].users)
        return PUT_CONFLICT;
    drop_set(t, slot);
    return PUT_OK;
}

bool address_set_member(void *tables, uint32_t slot, const struct ip_addr *addr)
{
    const struct vpc_tables *t = tables;
    const struct lpm *members = load_acquire(&t->sets[slot].members);
    return members && lpm_lookup(members, addr) != LPM_NONE;
}
