// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/crc32c.h"
#include "engine/hit_path.h"
#include "engine/test_packet.h"

static const uint8_t options4[8] = {148, 4, 0, 0, 7, 3, 4, 0};
static const uint8_t chain6[8] = {0, 0, 1, 4};
static const uint8_t timestamps[12] = {1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8};

static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4, IPPROTO_SCTP4, 47};

static uint32_t crc32c(const uint8_t *b, uint32_t n) // by definition, field taken as zero
{
    uint32_t crc = 0xffffffff;
    for (uint32_t i = 0; i < n; i++) {
        crc ^= i >= 8 && i < 12 ? 0 : b[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void make(struct test_frame *f, const struct test_spec *s)
{
    test_frame_make(f, s);
    if (s->protocol == IPPROTO_SCTP4) {
        uint32_t crc = crc32c(f->b + f->l4, f->len - f->l4);
        memcpy(f->b + f->l4 + 8, &crc, 4);
    }
}

static struct ip_addr random_address(struct test_random *r, uint8_t version)
{
    if (version == 4)
        return test_v4(10, (uint8_t)test_rand(r), (uint8_t)test_rand(r), (uint8_t)test_rand(r));
    struct ip_addr a = test_v6((uint16_t)(0xfd00 | (test_rand(r) & 0xff)), (uint16_t)test_rand(r));
    a.w[1] = test_rand(r) % 3 ? test_rand(r) : 0xffffffff;
    return a;
}

static uint16_t random_port(struct test_random *r)
{
    static const uint16_t odd_ones[] = {0, 1, 0xffff, 0xfffe};
    return test_rand(r) % 4 ? (uint16_t)test_rand(r) : odd_ones[test_rand(r) % 4];
}

static struct test_spec random_spec(struct test_random *r)
{
    struct test_spec s = {.ip_version = test_rand(r) & 1 ? 4 : 6, .tos = (uint8_t)test_rand(r)};
    s.protocol = protocols[test_rand(r) % ARRAY_LEN(protocols)];
    if (s.protocol == IPPROTO_ICMP4 && s.ip_version == 6)
        s.protocol = IPPROTO_ICMP6;
    s.src = random_address(r, s.ip_version);
    s.dst = random_address(r, s.ip_version);
    s.sport = random_port(r);
    s.dport = random_port(r);
    if (s.protocol == IPPROTO_ICMP4)
        s.dport = test_rand(r) & 1 ? 8 << 8 : 0;
    if (s.protocol == IPPROTO_ICMP6)
        s.dport = test_rand(r) & 1 ? 128 << 8 : 129 << 8;
    s.ttl = (uint8_t)(2 + test_rand(r) % 254);
    s.payload_len = test_rand(r) % 60;
    if (s.ip_version == 4 && test_rand(r) % 4 == 0) {
        s.options = options4;
        s.options_len = 8;
    }
    static uint8_t chain[8];
    if (s.ip_version == 6 && test_rand(r) % 4 == 0) {
        memcpy(chain, chain6, 8);
        chain[0] = s.protocol;
        s.chain = chain;
        s.chain_len = 8;
        s.chain_first = 60;
    }
    if (s.protocol == IPPROTO_TCP4 && test_rand(r) & 1) {
        s.tcp_options = timestamps;
        s.tcp_options_len = 12;
    }
    s.zero_checksum = test_rand(r) % 4 == 0;
    return s;
}

static struct transposition random_transposition(struct test_random *r, uint8_t version)
{
    struct transposition xp = {.flags = (uint16_t)test_rand(r) &
                                        (XP_SRC_MAC | XP_DST_MAC | XP_SRC_IP | XP_DST_IP | XP_SRC_PORT | XP_DST_PORT)};
    for (unsigned i = 0; i < 6; i++) {
        xp.src_mac.b[i] = (uint8_t)test_rand(r) & 0xfe;
        xp.dst_mac.b[i] = (uint8_t)test_rand(r);
    }
    xp.src_mac.b[0] = 2;
    xp.src_ip = random_address(r, version);
    xp.dst_ip = random_address(r, version);
    xp.src_port = random_port(r);
    xp.dst_port = random_port(r);
    if (test_rand(r) & 1) {
        xp.to = (uint8_t)(XP_TO_GUEST + test_rand(r) % 6);
        xp.dest = test_rand(r);
        xp.vni = test_rand(r);
    }
    return xp;
}

static bool is_icmp_spec(const struct test_spec *s)
{
    return s->protocol == IPPROTO_ICMP4 || s->protocol == IPPROTO_ICMP6;
}

// The spec of the packet that a transposition must make.
static struct test_spec rewritten_spec(const struct test_spec *s, const struct transposition *xp)
{
    struct test_spec out = *s;
    if (xp->flags & XP_SRC_IP)
        out.src = xp->src_ip;
    if (xp->flags & XP_DST_IP)
        out.dst = xp->dst_ip;
    if (xp->flags & XP_SRC_PORT)
        out.sport = __builtin_bswap16(xp->src_port);
    if ((xp->flags & XP_DST_PORT) && !is_icmp_spec(s))
        out.dport = __builtin_bswap16(xp->dst_port);
    if (xp->flags & XP_DEC_TTL)
        out.ttl--;
    return out;
}

static void finish_for(struct transposition *xp, const struct packet *p)
{
    struct parsed pp;
    struct flow_key key;
    assert_int_equal(parse_frame(p, &pp), DROP_NONE);
    flow_key_from_parsed(&key, &pp, 1, 100, FLOW_OUT, REALM_VPC);
    transposition_finish(xp, &key);
}

static void apply(const struct transposition *xp, struct packet *p, uint16_t mss)
{
    struct parsed pp;
    assert_int_equal(parse_frame(p, &pp), DROP_NONE);
    transposition_apply(xp, p, &pp, mss);
}

static void into_mode(struct packet *p, uint8_t mode)
{
    struct parsed pp;
    assert_int_equal(parse_frame(p, &pp), DROP_NONE);
    bool internet = pp.l4 && pp.protocol != IPPROTO_SCTP4;
    p->csum = mode == CSUM_PARTIAL && !internet ? CSUM_FULL : mode;
    if (p->csum == CSUM_PARTIAL)
        test_make_partial(p, &pp);
}

// The rewritten packet must be the packet that its sender would have made with the new fields.
static void equals_new_packet(void **state)
{
    struct test_random r = {21};
    for (unsigned round = 0; round < 60000; round++) {
        struct test_spec s = random_spec(&r);
        struct transposition xp = random_transposition(&r, s.ip_version);
        if (test_rand(&r) & 1)
            xp.flags |= XP_DEC_TTL;
        struct test_spec after = rewritten_spec(&s, &xp);
        struct test_frame f, g;
        make(&f, &s);
        make(&g, &after);
        if (xp.flags & XP_DST_MAC)
            memcpy(g.b, xp.dst_mac.b, 6);
        if (xp.flags & XP_SRC_MAC)
            memcpy(g.b + 6, xp.src_mac.b, 6);
        struct packet p = test_packet(f.b, f.len), q = test_packet(g.b, g.len);
        uint8_t mode = (uint8_t)(test_rand(&r) % 3);
        into_mode(&p, mode);
        into_mode(&q, mode);
        finish_for(&xp, &p);
        apply(&xp, &p, 0);
        assert_memory_equal(p.data, q.data, p.len);
        test_packet_free(&p);
        test_packet_free(&q);
    }
}

// Any chain on any packet: composed and finished once, or finished against the packet as it then is and applied step by
// step. Byte for byte, on a condition: no checksum field holds the form of zero that its protocol never sends (0xffff
// but for UDP). Such a field is left as it is by a chain that ends where it began, and made 0 by the single steps.
static void composition(void **state)
{
    struct test_random r = {22};
    for (unsigned round = 0; round < 60000; round++) {
        struct test_spec s = random_spec(&r);
        struct test_frame f;
        make(&f, &s);
        struct packet p = test_packet(f.b, f.len), q;
        into_mode(&p, (uint8_t)(test_rand(&r) % 3));
        if (p.csum != CSUM_PARTIAL && s.protocol == IPPROTO_TCP4 && test_rand(&r) % 4 == 0)
            store_be16(p.data + f.l4 + 16, (uint16_t)(test_rand(&r) % 0xffff)); // a wrong one stays as wrong as it was
        q = test_packet(p.data, p.len);
        q.csum = p.csum;
        q.csum_start = p.csum_start;
        q.csum_offset = p.csum_offset;

        struct transposition whole = {0};
        unsigned n = 1 + test_rand(&r) % 6, down = test_rand(&r) % 8;
        for (unsigned i = 0; i < n; i++) {
            struct transposition step = random_transposition(&r, s.ip_version);
            if (i == down)
                step.flags |= XP_DEC_TTL;
            if (test_rand(&r) % 4 == 0) { // back to the start
                step.src_ip = s.src;
                step.dst_ip = s.dst;
                step.src_port = __builtin_bswap16(s.sport);
                step.dst_port = __builtin_bswap16(s.dport);
            }
            transposition_compose(&whole, &step);
            finish_for(&step, &q);
            apply(&step, &q, 0);
        }
        finish_for(&whole, &p);
        apply(&whole, &p, 0);
        assert_memory_equal(p.data, q.data, p.len);
        test_packet_free(&p);
        test_packet_free(&q);
    }
}

static void compose_rules(void **state)
{
    struct transposition a = {.flags = XP_SRC_IP | XP_DEC_TTL, .to = XP_TO_PORT, .dest = 5, .vni = 100};
    struct transposition b = {.flags = XP_SRC_IP | XP_DST_PORT | XP_DEC_TTL, .dst_port = 9};
    a.src_ip = test_v4(1, 1, 1, 1);
    b.src_ip = test_v4(2, 2, 2, 2);
    transposition_compose(&a, &b);
    assert_int_equal(a.flags, XP_SRC_IP | XP_DST_PORT | XP_DEC_TTL);
    assert_true(ip_equal(&a.src_ip, &b.src_ip));
    assert_int_equal(a.dst_port, 9);
    assert_int_equal(a.to, XP_TO_PORT); // the second goes nowhere of its own
    assert_int_equal(a.dest, 5);
    b.to = XP_TO_TUNNEL;
    b.dest = 6;
    b.vni = 200;
    transposition_compose(&a, &b);
    assert_int_equal(a.to, XP_TO_TUNNEL);
    assert_int_equal(a.dest, 6);
    assert_int_equal(a.vni, 200);

    struct flow_key key = {.src = b.src_ip, .dst = test_v4(3, 3, 3, 3), .ip_version = 4, .protocol = 47};
    transposition_finish(&a, &key);
    struct transposition want = {.flags = XP_DEC_TTL, .to = XP_TO_TUNNEL, .dest = 6, .vni = 200};
    assert_memory_equal(&a, &want, sizeof(a)); // writes that change nothing, or have nothing to write to, are gone
}

static void udp_checksums(void **state)
{
    unsigned met = 0;
    for (unsigned version = 4; version <= 6; version += 2) {
        for (unsigned port = 0; port < 65536; port++) {
            struct test_spec s = {.ip_version = (uint8_t)version, .protocol = IPPROTO_UDP4, .sport = 1, .dport = 53};
            struct transposition xp = {.flags = XP_SRC_PORT, .src_port = __builtin_bswap16((uint16_t)port)};
            struct test_spec after = rewritten_spec(&s, &xp);
            struct test_frame f, g;
            test_frame_make(&f, &s);
            test_frame_make(&g, &after);
            struct packet p = test_packet(f.b, f.len);
            finish_for(&xp, &p);
            apply(&xp, &p, 0);
            assert_memory_equal(p.data, g.b, p.len);
            met += load_be16(p.data + f.l4 + 6) == 0xffff;

            store_be16(p.data + f.l4 + 6, 0);
            apply(&xp, &p, 0);
            assert_int_equal(load_be16(p.data + f.l4 + 6), 0);
            test_packet_free(&p);
        }
    }
    assert_int_equal(met, 2);
}

static void fragments_and_strangers(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct test_spec s = {.ip_version = 4, .protocol = i ? 47 : IPPROTO_TCP4, .payload_len = 44};
        s.fragment = i ? 0 : 0x2010;
        struct test_frame f;
        test_frame_make(&f, &s);
        struct transposition xp = {.flags = XP_SRC_IP | XP_SRC_PORT | XP_DST_PORT | XP_CLAMP_MSS, .src_port = 1};
        xp.src_ip = test_v4(192, 0, 2, 1);
        struct packet p = test_packet(f.b, f.len);
        struct parsed pp;
        struct flow_key key;
        assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
        flow_key_from_parsed(&key, &pp, 1, 1, FLOW_OUT, REALM_VPC);
        transposition_finish(&xp, &key);
        transposition_apply(&xp, &p, &pp, 1400);
        assert_memory_equal(p.data + 34, f.b + 34, f.len - 34);
        assert_int_equal(p.data[26], 192);
        assert_int_equal(parse_frame(&p, &pp), DROP_NONE); // the header checksum is right
        test_packet_free(&p);
    }
}

static void inner_partial(void **state)
{
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_UDP4, .sport = 5, .dport = 4789, .payload_len = 100};
    struct transposition xp = {.flags = XP_SRC_IP | XP_SRC_PORT, .src_port = 77, .src_ip = test_v4(192, 0, 2, 9)};
    struct test_spec after = rewritten_spec(&s, &xp);
    struct test_frame f, g;
    test_frame_make(&f, &s);
    test_frame_make(&g, &after);
    struct packet p = test_packet(f.b, f.len);
    p.csum = CSUM_PARTIAL; // a guest's own tunnel: the sum asked for is further in
    p.csum_start = 100;
    p.csum_offset = 16;
    finish_for(&xp, &p);
    apply(&xp, &p, 0);
    assert_memory_equal(p.data, g.b, g.len);
    test_packet_free(&p);
}

struct mss_case {
    uint8_t options[12];
    uint8_t at; // of the value, 0: nothing to clamp
};

static void mss(void **state)
{
    static const struct mss_case cases[] = {
        {{2, 4, 0x05, 0xb4, 1, 1, 1, 1, 1, 1, 1, 0}, 2},
        {{1, 2, 4, 0x05, 0xb4, 1, 1, 1, 1, 1, 1, 0}, 3}, // odd offset
        {{4, 2, 3, 3, 7, 2, 4, 0xff, 0xff, 0, 0, 0}, 7},
        {{1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 0x05, 0xb4}, 10},
        {{2, 4, 0x05, 0x00, 0, 0, 0, 0, 0, 0, 0, 0}, 0}, // small enough
        {{0, 2, 4, 0x05, 0xb4}, 0},                      // behind the end of options
        {{3, 0, 2, 4, 0x05, 0xb4}, 0},                   // length 0
        {{3, 1, 2, 4, 0x05, 0xb4}, 0},                   // length 1
        {{2, 3, 0x05, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0},    // not an MSS option's length
        {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4}, 0},       // cut off
        {{3, 255, 2, 4, 0x05, 0xb4}, 0},                 // past the end
    };
    for (unsigned round = 0; round < 12 * ARRAY_LEN(cases); round++) {
        const struct mss_case *c = &cases[round / 12];
        uint8_t version = round & 1 ? 4 : 6, clamped[12], mode = (uint8_t)(round / 2 % 3);
        bool syn = round % 12 < 6;
        memcpy(clamped, c->options, 12);
        if (c->at && syn)
            store_be16(clamped + c->at, 1400);
        struct test_spec s = {.ip_version = version, .protocol = IPPROTO_TCP4, .tcp_options_len = 12};
        s.tcp_options = c->options;
        s.tcp_flags = syn ? TCP_SYN : TCP_ACK;
        struct test_frame f, g;
        test_frame_make(&f, &s);
        s.tcp_options = clamped;
        test_frame_make(&g, &s);
        struct packet p = test_packet(f.b, f.len), q = test_packet(g.b, g.len);
        into_mode(&p, mode);
        into_mode(&q, mode);
        struct transposition xp = {.flags = XP_CLAMP_MSS};
        finish_for(&xp, &p);
        apply(&xp, &p, 0); // no limit
        apply(&xp, &p, 1400);
        assert_memory_equal(p.data, q.data, q.len);
        test_packet_free(&p);
        test_packet_free(&q);
    }
}

static void sctp(void **state)
{
    struct test_random r = {23};
    for (unsigned n = 12; n < 1500; n += 1 + test_rand(&r) % 9) {
        uint8_t b[1500], change[4];
        for (unsigned i = 0; i < n; i++)
            b[i] = (uint8_t)test_rand(&r);
        uint32_t before = crc32c(b, n);
        memcpy(change, b, 4);
        store_be32(b, test_rand(&r));
        for (unsigned i = 0; i < 4; i++)
            change[i] ^= b[i];
        assert_int_equal(before ^ crc32c_change(change, n - 4), crc32c(b, n));
    }
    const uint8_t digits[] = "12345678\0\0\0\0"; // the field itself counts as zero
    assert_int_equal(crc32c(digits, 8), 0x6087809a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "later writes win, the TTL falls once, idle writes are removed", .test_func = compose_rules},
        {.name = "T50 T68 T72 a rewritten packet is the one its sender would have made",
         .test_func = equals_new_packet},
        {.name = "applying a composed transposition equals applying each in turn", .test_func = composition},
        {.name = "T67 UDP checksums: zero stays zero, a computed 0 becomes 0xffff", .test_func = udp_checksums},
        {.name = "T64 T29 later fragments and other protocols get L3 writes only",
         .test_func = fragments_and_strangers},
        {.name = "T68 a partial checksum further in leaves the outer one complete", .test_func = inner_partial},
        {.name = "O1 the MSS of a SYN is clamped, wherever the option stands", .test_func = mss},
        {.name = "T29 SCTP's CRC follows its ports", .test_func = sctp},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
