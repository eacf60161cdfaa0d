// SPDX-License-Identifier: MPL-2.0
// O8: each limit that is met has a counter and an event, and concerns nobody but who met it.
#include "tests/behaviour/lab.h"
#include "vpc/snat.h"

static const struct end OTHER = {MAC_OF(5), "10.0.0.5", "fd00::5"};

struct told {
    unsigned events;
    uint64_t count;
};

// Events of the kind since the last call that reads them all.
static struct told events(struct lab *l, const char *kind, uint32_t port)
{
    struct told t = {0};
    for (unsigned i = 0; i < l->a->n_calls; i++) {
        const struct fake_call *c = &l->a->calls[i];
        if (c->kind != FAKE_EVENT || strcmp(c->event, kind) != 0)
            continue;
        assert_int_equal(c->where, port);
        t.events++;
        t.count += c->count;
    }
    return t;
}

static unsigned all_events(struct lab *l)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->a->n_calls; i++)
        n += l->a->calls[i].kind == FAKE_EVENT;
    return n;
}

static void expect_event(struct lab *l, const char *kind, uint32_t port, uint64_t count)
{
    struct told t = events(l, kind, port);
    assert_int_equal(t.events, 1);
    assert_int_equal(t.count, count);
    assert_int_equal(all_events(l), 1);
    fake_discard(l->a);
}

static void spoof(struct lab *l, unsigned packets)
{
    struct end liar = {GUEST_MAC, "10.0.0.77", "fd00::77"};
    for (unsigned i = 0; i < packets; i++) {
        struct frame f = udp(4, liar, 4000, P, 53, 10);
        send_guest(l, &f);
    }
}

static void o8_once_then_every_ten_seconds(void **state)
{
    struct lab *l = *state;
    fake_advance(l->a, 1000);
    fake_discard(l->a);
    spoof(l, 7);
    fake_advance(l->a, 250);
    expect_event(l, "spoofing", l->g, 7);
    for (unsigned i = 0; i < 36; i++) { // nine seconds of it
        spoof(l, 10);
        fake_advance(l->a, 250);
    }
    assert_int_equal(all_events(l), 0);
    fake_advance(l->a, 1500);
    expect_event(l, "spoofing", l->g, 360);
    fake_advance(l->a, 60000);
    assert_int_equal(events(l, "spoofing", l->g).events, 0); // over
    spoof(l, 1);
    fake_advance(l->a, 250);
    expect_event(l, "spoofing", l->g, 1);
}

static void o8_snat_exhausted(void **state)
{
    struct lab *l = *state;
    struct draft second;
    draft_init(&second, 5, 100, OTHER.v4, OTHER.v6, OTHER.mac);
    draft_snat(&second, "198.51.100.9", 2000, 2999);
    uint32_t h = put(l->a, &second);
    draft_snat(&l->guest, "198.51.100.9", 1024, 1031);
    l->g = put(l->a, &l->guest);
    struct edge_set edges = {.prefix = prefix("198.51.100.0/24"), .n_nodes = 1, .nodes = &NODE_C, .epoch = 1};
    struct node_error e;
    assert_true(node_edge_set_put(l->a->node, &edges, &e));
    fake_discard(l->a);
    for (uint16_t i = 0; i < 20; i++) {
        struct frame f = udp(4, G, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
    }
    assert_int_equal(drops(l->a, l->g, COUNT_OUT, DROP_SNAT_EXHAUSTED), 12);
    forget_counters(l->a);
    for (uint16_t i = 0; i < 20; i++) { // the other port, of the same address, knows nothing of it
        struct frame f = udp(4, OTHER, (uint16_t)(4000 + i), via(OUTSIDE, GATEWAY_MAC), 53, 10);
        fake_guest(l->a, h, f.bytes, f.len);
    }
    expect_counters(l->a, h, "out received=20 misses=20 sent=20");
    fake_discard(l->a);
    fake_advance(l->a, 250);
    expect_event(l, "snat-exhausted", l->g, 12);
    struct port_use use;
    assert_true(node_port_use(l->a->node, l->g, &use));
    assert_int_equal(use.snat_ports, 8);
    assert_int_equal(use.snat_used[SNAT_UDP], 8);
    assert_int_equal(use.snat_used[SNAT_TCP], 0);
    assert_true(node_port_use(l->a->node, h, &use));
    assert_int_equal(use.snat_ports, 1000);
    assert_int_equal(use.snat_used[SNAT_UDP], 20);
}

static void fill(struct lab *l, unsigned flows_wanted)
{
    for (uint16_t i = 0; i < flows_wanted; i++) {
        struct frame out = udp(4, G, (uint16_t)(5000 + i), P, 53, 10), in = udp(4, P, 53, G, (uint16_t)(5000 + i), 10);
        send_guest(l, &out);
        if (fake_next(l->a))
            receive_vpc(l, &in);
        fake_forget(l->a);
    }
}

static void o8_flow_limit_and_table(void **state)
{
    struct lab *l = *state;
    l->guest.b.limits.flows_max = 8;
    l->guest.b.limits.flows_min = 4;
    l->g = put(l->a, &l->guest);
    fake_discard(l->a);
    fill(l, 10);
    fake_advance(l->a, 250);
    expect_event(l, "flow-limit", l->g, 2);
    struct port_use use;
    assert_true(node_port_use(l->a->node, l->g, &use));
    assert_int_equal(use.connections, 8);
    assert_int_equal(use.guarantee, 4);
    assert_int_equal(use.cap, 8);
    // The same with a small table: it is the node's limit then.
    struct node_config c = lab_config(NODE_A);
    c.max_connections = 64;
    fake_destroy(l->a);
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    l->guest.b.limits.flows_max = 1024;
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    fake_discard(l->a);
    fill(l, 70);
    fake_advance(l->a, 250);
    expect_event(l, "table-full", l->g, 6);
    struct table_use tables[NODE_TABLES];
    for (unsigned i = 0; i < node_tables(l->a->node, tables); i++) {
        if (strcmp(tables[i].table, "connections") == 0) {
            assert_int_equal(tables[i].used, 64);
            assert_int_equal(tables[i].limit, 64);
        }
        if (strcmp(tables[i].table, "mappings") == 0)
            assert_int_equal(tables[i].used, 1);
    }
}

static void o8_rate_and_stale(void **state)
{
    struct lab *l = *state;
    l->guest.b.qos.pps = 1;
    l->g = put(l->a, &l->guest);
    fake_discard(l->a);
    fake_advance(l->a, 1000);
    for (unsigned i = 0; i < 100; i++) {
        struct frame f = udp(4, G, 4000, P, 53, 10);
        send_guest(l, &f);
    }
    fake_discard(l->a);
    fake_advance(l->a, 250);
    expect_event(l, "rate-limited", l->g, drops(l->a, l->g, COUNT_OUT, DROP_RATE_LIMITED));
    struct node_error e;
    l->guest.b.generation -= 2;
    for (unsigned i = 0; i < 5; i++) {
        assert_false(node_blueprint_put(l->a->node, &l->guest.b, l->a->now, l->a->wall, &e));
        assert_int_equal(e.code, NODE_STALE);
    }
    expect_event(l, "stale-generation", l->g, 1);
    fake_advance(l->a, 10000);
    fake_discard(l->a);
    assert_false(node_blueprint_put(l->a->node, &l->guest.b, l->a->now, l->a->wall, &e));
    expect_event(l, "stale-generation", l->g, 5); // those that were not told, and this one
}

static void o8_mappings(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    unsigned refused = 0;
    for (unsigned i = 0; i < 400; i++) {
        struct mapping m = {.vni = 100,
                            .ip = {.b = {0xfd, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i}},
                            .mac = PEER_MAC,
                            .node = NODE_B,
                            .epoch = 1};
        refused += !node_mapping_put(l->a->node, &m, l->a->now, &e);
    }
    assert_in_range(refused, 100, 200);
    assert_int_equal(e.code, NODE_LIMIT);
    assert_int_equal(events(l, "table-full", 0).events, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("O8 an event is told at once, then every ten seconds with the count", o8_once_then_every_ten_seconds),
        TEST("O8 exhausted SNAT harms no other port, is counted and told", o8_snat_exhausted),
        TEST("O8 a port's cap and a full table are told apart", o8_flow_limit_and_table),
        TEST("O8 rate limits and old blueprints are told", o8_rate_and_stale),
        TEST("O8 a full table of mappings is told", o8_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
