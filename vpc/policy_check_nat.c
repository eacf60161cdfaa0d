// SPDX-License-Identifier: MPL-2.0
// What addresses are translated to: floating IPs, SNAT slices, virtual IPs.
#include "vpc/policy_check.h"
#include "vpc/vip.h"

bool policy_unicast(const struct ip_addr *a)
{
    return !ip_is_unspecified(a) && !ip_is_multicast(a) && !ip_is_v4_broadcast(a);
}

static bool owns(const struct blueprint *b, const struct ip_addr *a)
{
    for (uint32_t i = 0; i < b->l2.n_addresses; i++)
        if (ip_equal(a, &b->l2.addresses[i]))
            return true;
    return false;
}

static bool check_floating(const struct blueprint *b, struct policy_error *e)
{
    for (uint32_t i = 0; i < b->nat.n_floating; i++) {
        const struct blueprint_floating *f = &b->nat.floating[i];
        if (!policy_unicast(&f->external))
            return policy_refuse(e, "/nat/floating", i, "/external", "not a unicast address");
        if (ip_is_v4(&f->external) != ip_is_v4(&f->internal))
            return policy_refuse(e, "/nat/floating", i, "/internal", "the two addresses are of different families");
        if (!owns(b, &f->internal))
            return policy_refuse(e, "/nat/floating", i, "/internal", "not one of the port's addresses");
        for (uint32_t k = 0; k < i; k++)
            if (ip_equal(&f->external, &b->nat.floating[k].external))
                return policy_refuse(e, "/nat/floating", i, "/external", "the address is listed twice");
    }
    return true;
}

static bool check_snat(const struct blueprint *b, struct policy_error *e)
{
    for (uint32_t i = 0; i < b->nat.n_snat; i++) {
        const struct blueprint_snat *s = &b->nat.snat[i];
        if (!policy_unicast(&s->address))
            return policy_refuse(e, "/nat/snat", i, "/address", "not a unicast address");
        if (s->ports.first == 0 || s->ports.first > s->ports.last)
            return policy_refuse(e, "/nat/snat", i, "/ports", "a slice is 1-65535 at most and not empty");
        for (uint32_t k = 0; k < i; k++) {
            const struct blueprint_snat *o = &b->nat.snat[k];
            if (ip_equal(&s->address, &o->address) && s->ports.first <= o->ports.last &&
                o->ports.first <= s->ports.last)
                return policy_refuse(e, "/nat/snat", i, "/ports", "overlaps another slice of the same address");
        }
        for (uint32_t k = 0; k < b->nat.n_floating; k++)
            if (ip_equal(&s->address, &b->nat.floating[k].external))
                return policy_refuse(e, "/nat/snat", i, "/address", "the address is a floating IP too");
    }
    return true;
}

static bool check_vip_target(const struct blueprint *b, uint32_t i, uint32_t k, struct policy_error *e)
{
    const struct blueprint_vip *v = &b->lb[i];
    const struct blueprint_vip_target *t = &v->targets[k];
    if (!policy_unicast(&t->address) || ip_is_link_local(&t->address))
        return policy_refuse(e, "/lb", i, "/targets", "not an address a target can have");
    if (ip_is_v4(&t->address) != ip_is_v4(&v->address))
        return policy_refuse(e, "/lb", i, "/targets", "a target is of the virtual IP's address family");
    if (t->weight == 0 || t->weight > 256)
        return policy_refuse(e, "/lb", i, "/targets", "a target's weight is 1 to 256");
    if (t->port && v->port == 0)
        return policy_refuse(e, "/lb", i, "/targets", "a virtual IP of all ports keeps the port");
    if (v->external && !owns(b, &t->address))
        return policy_refuse(e, "/lb", i, "/targets", "an external virtual IP has targets of the port's own only");
    for (uint32_t m = 0; m < k; m++)
        if (ip_equal(&t->address, &v->targets[m].address) && t->port == v->targets[m].port)
            return policy_refuse(e, "/lb", i, "/targets", "the target is listed twice");
    return true;
}

static bool check_vip_address(const struct blueprint *b, uint32_t i, struct policy_error *e)
{
    const struct ip_addr *a = &b->lb[i].address;
    const struct blueprint_gateway *g = &b->gateway;
    if (!policy_unicast(a) || ip_is_link_local(a) || ip_equal(a, &metadata_v6))
        return policy_refuse(e, "/lb", i, "/address", "not an address a virtual IP can have");
    if (owns(b, a))
        return policy_refuse(e, "/lb", i, "/address", "the address is the port's own");
    if ((g->has_v4 && ip_equal(a, &g->v4)) || (g->has_v6 && ip_equal(a, &g->v6)))
        return policy_refuse(e, "/lb", i, "/address", "the address is the gateway's");
    for (uint32_t k = 0; k < b->nat.n_floating; k++)
        if (ip_equal(a, &b->nat.floating[k].external))
            return policy_refuse(e, "/lb", i, "/address", "the address is a floating IP too");
    for (uint32_t k = 0; k < b->nat.n_snat; k++) {
        const struct port_range *slice = &b->nat.snat[k].ports;
        uint16_t port = b->lb[i].port;
        if (ip_equal(a, &b->nat.snat[k].address) && (port == 0 || (port >= slice->first && port <= slice->last)))
            return policy_refuse(e, "/lb", i, "/port", "the port is in a slice of the same address");
    }
    return true;
}

static bool check_vips(const struct blueprint *b, struct policy_error *e)
{
    for (uint32_t i = 0; i < b->n_lb; i++) {
        const struct blueprint_vip *v = &b->lb[i];
        if (!check_vip_address(b, i, e))
            return false;
        if (v->protocol != PROTOCOL_ANY && v->protocol > 255)
            return policy_refuse(e, "/lb", i, "/protocol", "not an IP protocol");
        if (v->port && !vip_protocol_has_ports(v->protocol))
            return policy_refuse(e, "/lb", i, "/port", "a port goes with protocol tcp, udp or sctp");
        if (v->n_targets > MAGLEV_TARGETS)
            return policy_refuse(e, "/lb", i, "/targets", "at most 128 targets");
        for (uint32_t k = 0; k < v->n_targets; k++)
            if (!check_vip_target(b, i, k, e))
                return false;
        for (uint32_t k = 0; k < i; k++)
            if (ip_equal(&v->address, &b->lb[k].address) && v->protocol == b->lb[k].protocol &&
                v->port == b->lb[k].port)
                return policy_refuse(e, "/lb", i, "/address", "address, protocol and port are listed twice");
    }
    return true;
}

static bool overlap(const struct ip_prefix *a, const struct ip_prefix *b)
{
    return ip_is_v4(&a->addr) == ip_is_v4(&b->addr) && (ip_in_prefix(&a->addr, b) || ip_in_prefix(&b->addr, a));
}

// Why it cannot be attached; NULL: it can.
static const char *attached_fault(const struct blueprint *b, uint32_t index)
{
    const struct ip_prefix *p = &b->nat.attached[index];
    if (!policy_unicast(&p->addr) || ip_is_link_local(&p->addr))
        return "not a prefix of unicast addresses";
    if (!external_prefix_ok(&p->addr, p->len))
        return "external prefixes are IPv4 /24 to /32, IPv6 /48 to /64 or /128";
    for (uint32_t i = 0; i < index; i++)
        if (overlap(p, &b->nat.attached[i]))
            return "overlaps another attached prefix";
    for (uint32_t i = 0; i < b->gateway.n_subnets; i++)
        if (overlap(p, &b->gateway.subnets[i]))
            return "overlaps one of the port's subnets";
    for (uint32_t i = 0; i < b->l2.n_addresses; i++)
        if (ip_in_prefix(&b->l2.addresses[i], p))
            return "holds one of the port's addresses";
    for (uint32_t i = 0; i < b->nat.n_floating; i++)
        if (ip_in_prefix(&b->nat.floating[i].external, p))
            return "holds a floating IP";
    for (uint32_t i = 0; i < b->nat.n_snat; i++)
        if (ip_in_prefix(&b->nat.snat[i].address, p))
            return "holds an address of a SNAT slice";
    return NULL;
}

static bool check_attached(const struct blueprint *b, struct policy_error *e)
{
    for (uint32_t i = 0; i < b->nat.n_attached; i++) {
        const char *fault = attached_fault(b, i);
        if (fault)
            return policy_refuse(e, "/nat/attached", i, "", fault);
    }
    return true;
}

bool policy_check_nat(const struct blueprint *b, struct policy_error *e)
{
    return check_floating(b, e) && check_snat(b, e) && check_attached(b, e) && check_vips(b, e);
}
