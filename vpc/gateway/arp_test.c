// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/test_gateway.h"

struct arp_spec {
    struct mac_addr eth_src, eth_dst, sha, tha;
    struct ip_addr spa, tpa;
    uint16_t operation;
};

static struct arp_spec who_has(struct ip_addr target)
{
    return (struct arp_spec){guest_mac, broadcast_mac, guest_mac, {{0}}, test_v4(10, 0, 0, 3), target, 1};
}

static void make(uint8_t f[42], const struct arp_spec *s)
{
    static const uint8_t fixed[] = {8, 6, 0, 1, 8, 0, 6, 4};
    memcpy(f, s->eth_dst.b, 6);
    memcpy(f + 6, s->eth_src.b, 6);
    memcpy(f + 12, fixed, 8);
    store_be16(f + 20, s->operation);
    memcpy(f + 22, s->sha.b, 6);
    memcpy(f + 28, s->spa.b + 12, 4);
    memcpy(f + 32, s->tha.b, 6);
    memcpy(f + 38, s->tpa.b + 12, 4);
}

static struct answer ask_arp(const struct world *w, struct arp_spec s)
{
    uint8_t f[60] = {0}; // padded, as the wire has it
    make(f, &s);
    return ask_bytes(w, f, sizeof(f));
}

static void expect_reply(struct answer a, struct ip_addr target, struct ip_addr asker)
{
    uint8_t want[42];
    struct arp_spec s = {gateway_mac, guest_mac, gateway_mac, guest_mac, target, asker, 2};
    assert_int_equal(a.verdict, GATEWAY_ANSWER);
    make(want, &s);
    assert_int_equal(a.p.len, 42);
    assert_memory_equal(a.p.data, want, 42);
    done(&a);
}

static const struct ip_addr any4 = {.b = {[10] = 0xff, [11] = 0xff}};

static void gateway_and_metadata(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), gw = test_v4(10, 0, 0, 1);
    expect_reply(ask_arp(&w, who_has(gw)), gw, own);
    expect_reply(ask_arp(&w, who_has(metadata_v4)), metadata_v4, own);
    struct arp_spec unicast = who_has(gw); // as a neighbour cache refreshes itself
    unicast.eth_dst = unicast.tha = gateway_mac;
    expect_reply(ask_arp(&w, unicast), gw, own);
    struct arp_spec probe = who_has(gw);
    probe.spa = any4;
    expect_reply(ask_arp(&w, probe), gw, any4);
    w.b.gateway.metadata.enabled = false;
    expect_drop(ask_arp(&w, who_has(metadata_v4)), DROP_METADATA_OFF);
}

static void neighbours(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr own = test_v4(10, 0, 0, 3), peer = test_v4(10, 0, 0, 77);
    struct answer a = ask_arp(&w, who_has(peer));
    assert_string_equal(a.note.text, "answered ARP, from a guest with the subnet's mask, for 10.0.0.77");
    expect_reply(a, peer, own);
    w.b.gateway.guest_prefix_subnet = true;
    expect_reply(ask_arp(&w, who_has(peer)), peer, own);
    expect_drop(ask_arp(&w, who_has(test_v4(10, 0, 1, 4))), DROP_ARP_INVALID);
    expect_drop(ask_arp(&w, who_has(test_v4(10, 0, 0, 255))), DROP_ARP_INVALID);
    expect_drop(ask_arp(&w, who_has(test_v4(10, 0, 0, 0))), DROP_ARP_INVALID);

    w.addresses[1] = test_v4(10, 0, 0, 33);
    expect_drop(ask_arp(&w, who_has(w.addresses[1])), DROP_BROADCAST);
    struct arp_spec probe = who_has(own);
    probe.spa = any4;
    expect_drop(ask_arp(&w, probe), DROP_BROADCAST);
    probe.tpa = peer; // is it free? Not the gateway's to say
    expect_drop(ask_arp(&w, probe), DROP_BROADCAST);
}

static void spoofed(void **state)
{
    struct world w;
    world_init(&w);
    struct ip_addr gw = test_v4(10, 0, 0, 1);
    struct arp_spec s = who_has(gw);
    s.sha = other_mac;
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s = who_has(gw);
    s.eth_src = s.sha = other_mac;
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s = who_has(gw);
    s.spa = test_v4(10, 0, 0, 9);
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s.spa = gw;
    s.tpa = test_v4(10, 0, 0, 4);
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s = who_has(test_v4(10, 0, 0, 3)); // gratuitous
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s.operation = 2;
    expect_drop(ask_arp(&w, s), DROP_SPOOF_ARP);
    s = who_has(gw);
    s.operation = 2;
    expect_drop(ask_arp(&w, s), DROP_ARP_INVALID);

    w.b.l2.n_allowed = 1;
    w.allowed[0] = (struct blueprint_allowed){prefix(test_v4(10, 0, 0, 100), 128), true, other_mac, BLUEPRINT_BOTH};
    s = who_has(gw);
    s.spa = test_v4(10, 0, 0, 100);
    s.eth_src = s.sha = other_mac;
    expect_verdict(ask_arp(&w, s), GATEWAY_ANSWER);

    w.b.l2.anti_spoof = false;
    w.b.l2.n_allowed = 0;
    s.spa = test_v4(10, 0, 0, 9);
    expect_verdict(ask_arp(&w, s), GATEWAY_ANSWER);
    expect_drop(ask_arp(&w, who_has(test_v4(10, 0, 0, 3))), DROP_SPOOF_ARP);
}

static void malformed(void **state)
{
    struct world w;
    world_init(&w);
    uint8_t f[42];
    struct arp_spec s = who_has(test_v4(10, 0, 0, 1));
    for (uint32_t n = 14; n < 42; n++) {
        make(f, &s);
        expect_drop(ask_bytes(&w, f, n), DROP_ARP_INVALID);
    }
    static const struct {
        uint8_t at, value;
    } damage[] = {{15, 6}, {16, 9}, {18, 8}, {19, 16}, {21, 0}, {21, 3}};
    for (uint32_t i = 0; i < ARRAY_LEN(damage); i++) {
        make(f, &s);
        f[damage[i].at] = damage[i].value;
        expect_drop(ask_bytes(&w, f, 42), DROP_ARP_INVALID);
    }
}

static void announcement(void **state)
{
    struct world w;
    world_init(&w);
    uint8_t *buffer, want[42];
    struct packet p = lend_packet(NULL, 0, &buffer);
    struct arp_spec s = {gateway_mac, broadcast_mac, gateway_mac, {{0}}, w.b.gateway.v4, w.b.gateway.v4, 1};
    gateway_make_announcement(&w.g, &p, false);
    make(want, &s);
    assert_int_equal(p.len, 42);
    assert_memory_equal(p.data, want, 42);
    w.b.gateway.has_v4 = false;
    gateway_make_announcement(&w.g, &p, false);
    assert_int_equal(p.len, 0);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T1 who-has the gateway or the metadata address gets one reply", .test_func = gateway_and_metadata},
        {.name = "T2 who-has another address of the subnet gets the gateway's MAC", .test_func = neighbours},
        {.name = "T2 gratuitous ARP and foreign senders are dropped", .test_func = spoofed},
        {.name = "malformed ARP is dropped", .test_func = malformed},
        {.name = "O6 the gateway is announced by gratuitous ARP", .test_func = announcement},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
