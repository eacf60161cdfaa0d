// SPDX-License-Identifier: MPL-2.0
// ICMP errors through a translation (RFC 5508 section 4). Each expectation is a packet made from the wanted fields,
// with every checksum computed over all bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/hit_path.h"
#include "engine/test_packet.h"

struct story { // one conversation and its two faces
    uint8_t version, protocol;
    struct ip_addr guest, external, peer, router;
    uint16_t guest_port, external_port, peer_port; // ICMP: identifiers; peer_port is type and code
};

static struct story story(uint8_t version, uint8_t protocol)
{
    struct story s = {.version = version, .protocol = protocol, .guest_port = 41000, .external_port = 1025};
    bool v4 = version == 4;
    s.guest = v4 ? test_v4(10, 0, 0, 3) : test_v6(0xfd00, 3);
    s.external = v4 ? test_v4(192, 0, 2, 7) : test_v6(0x2001, 7);
    s.peer = v4 ? test_v4(198, 51, 100, 1) : test_v6(0x2002, 1);
    s.router = v4 ? test_v4(203, 0, 113, 9) : test_v6(0x2003, 9);
    s.peer_port = 443;
    if (protocol == IPPROTO_ICMP4)
        s.peer_port = 8 << 8;
    if (protocol == IPPROTO_ICMP6)
        s.peer_port = 128 << 8;
    return s;
}

// An ICMP error from src to dst that quotes `bytes` of L4 of the packet `quoted`.
static void make_error(struct test_frame *f, const struct test_spec *quoted, uint32_t bytes, struct ip_addr src,
                       struct ip_addr dst)
{
    struct test_frame inner;
    test_frame_make(&inner, quoted);
    bool v4 = quoted->ip_version == 4;
    test_frame_make(f, &(struct test_spec){.ip_version = quoted->ip_version,
                                           .protocol = v4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6,
                                           .src = src,
                                           .dst = dst,
                                           .dport = v4 ? 3 << 8 | 4 : 2 << 8,
                                           .payload = inner.b + 14,
                                           .payload_len = inner.l4 - 14 + bytes});
}

// Makes `from`, rewrites it by the transposition of its own direction, and wants `to`.
static void run(const struct test_frame *from, const struct test_frame *to, const struct flow_key *flow,
                struct transposition xp, uint8_t mode)
{
    struct packet p = test_packet(from->b, from->len), q = test_packet(to->b, to->len);
    struct parsed pp, qq;
    struct parsed_embedded inner;
    transposition_finish(&xp, flow);
    assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
    assert_int_equal(parse_frame(&q, &qq), DROP_NONE);
    p.csum = q.csum = mode;
    if (mode == CSUM_PARTIAL) {
        test_make_partial(&p, &pp);
        test_make_partial(&q, &qq);
        assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
    }
    assert_int_equal(parse_embedded(&p, &pp, &inner), DROP_NONE);
    transposition_apply_icmp_error(&xp, flow, &p, &pp, &inner);
    assert_int_equal(p.len, q.len);
    assert_memory_equal(p.data, q.data, q.len);
    test_packet_free(&p);
    test_packet_free(&q);
}

static struct flow_key key(const struct story *s, struct ip_addr src, struct ip_addr dst, uint16_t sport,
                           uint16_t dport)
{
    struct flow_key k = {.src = src, .dst = dst, .sport = __builtin_bswap16(sport), .dport = __builtin_bswap16(dport)};
    k.ip_version = s->version;
    k.protocol = s->protocol;
    return k;
}

static bool is_icmp(const struct story *s)
{
    return s->protocol == IPPROTO_ICMP4 || s->protocol == IPPROTO_ICMP6;
}

// The guest's packet left translated; an error about it comes back from `sender`.
static void inbound(const struct story *s, struct ip_addr sender, bool ports, uint32_t bytes, uint8_t mode, bool zero)
{
    struct test_spec out = {.ip_version = s->version, .protocol = s->protocol, .src = s->guest, .dst = s->peer};
    out.sport = s->guest_port;
    out.dport = s->peer_port;
    out.payload_len = 32;
    out.zero_checksum = zero;
    struct test_spec translated = out;
    translated.src = s->external;
    if (ports)
        translated.sport = s->external_port;
    struct test_frame from, to;
    make_error(&from, &translated, bytes, sender, s->external);
    make_error(&to, &out, bytes, sender, s->guest);
    to.b[0] = 0x06; // destination MAC
    struct transposition xp = {.flags = XP_DST_IP | XP_DST_MAC, .dst_ip = s->guest, .dst_mac = {{6, 0, 0, 0, 0, 4}}};
    struct flow_key flow = key(s, s->peer, s->external, s->peer_port, translated.sport);
    if (is_icmp(s)) { // the answer's key
        flow = key(s, s->peer, s->external, translated.sport, s->version == 4 ? 0 : 129 << 8);
        xp.flags |= ports ? XP_SRC_PORT : 0;
        xp.src_port = __builtin_bswap16(s->guest_port);
    } else if (ports) {
        xp.flags |= XP_DST_PORT;
        xp.dst_port = __builtin_bswap16(s->guest_port);
    }
    run(&from, &to, &flow, xp, mode);
}

// A peer's packet arrived translated; the guest (or a router behind it) complains.
static void outbound(const struct story *s, struct ip_addr sender, uint8_t mode)
{
    struct test_spec in = {.ip_version = s->version, .protocol = s->protocol, .src = s->peer, .dst = s->external};
    in.sport = s->peer_port;
    in.dport = s->external_port;
    in.payload_len = 32;
    struct test_spec delivered = in;
    delivered.dst = s->guest;
    delivered.dport = s->guest_port;
    bool guest = ip_equal(&sender, &s->guest);
    struct test_frame from, to;
    make_error(&from, &delivered, 8, sender, s->peer);
    make_error(&to, &in, 8, guest ? s->external : sender, s->peer);
    struct transposition xp = {.flags = XP_SRC_IP | XP_SRC_PORT, .src_ip = s->external};
    xp.src_port = __builtin_bswap16(s->external_port);
    struct flow_key flow = key(s, s->guest, s->peer, s->guest_port, s->peer_port);
    run(&from, &to, &flow, xp, mode);
}

static const uint8_t inner_protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4, IPPROTO_SCTP4, 47};

static void errors_inbound(bool ports)
{
    for (unsigned i = 0; i < 2 * ARRAY_LEN(inner_protocols); i++) {
        uint8_t protocol = inner_protocols[i / 2], version = i & 1 ? 6 : 4;
        if (protocol == IPPROTO_ICMP4 && version == 6)
            protocol = IPPROTO_ICMP6;
        if (protocol == 47 && ports)
            continue;
        struct story s = story(version, protocol);
        for (uint8_t mode = CSUM_FULL; mode <= CSUM_VERIFIED; mode++) {
            inbound(&s, s.router, ports, 8, mode, false);
            inbound(&s, s.peer, ports, 8, mode, false);
            inbound(&s, s.router, ports, 20, mode, false); // TCP's checksum is in reach
            inbound(&s, s.router, ports, 8, mode, true);
        }
    }
}

static void errors_snat(void **state)
{
    errors_inbound(true);
}

static void errors_floating(void **state)
{
    errors_inbound(false);
}

static void errors_from_guest(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        struct story s = story(i & 1 ? 6 : 4, i & 2 ? IPPROTO_UDP4 : IPPROTO_TCP4);
        for (uint8_t mode = CSUM_FULL; mode <= CSUM_VERIFIED; mode++) {
            outbound(&s, s.guest, mode);
            outbound(&s, s.router, mode); // behind the guest: its address is its own
        }
    }
}

// Both sides are translated (T58): the quoted packet gets both back.
static void errors_hairpin(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct story s = story(version, IPPROTO_UDP4);
        struct test_spec sent = {.ip_version = version, .protocol = IPPROTO_UDP4, .src = s.guest, .dst = s.external};
        sent.sport = s.guest_port;
        sent.dport = 80;
        struct test_spec seen = sent;
        seen.src = s.router;
        seen.sport = 2000;
        seen.dst = s.peer;
        seen.dport = 8080;
        struct test_frame from, to;
        make_error(&from, &seen, 8, s.peer, s.router);
        make_error(&to, &sent, 8, s.external, s.guest);
        to.b[14 + (version == 4 ? 8 : 7)]--;
        if (version == 4)
            checksum_write_ip4(to.b + 14);
        struct transposition xp = {.flags = XP_SRC_IP | XP_DST_IP | XP_SRC_PORT | XP_DST_PORT | XP_DEC_TTL};
        xp.src_ip = s.external;
        xp.dst_ip = s.guest;
        xp.src_port = __builtin_bswap16(80);
        xp.dst_port = __builtin_bswap16(s.guest_port);
        struct flow_key flow = key(&s, s.peer, s.router, 8080, 2000);
        run(&from, &to, &flow, xp, CSUM_FULL);
    }
}

// Random stories: no checksum case is left out, 0 and 0xffff among them.
static void errors_random(void **state)
{
    struct test_random r = {31};
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t version = test_rand(&r) & 1 ? 4 : 6, protocol = inner_protocols[test_rand(&r) % 4];
        if (protocol == IPPROTO_ICMP4 && version == 6)
            protocol = IPPROTO_ICMP6;
        struct story s = story(version, protocol);
        s.guest.w[3] = (s.guest.w[3] & 0xffff) | (test_rand(&r) & 0xffff0000);
        s.external.w[3] = (s.external.w[3] & 0xffff) | (test_rand(&r) & 0xffff0000);
        s.guest_port = (uint16_t)test_rand(&r);
        s.external_port = (uint16_t)test_rand(&r);
        inbound(&s, test_rand(&r) & 1 ? s.router : s.peer, test_rand(&r) & 1, test_rand(&r) & 1 ? 8 : 20,
                (uint8_t)(test_rand(&r) % 3), test_rand(&r) % 4 == 0);
        if (protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4)
            outbound(&s, s.guest, (uint8_t)(test_rand(&r) % 3));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T55 an error about an SNATed packet, quoted to 8 bytes", .test_func = errors_snat},
        {.name = "T56 the same with 1:1 NAT, protocols without ports too", .test_func = errors_floating},
        {.name = "T56 a guest's error about an inbound packet", .test_func = errors_from_guest},
        {.name = "T58 both sides translated", .test_func = errors_hairpin},
        {.name = "T55 T56 random addresses, ports and checksum modes", .test_func = errors_random},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
