// SPDX-License-Identifier: MPL-2.0
// How full everything is that can be full.
#include "core/internal.h"

unsigned node_tables(struct node *n, struct table_use out[NODE_TABLES])
{
    const struct vpc_tables *t = &n->tables;
    const struct vpc_tables_config *max = &t->config;
    uint32_t ports = 0;
    for (uint32_t i = node_port_next(n, 0); i; i = node_port_next(n, i))
        ports++;
    const struct table_use all[NODE_TABLES] = {
        {"ports", ports, n->config.max_ports - 1},
        {"connections", conn_count(n->connections), n->config.max_connections},
        {"mappings", t->mapping_map.linked, max->max_mappings},
        {"tunnels", t->tunnel_map.linked, max->max_tunnels},
        {"externals", t->external_map.linked, max->max_externals},
        {"address-sets", t->set_map.linked, max->max_sets},
        {"edge-sets", t->edge_map.linked, max->max_edges},
    };
    memcpy(out, all, sizeof(all));
    return NODE_TABLES;
}

bool node_port_use(struct node *n, uint32_t index, struct port_use *out)
{
    struct port *port = port_at(n, index);
    *out = (struct port_use){0};
    if (!port)
        return false;
    const struct blueprint_limits *l = &port->policy->blueprint->limits;
    out->connections = conn_port_count(n->connections, index);
    out->guarantee = l->flows_min;
    out->cap = l->flows_max;
    conn_port_lock(n->connections, index);
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        const struct snat_slice *s = port->snat.slice[i];
        if (!s || !s->live)
            continue;
        out->snat_ports += (uint32_t)(s->last - s->first) + 1;
        for (unsigned k = 0; k < SNAT_PROTOCOLS; k++)
            out->snat_used[k] += s->used[k];
    }
    conn_port_unlock(n->connections, index);
    return true;
}

void node_conn_stats(struct node *n, struct conn_stats *out)
{
    conn_table_stats(n->connections, out);
}
