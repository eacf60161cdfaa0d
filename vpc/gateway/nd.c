// SPDX-License-Identifier: MPL-2.0
// Neighbour discovery (RFC 4861) with the guest: solicitations are answered, everything else ends here. The rules
// are ARP's: the gateway answers for its own addresses, for the metadata address, and as a proxy for the other
// hosts of the subnet; never for an address of the guest. Duplicate address detection (source `::`) is answered
// for the gateway's and the metadata address alone; for others it is dropped as multicast without an answer,
// which tells the guest that the address is free.
#include "vpc/gateway/gateway_private.h"

enum { OPT_SOURCE_LL = 1, OPT_TARGET_LL = 2, OPT_PREFIX = 3, OPT_MTU = 5, OPT_RDNSS = 25 };
#define ND_HOP_LIMIT 255
#define RA_LIFETIME_S 1800
#define PREFIX_VALID_S 86400
#define PREFIX_PREFERRED_S 14400
#define RDNSS_MAX 8

struct nd {
    struct ip_addr target; // NS, NA
    bool has_ll;           // a source (RS, NS) or target (NA) link-layer option
    struct mac_addr ll;
};

static bool read_options(const uint8_t *at, const uint8_t *end, uint8_t wanted, struct nd *nd)
{
    while (at < end) {
        if (end - at < 2 || at[1] == 0 || at[1] * 8 > end - at)
            return false;
        if (at[0] == wanted && at[1] == 1) {
            nd->has_ll = true;
            memcpy(nd->ll.b, at + 2, 6);
        }
        at += at[1] * 8;
    }
    return true;
}

// The validity rules of RFC 4861 sections 6.1.1, 7.1.1, 7.1.2; fragments: RFC 6980.
static bool nd_read(const struct packet *p, const struct parsed *pp, struct nd *nd)
{
    uint32_t len = gateway_l4_len(pp), fixed = pp->icmp_type == ND_RS ? 8 : 24;
    if (pp->ttl != ND_HOP_LIMIT || pp->icmp_code != 0 || (pp->flags & (PARSE_FRAG_FIRST | PARSE_FRAG_LATER)))
        return false;
    if (len < fixed || pp->l4 + len > p->head || !gateway_l4_checksum_right(p, pp, len))
        return false;
    const uint8_t *icmp = p->data + pp->l4;
    *nd = (struct nd){0};
    if (fixed == 24)
        nd->target = ip_from_v6(icmp + 8);
    if (ip_is_multicast(&nd->target) || ip_is_v4(&nd->target))
        return false;
    uint8_t wanted = pp->icmp_type == ND_NA ? OPT_TARGET_LL : OPT_SOURCE_LL;
    if (!read_options(icmp + fixed, icmp + len, wanted, nd))
        return false;
    if (!ip_is_unspecified(&pp->src))
        return true;
    bool to_group = pp->icmp_type == ND_RS || ip_is_multicast(&pp->dst);
    return !nd->has_ll && to_group && pp->icmp_type != ND_NA;
}

// May the guest speak for this address, with this MAC?
static bool is_ports(const struct gateway *g, const struct parsed *pp, const struct ip_addr *addr)
{
    if (gateway_is_own(g, addr) || gateway_is_metadata(addr))
        return false;
    if (ip_is_fe80_64(addr))
        return mac_equal(&pp->src_mac, &g->b->l2.mac);
    return gateway_address_allowed(g, addr, &pp->src_mac, BLUEPRINT_OUT);
}

static bool sender_is_port(const struct gateway *g, const struct parsed *pp, const struct nd *nd)
{
    if (nd->has_ll && !mac_equal(&nd->ll, &pp->src_mac))
        return false;
    if (!ip_is_unspecified(&pp->src))
        return is_ports(g, pp, &pp->src);
    // DAD: looking for a conflict with the gateway is as legal as with an own address.
    return pp->icmp_type == ND_RS || is_ports(g, pp, &nd->target) || gateway_is_own(g, &nd->target) ||
           gateway_is_metadata(&nd->target);
}

static void write_link_layer(uint8_t *option, uint8_t type, const struct mac_addr *mac)
{
    option[0] = type;
    option[1] = 1;
    memcpy(option + 2, mac->b, 6);
}

enum { NA_ROUTER = 0x80, NA_SOLICITED = 0x40, NA_OVERRIDE = 0x20 };

// Comes from the target address itself where that is ours: some tools wait for nothing else.
static void make_na(const struct gateway *g, struct packet *p, const struct mac_addr *to_mac, const struct ip_addr *to,
                    const struct ip_addr *target, uint8_t flags)
{
    bool ours = gateway_is_own(g, target) || gateway_is_metadata(target);
    uint8_t *icmp = reply_l4(p, true);
    memset(icmp, 0, 24);
    icmp[0] = ND_NA;
    icmp[4] = flags;
    memcpy(icmp + 8, target->b, 16);
    write_link_layer(icmp + 24, OPT_TARGET_LL, &g->b->gateway.mac);
    struct reply r = {g->b->gateway.mac, *to_mac, ours ? *target : g->link_local, *to, IPPROTO_ICMP6, ND_HOP_LIMIT};
    gateway_reply_finish(p, &r, 32);
}

static enum gateway_verdict answer_ns(struct ask *a, const struct ip_addr target, uint8_t flags, const char *what)
{
    if (ip_is_unspecified(&a->pp->src))
        make_na(a->g, a->p, &gateway_mac_all_nodes, &gateway_ip6_all_nodes, &target, flags);
    else
        make_na(a->g, a->p, &a->pp->src_mac, &a->pp->src, &target, flags | NA_SOLICITED);
    return gateway_answered(a, what, &target);
}

static enum gateway_verdict ns_out(struct ask *a, const struct nd *nd)
{
    const struct gateway *g = a->g;
    bool probe = ip_is_unspecified(&a->pp->src);
    if (gateway_is_own(g, &nd->target))
        return answer_ns(a, nd->target, NA_ROUTER | NA_OVERRIDE, "NS for the gateway");
    if (ip_equal(&nd->target, &metadata_v6))
        return g->b->gateway.metadata.enabled
                   ? answer_ns(a, nd->target, NA_ROUTER | NA_OVERRIDE, "NS for the metadata address")
                   : refused(a, DROP_METADATA_OFF);
    if (probe || gateway_is_guests(g, &nd->target) || ip_equal(&nd->target, &a->pp->src))
        return refused(a, DROP_MULTICAST);
    if (ip_is_link_local(&nd->target))
        return refused(a, DROP_LINK_LOCAL);
    if (!gateway_is_neighbour(g, &nd->target))
        return refused(a, DROP_ND_INVALID);
    // A proxy does not override (RFC 4861 section 7.2.8).
    return answer_ns(a, nd->target, NA_ROUTER, "NS, from a guest with the subnet on link, for");
}

static enum gateway_verdict rs_out(struct ask *a)
{
    if (!a->g->b->gateway.ra.enabled)
        return refused(a, DROP_MULTICAST);
    if (ip_is_unspecified(&a->pp->src))
        gateway_make_ra(a->g, a->p, &gateway_mac_all_nodes, &gateway_ip6_all_nodes);
    else
        gateway_make_ra(a->g, a->p, &a->pp->src_mac, &a->pp->src);
    return gateway_answered(a, "RS with a router advertisement", NULL);
}

enum gateway_verdict gateway_nd_out(struct ask *a)
{
    const struct parsed *pp = a->pp;
    struct nd nd;
    if (pp->icmp_type == ND_RA || pp->icmp_type == ND_REDIRECT)
        return refused(a, DROP_ND_FROM_GUEST);
    if (!nd_read(a->p, pp, &nd))
        return refused(a, DROP_ND_INVALID);
    if (a->g->b->l2.anti_spoof && !sender_is_port(a->g, pp, &nd))
        return refused(a, DROP_SPOOF_ND);
    if (pp->icmp_type == ND_NA) // absorbed: the gateway knows where its guest is
        return refused(a, is_ports(a->g, pp, &nd.target) ? DROP_ND_FROM_GUEST : DROP_SPOOF_ND);
    return pp->icmp_type == ND_RS ? rs_out(a) : ns_out(a, &nd);
}

// ---- Router advertisements (RFC 4861 section 4.2)

// Hosts make addresses out of the prefix (A) but do not take each other to be on link (no L): all goes by the gateway.
static void write_prefix(struct writer *w, const struct blueprint_gateway *gw)
{
    for (uint32_t i = 0; i < gw->n_subnets; i++) {
        const struct ip_prefix *subnet = &gw->subnets[i];
        uint8_t *option;
        if (subnet->len != 64 || ip_is_v4(&subnet->addr) || !(option = writer_take(w, 32)))
            continue;
        option[0] = OPT_PREFIX;
        option[1] = 4;
        option[2] = 64;
        option[3] = 0x40;
        store_be32(option + 4, PREFIX_VALID_S);
        store_be32(option + 8, PREFIX_PREFERRED_S);
        memcpy(option + 16, subnet->addr.b, 16);
        return;
    }
}

static void write_rdnss(struct writer *w, const struct blueprint_dhcp6 *dhcp6) // RFC 8106 section 5.1
{
    uint8_t *option = w->at;
    if (!writer_take(w, 8))
        return;
    uint8_t n = 0;
    for (uint32_t i = 0; i < dhcp6->n_dns && n < RDNSS_MAX; i++) {
        uint8_t *server;
        if (ip_is_v4(&dhcp6->dns[i]) || !(server = writer_take(w, 16)))
            continue;
        memcpy(server, dhcp6->dns[i].b, 16);
        n++;
    }
    if (n == 0) {
        w->at = option;
        return;
    }
    option[0] = OPT_RDNSS;
    option[1] = (uint8_t)(1 + 2 * n);
    store_be32(option + 4, RA_LIFETIME_S);
}

void gateway_make_ra(const struct gateway *g, struct packet *p, const struct mac_addr *dst_mac,
                     const struct ip_addr *dst)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    uint8_t *icmp = reply_l4(p, true);
    struct writer w = {icmp + 32, p->data + MIN(p->room, PACKET_MIN_ROOM)};
    memset(icmp, 0, 32);
    icmp[0] = ND_RA;
    icmp[4] = 64;                                  // hop limit
    icmp[5] = gw->dhcp6.enabled ? 0x80 | 0x40 : 0; // M: addresses by DHCPv6; O: the rest, too
    store_be16(icmp + 6, RA_LIFETIME_S);
    write_link_layer(icmp + 16, OPT_SOURCE_LL, &gw->mac);
    icmp[24] = OPT_MTU;
    icmp[25] = 1;
    store_be32(icmp + 28, g->b->vpc.mtu);
    if (gw->ra.slaac)
        write_prefix(&w, gw);
    write_rdnss(&w, &gw->dhcp6);
    struct reply r = {gw->mac, *dst_mac, g->link_local, *dst, IPPROTO_ICMP6, ND_HOP_LIMIT};
    gateway_reply_finish(p, &r, (uint32_t)(w.at - icmp));
}

void gateway_nd_announcement(const struct gateway *g, struct packet *p)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    make_na(g, p, &gateway_mac_all_nodes, &gateway_ip6_all_nodes, gw->has_v6 ? &gw->v6 : &g->link_local,
            NA_ROUTER | NA_OVERRIDE);
}
