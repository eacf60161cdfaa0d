// SPDX-License-Identifier: MPL-2.0
// Tunnels: the remote nodes that mappings and edges name, counted by their users.
#include "vpc/tables.h"

static uint32_t hash_node(const struct ip_addr *node)
{
    return slot_map_hash(1, node->b, 16);
}

uint32_t tunnel_use(struct vpc_tables *t, const struct ip_addr *node)
{
    if (ip_equal(node, &t->config.self))
        return 0;
    uint32_t s = slot_map_first(&t->tunnel_map, hash_node(node));
    while (s && !ip_equal(&t->tunnels[s].node, node))
        s = slot_map_next(&t->tunnel_map, s);
    if (s) {
        t->tunnels[s].refs++;
        return s;
    }
    s = slot_map_alloc(&t->tunnel_map);
    if (!s)
        return UINT32_MAX;
    t->tunnels[s] = (struct tunnel){.node = *node, .refs = 1};
    geneve_template_init(&t->tunnels[s].encap, &t->config.self, node, t->config.outer_hop_limit);
    t->config.tunnel_open(t->config.ctx, s, node);
    slot_map_link(&t->tunnel_map, s, hash_node(node));
    return s;
}

void tunnel_release(struct vpc_tables *t, uint32_t tunnel)
{
    if (tunnel == 0 || --t->tunnels[tunnel].refs > 0)
        return;
    t->config.tunnel_close(t->config.ctx, tunnel);
    slot_map_unlink(&t->tunnel_map, tunnel);
}
