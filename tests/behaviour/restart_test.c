// SPDX-License-Identifier: MPL-2.0
// kill -9 and start again: connections are adopted, the policy that comes back judges them, bindings are theirs.
#include "core/internal.h"
#include "tests/behaviour/outside.h"

static void restart_with(struct lab *l, const struct node_config *c)
{
    check_conservation(l->a);
    fake_crash(l->a);
    fake_forget(l->a);
    memset(l->a->spent_drops, 0, sizeof(l->a->spent_drops));
    memset(l->a->seen_port, 0, sizeof(l->a->seen_port));
    memset(&l->a->seen_node, 0, sizeof(l->a->seen_node));
    assert_true(fake_start(l->a, c));
}

static void restart(struct lab *l)
{
    struct node_config c = edge_config(NODE_A);
    restart_with(l, &c);
}

// What nereusd does with the state on disk.
static void come_back(struct lab *l)
{
    struct node_error e;
    EACH_FAMILY(family)
    map(l->a, 100, address_of(P, family), PEER_MAC, NODE_B, 1);
    serve(l->a, 1, 1, &NODE_A);
    if (!node_blueprint_put(l->a->node, &l->guest.b, l->a->now, l->a->wall, &e))
        fail_msg("blueprint refused at %s: %s", e.pointer, e.text);
    fake_quiesce(l->a);
    l->g = node_port_find(l->a->node, &l->guest.b.port);
    fake_forget(l->a);
}

static uint32_t adopted(struct lab *l)
{
    return conn_count(l->a->node->connections); // ports that are not back yet list no flows
}

static struct frame shake_hands(struct lab *l, int family, uint16_t sport)
{
    struct frame f = tcp(family, G, sport, via(OUTSIDE, GATEWAY_MAC), 443, TCP_SYN, 1000, 0, 0);
    send_guest(l, &f);
    struct frame out = expect_outside(l->a);
    struct frame answer = reply_to(&out, TCP_SYN | TCP_ACK);
    struct view v = view_of(&answer);
    store_be32(v.l4 + 4, 5000);
    frame_fix(&answer);
    from_outside(l->a, &answer);
    expect_at(l->a, l->g);
    f = tcp(family, G, sport, via(OUTSIDE, GATEWAY_MAC), 443, TCP_ACK, 1001, 5001, 0);
    send_guest(l, &f);
    return expect_outside(l->a);
}

static struct frame data_from_outside(int family, const struct frame *out)
{
    struct frame copy = *out;
    struct view v = view_of(&copy);
    return tcp(family, OUTSIDE, 443, SHARED, v.sport, TCP_ACK | TCP_PSH, 5001, 1001, 10);
}

static void t80_snat(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    l->g = put(l->a, &l->guest);
    struct frame out[7];
    EACH_FAMILY(family)
    out[family] = shake_hands(l, family, 30000);
    for (int crash = 0; crash < 3; crash++) {
        restart(l);
        assert_int_equal(adopted(l), 2);
        come_back(l);
        assert_int_equal(flows(l->a, l->g), 2);
        EACH_FAMILY(family)
        {
            struct frame in = data_from_outside(family, &out[family]); // first what comes from outside
            if (crash % 2 == 0) {
                from_outside(l->a, &in);
                struct frame at = expect_at(l->a, l->g);
                assert_true(goes(&at, family, OUTSIDE, G));
                assert_int_equal(view_of(&at).dport, 30000);
            }
            struct frame f = tcp(family, G, 30000, via(OUTSIDE, GATEWAY_MAC), 443, TCP_ACK, 1001, 5011, 100);
            send_guest(l, &f);
            struct frame again = expect_outside(l->a);
            assert_int_equal(view_of(&again).sport, view_of(&out[family]).sport);
            from_outside(l->a, &in);
            expect_at(l->a, l->g);
        }
        assert_int_equal(flows(l->a, l->g), 2);
    }
}

// The whole slice in use before the crash: nobody gets a port twice after it.
static void t80_ports_stay_taken(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2015);
    l->g = put(l->a, &l->guest);
    uint16_t ports[7][16];
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 12; i++) {
            struct frame f = udp(family, G, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
            send_guest(l, &f);
            struct frame out = expect_outside(l->a);
            ports[family][i] = view_of(&out).sport;
        }
    }
    restart(l);
    come_back(l);
    EACH_FAMILY(family)
    {
        for (unsigned i = 12; i < 16; i++) {
            struct frame f = udp(family, G, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
            send_guest(l, &f);
            struct frame out = expect_outside(l->a);
            for (unsigned k = 0; k < i; k++)
                assert_int_not_equal(view_of(&out).sport, ports[family][k]);
            ports[family][i] = view_of(&out).sport;
        }
        struct frame f = udp(family, G, 5000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_SNAT_EXHAUSTED);
        for (unsigned i = 0; i < 16; i++) {
            f = udp(family, G, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 443, 10);
            send_guest(l, &f);
            struct frame out = expect_outside(l->a);
            assert_int_equal(view_of(&out).sport, ports[family][i]);
        }
    }
}

// The slice stands at another place in the new process: a second crash finds the records sound all the same.
static void t80_other_slice_number(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, FLOATING_2, 1000, 1099);
    l->g = put(l->a, &l->guest);
    l->guest.b.nat.n_snat = 0;
    give_snat(&l->guest, FLOATING_2, 1000, 1099);
    give_snat(&l->guest, SHARED, 2000, 2099);
    put(l->a, &l->guest);
    memmove(l->guest.snat, l->guest.snat + 2, 2 * sizeof(l->guest.snat[0]));
    l->guest.b.nat.n_snat = 2; // the shared address alone, in the third and fourth place
    put(l->a, &l->guest);
    struct frame out[7];
    EACH_FAMILY(family)
    out[family] = shake_hands(l, family, 30000);
    for (int crash = 0; crash < 2; crash++) {
        restart(l);
        assert_int_equal(adopted(l), 2);
        come_back(l);
        assert_int_equal(flows(l->a, l->g), 2);
    }
    EACH_FAMILY(family)
    {
        struct frame f = tcp(family, G, 30000, via(OUTSIDE, GATEWAY_MAC), 443, TCP_ACK, 1001, 5001, 100);
        send_guest(l, &f);
        struct frame again = expect_outside(l->a);
        assert_int_equal(view_of(&again).sport, view_of(&out[family]).sport);
    }
}

static void t80_outbound_only(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame syn = tcp(family, G, 30000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_underlay(l->a, NODE_B);
        struct frame answer = tcp(family, P, 80, via(G, GUEST_MAC), 30000, TCP_SYN | TCP_ACK, 500, 101, 0);
        receive_vpc(l, &answer);
        expect_deliver(l->a, l->g);
    }
    restart(l);
    EACH_FAMILY(family)
    { // before the policy is back nothing passes, and nothing is forgotten
        struct frame data = tcp(family, P, 80, via(G, GUEST_MAC), 30000, TCP_ACK, 501, 101, 10);
        receive_vpc(l, &data);
        expect_nothing(l->a);
    }
    come_back(l);
    EACH_FAMILY(family)
    {
        // No inbound rule: only the connection lets it pass.
        struct frame data = tcp(family, P, 80, via(G, GUEST_MAC), 30000, TCP_ACK, 501, 101, 10);
        receive_vpc(l, &data);
        expect_deliver(l->a, l->g);
        struct frame more = tcp(family, G, 30000, via(P, GATEWAY_MAC), 80, TCP_ACK, 101, 511, 10);
        send_guest(l, &more);
        expect_underlay(l->a, NODE_B);
        struct frame stray = tcp(family, P, 81, via(G, GUEST_MAC), 30000, TCP_ACK, 501, 101, 10);
        receive_vpc(l, &stray);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
    assert_int_equal(flows(l->a, l->g), 2);
}

// A policy that changed while nobody looked judges what was adopted.
static void t80_policy_changed(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4000, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_B);
    }
    restart(l);
    l->guest.b.firewall.default_out_allow = false;
    l->guest.b.generation++;
    come_back(l);
    EACH_FAMILY(family)
    {
        struct frame answer = udp(family, P, 53, via(G, GUEST_MAC), 4000, 10);
        receive_vpc(l, &answer);
        expect_drop(l->a, l->g, COUNT_IN, DROP_REVALIDATE_DENY);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

// A binding that the new policy no longer has ends with the restart.
static void t80_slice_gone(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    l->g = put(l->a, &l->guest);
    EACH_FAMILY(family)
    shake_hands(l, family, 30000);
    restart(l);
    l->guest.b.nat.n_snat = 0;
    give_snat(&l->guest, SHARED, 5000, 5999);
    come_back(l);
    assert_int_equal(flows(l->a, l->g), 0);
}

// The index goes to another port, whose VPC, MAC and addresses may be the same: nothing is inherited.
static void inherit_nothing(struct lab *l, uint32_t old_index)
{
    struct draft heir;
    draft_guest(&heir);
    heir.b.port.b[15] = 77;
    give_snat(&heir, SHARED, 2000, 2999);
    EACH_FAMILY(family)
    map(l->a, 100, address_of(P, family), PEER_MAC, NODE_B, 1);
    serve(l->a, 1, 1, &NODE_A);
    uint32_t index = 0;
    for (unsigned i = 0; i < 16 && index != old_index; i++) { // until the old index is taken
        if (index) {
            heir.b.port.b[14]++;
            heir.b.l2.mac.b[4]++;
            heir.b.nat.n_snat = 0;
        }
        index = put(l->a, &heir);
    }
    assert_int_equal(index, old_index);
    assert_int_equal(flows(l->a, index), 0);
    fake_forget(l->a);
    EACH_FAMILY(family)
    {
        struct frame data = tcp(family, P, 80, via(G, heir.b.l2.mac), 30000, TCP_ACK, 501, 101, 10);
        receive_vpc(l, &data);
        expect_drop(l->a, index, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

static void t80_new_owner(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    l->g = put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame syn = tcp(family, G, 30000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_underlay(l->a, NODE_B);
        shake_hands(l, family, 30001);
    }
    uint32_t old = l->g;
    restart(l);
    assert_int_equal(adopted(l), 4);
    inherit_nothing(l, old);
}

// The note of who had which index is lost (another max_ports): still nobody inherits.
static void t80_owner_unknown(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        struct frame syn = tcp(family, G, 30000, via(P, GATEWAY_MAC), 80, TCP_SYN, 100, 0, 0);
        send_guest(l, &syn);
        expect_underlay(l->a, NODE_B);
    }
    struct node_config c = edge_config(NODE_A);
    c.max_ports = 32;
    uint32_t old = l->g;
    restart_with(l, &c);
    inherit_nothing(l, old);
}

struct kept_zone { // as platform/fake/fake.c has it
    struct kept_zone *next;
    char name[32];
    size_t bytes;
    uint8_t *memory;
};

static struct kept_zone *zone(struct lab *l, const char *name)
{
    struct kept_zone *z = l->a->zones;
    while (z && strcmp(z->name, name) != 0)
        z = z->next;
    assert_non_null(z);
    return z;
}

// A damaged record is left out, a damaged header costs the file; neither costs more.
static void t80_corrupt(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    uint32_t seed = 80;
    for (unsigned round = 0; round < 60; round++) {
        for (unsigned i = 0; i < 4; i++)
            EACH_FAMILY(family)
            {
                struct frame f = udp(family, G, (uint16_t)(4000 + i), via(P, GATEWAY_MAC), 53, 10);
                send_guest(l, &f);
                struct frame out = udp(family, G, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 53, 10);
                send_guest(l, &out);
            }
        fake_forget(l->a);
        fake_crash(l->a);
        struct kept_zone *z = zone(l, round % 3 == 0 ? "connections" : round % 3 == 1 ? "flows" : "ports");
        size_t span = round % 2 ? z->bytes : z->bytes < 4096 ? z->bytes : 4096;
        for (unsigned i = 0; i < 20; i++) {
            seed = seed * 1664525 + 1013904223;
            z->memory[(seed >> 4) % span] ^= (uint8_t)(1u << (seed % 8));
        }
        memset(l->a->spent_drops, 0, sizeof(l->a->spent_drops));
        struct node_config c = edge_config(NODE_A);
        assert_true(fake_start(l->a, &c));
        come_back(l);
        check_conservation(l->a);
        EACH_FAMILY(family)
        { // and works
            struct frame f = udp(family, G, (uint16_t)(9000 + round), via(P, GATEWAY_MAC), 53, 10);
            send_guest(l, &f);
            expect_underlay(l->a, NODE_B);
            struct frame stray = udp(family, P, 54, via(G, GUEST_MAC), 4000, 10);
            receive_vpc(l, &stray);
            expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
        }
    }
    fake_crash(l->a);
    zone(l, "connections")->memory[40] ^= 1; // in the header
    memset(l->a->spent_drops, 0, sizeof(l->a->spent_drops));
    struct node_config c = edge_config(NODE_A);
    assert_true(fake_start(l->a, &c));
    assert_int_equal(adopted(l), 0);
    come_back(l);
    assert_int_equal(flows(l->a, l->g), 0);
}

// Two records that hold the same external port cannot both be right: the second cannot claim it.
static void t80_port_held_twice(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    l->g = put(l->a, &l->guest);
    struct snat *s = &l->a->node->ports[l->g].snat;
    struct frame f = udp(4, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
    send_guest(l, &f);
    struct frame out = expect_outside(l->a);
    struct conn_binding twice = {.external = ip(SHARED.v4), .kind = CONN_NAT_SNAT};
    store_be16(&twice.external_port, view_of(&out).sport);
    assert_false(snat_claim(s, &twice, IPPROTO_UDP4));
    assert_true(snat_claim(s, &twice, IPPROTO_TCP4)); // each protocol has its own
    snat_undo(s, &twice, IPPROTO_TCP4);
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE_TEST("T80 SNAT connections keep their ports across restarts", t80_snat),
        EDGE_TEST("T80 ports of adopted connections stay taken", t80_ports_stay_taken),
        EDGE_TEST("T80 a slice under another number is the same slice, crash after crash", t80_other_slice_number),
        EDGE_TEST("T80 an outbound-only connection goes on without an inbound rule", t80_outbound_only),
        EDGE_TEST("T80 the policy that comes back judges what was adopted", t80_policy_changed),
        EDGE_TEST("T80 connections of a slice that does not come back end", t80_slice_gone),
        EDGE_TEST("T80 an index's new owner inherits nothing", t80_new_owner),
        EDGE_TEST("T80 when former owners are not known nobody inherits", t80_owner_unknown),
        EDGE_TEST("T80 damaged memory costs connections and nothing else", t80_corrupt),
        EDGE_TEST("T80 an external port held twice stays with the first", t80_port_held_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
