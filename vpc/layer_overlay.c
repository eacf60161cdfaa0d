// SPDX-License-Identifier: MPL-2.0
// Overlay: from an inner address to a node or a local port; from an external address to its edge. Inbound, the
// node has already matched VNI, MAC and outer source before a port's pipeline sees the packet.
#include "vpc/walk.h"

static void depend(struct walk *w, uint32_t on, uint32_t version)
{
    w->dependency = on;
    w->dependency_version = version;
}

static enum drop drop_at(struct walk *w, const char *why, const struct ip_addr *address, enum drop reason)
{
    struct text t = walk_note(w, "overlay", "drop");
    text_add(&t, why);
    text_ip(&t, address);
    return reason;
}

// The mapping and the version it has while it is linked: a change in between is seen by looking again.
static uint32_t find_mapping(struct walk *w, uint32_t vni, const struct ip_addr *ip)
{
    const struct vpc_tables *tables = w->env->tables;
    uint32_t slot = mapping_lookup(tables, vni, ip);
    for (unsigned tries = 0; slot && tries < 8; tries++) {
        depend(w, slot, slot_map_version(&tables->mapping_map, slot));
        uint32_t again = mapping_lookup(tables, vni, ip);
        if (again == slot)
            return slot;
        slot = again;
    }
    return 0;
}

static enum drop to_mapping(struct walk *w, uint32_t vni, const struct ip_addr *ip)
{
    const struct vpc_tables *tables = w->env->tables;
    uint32_t slot = find_mapping(w, vni, ip);
    if (!slot)
        return drop_at(w, "no mapping for ", ip, DROP_NO_MAPPING);
    const struct mapping_slot *m = &tables->mappings[slot];
    w->xp.flags |= XP_DST_MAC;
    w->xp.dst_mac = m->m.mac;
    w->xp.vni = vni;
    if (m->tunnel) {
        w->xp.to = XP_TO_TUNNEL;
        w->xp.dest = m->tunnel;
    } else {
        w->xp.to = XP_TO_PORT;
        w->xp.dest = w->env->local_port(w->env->ctx, vni, &m->m.mac);
        if (!w->xp.dest)
            return drop_at(w, "mapped to this node, which has no such port: ", ip, DROP_UNKNOWN_PORT);
    }
    struct text t = walk_note(w, "overlay", "pass");
    text_add(&t, m->tunnel ? "to node " : "to a port of this node, ");
    text_ip(&t, m->tunnel ? &m->m.node : ip);
    text_add(&t, " VNI ");
    text_number(&t, vni);
    return DROP_NONE;
}

// The edge of our external address; or, between external addresses of this node, straight across.
static enum drop to_outside(struct walk *w)
{
    const struct vpc_tables *tables = w->env->tables;
    depend(w, DEPENDS_OUTSIDE, load_acquire(&tables->outside_version));
    bool icmp = w->now.protocol == IPPROTO_ICMP4 || w->now.protocol == IPPROTO_ICMP6;
    uint32_t known =
        external_lookup(tables, &w->now.dst, w->now.protocol, load_be16(icmp ? &w->now.sport : &w->now.dport));
    if (known && tables->externals[known].tunnel == 0) {
        w->xp.to = XP_TO_LOCAL_EXTERNAL;
        w->xp.dest = tables->externals[known].port;
        walk_note(w, "overlay", "pass");
        return DROP_NONE;
    }
    const struct edge_slot *e = edge_lookup(tables, &w->now.src);
    if (!e)
        return drop_at(w, "no edge serves ", &w->now.src, DROP_NO_EDGE);
    uint32_t i = edge_choose(e, flow_hash(w->env->secret, &w->key));
    uint32_t edge = e->nodes[i].tunnel;
    // As the edge of both addresses this node sends straight to the other's node: on its own link nobody would answer.
    uint32_t tunnel = edge || !known ? edge : tables->externals[known].tunnel;
    w->xp.vni = GENEVE_VNI_EDGE;
    w->xp.to = tunnel ? XP_TO_TUNNEL : XP_TO_EXTERNAL;
    w->xp.dest = tunnel ? tunnel : w->env->external_link(w->env->ctx, &w->now.src);
    struct text t = walk_note(w, "overlay", "pass");
    text_add(&t, edge ? "to edge " : tunnel ? "as the edge, to node " : "out of this edge, ");
    text_ip(&t, !edge && tunnel ? &tables->externals[known].m.node : &e->nodes[i].node);
    return DROP_NONE;
}

static enum drop overlay_out(struct walk *w)
{
    switch ((enum blueprint_target_kind)w->target->kind) {
    case BLUEPRINT_TARGET_LOCAL:
        return to_mapping(w, w->key.vni, &w->now.dst);
    case BLUEPRINT_TARGET_IP:
    case BLUEPRINT_TARGET_PORT:
        return to_mapping(w, w->key.vni, &w->target->ip);
    case BLUEPRINT_TARGET_PEERING:
        return to_mapping(w, w->target->vni, &w->now.dst);
    case BLUEPRINT_TARGET_EXTERNAL:
    case BLUEPRINT_TARGET_NAT:
        return to_outside(w);
    case BLUEPRINT_TARGET_BLACKHOLE:
        break;
    }
    return DROP_BLACKHOLE;
}

static enum drop overlay_in(struct walk *w)
{
    return DROP_NONE;
}

const struct layer layer_overlay = {"overlay", overlay_out, overlay_in};
