// SPDX-License-Identifier: MPL-2.0
// Router: longest prefix over the port's route table; one hop between subnets and toward an edge, none
// within a subnet.
#include "vpc/walk.h"

static const char *const target_words[] = {
    [BLUEPRINT_TARGET_LOCAL] = "local",         [BLUEPRINT_TARGET_IP] = "next hop ",
    [BLUEPRINT_TARGET_PORT] = "next hop ",      [BLUEPRINT_TARGET_EXTERNAL] = "internet gateway",
    [BLUEPRINT_TARGET_NAT] = "NAT gateway",     [BLUEPRINT_TARGET_PEERING] = "peering with VNI ",
    [BLUEPRINT_TARGET_BLACKHOLE] = "blackhole",
};

static void hop(struct walk *w)
{
    w->xp.flags |= XP_DEC_TTL | XP_SRC_MAC;
    w->xp.src_mac = w->policy->blueprint->gateway.mac;
}

static void note_route(struct walk *w, const struct blueprint_route *r, const char *result)
{
    struct text t = walk_note(w, "router", result);
    text_prefix(&t, &r->prefix);
    text_add(&t, " to ");
    text_add(&t, target_words[r->target.kind]);
    if (r->target.kind == BLUEPRINT_TARGET_IP || r->target.kind == BLUEPRINT_TARGET_PORT)
        text_ip(&t, &r->target.ip);
    if (r->target.kind == BLUEPRINT_TARGET_PEERING)
        text_number(&t, r->target.vni);
}

// The answer to a packet that came from outside goes back outside, whatever the routes say by now.
static const struct blueprint_target outside_target = {.kind = BLUEPRINT_TARGET_EXTERNAL};

enum drop walk_route(struct walk *w)
{
    w->xp.flags &= (uint16_t) ~(XP_DEC_TTL | XP_SRC_MAC); // of the way that was found before
    uint32_t found = lpm_lookup(w->policy->routes, &w->now.dst);
    if (found == LPM_NONE) {
        struct text t = walk_note(w, "router", "drop");
        text_add(&t, "no route to ");
        text_ip(&t, &w->now.dst);
        return DROP_NO_ROUTE;
    }
    const struct blueprint_route *r = &w->policy->blueprint->routes[found];
    w->target = &r->target;
    if (r->target.kind == BLUEPRINT_TARGET_BLACKHOLE) {
        note_route(w, r, "drop");
        return DROP_BLACKHOLE;
    }
    note_route(w, r, "pass");
    w->same_subnet =
        r->target.kind == BLUEPRINT_TARGET_LOCAL && policy_same_subnet(w->policy, &w->now.src, &w->now.dst);
    if (!w->same_subnet)
        hop(w);
    return DROP_NONE;
}

static enum drop router_out(struct walk *w)
{
    if (w->reply && walk_from_outside(w)) {
        w->target = &outside_target;
        hop(w);
        return DROP_NONE;
    }
    return walk_route(w);
}

static enum drop router_in(struct walk *w)
{
    if (w->reply || walk_from_outside(w)) {
        // From an edge the packet takes the virtual router's hop here; within the VPC the sender's node took it.
        bool outward = w->binding.kind == CONN_NAT_FLOATING || w->binding.kind == CONN_NAT_SNAT ||
                       w->binding.kind == CONN_NAT_ATTACHED;
        if (walk_from_outside(w) || outward)
            w->xp.flags |= XP_DEC_TTL;
        return DROP_NONE;
    }
    uint32_t found = lpm_lookup(w->policy->routes, &w->now.src);
    uint8_t kind = found == LPM_NONE ? BLUEPRINT_TARGET_BLACKHOLE : w->policy->blueprint->routes[found].target.kind;
    if (kind != BLUEPRINT_TARGET_BLACKHOLE) {
        walk_note(w, "router", "pass");
        return DROP_NONE;
    }
    struct text t = walk_note(w, "router", "drop");
    text_add(&t, "no route back to ");
    text_ip(&t, &w->now.src);
    return DROP_SOURCE_CHECK;
}

const struct layer layer_router = {"router", router_out, router_in};
