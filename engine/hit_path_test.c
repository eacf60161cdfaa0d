// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/hit_path.h"
#include "engine/test_packet.h"

static const uint8_t nops[8] = {1, 1, 1, 1, 1, 1, 1, 0};
static const uint8_t chain[8] = {IPPROTO_UDP4, 0, 1, 4};

static const struct test_spec bases[] = {
    {.ip_version = 4, .protocol = IPPROTO_TCP4, .sport = 1000, .dport = 80, .tcp_flags = TCP_ACK, .payload_len = 9},
    {.ip_version = 4, .protocol = IPPROTO_TCP4, .tcp_flags = TCP_SYN, .tcp_options = nops, .tcp_options_len = 8},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .tos = 3, .payload_len = 20},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .zero_checksum = true, .ttl = 2},
    {.ip_version = 6, .protocol = IPPROTO_TCP4, .tos = 0xb8, .payload_len = 9},
    {.ip_version = 6, .protocol = IPPROTO_TCP4, .tcp_options = nops, .tcp_options_len = 8, .ttl = 255},
    {.ip_version = 6, .protocol = IPPROTO_UDP4, .payload_len = 20},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .options = nops, .options_len = 8, .payload_len = 20},
    {.ip_version = 6, .protocol = IPPROTO_UDP4, .chain = chain, .chain_len = 8, .chain_first = 60},
    {.ip_version = 4, .protocol = IPPROTO_UDP4, .fragment = 0x2000, .payload_len = 16},
    {.ip_version = 4, .protocol = IPPROTO_ICMP4, .dport = 8 << 8, .payload_len = 16},
    {.ip_version = 6, .protocol = IPPROTO_SCTP4, .payload_len = 16},
};

// The claim of hit_path.h, on one packet. Returns whether hit_parse accepted it.
static bool agrees(const struct packet *p)
{
    struct parsed pp;
    struct flow_key key, want;
    struct hit h;
    memset(&key, 0xa5, sizeof(key));
    bool hit = hit_parse(p, 7, 100, FLOW_IN, REALM_OUTSIDE, &key, &h);
    enum drop d = parse_frame(p, &pp);
    bool canonical = d == DROP_NONE && (pp.flags & PARSE_CANONICAL);
    assert_int_equal(hit, canonical && pp.ttl > 1);
    if (!hit)
        return false;
    flow_key_from_parsed(&want, &pp, 7, 100, FLOW_IN, REALM_OUTSIDE);
    assert_memory_equal(&key, &want, sizeof(key));
    assert_int_equal(h.l3, pp.l3);
    assert_int_equal(h.l4, pp.l4);
    assert_int_equal(h.ip_version, pp.ip_version);
    assert_int_equal(h.protocol, pp.protocol);
    assert_int_equal(h.tcp_flags, pp.tcp_flags);
    assert_int_equal(h.tos, pp.tos);
    assert_int_equal(h.ip_len, pp.ip_len);
    return true;
}

static void canonical_shapes(void **state)
{
    for (unsigned i = 0; i < ARRAY_LEN(bases); i++) {
        struct test_frame f;
        test_frame_make(&f, &bases[i]);
        struct packet p = test_packet(f.b, f.len);
        assert_int_equal(agrees(&p), i < 7);
        test_packet_free(&p);
        for (uint32_t cut = 0; cut < f.len; cut++) {
            p = test_packet(f.b, cut);
            assert_false(agrees(&p));
            p.len = f.len; // the rest lies in another segment
            agrees(&p);
            test_packet_free(&p);
        }
    }
}

static void ttl_one_is_slow(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct test_frame f;
        struct parsed pp;
        test_frame_make(&f, &(struct test_spec){.ip_version = version, .protocol = IPPROTO_TCP4, .ttl = 1});
        struct packet p = test_packet(f.b, f.len);
        assert_false(agrees(&p));
        assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
        assert_true(pp.flags & PARSE_CANONICAL);
        test_packet_free(&p);
    }
}

static void special_addresses(struct test_random *r, struct test_frame *f)
{
    static const uint8_t firsts[] = {127, 224, 239, 255, 240, 0, 10};
    bool v4 = load_be16(f->b + 12) == ETHERTYPE_IPV4, dst = test_rand(r) & 1;
    uint8_t *at = f->b + 14 + (v4 ? dst ? 16 : 12 : dst ? 24 : 8);
    if (v4) {
        at[0] = firsts[test_rand(r) % ARRAY_LEN(firsts)];
        if (test_rand(r) & 1)
            memset(at, 0xff, 4);
        checksum_write_ip4(f->b + 14);
        return;
    }
    memset(at, 0, 16); // unspecified
    unsigned kind = test_rand(r) % 4;
    if (kind == 1)
        at[15] = 1;
    else if (kind == 2)
        at[10] = at[11] = 0xff;
    else if (kind == 3)
        at[0] = 0xff;
}

static void mutate(struct test_random *r, struct test_frame *f, struct packet *p)
{
    if (test_rand(r) % 4 == 0)
        special_addresses(r, f);
    for (unsigned n = test_rand(r) % 4; n; n--) { // mostly headers
        uint32_t at = test_rand(r) % MIN(f->len, 60u);
        f->b[at] = test_rand(r) & 1 ? (uint8_t)test_rand(r) : f->b[at] ^ (uint8_t)(1 << test_rand(r) % 8);
    }
    if (load_be16(f->b + 12) == ETHERTYPE_IPV4 && (f->b[14] & 15) >= 5 && test_rand(r) % 4)
        checksum_write_ip4(f->b + 14);
    uint32_t pad = test_rand(r) % 3 ? 0 : test_rand(r) % 40, cut = test_rand(r) % 8 ? 0 : test_rand(r) % 20;
    *p = test_packet(f->b, f->len + pad - cut);
    if (test_rand(r) % 8 == 0)
        p->len += test_rand(r) % 2000;
    p->csum = test_rand(r) % 3;
    p->csum_start = (uint16_t)(test_rand(r) % 4 ? f->l4 : test_rand(r) % 80);
    p->csum_offset = test_rand(r) & 1 ? 16 : 6;
    p->gso_type = test_rand(r) & 1 ? 0 : test_rand(r) % 5;
    p->gso_size = test_rand(r) & 1 ? 1400 : (uint16_t)(test_rand(r) % 20);
}

static void random_agreement(void **state)
{
    struct test_random r = {11};
    unsigned hits = 0;
    for (unsigned round = 0; round < 400000; round++) {
        struct test_frame f;
        struct packet p;
        test_frame_make(&f, &bases[test_rand(&r) % ARRAY_LEN(bases)]);
        mutate(&r, &f, &p);
        hits += agrees(&p);
        test_packet_free(&p);
    }
    assert_in_range(hits, 20000, 380000); // both answers were tried
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T71 canonical shapes are hits, others and every prefix are slow", .test_func = canonical_shapes},
        {.name = "T91 a packet with TTL 1 is canonical and yet slow", .test_func = ttl_one_is_slow},
        {.name = "hit_parse and parse_frame agree on mutated packets", .test_func = random_agreement},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
