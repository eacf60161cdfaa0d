// SPDX-License-Identifier: MPL-2.0
// An edge's external links: who has which MAC out there, and answering for the external addresses in here.
// No host stack is involved, so ARP and neighbour discovery of the link are spoken here.
#include "core/internal.h"

#include "engine/checksum.h"

#define ASK_AGAIN_NS 1000000000ull
#define ASK_TRIES 3
#define KNOWN_NS (60ull * 1000000000)

uint32_t external_link_for(const struct node *n, const struct ip_addr *external)
{
    for (uint32_t i = 0; i < n->config.n_external; i++) {
        const struct node_external_link *l = &n->links[i].config;
        if ((l->prefix4.len && ip_in_prefix(external, &l->prefix4)) ||
            (l->prefix6.len && ip_in_prefix(external, &l->prefix6)))
            return i;
    }
    return 0;
}

static struct ip_addr next_hop(const struct node_external_link *l, const struct ip_addr *dst)
{
    const struct ip_prefix *on_link = ip_is_v4(dst) ? &l->prefix4 : &l->prefix6;
    const struct ip_addr *gateway = ip_is_v4(dst) ? &l->gateway4 : &l->gateway6;
    bool direct = (on_link->len && ip_in_prefix(dst, on_link)) || ip_is_unspecified(gateway);
    return direct ? *dst : *gateway;
}

static void ethernet(struct packet *p, const void *dst, const struct mac_addr *src, uint16_t type)
{
    memcpy(p->data, dst, 6);
    memcpy(p->data + 6, src->b, 6);
    store_be16(p->data + 12, type);
}

// Who has `target`? Asked in the name of the external address that wants to send.
static uint32_t write_arp(struct packet *p, const struct mac_addr *mac, const struct ip_addr *sender,
                          const struct ip_addr *target)
{
    static const struct mac_addr everyone = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    static const uint8_t head[8] = {0, 1, 8, 0, 6, 4, 0, 1}; // RFC 826: Ethernet, IPv4, request
    ethernet(p, &everyone, mac, ETHERTYPE_ARP);
    uint8_t *arp = p->data + 14;
    memcpy(arp, head, 8);
    memcpy(arp + 8, mac->b, 6);
    memcpy(arp + 14, sender->b + 12, 4);
    memset(arp + 18, 0, 6);
    memcpy(arp + 24, target->b + 12, 4);
    return 14 + 28;
}

// A neighbour solicitation or advertisement with its link-layer option (RFC 4861 sections 4.3, 4.4, 4.6.1).
static uint32_t write_nd(struct packet *p, const struct mac_addr *mac, uint8_t type, const struct ip_addr *src,
                         const struct ip_addr *dst, const struct ip_addr *target)
{
    uint8_t *ip = p->data + 14, *icmp = ip + 40;
    memset(ip, 0, 40 + 32);
    ip[0] = 0x60;
    store_be16(ip + 4, 32);
    ip[6] = IPPROTO_ICMP6;
    ip[7] = 255;
    memcpy(ip + 8, src->b, 16);
    memcpy(ip + 24, dst->b, 16);
    icmp[0] = type;
    icmp[4] = type == 136 ? 0x60 : 0; // solicited, override
    memcpy(icmp + 8, target->b, 16);
    icmp[24] = type == 136 ? 2 : 1;
    icmp[25] = 1;
    memcpy(icmp + 26, mac->b, 6);
    checksum_write_l4(icmp, 32, src, dst, IPPROTO_ICMP6);
    return 14 + 40 + 32;
}

static uint32_t write_solicitation(struct packet *p, const struct mac_addr *mac, const struct ip_addr *sender,
                                   const struct ip_addr *target)
{
    struct ip_addr group = {.b = {0xff, 0x02, [11] = 1, [12] = 0xff}};
    struct mac_addr group_mac = {{0x33, 0x33, 0xff}};
    memcpy(group.b + 13, target->b + 13, 3);
    memcpy(group_mac.b + 3, target->b + 13, 3);
    ethernet(p, &group_mac, mac, ETHERTYPE_IPV6);
    return write_nd(p, mac, 135, sender, &group, target);
}

static void transmit(struct context *c, uint32_t link, struct packet *p)
{
    c->n->platform.external_transmit(c->n->platform.ctx, c->worker, link, &p, 1);
}

static void ask(struct context *c, uint32_t link, const struct ip_addr *sender, const struct ip_addr *target)
{
    struct packet *p = c->n->platform.packet_alloc(c->n->platform.ctx, c->worker, 128);
    if (!p)
        return;
    const struct mac_addr *mac = &c->n->links[link].config.mac;
    packet_set_reply(p,
                     ip_is_v4(target) ? write_arp(p, mac, sender, target) : write_solicitation(p, mac, sender, target));
    transmit(c, link, p);
}

// [external lock] Each store is a release, so that none comes before the odd version.
static void write_neighbour(struct neighbour *e, const struct ip_addr *ip, enum neighbour_state state, uint64_t mac,
                            uint64_t deadline)
{
    uint64_t half[2];
    memcpy(half, ip, sizeof(half));
    store_relaxed(&e->version, e->version + 1);
    store_release(&e->ip.d[0], half[0]);
    store_release(&e->ip.d[1], half[1]);
    store_release(&e->state, state);
    store_release(&e->mac, mac);
    store_release(&e->deadline, deadline);
    store_release(&e->version, e->version + 1);
}

#define NEIGHBOUR_RUN 8

// What hits use: no lock. False: not known, or due for another question.
static bool neighbour_known(const struct external_link *l, const struct ip_addr *ip, uint64_t now, uint64_t *mac)
{
    uint32_t at = slot_map_hash(7, ip->b, 16);
    for (unsigned i = 0; i < NEIGHBOUR_RUN; i++) {
        const struct neighbour *e = &l->neighbours[(at + i) % NEIGHBOURS];
        uint32_t version = load_acquire(&e->version);
        bool same = load_acquire(&e->ip.d[0]) == ip->d[0] && load_acquire(&e->ip.d[1]) == ip->d[1];
        bool known = load_acquire(&e->state) == NEIGHBOUR_KNOWN && now < load_acquire(&e->deadline);
        *mac = load_acquire(&e->mac);
        if (same && known && !(version & 1) && load_relaxed(&e->version) == version)
            return true;
    }
    return false;
}

// [external lock] Open addressing over a short run: a full run gives its oldest place away.
static struct neighbour *find_neighbour(struct external_link *l, const struct ip_addr *ip, bool make)
{
    uint32_t at = slot_map_hash(7, ip->b, 16);
    struct neighbour *oldest = NULL;
    for (unsigned i = 0; i < NEIGHBOUR_RUN; i++) {
        struct neighbour *e = &l->neighbours[(at + i) % NEIGHBOURS];
        if (e->state && ip_equal(&e->ip, ip))
            return e;
        if (!oldest || (oldest->state && (!e->state || e->deadline < oldest->deadline)))
            oldest = e;
    }
    if (!make || oldest->waiting)
        return NULL;
    write_neighbour(oldest, ip, NEIGHBOUR_FREE, 0, 0);
    oldest->tries = 0;
    return oldest;
}

// [external lock] The MAC if it is known; else the packet waits, and *question says whether to ask now.
static enum drop resolve(struct context *c, struct external_link *l, const struct ip_addr *hop,
                         const struct ip_addr *sender, struct packet *p, uint64_t *mac, bool *question)
{
    struct neighbour *e = find_neighbour(l, hop, true);
    if (!e)
        return DROP_NEXT_HOP_PENDING;
    if (e->state == NEIGHBOUR_KNOWN) {
        *mac = e->mac;
        *question = c->now >= e->deadline; // refreshed in use
        if (*question)
            write_neighbour(e, hop, NEIGHBOUR_KNOWN, e->mac, c->now + ASK_AGAIN_NS);
        return DROP_NONE;
    }
    if (e->waiting == ARRAY_LEN(e->queue))
        return DROP_NEXT_HOP_PENDING;
    *question = e->state == NEIGHBOUR_FREE;
    if (*question) {
        e->sender = *sender;
        write_neighbour(e, hop, NEIGHBOUR_ASKING, 0, c->now + ASK_AGAIN_NS);
    }
    e->queue[e->waiting++] = p;
    return DROP_NONE;
}

bool external_send(struct context *c, struct port *port, uint32_t link, struct packet *p, const struct ip_addr *src,
                   const struct ip_addr *dst, enum drop *reason)
{
    struct node *n = c->n;
    if (link >= n->config.n_external) {
        *reason = DROP_NO_EDGE;
        return false;
    }
    struct external_link *l = &n->links[link];
    struct ip_addr hop = next_hop(&l->config, dst);
    uint64_t mac = 0;
    bool question = false;
    uint32_t bytes = p->len;
    *reason = DROP_NONE;
    if (!neighbour_known(l, &hop, c->now, &mac)) {
        mac = 0;
        n->env->lock(n->env->ctx, LOCK_EXTERNAL);
        *reason = resolve(c, l, &hop, src, p, &mac, &question);
        n->env->unlock(n->env->ctx, LOCK_EXTERNAL);
    }
    if (question)
        ask(c, link, src, &hop);
    if (*reason != DROP_NONE)
        return false;
    if (mac == 0) { // waits; counted as sent, and as a drop of the node if no answer comes
        count_sent(c, port, FLOW_OUT, bytes);
        return true;
    }
    ethernet(p, &mac, &l->config.mac, ip_is_v4(dst) ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    send_to(c, port, FLOW_OUT, XP_TO_EXTERNAL, link, p);
    return true;
}

static void learn(struct context *c, uint32_t link, const struct ip_addr *ip, const struct mac_addr *mac)
{
    struct node *n = c->n;
    struct external_link *l = &n->links[link];
    struct packet *queue[16];
    unsigned waiting = 0;
    if (mac_is_multicast(mac) || mac_word(mac) == 0)
        return;
    n->env->lock(n->env->ctx, LOCK_EXTERNAL);
    struct neighbour *e = find_neighbour(l, ip, false);
    if (e) { // only who was asked for
        write_neighbour(e, ip, NEIGHBOUR_KNOWN, mac_word(mac), c->now + KNOWN_NS);
        e->tries = 0;
        waiting = e->waiting;
        memcpy(queue, e->queue, sizeof(queue));
        e->waiting = 0;
    }
    n->env->unlock(n->env->ctx, LOCK_EXTERNAL);
    for (unsigned i = 0; i < waiting; i++) {
        ethernet(queue[i], mac->b, &l->config.mac, ip_is_v4(ip) ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
        transmit(c, link, queue[i]);
    }
}

static void answered(struct context *c, uint32_t link, struct packet *p)
{
    counter_add(&worker_of(c)->counters.external_answered, 1);
    transmit(c, link, p);
}

static void consume(struct context *c, struct packet *p)
{
    counter_add(&worker_of(c)->counters.external_answered, 1);
    packet_free(c, p);
}

static void control_arp(struct context *c, uint32_t link, struct packet *p)
{
    const struct mac_addr *ours = &c->n->links[link].config.mac;
    uint8_t *arp = p->data + 14;
    if (p->head < 14 + 28 || load_be32(arp) != 0x00010800 || load_be16(arp + 4) != 0x0604) {
        consume(c, p);
        return;
    }
    struct ip_addr sender = ip_from_v4(arp + 14), target = ip_from_v4(arp + 24);
    struct mac_addr mac;
    memcpy(mac.b, arp + 8, 6);
    learn(c, link, &sender, &mac);
    if (load_be16(arp + 6) != 1 || !external_owned(&c->n->tables, &target)) {
        consume(c, p);
        return;
    }
    ethernet(p, &mac, ours, ETHERTYPE_ARP);
    store_be16(arp + 6, 2);
    memcpy(arp + 18, mac.b, 6);
    memcpy(arp + 24, sender.b + 12, 4);
    memcpy(arp + 8, ours->b, 6);
    memcpy(arp + 14, target.b + 12, 4);
    packet_set_reply(p, 14 + 28);
    answered(c, link, p);
}

// The link-layer address option of ND message, if there is one.
static bool nd_option(const uint8_t *icmp, uint32_t len, uint8_t type, struct mac_addr *mac)
{
    for (uint32_t at = 24; at + 8 <= len && icmp[at + 1]; at += 8u * icmp[at + 1]) {
        if (icmp[at] == type && icmp[at + 1] == 1) {
            memcpy(mac->b, icmp + at + 2, 6);
            return true;
        }
    }
    return false;
}

static void control_nd(struct context *c, uint32_t link, struct packet *p, const struct parsed *pp)
{
    const struct mac_addr *ours = &c->n->links[link].config.mac;
    const uint8_t *icmp = p->data + pp->l4;
    uint32_t len = MIN(pp->ip_len - (uint32_t)(pp->l4 - pp->l3), p->head - pp->l4);
    if (pp->ttl != 255 || len < 24) {
        consume(c, p);
        return;
    }
    struct ip_addr target = ip_from_v6(icmp + 8), asker = pp->src;
    struct mac_addr mac;
    if (pp->icmp_type == 136) {
        if (nd_option(icmp, len, 2, &mac))
            learn(c, link, &target, &mac);
        consume(c, p);
        return;
    }
    bool known = nd_option(icmp, len, 1, &mac);
    if (!external_owned(&c->n->tables, &target) || ip_is_unspecified(&asker)) {
        consume(c, p);
        return;
    }
    if (!known)
        mac = pp->src_mac;
    learn(c, link, &asker, &mac);
    ethernet(p, &mac, ours, ETHERTYPE_IPV6);
    packet_set_reply(p, write_nd(p, ours, 136, &target, &asker, &target));
    answered(c, link, p);
}

bool external_control(struct context *c, uint32_t link, struct packet *p, const struct parsed *pp)
{
    if (pp->ip_version == 0) {
        control_arp(c, link, p);
        return true;
    }
    bool nd = pp->protocol == IPPROTO_ICMP6 && pp->l4 && !(pp->flags & PARSE_FRAGMENT) &&
              (pp->icmp_type == 135 || pp->icmp_type == 136);
    if (nd)
        control_nd(c, link, p, pp);
    return nd;
}

// Asks again where no answer came; gives up after a while, and what waited is dropped.
static void tick_link(struct context *c, uint32_t link)
{
    struct node *n = c->n;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        struct neighbour *e = &n->links[link].neighbours[i];
        n->env->lock(n->env->ctx, LOCK_EXTERNAL);
        bool due = e->state == NEIGHBOUR_ASKING && c->now >= e->deadline;
        bool failed = due && ++e->tries >= ASK_TRIES;
        struct neighbour had = *e;
        if (failed) {
            write_neighbour(e, &(struct ip_addr){0}, NEIGHBOUR_FREE, 0, 0);
            e->tries = e->waiting = 0;
        } else if (due) {
            write_neighbour(e, &e->ip, NEIGHBOUR_ASKING, 0, c->now + ASK_AGAIN_NS);
        }
        n->env->unlock(n->env->ctx, LOCK_EXTERNAL);
        if (due && !failed)
            ask(c, link, &had.sender, &had.ip);
        for (unsigned k = 0; failed && k < had.waiting; k++) {
            counter_add(&worker_of(c)->counters.external_drops[DROP_NEXT_HOP_FAILED], 1);
            packet_free(c, had.queue[k]);
        }
    }
}

void external_tick(struct context *c)
{
    for (uint32_t i = 0; i < c->n->config.n_external; i++)
        tick_link(c, i);
}
