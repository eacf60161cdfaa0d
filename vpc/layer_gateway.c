// SPDX-License-Identifier: MPL-2.0
// Gateway layer of a flow: who may send, who may be sent to, and the way to the metadata service.
// What the gateway answers itself (ARP, DHCP, ...) never becomes a flow: gateway/gateway.h.
#include "vpc/walk.h"

// 100.64.0.0/10 holds four million ports; fd00:ec2:0:1::/64 any number.
struct ip_addr service_address(uint32_t port, bool v4)
{
    struct ip_addr a = {0};
    if (v4) {
        uint8_t b[4];
        store_be32(b, 0x64400000u + port);
        return ip_from_v4(b);
    }
    store_be64(a.b, 0xfd000ec200000001ull);
    store_be64(a.b + 8, port);
    return a;
}

uint32_t service_port(const struct ip_addr *a)
{
    if (ip_is_v4(a)) {
        uint32_t host = load_be32(a->b + 12);
        return (host & 0xffc00000u) == 0x64400000u ? host & 0x3fffff : 0;
    }
    bool ours = load_be64(a->b) == 0xfd000ec200000001ull && load_be32(a->b + 8) == 0;
    return ours ? load_be32(a->b + 12) : 0;
}

static bool to_metadata(const struct walk *w)
{
    return ip_equal(&w->now.dst, &metadata_v4) || ip_equal(&w->now.dst, &metadata_v6);
}

// An ordinary NAT connection: the source becomes the address that stands for this port on the node.
static enum drop metadata(struct walk *w)
{
    if (!w->env->service_up || !w->policy->blueprint->gateway.metadata.enabled)
        return DROP_METADATA_OFF;
    w->binding =
        (struct conn_binding){.kind = CONN_NAT_SERVICE, .external = service_address(w->port, w->now.ip_version == 4)};
    w->xp.flags = XP_SRC_IP | XP_SRC_MAC | XP_DST_MAC;
    w->xp.src_ip = w->now.src = w->binding.external;
    w->xp.src_mac = w->policy->blueprint->gateway.mac;
    w->xp.dst_mac = w->env->service_mac;
    w->xp.to = XP_TO_SERVICE;
    w->finished = true;
    struct text t = walk_note(w, "gateway", "pass");
    text_add(&t, "to the metadata service as ");
    text_ip(&t, &w->now.src);
    return DROP_NONE;
}

static enum drop refuse(struct walk *w, const char *why, const struct ip_addr *address, enum drop reason)
{
    struct text t = walk_note(w, "gateway", "drop");
    text_add(&t, why);
    text_ip(&t, address);
    return reason;
}

static enum drop gateway_flow_out(struct walk *w)
{
    const struct policy *p = w->policy;
    if (!w->reply && p->blueprint->l2.anti_spoof &&
        !gateway_address_allowed(&p->gateway, &w->now.src, NULL, BLUEPRINT_OUT))
        return refuse(w, "source is not the port's: ", &w->now.src, DROP_SPOOF_IP);
    if (to_metadata(w))
        return metadata(w);
    if (policy_owns(p, &w->now.dst))
        return refuse(w, "the port's own address as destination: ", &w->now.dst, DROP_LOOP);
    if (ip_is_link_local(&w->now.dst) || ip_is_link_local(&w->now.src))
        return refuse(w, "link-local: ", &w->now.dst, DROP_LINK_LOCAL);
    walk_note(w, "gateway", "pass");
    return DROP_NONE;
}

static enum drop gateway_flow_in(struct walk *w)
{
    const struct policy *p = w->policy;
    if (!gateway_address_allowed(&p->gateway, &w->now.dst, NULL, BLUEPRINT_IN))
        return refuse(w, "destination is not this port's: ", &w->now.dst, DROP_WRONG_DST);
    if (!w->reply && policy_owns(p, &w->now.src))
        return refuse(w, "own address as source: ", &w->now.src, DROP_LOOP);
    bool service = w->reply && w->binding.kind == CONN_NAT_SERVICE;
    if (ip_is_link_local(&w->now.src) && !service)
        return refuse(w, "link-local source: ", &w->now.src, DROP_LINK_LOCAL);
    w->xp.flags |= XP_DST_MAC;
    w->xp.dst_mac = p->blueprint->l2.mac;
    if (!policy_same_subnet(p, &w->now.src, &w->now.dst)) {
        w->xp.flags |= XP_SRC_MAC;
        w->xp.src_mac = p->blueprint->gateway.mac;
    }
    w->xp.to = XP_TO_GUEST;
    w->xp.dest = w->port;
    walk_note(w, "gateway", "pass");
    return DROP_NONE;
}

const struct layer layer_gateway = {"gateway", gateway_flow_out, gateway_flow_in};
