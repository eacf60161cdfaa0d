// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/flow_key.h"
#include "engine/geneve.h"
#include "engine/test_packet.h"

#define assert_drop(got, want) assert_string_equal(drop_name(got), drop_name(want))

struct outer {
    uint8_t b[2048];
    uint32_t len;
};

// An encapsulated frame with the given options, lengths and checksum right.
static void make_outer(struct outer *o, const void *options, uint8_t options_len, bool critical)
{
    struct test_frame f;
    struct ip_addr src = test_v6(0xfd00, 0x11), dst = test_v6(0xfd00, 0x12);
    test_frame_make(&f, &(struct test_spec){.ip_version = 4, .protocol = IPPROTO_TCP4, .payload_len = 21});
    memset(o, 0, sizeof(*o));
    o->b[0] = o->b[6] = 2;
    store_be16(o->b + 12, ETHERTYPE_IPV6);
    uint16_t length = (uint16_t)(16 + options_len + f.len);
    store_be32(o->b + 14, 0x6b812345); // traffic class 0xb8
    store_be16(o->b + 18, length);
    o->b[20] = 17;
    o->b[21] = 61;
    memcpy(o->b + 22, src.b, 16);
    memcpy(o->b + 38, dst.b, 16);
    store_be16(o->b + 54, 50000);
    store_be16(o->b + 56, 6081);
    store_be16(o->b + 58, length);
    o->b[62] = options_len / 4;
    o->b[63] = critical ? 0x40 : 0;
    store_be16(o->b + 64, 0x6558);
    store_be32(o->b + 66, 100 << 8 | 0xff); // reserved bits are ignored
    if (options_len)
        memcpy(o->b + 70, options, options_len);
    memcpy(o->b + 70 + options_len, f.b, f.len);
    o->len = 70u + options_len + f.len;
    checksum_write_l4(o->b + 54, o->len - 54, &src, &dst, 17);
}

static enum drop parse_outer(const struct outer *o, bool allow_zero)
{
    struct packet p = test_packet(o->b, o->len);
    struct geneve_info info;
    enum drop d = geneve_parse(&p, &info, allow_zero);
    test_packet_free(&p);
    return d;
}

static void good(void **state)
{
    static const uint8_t options[12] = {0x01, 0x02, 0x03, 1, 9, 9, 9, 9, 0xff, 0xff, 0x7f, 0};
    for (uint8_t len = 0; len <= 12; len += 12) {
        struct outer o;
        make_outer(&o, options, len, false);
        memset(o.b + o.len, 0xee, 10); // trailing bytes
        struct packet p = test_packet(o.b, o.len + 10);
        struct geneve_info info;
        struct parsed pp;
        struct ip_addr src = test_v6(0xfd00, 0x11), dst = test_v6(0xfd00, 0x12);
        assert_drop(geneve_parse(&p, &info, false), DROP_NONE);
        assert_int_equal(p.len, o.len);
        assert_int_equal(p.head, o.len);
        assert_true(ip_equal(&info.outer_src, &src));
        assert_true(ip_equal(&info.outer_dst, &dst));
        assert_int_equal(info.vni, 100);
        assert_int_equal(info.inner, 70 + len);
        assert_int_equal(info.outer_tos, 0xb8);
        assert_int_equal(info.outer_hop_limit, 61);
        packet_pull(&p, info.inner);
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        test_packet_free(&p);
    }
}

static void bad_options(void **state)
{
    static const uint8_t critical[4] = {1, 2, 0x80, 0}, plain[8] = {1, 2, 3, 0, 1, 2, 0x83, 0};
    static const uint8_t past[4] = {1, 2, 3, 1}, past_and_critical[4] = {1, 2, 0x83, 31};
    struct outer o;
    make_outer(&o, critical, 4, true);
    assert_drop(parse_outer(&o, false), DROP_GENEVE_CRITICAL);
    make_outer(&o, critical, 4, false); // the C bit lies
    assert_drop(parse_outer(&o, false), DROP_GENEVE_CRITICAL);
    make_outer(&o, plain, 8, true);
    assert_drop(parse_outer(&o, false), DROP_GENEVE_CRITICAL);
    make_outer(&o, past, 4, false);
    assert_drop(parse_outer(&o, false), DROP_GENEVE_LENGTH);
    make_outer(&o, past_and_critical, 4, true);
    assert_drop(parse_outer(&o, false), DROP_GENEVE_LENGTH);
    make_outer(&o, NULL, 0, false);
    o.b[62] = 63; // 252 bytes of options in a short packet
    assert_drop(parse_outer(&o, false), DROP_GENEVE_LENGTH);
}

static void set16(struct outer *o, uint32_t at, uint16_t v)
{
    store_be16(o->b + at, v);
}

static void bad_headers(void **state)
{
    static const struct {
        uint32_t at;
        uint16_t value;
        enum drop reason;
    } cases[] = {
        {62, 0x4000, DROP_GENEVE_VERSION},  {62, 0xc000, DROP_GENEVE_VERSION}, {62, 0x0080, DROP_GENEVE_OAM},
        {64, 0x0800, DROP_GENEVE_PROTOCOL}, {64, 0, DROP_GENEVE_PROTOCOL},     {12, 0x0800, DROP_OUTER_INVALID},
        {12, 0x8100, DROP_OUTER_INVALID},   {14, 0x4500, DROP_OUTER_INVALID},  {20, 0x0640, DROP_OUTER_INVALID},
        {20, 0x003d, DROP_OUTER_INVALID}, // an extension header
        {56, 4789, DROP_OUTER_INVALID},     {58, 0, DROP_OUTER_INVALID},       {58, 8, DROP_OUTER_INVALID},
        {58, 15, DROP_OUTER_INVALID},       {58, 0xffff, DROP_OUTER_INVALID},  {18, 0xffff, DROP_OUTER_INVALID},
        {18, 0, DROP_OUTER_INVALID},
    };
    struct outer o;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        make_outer(&o, NULL, 0, false);
        set16(&o, cases[i].at, cases[i].value);
        set16(&o, 60, 0);
        assert_drop(parse_outer(&o, true), cases[i].reason);
    }
    make_outer(&o, NULL, 0, false);
    for (uint32_t cut = 0; cut < o.len; cut++) {
        struct outer shorter = o;
        shorter.len = cut;
        assert_drop(parse_outer(&shorter, false), DROP_OUTER_INVALID);
        struct packet p = test_packet(o.b, cut); // the rest in another segment: the checksum is out of reach
        struct geneve_info info;
        p.len = o.len;
        assert_drop(geneve_parse(&p, &info, false), cut < 70 ? DROP_OUTER_INVALID : DROP_OUTER_CHECKSUM);
        p.csum = CSUM_VERIFIED;
        assert_drop(geneve_parse(&p, &info, false), cut < 70 ? DROP_OUTER_INVALID : DROP_NONE);
        test_packet_free(&p);
    }
}

static void checksums(void **state)
{
    struct outer o;
    make_outer(&o, NULL, 0, false);
    o.b[o.len - 1] ^= 1;
    assert_drop(parse_outer(&o, true), DROP_OUTER_CHECKSUM);
    struct packet p = test_packet(o.b, o.len);
    struct geneve_info info;
    p.csum = CSUM_VERIFIED;
    assert_drop(geneve_parse(&p, &info, false), DROP_NONE);
    assert_int_equal(p.csum, CSUM_FULL); // nobody has looked at the inner one
    p.csum = CSUM_VERIFIED;
    p.gso_type = GSO_TCP4;
    assert_drop(geneve_parse(&p, &info, false), DROP_NONE);
    assert_int_equal(p.csum, CSUM_VERIFIED); // the driver has, segment by segment
    p.gso_type = GSO_NONE;
    p.csum = CSUM_PARTIAL;
    p.csum_start = 54;
    p.csum_offset = 6;
    assert_drop(geneve_parse(&p, &info, false), DROP_NONE);
    assert_int_equal(p.csum, CSUM_FULL);
    store_be16(p.data + 60, 0);
    p.csum = CSUM_PARTIAL;
    p.csum_start = 70 + 34;
    p.csum_offset = 16;
    assert_drop(geneve_parse(&p, &info, false), DROP_OUTER_CHECKSUM);
    assert_drop(geneve_parse(&p, &info, true), DROP_NONE);
    assert_int_equal(p.csum, CSUM_PARTIAL); // of the inner packet: still to be done
    packet_pull(&p, info.inner);
    assert_int_equal(p.csum_start, 34);
    test_packet_free(&p);
}

static void encap(void **state)
{
    struct ip_addr src = test_v6(0xfd00, 0x11), dst = test_v6(0xfd00, 0x12);
    struct geneve_template t;
    struct test_frame f;
    struct geneve_info info;
    geneve_template_init(&t, &src, &dst, 63);
    test_frame_make(&f, &(struct test_spec){.ip_version = 6, .protocol = IPPROTO_UDP4, .payload_len = 33});
    uint8_t room[2048] = {0};
    memcpy(room + 128, f.b, f.len);
    struct packet p = {.data = room + 128, .len = f.len, .head = f.len, .room = 1024, .headroom = 128};
    p.csum = CSUM_PARTIAL;
    p.csum_start = 54;
    p.csum_offset = 6;
    uint64_t hash = 0xfedcba9876543210;
    geneve_encap(&p, &t, 0xabcdef, hash, 0xb9);
    assert_int_equal(p.len, f.len + 70);
    assert_int_equal(p.encap_len, 70);
    assert_int_equal(p.csum_start, 124);
    assert_ptr_equal(p.data, room + 58);
    assert_memory_equal(p.data + 70, f.b, f.len);

    uint8_t want[70] = {[12] = 0x86, 0xdd, 0x6b, 0x94, 0x32, 0x10, 0, (uint8_t)(16 + f.len), 17, 63};
    memcpy(want + 22, src.b, 16);
    memcpy(want + 38, dst.b, 16);
    const uint8_t tail[] = {0, 0, 0x17, 0xc1, 0, (uint8_t)(16 + f.len), 0, 0, 0, 0, 0x65, 0x58, 0xab, 0xcd, 0xef, 0};
    memcpy(want + 54, tail, 16);
    store_be16(want + 54, (uint16_t)(49152 + 0xfedc % 16384));
    assert_memory_equal(p.data, want, 70);
    assert_drop(geneve_parse(&p, &info, true), DROP_NONE);
    assert_int_equal(info.vni, 0xabcdef);

    p = (struct packet){.data = room + 128, .len = 65535 + 14, .head = f.len, .headroom = 128, .gso_type = GSO_TCP4};
    geneve_encap(&p, &t, 1, hash, 0);
    assert_int_equal(load_be16(p.data + 18), 0); // no length of a datagram: each segment gets its own
}

static void ecn(void **state)
{
    static const uint8_t figure4[4][4] = {
        // outer: Not-ECT, ECT(1), ECT(0), CE, as encoded. 9: drop
        {0, 0, 0, 9}, // inner Not-ECT
        {1, 1, 1, 3}, // ECT(1)
        {2, 1, 2, 3}, // ECT(0)
        {3, 3, 3, 3}, // CE
    };
    for (unsigned n = 0; n < 32; n++) {
        uint8_t version = n & 16 ? 6 : 4, inner = n & 3, outer = n >> 2 & 3, want = figure4[inner][outer];
        struct test_frame f, g;
        struct test_spec s = {.ip_version = version, .protocol = IPPROTO_UDP4, .tos = 0x28 | inner};
        test_frame_make(&f, &s);
        s.tos = 0x28 | (want == 9 ? inner : want);
        test_frame_make(&g, &s);
        assert_int_equal(geneve_decap_ecn(f.b + 14, version, 0xb8 | outer), want != 9);
        assert_memory_equal(f.b, g.b, g.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T15 unknown non-critical options are accepted, trailing bytes cut off", .test_func = good},
        {.name = "T15 critical options and options past the end are dropped by name", .test_func = bad_options},
        {.name = "T15 T71 every wrong field and every cut has its reason", .test_func = bad_headers},
        {.name = "outer checksums are verified, zero ones accepted where allowed", .test_func = checksums},
        {.name = "T14 the outer headers are exact", .test_func = encap},
        {.name = "RFC 6040 figure 4, both families", .test_func = ecn},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
