// SPDX-License-Identifier: MPL-2.0
// Mappings, external mappings, edge sets and address sets: versioned documents that are not a port's.
#include "core/internal.h"

static bool answer(struct node *n, enum put_result r, struct node_error *e)
{
    switch (r) {
    case PUT_OK:
    case PUT_UNCHANGED:
        return true;
    case PUT_STALE:
        event_refused(n, &n->stale, "stale-epoch", 0, "a document is older than what is in force");
        return node_refuse(e, NODE_STALE, "/epoch", "older than what is in force");
    case PUT_CONFLICT:
        return node_refuse(e, NODE_CONFLICT, "/epoch", "what is in force under this number has another content");
    case PUT_FULL:
        event_refused(n, &n->full, "table-full", 0, "no room for a mapping, an external address or a set");
        return node_refuse(e, NODE_LIMIT, "", "this node's table is full");
    case PUT_ABSENT:
        return node_refuse(e, NODE_NOT_FOUND, "", "there is no such document");
    }
    return false;
}

static bool is_node_address(const struct ip_addr *a)
{
    return !ip_is_v4(a) && !ip_is_unspecified(a) && !ip_is_multicast(a);
}

bool node_mapping_put(struct node *n, const struct mapping *m, uint64_t now, struct node_error *e)
{
    *e = (struct node_error){0};
    if (m->vni == 0 || m->vni >= GENEVE_VNI_EDGE)
        return node_refuse(e, NODE_INVALID, "/vni", "a tenant's VNI is 1 to 16777213");
    if (ip_is_unspecified(&m->ip) || ip_is_multicast(&m->ip))
        return node_refuse(e, NODE_INVALID, "/ip", "not a unicast address");
    if (m->state != MAPPING_TOMBSTONE && !is_node_address(&m->node))
        return node_refuse(e, NODE_INVALID, "/node", "not a node's IPv6 address");
    if (mac_is_multicast(&m->mac))
        return node_refuse(e, NODE_INVALID, "/mac", "not a unicast MAC address");
    return answer(n, mapping_put(&n->tables, m, now), e);
}

bool node_external_mapping_put(struct node *n, const struct external_mapping *m, struct node_error *e)
{
    *e = (struct node_error){0};
    if (ip_is_unspecified(&m->address) || ip_is_multicast(&m->address))
        return node_refuse(e, NODE_INVALID, "/address", "not a unicast address");
    if (m->prefix_len && (external_length(m) == 128 || !external_prefix_ok(&m->address, external_length(m))))
        return node_refuse(e, NODE_INVALID, "/prefix_len",
                           "external prefixes are IPv4 /24 to /31, IPv6 /48 to /64, without host bits");
    if (m->ports.first > m->ports.last)
        return node_refuse(e, NODE_INVALID, "/ports", "the range ends before it begins");
    if (m->state != MAPPING_TOMBSTONE && !is_node_address(&m->node))
        return node_refuse(e, NODE_INVALID, "/node", "not a node's IPv6 address");
    return answer(n, external_put(&n->tables, m), e);
}

bool node_edge_set_put(struct node *n, const struct edge_set *s, struct node_error *e)
{
    *e = (struct node_error){0};
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (!is_node_address(&s->nodes[i]))
            return node_refuse(e, NODE_INVALID, "/nodes", "not a node's IPv6 address");
    return answer(n, edge_set_put(&n->tables, s), e);
}

// Connections of the ports that name the set are judged again: membership may have decided them.
static void rejudge_users(struct node *n, uint32_t set)
{
    for (uint32_t i = 1; set && i < n->config.max_ports; i++) {
        const struct policy *p = n->ports[i].policy;
        for (uint32_t k = 0; p && k < p->n_sets; k++)
            if (p->sets[k] == set)
                store_release(&n->ports[i].generation, ++n->last_generation);
    }
}

bool node_address_set_put(struct node *n, const struct address_set *s, struct node_error *e)
{
    *e = (struct node_error){0};
    enum put_result r = address_set_put(&n->tables, s);
    if (r == PUT_OK)
        rejudge_users(n, address_set_find(&n->tables, &s->id));
    if (r == PUT_STALE)
        return node_refuse(e, NODE_STALE, "/generation", "older than the generation in force");
    if (r == PUT_CONFLICT)
        return node_refuse(e, NODE_CONFLICT, "/generation", "the generation in force has another content");
    return answer(n, r, e);
}

bool node_address_set_delete(struct node *n, const struct uuid *id, struct node_error *e)
{
    *e = (struct node_error){0};
    drain_retired(n);
    enum put_result r = address_set_delete(&n->tables, id);
    if (r == PUT_CONFLICT)
        return node_refuse(e, NODE_CONFLICT, "", "a blueprint names this address set");
    return answer(n, r, e);
}

bool node_mapping_next(struct node *n, uint32_t *cursor, struct mapping *out)
{
    *cursor = slot_map_iterate(&n->tables.mapping_map, *cursor);
    if (*cursor)
        *out = n->tables.mappings[*cursor].m;
    return *cursor != 0;
}

uint32_t node_mapping_count(struct node *n)
{
    return n->tables.mapping_map.linked;
}
