// SPDX-License-Identifier: MPL-2.0
// The gateway as a guest meets it, through the whole node: ARP, ND, DHCP, echo, metadata.
#include "tests/behaviour/lab.h"

#define ANSWERED "out received=1 misses=1 answered=1 in generated=1"

static const struct mac_addr EVERYONE = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
static const struct end GW = {MAC_OF(1), "10.0.0.1", "fd00::1"};
static const struct end GW_LL = {MAC_OF(1), NULL, "fe80::ff:fe00:1"};
static const struct end GUEST_LL = {MAC_OF(3), NULL, "fe80::3"};
static const struct end METADATA = {MAC_OF(1), "169.254.169.254", "fd00:ec2::254"};

static void refused(struct lab *l, const struct frame *f, enum drop reason)
{
    send_guest(l, f);
    expect_drop(l->a, l->g, COUNT_OUT, reason);
    assert_int_equal(flows(l->a, l->g), 0);
    forget_counters(l->a);
}

// The one answer, to the guest, from the gateway, with nothing behind it.
static const struct fake_call *answer(struct lab *l, const struct frame *f)
{
    forget_counters(l->a);
    send_guest(l, f);
    const struct fake_call *c = expect_deliver(l->a, l->g);
    assert_memory_equal(c->frame + 6, GATEWAY_MAC.b, 6);
    assert_int_equal(c->meta.csum, CSUM_FULL); // complete: a guest without offload takes it
    if (load_be16(c->frame + 12) != ETHERTYPE_ARP)
        assert_true(frame_checksums_right(c->frame, c->len));
    expect_counters(l->a, l->g, ANSWERED);
    assert_int_equal(flows(l->a, l->g), 0);
    return c;
}

// ---- T1, T2

static void t1_arp_answers(void **state)
{
    struct lab *l = *state;
    static const char *const targets[] = {"10.0.0.1", "169.254.169.254", "10.0.0.77"};
    for (unsigned i = 0; i < ARRAY_LEN(targets); i++) {
        struct frame f = arp_request(GUEST_MAC, "10.0.0.3", targets[i]);
        const struct fake_call *c = answer(l, &f);
        struct frame want = arp_request(GATEWAY_MAC, targets[i], "10.0.0.3");
        frame_set_mac(&want, GUEST_MAC, GATEWAY_MAC);
        want.bytes[21] = 2;
        memcpy(want.bytes + 32, GUEST_MAC.b, 6);
        expect_same_frame(c, &want);
    }
}

static void t2_arp_refused(void **state)
{
    struct lab *l = *state;
    const struct mac_addr foreign = MAC_OF(9);
    struct frame reply = arp_request(GUEST_MAC, "10.0.0.3", "10.0.0.1"), hidden = reply, wrong = reply;
    reply.bytes[21] = 2;
    memcpy(hidden.bytes + 22, foreign.b, 6);
    wrong.bytes[19] = 5; // protocol address length
    struct {
        struct frame f;
        enum drop reason;
    } list[] = {
        {arp_request(GUEST_MAC, "10.0.0.3", "10.0.0.3"), DROP_SPOOF_ARP}, // gratuitous
        {arp_request(GUEST_MAC, "10.0.0.1", "10.0.0.1"), DROP_SPOOF_ARP}, // as the gateway
        {arp_request(GUEST_MAC, "10.0.0.9", "10.0.0.1"), DROP_SPOOF_ARP}, // as another
        {arp_request(foreign, "10.0.0.3", "10.0.0.1"), DROP_SPOOF_MAC},
        {hidden, DROP_SPOOF_ARP}, // only the ARP sender is foreign
        {reply, DROP_ARP_INVALID},
        {wrong, DROP_ARP_INVALID},
        {arp_request(GUEST_MAC, "0.0.0.0", "10.0.0.3"), DROP_BROADCAST},    // never for the guest's own
        {arp_request(GUEST_MAC, "10.0.0.3", "10.0.1.1"), DROP_ARP_INVALID}, // nor outside the subnet
    };
    for (unsigned i = 0; i < ARRAY_LEN(list); i++)
        refused(l, &list[i].f, list[i].reason);
    struct frame f = arp_request(PEER_MAC, "10.0.0.4", "10.0.0.3");
    frame_set_mac(&f, GUEST_MAC, PEER_MAC);
    receive_vpc(l, &f);
    expect_drop(l->a, l->g, COUNT_IN, DROP_ARP_OVERLAY);
}

// ---- ND: T1, T2, T5

static struct frame nd(struct end from, struct end to, uint8_t type, const char *target, const struct mac_addr *option,
                       uint8_t option_type)
{
    struct frame f = icmp(6, from, to, type, 0);
    uint32_t n = type == 133 ? 8 : type == 134 ? 16 : 24;
    memset(f.bytes + 58, 0, 36);
    if (target)
        memcpy(f.bytes + 62, ip(target).b, 16);
    if (option) {
        memcpy(f.bytes + 54 + n, (uint8_t[]){option_type, 1}, 2);
        memcpy(f.bytes + 54 + n + 2, option->b, 6);
        n += 8;
    }
    f.len = 54 + n;
    f.bytes[21] = 255;
    store_be16(f.bytes + 18, (uint16_t)n);
    frame_fix(&f);
    return f;
}

static const struct end SOLICITED = {{{0x33, 0x33, 0xff, 0, 0, 1}}, NULL, "ff02::1:ff00:1"};
static const struct end ROUTERS = {{{0x33, 0x33, 0, 0, 0, 2}}, NULL, "ff02::2"};
static const struct end NOBODY6 = {MAC_OF(3), NULL, "::"};

static void expect_advertisement(const struct fake_call *c, const char *target, const char *to)
{
    assert_int_equal(c->frame[21], 255);
    assert_memory_equal(c->frame + 38, ip(to).b, 16);
    assert_int_equal(c->frame[54], 136);
    assert_memory_equal(c->frame + 62, ip(target).b, 16);
    assert_memory_equal(c->frame + 78, ((uint8_t[]){2, 1, 2, 0, 0, 0, 0, 1}), 8);
}

static void t1_neighbour_answers(void **state)
{
    struct lab *l = *state;
    static const char *const targets[] = {"fe80::ff:fe00:1", "fd00::1", "fd00:ec2::254", "fd00::77"};
    for (unsigned i = 0; i < ARRAY_LEN(targets); i++) {
        struct frame f = nd(G, SOLICITED, 135, targets[i], &GUEST_MAC, 1);
        expect_advertisement(answer(l, &f), targets[i], "fd00::3");
        f = nd(GUEST_LL, SOLICITED, 135, targets[i], &GUEST_MAC, 1);
        expect_advertisement(answer(l, &f), targets[i], "fe80::3");
    }
    // Duplicate address detection: for the gateway's own there is an answer, to all.
    struct frame probe = nd(NOBODY6, SOLICITED, 135, "fe80::ff:fe00:1", NULL, 0);
    expect_advertisement(answer(l, &probe), "fe80::ff:fe00:1", "ff02::1");
}

static void t2_neighbour_refused(void **state)
{
    struct lab *l = *state;
    const struct mac_addr foreign = MAC_OF(9);
    const struct end other_guest = {MAC_OF(3), NULL, "fd00::9"};
    struct frame late = nd(G, SOLICITED, 135, "fd00::1", &GUEST_MAC, 1);
    late.bytes[21] = 64;
    struct {
        struct frame f;
        enum drop reason;
    } list[] = {
        {late, DROP_ND_INVALID},
        {nd(G, SOLICITED, 135, "fd00::1", &foreign, 1), DROP_SPOOF_ND},
        {nd(other_guest, SOLICITED, 135, "fd00::1", &GUEST_MAC, 1), DROP_SPOOF_ND},
        {nd(GW_LL, SOLICITED, 135, "fd00::1", &GUEST_MAC, 1), DROP_SPOOF_MAC},
        {nd(NOBODY6, SOLICITED, 135, "fd00::3", NULL, 0), DROP_MULTICAST}, // DAD for its own: silence
        {nd(NOBODY6, SOLICITED, 135, "fe80::3", NULL, 0), DROP_MULTICAST},
        {nd(NOBODY6, SOLICITED, 135, "fd00::9", NULL, 0), DROP_SPOOF_ND},
        {nd(G, SOLICITED, 135, "2001:db8::1", &GUEST_MAC, 1), DROP_ND_INVALID},
        {nd(G, SOLICITED, 135, "fd00::3", &GUEST_MAC, 1), DROP_MULTICAST},
    };
    for (unsigned i = 0; i < ARRAY_LEN(list); i++)
        refused(l, &list[i].f, list[i].reason);
}

static const uint8_t *option(const struct fake_call *c, uint8_t type)
{
    for (uint32_t at = 70; at + 8 <= c->len && c->frame[at + 1]; at += 8u * c->frame[at + 1])
        if (c->frame[at] == type)
            return c->frame + at;
    return NULL;
}

static void expect_ra(const struct fake_call *c, bool slaac)
{
    assert_int_equal(c->frame[21], 255);
    assert_memory_equal(c->frame + 22, ip("fe80::ff:fe00:1").b, 16);
    assert_int_equal(c->frame[54], 134);
    assert_int_equal(c->frame[59] & 0xc0, 0xc0); // managed, other
    assert_int_equal(load_be16(c->frame + 60), 1800);
    assert_memory_equal(option(c, 1), ((uint8_t[]){1, 1, 2, 0, 0, 0, 0, 1}), 8);
    assert_int_equal(load_be32(option(c, 5) + 4), 1430);
    assert_memory_equal(option(c, 25) + 8, ip("fd00::53").b, 16);
    const uint8_t *p = option(c, 3);
    if (!slaac) {
        assert_null(p);
        return;
    }
    assert_int_equal(p[3] & 0xc0, 0x40); // autonomous, not on link
    assert_memory_equal(p + 16, ip("fd00::").b, 16);
}

static void t5_router(void **state)
{
    struct lab *l = *state;
    struct ip_addr dns6 = ip("fd00::53");
    l->guest.b.gateway.dhcp6.dns = &dns6;
    l->guest.b.gateway.dhcp6.n_dns = 1;
    for (int slaac = 0; slaac < 2; slaac++) {
        l->guest.b.gateway.ra.slaac = slaac;
        put(l->a, &l->guest);
        struct frame f = nd(GUEST_LL, ROUTERS, 133, NULL, &GUEST_MAC, 1);
        const struct fake_call *c = answer(l, &f);
        expect_ra(c, slaac);
        assert_memory_equal(c->frame + 38, ip("fe80::3").b, 16);
        f = nd(NOBODY6, ROUTERS, 133, NULL, NULL, 0);
        c = answer(l, &f);
        expect_ra(c, slaac);
        assert_memory_equal(c->frame + 38, ip("ff02::1").b, 16);
        f.bytes[21] = 64;
        refused(l, &f, DROP_ND_INVALID);
    }
    // Without being asked, each 200 s; in the node's counters they are made here, and answer nobody.
    fake_advance(l->a, 0);
    fake_forget(l->a);
    for (int i = 0; i < 3; i++) {
        fake_advance(l->a, 199000);
        expect_nothing(l->a);
        forget_counters(l->a);
        fake_advance(l->a, 1000);
        const struct fake_call *c = expect_deliver(l->a, l->g);
        expect_ra(c, true);
        assert_memory_equal(c->frame, ((uint8_t[]){0x33, 0x33, 0, 0, 0, 1}), 6);
        assert_memory_equal(c->frame + 38, ip("ff02::1").b, 16);
        expect_counters(l->a, l->g, "in generated=1");
    }
}

static void t5_slaac_source(void **state)
{
    struct lab *l = *state;
    const struct end own = {MAC_OF(3), NULL, "fd00::1234:5678:9abc:def0"};
    struct frame f = udp(6, own, 1000, via(P, GATEWAY_MAC), 53, 10);
    refused(l, &f, DROP_SPOOF_IP);
    l->guest.b.gateway.ra.slaac = true;
    put(l->a, &l->guest);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    struct frame reply = udp(6, P, 53, own, 1000, 10);
    receive_vpc(l, &reply);
    expect_deliver(l->a, l->g);
}

static void t5_not_from_the_guest(void **state)
{
    struct lab *l = *state;
    const struct end all = {{{0x33, 0x33, 0, 0, 0, 1}}, NULL, "ff02::1"};
    struct frame ra = nd(GUEST_LL, all, 134, NULL, &GUEST_MAC, 1), redirect = nd(GUEST_LL, G, 137, "fd00::1", NULL, 0);
    struct frame na = nd(GUEST_LL, all, 136, "fd00::3", &GUEST_MAC, 2),
                 foreign = nd(GUEST_LL, all, 136, "fd00::9", &GUEST_MAC, 2);
    refused(l, &ra, DROP_ND_FROM_GUEST);
    refused(l, &redirect, DROP_ND_FROM_GUEST);
    refused(l, &na, DROP_ND_FROM_GUEST);
    refused(l, &foreign, DROP_SPOOF_ND);
    static const uint8_t types[] = {133, 134, 135, 136, 137};
    for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
        struct frame f = nd(P, G, types[i], "fd00::3", NULL, 0);
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_ND_OVERLAY);
    }
}

// ---- T3

static struct frame dhcp4(uint32_t xid, const uint8_t *options, uint32_t n, const char *src, struct end to,
                          const char *ciaddr)
{
    struct frame f = udp(4, (struct end){MAC_OF(3), src, NULL}, 68, to, 67, 240 + n);
    uint8_t *m = f.bytes + 42;
    memset(m, 0, 240);
    memcpy(m, (uint8_t[]){1, 1, 6, 0}, 4);
    store_be32(m + 4, xid);
    memcpy(m + 12, ip(ciaddr).b + 12, 4);
    memcpy(m + 28, GUEST_MAC.b, 6);
    store_be32(m + 236, 0x63825363);
    memcpy(m + 240, options, n);
    frame_fix(&f);
    return f;
}

static const uint8_t *dhcp_option(const struct fake_call *c, uint8_t code)
{
    for (uint32_t at = 42 + 240; at + 2 <= c->len && c->frame[at] != 255;) {
        if (c->frame[at] == 0) {
            at++;
            continue;
        }
        if (c->frame[at] == code)
            return c->frame + at + 1; // length, then value
        at += 2u + c->frame[at + 1];
    }
    return NULL;
}

static void expect_option(const struct fake_call *c, uint8_t code, const void *value, uint8_t n)
{
    const uint8_t *o = dhcp_option(c, code);
    assert_non_null(o);
    assert_int_equal(o[0], n);
    assert_memory_equal(o + 1, value, n);
}

static void expect_dhcp(const struct fake_call *c, uint8_t type, uint32_t xid)
{
    assert_int_equal(load_be16(c->frame + 34), 67);
    assert_int_equal(load_be16(c->frame + 36), 68);
    assert_int_equal(c->frame[42], 2);
    assert_int_equal(load_be32(c->frame + 46), xid);
    assert_memory_equal(c->frame + 70, GUEST_MAC.b, 6);
    expect_option(c, 53, &type, 1);
    expect_option(c, 54, ip("10.0.0.1").b + 12, 4);
}

static void t3_dhcp(void **state)
{
    struct lab *l = *state;
    const struct end all = {EVERYONE, "255.255.255.255", NULL};
    // Options 26 and 249 are asked for.
    static const uint8_t discover[] = {53, 1, 1, 55, 5, 1, 3, 121, 26, 249, 255};
    static const uint8_t request[] = {53, 1, 3, 50, 4, 10, 0, 0, 3, 54, 4, 10, 0, 0, 1, 255};
    static const uint8_t greedy[] = {53, 1, 3, 50, 4, 10, 0, 0, 9, 54, 4, 10, 0, 0, 1, 255};
    static const uint8_t renew[] = {53, 1, 3, 255};
    static const uint8_t routes[] = {32, 10, 0, 0, 1, 0, 0, 0, 0, 0, 10, 0, 0, 1};
    struct frame f = dhcp4(0x11223344, discover, sizeof(discover), "0.0.0.0", all, "0.0.0.0");
    const struct fake_call *c = answer(l, &f);
    expect_dhcp(c, 2, 0x11223344);
    assert_memory_equal(c->frame + 42 + 16, ip("10.0.0.3").b + 12, 4);
    expect_option(c, 1, ((uint8_t[]){255, 255, 255, 255}), 4);
    expect_option(c, 3, ip("10.0.0.1").b + 12, 4);
    expect_option(c, 121, routes, sizeof(routes));
    expect_option(c, 249, routes, sizeof(routes));
    expect_option(c, 26, ((uint8_t[]){1430 >> 8, 1430 & 255}), 2);
    expect_option(c, 51, ((uint8_t[]){0, 0, 0x0e, 0x10}), 4);
    expect_option(c, 6, ip("10.0.0.2").b + 12, 4);
    assert_non_null(dhcp_option(c, 58));
    assert_non_null(dhcp_option(c, 59));

    f = dhcp4(0x11223345, request, sizeof(request), "0.0.0.0", all, "0.0.0.0");
    c = answer(l, &f);
    expect_dhcp(c, 5, 0x11223345);
    assert_memory_equal(c->frame + 42 + 16, ip("10.0.0.3").b + 12, 4);
    f = dhcp4(0x11223346, greedy, sizeof(greedy), "0.0.0.0", all, "0.0.0.0");
    expect_dhcp(answer(l, &f), 6, 0x11223346);
    f = dhcp4(0x11223347, renew, sizeof(renew), "10.0.0.3", GW, "10.0.0.3"); // by unicast
    c = answer(l, &f);
    expect_dhcp(c, 5, 0x11223347);
    assert_memory_equal(c->frame + 30, ip("10.0.0.3").b + 12, 4);

    l->guest.b.gateway.guest_prefix_subnet = true;
    put(l->a, &l->guest);
    f = dhcp4(1, discover, sizeof(discover), "0.0.0.0", all, "0.0.0.0");
    expect_option(answer(l, &f), 1, ((uint8_t[]){255, 255, 255, 0}), 4);
    struct frame server = udp(4, G, 67, all, 68, 240);
    refused(l, &server, DROP_DHCP_SERVER);
}

// ---- T4

static struct frame dhcp6(uint8_t type, const uint8_t *options, uint32_t n)
{
    const struct end all = {{{0x33, 0x33, 0, 1, 0, 2}}, NULL, "ff02::1:2"};
    struct frame f = udp(6, GUEST_LL, 546, all, 547, 4 + 14 + n);
    memcpy(f.bytes + 62, (uint8_t[]){type, 0xaa, 0xbb, 0xcc, 0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 3}, 18);
    memcpy(f.bytes + 80, options, n);
    frame_fix(&f);
    return f;
}

static const uint8_t *dhcp6_option(const uint8_t *at, const uint8_t *end, uint16_t code)
{
    for (; at + 4 <= end; at += 4u + load_be16(at + 2))
        if (load_be16(at) == code)
            return at;
    return NULL;
}

static void expect_lease6(const struct fake_call *c, uint8_t type)
{
    const uint8_t *end = c->frame + c->len;
    assert_memory_equal(c->frame + 62, ((uint8_t[]){type, 0xaa, 0xbb, 0xcc}), 4);
    assert_memory_equal(c->frame + 22, ip("fe80::ff:fe00:1").b, 16);
    const uint8_t *ia = dhcp6_option(c->frame + 66, end, 3);
    assert_non_null(ia);
    assert_memory_equal(ia + 4, ((uint8_t[]){0, 0, 0, 7}), 4);
    const uint8_t *lease = dhcp6_option(ia + 16, ia + 4 + load_be16(ia + 2), 5);
    assert_non_null(lease);
    assert_memory_equal(lease + 4, ip("fd00::3").b, 16);
    assert_non_null(dhcp6_option(c->frame + 66, end, 1));
    assert_non_null(dhcp6_option(c->frame + 66, end, 2));
}

static void t4_dhcp6(void **state)
{
    struct lab *l = *state;
    static const uint8_t ia[] = {0, 3, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t rapid[] = {0, 14, 0, 0, 0, 3, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0};
    struct frame f = dhcp6(1, ia, sizeof(ia));
    const struct fake_call *c = answer(l, &f);
    expect_lease6(c, 2);
    // Request and Renew name the server, with the identifier it gave, and the address.
    const uint8_t *server = dhcp6_option(c->frame + 66, c->frame + c->len, 2);
    uint8_t named[128], n = 0;
    memcpy(named, server, 4u + load_be16(server + 2));
    n = (uint8_t)(4 + load_be16(server + 2));
    memcpy(named + n, ia, sizeof(ia));
    store_be16(named + n + 2, 12 + 28);
    memcpy(named + n + 16, (uint8_t[28]){0, 5, 0, 24}, 28);
    memcpy(named + n + 20, ip("fd00::3").b, 16);
    n += 16 + 28;
    f = dhcp6(1, rapid, sizeof(rapid));
    expect_lease6(answer(l, &f), 7);
    f = dhcp6(3, named, n);
    expect_lease6(answer(l, &f), 7);
    f = dhcp6(5, named, n);
    expect_lease6(answer(l, &f), 7);
    uint32_t skip = 4u + load_be16(named + 2);
    f = dhcp6(4, named + skip, n - skip); // Confirm names no server
    c = answer(l, &f);
    assert_int_equal(c->frame[62], 7);
    assert_int_equal(load_be16(dhcp6_option(c->frame + 66, c->frame + c->len, 13) + 4), 0); // success
}

static void t4_nested(void **state)
{
    struct lab *l = *state;
    uint8_t options[200 * 4 + 12];
    uint32_t at = 0;
    memset(options, 0, sizeof(options));
    for (unsigned i = 0; i < 200; i++, at += 4) {
        store_be16(options + at, i & 1 ? 5 : 3);
        store_be16(options + at + 2, (uint16_t)(sizeof(options) - at - 4));
    }
    struct frame f = dhcp6(1, options, sizeof(options));
    refused(l, &f, DROP_DHCP_INVALID);
}

// ---- T6

static void t6_echo(void **state)
{
    struct lab *l = *state;
    static const uint32_t sizes[] = {0, 1, 2, 33, 56, 57, 1201, 1382, 1402};
    for (int family = 4; family <= 6; family += 2) {
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            struct frame f = icmp_echo(family, G, GW, false, 0x1234, (uint16_t)i, sizes[i]);
            const struct fake_call *c = answer(l, &f);
            struct frame want = icmp_echo(family, GW, G, true, 0x1234, (uint16_t)i, sizes[i]);
            if (family == 4) // the identification is the answer's own matter
                memcpy(want.bytes + 18, c->frame + 18, 8);
            expect_same_frame(c, &want);
        }
        struct frame f = icmp_echo(6, GUEST_LL, GW_LL, false, 7, 1, 55);
        answer(l, &f);
    }
    // A metadata address answers, too; other ports of the gateway do not.
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = icmp_echo(family, G, METADATA, false, 7, 1, 55);
        answer(l, &f);
        struct frame dns = udp(family, G, 1000, GW, 53, 10), ssh = tcp(family, G, 1000, GW, 22, TCP_SYN, 1, 0, 0);
        refused(l, &dns, DROP_GATEWAY_SERVICE);
        refused(l, &ssh, DROP_GATEWAY_SERVICE);
    }
}

// Larger than any MTU and in parts: only the first 256 bytes lie together.
static void t6_scattered(void **state)
{
    struct lab *l = *state;
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = icmp_echo(family, G, GW, false, 9, 1, 1472);
        struct packet *p = fake_packet(l->a, f.bytes, f.len);
        p->head = 256;
        forget_counters(l->a);
        node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
        const struct fake_call *c = expect_deliver(l->a, l->g);
        expect_counters(l->a, l->g, ANSWERED);
        struct frame want = icmp_echo(family, GW, G, true, 9, 1, 1472);
        if (family == 4)
            memcpy(want.bytes + 18, c->frame + 18, 8);
        expect_same_frame(c, &want);
    }
}

// ---- T7

static const struct end SERVICE = {{{2, 0, 0, 0, 0xee, 1}}, NULL, NULL};

static struct ip_addr source_of(const struct fake_call *c)
{
    return c->frame[14] >> 4 == 4 ? ip_from_v4(c->frame + 26) : ip_from_v6(c->frame + 22);
}

static struct frame service_reply(const struct fake_call *syn, int family)
{
    struct frame f = tcp(family, METADATA, 80, G, 4000, TCP_SYN | TCP_ACK, 500, 101, 0);
    struct ip_addr client = source_of(syn);
    frame_set_mac(&f, GATEWAY_MAC, SERVICE.mac);
    memcpy(f.bytes + (family == 4 ? 30 : 38), client.b + (family == 4 ? 12 : 0), family == 4 ? 4 : 16);
    frame_fix(&f);
    return f;
}

static const struct fake_call *to_service(struct lab *l, uint32_t port, const struct frame *f)
{
    fake_guest(l->a, port, f->bytes, f->len);
    const struct fake_call *c = fake_next(l->a);
    assert_non_null(c);
    assert_int_equal(c->kind, FAKE_SERVICE); // never on the underlay
    expect_nothing(l->a);
    assert_memory_equal(c->frame, SERVICE.mac.b, 6);
    assert_true(frame_checksums_right(c->frame, c->len));
    return c;
}

static void t7_metadata(void **state)
{
    struct lab *l = *state;
    struct draft twin; // another VPC with the same addresses
    draft_init(&twin, 4, 200, G.v4, G.v6, GUEST_MAC);
    uint32_t port[2] = {l->g, put(l->a, &twin)};
    fake_forget(l->a);
    for (int family = 4; family <= 6; family += 2) {
        struct ip_addr client[2];
        struct frame syn = tcp(family, G, 4000, METADATA, 80, TCP_SYN, 100, 0, 0);
        for (int i = 0; i < 2; i++) {
            forget_counters(l->a);
            const struct fake_call *c = to_service(l, port[i], &syn);
            expect_counters(l->a, port[i], "out received=1 misses=1 consumed=1");
            client[i] = source_of(c);
            const struct blueprint *b = node_metadata_port(l->a->node, &client[i]);
            assert_non_null(b); // the client's address says which port asked
            assert_true(uuid_equal(&b->port, i ? &twin.b.port : &l->guest.b.port));
            assert_int_equal(b->vpc.vni, i ? 200 : 100);

            struct frame back = service_reply(c, family);
            fake_service(l->a, back.bytes, back.len);
            const struct fake_call *d = expect_deliver(l->a, port[i]);
            struct frame want = tcp(family, METADATA, 80, G, 4000, TCP_SYN | TCP_ACK, 500, 101, 0);
            expect_same_frame(d, &want);
            expect_counters(l->a, port[i], "in received=1 hits=1 sent=1");
            expect_node_counters(l->a, "service-received=1 service-to-port=1");
            struct frame ack = tcp(family, G, 4000, METADATA, 80, TCP_ACK, 101, 501, 0);
            to_service(l, port[i], &ack);
            expect_counters(l->a, port[i], "out received=1 hits=1 consumed=1");
        }
        assert_false(ip_equal(&client[0], &client[1]));
    }
}

static void t7_refused(void **state)
{
    struct lab *l = *state;
    const struct end client4 = {MAC_OF(3), "100.64.0.1", "fd00:ec2:0:1::1"};
    for (int family = 4; family <= 6; family += 2) {
        struct frame https = tcp(family, G, 4000, METADATA, 443, TCP_SYN, 1, 0, 0);
        struct frame query = udp(family, G, 4000, METADATA, 80, 10);
        struct frame forged = tcp(family, client4, 4000, METADATA, 80, TCP_SYN, 1, 0, 0);
        refused(l, &https, DROP_METADATA_PORT);
        refused(l, &query, DROP_METADATA_PORT);
        refused(l, &forged, DROP_SPOOF_IP); // no guest chooses who it is
        struct frame peer = tcp(family, via(METADATA, PEER_MAC), 80, G, 4000, TCP_SYN, 1, 0, 0);
        receive_vpc(l, &peer); // nor speaks as the service
        expect_drop(l->a, l->g, COUNT_IN, family == 4 ? DROP_LINK_LOCAL : DROP_SPOOF_IP);
        // The service answers, and opens nothing.
        struct frame fresh = tcp(family, via(METADATA, SERVICE.mac), 80, client4, 4000, TCP_SYN, 1, 0, 0);
        forget_counters(l->a);
        fake_service(l->a, fresh.bytes, fresh.len);
        expect_nothing(l->a);
        expect_counters(l->a, l->g, "in received=1 misses=1 no-nat-state=1");
        struct frame nobody = fresh;
        memcpy(nobody.bytes + (family == 4 ? 30 : 38),
               ip(family == 4 ? "10.0.0.3" : "fd00::3").b + (family == 4 ? 12 : 0), family == 4 ? 4 : 16);
        frame_fix(&nobody);
        forget_counters(l->a);
        fake_service(l->a, nobody.bytes, nobody.len);
        expect_node_counters(l->a, "service-received=1 service-unknown-port=1");
        expect_counters(l->a, l->g, "");
    }
    l->guest.b.gateway.metadata.enabled = false;
    put(l->a, &l->guest);
    for (int family = 4; family <= 6; family += 2) {
        struct frame syn = tcp(family, G, 4000, METADATA, 80, TCP_SYN, 1, 0, 0);
        refused(l, &syn, DROP_METADATA_OFF);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T1 T2 ARP for gateway, metadata and neighbours is answered, byte for byte", t1_arp_answers),
        TEST("T1 T2 T5 neighbour solicitations likewise", t1_neighbour_answers),
        TEST("T2 gratuitous, foreign and malformed ARP is dropped", t2_arp_refused),
        TEST("T2 T5 forged, late and foreign neighbour solicitations are dropped", t2_neighbour_refused),
        TEST("T3 DHCP from discover to renewal", t3_dhcp),
        TEST("T4 DHCPv6 from solicit to confirm", t4_dhcp6),
        TEST("T4 200 nested options are dropped", t4_nested),
        TEST("T5 router advertisements, asked for and each 200 s", t5_router),
        TEST("T5 SLAAC lets the prefix through", t5_slaac_source),
        TEST("T5 routers are not among the guests", t5_not_from_the_guest),
        TEST("T6 echo of any size, checksums complete", t6_echo),
        TEST("T6 a scattered echo larger than the MTU", t6_scattered),
        TEST("T7 the metadata service knows which port asks", t7_metadata),
        TEST("T7 the metadata service cannot be misused", t7_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
