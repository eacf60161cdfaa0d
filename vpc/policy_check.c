// SPDX-License-Identifier: MPL-2.0
#include "vpc/policy_check.h"

#include "engine/geneve.h"
#include "vpc/text.h"

bool policy_refuse(struct policy_error *error, const char *array, long index, const char *field, const char *why)
{
    struct text t = text_into(error->pointer, sizeof(error->pointer));
    text_add(&t, array);
    if (index >= 0) {
        text_add(&t, "/");
        text_number(&t, (uint64_t)index);
    }
    text_add(&t, field);
    t = text_into(error->text, sizeof(error->text));
    text_add(&t, why);
    return false;
}

static bool mac_ok(const struct mac_addr *m)
{
    static const struct mac_addr zero;
    return !mac_is_multicast(m) && !mac_equal(m, &zero);
}

static bool check_identity(const struct blueprint *b, struct policy_error *e)
{
    if (b->vpc.vni == 0 || b->vpc.vni >= GENEVE_VNI_EDGE)
        return policy_refuse(e, "/vpc/vni", -1, "", "a tenant's VNI is 1 to 16777213");
    if (b->vpc.mtu < 1280 || b->vpc.mtu > 65535)
        return policy_refuse(e, "/vpc/mtu", -1, "", "the MTU is 1280 to 65535");
    if (!mac_ok(&b->l2.mac))
        return policy_refuse(e, "/l2/mac", -1, "", "a port needs a unicast MAC address");
    if (!mac_ok(&b->gateway.mac))
        return policy_refuse(e, "/gateway/mac", -1, "", "a gateway needs a unicast MAC address");
    if (mac_equal(&b->l2.mac, &b->gateway.mac))
        return policy_refuse(e, "/gateway/mac", -1, "", "the gateway's MAC address is the port's own");
    if (b->limits.flows_max == 0 || b->limits.flows_min > b->limits.flows_max)
        return policy_refuse(e, "/limits/flows_min", -1, "", "flows_min is at most flows_max, which is at least 1");
    return true;
}

static bool check_addresses(const struct blueprint *b, struct policy_error *e)
{
    if (b->l2.n_addresses == 0)
        return policy_refuse(e, "/l2/addresses", -1, "", "a port needs an address");
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        const struct ip_addr *a = &b->l2.addresses[i];
        if (!policy_unicast(a) || ip_is_link_local(a))
            return policy_refuse(e, "/l2/addresses", i, "", "not an address a port can have");
        for (uint32_t j = 0; j < i; j++)
            if (ip_equal(a, &b->l2.addresses[j]))
                return policy_refuse(e, "/l2/addresses", i, "", "the address is listed twice");
        if ((b->gateway.has_v4 && ip_equal(a, &b->gateway.v4)) || (b->gateway.has_v6 && ip_equal(a, &b->gateway.v6)))
            return policy_refuse(e, "/l2/addresses", i, "", "the address is the gateway's");
    }
    return true;
}

static bool check_gateway(const struct blueprint *b, struct policy_error *e)
{
    const struct blueprint_gateway *g = &b->gateway;
    if (g->has_v4 && (!ip_is_v4(&g->v4) || !policy_unicast(&g->v4)))
        return policy_refuse(e, "/gateway/v4", -1, "", "not a unicast IPv4 address");
    if (g->has_v6 && (ip_is_v4(&g->v6) || !policy_unicast(&g->v6)))
        return policy_refuse(e, "/gateway/v6", -1, "", "not a unicast IPv6 address");
    for (uint32_t i = 0; i < g->dhcp4.n_dns; i++)
        if (!ip_is_v4(&g->dhcp4.dns[i]))
            return policy_refuse(e, "/gateway/dhcp4/dns", i, "", "DHCPv4 can only name IPv4 servers");
    for (uint32_t i = 0; i < g->dhcp6.n_dns; i++)
        if (ip_is_v4(&g->dhcp6.dns[i]))
            return policy_refuse(e, "/gateway/dhcp6/dns", i, "", "DHCPv6 can only name IPv6 servers");
    for (uint32_t i = 0; i < g->dhcp4.n_routes; i++)
        if (!ip_is_v4(&g->dhcp4.routes[i].prefix.addr))
            return policy_refuse(e, "/gateway/dhcp4/routes", i, "/prefix", "DHCPv4 can only carry IPv4 routes");
    return true;
}

static bool has_ports(uint16_t proto)
{
    return proto == PROTOCOL_ANY || proto == IPPROTO_TCP4 || proto == IPPROTO_UDP4 || proto == IPPROTO_SCTP4;
}

static bool check_rule(const char *array, uint32_t i, const struct blueprint_rule *r, struct policy_error *e)
{
    if (r->n_ports && !has_ports(r->proto))
        return policy_refuse(e, array, i, "/ports", "ports need protocol tcp, udp, sctp or any");
    if (r->n_icmp && r->proto != IPPROTO_ICMP4 && r->proto != IPPROTO_ICMP6)
        return policy_refuse(e, array, i, "/icmp", "ICMP types need protocol icmp or icmp6");
    for (uint32_t k = 0; k < r->n_ports; k++)
        if (r->ports[k].first > r->ports[k].last)
            return policy_refuse(e, array, i, "/ports", "the range ends before it begins");
    for (uint32_t k = 0; k < r->n_icmp; k++)
        if (r->icmp[k].type < 0 && r->icmp[k].code >= 0)
            return policy_refuse(e, array, i, "/icmp", "an ICMP code needs a type");
    for (uint32_t k = 0; k < r->remote.n_cidrs; k++) {
        bool v4 = ip_is_v4(&r->remote.cidrs[k].addr);
        if ((r->proto == IPPROTO_ICMP4 && !v4) || (r->proto == IPPROTO_ICMP6 && v4))
            return policy_refuse(e, array, i, "/remote/cidrs", "the address family does not go with the protocol");
    }
    return true;
}

static bool check_rules(const char *array, const struct blueprint_rule *rules, uint32_t n, struct policy_error *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (!check_rule(array, i, &rules[i], e))
            return false;
    return true;
}

static bool check_route(const struct blueprint *b, uint32_t i, struct policy_error *e)
{
    const struct blueprint_route *r = &b->routes[i];
    bool via_ip = r->target.kind == BLUEPRINT_TARGET_IP || r->target.kind == BLUEPRINT_TARGET_PORT;
    if (via_ip && ip_is_v4(&r->prefix.addr) != ip_is_v4(&r->target.ip))
        return policy_refuse(e, "/routes", i, "/target/ip", "the target's address family is not the prefix's");
    if (r->target.kind == BLUEPRINT_TARGET_PEERING && (r->target.vni == 0 || r->target.vni >= GENEVE_VNI_EDGE))
        return policy_refuse(e, "/routes", i, "/target/vni", "a tenant's VNI is 1 to 16777213");
    return true;
}

static bool same_prefix(const struct ip_prefix *a, const struct ip_prefix *b)
{
    return a->len == b->len && ip_equal(&a->addr, &b->addr);
}

// 100,000 routes must not cost n^2 here: equal prefixes of one origin are looked for in a small window only by
// the compiler's LPM order (first wins), and refused when adjacent.
static bool check_routes(const struct blueprint *b, struct policy_error *e)
{
    for (uint32_t i = 0; i < b->n_routes; i++) {
        if (!check_route(b, i, e))
            return false;
        if (i && same_prefix(&b->routes[i].prefix, &b->routes[i - 1].prefix) &&
            b->routes[i].custom == b->routes[i - 1].custom)
            return policy_refuse(e, "/routes", i, "/prefix", "the prefix is listed twice");
    }
    return true;
}

bool policy_check(const struct blueprint *b, struct policy_error *e)
{
    return check_identity(b, e) && check_addresses(b, e) && check_gateway(b, e) &&
           check_rules("/firewall/rules", b->firewall.rules, b->firewall.n_rules, e) &&
           check_rules("/posture/out", b->posture.out, b->posture.n_out, e) &&
           check_rules("/posture/in", b->posture.in, b->posture.n_in, e) && check_routes(b, e) &&
           policy_check_nat(b, e);
}
