// SPDX-License-Identifier: MPL-2.0
// Packets larger than the MTU (1430 in the lab): cut where IPv4 allows it, else their sender is told.
#include "tests/behaviour/pieces.h"

#define MTU 1430

static const struct end GATEWAY = {MAC_OF(1), "10.0.0.1", "fd00::1"};

static void set_df(struct frame *f)
{
    if (f->bytes[14] >> 4 != 4)
        return;
    f->bytes[20] |= 0x40;
    checksum_write_ip4(f->bytes + 14);
}

static struct frame big_udp(int family, struct end src, struct end dst, uint32_t ip_len)
{
    struct frame f = udp(family, src, 4000, dst, 9000, ip_len - 8 - (family == 4 ? 20 : 40));
    set_df(&f);
    return f;
}

// An ICMP "too big" from `from` to `to` that names the MTU and quotes f.
static void expect_told(struct frame *e, int family, struct end from, struct end to, uint32_t mtu,
                        const struct frame *f)
{
    assert_true(goes(e, family, from, to));
    struct view v = view_of(e);
    assert_int_equal(v.l4[0], family == 4 ? 3 : 2);
    assert_int_equal(v.l4[1], family == 4 ? 4 : 0);
    assert_int_equal(family == 4 ? load_be16(v.l4 + 6) : load_be32(v.l4 + 4), mtu);
    uint32_t quoted = e->len - (uint32_t)(v.l4 + 8 - e->bytes);
    assert_true(quoted >= (family == 4 ? 28 : 48));
    assert_true(e->len - 14 <= (family == 4 ? 576 : 1280));
    if (f)
        assert_memory_equal(v.l4 + 8, f->bytes + 14, quoted);
}

static void told(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame fits = big_udp(family, G, via(P, GATEWAY_MAC), MTU);
        struct frame f = big_udp(family, G, via(P, GATEWAY_MAC), MTU + 1);
        send_guest(l, &fits);
        expect_underlay(l->a, NODE_B);
        forget_counters(l->a);
        send_guest(l, &f);
        struct frame e = expect_at(l->a, l->g);
        expect_told(&e, family, GATEWAY, G, MTU, &f);
        expect_counters(l->a, l->g, "out received=1 hits=1 too-big=1 in generated=1");
    }
}

static void told_on_the_first(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame f = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_SYN, 1, 0, 1500);
        set_df(&f);
        send_guest(l, &f);
        struct frame e = expect_at(l->a, l->g);
        expect_told(&e, family, GATEWAY, G, MTU, &f);
    }
}

static void told_outward(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = big_udp(family, G, via(OUTSIDE, GATEWAY_MAC), 1500);
        send_guest(l, &f);
        struct frame e = expect_at(l->a, l->g);
        expect_told(&e, family, GATEWAY, G, MTU, &f); // quotes what the guest sent, not what it would have become
    }
}

static void told_seldom(void **state)
{
    struct lab *l = *state;
    unsigned answers = 0;
    struct frame f = big_udp(6, G, via(P, GATEWAY_MAC), 1500);
    for (unsigned i = 0; i < 1000; i++)
        send_guest(l, &f);
    while (fake_next(l->a))
        answers++;
    assert_int_equal(answers, 50);
    assert_int_equal(drops(l->a, l->g, COUNT_OUT, DROP_TOO_BIG), 1000);
    fake_advance(l->a, 100);
    for (unsigned i = 0; i < 100; i++)
        send_guest(l, &f);
    for (answers = 0; fake_next(l->a);)
        answers++;
    assert_int_equal(answers, 10);
}

// ---- Cut

struct large { // what no struct frame holds
    uint32_t len;
    uint8_t bytes[9100];
};

static struct large large_udp(struct end src, struct end dst, uint32_t ip_len)
{
    struct large f = {.len = 14 + ip_len};
    struct frame small = udp(4, src, 4000, dst, 9000, 8);
    memcpy(f.bytes, small.bytes, small.len);
    for (uint32_t i = small.len; i < f.len; i++)
        f.bytes[i] = (uint8_t)(i * 11);
    store_be16(f.bytes + 16, (uint16_t)ip_len);
    store_be16(f.bytes + 38, (uint16_t)(ip_len - 20));
    checksum_write_ip4(f.bytes + 14);
    struct ip_addr a = ip(src.v4), b = ip(dst.v4);
    checksum_write_l4(f.bytes + 34, ip_len - 20, &a, &b, IPPROTO_UDP4);
    return f;
}

// Puts the pieces that came together; asserts that each fits.
static struct large together(struct fake *f, enum fake_kind kind, uint32_t skip, uint32_t mtu, unsigned *n)
{
    struct large whole = {0};
    uint32_t bytes = 0;
    *n = 0;
    for (const struct fake_call *c = fake_next(f); c; c = fake_next(f), ++*n) {
        const uint8_t *p = c->frame + skip;
        assert_int_equal(c->kind, kind);
        assert_true(c->len - skip - 14 <= mtu);
        assert_int_equal(c->meta.csum, CSUM_FULL);
        assert_int_equal(checksum_fold(checksum_add(0, p + 14, 20)), 0xffff);
        uint16_t word = load_be16(p + 20);
        assert_int_equal(word & 0x2000 ? (c->len - skip - 34) % 8 : 0, 0);
        uint32_t at = 34 + (word & 0x1fffu) * 8;
        if (at == 34)
            memcpy(whole.bytes, p, 34);
        memcpy(whole.bytes + at, p + 34, c->len - skip - 34);
        bytes += c->len - skip - 34;
        if (!(word & 0x2000))
            whole.len = at + c->len - skip - 34;
    }
    assert_int_equal(whole.len, bytes + 34);
    store_be16(whole.bytes + 16, (uint16_t)(whole.len - 14));
    store_be16(whole.bytes + 20, 0);
    checksum_write_ip4(whole.bytes + 14);
    return whole;
}

static bool l4_right(const struct large *f)
{
    struct ip_addr src = ip_from_v4(f->bytes + 26), dst = ip_from_v4(f->bytes + 30);
    uint64_t sum = checksum_pseudo(&src, &dst, IPPROTO_UDP4, f->len - 34);
    return checksum_fold(checksum_add(sum, f->bytes + 34, f->len - 34)) == 0xffff;
}

static void is_cut(void **state)
{
    static const uint32_t sizes[] = {MTU + 1, 2000, 2836, 2837, 4000, 9000};
    struct lab *l = *state;
    unsigned n;
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
        struct large f = large_udp(G, via(P, GATEWAY_MAC), sizes[i]);
        fake_guest(l->a, l->g, f.bytes, f.len);
        struct large got = together(l->a, FAKE_UNDERLAY, GENEVE_ENCAP_LEN, MTU, &n);
        assert_int_equal(n, (sizes[i] - 20 + 1407) / 1408);
        assert_int_equal(got.len, f.len);
        assert_memory_equal(got.bytes + 14, f.bytes + 14, f.len - 14);
    }
    struct port_counters c;
    node_port_counters(l->a->node, l->g, &c);
    assert_int_equal(c.received[FLOW_OUT], ARRAY_LEN(sizes));
    assert_int_equal(c.sent[FLOW_OUT], ARRAY_LEN(sizes)); // the other pieces were made here
    assert_int_equal(c.generated[FLOW_OUT], 1 + 1 + 1 + 2 + 2 + 6);
}

static void cut_on_an_mtu_of_9000(void **state)
{
    struct lab *l = *state;
    unsigned n;
    l->guest.b.vpc.mtu = 8930;
    put(l->a, &l->guest);
    struct large f = large_udp(G, via(P, GATEWAY_MAC), 9000);
    fake_guest(l->a, l->g, f.bytes, f.len);
    struct large got = together(l->a, FAKE_UNDERLAY, GENEVE_ENCAP_LEN, 8930, &n);
    assert_memory_equal(got.bytes + 14, f.bytes + 14, f.len - 14);
}

static void cut_with_unfinished_checksum(void **state)
{
    struct lab *l = *state;
    unsigned n;
    struct large f = large_udp(G, via(P, GATEWAY_MAC), 3000);
    struct large right = f;
    struct ip_addr a = ip(G.v4), b = ip(P.v4);
    uint16_t sum = checksum_fold(checksum_pseudo(&a, &b, IPPROTO_UDP4, 2980));
    memcpy(f.bytes + 40, &sum, 2);
    struct packet *p = fake_packet(l->a, f.bytes, f.len);
    p->csum = CSUM_PARTIAL;
    p->csum_start = 34;
    p->csum_offset = 6;
    node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
    struct large got = together(l->a, FAKE_UNDERLAY, GENEVE_ENCAP_LEN, MTU, &n);
    assert_memory_equal(got.bytes + 14, right.bytes + 14, right.len - 14);
}

static void cut_fragment(void **state)
{
    struct lab *l = *state;
    unsigned n;
    struct large whole = large_udp(G, via(P, GATEWAY_MAC), 5020);
    for (unsigned i = 0; i < 2; i++) { // two fragments of 2,496 and 2,504 bytes
        struct large f = whole;
        f.len = 34 + (i ? 2504 : 2496);
        memcpy(f.bytes + 34, whole.bytes + 34 + i * 2496, f.len - 34);
        store_be16(f.bytes + 16, (uint16_t)(f.len - 14));
        store_be16(f.bytes + 20, i ? 2496 / 8 : 0x2000);
        checksum_write_ip4(f.bytes + 14);
        fake_guest(l->a, l->g, f.bytes, f.len);
    }
    struct large got = together(l->a, FAKE_UNDERLAY, GENEVE_ENCAP_LEN, MTU, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(got.bytes + 14, whole.bytes + 14, whole.len - 14);
}

static void not_cut(void **state)
{
    struct lab *l = *state;
    struct large f = large_udp(G, via(P, GATEWAY_MAC), 3000);
    l->a->fail_after = 0;
    fake_guest(l->a, l->g, f.bytes, f.len);
    l->a->fail_after = -1;
    expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MEMORY);
    l->a->fail_after = 1;
    fake_guest(l->a, l->g, f.bytes, f.len);
    l->a->fail_after = -1;
    expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MEMORY);
    assert_int_equal(l->a->live_packets, 0);

    struct frame options = udp(4, G, 4000, via(P, GATEWAY_MAC), 9000, 1500);
    memmove(options.bytes + 38, options.bytes + 34, options.len - 34);
    memset(options.bytes + 34, 1, 4); // no operation
    options.bytes[14] = 0x46;
    options.len += 4;
    store_be16(options.bytes + 16, (uint16_t)(options.len - 14));
    store_be16(options.bytes + 24, 0);
    uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, options.bytes + 14, 24));
    memcpy(options.bytes + 24, &sum, 2);
    send_guest(l, &options);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_TOO_BIG);
}

static void cut_on_the_way_in(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    l->guest.b.vpc.mtu = 1280;
    put(l->a, &l->guest);
    struct frame in = udp(4, P, 4000, G, 9000, 1300);
    unsigned n;
    receive_vpc(l, &in);
    struct large got = together(l->a, FAKE_DELIVER, 0, 1280, &n);
    assert_int_equal(n, 2);
    assert_true(l4_right(&got));
}

static void cut_between_ports(void **state)
{
    struct lab *l = *state;
    struct draft d;
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    allow_all_in(&d);
    uint32_t q = put(l->a, &d);
    map(l->a, 100, Q.v4, Q.mac, NODE_A, 1);
    struct large f = large_udp(G, via(Q, GATEWAY_MAC), 4000);
    unsigned n;
    fake_guest(l->a, l->g, f.bytes, f.len);
    struct large got = together(l->a, FAKE_DELIVER, 0, MTU, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(got.bytes + 14, f.bytes + 14, f.len - 14);
    assert_int_equal(only_flow(l->a, q).packets[FLOW_IN], 3);
}

static void cut_and_translated(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    struct frame know = udp(4, G, 1, via(OUTSIDE, GATEWAY_MAC), 1, 1);
    send_guest(l, &know);
    expect_outside(l->a);
    struct large f = large_udp(G, via(OUTSIDE, GATEWAY_MAC), 4000);
    unsigned n;
    fake_guest(l->a, l->g, f.bytes, f.len);
    struct large got = together(l->a, FAKE_EXTERNAL, 0, MTU, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(got.bytes + 26, ip(SHARED.v4).b + 12, 4);
    assert_true(load_be16(got.bytes + 34) >= 2000 && load_be16(got.bytes + 34) <= 2999);
    assert_true(l4_right(&got));
}

// ---- Inbound

static void outside_is_told(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame small = udp(family, OUTSIDE, 4000, FLOATING, 9000, 10);
        from_outside(l->a, &small);
        struct frame at = expect_at(l->a, l->g), answer = reply_to(&at, 0);
        send_guest(l, &answer);
        expect_outside(l->a);
        struct frame f = big_udp(family, OUTSIDE, FLOATING, 1500);
        forget_counters(l->a);
        from_outside(l->a, &f);
        struct frame e = expect_outside(l->a);
        expect_told(&e, family, FLOATING, OUTSIDE, MTU, &f);
        expect_counters(l->a, l->g, "out generated=1 in received=1 hits=1 too-big=1");
    }
}

static void peers_are_not_told(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = big_udp(family, P, G, 1500);
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_TOO_BIG);
    }
}

static void told_by_hairpin(void **state)
{
    struct lab *l = *state;
    struct draft d;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    draft_init(&d, 5, 100, Q.v4, Q.v6, Q.mac);
    give_floating(&d, FLOATING_2, Q);
    allow_all_in(&d);
    d.b.vpc.mtu = 1300;
    put(l->a, &d);
    EACH_FAMILY(family)
    {
        struct frame f = big_udp(family, G, via(FLOATING_2, GATEWAY_MAC), 1400);
        send_guest(l, &f);
        struct frame e = expect_at(l->a, l->g);
        expect_told(&e, family, FLOATING_2, G, 1300, NULL);
    }
}

static void outside_is_told_through_another_edge(void **state)
{
    struct node_config edge = edge_config(NODE_A), plain = lab_config(NODE_B);
    struct fake *a = fake_create(), *b = fake_create(), *nodes[] = {a, b};
    struct draft d;
    assert_true(fake_start(a, &edge) && fake_start(b, &plain));
    serve(a, 1, 1, &NODE_A);
    serve(b, 1, 1, &NODE_A);
    draft_guest(&d);
    give_floating(&d, FLOATING, G);
    allow_all_in(&d);
    put(b, &d);
    map_external(a, FLOATING, 0, 65535, NODE_B, 1);
    EACH_FAMILY(family)
    {
        struct frame f = big_udp(family, OUTSIDE, FLOATING, 1500);
        from_outside(a, &f);
        fake_pump(nodes, 2);
        struct frame e = expect_outside(a);
        expect_told(&e, family, FLOATING, OUTSIDE, MTU, &f);
        expect_nothing(b);
    }
    check_conservation(a);
    check_conservation(b);
    fake_destroy(a);
    fake_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T70 O1 a packet above the MTU is answered with too big", told),
        TEST("T70 O1 also when it would have opened its connection", told_on_the_first),
        {"T70 O1 also on the way out of the VPC", told_outward, edge_setup, lab_teardown, NULL},
        TEST("T70 O1 not more than 100 a second", told_seldom),
        TEST("T70 IPv4 without DF is cut", is_cut),
        TEST("T70 IPv4 is cut where pieces must fit a fresh packet", cut_on_an_mtu_of_9000),
        TEST("T70 a checksum left to the device is finished before the cut", cut_with_unfinished_checksum),
        TEST("T70 a fragment is cut again", cut_fragment),
        TEST("T70 without memory, or with IP options, nothing is cut", not_cut),
        TEST("T70 IPv4 without DF is cut on the way in", cut_on_the_way_in),
        TEST("T70 IPv4 without DF is cut between ports of a node", cut_between_ports),
        {"T70 what is cut is translated", cut_and_translated, edge_setup, lab_teardown, NULL},
        {"O1 a sender outside is told in the floating IP's name", outside_is_told, edge_setup, lab_teardown, NULL},
        TEST("O2 no too big goes back into the tunnel", peers_are_not_told),
        {"T58 O1 a neighbour is told by hairpin", told_by_hairpin, edge_setup, lab_teardown, NULL},
        {"O1 a sender outside is told through another node's edge", outside_is_told_through_another_edge, NULL, NULL,
         NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
