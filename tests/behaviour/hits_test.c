// SPDX-License-Identifier: MPL-2.0
// The hit path: what it costs, and that it does what the layers said.
#include "core/internal.h"
#include "tests/behaviour/outside.h"

// ---- T87

struct counted {
    struct env real;
    unsigned calls;
};
static struct counted counted;

static void *count_alloc(void *ctx, size_t bytes)
{
    counted.calls++;
    return counted.real.alloc(ctx, bytes);
}

static void count_free(void *ctx, void *memory)
{
    counted.calls++;
    counted.real.free(ctx, memory);
}

static void count_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    counted.calls++;
    counted.real.defer(ctx, fn, arg, value);
}

static void count_lock(void *ctx, unsigned lock)
{
    counted.calls++;
    counted.real.lock(ctx, lock);
}

static void count_from_here(struct fake *f)
{
    struct env *env = &f->node->platform.env;
    counted = (struct counted){.real = *env};
    env->alloc = count_alloc;
    env->free = count_free;
    env->defer = count_defer;
    env->lock = count_lock;
}

static unsigned count_to_here(struct fake *f)
{
    f->node->platform.env = counted.real;
    return counted.calls;
}

static void expect_free(struct lab *l, const struct frame *out, const struct frame *in, bool outside)
{
    unsigned allocations = l->a->allocations;
    struct port_counters before, after;
    node_port_counters(l->a->node, l->g, &before);
    count_from_here(l->a);
    for (unsigned i = 0; i < 100; i++) {
        send_guest(l, out);
        if (outside)
            from_outside(l->a, in);
        else
            receive_vpc(l, in);
    }
    unsigned calls = count_to_here(l->a);
    assert_int_equal(calls, 0);
    assert_int_equal(l->a->allocations, allocations);
    node_port_counters(l->a->node, l->g, &after);
    assert_int_equal(after.hits[0] - before.hits[0], 100);
    assert_int_equal(after.hits[1] - before.hits[1], 100);
    assert_int_equal(after.sent[1] - before.sent[1], 100);
    fake_forget(l->a);
}

static void t87_hits(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame out = udp(family, G, 4000, via(P, GATEWAY_MAC), 53, 10),
                     in = udp(family, P, 53, via(G, GUEST_MAC), 4000, 10);
        send_guest(l, &out);
        receive_vpc(l, &in);
        fake_forget(l->a);
        expect_free(l, &out, &in, false);

        struct frame syn = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        struct frame answer = tcp(family, P, 80, via(G, GUEST_MAC), 4000, TCP_SYN | TCP_ACK, 500, 101, 0);
        out = tcp(family, G, 4000, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 501, 10);
        in = tcp(family, P, 80, via(G, GUEST_MAC), 4000, TCP_ACK, 501, 111, 10);
        send_guest(l, &syn);
        receive_vpc(l, &answer);
        send_guest(l, &out);
        receive_vpc(l, &in);
        fake_forget(l->a);
        expect_free(l, &out, &in, false);

        out = icmp_echo(family, G, via(P, GATEWAY_MAC), false, 7, 1, 20);
        in = icmp_echo(family, P, via(G, GUEST_MAC), true, 7, 1, 20);
        send_guest(l, &out);
        receive_vpc(l, &in);
        fake_forget(l->a);
        expect_free(l, &out, &in, false);
    }
}

static void t87_translated(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        struct frame out = expect_outside(l->a), in = reply_to(&out, 0);
        from_outside(l->a, &in);
        fake_forget(l->a);
        expect_free(l, &f, &in, true);
    }
}

// ---- composition: what the walk did to the first packet the flow does to the second, to the byte

static uint32_t draw(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

static void random_policy(struct lab *l, uint32_t *seed)
{
    struct draft *d = &l->guest;
    uint64_t generation = d->b.generation;
    draft_guest(d);
    d->b.generation = generation;
    d->b.firewall.default_in_allow = draw(seed, 2);
    d->b.firewall.default_out_allow = draw(seed, 4) > 0;
    d->b.vpc.mtu = 1280 + draw(seed, 200);
    for (unsigned i = draw(seed, 12); i > 0; i--) {
        static const uint16_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, PROTOCOL_ANY};
        struct blueprint_rule *r =
            draft_rule(d, "some", 100 + draw(seed, 4), draw(seed, 2) ? BLUEPRINT_IN : BLUEPRINT_OUT,
                       (uint8_t)draw(seed, 2), protocols[draw(seed, 3)]);
        uint16_t first = (uint16_t)draw(seed, 1000);
        rule_ports(d, r, first, (uint16_t)(first + draw(seed, 500)));
        if (draw(seed, 3) == 0)
            r->remote.kind = BLUEPRINT_REMOTE_VPC;
        else if (draw(seed, 2))
            rule_cidr(d, r, draw(seed, 2) ? "10.0.0.0/25" : "2001:db8::/32");
    }
    if (draw(seed, 2))
        give_floating(d, FLOATING, G);
    if (draw(seed, 2))
        give_floating(d, FLOATING_2, G);
    if (draw(seed, 2))
        give_snat(d, SHARED, 2000, 2999);
    if (draw(seed, 3) == 0) {
        draft_route(d, "10.0.0.4/32", BLUEPRINT_TARGET_IP, "10.0.0.5");
        draft_route(d, "fd00::4/128", BLUEPRINT_TARGET_IP, "fd00::5");
    }
    put(l->a, d);
}

static struct frame random_packet(uint32_t *seed, int family, struct end src, struct end dst)
{
    uint16_t sport = (uint16_t)draw(seed, 65536), dport = (uint16_t)draw(seed, 1500);
    struct frame f;
    switch (draw(seed, 5)) {
    case 0:
        f = tcp(family, src, sport, dst, dport, TCP_SYN, draw(seed, 1u << 24), 0, 4 * draw(seed, 300));
        break;
    case 1:
        f = tcp(family, src, sport, dst, dport, TCP_ACK | TCP_PSH, draw(seed, 1u << 24), draw(seed, 1u << 24),
                draw(seed, 1200));
        break;
    case 2:
        f = udp(family, src, sport, dst, dport, draw(seed, 1300));
        break;
    case 3:
        f = icmp_echo(family, src, dst, false, sport, dport, draw(seed, 1200));
        break;
    default:
        f = other(family, src, dst, 132 - 85, draw(seed, 100)); // GRE
        break;
    }
    struct view v = view_of(&f);
    v.l3[1] |= (uint8_t)(draw(seed, 16) << 4); // traffic class, part of it
    if (family == 4)
        store_be16(v.l3 + 4, (uint16_t)draw(seed, 65536));
    v.l3[family == 4 ? 8 : 7] = (uint8_t)(2 + draw(seed, 254));
    frame_fix(&f);
    return f;
}

// All that left since, in order: where to, and the bytes.
static unsigned outcome(struct fake *f, struct fake_call **calls)
{
    static struct fake_call list[8];
    unsigned n = 0;
    for (const struct fake_call *c; (c = fake_next(f)) && n < ARRAY_LEN(list);)
        if (!answer_question(f, c))
            list[n++] = *c;
    *calls = list;
    return n;
}

static void composition(void **state)
{
    struct lab *l = *state;
    uint32_t seed = 4242;
    unsigned compared = 0, dropped = 0;
    EACH_FAMILY(family)
    map(l->a, 100, address_of(Q, family), Q.mac, NODE_C, 1);
    for (unsigned policy = 0; policy < 60; policy++) {
        random_policy(l, &seed);
        for (unsigned i = 0; i < 60; i++) {
            int family = draw(&seed, 2) ? 4 : 6;
            const struct end far[] = {P, Q, OUTSIDE};
            unsigned way = draw(&seed, 3);
            struct end peer = far[draw(&seed, 3)];
            struct frame f = way == 0   ? random_packet(&seed, family, G, via(peer, GATEWAY_MAC))
                             : way == 1 ? random_packet(&seed, family, via(peer, PEER_MAC), via(G, GUEST_MAC))
                                        : random_packet(&seed, family, OUTSIDE, draw(&seed, 2) ? FLOATING : FLOATING_2);
            struct frame seen[2];
            enum fake_kind kind[2];
            unsigned came[2];
            struct port_counters before, after;
            for (unsigned round = 0; round < 2; round++) {
                node_port_counters(l->a->node, l->g, &before);
                if (way == 0)
                    send_guest(l, &f);
                else if (way == 1)
                    receive_vpc(l, &f);
                else
                    from_outside(l->a, &f);
                struct fake_call *calls;
                came[round] = outcome(l->a, &calls);
                assert_true(came[round] <= 1);
                if (!came[round])
                    continue;
                kind[round] = calls[0].kind;
                seen[round].len = calls[0].len;
                memcpy(seen[round].bytes, calls[0].frame, calls[0].len);
            }
            node_port_counters(l->a->node, l->g, &after);
            assert_int_equal(came[0], came[1]);
            dropped += !came[0];
            if (!came[0])
                continue;
            if (after.generated[COUNT_IN] == before.generated[COUNT_IN])
                assert_int_equal(after.hits[way != 0], before.hits[way != 0] + 1); // the second was a hit
            assert_int_equal(kind[0], kind[1]);
            assert_int_equal(seen[0].len, seen[1].len);
            assert_memory_equal(seen[0].bytes, seen[1].bytes, seen[0].len);
            uint32_t skip = kind[0] == FAKE_UNDERLAY ? GENEVE_ENCAP_LEN : 0;
            assert_true(frame_checksums_right(seen[0].bytes + skip, seen[0].len - skip));
            compared++;
        }
        struct node_error e;
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_advance(l->a, 1000);
        fake_quiesce(l->a);
        fake_forget(l->a);
    }
    assert_true(compared > 1000 && dropped > 300);
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T87 a hit takes no memory and no lock", t87_hits),
        EDGE_TEST("T87 a translated hit takes no memory and no lock", t87_translated),
        EDGE_TEST("the second packet of a flow leaves as the first, to the byte, whatever the policy", composition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
