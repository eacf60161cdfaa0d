// SPDX-License-Identifier: MPL-2.0
// ARP (RFC 826). The gateway answers for its own address, for the metadata address, and for every other host of
// the subnet, since a guest set up by hand with the subnet's mask asks for them and all its traffic comes
// here anyway. Probes (RFC 5227, sender 0.0.0.0) are answered for the first two only: another host's
// address is not the gateway's to defend.
#include "vpc/gateway/gateway_private.h"

#define ARP_LEN 28
enum { ARP_REQUEST = 1, ARP_REPLY = 2 };

struct arp {
    uint16_t operation;
    struct mac_addr sender_mac;
    struct ip_addr sender, target;
};

static bool arp_read(const struct packet *p, const struct parsed *pp, struct arp *arp)
{
    const uint8_t *h = p->data + pp->l3;
    if ((uint32_t)pp->l3 + ARP_LEN > p->head)
        return false;
    if (load_be16(h) != 1 || load_be16(h + 2) != ETHERTYPE_IPV4 || h[4] != 6 || h[5] != 4)
        return false;
    arp->operation = load_be16(h + 6);
    memcpy(arp->sender_mac.b, h + 8, 6);
    arp->sender = ip_from_v4(h + 14);
    arp->target = ip_from_v4(h + 24);
    return arp->operation == ARP_REQUEST || arp->operation == ARP_REPLY;
}

static void arp_write(struct packet *p, uint16_t operation, const struct mac_addr *sender_mac,
                      const struct ip_addr *sender, const struct mac_addr *target_mac, const struct ip_addr *target)
{
    uint8_t *h = p->data + ETHERNET_LEN;
    store_be16(h, 1);
    store_be16(h + 2, ETHERTYPE_IPV4);
    h[4] = 6;
    h[5] = 4;
    store_be16(h + 6, operation);
    memcpy(h + 8, sender_mac->b, 6);
    memcpy(h + 14, sender->b + 12, 4);
    memcpy(h + 18, target_mac->b, 6);
    memcpy(h + 24, target->b + 12, 4);
    packet_set_reply(p, ETHERNET_LEN + ARP_LEN);
}

static enum gateway_verdict arp_answer(struct ask *a, const struct arp *arp, const char *what)
{
    const struct mac_addr *mac = &a->g->b->gateway.mac;
    gateway_reply_ethernet(a->p, &a->pp->src_mac, mac, ETHERTYPE_ARP);
    arp_write(a->p, ARP_REPLY, mac, &arp->target, &arp->sender_mac, &arp->sender);
    return gateway_answered(a, what, &arp->target);
}

static bool sender_is_port(const struct gateway *g, const struct parsed *pp, const struct arp *arp)
{
    if (!mac_equal(&arp->sender_mac, &pp->src_mac) || !gateway_is_port_mac(g, &pp->src_mac))
        return false;
    if (ip_is_unspecified(&arp->sender))
        return true;
    return !gateway_is_own(g, &arp->sender) &&
           gateway_address_allowed(g, &arp->sender, &arp->sender_mac, BLUEPRINT_OUT);
}

enum gateway_verdict gateway_arp_out(struct ask *a)
{
    const struct gateway *g = a->g;
    const struct blueprint_gateway *gw = &g->b->gateway;
    struct arp arp;
    if (!arp_read(a->p, a->pp, &arp))
        return refused(a, DROP_ARP_INVALID);
    if (g->b->l2.anti_spoof && !sender_is_port(g, a->pp, &arp))
        return refused(a, DROP_SPOOF_ARP);
    if (ip_equal(&arp.sender, &arp.target)) // gratuitous, as request or as reply
        return refused(a, DROP_SPOOF_ARP);
    if (arp.operation == ARP_REPLY) // nobody asked
        return refused(a, DROP_ARP_INVALID);

    if (gw->has_v4 && ip_equal(&arp.target, &gw->v4))
        return arp_answer(a, &arp, "ARP for the gateway");
    if (ip_equal(&arp.target, &metadata_v4))
        return gw->metadata.enabled ? arp_answer(a, &arp, "ARP for the metadata address")
                                    : refused(a, DROP_METADATA_OFF);
    if (gateway_is_guests(g, &arp.target)) // the guest looks for a conflict: there is none
        return refused(a, DROP_BROADCAST);
    if (!gateway_is_neighbour(g, &arp.target))
        return refused(a, DROP_ARP_INVALID);
    if (ip_is_unspecified(&arp.sender))
        return refused(a, DROP_BROADCAST);
    return arp_answer(
        a, &arp, gw->guest_prefix_subnet ? "ARP for the neighbour" : "ARP, from a guest with the subnet's mask, for");
}

void gateway_arp_announcement(const struct gateway *g, struct packet *p)
{
    static const struct mac_addr nobody;
    const struct blueprint_gateway *gw = &g->b->gateway;
    if (!gw->has_v4) {
        packet_set_reply(p, 0);
        return;
    }
    gateway_reply_ethernet(p, &gateway_mac_broadcast, &gw->mac, ETHERTYPE_ARP);
    arp_write(p, ARP_REQUEST, &gw->mac, &gw->v4, &nobody, &gw->v4); // RFC 5227 section 3: the form all stacks accept
}
