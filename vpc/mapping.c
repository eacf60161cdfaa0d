// SPDX-License-Identifier: MPL-2.0
// V2P mappings, and from them the nodes that may send frames of a VNI.
#include "vpc/tables.h"

static uint32_t hash_mapping(uint32_t vni, const struct ip_addr *ip)
{
    return slot_map_hash(vni, ip->b, 16);
}

static uint32_t find(const struct vpc_tables *t, uint32_t vni, const struct ip_addr *ip)
{
    uint32_t s = slot_map_first(&t->mapping_map, hash_mapping(vni, ip));
    while (s && !(t->mappings[s].m.vni == vni && ip_equal(&t->mappings[s].m.ip, ip)))
        s = slot_map_next(&t->mapping_map, s);
    return s;
}

uint32_t mapping_lookup(const struct vpc_tables *t, uint32_t vni, const struct ip_addr *ip)
{
    uint32_t s = find(t, vni, ip);
    return s && t->mappings[s].m.state != MAPPING_TOMBSTONE ? s : 0;
}

static uint32_t find_vtep(const struct vpc_tables *t, uint32_t vni, const struct ip_addr *node)
{
    uint32_t s = slot_map_first(&t->vtep_map, hash_mapping(vni, node));
    while (s && !(t->vteps[s].vni == vni && ip_equal(&t->vteps[s].node, node)))
        s = slot_map_next(&t->vtep_map, s);
    return s;
}

bool vtep_good(const struct vpc_tables *t, uint32_t vni, const struct ip_addr *node, uint64_t now)
{
    uint32_t s = find_vtep(t, vni, node);
    return s && now < load_relaxed(&t->vteps[s].good_until);
}

// Makes room by forgetting a node that no mapping names any more and whose grace is over.
static void vtep_collect(struct vpc_tables *t, uint64_t now)
{
    for (uint32_t s = slot_map_iterate(&t->vtep_map, 0); s; s = slot_map_iterate(&t->vtep_map, s))
        if (t->vteps[s].refs == 0 && now >= t->vteps[s].good_until)
            slot_map_unlink(&t->vtep_map, s);
}

static bool vtep_use(struct vpc_tables *t, uint32_t vni, const struct ip_addr *node, uint64_t now)
{
    uint32_t s = find_vtep(t, vni, node);
    if (s) {
        t->vteps[s].refs++;
        store_relaxed(&t->vteps[s].good_until, UINT64_MAX);
        return true;
    }
    if (slot_map_full(&t->vtep_map))
        vtep_collect(t, now);
    s = slot_map_alloc(&t->vtep_map);
    if (!s)
        return false;
    t->vteps[s] = (struct vtep_slot){.vni = vni, .node = *node, .refs = 1, .good_until = UINT64_MAX};
    slot_map_link(&t->vtep_map, s, hash_mapping(vni, node));
    return true;
}

static void vtep_release(struct vpc_tables *t, uint32_t vni, const struct ip_addr *node, uint64_t now)
{
    uint32_t s = find_vtep(t, vni, node);
    if (s && --t->vteps[s].refs == 0)
        store_relaxed(&t->vteps[s].good_until, now + VTEP_GRACE_NS);
}

static bool same_mapping(const struct mapping *a, const struct mapping *b)
{
    return a->state == b->state && ip_equal(&a->node, &b->node) && mac_equal(&a->mac, &b->mac);
}

// Drops the oldest tombstone past its grace; tombstones keep epochs, so the youngest are worth most.
static void mapping_collect(struct vpc_tables *t, uint64_t now)
{
    uint32_t oldest = 0;
    for (uint32_t s = slot_map_iterate(&t->mapping_map, 0); s; s = slot_map_iterate(&t->mapping_map, s))
        if (t->mappings[s].m.state == MAPPING_TOMBSTONE && now - t->mappings[s].changed_at >= VTEP_GRACE_NS &&
            (!oldest || t->mappings[s].changed_at < t->mappings[oldest].changed_at))
            oldest = s;
    if (oldest)
        slot_map_unlink(&t->mapping_map, oldest);
}

enum put_result mapping_put(struct vpc_tables *t, const struct mapping *m, uint64_t now)
{
    uint32_t old = find(t, m->vni, &m->ip);
    if (old) {
        const struct mapping *had = &t->mappings[old].m;
        if (m->epoch < had->epoch)
            return PUT_STALE;
        if (m->epoch == had->epoch)
            return same_mapping(m, had) ? PUT_UNCHANGED : PUT_CONFLICT;
    }
    bool live = m->state != MAPPING_TOMBSTONE;
    uint32_t tunnel = live ? tunnel_use(t, &m->node) : 0;
    if (tunnel == UINT32_MAX)
        return PUT_FULL;
    if (live && !vtep_use(t, m->vni, &m->node, now)) {
        tunnel_release(t, tunnel);
        return PUT_FULL;
    }
    if (slot_map_full(&t->mapping_map))
        mapping_collect(t, now);
    uint32_t s = slot_map_alloc(&t->mapping_map);
    if (!s) {
        if (live) {
            vtep_release(t, m->vni, &m->node, now);
            tunnel_release(t, tunnel);
        }
        return PUT_FULL;
    }
    t->mappings[s] = (struct mapping_slot){.m = *m, .tunnel = tunnel, .changed_at = now};
    uint32_t hash = hash_mapping(m->vni, &m->ip);
    if (!old) {
        slot_map_link(&t->mapping_map, s, hash);
        return PUT_OK;
    }
    struct mapping_slot was = t->mappings[old];
    slot_map_replace(&t->mapping_map, old, s);
    if (was.m.state != MAPPING_TOMBSTONE) {
        vtep_release(t, was.m.vni, &was.m.node, now);
        tunnel_release(t, was.tunnel);
    }
    return PUT_OK;
}
