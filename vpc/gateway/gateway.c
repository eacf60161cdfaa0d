// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/gateway_private.h"

const struct ip_addr metadata_v4 = {.b = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 169, 254}};
const struct ip_addr metadata_v6 = {.b = {0xfd, 0, 0x0e, 0xc2, [14] = 0x02, 0x54}};

// ---- Whose address is it?

void gateway_init(struct gateway *g, const struct blueprint *b)
{
    const uint8_t *mac = b->gateway.mac.b;
    *g = (struct gateway){.b = b};
    g->link_local = (struct ip_addr){
        .b = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}};
    for (uint32_t i = b->l2.n_addresses; i-- > 0;) {
        if (ip_is_v4(&b->l2.addresses[i]))
            g->guest4 = b->l2.addresses[i];
        else
            g->guest6 = b->l2.addresses[i];
    }
}

bool gateway_is_own(const struct gateway *g, const struct ip_addr *addr)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    return (gw->has_v4 && ip_equal(addr, &gw->v4)) || (gw->has_v6 && ip_equal(addr, &gw->v6)) ||
           ip_equal(addr, &g->link_local);
}

bool gateway_is_guests(const struct gateway *g, const struct ip_addr *addr)
{
    for (uint32_t i = 0; i < g->b->l2.n_addresses; i++)
        if (ip_equal(addr, &g->b->l2.addresses[i]))
            return true;
    return false;
}

static bool in_slaac_prefix(const struct gateway *g, const struct ip_addr *addr)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    if (!gw->ra.enabled || !gw->ra.slaac)
        return false;
    for (uint32_t i = 0; i < gw->n_subnets; i++)
        if (gw->subnets[i].len == 64 && !ip_is_v4(&gw->subnets[i].addr) && ip_in_prefix(addr, &gw->subnets[i]))
            return true;
    return false;
}

// IPv4's network and directed broadcast addresses are nobody's (none in a /31 or /32, RFC 3021).
static bool is_subnet_edge(const struct ip_prefix *subnet, const struct ip_addr *addr, bool broadcast)
{
    if (!ip_is_v4(&subnet->addr) || subnet->len < 96 || subnet->len > 126)
        return false;
    uint32_t host_mask = (uint32_t)((1ull << (128 - subnet->len)) - 1);
    return (load_be32(addr->b + 12) & host_mask) == (broadcast ? host_mask : 0);
}

bool gateway_is_neighbour(const struct gateway *g, const struct ip_addr *addr)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    for (uint32_t i = 0; i < gw->n_subnets; i++) {
        const struct ip_prefix *subnet = &gw->subnets[i];
        if (ip_in_prefix(addr, subnet) && ip_is_v4(addr) == ip_is_v4(&subnet->addr))
            return !is_subnet_edge(subnet, addr, false) && !is_subnet_edge(subnet, addr, true);
    }
    return false;
}

static bool is_directed_broadcast(const struct gateway *g, const struct ip_addr *addr)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    for (uint32_t i = 0; i < gw->n_subnets; i++)
        if (ip_in_prefix(addr, &gw->subnets[i]) && is_subnet_edge(&gw->subnets[i], addr, true))
            return true;
    return false;
}

bool gateway_is_port_mac(const struct gateway *g, const struct mac_addr *mac)
{
    const struct blueprint_l2 *l2 = &g->b->l2;
    if (mac_equal(mac, &l2->mac))
        return true;
    for (uint32_t i = 0; i < l2->n_allowed; i++)
        if (l2->allowed[i].has_mac && (l2->allowed[i].dir & BLUEPRINT_OUT) && mac_equal(mac, &l2->allowed[i].mac))
            return true;
    return false;
}

// Inbound, the MAC does not matter: the frame is already at the port.
bool gateway_address_allowed(const struct gateway *g, const struct ip_addr *addr, const struct mac_addr *mac,
                             enum blueprint_direction dir)
{
    const struct blueprint_l2 *l2 = &g->b->l2;
    bool any_mac = !mac || !(dir & BLUEPRINT_OUT);
    bool own_mac = any_mac || mac_equal(mac, &l2->mac);
    if (own_mac && (gateway_is_guests(g, addr) || in_slaac_prefix(g, addr)))
        return true;
    for (uint32_t i = 0; own_mac && i < g->b->nat.n_attached; i++)
        if (ip_in_prefix(addr, &g->b->nat.attached[i]))
            return true;
    for (uint32_t i = 0; i < l2->n_allowed; i++) {
        const struct blueprint_allowed *allowed = &l2->allowed[i];
        bool mac_fits = any_mac || (allowed->has_mac ? mac_equal(mac, &allowed->mac) : own_mac);
        bool same_family = ip_is_v4(addr) == ip_is_v4(&allowed->cidr.addr);
        if ((allowed->dir & dir) == dir && mac_fits && same_family && ip_in_prefix(addr, &allowed->cidr))
            return true;
    }
    return false;
}

// ---- From the guest

static bool is_nd(const struct parsed *pp)
{
    return pp->ip_version == 6 && pp->protocol == IPPROTO_ICMP6 && !(pp->flags & PARSE_FRAG_LATER) &&
           pp->icmp_type >= ND_RS && pp->icmp_type <= ND_REDIRECT;
}

static bool is_mld(const struct parsed *pp)
{
    if (pp->ip_version != 6 || pp->protocol != IPPROTO_ICMP6 || (pp->flags & PARSE_FRAG_LATER))
        return false;
    return (pp->icmp_type >= 130 && pp->icmp_type <= 132) || pp->icmp_type == 143; // RFC 2710, RFC 3810
}

static bool is_igmp(const struct parsed *pp)
{
    return pp->ip_version == 4 && pp->protocol == IPPROTO_IGMP4;
}

static bool is_udp_to(const struct parsed *pp, uint16_t port)
{
    return pp->protocol == IPPROTO_UDP4 && (pp->flags & PARSE_HAS_PORTS) && load_be16(&pp->dport) == port;
}

// Only servers send to a DHCP client's port: below 1024, no other program of a guest gets it.
static bool is_dhcp_from_server(const struct parsed *pp)
{
    return is_udp_to(pp, pp->ip_version == 4 ? DHCP4_CLIENT_PORT : DHCP6_CLIENT_PORT);
}

static bool is_dhcp4(const struct gateway *g, const struct parsed *pp)
{
    return pp->ip_version == 4 && is_udp_to(pp, DHCP4_SERVER_PORT) &&
           (ip_is_v4_broadcast(&pp->dst) || gateway_is_own(g, &pp->dst));
}

static bool is_dhcp6(const struct gateway *g, const struct parsed *pp)
{
    static const struct ip_addr agents_and_servers = {.b = {0xff, 2, [13] = 1, 0, 2}}; // ff02::1:2
    return pp->ip_version == 6 && is_udp_to(pp, DHCP6_SERVER_PORT) &&
           (ip_equal(&pp->dst, &agents_and_servers) || gateway_is_own(g, &pp->dst));
}

// Anti-spoof by source address. Unspecified sources are judged later: DHCP and DAD have them by right.
static enum drop source_refused(const struct gateway *g, const struct parsed *pp)
{
    if (!g->b->l2.anti_spoof || ip_is_unspecified(&pp->src))
        return DROP_NONE;
    if (gateway_is_own(g, &pp->src) || gateway_is_metadata(&pp->src)) // even under an allowed 0.0.0.0/0
        return DROP_SPOOF_IP;
    if (ip_is_fe80_64(&pp->src)) // RFC 7217: any interface identifier
        return mac_equal(&pp->src_mac, &g->b->l2.mac) ? DROP_NONE : DROP_SPOOF_IP;
    return gateway_address_allowed(g, &pp->src, &pp->src_mac, BLUEPRINT_OUT) ? DROP_NONE : DROP_SPOOF_IP;
}

// Group destinations, by IP or by Ethernet: DROP_NONE for unicast.
static enum drop group_refused(const struct gateway *g, const struct parsed *pp)
{
    if (is_igmp(pp))
        return DROP_IGMP;
    if (is_mld(pp))
        return DROP_MLD;
    if (ip_is_multicast(&pp->dst))
        return DROP_MULTICAST;
    if (ip_is_v4_broadcast(&pp->dst) || is_directed_broadcast(g, &pp->dst) ||
        mac_equal(&pp->dst_mac, &gateway_mac_broadcast))
        return DROP_BROADCAST;
    return mac_is_multicast(&pp->dst_mac) ? DROP_MULTICAST : DROP_NONE;
}

static enum gateway_verdict metadata_out(struct ask *a)
{
    const struct parsed *pp = a->pp;
    if (!a->g->b->gateway.metadata.enabled)
        return refused(a, DROP_METADATA_OFF);
    if (gateway_icmp_is_echo(pp))
        return gateway_icmp_echo_out(a);
    if (pp->flags & (PARSE_FRAG_FIRST | PARSE_FRAG_LATER))
        return refused(a, DROP_FRAGMENT);
    if (ip_is_link_local(&pp->src)) // the service's connection needs a routable client
        return refused(a, DROP_LINK_LOCAL);
    if (pp->protocol != IPPROTO_TCP4 || load_be16(&pp->dport) != 80)
        return refused(a, DROP_METADATA_PORT);
    gateway_note_text(a->note, "to the metadata service");
    return GATEWAY_METADATA;
}

static bool is_nowhere(const struct ip_addr *dst) // 0.0.0.0/8, 127.0.0.0/8, ::, ::1
{
    static const struct ip_addr loopback = {.b = {[15] = 1}};
    if (ip_is_v4(dst))
        return dst->b[12] == 0 || dst->b[12] == 127;
    return ip_is_unspecified(dst) || ip_equal(dst, &loopback);
}

static enum gateway_verdict ask_ip(struct ask *a)
{
    const struct gateway *g = a->g;
    const struct parsed *pp = a->pp;
    bool anti_spoof = g->b->l2.anti_spoof;

    if (anti_spoof && !gateway_is_port_mac(g, &pp->src_mac))
        return refused(a, DROP_SPOOF_MAC);
    if (pp->flags & PARSE_SOURCE_ROUTE)
        return refused(a, DROP_SOURCE_ROUTE);
    if (is_nd(pp))
        return gateway_nd_out(a);
    enum drop why = source_refused(g, pp);
    if (why)
        return refused(a, why);
    if (anti_spoof && is_dhcp_from_server(pp))
        return refused(a, DROP_DHCP_SERVER);
    if (is_dhcp4(g, pp))
        return gateway_dhcp4_out(a);
    if (is_dhcp6(g, pp))
        return gateway_dhcp6_out(a);

    why = group_refused(g, pp);
    if (why)
        return refused(a, why);
    if (ip_is_unspecified(&pp->src) || is_nowhere(&pp->dst))
        return refused(a, DROP_BAD_ADDRESS);
    if (gateway_is_own(g, &pp->dst))
        return gateway_icmp_is_echo(pp) ? gateway_icmp_echo_out(a) : refused(a, DROP_GATEWAY_SERVICE);
    if (gateway_is_metadata(&pp->dst))
        return metadata_out(a);
    if (ip_is_link_local(&pp->src) || ip_is_link_local(&pp->dst))
        return refused(a, DROP_LINK_LOCAL);
    return GATEWAY_PASS;
}

enum gateway_verdict gateway_out(const struct gateway *g, struct packet *p, const struct parsed *pp, enum drop *reason,
                                 struct gateway_note *note)
{
    struct ask a = {.g = g, .p = p, .pp = pp, .reason = DROP_NONE, .note = note};
    if (note)
        note->text[0] = 0;
    enum gateway_verdict verdict = pp->ethertype == ETHERTYPE_ARP ? gateway_arp_out(&a) : ask_ip(&a);
    *reason = a.reason;
    return verdict;
}

// ---- To the guest

static enum drop refused_in(const struct gateway *g, const struct parsed *pp)
{
    if (pp->ethertype == ETHERTYPE_ARP)
        return DROP_ARP_OVERLAY;
    if (pp->flags & PARSE_SOURCE_ROUTE)
        return DROP_SOURCE_ROUTE;
    if (is_nd(pp))
        return DROP_ND_OVERLAY;
    if (is_igmp(pp))
        return DROP_IGMP;
    if (is_mld(pp))
        return DROP_MLD;
    if (ip_is_multicast(&pp->dst))
        return DROP_MULTICAST;
    if (ip_is_v4_broadcast(&pp->dst) || is_directed_broadcast(g, &pp->dst))
        return DROP_BROADCAST;
    if (ip_is_unspecified(&pp->src))
        return DROP_BAD_ADDRESS;
    if (ip_is_link_local(&pp->src) || ip_is_link_local(&pp->dst))
        return DROP_LINK_LOCAL;
    if (gateway_is_guests(g, &pp->src))
        return DROP_LOOP;
    if (gateway_is_metadata(&pp->src)) // answers of the service never come this way
        return DROP_SPOOF_IP;
    return gateway_address_allowed(g, &pp->dst, &pp->dst_mac, BLUEPRINT_IN) ? DROP_NONE : DROP_WRONG_DST;
}

enum gateway_verdict gateway_in(const struct gateway *g, const struct packet *p, const struct parsed *pp,
                                enum drop *reason)
{
    *reason = refused_in(g, pp);
    return *reason ? GATEWAY_DROP : GATEWAY_PASS;
}

void gateway_make_announcement(const struct gateway *g, struct packet *p, bool v6)
{
    if (v6)
        gateway_nd_announcement(g, p);
    else
        gateway_arp_announcement(g, p);
}
