// SPDX-License-Identifier: MPL-2.0
// Rate limits, by the virtual clock: what is delivered, what is not, and whom it does not concern.
#include "tests/behaviour/lab.h"

#define SECOND 1000000000ull
#define BURST_50MS(bps) ((bps) / 8 / 20)

static const struct end OTHER = {MAC_OF(5), "10.0.0.5", "fd00::5"};

struct sum {
    uint64_t packets, bytes;
};

static struct sum delivered(struct fake *f, uint32_t port, int dir)
{
    struct port_counters c;
    node_port_counters(f->node, port, &c);
    return (struct sum){c.sent[dir], c.sent_bytes[dir]};
}

static struct sum since(struct fake *f, uint32_t port, int dir, struct sum was)
{
    struct sum now = delivered(f, port, dir);
    return (struct sum){now.packets - was.packets, now.bytes - was.bytes};
}

static void limit(struct lab *l, struct blueprint_qos qos)
{
    l->guest.b.qos = qos;
    l->g = put(l->a, &l->guest);
    fake_discard(l->a);
}

// A flow in both directions, so that packets of either are hits.
static void open_flow(struct lab *l, int family, uint16_t sport)
{
    struct frame out = udp(family, G, sport, P, 53, 10), in = udp(family, P, 53, G, sport, 10);
    send_guest(l, &out);
    receive_vpc(l, &in);
    fake_discard(l->a);
}

// Offers `f` each `gap` ns for so long. in: from the VPC.
static void offer(struct lab *l, const struct frame *f, bool in, uint64_t gap, uint64_t time)
{
    uint64_t end = l->a->now + time, tick = l->a->now;
    for (; l->a->now < end; l->a->now += gap) {
        if (l->a->now >= tick) {
            node_tick(l->a->node, 0, l->a->now, l->a->wall);
            tick += SECOND / 4;
        }
        if (l->a->n_calls > 64)
            fake_discard(l->a);
        if (in)
            receive_vpc(l, f);
        else
            send_guest(l, f);
    }
    fake_discard(l->a);
}

static void within(uint64_t value, uint64_t wanted, unsigned percent)
{
    assert_in_range(value, wanted - wanted * percent / 100, wanted + wanted * percent / 100);
}

static void t84_hundred_megabits(void **state)
{
    struct lab *l = *state;
    const uint64_t bps = 100000000;
    for (int family = 4; family <= 6; family += 2) {
        for (int in = 0; in < 2; in++) {
            int dir = in ? COUNT_IN : COUNT_OUT;
            limit(l, (struct blueprint_qos){0});
            open_flow(l, family, (uint16_t)(4000 + family));
            limit(l, in ? (struct blueprint_qos){.in_bps = bps} : (struct blueprint_qos){.out_bps = bps});
            struct frame f = in ? udp(family, P, 53, G, (uint16_t)(4000 + family), 1200)
                                : udp(family, G, (uint16_t)(4000 + family), P, 53, 1200);
            struct sum was = delivered(l->a, l->g, dir);
            uint64_t refused = drops(l->a, l->g, dir, DROP_RATE_LIMITED), offered = 10 * SECOND / 50000;
            offer(l, &f, in, 50000, 10 * SECOND); // 200 Mbit/s
            struct sum got = since(l->a, l->g, dir, was);
            within(got.bytes, bps / 8 * 10, 2);
            assert_true(got.bytes <= bps / 8 * 10 + BURST_50MS(bps)); // never more than the burst above
            assert_int_equal(got.packets + drops(l->a, l->g, dir, DROP_RATE_LIMITED) - refused, offered);
        }
    }
}

static void t84_burst(void **state)
{
    struct lab *l = *state;
    open_flow(l, 4, 4000);
    limit(l, (struct blueprint_qos){.out_bps = 100000000});
    l->a->now += SECOND;
    struct frame f = udp(4, G, 4000, P, 53, 1200);
    struct sum was = delivered(l->a, l->g, COUNT_OUT);
    for (unsigned i = 0; i < 2000; i++) { // all at once
        send_guest(l, &f);
        fake_discard(l->a);
    }
    struct sum got = since(l->a, l->g, COUNT_OUT, was);
    assert_int_equal(got.packets, BURST_50MS(100000000) / f.len);
    // After silence, however long, there is one burst again.
    fake_advance(l->a, 100000);
    was = delivered(l->a, l->g, COUNT_OUT);
    for (unsigned i = 0; i < 2000; i++) {
        send_guest(l, &f);
        fake_discard(l->a);
    }
    assert_in_range(since(l->a, l->g, COUNT_OUT, was).bytes, BURST_50MS(100000000) - f.len, BURST_50MS(100000000));
    fake_discard(l->a);
}

// At 64 kbit/s 50 ms are 400 bytes: a packet of any size still fits the bucket.
static void t84_slow_port_and_super_frame(void **state)
{
    struct lab *l = *state;
    limit(l, (struct blueprint_qos){.out_bps = 64000});
    struct frame first = tcp(4, G, 4000, P, 80, TCP_SYN, 1, 0, 0),
                 answer = tcp(4, P, 80, G, 4000, TCP_SYN | TCP_ACK, 9, 2, 0);
    struct frame ack = tcp(4, G, 4000, P, 80, TCP_ACK, 2, 10, 0);
    send_guest(l, &first);
    receive_vpc(l, &answer);
    send_guest(l, &ack);
    fake_discard(l->a);
    fake_advance(l->a, 10000);
    static uint8_t bytes[65535 + 14];
    struct frame head = tcp(4, G, 4000, P, 80, TCP_ACK, 2, 10, 0);
    memcpy(bytes, head.bytes, head.len);
    store_be16(bytes + 16, 65535);
    store_be16(bytes + 24, 0);
    store_be16(bytes + 24, (uint16_t)~checksum_fold(checksum_add(0, bytes + 14, 20)));
    for (unsigned i = 0; i < 2; i++) {
        struct packet *p = fake_packet(l->a, bytes, sizeof(bytes));
        p->gso_type = GSO_TCP4;
        p->gso_size = 1360;
        p->csum = CSUM_PARTIAL;
        p->csum_start = 34;
        p->csum_offset = 16;
        node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
        if (i == 0)
            expect_underlay(l->a, NODE_B);
        else
            expect_drop(l->a, l->g, COUNT_OUT, DROP_RATE_LIMITED);
    }
}

static void t84_packets_per_second(void **state)
{
    struct lab *l = *state;
    open_flow(l, 4, 4000);
    limit(l, (struct blueprint_qos){.pps = 10000});
    struct frame out = udp(4, G, 4000, P, 53, 10), in = udp(4, P, 53, G, 4000, 10);
    struct sum was_out = delivered(l->a, l->g, COUNT_OUT), was_in = delivered(l->a, l->g, COUNT_IN);
    for (uint64_t end = l->a->now + 5 * SECOND; l->a->now < end; l->a->now += 25000) {
        send_guest(l, &out); // each direction has a bucket of its own
        receive_vpc(l, &in);
        if (l->a->n_calls > 64)
            fake_discard(l->a);
    }
    within(since(l->a, l->g, COUNT_OUT, was_out).packets, 50000, 2);
    within(since(l->a, l->g, COUNT_IN, was_in).packets, 50000, 2);
    fake_discard(l->a);
}

static void t84_new_connections(void **state)
{
    struct lab *l = *state;
    open_flow(l, 4, 999);
    limit(l, (struct blueprint_qos){.new_per_s = 100});
    forget_counters(l->a);
    struct frame known = udp(4, G, 999, P, 53, 10);
    unsigned opened = 0, refused = 0;
    for (unsigned i = 0; i < 1000; i++, l->a->now += SECOND / 1000) {
        struct frame f = udp(4, G, (uint16_t)(10000 + i), P, 53, 10);
        send_guest(l, &f);
        if (fake_next(l->a))
            opened++;
        else
            refused++;
        send_guest(l, &known); // a connection that is there is not concerned
        expect_underlay(l->a, NODE_B);
    }
    assert_in_range(opened, 100, 100 + 16);
    assert_int_equal(drops(l->a, l->g, COUNT_OUT, DROP_RATE_NEW), refused);
    assert_int_equal(flows(l->a, l->g), opened + 1); // what is refused makes no state
}

static void t84_other_ports(void **state)
{
    struct lab *l = *state;
    struct draft second;
    draft_init(&second, 5, 100, OTHER.v4, OTHER.v6, OTHER.mac);
    uint32_t h = put(l->a, &second);
    open_flow(l, 4, 4000);
    limit(l, (struct blueprint_qos){.out_bps = 1000000, .in_bps = 1000000, .pps = 100, .new_per_s = 1});
    struct frame noisy = udp(4, G, 4000, P, 53, 1200), other = udp(4, OTHER, 4000, P, 53, 1200);
    forget_counters(l->a);
    for (unsigned i = 0; i < 1000; i++) {
        send_guest(l, &noisy);
        fake_guest(l->a, h, other.bytes, other.len);
    }
    expect_counters(l->a, h, "out received=1000 hits=999 misses=1 sent=1000");
    assert_true(drops(l->a, l->g, COUNT_OUT, DROP_RATE_LIMITED) > 900);
    // The limit is lifted by the next blueprint, at once.
    limit(l, (struct blueprint_qos){0});
    send_guest(l, &noisy);
    expect_underlay(l->a, NODE_B);
}

// What is refused or answered here does not use up what the port may send.
static void t84_denied_costs_nothing(void **state)
{
    struct lab *l = *state;
    struct blueprint_rule *r = draft_rule(&l->guest, "no-smtp", 10, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 25, 25);
    limit(l, (struct blueprint_qos){.pps = 1, .new_per_s = 1});
    l->a->now += SECOND;
    for (unsigned i = 0; i < 200; i++) {
        struct frame f = tcp(4, G, (uint16_t)(2000 + i), P, 25, TCP_SYN, 1, 0, 0);
        send_guest(l, &f);
    }
    assert_int_equal(drops(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY), 200);
    for (unsigned i = 0; i < 16; i++) {
        struct frame f = udp(4, G, (uint16_t)(2000 + i), P, 53, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_B);
    }
    struct frame arp = arp_request(GUEST_MAC, "10.0.0.3", "10.0.0.1");
    for (unsigned i = 0; i < 200; i++) {
        send_guest(l, &arp);
        expect_deliver(l->a, l->g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T84 at 100 Mbit/s 100 % are delivered, give or take 2, in each direction", t84_hundred_megabits),
        TEST("T84 a burst is 50 ms worth, also after long silence", t84_burst),
        TEST("T84 a slow port sends a super-frame of 64 KB, then waits", t84_slow_port_and_super_frame),
        TEST("T84 packets per second are limited in each direction", t84_packets_per_second),
        TEST("T84 new connections per second are limited, others go on", t84_new_connections),
        TEST("T84 other ports are unaffected, and a limit can be lifted", t84_other_ports),
        TEST("T84 what is refused or answered costs the port nothing", t84_denied_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
