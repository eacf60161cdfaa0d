// SPDX-License-Identifier: MPL-2.0
// fuzz_gateway.h: a port with everything on, for the fuzz targets. Options of the blueprint follow one byte of input.
#ifndef NEREUS_VPC_GATEWAY_FUZZ_GATEWAY_H
#define NEREUS_VPC_GATEWAY_FUZZ_GATEWAY_H

#include <stdlib.h>
#include <string.h>

#include "vpc/gateway/gateway.h"

static const struct ip_addr fuzz_addresses[] = {
    {.b = {[10] = 0xff, 0xff, 10, 0, 0, 3}},
    {.b = {0xfd, [15] = 3}},
};
static const struct ip_prefix fuzz_subnets[] = {
    {{.b = {[10] = 0xff, 0xff, 10, 0, 0, 0}}, 120},
    {{.b = {0xfd}}, 64},
};
static const struct ip_addr fuzz_dns[] = {
    {.b = {[10] = 0xff, 0xff, 9, 9, 9, 9}},
    {.b = {0x26, 0x20, [15] = 0xfe}},
};
static const struct blueprint_dhcp_route fuzz_routes[] = {
    {{{.b = {[10] = 0xff, 0xff, 192, 168, 0, 0}}, 112}, {.b = {[10] = 0xff, 0xff, 10, 0, 0, 9}}},
};

static inline void fuzz_world(struct blueprint *b, struct gateway *g, uint8_t options)
{
    static const struct mac_addr guest = {{2, 0, 0, 0, 0, 3}}, gateway = {{2, 0, 0, 0, 0, 1}};
    memset(b, 0, sizeof(*b));
    b->vpc.vni = 100;
    b->vpc.mtu = options & 1 ? 1280 : 9000;
    b->l2.mac = guest;
    b->l2.addresses = fuzz_addresses;
    b->l2.n_addresses = 2;
    b->l2.anti_spoof = !(options & 2);
    struct blueprint_gateway *gw = &b->gateway;
    gw->mac = gateway;
    gw->has_v4 = gw->has_v6 = true;
    gw->v4 = (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
    gw->v6 = (struct ip_addr){.b = {0xfd, [15] = 1}};
    gw->subnets = fuzz_subnets;
    gw->n_subnets = 2;
    gw->guest_prefix_subnet = options & 4;
    gw->dhcp4 = (struct blueprint_dhcp4){true, 3600, fuzz_dns, 2, "vpc.example", "web", fuzz_routes, 1};
    gw->dhcp6 = (struct blueprint_dhcp6){true, 3600, fuzz_dns, 2, "vpc.example"};
    gw->ra.enabled = true;
    gw->ra.slaac = options & 8;
    gw->metadata = (struct blueprint_metadata){true, false, "{}"};
    gateway_init(g, b);
}

// A packet as a driver lends it, on the heap so that the sanitizer sees each byte too many. What the buffer held
// before, `fill`, must not matter to any verdict nor show in any answer.
static inline struct packet fuzz_packet(const uint8_t *frame, uint32_t len, uint32_t head, uint8_t fill)
{
    uint32_t room = MAX(head, PACKET_MIN_ROOM);
    uint8_t *buffer = malloc(PACKET_HEADROOM + room);
    if (!buffer)
        abort();
    memset(buffer, fill, PACKET_HEADROOM + room);
    struct packet p = {.data = buffer + PACKET_HEADROOM, .len = len, .head = head, .room = room, .driver = buffer};
    p.headroom = PACKET_HEADROOM;
    if (head)
        memcpy(p.data, frame, head);
    return p;
}

// An answer must be a frame that the parser takes, with a right checksum unless its payload was out of reach.
static inline void fuzz_check_answer(const struct packet *p)
{
    struct parsed pp;
    if (p->len > 65549 || p->head > p->room || p->head > p->len || parse_frame(p, &pp) != DROP_NONE)
        abort();
}

static inline void fuzz_check_same(const struct packet *a, const struct packet *b)
{
    if (a->len != b->len || a->head != b->head || a->csum != b->csum || memcmp(a->data, b->data, a->head) != 0)
        abort();
}

#endif
