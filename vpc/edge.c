// SPDX-License-Identifier: MPL-2.0
// Edge sets: which nodes serve the external addresses of a prefix.
#include "engine/flow_key.h"
#include "vpc/tables.h"

static uint32_t find(const struct vpc_tables *t, const struct ip_prefix *prefix)
{
    for (uint32_t s = slot_map_iterate(&t->edge_map, 0); s; s = slot_map_iterate(&t->edge_map, s))
        if (t->edges[s].prefix.len == prefix->len && ip_equal(&t->edges[s].prefix.addr, &prefix->addr))
            return s;
    return 0;
}

static void release(struct vpc_tables *t, const struct edge_slot *e)
{
    for (uint32_t i = 0; i < e->n_nodes; i++)
        tunnel_release(t, e->nodes[i].tunnel);
}

static bool same_nodes(const struct edge_slot *e, const struct edge_set *s)
{
    if (e->n_nodes != s->n_nodes)
        return false;
    for (uint32_t i = 0; i < e->n_nodes; i++)
        if (!ip_equal(&e->nodes[i].node, &s->nodes[i]))
            return false;
    return true;
}

// All edge sets hang on one chain: there are few, and lookups want the longest prefix among them.
enum put_result edge_set_put(struct vpc_tables *t, const struct edge_set *s)
{
    uint32_t old = find(t, &s->prefix);
    if (old && s->epoch < t->edges[old].epoch)
        return PUT_STALE;
    if (old && s->epoch == t->edges[old].epoch)
        return same_nodes(&t->edges[old], s) ? PUT_UNCHANGED : PUT_CONFLICT;
    if (s->n_nodes > ARRAY_LEN(t->edges[0].nodes))
        return PUT_FULL;
    struct edge_slot e = {.prefix = s->prefix, .epoch = s->epoch};
    for (; e.n_nodes < s->n_nodes; e.n_nodes++) {
        e.nodes[e.n_nodes].node = s->nodes[e.n_nodes];
        e.nodes[e.n_nodes].tunnel = tunnel_use(t, &s->nodes[e.n_nodes]);
        if (e.nodes[e.n_nodes].tunnel == UINT32_MAX) {
            release(t, &e);
            return PUT_FULL;
        }
    }
    uint32_t slot = slot_map_alloc(&t->edge_map);
    if (!slot) {
        release(t, &e);
        return PUT_FULL;
    }
    t->edges[slot] = e;
    struct edge_slot was = {0};
    if (old) {
        was = t->edges[old];
        slot_map_replace(&t->edge_map, old, slot);
    } else {
        slot_map_link(&t->edge_map, slot, 0);
    }
    store_release(&t->outside_version, t->outside_version + 1);
    release(t, &was); // last: who still holds the old version keeps its tunnels alive
    return PUT_OK;
}

const struct edge_slot *edge_lookup(const struct vpc_tables *t, const struct ip_addr *external)
{
    const struct edge_slot *best = NULL;
    for (uint32_t s = slot_map_first(&t->edge_map, 0); s; s = slot_map_next(&t->edge_map, s)) {
        const struct edge_slot *e = &t->edges[s];
        if (e->n_nodes && ip_in_prefix(external, &e->prefix) && (!best || e->prefix.len > best->prefix.len))
            best = e;
    }
    return best;
}

uint32_t edge_choose(const struct edge_slot *e, uint64_t flow_hash)
{
    uint32_t best = 0;
    uint64_t best_weight = 0;
    for (uint32_t i = 0; i < e->n_nodes; i++) {
        uint64_t node = load_be64(e->nodes[i].node.b) ^ load_be64(e->nodes[i].node.b + 8);
        uint64_t weight = flow_fold(flow_hash ^ 0x9e3779b97f4a7c15ull, node * 0xd6e8feb86659fd93ull | 1);
        weight = flow_fold(weight ^ node, 0xa0761d6478bd642full);
        if (i == 0 || weight > best_weight) {
            best = i;
            best_weight = weight;
        }
    }
    return best;
}

bool edge_is_node(const struct vpc_tables *t, const struct ip_addr *node)
{
    for (uint32_t s = slot_map_first(&t->edge_map, 0); s; s = slot_map_next(&t->edge_map, s))
        for (uint32_t i = 0; i < t->edges[s].n_nodes; i++)
            if (ip_equal(&t->edges[s].nodes[i].node, node))
                return true;
    return false;
}
