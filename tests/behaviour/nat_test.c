// SPDX-License-Identifier: MPL-2.0
// External addresses: translation out and back, the choice of an address, and having none.
#include "tests/behaviour/outside.h"

static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static uint16_t checksum_offset(uint8_t protocol)
{
    return protocol == IPPROTO_TCP4 ? 16 : protocol == IPPROTO_UDP4 ? 6 : 2;
}

// The field as a guest with checksum offload leaves it: the pseudo-header's sum, not inverted.
static void make_partial(struct frame *f)
{
    struct view v = view_of(f);
    uint32_t sum = 0, l4_len = (uint32_t)(f->bytes + f->len - v.l4);
    if (v.protocol != IPPROTO_ICMP4) {
        for (unsigned i = 0; i < 16; i += 2)
            sum += load_be16(v.src.b + i) + load_be16(v.dst.b + i);
        if (v.l3[0] >> 4 == 4)
            sum -= 2 * 0xffff; // the mapped prefix is not on the wire
        sum += l4_len + v.protocol;
    }
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    store_be16(v.l4 + checksum_offset(v.protocol), (uint16_t)sum);
}

// What the NIC or the receiver makes of it.
static void complete(struct frame *f, const struct packet *meta)
{
    if (meta->csum != CSUM_PARTIAL)
        return;
    uint32_t sum = 0, start = meta->csum_start;
    for (uint32_t i = start; i < f->len; i += 2)
        sum += i + 1 < f->len ? load_be16(f->bytes + i) : (uint32_t)f->bytes[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    uint16_t field = (uint16_t)~sum;
    store_be16(f->bytes + start + meta->csum_offset, field ? field : 0xffff);
}

static void send_with(struct lab *l, const struct frame *frame, enum csum_mode mode)
{
    struct frame f = *frame;
    struct view v = view_of(&f);
    if (mode == CSUM_PARTIAL)
        make_partial(&f);
    struct packet *p = fake_packet(l->a, f.bytes, f.len);
    p->csum = (uint8_t)mode;
    if (mode == CSUM_PARTIAL) {
        p->csum_start = (uint16_t)(v.l4 - f.bytes);
        p->csum_offset = checksum_offset(v.protocol);
    }
    node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
}

// Exactly what was sent, but for the rewrite: source, hop limit, MACs and checksums.
static void expect_translated(struct frame *sent, struct frame *out, struct ip_addr external, uint16_t port)
{
    struct frame expected = *sent;
    struct view v = view_of(&expected);
    frame_set_mac(&expected, ROUTER_MAC, LINK_MAC);
    bool v4 = v.l3[0] >> 4 == 4, icmp = v.protocol == IPPROTO_ICMP4 || v.protocol == IPPROTO_ICMP6;
    memcpy(v.l3 + (v4 ? 12 : 8), external.b + (v4 ? 12 : 0), v4 ? 4 : 16);
    v.l3[v4 ? 8 : 7]--;
    store_be16(v.l4 + (icmp ? 4 : 0), port);
    frame_fix(&expected);
    assert_int_equal(out->len, expected.len);
    assert_memory_equal(out->bytes, expected.bytes, expected.len);
}

static void converse(struct lab *l, uint8_t protocol, int family, enum csum_mode mode, uint16_t sport, bool shared)
{
    struct end external = shared ? SHARED : FLOATING;
    struct frame sent = start(protocol, family, G, sport, via(OUTSIDE, GATEWAY_MAC), 443);
    for (int round = 0; round < 2; round++) { // first packet, then the hit path
        send_with(l, &sent, mode);
        struct frame out = expect_outside(l->a);
        complete(&out, &l->a->calls[l->a->next - 1].meta);
        uint16_t port = view_of(&out).sport;
        if (shared)
            assert_in_range(port, 2000, 2999);
        else
            assert_int_equal(port, sport);
        expect_translated(&sent, &out, ip(address_of(external, family)), port);
        struct frame reply = reply_to(&out, TCP_SYN | TCP_ACK);
        from_outside(l->a, &reply);
        struct frame in = expect_at(l->a, l->g);
        assert_true(goes(&in, family, OUTSIDE, G));
        assert_memory_equal(in.bytes, GUEST_MAC.b, 6);
        assert_memory_equal(in.bytes + 6, GATEWAY_MAC.b, 6);
        assert_int_equal(protocol == IPPROTO_ICMP4 ? view_of(&in).sport : view_of(&in).dport, sport);
        assert_int_equal(view_of(&in).ttl, 63);
    }
}

static void t50_translation(void **state, bool shared)
{
    struct lab *l = *state;
    if (shared)
        give_snat(&l->guest, SHARED, 2000, 2999);
    else
        give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    uint16_t sport = 30000;
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++)
        for (enum csum_mode mode = CSUM_FULL; mode <= CSUM_VERIFIED; mode++)
            converse(l, protocols[i], family, mode, sport++, shared);
    assert_int_equal(flows(l->a, l->g), 18);
}

static void t50_floating(void **state)
{
    t50_translation(state, false);
}

static void t50_snat(void **state)
{
    t50_translation(state, true);
}

static void t51_choice(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    give_floating(&l->guest, FLOATING_2, G);
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        unsigned first = 0;
        for (unsigned i = 0; i < 1000; i++) {
            struct frame f = udp(family, G, (uint16_t)(10000 + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
            send_guest(l, &f);
            struct frame out = expect_outside(l->a);
            bool one = goes(&out, family, FLOATING, OUTSIDE);
            assert_true(one || goes(&out, family, FLOATING_2, OUTSIDE));
            first += one;
            send_guest(l, &f);
            out = expect_outside(l->a);
            assert_true(goes(&out, family, one ? FLOATING : FLOATING_2, OUTSIDE));
        }
        assert_in_range(first, 430, 570);
        struct node_error e;
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_quiesce(l->a);
    }
}

static void t51_answered_from_the_same(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    give_floating(&l->guest, FLOATING_2, G);
    give_snat(&l->guest, SHARED, 2000, 2999);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    const struct end addresses[] = {FLOATING, FLOATING_2};
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 2; i++) {
            for (unsigned k = 0; k < ARRAY_LEN(protocols); k++) {
                struct frame in = start(protocols[k], family, OUTSIDE, (uint16_t)(5000 + i), addresses[i], 80);
                from_outside(l->a, &in);
                struct frame at = expect_at(l->a, l->g);
                assert_true(goes(&at, family, OUTSIDE, G));
                struct frame reply = reply_to(&at, TCP_SYN | TCP_ACK);
                send_guest(l, &reply);
                struct frame out = expect_outside(l->a);
                assert_true(goes(&out, family, addresses[i], OUTSIDE));
            }
        }
        // A shared address answers nobody who was not asked.
        struct frame in = udp(family, OUTSIDE, 5000, SHARED, 2500, 10);
        from_outside(l->a, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_NO_NAT_STATE);
    }
}

static void t54_ping(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_snat(&l->guest, SHARED, 2000, 2999);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    give_snat(&other, SHARED, 3000, 3999);
    put(l->a, &l->guest);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    {
        struct frame mine = icmp_echo(family, G, via(OUTSIDE, GATEWAY_MAC), false, 77, 1, 56);
        struct frame theirs = icmp_echo(family, Q, via(OUTSIDE, GATEWAY_MAC), false, 77, 1, 56);
        send_guest(l, &mine);
        struct frame out = expect_outside(l->a);
        send_from(l->a, q, &theirs);
        struct frame out2 = expect_outside(l->a);
        assert_true(goes(&out, family, SHARED, OUTSIDE) && goes(&out2, family, SHARED, OUTSIDE));
        assert_in_range(view_of(&out).sport, 2000, 2999);
        assert_in_range(view_of(&out2).sport, 3000, 3999);
        struct frame reply = reply_to(&out, 0), reply2 = reply_to(&out2, 0);
        from_outside(l->a, &reply2);
        struct frame at = expect_at(l->a, q);
        assert_true(goes(&at, family, OUTSIDE, Q));
        assert_int_equal(view_of(&at).sport, 77);
        from_outside(l->a, &reply);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, OUTSIDE, G));
        assert_int_equal(view_of(&at).sport, 77);
        uint32_t header = family == 4 ? 34 : 54;
        assert_memory_equal(at.bytes + header + 8, mine.bytes + header + 8, 56);
    }
}

static void t59_none(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame f = start(protocols[i], family, G, 1000, via(OUTSIDE, GATEWAY_MAC), 443);
            send_guest(l, &f);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
        }
    }
    assert_int_equal(flows(l->a, l->g), 0);
    // An internet gateway knows floating IPs only; SNAT is a NAT gateway's.
    l->guest.routes[2].target.kind = l->guest.routes[3].target.kind = BLUEPRINT_TARGET_EXTERNAL;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
    }
}

static void t59_blackhole(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    draft_route(&l->guest, "203.0.113.0/24", BLUEPRINT_TARGET_BLACKHOLE, NULL);
    draft_route(&l->guest, "2001:db8:9::/48", BLUEPRINT_TARGET_BLACKHOLE, NULL);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 1000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_BLACKHOLE);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void t59_network(void **state)
{
    struct lab *l = *state;
    const struct uuid red = {.b = {1}}, blue = {.b = {2}};
    give_floating(&l->guest, FLOATING, G);
    give_floating(&l->guest, FLOATING_2, G);
    give_snat(&l->guest, SHARED, 2000, 2999);
    for (unsigned i = 0; i < 4; i++) {
        l->guest.floating[i].has_network = true;
        l->guest.floating[i].network = i < 2 ? red : blue;
    }
    for (unsigned choice = 0; choice < 3; choice++) {
        for (unsigned i = 2; i < 4; i++) {
            l->guest.routes[i].target.has_network = true;
            l->guest.routes[i].target.network = (struct uuid[]){red, blue, {.b = {3}}}[choice];
        }
        put(l->a, &l->guest);
        EACH_FAMILY(family)
        {
            for (unsigned i = 0; i < 20; i++) {
                struct frame f =
                    udp(family, G, (uint16_t)(1000 + 100 * choice + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
                send_guest(l, &f);
                if (choice == 2) { // nobody has an address of the third network
                    expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_EXTERNAL_IP);
                    continue;
                }
                struct frame out = expect_outside(l->a);
                assert_true(goes(&out, family, choice ? FLOATING_2 : FLOATING, OUTSIDE));
            }
        }
    }
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE_TEST("T50 a floating IP translates every protocol and checksum mode, there and back", t50_floating),
        EDGE_TEST("T50 SNAT translates every protocol and checksum mode, there and back", t50_snat),
        EDGE_TEST("T51 new flows use the floating IPs only, about equally, each flow one", t51_choice),
        EDGE_TEST("T51 what comes in is answered from the address it came to", t51_answered_from_the_same),
        EDGE_TEST("T54 two guests ping one target through one address and stay apart", t54_ping),
        EDGE_TEST("T59 without an external address there is no way out", t59_none),
        EDGE_TEST("T59 a blackhole route drops", t59_blackhole),
        EDGE_TEST("T59 the route's network chooses among external addresses", t59_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
