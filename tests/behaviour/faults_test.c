// SPDX-License-Identifier: MPL-2.0
// T48: every allocation fails once. What was asked for happens whole or not at all, and nothing leaks.
#include "core/internal.h"
#include "tests/behaviour/outside.h"

static const struct uuid SET = {.b = {7}};

// Runs `act` with the first allocation failing, then the second, and so on until none is left to fail. Before each
// round that was refused the state is what it was.
struct attempt {
    struct lab *l;
    unsigned refused;
    long site;
};

static bool more(struct attempt *a, bool ok)
{
    bool reached = a->l->a->fail_after < 0; // the failure came about
    a->l->a->fail_after = -1;
    fake_quiesce(a->l->a);
    if (!ok)
        assert_true(reached);
    a->refused += !ok;
    a->site++;
    return reached;
}

// Sizes that no refusal may move.
struct sizes {
    uint32_t connections, entries, mappings, vteps, tunnels, externals, edges, sets, macs, outside;
};

static struct sizes sizes_of(struct lab *l)
{
    struct node *n = l->a->node;
    struct vpc_tables *t = &n->tables;
    return (struct sizes){.connections = conn_count(n->connections),
                          .entries = flow_table_count(n->flows),
                          .mappings = t->mapping_map.linked,
                          .vteps = t->vtep_map.linked,
                          .tunnels = t->tunnel_map.linked,
                          .externals = t->external_map.linked,
                          .edges = t->edge_map.linked,
                          .sets = t->set_map.linked,
                          .macs = n->mac_map.linked,
                          .outside = t->outside_version};
}

static void expect_sizes(struct lab *l, const struct sizes *was)
{
    struct sizes is = sizes_of(l);
    assert_memory_equal(&is, was, sizeof(is));
}

static void expect_limit(const struct node_error *e)
{
    assert_int_equal(e->code, NODE_LIMIT);
    assert_true(e->text[0]);
}

static void t48_create(void **state)
{
    struct lab *l = *state;
    struct node_config c = edge_config(NODE_A);
    unsigned failures = 0;
    for (long site = 0;; site++) {
        struct fake *f = fake_create();
        f->fail_after = site;
        bool ok = fake_start(f, &c);
        failures += !ok;
        bool reached = f->fail_after < 0;
        assert_int_equal(ok, !reached);
        fake_destroy(f); // asserts; the sanitizer counts the memory
        if (!reached)
            break;
    }
    assert_true(failures > 20);
    assert_non_null(l);
}

static void big_draft(struct draft *d, uint8_t id)
{
    draft_init(d, id, 100, "10.0.0.9", "fd00::9", mac("02:00:00:00:00:09"));
    struct blueprint_rule *r = draft_rule(d, "set", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->remote.kind = BLUEPRINT_REMOTE_SET;
    r->remote.set = SET;
    rule_ports(d, draft_rule(d, "ports", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4), 1, 99);
    rule_icmp(d, draft_rule(d, "icmp", 100, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_ICMP4), 8, 0);
    rule_cidr(d, draft_rule(d, "cidr", 100, BLUEPRINT_OUT, BLUEPRINT_ALLOW, IPPROTO_UDP4), "10.0.0.0/24");
    d->posture_in[0] = d->rules[1];
    d->b.posture.n_in = 1;
    give_floating(d, FLOATING_2, (struct end){GATEWAY_MAC, "10.0.0.9", "fd00::9"});
    give_snat(d, SHARED, 3000, 3999);
    d->b.limits.flows_min = 100;
}

static void t48_new_port(void **state)
{
    struct lab *l = *state;
    struct draft d;
    struct attempt a = {.l = l};
    struct node_error e;
    big_draft(&d, 9);
    for (bool again = true; again;) {
        char *was = whole_state(l->a);
        struct sizes before = sizes_of(l);
        l->a->fail_after = a.site;
        bool ok = try_put(l->a, &d, &e);
        again = more(&a, ok);
        if (!ok) {
            expect_limit(&e);
            assert_int_equal(node_port_find(l->a->node, &d.b.port), 0);
            expect_state(l->a, was);
            expect_sizes(l, &before);
        } else {
            assert_true(node_blueprint_delete(l->a->node, &d.b.port, &e));
            fake_quiesce(l->a);
        }
        free(was);
    }
    assert_true(a.refused > 20);
}

// A changed blueprint of a port with flows: refused, it leaves the flows as they are, to the counters.
static void t48_changed_port(void **state)
{
    struct lab *l = *state;
    struct attempt a = {.l = l};
    struct node_error e;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_outside(l->a);
        f = udp(family, G, 4000, via(P, GATEWAY_MAC), 443, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_B);
    }
    for (bool again = true; again;) {
        struct draft d; // another MAC, other addresses, other limits: every table is touched
        big_draft(&d, 3);
        d.b.generation = l->guest.b.generation;
        char *was = whole_state(l->a);
        struct sizes before = sizes_of(l);
        l->a->fail_after = a.site;
        bool ok = try_put(l->a, &d, &e);
        again = more(&a, ok);
        if (!ok) {
            expect_limit(&e);
            expect_state(l->a, was);
            expect_sizes(l, &before);
            EACH_FAMILY(family)
            {
                struct frame f = udp(family, G, 4000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
                send_guest(l, &f);
                expect_outside(l->a);
            }
        } else {
            assert_int_equal(flows(l->a, l->g), 0); // another MAC is another guest
            l->guest.b.generation = d.b.generation;
            put(l->a, &l->guest);
        }
        free(was);
    }
    assert_true(a.refused > 20);
}

// The guarantee of a refused blueprint is not held on to.
static void t48_guarantees(void **state)
{
    struct lab *l = *state;
    struct draft d, other;
    struct node_error e;
    draft_init(&d, 9, 100, "10.0.0.9", "fd00::9", mac("02:00:00:00:00:09"));
    draft_init(&other, 8, 100, "10.0.0.8", "fd00::8", mac("02:00:00:00:00:08"));
    d.b.limits = other.b.limits = (struct blueprint_limits){.flows_min = 3000, .flows_max = 4000};
    put(l->a, &d);
    assert_false(try_put(l->a, &other, &e));
    expect_limit(&e);
    assert_string_equal(e.pointer, "/limits/flows_min");
    d.b.limits.flows_min = 5000; // more than there are
    d.b.limits.flows_max = 6000;
    assert_false(try_put(l->a, &d, &e));
    assert_true(node_blueprint_delete(l->a->node, &d.b.port, &e));
    fake_quiesce(l->a);
    put(l->a, &other); // the guarantee came back with the port's end
    assert_false(try_put(l->a, &d, &e));
}

static void t48_streams(void **state)
{
    struct lab *l = *state;
    struct attempt a = {.l = l};
    struct node_error e;
    const char *const v4[] = {"10.0.0.4/32", "10.7.0.0/16"};
    uint64_t epoch = 100;
    for (bool again = true; again;) {
        struct ip_prefix members[] = {prefix(v4[0]), prefix(v4[1]), prefix("fd00::4/128")};
        struct address_set s = {.id = SET, .generation = epoch++, .cidrs = members, .n_cidrs = 3};
        struct sizes before = sizes_of(l);
        l->a->fail_after = a.site;
        bool ok = node_address_set_put(l->a->node, &s, &e);
        again = more(&a, ok);
        if (!ok) {
            expect_limit(&e);
            expect_sizes(l, &before);
        }
    }
    assert_true(a.refused > 2);
    // Mappings, edges and external mappings take no memory at all once the node stands.
    l->a->fail_after = 0;
    map(l->a, 100, "10.0.0.44", mac("02:00:00:00:00:44"), NODE_C, 1);
    serve(l->a, 50, 1, &NODE_C);
    map_external(l->a, FLOATING_2, 0, 65535, NODE_C, 1);
    unmap(l->a, 100, "10.0.0.44", 2);
    assert_int_equal(l->a->fail_after, 0);
    l->a->fail_after = -1;
}

// A member set that could not be replaced is the old one, whole.
static void t48_set_keeps_members(void **state)
{
    struct lab *l = *state;
    struct node_error e;
    struct ip_prefix first[] = {prefix("10.0.0.4/32"), prefix("fd00::4/128")}, second[] = {prefix("10.9.0.0/16")};
    struct address_set s = {.id = SET, .generation = 1, .cidrs = first, .n_cidrs = 2};
    struct blueprint_rule *r = draft_rule(&l->guest, "set", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->remote.kind = BLUEPRINT_REMOTE_SET;
    r->remote.set = SET;
    put(l->a, &l->guest);
    assert_true(node_address_set_put(l->a->node, &s, &e));
    s = (struct address_set){.id = SET, .generation = 2, .cidrs = second, .n_cidrs = 1};
    for (long site = 0; site < 3; site++) {
        l->a->fail_after = site;
        assert_false(node_address_set_put(l->a->node, &s, &e));
        fake_quiesce(l->a);
        EACH_FAMILY(family)
        {
            struct frame in = udp(family, P, (uint16_t)(5000 + site), via(G, GUEST_MAC), 22, 10);
            receive_vpc(l, &in);
            expect_deliver(l->a, l->g);
        }
    }
}

// Packet paths: each packet that could need memory, with every allocation failing once.
static void t48_packets(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    for (unsigned kind = 0; kind < 10; kind++) {
        int family = kind % 2 ? 6 : 4;
        for (long site = 0;; site++) {
            uint16_t port = (uint16_t)(10000 + 100 * kind + (unsigned)site);
            struct frame f;
            l->a->fail_after = site;
            switch (kind / 2) {
            case 0: // to an unknown next hop: the question needs a packet
                f = udp(family, G, port, via((struct end){GATEWAY_MAC, "198.51.100.99", "2001:db8:e::99"}, GATEWAY_MAC),
                        9, 9);
                send_guest(l, &f);
                break;
            case 1:
                f = udp(family, P, port, via(G, GUEST_MAC), 22, 10);
                receive_vpc(l, &f);
                break;
            case 2:
                f = icmp_echo(family, G, (struct end){GATEWAY_MAC, "10.0.0.1", "fd00::1"}, false, 1, 1, 10);
                send_guest(l, &f);
                break;
            case 3: // too big: an ICMP error
                f = udp(family, G, port, via(P, GATEWAY_MAC), 53, 1500);
                f.bytes[14 + 6] |= family == 4 ? 0x40 : 0;
                frame_fix(&f);
                send_guest(l, &f);
                break;
            default:
                f = arp_request(ROUTER_MAC, "198.51.100.1", FLOATING.v4);
                fake_external(l->a, 0, f.bytes, f.len);
                fake_advance(l->a, 250000); // and router advertisements
            }
            bool reached = l->a->fail_after < 0;
            l->a->fail_after = -1;
            fake_quiesce(l->a);
            fake_forget(l->a);
            check_conservation(l->a);
            if (!reached)
                break;
            assert_true(site < 20);
        }
    }
    fake_advance(l->a, 10000);
}

// No flow entries left: packets are dropped by name, what exists goes on, and what ends gives its place back.
static void t48_tables_full(void **state)
{
    struct lab *l = *state;
    struct node *n = l->a->node;
    struct frame live = udp(4, G, 4000, via(P, GATEWAY_MAC), 53, 10);
    static uint32_t taken[1 << 16];
    unsigned entries = 0;
    send_guest(l, &live);
    expect_underlay(l->a, NODE_B);
    for (uint32_t i; entries < ARRAY_LEN(taken) && (i = flow_table_entry_alloc(n->flows)) != FLOW_NONE;)
        taken[entries++] = i;
    assert_true(entries < ARRAY_LEN(taken));
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4001, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MEMORY);
        send_guest(l, &live);
        expect_underlay(l->a, NODE_B);
        assert_int_equal(flows(l->a, l->g), 1);
    }
    map(l->a, 100, P.v4, PEER_MAC, NODE_C, 5); // a re-walk that finds no entry for its new verdict
    send_guest(l, &live);
    expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MEMORY);
    assert_int_equal(flows(l->a, l->g), 1);
    while (entries)
        flow_table_entry_discard(n->flows, taken[--entries]);
    send_guest(l, &live);
    expect_underlay(l->a, NODE_C);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4001, via(P, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_underlay(l->a, family == 4 ? NODE_C : NODE_B);
    }
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T48 a node that runs out of memory at any site does not start and leaves nothing", t48_create),
        EDGE_TEST("T48 a new port that runs out of memory at any site is refused and leaves nothing", t48_new_port),
        EDGE_TEST("T48 a changed port that runs out of memory at any site is as before", t48_changed_port),
        EDGE_TEST("T48 a refused or removed port's guarantee is given back", t48_guarantees),
        EDGE_TEST("T48 streams that run out of memory at any site change nothing", t48_streams),
        TEST("T48 an address set that cannot be replaced keeps its members", t48_set_keeps_members),
        EDGE_TEST("T48 packets that find no memory are accounted for", t48_packets),
        TEST("T48 a flow table without room drops by name and recovers", t48_tables_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
