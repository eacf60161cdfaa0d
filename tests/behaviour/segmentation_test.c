// SPDX-License-Identifier: MPL-2.0
// Super-frames and segment sizes: one frame of many segments is one packet all the way, and no SYN promises segments
// that do not fit.
#include "tests/behaviour/outside.h"

#define MTU 1430

struct super {
    int family;
    uint8_t protocol;
    struct end src, dst;
    uint32_t payload;
    uint16_t gso_size;
};

// A frame as a guest with offload sends it: lengths of the whole, the checksum left to the device.
static struct packet *super_packet(struct fake *f, const struct super *s)
{
    struct frame small = s->protocol == IPPROTO_TCP4
                             ? tcp(s->family, s->src, 4000, s->dst, 443, TCP_ACK | TCP_PSH, 2, 2, 0)
                             : udp(s->family, s->src, 4000, s->dst, 443, 0);
    uint32_t len = small.len + s->payload, l4 = s->family == 4 ? 34 : 54;
    uint8_t *bytes = calloc(1, len), *l3 = bytes + 14;
    memcpy(bytes, small.bytes, small.len);
    if (s->family == 4) {
        store_be16(l3 + 2, (uint16_t)(len - 14));
        l3[6] = 0x40;
        checksum_write_ip4(l3);
    } else {
        store_be16(l3 + 4, (uint16_t)(len - 54));
    }
    if (s->protocol == IPPROTO_UDP4)
        store_be16(bytes + l4 + 4, (uint16_t)(len - l4));
    for (uint32_t i = small.len; i < len; i++)
        bytes[i] = (uint8_t)(i * 13);
    struct ip_addr src = ip(address_of(s->src, s->family)), dst = ip(address_of(s->dst, s->family));
    uint16_t at = s->protocol == IPPROTO_TCP4 ? 16 : 6;
    uint16_t sum = checksum_fold(checksum_pseudo(&src, &dst, s->protocol, len - l4));
    memcpy(bytes + l4 + at, &sum, 2);
    struct packet *p = fake_packet(f, bytes, len);
    free(bytes);
    p->csum = CSUM_PARTIAL;
    p->csum_start = (uint16_t)l4;
    p->csum_offset = at;
    p->gso_size = s->gso_size;
    p->gso_type = s->protocol == IPPROTO_UDP4 ? GSO_UDP : s->family == 4 ? GSO_TCP4 : GSO_TCP6;
    return p;
}

static void send_super(struct lab *l, const struct super *s)
{
    struct packet *p = super_packet(l->a, s);
    node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
}

// What a device does with an unfinished checksum of the whole, then: is it right?
static bool finishes_right(const struct fake_call *c, uint32_t skip, int family, uint8_t protocol)
{
    uint32_t l4 = skip + (family == 4 ? 34 : 54);
    assert_int_equal(c->meta.csum, CSUM_PARTIAL);
    assert_int_equal(c->meta.csum_start, l4);
    uint8_t *copy = malloc(c->len);
    memcpy(copy, c->frame, c->len);
    uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, copy + l4, c->len - l4));
    memcpy(copy + l4 + c->meta.csum_offset, &sum, 2);
    struct ip_addr src = family == 4 ? ip_from_v4(copy + skip + 26) : ip_from_v6(copy + skip + 22);
    struct ip_addr dst = family == 4 ? ip_from_v4(copy + skip + 30) : ip_from_v6(copy + skip + 38);
    uint64_t all = checksum_pseudo(&src, &dst, protocol, c->len - l4);
    bool right = checksum_fold(checksum_add(all, copy + l4, c->len - l4)) == 0xffff;
    free(copy);
    return right;
}

static void one_packet(void **state)
{
    static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4};
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 2; i++) {
            uint16_t size = (uint16_t)(MTU - (family == 4 ? 20 : 40) - (i ? 8 : 20));
            struct super s = {family, protocols[i], G, via(P, GATEWAY_MAC), 45 * (uint32_t)size, size};
            struct frame first = start(protocols[i], family, G, 4000, via(P, GATEWAY_MAC), 443);
            send_guest(l, &first);
            expect_underlay(l->a, NODE_B);
            if (!i) {
                struct frame answer = reply_to(&first, TCP_SYN | TCP_ACK);
                frame_set_mac(&answer, GUEST_MAC, PEER_MAC);
                receive_vpc(l, &answer);
                expect_deliver(l->a, l->g);
            }
            forget_counters(l->a);
            send_super(l, &s);
            const struct fake_call *c = expect_underlay(l->a, NODE_B);
            expect_counters(l->a, l->g, "out received=1 hits=1 sent=1");
            assert_int_equal(c->meta.gso_size, size);
            assert_int_equal(c->meta.encap_len, 70);
            assert_true(c->len > 60000);
            assert_true(finishes_right(c, 70, family, protocols[i]));
        }
    }
}

static void translated_once(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        uint16_t size = (uint16_t)(MTU - (family == 4 ? 28 : 48));
        struct super s = {family, IPPROTO_UDP4, G, via(OUTSIDE, GATEWAY_MAC), 40 * (uint32_t)size, size};
        struct frame first = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &first);
        struct frame out = expect_outside(l->a);
        uint16_t port = view_of(&out).sport;
        send_super(l, &s);
        const struct fake_call *c = fake_next(l->a);
        assert_non_null(c);
        assert_int_equal(c->kind, FAKE_EXTERNAL);
        assert_int_equal(c->meta.gso_type, GSO_UDP);
        assert_int_equal(load_be16(c->frame + (family == 4 ? 34 : 54)), port);
        assert_true(finishes_right(c, 0, family, IPPROTO_UDP4));
    }
}

static void segments_too_big(void **state)
{
    static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4};
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 2; i++) {
            struct frame first = start(protocols[i], family, G, 4000, via(P, GATEWAY_MAC), 443);
            send_guest(l, &first);
            expect_underlay(l->a, NODE_B);
            uint16_t size = (uint16_t)(MTU - (family == 4 ? 20 : 40) - (i ? 8 : 20) + 1);
            struct super s = {family, protocols[i], G, via(P, GATEWAY_MAC), 10 * (uint32_t)size, size};
            send_super(l, &s);
            struct frame e = expect_at(l->a, l->g);
            struct view v = view_of(&e);
            assert_int_equal(v.l4[0], family == 4 ? 3 : 2);
            assert_int_equal(family == 4 ? load_be16(v.l4 + 6) : load_be32(v.l4 + 4), MTU);
            assert_true(frame_checksums_right(e.bytes, e.len));
        }
    }
    assert_int_equal(drops(l->a, l->g, COUNT_OUT, DROP_TOO_BIG), 4);
}

// A SYN with an MSS option at `at` bytes into the options.
static struct frame syn(int family, struct end src, struct end dst, uint8_t flags, uint16_t mss, unsigned at)
{
    struct frame f = tcp(family, src, 4000, dst, 443, flags, 1, 0, 8);
    uint8_t *l4 = view_of(&f).l4;
    l4[12] = 0x70;
    memset(l4 + 20, 1, 8);
    l4[20 + at] = 2;
    l4[21 + at] = 4;
    store_be16(l4 + 22 + at, mss);
    frame_fix(&f);
    return f;
}

static uint16_t mss_of(struct frame *f, unsigned at)
{
    assert_true(frame_checksums_right(f->bytes, f->len));
    return load_be16(view_of(f).l4 + 22 + at);
}

static void mss(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        uint16_t most = family == 4 ? MTU - 40 : MTU - 60;
        for (unsigned at = 0; at <= 4; at++) { // odd places too
            for (unsigned answer = 0; answer < 2; answer++) {
                uint8_t flags = answer ? TCP_SYN | TCP_ACK : TCP_SYN;
                struct frame f = syn(family, G, via(P, GATEWAY_MAC), flags, 8960, at);
                send_guest(l, &f);
                struct frame out = expect_carried(l->a, NODE_B, 100);
                assert_int_equal(mss_of(&out, at), most);
                f = syn(family, P, G, flags, 1460, at);
                receive_vpc(l, &f);
                struct frame in = expect_at(l->a, l->g);
                assert_int_equal(mss_of(&in, at), most);
            }
            struct frame f = syn(family, G, via(P, GATEWAY_MAC), TCP_SYN, 536, at);
            send_guest(l, &f);
            struct frame out = expect_carried(l->a, NODE_B, 100);
            assert_int_equal(mss_of(&out, at), 536);
        }
        struct frame f = syn(family, G, via(P, GATEWAY_MAC), TCP_ACK, 8960, 0); // no SYN
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_int_equal(mss_of(&out, 0), 8960);
    }
}

static void mss_through_nat(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, G, via(OUTSIDE, GATEWAY_MAC), TCP_SYN, 8960, 1);
        send_guest(l, &f);
        struct frame out = expect_outside(l->a);
        assert_int_equal(mss_of(&out, 1), family == 4 ? MTU - 40 : MTU - 60);
        struct frame reply = reply_to(&out, TCP_SYN | TCP_ACK);
        store_be16(view_of(&reply).l4 + 23, 1460);
        frame_fix(&reply);
        from_outside(l->a, &reply);
        struct frame in = expect_at(l->a, l->g);
        assert_int_equal(mss_of(&in, 1), family == 4 ? MTU - 40 : MTU - 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T69 a super-frame is one lookup, one rewrite, one packet", one_packet),
        {"T69 a super-frame is translated once", translated_once, edge_setup, lab_teardown, NULL},
        TEST("T70 segments above the MTU are answered with too big", segments_too_big),
        TEST("O1 the MSS of a SYN is at most what fits", mss),
        {"O1 the MSS of a SYN is clamped through translation", mss_through_nat, edge_setup, lab_teardown, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
