// SPDX-License-Identifier: MPL-2.0
// A change under 100,000 live flows touches exactly what it must: counted by misses, drops and locks.
//
// Flow i goes from one of the guest's two addresses to peer i % PEERS, port 5000 + i % 16; peers live on two nodes.
#include <sched.h>

#include "engine/atomic.h"
#include "tests/concurrency/crowd.h"

enum { FLOWS = 100000, PEERS = 200, PAYLOAD = 18, WORKERS = 3 };

struct stage {
    struct crowd *c;
    struct draft guest;
    uint32_t g;
    bool outside; // the flows go to the outside, not to peers
    struct frame template;
    bool stop;
    uint64_t epoch;
};

static const struct end SECOND = {MAC_OF(3), "10.0.0.13", "fd00::13"}; // of G
static const struct end PEER_0 = {MAC_OF(4), "10.0.1.0", NULL};
enum { TO_NODE_B = 1, TO_NODE_C = 2 }; // tunnels, in the order in which the nodes are first named

static int setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct node_config config = lab_config(NODE_A);
    config.max_connections = 150000;
    config.max_mappings = 1024;
    config.workers = WORKERS;
    config.keep_state = false;
    s->c = crowd_create(&config);
    draft_guest(&s->guest);
    s->guest.b.limits.flows_max = 150000;
    s->guest.addresses[2] = ip(SECOND.v4);
    s->guest.b.l2.n_addresses = 3;
    s->g = put(&s->c->lab, &s->guest);
    s->template = udp(4, G, 1, via(PEER_0, GATEWAY_MAC), 1, PAYLOAD);
    serve(&s->c->lab, 1, 1, &NODE_B);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct stage *s = *state;
    check_conservation(&s->c->lab);
    crowd_destroy(s->c);
    free(s);
    return 0;
}

static void map_peer(struct stage *s, uint32_t peer, struct ip_addr node, uint8_t mapping_state)
{
    struct ip_addr address = ip(PEER_0.v4);
    address.b[15] = (uint8_t)peer;
    struct mapping m = {
        .vni = 100, .ip = address, .mac = PEER_MAC, .node = node, .epoch = ++s->epoch, .state = mapping_state};
    struct node_error e;
    assert_true(node_mapping_put(s->c->lab.node, &m, s->c->lab.now, &e));
}

static struct packet *packet_of(struct stage *s, unsigned worker, uint32_t i)
{
    int was = crowd_self;
    crowd_self = (int)worker;
    struct packet *p = crowd_packet(s->c, worker, s->template.bytes, s->template.len);
    crowd_self = was;
    uint8_t *ip4 = p->data + 14, *l4 = ip4 + 20;
    struct ip_addr to = ip_from_v4((const uint8_t[]){10, 0, 1, 0}), far = ip_from_v4((const uint8_t[]){203, 0, 113, 0});
    to = s->outside ? far : to;
    to.b[15] = (uint8_t)(i % PEERS);
    memcpy(ip4 + 16, to.b + 12, 4);
    ip4[15] = i & 1 ? 13 : 3;
    store_be16(l4, (uint16_t)(1024 + i / PEERS));
    store_be16(l4 + 2, (uint16_t)(5000 + i % 16));
    store_be16(l4 + 6, 0); // no UDP checksum
    checksum_write_ip4(ip4);
    return p;
}

struct tally {
    uint64_t hits, misses, sent, dropped[DROP_COUNT], decisions;
    uint64_t locks, defers;
};

static struct tally tally(struct stage *s)
{
    struct port_counters k;
    struct rule_counter rules[16];
    node_port_counters(s->c->lab.node, s->g, &k);
    struct tally t = {k.hits[COUNT_OUT], k.misses[COUNT_OUT], k.sent[COUNT_OUT], {0}, 0, 0, 0};
    memcpy(t.dropped, k.drops[COUNT_OUT], sizeof(t.dropped));
    for (unsigned i = 0, n = node_rule_counters(s->c->lab.node, s->g, rules, 16); i < n; i++)
        t.decisions += rules[i].hits;
    t.locks = s->c->workers[0].locks;
    t.defers = s->c->workers[0].defers;
    return t;
}

static void batch(struct stage *s, uint32_t first, unsigned n)
{
    struct packet *list[PLATFORM_BATCH];
    for (unsigned i = 0; i < n; i++)
        list[i] = packet_of(s, 0, first + i);
    crowd_receive(s->c, 0, CROWD_GUEST, s->g, list, n);
}

// One packet of every flow; what moved.
static struct tally one_of_each(struct stage *s)
{
    struct tally was = tally(s);
    for (uint32_t i = 0; i < FLOWS; i += PLATFORM_BATCH)
        batch(s, i, MIN(PLATFORM_BATCH, FLOWS - i));
    struct tally is = tally(s);
    for (size_t k = 0; k < sizeof(is) / 8; k++)
        ((uint64_t *)&is)[k] -= ((uint64_t *)&was)[k];
    return is;
}

static void expect_round(struct stage *s, uint64_t misses, uint64_t dropped, enum drop reason)
{
    struct tally t = one_of_each(s);
    assert_int_equal(t.misses, misses);
    assert_int_equal(t.hits, FLOWS - misses);
    assert_int_equal(t.sent, FLOWS - dropped);
    for (int r = 1; r < DROP_COUNT; r++)
        assert_int_equal(t.dropped[r], r == (int)reason ? dropped : 0);
}

static void open_flows(struct stage *s)
{
    if (!s->outside)
        for (uint32_t i = 0; i < PEERS; i++)
            map_peer(s, i, i % 2 ? NODE_B : NODE_C, MAPPING_ACTIVE);
    expect_round(s, FLOWS, 0, DROP_NONE);
    assert_int_equal(flows(&s->c->lab, s->g), FLOWS);
    expect_round(s, 0, 0, DROP_NONE);
}

static uint32_t flows_to(uint32_t peer)
{
    return (FLOWS + PEERS - 1 - peer) / PEERS;
}

static void settle(struct stage *s) // what was freed is at hand again
{
    while (!epochs_run(&s->c->epochs))
        ;
}

// A call of the control thread that touches no flow takes few locks and defers little, however many flows there are.
struct call {
    uint64_t locks, defers;
    uint32_t flows;
};

static struct call begin_call(struct stage *s)
{
    return (struct call){s->c->control.locks, s->c->control.defers, flows(&s->c->lab, s->g)};
}

static void expect_cheap(struct stage *s, struct call was)
{
    assert_true(s->c->control.locks - was.locks <= 16);
    assert_true(s->c->control.defers - was.defers <= 16);
    assert_int_equal(flows(&s->c->lab, s->g), was.flows);
}

static void t18(void **state)
{
    struct stage *s = *state;
    open_flows(s);
    struct call call = begin_call(s);
    map_peer(s, 17, NODE_C, MAPPING_ACTIVE);
    expect_cheap(s, call);
    struct crowd_worker before = s->c->workers[0];
    expect_round(s, flows_to(17), 0, DROP_NONE);
    const uint64_t *to = s->c->workers[0].to_tunnel;
    assert_int_equal(to[TO_NODE_C] - before.to_tunnel[TO_NODE_C], FLOWS / 2 + flows_to(17));
    assert_int_equal(to[TO_NODE_B] - before.to_tunnel[TO_NODE_B], FLOWS / 2 - flows_to(17));
    expect_round(s, 0, 0, DROP_NONE);
    assert_int_equal(flows(&s->c->lab, s->g), FLOWS);
}

static void t19(void **state)
{
    struct stage *s = *state;
    open_flows(s);
    struct call call = begin_call(s);
    map_peer(s, 18, (struct ip_addr){0}, MAPPING_TOMBSTONE);
    expect_cheap(s, call);
    expect_round(s, flows_to(18), flows_to(18), DROP_NO_MAPPING);
    map_peer(s, 18, NODE_B, MAPPING_ACTIVE);
    expect_round(s, flows_to(18), 0, DROP_NONE);
    expect_round(s, 0, 0, DROP_NONE);
}

// Every flow's state that a policy must not change.
static uint64_t fingerprint(struct stage *s, uint16_t without)
{
    struct flow_info f;
    uint64_t sum = 0;
    for (uint32_t i = node_flow_next(s->c->lab.node, s->g, 0, s->c->lab.now, &f); i;
         i = node_flow_next(s->c->lab.node, s->g, i, s->c->lab.now, &f))
        if (load_be16(&f.key[COUNT_OUT].dport) != without)
            sum += (f.index + 1ull) * (f.state + 3ull) * (f.nat.external_port + 7ull) * (f.age_ms + 11ull);
    return sum;
}

static void deny_port(struct draft *d, uint16_t port)
{
    struct blueprint_rule *r = draft_rule(d, "deny", 1, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_UDP4);
    rule_ports(d, r, port, port);
}

static void swap(struct stage *s)
{
    open_flows(s);
    const uint32_t denied = FLOWS / 16;
    uint64_t was = fingerprint(s, 5003);
    deny_port(&s->guest, 5003);
    struct call call = begin_call(s);
    put(&s->c->lab, &s->guest);
    expect_cheap(s, call);
    assert_int_equal(tally(s).decisions, 0); // under the new policy nothing was judged yet

    // A batch of packets judges its own flows again, and no other: whoever sends pays, when he sends.
    for (uint32_t first = 0; first < 40 * PLATFORM_BATCH; first += PLATFORM_BATCH) {
        struct tally before = tally(s);
        batch(s, first, PLATFORM_BATCH);
        struct tally after = tally(s);
        assert_int_equal(after.misses - before.misses, PLATFORM_BATCH);
        assert_int_equal(after.decisions - before.decisions, PLATFORM_BATCH);
        assert_true(after.locks - before.locks <= 12 * PLATFORM_BATCH);
    }
    assert_int_equal(flows(&s->c->lab, s->g), FLOWS - 40 * PLATFORM_BATCH / 16);
    assert_int_equal(tally(s).dropped[DROP_REVALIDATE_DENY], 40 * PLATFORM_BATCH / 16);

    struct tally t = one_of_each(s);
    assert_int_equal(t.sent, FLOWS - denied);
    assert_int_equal(t.dropped[DROP_REVALIDATE_DENY], denied - 40 * PLATFORM_BATCH / 16);
    assert_int_equal(t.dropped[DROP_FIREWALL_DENY], 40 * PLATFORM_BATCH / 16); // of flows that had been torn down
    assert_int_equal(flows(&s->c->lab, s->g), FLOWS - denied);
    assert_int_equal(fingerprint(s, 5003), was);
    expect_round(s, denied, denied, DROP_FIREWALL_DENY);
}

static void t32_overlay(void **state)
{
    swap(*state);
}

static void t32_snat(void **state)
{
    struct stage *s = *state;
    s->outside = true;
    draft_snat(&s->guest, "198.51.100.2", 1024, 65535);
    draft_snat(&s->guest, "198.51.100.5", 1024, 65535);
    put(&s->c->lab, &s->guest);
    swap(s);
}

static void t57(void **state)
{
    struct stage *s = *state;
    s->outside = true;
    draft_floating(&s->guest, "198.51.100.3", G.v4);
    draft_floating(&s->guest, "198.51.100.4", SECOND.v4);
    put(&s->c->lab, &s->guest);
    open_flows(s);
    s->guest.floating[0] = s->guest.floating[1];
    s->guest.b.nat.n_floating = 1;
    struct call call = begin_call(s);
    put(&s->c->lab, &s->guest);
    expect_cheap(s, call);
    expect_round(s, FLOWS, FLOWS / 2, DROP_NAT_REVOKED);
    assert_int_equal(flows(&s->c->lab, s->g), FLOWS / 2);
    expect_round(s, FLOWS / 2, FLOWS / 2, DROP_NO_EXTERNAL_IP);
}

// ---- Two policies in turn, and a flood of what each of them allows

// Port 1 to A's next hop, port 2 to B's, port 3 to either; port 4 nowhere. What else goes out is a mix.
struct verdicts {
    uint64_t seen[5][2], mixed;
};

static void watch(struct crowd *c, unsigned worker, uint32_t tunnel, const struct packet *p)
{
    struct verdicts *v = c->watcher;
    uint16_t port = load_be16(p->data + GENEVE_ENCAP_LEN + 14 + 22);
    unsigned hop = p->data[GENEVE_ENCAP_LEN + 5] == 0xb; // destination MAC: the next hop's
    bool right = port == 3 || (port == 1 && hop == 0) || (port == 2 && hop == 1);
    if (!right)
        fetch_add_relaxed(&v->mixed, 1);
    else
        fetch_add_relaxed(&v->seen[port][hop], 1);
}

static void policy_of(struct draft *d, bool b)
{
    d->b.firewall.n_rules = 0;
    memset(d->rules, 0, sizeof(d->rules));
    memset(d->ranges, 0, sizeof(d->ranges));
    d->b.firewall.default_out_allow = false;
    struct blueprint_rule *r = draft_rule(d, "own", 1, BLUEPRINT_OUT, BLUEPRINT_ALLOW, IPPROTO_UDP4);
    rule_ports(d, r, b ? 2 : 1, b ? 2 : 1);
    r = draft_rule(d, "both", 2, BLUEPRINT_OUT, BLUEPRINT_ALLOW, IPPROTO_UDP4);
    rule_ports(d, r, 3, 3);
    d->b.n_routes = 0;
    draft_route(d, "10.0.0.0/16", BLUEPRINT_TARGET_LOCAL, NULL);
    draft_route(d, "10.9.0.0/16", BLUEPRINT_TARGET_IP, b ? "10.0.1.11" : "10.0.1.10");
}

struct flooder {
    struct stage *s;
    unsigned number;
    uint64_t sent[5];
};

static void *flood(void *arg)
{
    struct flooder *f = arg;
    struct stage *s = f->s;
    uint64_t random = f->number + 1;
    crowd_self = (int)f->number;
    while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
        struct packet *list[PLATFORM_BATCH];
        for (unsigned i = 0; i < PLATFORM_BATCH; i++) {
            uint32_t r = (uint32_t)(crowd_random(&random) >> 32), port = 1 + r % 4;
            struct packet *p = list[i] = packet_of(s, f->number, 0);
            uint8_t *ip4 = p->data + 14;
            memcpy(ip4 + 16, (const uint8_t[]){10, 9, 0, 9}, 4);
            store_be16(ip4 + 20, (uint16_t)(1024 + (r >> 8) % 3000));
            store_be16(ip4 + 22, (uint16_t)port);
            checksum_write_ip4(ip4);
            f->sent[port]++;
        }
        crowd_receive(s->c, f->number, CROWD_GUEST, s->g, list, PLATFORM_BATCH);
    }
    return NULL;
}

static void t32_flood(void **state)
{
    struct stage *s = *state;
    struct verdicts v = {0};
    struct flooder flooders[WORKERS];
    pthread_t threads[WORKERS];
    map_peer(s, 10, NODE_B, MAPPING_ACTIVE);
    struct mapping other = {.vni = 100, .ip = ip("10.0.1.11"), .mac = MAC_OF(0xb), .node = NODE_C, .epoch = ++s->epoch};
    struct node_error e;
    assert_true(node_mapping_put(s->c->lab.node, &other, s->c->lab.now, &e));
    policy_of(&s->guest, false);
    put(&s->c->lab, &s->guest);
    struct tally before = tally(s);
    s->c->watch = watch;
    s->c->watcher = &v;
    for (unsigned i = 0; i < WORKERS; i++) {
        flooders[i] = (struct flooder){.s = s, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, flood, &flooders[i]), 0);
    }
    unsigned swaps = 0;
    for (uint64_t end = crowd_clock() + 1500000000; crowd_clock() < end; swaps++) {
        policy_of(&s->guest, swaps % 2 == 0);
        put(&s->c->lab, &s->guest);
        sched_yield();
    }
    __atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
    uint64_t sent[5] = {0};
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        for (unsigned k = 1; k < 5; k++)
            sent[k] += flooders[i].sent[k];
    }
    struct tally after = tally(s);
    print_message("%u swaps, %lu packets\n", swaps, after.sent - before.sent);
    assert_int_equal(v.mixed, 0);
    assert_int_equal(v.seen[3][0] + v.seen[3][1], sent[3]); // allowed by both: not one is lost
    assert_true(v.seen[1][0] > 0 && v.seen[1][0] < sent[1]);
    assert_true(v.seen[2][1] > 0 && v.seen[2][1] < sent[2]);
    uint64_t denied = 0, all = 0;
    for (int r = 1; r < DROP_COUNT; r++)
        all += after.dropped[r] - before.dropped[r];
    denied = after.dropped[DROP_FIREWALL_DENY] + after.dropped[DROP_REVALIDATE_DENY] -
             before.dropped[DROP_FIREWALL_DENY] - before.dropped[DROP_REVALIDATE_DENY];
    assert_int_equal(all, denied); // and no other reason than the policies'
    settle(s);
}

#define STAGED(text, fn) \
    { \
        text, fn, setup, teardown, NULL \
    }

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern: which tests
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        STAGED("T18 a mapping's change is felt by its flows among 100,000, and by no other", t18),
        STAGED("T19 a mapping's end drops its flows among 100,000, and no other", t19),
        STAGED("T32 among 100,000 flows a swap tears down what the new policy denies and resets nothing", t32_overlay),
        STAGED("T32 among 100,000 SNAT bindings a swap moves none", t32_snat),
        STAGED("T57 among 100,000 flows an external address that goes ends its own, and no other", t57),
        STAGED("T32 under a flood every verdict is A's or B's, and what both allow passes", t32_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
