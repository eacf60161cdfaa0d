// SPDX-License-Identifier: MPL-2.0
// test_gateway.h: a port with its gateway, questions put to it, and a reader of its answers that shares no code
// with the gateway. Hosted code; for tests only.
#ifndef NEREUS_VPC_GATEWAY_TEST_GATEWAY_H
#define NEREUS_VPC_GATEWAY_TEST_GATEWAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/test_packet.h"
#include "vpc/gateway/gateway.h"

#define assert_drop(got, want) assert_string_equal(drop_name(got), drop_name(want))

static const struct mac_addr guest_mac = {{0x02, 0, 0, 0, 0, 0x03}};
static const struct mac_addr other_mac = {{0x02, 0, 0, 0, 0, 0x99}};
static const struct mac_addr gateway_mac = {{0x02, 0, 0, 0, 0, 0x01}};
static const struct mac_addr broadcast_mac = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
// EUI-64 of gateway_mac, RFC 4291 appendix A
static const struct ip_addr gateway_ll = {.b = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1}};
static const struct ip_addr guest_ll = {.b = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 2}};
static const struct ip_addr all_routers = {.b = {0xff, 2, [15] = 2}};
static const struct ip_addr all_nodes = {.b = {0xff, 2, [15] = 1}};

struct world {
    struct ip_addr addresses[4];
    struct ip_prefix subnets[2];
    struct ip_addr dns4[2], dns6[2];
    struct blueprint_allowed allowed[2];
    struct blueprint b;
    struct gateway g;
};

static inline struct ip_prefix prefix(struct ip_addr addr, uint8_t len)
{
    return (struct ip_prefix){addr, len};
}

// Call again after changing w->b.
static inline void world_changed(struct world *w)
{
    gateway_init(&w->g, &w->b);
}

static inline void world_init(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->addresses[0] = test_v4(10, 0, 0, 3);
    w->addresses[1] = test_v6(0xfd00, 3);
    w->subnets[0] = prefix(test_v4(10, 0, 0, 0), 120);
    w->subnets[1] = prefix(test_v6(0xfd00, 0), 64);
    w->dns4[0] = test_v4(9, 9, 9, 9);
    w->dns4[1] = test_v4(1, 1, 1, 1);
    w->dns6[0] = test_v6(0x2620, 0xfe);
    w->dns6[1] = test_v6(0x2606, 0x11);
    struct blueprint *b = &w->b;
    b->schema = 1;
    b->vpc.vni = 100;
    b->vpc.mtu = 1450;
    b->l2.mac = guest_mac;
    b->l2.addresses = w->addresses;
    b->l2.n_addresses = 2;
    b->l2.anti_spoof = true;
    b->l2.allowed = w->allowed;
    struct blueprint_gateway *gw = &b->gateway;
    gw->mac = gateway_mac;
    gw->has_v4 = gw->has_v6 = true;
    gw->v4 = test_v4(10, 0, 0, 1);
    gw->v6 = test_v6(0xfd00, 1);
    gw->subnets = w->subnets;
    gw->n_subnets = 2;
    gw->dhcp4 = (struct blueprint_dhcp4){true, 3600, w->dns4, 2, "vpc.example", "web", NULL, 0};
    gw->dhcp6 = (struct blueprint_dhcp6){true, 3600, w->dns6, 2, "vpc.example"};
    gw->ra.enabled = true;
    gw->metadata = (struct blueprint_metadata){true, false, "{}"};
    world_changed(w);
}

// ---- Putting a question

struct answer {
    struct packet p;
    enum gateway_verdict verdict;
    enum drop reason;
    struct gateway_note note;
    struct parsed question, pp; // pp: of the answer
    uint8_t *buffer;
};

// A packet as a driver lends it: 128 bytes of headroom and exactly 2048 of room.
static inline struct packet lend_packet(const void *bytes, uint32_t len, uint8_t **buffer)
{
    uint32_t room = len > PACKET_MIN_ROOM ? len : PACKET_MIN_ROOM;
    *buffer = malloc(PACKET_HEADROOM + room);
    assert_non_null(*buffer);
    memset(*buffer, 0xa5, PACKET_HEADROOM + room);
    struct packet p = {.data = *buffer + PACKET_HEADROOM, .len = len, .head = len, .room = room};
    p.headroom = PACKET_HEADROOM;
    if (len)
        memcpy(p.data, bytes, len);
    return p;
}

static inline uint16_t plain_sum(const uint8_t *b, uint32_t n, uint32_t sum) // RFC 1071, the slow way
{
    for (uint32_t i = 0; i < n; i++)
        sum += i % 2 ? b[i] : (uint32_t)b[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

// The checksums of a whole packet, over an own pseudo-header.
static inline void assert_checksums(const struct packet *p)
{
    const uint8_t *ip = p->data + 14;
    bool v4 = ip[0] >> 4 == 4;
    uint32_t l4 = v4 ? (ip[0] & 15u) * 4 : 40, len = (v4 ? load_be16(ip + 2) : 40u + load_be16(ip + 4)) - l4;
    uint8_t protocol = v4 ? ip[9] : ip[6];
    if (v4)
        assert_int_equal(plain_sum(ip, l4, 0), 0xffff);
    uint32_t sum = protocol == IPPROTO_ICMP4 ? 0 : protocol + len;
    if (protocol != IPPROTO_ICMP4)
        sum = plain_sum(v4 ? ip + 12 : ip + 8, v4 ? 8 : 32, sum);
    assert_int_equal(plain_sum(ip + l4, len, sum), 0xffff);
}

// What holds for every answer, whatever it is.
static inline void assert_sound(struct answer *a)
{
    assert_drop(a->reason, DROP_NONE);
    assert_true(a->note.text[0] != 0);
    assert_int_equal(a->p.csum, CSUM_FULL);
    assert_int_equal(a->p.gso_type, GSO_NONE);
    assert_true(a->p.len <= a->p.room && a->p.head <= a->p.len);
    assert_drop(parse_frame(&a->p, &a->pp), DROP_NONE);
    assert_memory_equal(a->pp.src_mac.b, gateway_mac.b, 6);
    if (a->pp.ethertype != ETHERTYPE_ARP && a->p.head == a->p.len)
        assert_checksums(&a->p);
}

static inline struct answer ask_packet(const struct world *w, struct packet p, uint8_t *buffer)
{
    struct answer a = {.p = p, .buffer = buffer};
    a.reason = parse_frame(&a.p, &a.question);
    if (a.reason) {
        a.verdict = GATEWAY_DROP;
        return a;
    }
    a.verdict = gateway_out(&w->g, &a.p, &a.question, &a.reason, &a.note);
    if (a.verdict == GATEWAY_ANSWER)
        assert_sound(&a);
    else
        assert_int_equal(a.verdict == GATEWAY_DROP, a.reason != DROP_NONE);
    return a;
}

static inline struct answer ask_bytes(const struct world *w, const void *bytes, uint32_t len)
{
    uint8_t *buffer;
    struct packet p = lend_packet(bytes, len, &buffer);
    return ask_packet(w, p, buffer);
}

static inline void done(struct answer *a)
{
    free(a->buffer);
}

// A frame as `spec` tells, between these MACs; NULL: from the guest to the gateway.
static inline void guest_frame(struct test_frame *f, const struct test_spec *spec, const struct mac_addr *from,
                               const struct mac_addr *to)
{
    test_frame_make(f, spec);
    memcpy(f->b, to ? to->b : gateway_mac.b, 6);
    memcpy(f->b + 6, from ? from->b : guest_mac.b, 6);
}

static inline struct answer ask_spec(const struct world *w, const struct test_spec *spec)
{
    struct test_frame f;
    guest_frame(&f, spec, NULL, NULL);
    return ask_bytes(w, f.b, f.len);
}

static inline void expect_drop(struct answer a, enum drop want)
{
    assert_int_equal(a.verdict, GATEWAY_DROP);
    assert_drop(a.reason, want);
    done(&a);
}

static inline void expect_verdict(struct answer a, enum gateway_verdict want)
{
    assert_drop(a.reason, DROP_NONE);
    assert_int_equal(a.verdict, want);
    done(&a);
}

#endif
