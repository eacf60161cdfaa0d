// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/test_gateway.h"

struct made {
    bool ok;
    struct packet p;
    struct parsed question, pp;
    uint8_t *buffer;
};

static struct made make_error_of(const uint8_t *frame, uint32_t len, enum icmp_problem problem, uint32_t mtu)
{
    struct made m = {0};
    m.p = lend_packet(frame, len, &m.buffer);
    assert_drop(parse_frame(&m.p, &m.question), DROP_NONE);
    struct ip_addr from = m.question.ip_version == 4 ? test_v4(10, 0, 0, 1) : test_v6(0xfd00, 1);
    m.ok = icmp_make_error(&m.p, &m.question, problem, mtu, &from, &gateway_mac, &guest_mac);
    if (m.ok) {
        assert_drop(parse_frame(&m.p, &m.pp), DROP_NONE);
        assert_checksums(&m.p);
        assert_int_equal(m.p.csum, CSUM_FULL);
    } else {
        assert_int_equal(m.p.len, len);
        assert_memory_equal(m.p.data, frame, len);
    }
    return m;
}

static struct made make_error(const struct test_spec *s, enum icmp_problem problem, uint32_t mtu)
{
    struct test_frame f;
    guest_frame(&f, s, NULL, NULL);
    return make_error_of(f.b, f.len, problem, mtu);
}

static void expect_none(const struct test_spec *s)
{
    struct made m = make_error(s, ICMP_TTL_EXPIRED, 0);
    assert_false(m.ok);
    free(m.buffer);
}

static void each_problem(void **state)
{
    static const struct {
        enum icmp_problem problem;
        uint8_t type[2], code[2];
    } want[] = {
        {ICMP_TOO_BIG, {3, 2}, {4, 0}},
        {ICMP_TTL_EXPIRED, {11, 3}, {0, 0}},
        {ICMP_ADMIN_PROHIBITED, {3, 1}, {13, 1}},
        {ICMP_NO_ROUTE, {3, 1}, {0, 0}},
    };
    static const uint32_t sizes[] = {0, 1, 100, 500, 501, 1300, 1472};
    for (uint32_t i = 0; i < ARRAY_LEN(want) * ARRAY_LEN(sizes) * 2; i++) {
        bool v6 = i % 2;
        uint32_t w = i / 2 % ARRAY_LEN(want), size = sizes[i / 2 / ARRAY_LEN(want)];
        struct test_spec s = {.ip_version = v6 ? 6 : 4, .protocol = IPPROTO_UDP4, .sport = 5, .payload_len = size};
        struct test_frame f;
        guest_frame(&f, &s, NULL, NULL);
        struct made m = make_error_of(f.b, f.len, want[w].problem, 1450);
        assert_true(m.ok);
        uint32_t l4 = v6 ? 54 : 34, max = v6 ? 1280 : 576;
        assert_int_equal(m.p.len, 14 + MIN(max, l4 - 14 + 8 + f.len - 14));
        assert_memory_equal(m.p.data, guest_mac.b, 6);
        assert_memory_equal(m.p.data + 6, gateway_mac.b, 6);
        assert_true(ip_equal(&m.pp.dst, &m.question.src));
        assert_int_equal(m.pp.ttl, 64);
        assert_int_equal(m.pp.icmp_type, want[w].type[v6]);
        assert_int_equal(m.pp.icmp_code, want[w].code[v6]);
        assert_int_equal(load_be32(m.p.data + l4 + 4), want[w].problem == ICMP_TOO_BIG ? 1450 : 0);
        assert_memory_equal(m.p.data + l4 + 8, f.b + 14, m.p.len - l4 - 8); // the packet as it came
        struct parsed_embedded e;
        assert_drop(parse_embedded(&m.p, &m.pp, &e), DROP_NONE);
        assert_true(ip_equal(&e.src, &m.question.src) && ip_equal(&e.dst, &m.question.dst));
        assert_int_equal(e.sport, m.question.sport);
        free(m.buffer);
    }
}

static void never_about(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct test_spec s = {.ip_version = version, .protocol = version == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6};
        static const uint8_t errors[2][5] = {{3, 4, 5, 11, 12}, {1, 2, 3, 4, 137}};
        s.payload_len = 40;
        for (uint32_t i = 0; i < 5; i++) {
            s.dport = (uint16_t)(errors[version == 6][i] << 8);
            expect_none(&s);
        }
        s.dport = version == 4 ? 8 << 8 : 128 << 8; // about an echo, however, yes
        struct made m = make_error(&s, ICMP_TTL_EXPIRED, 0);
        assert_true(m.ok);
        free(m.buffer);
        s.protocol = IPPROTO_UDP4;
        s.dst = version == 4 ? test_v4(224, 0, 0, 9) : all_nodes;
        expect_none(&s);
    }
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_UDP4, .dst = test_v4(255, 255, 255, 255)};
    expect_none(&s);
    s = (struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4, .src = test_v4(0, 0, 0, 0)};
    expect_none(&s);
    s = (struct test_spec){.ip_version = 4, .protocol = IPPROTO_UDP4, .fragment = 100, .payload_len = 8};
    expect_none(&s);
    s.fragment = 0x2000;
    struct made m = make_error(&s, ICMP_TTL_EXPIRED, 0);
    assert_true(m.ok);
    free(m.buffer);

    struct test_frame f;
    s.fragment = 0;
    guest_frame(&f, &s, NULL, &broadcast_mac);
    m = make_error_of(f.b, f.len, ICMP_TTL_EXPIRED, 0);
    assert_false(m.ok);
    free(m.buffer);
    guest_frame(&f, &s, NULL, NULL);
    uint8_t *buffer;
    struct packet p = lend_packet(f.b, f.len, &buffer);
    struct parsed pp;
    parse_frame(&p, &pp);
    struct ip_addr v6 = test_v6(0xfd00, 1), none = test_v4(0, 0, 0, 0);
    assert_false(icmp_make_error(&p, &pp, ICMP_NO_ROUTE, 0, &v6, &gateway_mac, &guest_mac));
    assert_false(icmp_make_error(&p, &pp, ICMP_NO_ROUTE, 0, &none, &gateway_mac, &guest_mac));
    free(buffer);
}

static void scattered(void **state)
{
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_TCP4, .tcp_flags = TCP_ACK, .payload_len = 1900};
    struct test_frame f;
    uint8_t *buffer;
    guest_frame(&f, &s, NULL, NULL);
    struct packet p = lend_packet(f.b, 256, &buffer);
    struct parsed pp;
    p.len = f.len;
    p.csum = CSUM_VERIFIED;
    p.gso_type = GSO_TCP4;
    p.gso_size = 1400;
    assert_drop(parse_frame(&p, &pp), DROP_NONE);
    struct ip_addr from = test_v4(10, 0, 0, 1);
    assert_true(icmp_make_error(&p, &pp, ICMP_TOO_BIG, 1450, &from, &gateway_mac, &guest_mac));
    assert_int_equal(p.len, 34 + 8 + 242); // what was in reach
    assert_int_equal(p.gso_type, GSO_NONE);
    assert_checksums(&p);
    assert_memory_equal(p.data + 42, f.b + 14, 242);
    free(buffer);
}

static struct made make_reset(const struct test_spec *s)
{
    struct test_frame f;
    guest_frame(&f, s, NULL, NULL);
    struct made m = {0};
    m.p = lend_packet(f.b, f.len, &m.buffer);
    assert_drop(parse_frame(&m.p, &m.question), DROP_NONE);
    m.ok = tcp_make_reset(&m.p, &m.question, &gateway_mac, &guest_mac);
    if (m.ok) {
        assert_drop(parse_frame(&m.p, &m.pp), DROP_NONE);
        assert_checksums(&m.p);
        assert_true(ip_equal(&m.pp.src, &m.question.dst) && ip_equal(&m.pp.dst, &m.question.src));
        assert_int_equal(m.pp.sport, m.question.dport);
        assert_int_equal(m.pp.dport, m.question.sport);
        assert_int_equal(m.pp.l4_payload_len, 0);
    }
    return m;
}

static void reset(void **state)
{
    for (uint8_t version = 4; version <= 6; version += 2) {
        struct test_spec s = {.ip_version = version, .protocol = IPPROTO_TCP4, .sport = 1234, .dport = 80};
        s.tcp_flags = TCP_SYN;
        struct made m = make_reset(&s);
        assert_true(m.ok);
        assert_int_equal(m.pp.tcp_flags, TCP_RST | TCP_ACK);
        assert_int_equal(m.pp.tcp_seq, 0);
        assert_int_equal(m.pp.tcp_ack, m.question.tcp_seq + 1);
        free(m.buffer);
        s.tcp_flags = TCP_FIN;
        s.payload_len = 100;
        m = make_reset(&s);
        assert_int_equal(m.pp.tcp_ack, m.question.tcp_seq + 101);
        free(m.buffer);
        s.tcp_flags = TCP_ACK | TCP_PSH;
        m = make_reset(&s);
        assert_true(m.ok);
        assert_int_equal(m.pp.tcp_flags, TCP_RST);
        assert_int_equal(m.pp.tcp_seq, m.question.tcp_ack);
        free(m.buffer);
        s.tcp_flags = TCP_RST;
        m = make_reset(&s);
        assert_false(m.ok);
        free(m.buffer);
        s.protocol = IPPROTO_UDP4;
        m = make_reset(&s);
        assert_false(m.ok);
        free(m.buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T70 T91 T34 errors quote the packet as it came, within their limits", .test_func = each_problem},
        {.name = "O2 no errors about errors, groups, later fragments or nobody", .test_func = never_about},
        {.name = "T70 an error about a super-frame quotes what is in reach", .test_func = scattered},
        {.name = "T34 a rejected segment gets a reset", .test_func = reset},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
