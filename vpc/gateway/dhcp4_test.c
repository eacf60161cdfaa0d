// SPDX-License-Identifier: MPL-2.0
// Exchanges as stock clients have them, each answer decoded by a reader of its own and compared whole.
#include "vpc/gateway/test_gateway.h"

enum { DISCOVER = 1, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE, INFORM };
enum { BROADCAST_FLAG = 0x8000 };

struct message { // to the server
    uint8_t b[1400];
    uint32_t len;
};

static void begin(struct message *m, uint16_t flags, const uint8_t *ciaddr)
{
    memset(m, 0, sizeof(*m));
    static const uint8_t head[] = {1, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef, 0, 5};
    static const uint8_t cookie[] = {99, 130, 83, 99};
    memcpy(m->b, head, sizeof(head));
    store_be16(m->b + 10, flags);
    if (ciaddr)
        memcpy(m->b + 12, ciaddr, 4);
    memcpy(m->b + 28, guest_mac.b, 6);
    memcpy(m->b + 236, cookie, 4);
    m->len = 240;
}

static void add(struct message *m, uint8_t code, const void *value, uint8_t n)
{
    m->b[m->len] = code;
    m->b[m->len + 1] = n;
    memcpy(m->b + m->len + 2, value, n);
    m->len += 2u + n;
}
#define ADD(m, code, ...) add(m, code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void end(struct message *m, uint32_t pad_to)
{
    m->b[m->len++] = 255;
    if (m->len < pad_to)
        m->len = pad_to;
}

// Option sets and their order as the clients' documents and captures show them. Each adds what its state needs.
static void dhclient_options(struct message *m)
{
    add(m, 12, "debian", 6);
    ADD(m, 55, 1, 28, 2, 3, 15, 6, 119, 12, 44, 47, 26, 121, 42);
    end(m, 300);
}

static void udhcpc_options(struct message *m)
{
    ADD(m, 57, 0x02, 0x40); // 576
    ADD(m, 55, 1, 3, 6, 12, 15, 28, 42);
    add(m, 60, "udhcp 1.35.0", 12);
    end(m, 300);
}

static const uint8_t udhcpc_id[] = {1, 0x02, 0, 0, 0, 0, 0x03};
static const uint8_t networkd_id[] = {0xff, 0x9d, 0x3c, 0x51, 0x1e, 0, 2, 0, 0, 0xab, 0x11, 1, 2, 3, 4, 5, 6, 7, 8};

static void networkd_options(struct message *m)
{
    add(m, 61, networkd_id, sizeof(networkd_id));
    ADD(m, 55, 1, 3, 6, 12, 15, 26, 33, 42, 119, 120, 121, 162);
    ADD(m, 57, 0x05, 0xc0); // 1472
    add(m, 12, "vm", 2);
}

static struct answer send_message(const struct world *w, const struct message *m, struct ip_addr src,
                                  struct ip_addr dst)
{
    struct test_frame f;
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_UDP4, .src = src, .dst = dst, .sport = 68, .dport = 67};
    s.payload = m->b;
    s.payload_len = m->len;
    guest_frame(&f, &s, NULL, ip_is_v4_broadcast(&dst) ? &broadcast_mac : NULL);
    return ask_bytes(w, f.b, f.len);
}

static struct answer send_broadcast(const struct world *w, const struct message *m)
{
    return send_message(w, m, test_v4(0, 0, 0, 0), test_v4(255, 255, 255, 255));
}

// ---- The reader

struct reply {
    const uint8_t *m; // BOOTP
    uint32_t len;
    uint8_t value[256][600];
    uint32_t size[256];
    bool present[256];
};

static void read_reply(struct answer *a, struct reply *r)
{
    assert_drop(a->reason, DROP_NONE);
    assert_int_equal(a->verdict, GATEWAY_ANSWER);
    assert_int_equal(load_be16(a->p.data + 34), 67);
    assert_int_equal(load_be16(a->p.data + 36), 68);
    assert_int_equal(load_be16(a->p.data + 38), a->p.len - 34);
    assert_true(load_be16(a->p.data + 40) != 0);
    memset(r, 0, sizeof(*r));
    r->m = a->p.data + 42;
    r->len = a->p.len - 42;
    assert_true(r->len >= 300);
    uint32_t at = 240;
    for (; r->m[at] != 255; at += 2u + r->m[at + 1]) {
        uint8_t code = r->m[at], n = r->m[at + 1];
        assert_true(code != 0 && at + 2 + n < r->len);
        memcpy(r->value[code] + r->size[code], r->m + at + 2, n);
        r->size[code] += n;
        r->present[code] = true;
    }
    for (at++; at < r->len; at++)
        assert_int_equal(r->m[at], 0);
}

static void expect_header(const struct answer *a, const struct reply *r, uint16_t flags, struct ip_addr ciaddr,
                          struct ip_addr yiaddr, struct ip_addr to, const struct mac_addr *mac)
{
    uint8_t want[240] = {2, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef};
    store_be16(want + 10, flags);
    memcpy(want + 12, ciaddr.b + 12, 4);
    memcpy(want + 16, yiaddr.b + 12, 4);
    memcpy(want + 28, guest_mac.b, 6);
    store_be32(want + 236, 0x63825363);
    assert_memory_equal(r->m, want, 240);
    assert_memory_equal(a->p.data, mac->b, 6);
    assert_true(ip_equal(&a->pp.dst, &to));
    struct ip_addr gw = test_v4(10, 0, 0, 1);
    assert_true(ip_equal(&a->pp.src, &gw));
}

struct want {
    uint8_t code, len;
    uint8_t value[40];
};
#define WANT(code, ...) \
    { \
        code, sizeof((const uint8_t[]){__VA_ARGS__}), \
        { \
            __VA_ARGS__ \
        } \
    }

static void expect_options(const struct reply *r, const struct want *want, uint32_t n)
{
    bool wanted[256] = {false};
    for (uint32_t i = 0; i < n; i++) {
        wanted[want[i].code] = true;
        assert_int_equal(r->size[want[i].code], want[i].len);
        assert_memory_equal(r->value[want[i].code], want[i].value, want[i].len);
    }
    for (uint32_t code = 0; code < 256; code++)
        assert_int_equal(r->present[code], wanted[code]);
}

#define SERVER WANT(54, 10, 0, 0, 1)
#define TIMES WANT(51, 0, 0, 0x0e, 0x10), WANT(58, 0, 0, 7, 8), WANT(59, 0, 0, 0x0c, 0x4e)
#define MASK WANT(1, 255, 255, 255, 255)
#define ROUTER WANT(3, 10, 0, 0, 1)
#define DNS WANT(6, 9, 9, 9, 9, 1, 1, 1, 1)
#define NAMES WANT(12, 'w', 'e', 'b'), WANT(15, 'v', 'p', 'c', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e')
#define ROUTES WANT(121, 32, 10, 0, 0, 1, 0, 0, 0, 0, 0, 10, 0, 0, 1)
#define MTU WANT(26, 0x05, 0xaa)

static const struct ip_addr any4 = {.b = {[10] = 0xff, [11] = 0xff}};

static void dhclient(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), gw = test_v4(10, 0, 0, 1);

    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    dhclient_options(&m);
    struct answer a = send_broadcast(&w, &m);
    assert_string_equal(a.note.text, "answered DHCPDISCOVER with DHCPOFFER 10.0.0.3");
    read_reply(&a, &r);
    expect_header(&a, &r, 0, any4, own, own, &guest_mac);
    static const struct want offer[] = {WANT(53, OFFER), SERVER, TIMES, MASK, ROUTER, DNS, MTU, NAMES, ROUTES};
    expect_options(&r, offer, ARRAY_LEN(offer));
    done(&a);

    static const struct want ack[] = {WANT(53, ACK), SERVER, TIMES, MASK, ROUTER, DNS, MTU, NAMES, ROUTES};
    begin(&m, 0, NULL); // SELECTING
    ADD(&m, 53, REQUEST);
    ADD(&m, 54, 10, 0, 0, 1);
    ADD(&m, 50, 10, 0, 0, 3);
    dhclient_options(&m);
    a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, any4, own, own, &guest_mac);
    expect_options(&r, ack, ARRAY_LEN(ack));
    done(&a);

    begin(&m, 0, own.b + 12); // RENEWING: unicast
    ADD(&m, 53, REQUEST);
    dhclient_options(&m);
    a = send_message(&w, &m, own, gw);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, own, own, own, &guest_mac);
    expect_options(&r, ack, ARRAY_LEN(ack));
    done(&a);

    a = send_message(&w, &m, own, test_v4(255, 255, 255, 255)); // REBINDING
    read_reply(&a, &r);
    expect_header(&a, &r, 0, own, own, own, &guest_mac);
    done(&a);

    begin(&m, 0, NULL); // INIT-REBOOT with an address of another life
    ADD(&m, 53, REQUEST);
    ADD(&m, 50, 192, 168, 1, 50);
    dhclient_options(&m);
    a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, any4, any4, test_v4(255, 255, 255, 255), &broadcast_mac);
    static const struct want nak[] = {WANT(53, NAK), SERVER};
    expect_options(&r, nak, ARRAY_LEN(nak));
    done(&a);

    begin(&m, 0, own.b + 12);
    ADD(&m, 53, RELEASE);
    ADD(&m, 54, 10, 0, 0, 1);
    end(&m, 300);
    expect_drop(send_message(&w, &m, own, gw), DROP_DHCP_IGNORED);
}

static void udhcpc(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3);
#define UDHCPC_ID WANT(61, 1, 0x02, 0, 0, 0, 0, 0x03)
    static const struct want offer[] = {WANT(53, OFFER), SERVER, TIMES, MASK, ROUTER, DNS, UDHCPC_ID, NAMES, ROUTES};
    static const struct want ack[] = {WANT(53, ACK), SERVER, TIMES, MASK, ROUTER, DNS, UDHCPC_ID, NAMES, ROUTES};
    begin(&m, BROADCAST_FLAG, NULL); // udhcpc -B
    ADD(&m, 53, DISCOVER);
    add(&m, 61, udhcpc_id, sizeof(udhcpc_id));
    udhcpc_options(&m);
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, BROADCAST_FLAG, any4, own, test_v4(255, 255, 255, 255), &broadcast_mac);
    expect_options(&r, offer, ARRAY_LEN(offer));
    assert_true(a.p.len <= 14 + 576);
    done(&a);

    begin(&m, 0, NULL);
    ADD(&m, 53, REQUEST);
    add(&m, 61, udhcpc_id, sizeof(udhcpc_id));
    ADD(&m, 50, 10, 0, 0, 3);
    ADD(&m, 54, 10, 0, 0, 1);
    udhcpc_options(&m);
    a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, any4, own, own, &guest_mac);
    expect_options(&r, ack, ARRAY_LEN(ack));
    done(&a);

    begin(&m, 0, NULL); // a conflict seen by ARP
    ADD(&m, 53, DECLINE);
    add(&m, 61, udhcpc_id, sizeof(udhcpc_id));
    ADD(&m, 50, 10, 0, 0, 3);
    ADD(&m, 54, 10, 0, 0, 1);
    end(&m, 300);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_IGNORED);
}

static void networkd(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    w.b.gateway.guest_prefix_subnet = true;
    struct ip_addr own = test_v4(10, 0, 0, 3);
#define NETWORKD_ID WANT(61, 0xff, 0x9d, 0x3c, 0x51, 0x1e, 0, 2, 0, 0, 0xab, 0x11, 1, 2, 3, 4, 5, 6, 7, 8)
    static const struct want offer[] = {
        WANT(53, OFFER),          SERVER, TIMES, WANT(1, 255, 255, 255, 0), ROUTER, DNS, MTU, NETWORKD_ID, NAMES,
        WANT(121, 0, 10, 0, 0, 1)};
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    networkd_options(&m);
    add(&m, 80, "", 0); // rapid commit: may be passed over
    end(&m, 0);
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, any4, own, own, &guest_mac);
    expect_options(&r, offer, ARRAY_LEN(offer));
    done(&a);

    begin(&m, 0, NULL);
    ADD(&m, 53, REQUEST);
    networkd_options(&m);
    ADD(&m, 50, 10, 0, 0, 3);
    ADD(&m, 54, 10, 0, 0, 2); // of another server
    end(&m, 0);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_IGNORED);
}

// Found by fuzzing: an offer was sent to whatever address the client claimed to have.
static void foreign_client_address(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), foreign = test_v4(127, 254, 202, 94);
    begin(&m, 0, foreign.b + 12);
    ADD(&m, 53, DISCOVER);
    end(&m, 300);
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    expect_header(&a, &r, 0, test_v4(0, 0, 0, 0), own, own, &guest_mac);
    done(&a);
    begin(&m, 0, foreign.b + 12);
    ADD(&m, 53, INFORM);
    end(&m, 300);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_INVALID);
}

static void windows(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), gw = test_v4(10, 0, 0, 1);
    begin(&m, 0, own.b + 12);
    ADD(&m, 53, INFORM);
    add(&m, 61, udhcpc_id, sizeof(udhcpc_id));
    add(&m, 12, "WIN-1", 5);
    add(&m, 60, "MSFT 5.0", 8);
    ADD(&m, 55, 1, 3, 6, 15, 31, 33, 43, 44, 46, 47, 119, 121, 249, 252);
    end(&m, 300);
    struct answer a = send_message(&w, &m, own, test_v4(255, 255, 255, 255));
    read_reply(&a, &r);
    expect_header(&a, &r, 0, own, any4, own, &guest_mac);
    static const struct want ack[] = {WANT(53, ACK), SERVER, MASK,
                                      ROUTER,        DNS,    UDHCPC_ID,
                                      NAMES,         ROUTES, WANT(249, 32, 10, 0, 0, 1, 0, 0, 0, 0, 0, 10, 0, 0, 1)};
    expect_options(&r, ack, ARRAY_LEN(ack));
    done(&a);
    a = send_message(&w, &m, own, gw);
    read_reply(&a, &r);
    expect_options(&r, ack, ARRAY_LEN(ack));
    done(&a);
}

static void more_routes(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    static struct blueprint_dhcp_route routes[100];
    for (uint32_t i = 0; i < 100; i++)
        routes[i] = (struct blueprint_dhcp_route){prefix(test_v4(172, 16, (uint8_t)i, 0), 120), any4};
    routes[0] = (struct blueprint_dhcp_route){prefix(test_v4(192, 168, 128, 0), 115), test_v4(10, 0, 0, 50)};
    routes[1] = (struct blueprint_dhcp_route){prefix(test_v4(192, 169, 0, 0), 112), test_v4(10, 0, 0, 50)};
    w.b.gateway.dhcp4.routes = routes;
    w.b.gateway.dhcp4.n_routes = 3;
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    dhclient_options(&m);
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    static const uint8_t host_mask[] = {32,  10,  0,  0, 1, 0,  0,  0,   0,   0,   10,  0,  0, 1, 32, 10,
                                        0,   0,   50, 0, 0, 0,  0,  19,  192, 168, 128, 10, 0, 0, 50, 16,
                                        192, 169, 10, 0, 0, 50, 24, 172, 16,  2,   10,  0,  0, 1};
    assert_int_equal(r.size[121], sizeof(host_mask));
    assert_memory_equal(r.value[121], host_mask, sizeof(host_mask));
    done(&a);

    w.b.gateway.guest_prefix_subnet = true;
    a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    static const uint8_t subnet_mask[] = {0,   10,  0,  0, 1, 19, 192, 168, 128, 10, 0,  0, 50, 16,
                                          192, 169, 10, 0, 0, 50, 24,  172, 16,  2,  10, 0, 0,  1};
    assert_int_equal(r.size[121], sizeof(subnet_mask));
    assert_memory_equal(r.value[121], subnet_mask, sizeof(subnet_mask));
    done(&a);

    // More than fits: the default route is there, the rest as far as it goes, whole routes only, in parts of 255.
    w.b.gateway.dhcp4.n_routes = 100;
    static const uint16_t sizes[] = {0, 576, 700, 1000, 1472, 65535};
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        for (uint32_t twice = 0; twice < 2; twice++) {
            begin(&m, 0, NULL);
            ADD(&m, 53, DISCOVER);
            if (sizes[i])
                ADD(&m, 57, (uint8_t)(sizes[i] >> 8), (uint8_t)sizes[i]);
            ADD(&m, 55, 1, 121, 26, twice ? 249 : 3);
            end(&m, 0);
            a = send_broadcast(&w, &m);
            read_reply(&a, &r);
            assert_true(a.p.len <= 14u + MIN(MAX(sizes[i], 576), 1450));
            assert_memory_equal(r.value[121], subnet_mask, 20);
            assert_true(r.size[121] % 8 == 4 && r.size[121] >= 5 + 8 + 7 + 8);
            if (sizes[i] >= 1000 && !twice)
                assert_true(r.size[121] > 255);
            assert_int_equal(r.size[249], twice ? r.size[121] : 0);
            done(&a);
        }
    }
}

static void long_options(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    static char long_name[300];
    uint8_t id[255];
    memset(long_name, 'n', sizeof(long_name) - 1);
    memset(id, 0x77, sizeof(id));
    world_init(&w);
    w.b.gateway.dhcp4.hostname = long_name + 44; // 255
    w.b.gateway.dhcp4.domain = long_name;        // too long to be said
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    add(&m, 61, id, 200); // in two parts, RFC 3396
    add(&m, 61, id, 55);
    ADD(&m, 57, 0x05, 0xdc);
    end(&m, 0);
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    assert_int_equal(r.size[61], 255);
    assert_memory_equal(r.value[61], id, 255);
    assert_int_equal(r.size[12], 255);
    assert_false(r.present[15]);
    assert_true(r.present[121]);
    done(&a);

    begin(&m, 0, NULL); // in 576 bytes they do not fit; the routes do
    ADD(&m, 53, DISCOVER);
    add(&m, 61, id, 255);
    end(&m, 0);
    a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    assert_true(a.p.len <= 14 + 576);
    assert_false(r.present[61]);
    assert_true(r.present[121]);
    done(&a);

    begin(&m, 0, NULL); // 256 bytes of client id are nobody's
    ADD(&m, 53, DISCOVER);
    add(&m, 61, id, 255);
    add(&m, 61, id, 1);
    end(&m, 0);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_INVALID);
}

static void lease_times(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    static const struct {
        uint32_t lease, said, t1, t2;
    } times[] = {{0, 3600, 1800, 3150},
                 {1, 1, 0, 0},
                 {86400, 86400, 43200, 75600},
                 {0xfffffffe, 0xfffffffe, 0x7fffffff, 0xdffffffe},
                 {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}};
    for (uint32_t i = 0; i < ARRAY_LEN(times); i++) {
        w.b.gateway.dhcp4.lease_s = times[i].lease;
        begin(&m, 0, NULL);
        ADD(&m, 53, DISCOVER);
        end(&m, 0);
        struct answer a = send_broadcast(&w, &m);
        read_reply(&a, &r);
        assert_int_equal(load_be32(r.value[51]), times[i].said);
        assert_int_equal(load_be32(r.value[58]), times[i].t1);
        assert_int_equal(load_be32(r.value[59]), times[i].t2);
        done(&a);
    }
}

static void which_address(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), gw = test_v4(10, 0, 0, 1);
    begin(&m, 0, NULL);
    ADD(&m, 53, REQUEST);
    ADD(&m, 54, 10, 0, 0, 1);
    end(&m, 0);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_INVALID); // for no address at all
    static const uint8_t wrong[4] = {10, 0, 0, 4};
    begin(&m, 0, wrong);
    ADD(&m, 53, REQUEST);
    end(&m, 0);
    struct answer a = send_message(&w, &m, own, gw);
    read_reply(&a, &r);
    assert_int_equal(r.value[53][0], NAK);
    expect_header(&a, &r, 0, any4, any4, test_v4(255, 255, 255, 255), &broadcast_mac);
    done(&a);
    begin(&m, 0, own.b + 12); // two opinions
    ADD(&m, 53, REQUEST);
    ADD(&m, 50, 10, 0, 0, 4);
    add(&m, 61, udhcpc_id, sizeof(udhcpc_id));
    end(&m, 0);
    a = send_message(&w, &m, own, gw);
    read_reply(&a, &r);
    static const struct want nak[] = {WANT(53, NAK), SERVER, UDHCPC_ID};
    expect_options(&r, nak, ARRAY_LEN(nak));
    done(&a);
}

static void overload(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    begin(&m, 0, NULL);
    ADD(&m, 52, 3);
    end(&m, 0);
    static const uint8_t in_file[] = {53, 1, REQUEST, 255}, in_sname[] = {0, 0, 50, 4, 10, 0, 0, 3};
    memcpy(m.b + 108, in_file, sizeof(in_file));
    memcpy(m.b + 44, in_sname, sizeof(in_sname));
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    assert_int_equal(r.value[53][0], ACK);
    done(&a);
    m.b[108 + 1] = 200; // past the field's end
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_INVALID);
}

static void not_answered(void **state)
{
    struct world w;
    struct message m;
    world_init(&w);
    static const struct {
        uint8_t at, value;
        enum drop want;
    } damage[] = {
        {0, 2, DROP_DHCP_SERVER},      {0, 3, DROP_DHCP_INVALID},    {1, 6, DROP_DHCP_INVALID},
        {2, 0, DROP_DHCP_INVALID},     {2, 16, DROP_DHCP_INVALID},   {27, 1, DROP_DHCP_IGNORED},
        {33, 9, DROP_DHCP_IGNORED},    {236, 0, DROP_DHCP_INVALID},  {241, 2, DROP_DHCP_INVALID},
        {241, 255, DROP_DHCP_INVALID}, {242, 0, DROP_DHCP_IGNORED},  {242, OFFER, DROP_DHCP_SERVER},
        {242, ACK, DROP_DHCP_SERVER},  {242, NAK, DROP_DHCP_SERVER}, {242, 13, DROP_DHCP_IGNORED},
    };
    for (uint32_t i = 0; i < ARRAY_LEN(damage); i++) {
        begin(&m, 0, NULL);
        ADD(&m, 53, DISCOVER);
        end(&m, 0);
        m.b[damage[i].at] = damage[i].value;
        expect_drop(send_broadcast(&w, &m), damage[i].want);
    }
    begin(&m, 0, NULL); // no message type: BOOTP
    end(&m, 300);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_IGNORED);
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    end(&m, 0);
    for (uint32_t n = 0; n < 243; n++) {
        m.len = n;
        expect_drop(send_broadcast(&w, &m), n == 240 ? DROP_DHCP_IGNORED : DROP_DHCP_INVALID);
    }
    m.len = 244;
    expect_drop(send_message(&w, &m, test_v4(10, 0, 0, 9), test_v4(255, 255, 255, 255)), DROP_SPOOF_IP);
    w.b.gateway.dhcp4.enabled = false;
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_OFF);
    w.b.gateway.dhcp4.enabled = true;
    w.b.l2.addresses = w.addresses + 1;
    w.b.l2.n_addresses = 1; // no IPv4 to give
    world_changed(&w);
    expect_drop(send_broadcast(&w, &m), DROP_DHCP_OFF);
}

static void anti_spoof_off(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    world_init(&w);
    w.b.l2.anti_spoof = false;
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    end(&m, 0);
    m.b[33] = 9; // a MAC that the blueprint does not know
    struct answer a = send_broadcast(&w, &m);
    read_reply(&a, &r);
    assert_memory_equal(r.m + 28, m.b + 28, 16);
    assert_memory_equal(a.p.data, m.b + 28, 6);
    done(&a);
}

static void checksums(void **state)
{
    struct world w;
    struct message m;
    struct reply r;
    struct test_frame f;
    uint8_t *buffer;
    struct parsed pp;
    world_init(&w);
    begin(&m, 0, NULL);
    ADD(&m, 53, DISCOVER);
    dhclient_options(&m);
    struct test_spec s = {.ip_version = 4, .protocol = IPPROTO_UDP4, .src = any4, .sport = 68, .dport = 67};
    s.dst = test_v4(255, 255, 255, 255);
    s.payload = m.b;
    s.payload_len = m.len;
    guest_frame(&f, &s, NULL, &broadcast_mac);
    struct packet p = lend_packet(f.b, f.len, &buffer);
    parse_frame(&p, &pp);
    test_make_partial(&p, &pp);
    struct answer a = ask_packet(&w, p, buffer);
    read_reply(&a, &r);
    done(&a);
    s.zero_checksum = true;
    guest_frame(&f, &s, NULL, &broadcast_mac);
    a = ask_bytes(&w, f.b, f.len);
    read_reply(&a, &r);
    done(&a);
    f.b[41] = 1;
    expect_drop(ask_bytes(&w, f.b, f.len), DROP_DHCP_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T3 O4 dhclient: discover, request, renew, rebind, wrong address, release", .test_func = dhclient},
        {.name = "T3 O4 udhcpc: discover by broadcast, request, decline", .test_func = udhcpc},
        {.name = "T3 O4 systemd-networkd: the subnet's mask when asked, another server's lease", .test_func = networkd},
        {.name = "T3 a client address that is not the guest's is not answered to", .test_func = foreign_client_address},
        {.name = "O4 Windows: inform is acknowledged without lease, option 249 when asked", .test_func = windows},
        {.name = "O4 option 121 has the default route first and grows to what fits", .test_func = more_routes},
        {.name = "O4 long options never overflow the answer", .test_func = long_options},
        {.name = "T3 lease times at their limits", .test_func = lease_times},
        {.name = "T3 a request must name the port's address and nothing else", .test_func = which_address},
        {.name = "O4 options in the file and sname fields are read", .test_func = overload},
        {.name = "T3 malformed, foreign and needless messages are dropped by name", .test_func = not_answered},
        {.name = "T8 without anti-spoof any client of the port is served", .test_func = anti_spoof_off},
        {.name = "O3 answers have full checksums whatever the question had", .test_func = checksums},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
