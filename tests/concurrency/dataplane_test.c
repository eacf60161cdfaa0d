// SPDX-License-Identifier: MPL-2.0
// T86: eight workers push packets of every kind through one node while the control thread changes all there is to
// change, 100 policies and 1,000 mappings a second. Meant for ThreadSanitizer, and true without. NEREUS_T86_SECONDS
// makes it longer.
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "tests/concurrency/crowd.h"

enum { WORKERS = 8, PORTS = 6, FRAMES = 512, SIDES = PORTS + 3 };
enum { UNDERLAY = PORTS, LINK_OUTSIDE, SERVICE }; // sides; below: the guests of ports
#define SPEED 40                                  // the node's time passes faster: connections expire

struct frames {
    struct frame f[FRAMES];
};

struct show {
    struct crowd *c;
    struct frames *sides[SIDES];
    struct draft drafts[PORTS];
    uint32_t port[PORTS]; // indexes; 0 while removed
    uint64_t started;
    unsigned parked;
    bool pause, stop;
    uint64_t random, epoch, generation;
    uint32_t cursor;
    unsigned swaps, mappings, sets, births, traces, dumped, resets;
};

struct worker {
    struct show *s;
    unsigned number;
};

// VPC 100: G, Q and two more; VPC 200 has G's addresses again; the last one comes and goes.
static const struct {
    uint32_t vni;
    struct end end;
} guests[PORTS] = {
    {100, {MAC_OF(3), "10.0.0.3", "fd00::3"}}, {100, {MAC_OF(5), "10.0.0.5", "fd00::5"}},
    {200, {MAC_OF(3), "10.0.0.3", "fd00::3"}}, {100, {MAC_OF(7), "10.0.0.7", "fd00::7"}},
    {100, {MAC_OF(8), "10.0.0.8", "fd00::8"}}, {200, {MAC_OF(9), "10.0.0.9", "fd00::9"}},
};
static const struct end others[] = {
    {MAC_OF(4), "10.0.0.4", "fd00::4"},
    {MAC_OF(6), "10.0.0.6", "fd00::6"},
    {MAC_OF(1), "10.0.0.1", "fd00::1"},
    {MAC_OF(1), "203.0.113.9", "2001:db8:9::9"},
    {MAC_OF(1), "198.51.100.3", "2001:db8:e::3"}, // floating: hairpin from inside
    {MAC_OF(1), "198.51.100.4", "2001:db8:e::4"},
    {MAC_OF(1), "198.51.100.2", "2001:db8:e::2"},
    {MAC_OF(1), "169.254.169.254", "fd00:ec2::254"},
};

static uint32_t below(struct show *s, uint32_t n)
{
    return (uint32_t)(crowd_random(&s->random) >> 32) % n;
}

static bool chance(struct show *s, uint32_t percent)
{
    return below(s, 100) < percent;
}

static uint64_t node_time(const struct show *s)
{
    return 1000ull * 1000000000 + (crowd_clock() - s->started) * SPEED;
}

// ---- frames, made beforehand

static struct frame any_packet(struct show *s, struct end src, struct end dst)
{
    static const uint8_t flags[] = {TCP_SYN, TCP_SYN | TCP_ACK, TCP_ACK,          TCP_ACK,
                                    TCP_ACK, TCP_ACK | TCP_FIN, TCP_RST | TCP_ACK};
    int family = chance(s, 50) ? 4 : 6;
    uint16_t few = (uint16_t)(2000 + below(s, 12)), service = chance(s, 80) ? 80 : few;
    uint16_t sport = chance(s, 60) ? few : service, dport = sport == few ? service : few;
    switch (below(s, 8)) {
    case 0:
    case 1:
    case 2:
        return tcp(family, src, sport, dst, dport, flags[below(s, ARRAY_LEN(flags))], below(s, 3) * 100,
                   below(s, 3) * 100, below(s, 40));
    case 3:
    case 4:
        return udp(family, src, sport, dst, dport, below(s, 60));
    case 5:
        return icmp_echo(family, src, dst, chance(s, 50), (uint16_t)below(s, 8), 1, 20);
    case 6: {
        struct frame quoted = udp(family, dst, dport, src, sport, 30);
        struct frame f = icmp(family, src, dst, family == 4 ? 3 : 1, 3);
        uint32_t l4 = family == 4 ? 34 : 54;
        memcpy(f.bytes + l4 + 8, quoted.bytes + 14, MIN(quoted.len - 14, f.len - l4 - 8));
        frame_fix(&f);
        return f;
    }
    default:
        return other(family, src, dst, 50, 30);
    }
}

static struct end some_end(struct show *s)
{
    uint32_t i = below(s, ARRAY_LEN(others) + PORTS);
    return i < PORTS ? guests[i].end : others[i - PORTS];
}

static struct frame make_frame(struct show *s, unsigned side)
{
    struct end dst = some_end(s);
    if (side < PORTS && chance(s, 3))
        return arp_request(guests[side].end.mac, guests[side].end.v4, "10.0.0.1");
    if (side < PORTS) // within the subnet to the peer's own MAC, else to the gateway's
        return any_packet(s, guests[side].end, dst);
    if (side == UNDERLAY) {
        unsigned to = below(s, PORTS);
        bool edge = chance(s, 20);
        struct frame inner = edge ? any_packet(s, others[3], others[4 + below(s, 3)])
                                  : any_packet(s, others[below(s, 2)], guests[to].end);
        return in_geneve(&inner, edge ? GENEVE_VNI_EDGE : guests[to].vni, chance(s, 80) ? NODE_B : NODE_C, NODE_A);
    }
    if (side == SERVICE) {
        struct end client = {MAC_OF(1), "100.64.0.1", "fd00:ec2:0:1::1"};
        struct frame f = any_packet(s, others[7], client);
        f.bytes[f.bytes[14] >> 4 == 4 ? 33 : 53] = (uint8_t)(1 + below(s, PORTS));
        frame_fix(&f);
        return f;
    }
    if (chance(s, 5)) {
        struct frame f = arp_request(ROUTER_MAC, "198.51.100.1", others[4 + below(s, 3)].v4);
        f.bytes[21] = (uint8_t)(1 + below(s, 2));
        return f;
    }
    struct frame f = any_packet(s, others[3], others[4 + below(s, 3)]);
    frame_set_mac(&f, LINK_MAC, ROUTER_MAC);
    return f;
}

// ---- the workers

static void push(struct worker *w, uint64_t *random)
{
    struct show *s = w->s;
    struct node *n = s->c->lab.node;
    struct packet *list[PLATFORM_BATCH];
    unsigned side = (unsigned)(crowd_random(random) >> 40) % (SIDES + 1);
    side = side == SIDES ? UNDERLAY : side;
    unsigned count = 1 + (unsigned)(crowd_random(random) >> 40) % PLATFORM_BATCH;
    for (unsigned i = 0; i < count; i++) {
        const struct frame *f = &s->sides[side]->f[(crowd_random(random) >> 40) % FRAMES];
        list[i] = crowd_packet(s->c, w->number, f->bytes, f->len);
        list[i]->csum = side == UNDERLAY ? CSUM_VERIFIED : CSUM_FULL;
    }
    uint64_t now = node_time(s);
    if (side < PORTS) // a device goes on for a moment after its port has left
        node_receive_guest(n, w->number, side + 1, list, count, now);
    else if (side == UNDERLAY)
        node_receive_underlay(n, w->number, list, count, now);
    else if (side == LINK_OUTSIDE)
        node_receive_external(n, w->number, 0, list, count, now);
    else
        node_receive_service(n, w->number, list, count, now);
}

static void park(struct show *s, unsigned number)
{
    epochs_offline(&s->c->epochs, number);
    __atomic_fetch_add(&s->parked, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&s->pause, __ATOMIC_ACQUIRE))
        sched_yield();
    __atomic_fetch_sub(&s->parked, 1, __ATOMIC_ACQ_REL);
    epochs_online(&s->c->epochs, number);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct show *s = w->s;
    uint64_t random = 0x9e3779b97f4a7c15ull * (w->number + 1), tick = 0;
    crowd_self = (int)w->number;
    if (nice(5) < 0) // more workers than cores: the control thread is not to wait for all of them each time
        return NULL;
    epochs_online(&s->c->epochs, w->number);
    for (unsigned round = 0; !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE); round++) {
        if (__atomic_load_n(&s->pause, __ATOMIC_ACQUIRE))
            park(s, w->number);
        push(w, &random);
        uint64_t now = node_time(s);
        if (now >= tick)
            tick = node_tick(s->c->lab.node, w->number, now, 1700000000);
        epochs_quiescent(&s->c->epochs, w->number);
    }
    epochs_offline(&s->c->epochs, w->number);
    return NULL;
}

// ---- the control thread

static const struct uuid set_id = {{0x5e, 0x7}};

static void put_set(struct show *s)
{
    struct ip_prefix members[2] = {prefix("10.0.0.4/32"), prefix("10.0.0.0/28")};
    struct address_set set = {
        .id = set_id, .generation = ++s->generation, .cidrs = members, .n_cidrs = 1 + below(s, 2)};
    struct node_error e;
    assert_true(node_address_set_put(s->c->lab.node, &set, &e));
    s->sets++;
}

static void swap_policy(struct show *s)
{
    unsigned who = below(s, PORTS);
    who = s->port[who] ? who : 0;
    struct draft *d = &s->drafts[who];
    d->b.firewall.n_rules = 0;
    memset(d->rules, 0, sizeof(d->rules));
    memset(d->ranges, 0, sizeof(d->ranges));
    struct blueprint_rule *r = draft_rule(d, "web", 1, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(d, r, 80, 80);
    r = draft_rule(d, "members", 2, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->remote = (struct blueprint_remote){.kind = BLUEPRINT_REMOTE_SET, .set = set_id};
    r = draft_rule(d, "some", 3, BLUEPRINT_OUT, (uint8_t)below(s, 3), chance(s, 50) ? IPPROTO_UDP4 : IPPROTO_TCP4);
    rule_ports(d, r, (uint16_t)(2000 + below(s, 12)), 2011);
    for (uint32_t i = 0; i < d->b.firewall.n_rules; i++) {
        d->rules[i].meter = below(s, 4);
        d->rules[i].log = chance(s, 50);
    }
    d->b.qos = (struct blueprint_qos){0};
    if (chance(s, 30))
        d->b.qos = (struct blueprint_qos){100000000, 100000000, 100000, 10000};
    d->b.firewall.tcp_strict = chance(s, 20);
    d->b.firewall.established_keep = chance(s, 20);
    d->b.limits.flows_max = 100 + below(s, 300);
    d->b.limits.flows_min = chance(s, 30) ? 50 : 0;
    d->b.vpc.mtu = chance(s, 80) ? 1430 : 1300;
    d->b.nat.n_floating = d->b.nat.n_snat = 0;
    if (guests[who].vni == 100 && chance(s, 60))
        give_floating(d, who == 1 ? FLOATING_2 : FLOATING, guests[who].end);
    if (chance(s, 70))
        give_snat(d, SHARED, (uint16_t)(2000 + 100 * who), (uint16_t)(2040 + 100 * who));
    if (who == 4) { // another MAC address now and then: the port moves
        d->b.l2.mac = chance(s, 50) ? guests[who].end.mac : (struct mac_addr)MAC_OF(18);
        d->b.l2.anti_spoof = chance(s, 50);
    }
    s->port[who] = put(&s->c->lab, d);
    s->swaps++;
}

static void change_mapping(struct show *s)
{
    const struct ip_addr nodes[] = {NODE_B, NODE_C, NODE_A};
    struct end e = some_end(s);
    bool four = chance(s, 50), local = e.mac.b[5] != 4 && e.mac.b[5] != 6 && e.mac.b[5] != 1;
    struct mapping m = {.vni = chance(s, 60) ? 100 : 200,
                        .ip = ip(four ? e.v4 : e.v6),
                        .mac = e.mac,
                        .node = nodes[local && chance(s, 80) ? 2 : below(s, 2)],
                        .epoch = ++s->epoch,
                        .state = chance(s, 10) ? MAPPING_TOMBSTONE : MAPPING_ACTIVE};
    struct node_error error;
    // Names of the epochs are per address: a stale one would be refused.
    if (!node_mapping_put(s->c->lab.node, &m, node_time(s), &error))
        fail_msg("mapping refused: %s", error.text);
    s->mappings++;
}

static void change_edges(struct show *s)
{
    const struct ip_addr nodes[] = {NODE_A, NODE_B};
    serve(&s->c->lab, ++s->epoch, 1 + below(s, 2), nodes);
    map_external(&s->c->lab, FLOATING_2, 0, 65535, chance(s, 50) ? NODE_B : NODE_C, ++s->epoch);
}

static void be_born_or_die(struct show *s)
{
    struct node_error e;
    unsigned who = PORTS - 1;
    if (s->port[who]) {
        assert_true(node_blueprint_delete(s->c->lab.node, &s->drafts[who].b.port, &e));
        s->port[who] = 0;
        return;
    }
    if (!try_put(&s->c->lab, &s->drafts[who], &e)) { // its only place may still be on the way out
        assert_int_equal(e.code, NODE_LIMIT);
        return;
    }
    s->port[who] = node_port_find(s->c->lab.node, &s->drafts[who].b.port);
    s->births++;
}

static void look_at_use(struct node *n, uint32_t port)
{
    static struct meter_counter meters[METER_CLASSES];
    struct table_use tables[NODE_TABLES];
    struct port_use use;
    struct flow_record record;
    struct conn_stats stats;
    node_meters_update(n, port);
    node_meters(n, port, meters, METER_CLASSES);
    node_tables(n, tables);
    node_port_use(n, port, &use);
    node_conn_stats(n, &stats);
    while (node_flow_log_take(n, &record))
        assert_in_range(record.kind, FLOW_RECORD_START, FLOW_RECORD_DENIED);
}

static void look(struct show *s)
{
    struct node *n = s->c->lab.node;
    struct flow_info flow;
    struct port_counters ports;
    struct node_counters node;
    struct rule_counter rules[32];
    struct node_port_status status;
    for (unsigned i = 0; i < 20; i++) {
        s->cursor = node_flow_next(n, below(s, 2) ? 0 : below(s, PORTS + 1), s->cursor, node_time(s), &flow);
        s->dumped += s->cursor != 0;
    }
    unsigned who = below(s, PORTS);
    node_counters(n, &node);
    if (!s->port[who])
        return;
    node_port_counters(n, s->port[who], &ports);
    node_rule_counters(n, s->port[who], rules, ARRAY_LEN(rules));
    node_port_status(n, s->port[who], &status);
    look_at_use(n, s->port[who]);
}

static void trace(struct show *s)
{
    unsigned who = below(s, PORTS);
    struct frame f = any_packet(s, chance(s, 50) ? guests[who].end : others[below(s, 2)], some_end(s));
    struct trace t;
    struct node_error e;
    struct trace_question staged = {.blueprint = &s->drafts[who].b, .frame = f.bytes, .len = f.len};
    if (chance(s, 10))
        node_trace_ask(s->c->lab.node, &staged, node_time(s), &t, &e);
    if (s->port[who] &&
        node_trace(s->c->lab.node, s->port[who], (uint8_t)below(s, 2), NULL, f.bytes, f.len, node_time(s), &t, &e))
        s->traces++;
}

static void act(struct show *s)
{
    struct node_error e;
    unsigned who = below(s, PORTS - 1);
    node_port_act(s->c->lab.node, &s->drafts[who].b.port, NODE_PORT_RESET, &e);
    node_port_act(s->c->lab.node, &s->drafts[who].b.port, chance(s, 20) ? NODE_PORT_PAUSE : NODE_PORT_RESUME, &e);
    node_capture_set(s->c->lab.node, below(s, 3), chance(s, 50) ? 31 : 0);
    s->resets++;
}

// Everyone stops between two batches: the sums must hold at any such moment.
static void check_now(struct show *s)
{
    __atomic_store_n(&s->pause, true, __ATOMIC_RELEASE);
    while (__atomic_load_n(&s->parked, __ATOMIC_ACQUIRE) < WORKERS)
        sched_yield();
    s->c->lab.now = node_time(s);
    check_conservation(&s->c->lab);
    __atomic_store_n(&s->pause, false, __ATOMIC_RELEASE);
    while (__atomic_load_n(&s->parked, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void control(struct show *s, unsigned milliseconds)
{
    for (unsigned ms = 0; ms < milliseconds; ms++) {
        uint64_t next = crowd_clock() + 1000000;
        change_mapping(s);
        look(s);
        if (ms % 10 == 0)
            swap_policy(s);
        if (ms % 20 == 3)
            put_set(s);
        if (ms % 5 == 1)
            trace(s);
        if (ms % 50 == 7)
            change_edges(s);
        if (ms % 25 == 11)
            be_born_or_die(s);
        if (ms % 100 == 50)
            act(s);
        if (ms % 250 == 99)
            check_now(s);
        uint64_t now = crowd_clock();
        if (now < next)
            nanosleep(&(struct timespec){.tv_nsec = (long)(next - now)}, NULL);
    }
}

static void set_the_scene(struct show *s)
{
    struct node_config config = edge_config(NODE_A);
    config.workers = WORKERS;
    config.max_ports = PORTS + 1; // an index is used again at once
    config.max_connections = 1500;
    config.max_mappings = 512;
    config.flow_log_records = 64;
    s->c = crowd_create(&config);
    s->started = crowd_clock();
    s->random = 99;
    put_set(s);
    for (unsigned i = 0; i < PORTS; i++) {
        draft_init(&s->drafts[i], (uint8_t)(3 + i), guests[i].vni, guests[i].end.v4, guests[i].end.v6,
                   guests[i].end.mac);
        s->port[i] = put(&s->c->lab, &s->drafts[i]);
    }
    for (unsigned i = 0; i < 100; i++)
        change_mapping(s);
    change_edges(s);
    for (unsigned side = 0; side < SIDES; side++) {
        s->sides[side] = malloc(sizeof(*s->sides[side]));
        for (unsigned i = 0; i < FRAMES; i++)
            s->sides[side]->f[i] = make_frame(s, side);
    }
}

static void t86(void **state)
{
    const char *seconds = getenv("NEREUS_T86_SECONDS");
    struct show *s = calloc(1, sizeof(*s));
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    set_the_scene(s);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){s, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    uint64_t started = crowd_clock();
    control(s, seconds ? (unsigned)atoi(seconds) * 1000 : 3000);
    check_now(s);
    uint64_t took = crowd_clock() - started;
    __atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);

    struct crowd_worker sum = crowd_sum(s->c);
    print_message("%.1f s: %lu packets, %u policies, %u mappings, %u sets, %u ports born, %u traces, %u flows listed\n",
                  (double)took / 1e9, sum.taken, s->swaps, s->mappings, s->sets, s->births, s->traces, s->dumped);
    s->c->lab.now = node_time(s);
    check_conservation(&s->c->lab);
    assert_true(sum.delivered > 0 && sum.underlay > 0 && sum.external > 0 && sum.service > 0);
    assert_true(s->dumped > 0 && s->traces > 0 && s->births > 0);
    struct node_error e;
    for (unsigned i = 0; i < PORTS; i++)
        if (s->port[i])
            assert_true(node_blueprint_delete(s->c->lab.node, &s->drafts[i].b.port, &e));
    crowd_destroy(s->c);
    for (unsigned side = 0; side < SIDES; side++)
        free(s->sides[side]);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"T86 eight workers, 100 policies and 1,000 mappings a second: every packet is accounted for", t86, NULL, NULL,
         NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
