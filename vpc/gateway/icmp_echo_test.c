// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/test_gateway.h"

static struct test_spec echo(uint8_t version, struct ip_addr dst, uint32_t payload_len)
{
    struct test_spec s = {.ip_version = version, .dst = dst, .sport = 0x4242, .payload_len = payload_len};
    s.protocol = version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6;
    s.dport = version == 4 ? 8 << 8 : 128 << 8;
    return s;
}

// The answer is the question with addresses swapped, a TTL of its own and the answering type.
static void expect_reply(struct answer *a, const struct test_frame *f, const struct test_spec *s)
{
    assert_drop(a->reason, DROP_NONE);
    assert_int_equal(a->verdict, GATEWAY_ANSWER);
    assert_memory_equal(a->p.data, guest_mac.b, 6);
    assert_true(ip_equal(&a->pp.src, &a->question.dst) && ip_equal(&a->pp.dst, &a->question.src));
    assert_int_equal(a->p.len, f->len);
    assert_int_equal(a->pp.ttl, 64);
    assert_int_equal(a->pp.icmp_type, s->ip_version == 4 ? 0 : 129);
    assert_int_equal(a->pp.icmp_code, 0);
    assert_int_equal(a->pp.sport, __builtin_bswap16(s->sport));
    assert_memory_equal(a->p.data + f->l4 + 4, f->b + f->l4 + 4, f->len - f->l4 - 4); // id, sequence, payload
}

static void ping(const struct world *w, struct test_spec s)
{
    struct test_frame f;
    guest_frame(&f, &s, NULL, NULL);
    struct answer a = ask_bytes(w, f.b, f.len);
    expect_reply(&a, &f, &s);
    done(&a);
}

static void all_targets(void **state)
{
    struct world w;
    world_init(&w);
    static const uint32_t sizes[] = {0, 1, 55, 56, 57, 1400, 1401, 1472};
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        ping(&w, echo(4, test_v4(10, 0, 0, 1), sizes[i]));
        ping(&w, echo(4, metadata_v4, sizes[i]));
        ping(&w, echo(6, test_v6(0xfd00, 1), sizes[i]));
        ping(&w, echo(6, metadata_v6, sizes[i]));
        struct test_spec s = echo(6, gateway_ll, sizes[i]);
        s.src = guest_ll;
        ping(&w, s);
    }
    struct test_spec s = echo(4, test_v4(10, 0, 0, 1), 56);
    static const uint8_t record_route[8] = {7, 7, 4, 0, 0, 0, 0, 0};
    s.options = record_route;
    s.options_len = 8;
    ping(&w, s);
    s = echo(4, test_v4(10, 0, 0, 1), 56);
    s.ttl = 1;
    ping(&w, s);
}

static void not_echo(void **state)
{
    struct world w;
    world_init(&w);
    struct test_spec s = echo(4, test_v4(10, 0, 0, 4), 56);
    expect_verdict(ask_spec(&w, &s), GATEWAY_PASS);
    s = echo(4, test_v4(10, 0, 0, 1), 56);
    s.dport = 13 << 8; // timestamp
    expect_drop(ask_spec(&w, &s), DROP_GATEWAY_SERVICE);
    s.dport = 0;
    expect_drop(ask_spec(&w, &s), DROP_GATEWAY_SERVICE);
    s = echo(6, all_nodes, 56);
    expect_drop(ask_spec(&w, &s), DROP_MULTICAST);
    struct test_frame f;
    s = echo(4, test_v4(10, 0, 0, 1), 56);
    guest_frame(&f, &s, NULL, &broadcast_mac);
    expect_drop(ask_bytes(&w, f.b, f.len), DROP_BROADCAST);
}

// 64 KB of which the engine sees 256 bytes; the rest lies elsewhere and is right when its sum is.
static void scattered(void **state)
{
    struct world w;
    world_init(&w);
    enum { SIZE = 65535 };
    uint8_t *frame = calloc(1, 14 + SIZE), *buffer;
    assert_non_null(frame);
    struct test_spec s = echo(4, test_v4(10, 0, 0, 1), 0);
    struct test_frame f;
    guest_frame(&f, &s, NULL, NULL);
    memcpy(frame, f.b, f.len);
    for (uint32_t i = f.len; i < 14 + SIZE; i++)
        frame[i] = (uint8_t)(i * 13);
    store_be16(frame + 16, SIZE);
    checksum_write_ip4(frame + 14);
    checksum_write_l4(frame + 34, SIZE - 20, NULL, NULL, IPPROTO_ICMP4);
    for (unsigned partial = 0; partial < 2; partial++) {
        struct packet p = lend_packet(frame, 256, &buffer);
        p.len = 14 + SIZE;
        if (partial) {
            p.csum = CSUM_PARTIAL;
            p.csum_start = 34;
            p.csum_offset = 2;
            memset(p.data + 36, 0, 2);
        }
        struct parsed pp;
        enum drop reason;
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        assert_int_equal(gateway_out(&w.g, &p, &pp, &reason, NULL), GATEWAY_ANSWER);
        assert_int_equal(p.len, 14 + SIZE);
        assert_int_equal(p.csum, partial ? CSUM_PARTIAL : CSUM_FULL);
        uint8_t *whole = malloc(14 + SIZE);
        assert_non_null(whole);
        memcpy(whole, p.data, 256);
        memcpy(whole + 256, frame + 256, 14 + SIZE - 256);
        struct packet joined = p;
        joined.data = whole;
        joined.head = joined.room = joined.len;
        test_resolve_partial(&joined);
        assert_checksums(&joined);
        free(whole);
        free(buffer);
    }
    free(frame);
}

static void partial_checksum(void **state)
{
    struct world w;
    world_init(&w);
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct test_spec s = echo(version, version == 4 ? test_v4(10, 0, 0, 1) : test_v6(0xfd00, 1), 57);
        struct test_frame f;
        guest_frame(&f, &s, NULL, NULL);
        uint8_t *buffer;
        struct packet p = lend_packet(f.b, f.len, &buffer);
        struct parsed pp;
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        test_make_partial(&p, &pp);
        struct answer a = ask_packet(&w, p, buffer);
        expect_reply(&a, &f, &s);
        done(&a);

        p = lend_packet(f.b, f.len, &buffer);
        p.csum = CSUM_PARTIAL; // of a packet inside the payload
        p.csum_start = (uint16_t)(f.l4 + 16);
        p.csum_offset = 2;
        expect_drop(ask_packet(&w, p, buffer), DROP_L4_CHECKSUM);
    }
}

static void wrong_stays_wrong(void **state)
{
    struct world w;
    world_init(&w);
    struct test_spec s = echo(4, test_v4(10, 0, 0, 1), 56);
    struct test_frame f;
    guest_frame(&f, &s, NULL, NULL);
    f.b[f.len - 1] ^= 0x55;
    uint8_t *buffer;
    struct packet p = lend_packet(f.b, f.len, &buffer);
    struct parsed pp;
    enum drop reason;
    assert_drop(parse_frame(&p, &pp), DROP_NONE);
    assert_int_equal(gateway_out(&w.g, &p, &pp, &reason, NULL), GATEWAY_ANSWER);
    assert_false(test_l4_checksum_ok(&p, &pp));
    free(buffer);
}

static void fragments(void **state)
{
    struct world w;
    world_init(&w);
    struct test_spec s = echo(4, test_v4(10, 0, 0, 1), 2000 - 200);
    struct test_frame whole;
    guest_frame(&whole, &s, NULL, NULL);
    uint32_t cut = 8 + 1200; // of the ICMP message
    uint8_t back[2048];
    for (unsigned i = 0; i < 2; i++) {
        struct test_frame f = whole;
        uint32_t n = i ? whole.len - 34 - cut : cut;
        memcpy(f.b + 34, whole.b + 34 + (i ? cut : 0), n);
        store_be16(f.b + 16, (uint16_t)(20 + n));
        store_be16(f.b + 20, i ? (uint16_t)(cut / 8) : 0x2000);
        checksum_write_ip4(f.b + 14);
        uint8_t *buffer;
        struct packet p = lend_packet(f.b, 34 + n, &buffer);
        struct parsed pp;
        enum drop reason;
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        assert_int_equal(gateway_out(&w.g, &p, &pp, &reason, NULL), GATEWAY_ANSWER);
        assert_memory_equal(p.data + 14 + 12, whole.b + 14 + 16, 4);
        assert_memory_equal(p.data + 18, f.b + 18, 4); // identification and offset
        assert_drop(parse_frame(&p, &pp), DROP_NONE);
        memcpy(back + (i ? cut : 0), p.data + 34, n);
        free(buffer);
    }
    assert_int_equal(back[0], 0);
    assert_int_equal(plain_sum(back, whole.len - 34, 0), 0xffff);
    assert_memory_equal(back + 4, whole.b + 38, whole.len - 38);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T6 echo to the gateway, its link-local and metadata: all sizes, both families",
         .test_func = all_targets},
        {.name = "T6 nothing but unicast echo requests to the gateway is answered", .test_func = not_echo},
        {.name = "T6 a 64 KB echo whose payload is out of reach is answered", .test_func = scattered},
        {.name = "O3 an echo with a partial checksum gets a full one back", .test_func = partial_checksum},
        {.name = "a wrong checksum stays wrong", .test_func = wrong_stays_wrong},
        {.name = "T6 an echo in fragments is answered in fragments", .test_func = fragments},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
