// SPDX-License-Identifier: MPL-2.0
// Exchanges as stock clients have them, each answer decoded by a reader of its own and compared whole.
#include "vpc/gateway/test_gateway.h"

enum { SOLICIT = 1, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, RECONFIGURE, INFORMATION };
enum { NO_ADDRS = 2, NOT_ON_LINK = 4, USE_MULTICAST = 5, NO_PREFIX = 6 };

static const struct ip_addr servers = {.b = {0xff, 2, [13] = 1, 0, 2}};
static const uint8_t client_duid[] = {0, 2, 0, 0, 0xab, 0x11, 1, 2, 3, 4, 5, 6, 7, 8}; // DUID-EN, as networkd's
static const uint8_t server_duid[] = {0, 3, 0, 1, 0x02, 0, 0, 0, 0, 0x01};

struct message {
    uint8_t b[1800];
    uint32_t len;
};

static uint32_t open_option(struct message *m, uint16_t code)
{
    store_be16(m->b + m->len, code);
    m->len += 4;
    return m->len;
}

static void close_option(struct message *m, uint32_t at)
{
    store_be16(m->b + at - 2, (uint16_t)(m->len - at));
}

static void put(struct message *m, const void *value, uint32_t n)
{
    if (n)
        memcpy(m->b + m->len, value, n);
    m->len += n;
}

static void add(struct message *m, uint16_t code, const void *value, uint32_t n)
{
    uint32_t at = open_option(m, code);
    put(m, value, n);
    close_option(m, at);
}
#define ADD(m, code, ...) add(m, code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void begin(struct message *m, uint8_t type)
{
    memset(m, 0, sizeof(*m));
    static const uint8_t xid[] = {0xab, 0xcd, 0xef};
    m->b[0] = type;
    memcpy(m->b + 1, xid, 3);
    m->len = 4;
    add(m, 1, client_duid, sizeof(client_duid));
}

static void add_address(struct message *m, struct ip_addr addr)
{
    uint8_t value[24] = {0};
    memcpy(value, addr.b, 16);
    add(m, 5, value, 24);
}

static void add_ia(struct message *m, uint16_t code, uint8_t id, const struct ip_addr *addr, uint32_t n)
{
    uint8_t fixed[12] = {0, 0, 0, id};
    uint32_t at = open_option(m, code);
    put(m, fixed, code == 4 ? 4 : 12);
    for (uint32_t i = 0; i < n; i++)
        add_address(m, addr[i]);
    close_option(m, at);
}

// As dhclient -6 and networkd: option request, elapsed time.
static void add_common(struct message *m)
{
    ADD(m, 6, 0, 23, 0, 24, 0, 39, 0, 56, 0, 82);
    ADD(m, 8, 0, 0);
}

static struct answer send_message(const struct world *w, const struct message *m, struct ip_addr src,
                                  struct ip_addr dst)
{
    struct test_frame f;
    struct test_spec s = {
        .ip_version = 6, .protocol = IPPROTO_UDP4, .src = src, .dst = dst, .sport = 546, .dport = 547};
    s.payload = m->b;
    s.payload_len = m->len;
    guest_frame(&f, &s, NULL, NULL);
    return ask_bytes(w, f.b, f.len);
}

static struct answer ask_server(const struct world *w, const struct message *m)
{
    return send_message(w, m, guest_ll, servers);
}

// The answer must be these bytes, and come from the gateway's link-local address to the client's.
static void expect(struct answer a, const struct message *want)
{
    assert_drop(a.reason, DROP_NONE);
    assert_int_equal(a.verdict, GATEWAY_ANSWER);
    assert_memory_equal(a.p.data, guest_mac.b, 6);
    assert_true(ip_equal(&a.pp.src, &gateway_ll) && ip_equal(&a.pp.dst, &guest_ll));
    assert_int_equal(load_be16(a.p.data + 54), 547);
    assert_int_equal(load_be16(a.p.data + 56), 546);
    assert_int_equal(load_be16(a.p.data + 58), a.p.len - 54);
    assert_int_equal(a.p.len - 62, want->len);
    assert_memory_equal(a.p.data + 62, want->b, want->len);
    done(&a);
}

static void begin_want(struct message *m, uint8_t type)
{
    begin(m, type);
    add(m, 2, server_duid, sizeof(server_duid));
}

static void want_status(struct message *m, uint8_t status)
{
    ADD(m, 13, 0, status);
}

static void want_address(struct message *m, uint32_t at, struct ip_addr addr, uint32_t lifetime)
{
    uint8_t value[24];
    memcpy(value, addr.b, 16);
    store_be32(value + 16, lifetime);
    store_be32(value + 20, lifetime);
    add(m, 5, value, 24);
    close_option(m, at);
}

static uint32_t want_lease(struct message *m, uint8_t id)
{
    uint32_t at = open_option(m, 3);
    put(m, (const uint8_t[]){0, 0, 0, id, 0, 0, 7, 8, 0, 0, 0x0b, 0x40}, 12); // 1800, 2880
    want_address(m, at, test_v6(0xfd00, 3), 3600);
    return at;
}

static void want_nothing(struct message *m, uint16_t code, uint8_t id, uint8_t status)
{
    uint8_t fixed[12] = {0, 0, 0, id};
    uint32_t at = open_option(m, code);
    put(m, fixed, code == 4 ? 4 : 12);
    want_status(m, status);
    close_option(m, at);
}

static void want_configuration(struct message *m, const struct world *w)
{
    static const uint8_t domain[] = "\3vpc\7example";
    add(m, 23, w->dns6, 32);
    add(m, 24, domain, sizeof(domain));
}

static void solicit(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    begin(&m, SOLICIT);
    add_common(&m);
    add_ia(&m, 3, 7, NULL, 0);
    begin_want(&want, ADVERTISE);
    ADD(&want, 7, 255);
    want_lease(&want, 7);
    want_configuration(&want, &w);
    struct answer a = ask_server(&w, &m);
    assert_string_equal(a.note.text, "answered DHCPv6 Solicit with Advertise fd00::3");
    expect(a, &want);

    add(&m, 14, NULL, 0); // Rapid Commit
    begin_want(&want, REPLY);
    add(&want, 14, NULL, 0);
    want_lease(&want, 7);
    want_configuration(&want, &w);
    expect(ask_server(&w, &m), &want);

    begin(&m, SOLICIT); // a router's client: two addresses, a temporary one, a prefix; nothing asked for
    add_ia(&m, 3, 1, NULL, 0);
    add_ia(&m, 3, 2, NULL, 0);
    add_ia(&m, 4, 3, NULL, 0);
    add_ia(&m, 25, 4, NULL, 0);
    begin_want(&want, ADVERTISE);
    ADD(&want, 7, 255);
    want_lease(&want, 1);
    want_nothing(&want, 3, 2, NO_ADDRS);
    want_nothing(&want, 4, 3, NO_ADDRS);
    want_nothing(&want, 25, 4, NO_PREFIX);
    expect(ask_server(&w, &m), &want);

    w.b.l2.n_addresses = 1; // no IPv6 to give
    world_changed(&w);
    begin(&m, SOLICIT);
    add_ia(&m, 3, 7, NULL, 0);
    begin_want(&want, ADVERTISE);
    ADD(&want, 7, 255);
    want_nothing(&want, 3, 7, NO_ADDRS);
    expect(ask_server(&w, &m), &want);
}

static void request_and_renew(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    struct ip_addr own = test_v6(0xfd00, 3), old = test_v6(0xfd77, 5);
    static const uint8_t types[] = {REQUEST, RENEW, REBIND};
    for (uint32_t i = 0; i < 3; i++) {
        begin(&m, types[i]);
        if (types[i] != REBIND)
            add(&m, 2, server_duid, sizeof(server_duid));
        add_common(&m);
        add_ia(&m, 3, 7, &own, 1);
        begin_want(&want, REPLY);
        want_lease(&want, 7);
        want_configuration(&want, &w);
        expect(ask_server(&w, &m), &want);

        // An address of another life is taken back when it is to be renewed.
        struct ip_addr both[] = {old, own};
        begin(&m, types[i]);
        if (types[i] != REBIND)
            add(&m, 2, server_duid, sizeof(server_duid));
        add_ia(&m, 3, 7, both, 2);
        begin_want(&want, REPLY);
        uint32_t at = want_lease(&want, 7);
        if (types[i] != REQUEST)
            want_address(&want, at, old, 0);
        expect(ask_server(&w, &m), &want);
    }
}

static void confirm(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    struct ip_addr own[] = {test_v6(0xfd00, 3), test_v6(0xfd77, 3)};
    begin(&m, CONFIRM);
    add_ia(&m, 3, 7, own, 1);
    begin_want(&want, REPLY);
    want_status(&want, 0);
    expect(ask_server(&w, &m), &want);
    begin(&m, CONFIRM);
    add_ia(&m, 3, 7, own, 2);
    begin_want(&want, REPLY);
    want_status(&want, NOT_ON_LINK);
    expect(ask_server(&w, &m), &want);
    begin(&m, CONFIRM);
    add_ia(&m, 3, 7, NULL, 0);
    expect_drop(ask_server(&w, &m), DROP_DHCP_IGNORED);
}

static void release_and_decline(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    struct ip_addr own = test_v6(0xfd00, 3);
    for (uint8_t type = RELEASE; type <= DECLINE; type++) {
        begin(&m, type);
        add(&m, 2, server_duid, sizeof(server_duid));
        add_ia(&m, 3, 7, &own, 1);
        begin_want(&want, REPLY);
        want_status(&want, 0);
        expect(ask_server(&w, &m), &want);
    }
}

static void information(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    begin(&m, INFORMATION);
    add_common(&m);
    begin_want(&want, REPLY);
    want_configuration(&want, &w);
    expect(ask_server(&w, &m), &want);

    m.len = 4; // the client may hide who it is
    add_common(&m);
    want.len = 4;
    add(&want, 2, server_duid, sizeof(server_duid));
    want_configuration(&want, &w);
    expect(ask_server(&w, &m), &want);
    add_ia(&m, 3, 7, NULL, 0);
    expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
}

static void domains(void **state)
{
    struct world w;
    static char long_name[400];
    world_init(&w);
    static const struct {
        const char *name, *labels;
        uint8_t len;
    } names[] = {{"a", "\1a", 3}, {"a.b.", "\1a\1b", 5}, {"", NULL, 0},
                 {".", NULL, 0},  {"a..b", NULL, 0},     {".a", NULL, 0}};
    for (uint32_t i = 0; i < ARRAY_LEN(names) + 2; i++) {
        struct message m, want;
        begin(&m, INFORMATION);
        ADD(&m, 6, 0, 24);
        begin_want(&want, REPLY);
        if (i < ARRAY_LEN(names)) {
            w.b.gateway.dhcp6.domain = names[i].name;
            if (names[i].len)
                add(&want, 24, names[i].labels, names[i].len);
        } else { // a label of 64; a name of 300
            for (uint32_t j = 0; j < 300; j++)
                long_name[j] = i > ARRAY_LEN(names) && j % 10 == 5 ? '.' : 'x';
            long_name[i > ARRAY_LEN(names) ? 300 : 64] = 0;
            w.b.gateway.dhcp6.domain = long_name;
        }
        expect(ask_server(&w, &m), &want);
    }
}

static void identifiers(void **state)
{
    struct world w;
    struct message m, want;
    world_init(&w);
    uint8_t long_duid[200] = {0, 2};
    // Without a client's id; with a server's where there must be none; without where there must be one.
    for (uint8_t type = SOLICIT; type <= INFORMATION; type++) {
        bool server = type == REQUEST || type == RENEW || type == RELEASE || type == DECLINE;
        bool from_server = type == ADVERTISE || type == REPLY || type == RECONFIGURE;
        begin(&m, type);
        if (!server)
            add(&m, 2, server_duid, sizeof(server_duid));
        if (from_server)
            expect_drop(ask_server(&w, &m), DROP_DHCP_SERVER);
        else if (type != INFORMATION)
            expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
        m.len = 4;
        if (server)
            add(&m, 2, server_duid, sizeof(server_duid));
        if (!from_server && type != INFORMATION)
            expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
        begin(&m, type);
        ADD(&m, 2, 0, 3, 0, 1, 2, 0, 0, 0, 0, 99); // of another server
        if (server || type == INFORMATION)
            expect_drop(ask_server(&w, &m), DROP_DHCP_IGNORED);
    }
    for (uint32_t n = 0; n < 200; n++) { // RFC 8415 section 11.1: up to 130 bytes in all
        m.len = 0;
        begin(&m, SOLICIT);
        m.len = 4;
        add(&m, 1, long_duid, n);
        struct answer a = ask_server(&w, &m);
        if (n >= 3 && n <= 130)
            expect_verdict(a, GATEWAY_ANSWER);
        else
            expect_drop(a, DROP_DHCP_INVALID);
    }
    begin(&m, SOLICIT);
    add(&m, 1, client_duid, sizeof(client_duid)); // twice
    expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
    begin(&m, 12);
    expect_drop(ask_server(&w, &m), DROP_DHCP_IGNORED);
    begin(&m, 13);
    expect_drop(ask_server(&w, &m), DROP_DHCP_SERVER);
    begin(&m, 200);
    expect_drop(ask_server(&w, &m), DROP_DHCP_IGNORED);

    begin(&m, RENEW); // unicast
    add(&m, 2, server_duid, sizeof(server_duid));
    begin_want(&want, REPLY);
    want_status(&want, USE_MULTICAST);
    expect(send_message(&w, &m, guest_ll, gateway_ll), &want);
    begin(&m, SOLICIT);
    expect_drop(send_message(&w, &m, guest_ll, gateway_ll), DROP_DHCP_IGNORED);
    expect_drop(send_message(&w, &m, test_v6(0xfd00, 9), servers), DROP_SPOOF_IP);
    expect_drop(send_message(&w, &m, guest_ll, test_v6(0xff05, 3)), DROP_MULTICAST);
    w.b.gateway.dhcp6.enabled = false;
    expect_drop(ask_server(&w, &m), DROP_DHCP_OFF);
}

static void nested(void **state)
{
    struct world w;
    struct message m;
    world_init(&w);
    // Each option holds the next: `outer`, then 39 times `inner`, as deep as these fit a frame.
    static const struct {
        uint16_t outer, inner;
    } nests[] = {{3, 3}, {3, 5}, {5, 5}, {25, 26}, {4, 5}, {9, 9}, {3, 25}};
    for (uint32_t i = 0; i < ARRAY_LEN(nests); i++) {
        uint32_t at[40];
        begin(&m, SOLICIT);
        for (uint32_t depth = 0; depth < 40; depth++) {
            uint16_t code = depth ? nests[i].inner : nests[i].outer;
            static const uint8_t fixed[32];
            at[depth] = open_option(&m, code);
            put(&m, fixed, code == 3 || code == 25 ? 12 : code == 4 || code == 9 ? 4 : code == 26 ? 25 : 24);
        }
        for (uint32_t depth = 40; depth-- > 0;)
            close_option(&m, at[depth]);
        expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
    }
    uint32_t at[200]; // 200 deep in 4 bytes each, inside a legal address and an unknown option
    for (uint16_t code = 3; code <= 77; code += 74) {
        static const uint8_t fixed[24];
        begin(&m, SOLICIT);
        uint32_t ia = open_option(&m, code);
        put(&m, fixed, 12);
        uint32_t address = open_option(&m, 5);
        put(&m, fixed, 24);
        for (uint32_t depth = 0; depth < 200; depth++)
            at[depth] = open_option(&m, 9);
        for (uint32_t depth = 200; depth-- > 0;)
            close_option(&m, at[depth]);
        close_option(&m, address);
        close_option(&m, ia);
        if (code == 3)
            expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
        else
            expect_verdict(ask_server(&w, &m), GATEWAY_ANSWER); // never looked into
    }
    begin(&m, SOLICIT);
    for (uint8_t i = 0; i < 8; i++)
        add_ia(&m, 3, i, NULL, 0);
    expect_verdict(ask_server(&w, &m), GATEWAY_ANSWER);
    add_ia(&m, 3, 9, NULL, 0);
    expect_drop(ask_server(&w, &m), DROP_DHCP_INVALID);
}

static void cut(void **state)
{
    struct world w;
    struct message m;
    world_init(&w);
    struct ip_addr own = test_v6(0xfd00, 3);
    begin(&m, SOLICIT);
    uint32_t whole[] = {0, 0, 0};
    whole[0] = m.len;
    add_ia(&m, 3, 7, &own, 1);
    whole[1] = m.len;
    add_common(&m);
    whole[2] = m.len - 6; // between option request and elapsed time
    for (uint32_t full = m.len, n = 0; n < full; n++) {
        m.len = n;
        struct answer a = ask_server(&w, &m);
        if (n == whole[0] || n == whole[1] || n == whole[2])
            expect_verdict(a, GATEWAY_ANSWER);
        else
            expect_drop(a, DROP_DHCP_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T4 solicit gets an advertisement, with rapid commit a reply", .test_func = solicit},
        {.name = "T4 request, renew and rebind get the address", .test_func = request_and_renew},
        {.name = "T4 confirm tells whether the address is still right", .test_func = confirm},
        {.name = "T4 release and decline succeed", .test_func = release_and_decline},
        {.name = "T4 information-request gets the configuration", .test_func = information},
        {.name = "domain names are encoded as labels or left out", .test_func = domains},
        {.name = "T4 messages carry the identifiers that RFC 8415 section 16 asks for", .test_func = identifiers},
        {.name = "T4 deeply nested options are dropped", .test_func = nested},
        {.name = "T4 a message cut anywhere is dropped", .test_func = cut},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
