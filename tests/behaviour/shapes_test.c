// SPDX-License-Identifier: MPL-2.0
// Packet shapes: what passes unchanged, and what is refused for its shape.
#include "tests/behaviour/lab.h"

static const struct end BEYOND = {MAC_OF(9), "10.0.9.9", "fd00:0:0:9::9"}; // another subnet of the VPC

static void open_in(struct lab *l)
{
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    map(l->a, 100, BEYOND.v4, BEYOND.mac, NODE_C, 1);
    map(l->a, 100, BEYOND.v6, BEYOND.mac, NODE_C, 1);
    fake_forget(l->a);
    forget_counters(l->a);
}

// Puts bytes behind the IPv4 or IPv6 header, and makes lengths, protocol and checksums right.
static struct frame insert(struct frame f, const void *bytes, uint32_t n, uint8_t first)
{
    bool v4 = f.bytes[14] >> 4 == 4;
    uint32_t at = v4 ? 34 : 54;
    memmove(f.bytes + at + n, f.bytes + at, f.len - at);
    memcpy(f.bytes + at, bytes, n);
    f.len += n;
    if (v4) {
        f.bytes[14] = (uint8_t)(0x40 | (20 + n) / 4);
        store_be16(f.bytes + 16, (uint16_t)(f.len - 14));
        store_be16(f.bytes + 24, 0);
        uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, f.bytes + 14, 20 + n));
        memcpy(f.bytes + 24, &sum, 2);
        return f;
    }
    f.bytes[20] = first;
    store_be16(f.bytes + 18, (uint16_t)(f.len - 54));
    return f;
}

static void both_ways(struct lab *l, const struct frame *out, const struct frame *in)
{
    send_guest(l, out);
    expect_inner(expect_underlay(l->a, NODE_B), *out, PEER_MAC, GUEST_MAC);
    receive_vpc(l, in);
    expect_same_frame(expect_deliver(l->a, l->g), in);
}

static void t65_options(void **state)
{
    struct lab *l = *state;
    open_in(l);
    static const uint8_t alert[] = {148, 4, 0, 0}, record[] = {7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t padded[] = {1, 1, 148, 4, 0, 0, 0, 0};
    static const struct {
        const uint8_t *bytes;
        uint32_t n;
    } some[] = {{alert, 4}, {record, 12}, {padded, 8}};
    for (unsigned i = 0; i < ARRAY_LEN(some); i++) {
        struct frame out = insert(udp(4, G, 1000, via(P, GATEWAY_MAC), 53, 30), some[i].bytes, some[i].n, 0);
        struct frame in = insert(udp(4, P, 53, G, 1000, 30), some[i].bytes, some[i].n, 0);
        both_ways(l, &out, &in);
    }
    assert_int_equal(flows(l->a, l->g), 1); // options are no part of a flow
    expect_counters(l->a, l->g, "out received=3 hits=2 misses=1 sent=3 in received=3 hits=3 sent=3");
}

struct refusal {
    struct frame frame;
    enum drop reason;
};

// Each as it would be from either side.
static void refused_both_ways(struct lab *l, struct refusal *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct frame f = list[i].frame;
        frame_set_mac(&f, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, list[i].reason);
        frame_set_mac(&f, GUEST_MAC, PEER_MAC);
        receive_vpc(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, list[i].reason);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static struct frame changed(struct frame f, uint32_t at, uint8_t value)
{
    f.bytes[at] = value;
    if (f.bytes[14] >> 4 == 4 && (f.bytes[14] & 15) >= 5) {
        store_be16(f.bytes + 24, 0);
        uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, f.bytes + 14, (f.bytes[14] & 15) * 4u));
        memcpy(f.bytes + 24, &sum, 2);
    }
    return f;
}

static void t65_bad_headers(void **state)
{
    struct lab *l = *state;
    open_in(l);
    struct frame v4 = udp(4, G, 1000, P, 53, 30), v6 = udp(6, G, 1000, P, 53, 30);
    struct frame sum = v4;
    sum.bytes[24] ^= 1;
    struct refusal list[] = {
        {changed(v4, 14, 0x44), DROP_BAD_IP_HEADER},
        {changed(v4, 14, 0x40), DROP_BAD_IP_HEADER},
        {changed(v4, 14, 0x65), DROP_BAD_IP_HEADER},
        {changed(v4, 17, 12), DROP_BAD_IP_HEADER}, // total length below the header's
        {changed(v4, 16, 0x10), DROP_TRUNCATED},   // and beyond the frame
        {changed(v6, 18, 0x10), DROP_TRUNCATED},
        {changed(v6, 14, 0x40), DROP_BAD_IP_HEADER},
        {sum, DROP_BAD_IP_CHECKSUM},
        {insert(v4, (uint8_t[]){131, 7, 4, 1, 2, 3, 4, 0}, 8, 0), DROP_SOURCE_ROUTE},
        {insert(v4, (uint8_t[]){137, 7, 4, 1, 2, 3, 4, 0}, 8, 0), DROP_SOURCE_ROUTE},
        {insert(v4, (uint8_t[]){7, 0, 4, 0}, 4, 0), DROP_BAD_IP_HEADER},
        {insert(v4, (uint8_t[]){7, 9, 4, 0}, 4, 0), DROP_BAD_IP_HEADER},
        {insert(v6, (uint8_t[24]){17, 2, 0, 1}, 24, 43), DROP_SOURCE_ROUTE},
    };
    refused_both_ways(l, list, ARRAY_LEN(list));
}

static void t66_chains(void **state)
{
    struct lab *l = *state;
    rule_ports(&l->guest, draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_UDP4), 1000, 1000);
    put(l->a, &l->guest);
    // Hop-by-hop, then destination options.
    static const uint8_t chain[] = {60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0};
    struct frame out = insert(udp(6, G, 1000, via(P, GATEWAY_MAC), 53, 30), chain, 16, 0);
    struct frame in = insert(udp(6, P, 53, G, 1000, 30), chain, 16, 0);
    receive_vpc(l, &in); // the rule names the port: it was found behind the chain
    expect_same_frame(expect_deliver(l->a, l->g), &in);
    send_guest(l, &out);
    expect_inner(expect_underlay(l->a, NODE_B), out, PEER_MAC, GUEST_MAC);
    struct frame plain = udp(6, P, 53, G, 1000, 30); // the same flow without them
    receive_vpc(l, &plain);
    expect_deliver(l->a, l->g);
    expect_counters(l->a, l->g, "out received=1 hits=1 sent=1 in received=2 hits=1 misses=1 sent=2");
    struct frame closed = insert(udp(6, P, 53, G, 1001, 30), chain, 16, 0);
    receive_vpc(l, &closed);
    expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
}

static void t66_bad_chains(void **state)
{
    struct lab *l = *state;
    open_in(l);
    struct frame v6 = udp(6, G, 1000, P, 53, 30);
    uint8_t nine[72];
    for (unsigned i = 0; i < 9; i++)
        memcpy(nine + 8 * i, (uint8_t[]){i == 8 ? 17 : 60, 0, 1, 4, 0, 0, 0, 0}, 8);
    struct refusal list[] = {
        {insert(v6, nine, 72, 60), DROP_IP6_EXT_CHAIN},
        {insert(v6, (uint8_t[]){17, 255, 1, 4, 0, 0, 0, 0}, 8, 60), DROP_IP6_EXT_CHAIN}, // runs past the end
        {insert(v6, (uint8_t[16]){0, 0, 1, 4, [8] = 17, [10] = 1, [11] = 4}, 16, 60), DROP_IP6_EXT_CHAIN}, // HBH second
    };
    refused_both_ways(l, list, ARRAY_LEN(list));
    struct frame eight = insert(udp(6, G, 1000, via(P, GATEWAY_MAC), 53, 30), nine + 8, 64, 60);
    send_guest(l, &eight);
    expect_inner(expect_underlay(l->a, NODE_B), eight, PEER_MAC, GUEST_MAC);
}

// No next header, and ESP behind a chain: flows of three parts.
static void t66_no_next_header(void **state)
{
    struct lab *l = *state;
    static const uint8_t options[] = {50, 0, 1, 4, 0, 0, 0, 0};
    struct frame out[] = {other(6, G, via(P, GATEWAY_MAC), 59, 0), other(6, G, via(P, GATEWAY_MAC), 59, 40),
                          insert(other(6, G, via(P, GATEWAY_MAC), 50, 40), options, 8, 60)};
    struct frame in[] = {other(6, P, G, 59, 40), other(6, P, G, 59, 0), other(6, P, G, 50, 60)};
    for (unsigned i = 0; i < 3; i++)
        both_ways(l, &out[i], &in[i]);
    assert_int_equal(flows(l->a, l->g), 2);
}

static void t67_zero_checksum(void **state)
{
    struct lab *l = *state;
    open_in(l);
    for (int family = 4; family <= 6; family += 2) {
        struct frame out = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 30), in = udp(family, P, 53, G, 1000, 30);
        store_be16(out.bytes + (family == 4 ? 40 : 60), 0);
        store_be16(in.bytes + (family == 4 ? 40 : 60), 0);
        both_ways(l, &out, &in);
        both_ways(l, &out, &in);
        struct frame far = udp(family, G, 1000, via(BEYOND, GATEWAY_MAC), 53, 30); // routed: TTL and MACs change
        store_be16(far.bytes + (family == 4 ? 40 : 60), 0);
        send_guest(l, &far);
        uint32_t len;
        const uint8_t *inner = inner_of(expect_underlay(l->a, NODE_C), &len);
        assert_int_equal(load_be16(inner + (family == 4 ? 40 : 60)), 0);
    }
}

// ---- T72

static uint32_t draw(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return (uint32_t)((*s * 0x2545f4914f6cdd1dull) >> 32);
}

// Everything that no rule covers gets random content; the checksum too, for nobody here may mend it.
static struct frame noisy(struct frame f, uint64_t *s)
{
    bool v4 = f.bytes[14] >> 4 == 4;
    uint32_t l4 = v4 ? 34 : 54;
    if (v4) {
        f.bytes[15] = (uint8_t)draw(s);
        store_be16(f.bytes + 18, (uint16_t)draw(s));
        f.bytes[20] = draw(s) & 1 ? 0x40 : 0;
        f.bytes[22] = (uint8_t)(2 + draw(s) % 250);
    } else {
        store_be32(f.bytes + 14, 0x60000000 | (draw(s) & 0xfffffff));
        f.bytes[21] = (uint8_t)(2 + draw(s) % 250);
    }
    for (uint32_t i = l4 + 14; i < f.len; i++)
        f.bytes[i] = (uint8_t)draw(s);
    if (v4)
        f = changed(f, 15, f.bytes[15]);
    return f;
}

static void expect_outer_tos(const struct fake_call *c, const struct frame *f)
{
    uint8_t inner = f->bytes[14] >> 4 == 4 ? f->bytes[15] : (uint8_t)(load_be16(f->bytes + 14) >> 4);
    assert_int_equal((uint8_t)(load_be16(c->frame + 14) >> 4), inner); // RFC 6040 section 4.1, normal mode
}

static void t72_pass_through(void **state)
{
    struct lab *l = *state;
    uint64_t s = 0x9e3779b97f4a7c15ull;
    open_in(l);
    for (unsigned i = 0; i < 2000; i++) {
        int family = i & 1 ? 4 : 6;
        uint16_t sport = (uint16_t)(4000 + draw(&s) % 16);
        uint32_t payload = draw(&s) % 1200;
        struct frame out, in;
        if (draw(&s) & 1) {
            out = noisy(tcp(family, G, sport, via(P, GATEWAY_MAC), 80, TCP_ACK, draw(&s), draw(&s), payload + 40), &s);
            in = noisy(tcp(family, P, 80, G, sport, TCP_ACK, draw(&s), draw(&s), payload), &s);
            out.bytes[family == 4 ? 46 : 66] = (uint8_t)(5 + draw(&s) % 11) << 4; // options of up to 40 bytes
        } else {
            out = udp(family, G, sport, via(P, GATEWAY_MAC), 80, payload + 8);
            in = udp(family, P, 80, G, sport, payload + 8);
            for (uint32_t k = family == 4 ? 40 : 60; k < in.len; k++)
                in.bytes[k] = (uint8_t)draw(&s);
        }
        send_guest(l, &out);
        const struct fake_call *c = expect_underlay(l->a, NODE_B);
        expect_inner(c, out, PEER_MAC, GUEST_MAC);
        expect_outer_tos(c, &out);
        receive_vpc(l, &in);
        expect_same_frame(expect_deliver(l->a, l->g), &in);
    }
    assert_true(flows(l->a, l->g) <= 64);
}

// Between subnets: one hop less and the gateway's MAC, nothing else.
static void t72_routed(void **state)
{
    struct lab *l = *state;
    uint64_t s = 77;
    open_in(l);
    for (unsigned i = 0; i < 500; i++) {
        int family = i & 1 ? 4 : 6;
        struct frame out = noisy(tcp(family, G, 4000, via(BEYOND, GATEWAY_MAC), 80, TCP_ACK, 1, 1, draw(&s) % 500), &s);
        out.bytes[family == 4 ? 46 : 66] = 0x50;
        send_guest(l, &out);
        const struct fake_call *c = expect_underlay(l->a, NODE_C);
        uint32_t ttl = family == 4 ? 22 : 21;
        expect_inner(c, changed(out, ttl, (uint8_t)(out.bytes[ttl] - 1)), BEYOND.mac, GATEWAY_MAC);
        struct frame in = noisy(udp(family, BEYOND, 80, G, 4000, 40), &s);
        store_be16(in.bytes + (family == 4 ? 38 : 58), 48);
        receive_vpc(l, &in); // the sender's node took the hop; the guest sees its gateway
        c = expect_deliver(l->a, l->g);
        frame_set_mac(&in, GUEST_MAC, GATEWAY_MAC);
        expect_same_frame(c, &in);
    }
}

static void t72_mss(void **state)
{
    struct lab *l = *state;
    open_in(l);
    static const uint16_t offered[] = {536, 1370, 1390, 1391, 1460, 8960};
    for (int family = 4; family <= 6; family += 2) {
        uint16_t limit = family == 4 ? 1390 : 1370;
        for (unsigned i = 0; i < ARRAY_LEN(offered); i++) {
            for (int at = 0; at < 3; at++) { // the option at an even or odd place
                struct frame out =
                    tcp(family, G, (uint16_t)(4000 + 10 * i + at), via(P, GATEWAY_MAC), 80, TCP_SYN, 1, 0, 8);
                uint8_t *tcp_header = out.bytes + (family == 4 ? 34 : 54);
                tcp_header[12] = 0x70;
                memset(tcp_header + 20, 1, 8);
                memcpy(tcp_header + 20 + at, (uint8_t[]){2, 4, (uint8_t)(offered[i] >> 8), (uint8_t)offered[i]}, 4);
                frame_fix(&out);
                send_guest(l, &out);
                const struct fake_call *c = expect_underlay(l->a, NODE_B);
                store_be16(tcp_header + 20 + at + 2, MIN(offered[i], limit));
                frame_fix(&out);
                expect_inner(c, out, PEER_MAC, GUEST_MAC);
            }
        }
    }
}

// RFC 6040 section 4.2, figure 4, for every pair of marks, within one flow.
static void t72_ecn(void **state)
{
    struct lab *l = *state;
    open_in(l);
    static const int figure[4][4] = {{0, 0, 0, -1}, {1, 1, 1, 3}, {2, 1, 2, 3}, {3, 3, 3, 3}}; // [inner][outer]
    for (int family = 4; family <= 6; family += 2) {
        for (unsigned inner = 0; inner < 4; inner++) {
            for (unsigned outer = 0; outer < 4; outer++) {
                struct frame in = udp(family, P, 80, G, 4000, 40), want = in;
                uint32_t at = 15;
                uint8_t shift = family == 4 ? 0 : 4;
                in = changed(in, at, (uint8_t)((0x2c >> (family == 4 ? 0 : 8) & 0xfc) | inner << shift));
                struct frame f = in_geneve(&in, 100, NODE_B, NODE_A);
                f.bytes[15] = (uint8_t)((f.bytes[15] & 0xcf) | outer << 4);
                forget_counters(l->a);
                fake_underlay(l->a, f.bytes, f.len);
                if (figure[inner][outer] < 0) {
                    expect_nothing(l->a);
                    expect_node_counters(l->a, "received=1 ecn=1");
                    continue;
                }
                uint8_t kept = (uint8_t)(in.bytes[15] & ~(3u << shift));
                want = changed(in, at, (uint8_t)(kept | (unsigned)figure[inner][outer] << shift));
                expect_same_frame(expect_deliver(l->a, l->g), &want);
            }
        }
    }
    assert_int_equal(flows(l->a, l->g), 2);
}

// ---- T73

static void t73_foreign_frames(void **state)
{
    struct lab *l = *state;
    open_in(l);
    struct frame base = udp(4, G, 1000, P, 53, 60), tagged = base, double_tagged = base, llc = base, unknown = base;
    struct frame jumbo4 = udp(4, G, 1000, P, 53, 1500), jumbo6 = udp(6, G, 1000, P, 53, 1500);
    store_be16(tagged.bytes + 12, ETHERTYPE_VLAN);
    store_be16(double_tagged.bytes + 12, ETHERTYPE_QINQ);
    store_be16(llc.bytes + 12, 0x0100); // 802.3: a length
    store_be16(unknown.bytes + 12, 0x88cc);
    struct refusal list[] = {{tagged, DROP_VLAN_TAGGED},
                             {double_tagged, DROP_VLAN_TAGGED},
                             {llc, DROP_BAD_ETHERTYPE},
                             {unknown, DROP_BAD_ETHERTYPE}};
    refused_both_ways(l, list, ARRAY_LEN(list));
    jumbo4 = udp(4, P, 1000, G, 53, 1500);
    jumbo4.bytes[20] = 0x40; // without DF it would be cut (T70)
    frame_fix(&jumbo4);
    receive_vpc(l, &jumbo4);
    expect_drop(l->a, l->g, COUNT_IN, DROP_TOO_BIG);
    jumbo6 = udp(6, P, 1000, G, 53, 1500);
    receive_vpc(l, &jumbo6);
    expect_drop(l->a, l->g, COUNT_IN, DROP_TOO_BIG);
    struct frame exact4 = udp(4, G, 1000, via(P, GATEWAY_MAC), 54, 1430 - 28);
    struct frame exact6 = udp(6, G, 1000, via(P, GATEWAY_MAC), 54, 1430 - 48);
    send_guest(l, &exact4);
    expect_inner(expect_underlay(l->a, NODE_B), exact4, PEER_MAC, GUEST_MAC);
    send_guest(l, &exact6);
    expect_inner(expect_underlay(l->a, NODE_B), exact6, PEER_MAC, GUEST_MAC);
}

// ---- T91

static struct frame dying(int family, uint16_t sport, uint8_t ttl)
{
    return changed(udp(family, G, sport, via(BEYOND, GATEWAY_MAC), 33434, 40), family == 4 ? 22 : 21, ttl);
}

static void t91_one_hop(void **state)
{
    struct lab *l = *state;
    open_in(l);
    for (int family = 4; family <= 6; family += 2) {
        for (int known = 0; known < 2; known++) { // the flow may be there already
            struct frame f = dying(family, 1000, 1);
            send_guest(l, &f);
            const struct fake_call *c = expect_deliver(l->a, l->g);
            uint32_t l4 = family == 4 ? 34 : 54;
            assert_memory_equal(c->frame, GUEST_MAC.b, 6);
            assert_memory_equal(c->frame + 6, GATEWAY_MAC.b, 6);
            assert_int_equal(c->frame[l4], family == 4 ? 11 : 3);
            assert_int_equal(c->frame[l4 + 1], 0);
            assert_memory_equal(c->frame + (family == 4 ? 26 : 22),
                                family == 4 ? ip("10.0.0.1").b + 12 : ip("fd00::1").b, family == 4 ? 4 : 16);
            assert_memory_equal(c->frame + l4 + 8, f.bytes + 14, f.len - 14);
            assert_true(frame_checksums_right(c->frame, c->len));
            expect_counters(l->a, l->g,
                            known ? "out received=1 hits=1 ttl-expired=1 in generated=1"
                                  : "out received=1 misses=1 ttl-expired=1 in generated=1");
        }
        struct frame second = dying(family, 1000, 2); // the next hop is the destination's: traceroute shows one router
        send_guest(l, &second);
        uint32_t len;
        assert_int_equal(inner_of(expect_underlay(l->a, NODE_C), &len)[family == 4 ? 22 : 21], 1);
        struct frame near = changed(udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 4), family == 4 ? 22 : 21, 1);
        send_guest(l, &near); // within the subnet there is no router
        expect_inner(expect_underlay(l->a, NODE_B), near, PEER_MAC, GUEST_MAC);
        forget_counters(l->a);
    }
}

static void t91_rate(void **state)
{
    struct lab *l = *state;
    open_in(l);
    const struct end gw = {MAC_OF(1), "10.0.0.1", "fd00::1"};
    for (int family = 4; family <= 6; family += 2) {
        struct frame f = dying(family, 1000, 1), echo = icmp_echo(family, G, gw, false, 1, 1, 10);
        for (unsigned i = 0; i < 80; i++)
            send_guest(l, &f);
        expect_counters(l->a, l->g, "out received=80 hits=79 misses=1 ttl-expired=80 in generated=50");
        fake_forget(l->a);
        for (unsigned i = 0; i < 20; i++)
            send_guest(l, &echo);
        expect_counters(l->a, l->g, "out received=20 misses=20 rate-icmp=20");
        expect_nothing(l->a);
        pass_time(l->a, 200); // 20 more by now
        for (unsigned i = 0; i < 30; i++)
            send_guest(l, &echo);
        expect_counters(l->a, l->g, "out received=30 misses=30 answered=20 rate-icmp=10 in generated=20");
        fake_forget(l->a);
        pass_time(l->a, 10000); // never more than the burst
        for (unsigned i = 0; i < 60; i++)
            send_guest(l, &echo);
        expect_counters(l->a, l->g, "out received=60 misses=60 answered=50 rate-icmp=10 in generated=50");
        fake_forget(l->a);
        pass_time(l->a, 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T65 IPv4 options pass unchanged", t65_options),
        TEST("T65 T91 impossible IP headers and source routes are dropped", t65_bad_headers),
        TEST("T66 the L4 header is found behind a chain", t66_chains),
        TEST("T66 chains too long, cut or out of order are dropped", t66_bad_chains),
        TEST("T66 no next header and ESP are flows", t66_no_next_header),
        TEST("T67 a zero UDP checksum stays zero", t67_zero_checksum),
        TEST("T72 what no rule covers passes byte for byte", t72_pass_through),
        TEST("T72 a routed packet loses one hop and changes MACs", t72_routed),
        TEST("T72 the MSS of a SYN is at most what the MTU carries", t72_mss),
        TEST("T72 congestion marks follow RFC 6040", t72_ecn),
        TEST("T73 VLAN, LLC, unknown and oversized frames are named drops", t73_foreign_frames),
        TEST("T91 the virtual router is one hop", t91_one_hop),
        TEST("T91 local ICMP is limited and counted", t91_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
