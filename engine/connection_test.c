// SPDX-License-Identifier: MPL-2.0
#include "engine/connection_test_kit.h"

#define TCP(n_) \
    { \
        .port = 1, .n = n_, .protocol = IPPROTO_TCP4 \
    }
#define UDP(n_) \
    { \
        .port = 1, .n = n_, .protocol = IPPROTO_UDP4 \
    }

static struct kit *kit(void)
{
    struct kit *k = kit_create(1000, 8);
    assert_true(conn_port_open(k->t, 1, 0, 1000));
    return k;
}

static uint32_t flags_of(const struct kit *k, const struct flow *f, uint8_t dir)
{
    return flow_table_hot(conn_table_flows(k->t), kit_entry(k, f, dir))->flags;
}

static uint8_t state_of(const struct kit *k, const struct flow *f)
{
    return kit_conn(k, f)->tcp.state;
}

static void test_open(void **state)
{
    struct kit *k = kit();
    struct flow f = UDP(1);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    const struct conn *c = kit_conn(k, &f);
    assert_int_equal(c->rule, 7);
    const struct flow_hot *out = flow_table_hot(conn_table_flows(k->t), c->entry[FLOW_OUT]);
    const struct flow_hot *in = flow_table_hot(conn_table_flows(k->t), c->entry[FLOW_IN]);
    assert_int_equal(out->packets, 1);
    assert_int_equal(out->bytes, 60);
    assert_int_equal(in->packets, 0);
    assert_int_equal(out->generation, 1);
    assert_int_equal(out->dependency_version, 2);
    assert_int_equal(flow_table_entry(conn_table_flows(k->t), c->entry[FLOW_OUT])->dependency, 5);
    assert_int_equal(out->flags, 0); // a one-way stream never leaves the hit path
    assert_int_equal(in->flags, FLOW_TRACK);
    assert_int_equal(conn_classify(k->t, c, k->now), CONN_ONE_WAY);
    assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), PASS);
    assert_int_equal(in->flags, 0);
    assert_int_equal(conn_classify(k->t, c, k->now), CONN_ACTIVE);
    kit_check(k);
    conn_port_lock(k->t, 1);
    conn_close(k->t, kit_find(k, &f));
    conn_port_unlock(k->t, 1);
    assert_int_equal(k->closed, 1);
    assert_int_equal(k->closed_packets, 2);
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void udp_times(uint8_t nat, uint64_t one_way, uint64_t two_way)
{
    struct kit *k = kit();
    struct flow f = UDP(1);
    f.nat = nat;
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    for (unsigned i = 0; i < 5; i++) { // each packet refreshes
        kit_pass(k, one_way - 1000);
        assert_int_equal(kit_packet(k, &f, FLOW_OUT, NULL), PASS);
    }
    kit_pass(k, one_way + 1000);
    assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), MISS);

    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    kit_pass(k, one_way - 1000);
    assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), PASS); // the reply, in time
    for (unsigned i = 0; i < 5; i++) {
        kit_pass(k, two_way - 1000);
        assert_int_equal(kit_packet(k, &f, i % 2 ? FLOW_IN : FLOW_OUT, NULL), PASS);
    }
    kit_pass(k, two_way + 1000);
    assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), MISS);
    assert_int_equal(k->closed, 2);
    kit_destroy(k);
}

static void test_udp_times(void **state)
{
    udp_times(CONN_NAT_NONE, SECONDS(30), SECONDS(180));
}

static void test_udp_times_nat(void **state)
{
    udp_times(CONN_NAT_SNAT, SECONDS(120), SECONDS(300));
}

static void test_other_times(void **state)
{
    struct kit *k = kit();
    struct flow icmp = {.port = 1, .n = 1, .protocol = IPPROTO_ICMP4}, esp = {.port = 1, .n = 2, .protocol = 50};
    struct flow icmp6 = {.port = 1, .n = 3, .protocol = IPPROTO_ICMP6};
    kit_open(k, &icmp, NULL);
    kit_open(k, &icmp6, NULL);
    kit_open(k, &esp, NULL);
    kit_pass(k, SECONDS(59));
    assert_int_equal(conn_count(k->t), 3);
    kit_pass(k, SECONDS(2));
    assert_int_equal(conn_count(k->t), 1);
    kit_pass(k, SECONDS(538));
    assert_int_equal(conn_count(k->t), 1);
    kit_pass(k, SECONDS(2));
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void syn_times(uint8_t nat, uint64_t limit)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    f.nat = nat;
    kit_syn(k, &f);
    kit_pass(k, limit - 1000);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_SYN, 0, 0, 0), PASS);
    kit_pass(k, limit - 1000);
    assert_int_equal(conn_count(k->t), 1);
    kit_pass(k, 2000);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_SYN | TCP_ACK, 0, 1, 0), MISS);
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_syn_times(void **state)
{
    syn_times(CONN_NAT_NONE, SECONDS(30));
    syn_times(CONN_NAT_FLOATING, SECONDS(240));
}

static void close_times(uint8_t nat, uint64_t limit)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    f.nat = nat;
    kit_establish(k, &f);
    assert_int_equal(flags_of(k, &f, FLOW_OUT), 0);
    assert_int_equal(flags_of(k, &f, FLOW_IN), 0);
    kit_pass(k, SECONDS(500)); // the timer stands at the established time now
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 1, 1, 1000), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1001, 1, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_FIN_WAIT_1);
    assert_int_equal(flags_of(k, &f, FLOW_IN), FLOW_TRACK);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 1002, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_FIN_WAIT_2);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 1, 1002, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_CLOSING);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 1002, 2, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_TIME_WAIT);
    assert_int_equal(conn_classify(k->t, kit_conn(k, &f), k->now), CONN_CLOSED);
    kit_pass(k, limit - 1000);
    assert_int_equal(conn_count(k->t), 1);
    kit_pass(k, 1500);
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_close_times(void **state)
{
    close_times(CONN_NAT_NONE, SECONDS(120));
    close_times(CONN_NAT_SNAT, SECONDS(240));
}

static void test_reset(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_RST, 1, 0, 0), PASS);
    assert_int_equal(kit_entry(k, &f, FLOW_OUT), FLOW_NONE);
    assert_int_equal(kit_entry(k, &f, FLOW_IN), FLOW_NONE);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 1, 100), MISS);
    assert_int_equal(k->closed, 1);
    // A repeated RST may be picked up, but lets nothing back in.
    struct tcp_segment again = kit_segment(FLOW_OUT, TCP_RST, 1, 0, 0);
    assert_int_equal(kit_open(k, &f, &again), DROP_NONE);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 1, 100), NEW);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 1, 100), MISS);
    kit_destroy(k);
}

static void test_blind_reset(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    uint32_t from = 1;
    for (unsigned i = 0; i < 1000; i++, from += 1400) // seen by the hit path only
        assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, from, 1, 1400), PASS);
    uint64_t before = k->now;
    kit_pass(k, SECONDS(5));
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_RST, 0x20000000, 0, 0), OUT_OF_WINDOW);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_RST, 0xa0000000, 0, 0), OUT_OF_WINDOW);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_RST, from, 0, 0), OUT_OF_WINDOW);
    assert_int_equal(state_of(k, &f), TCP_STATE_ESTABLISHED);
    assert_true(k->now > before);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_RST, from, 0, 0), PASS); // the honest one
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_reuse(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0);
    kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 1, 2, 0);
    kit_send(k, &f, FLOW_OUT, TCP_ACK, 2, 2, 0);
    assert_int_equal(state_of(k, &f), TCP_STATE_TIME_WAIT);
    uint32_t old = kit_find(k, &f);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_SYN, 900, 0, 0), NEW);
    assert_int_equal(kit_find(k, &f), 0);
    kit_establish(k, &f);
    assert_int_not_equal(kit_find(k, &f), old); // not before a grace period
    // The old record is not mistaken for anything by a worker that still holds its index.
    conn_port_lock(k->t, 1);
    struct tcp_segment s = kit_segment(FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0);
    assert_int_equal(conn_track(k->t, old, FLOW_OUT, &s, k->now), TCP_PASS_NEW);
    conn_close(k->t, old);
    assert_int_equal(conn_update(k->t, old, kit_spec(&f, NULL).flow, 5, 0, 0), DROP_NONE);
    conn_port_unlock(k->t, 1);
    assert_int_equal(state_of(k, &f), TCP_STATE_ESTABLISHED);
    assert_int_equal(conn_count(k->t), 1);
    kit_destroy(k);
}

static void close_by_hand(struct kit *k, const struct flow *f)
{
    conn_port_lock(k->t, 1);
    conn_close(k->t, kit_find(k, f));
    conn_port_unlock(k->t, 1);
}

static void test_why_it_ended(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1), u = UDP(2);
    kit_establish(k, &f);
    kit_send(k, &f, FLOW_OUT, TCP_RST, 1, 0, 0);
    assert_int_equal(k->closed, 1);
    assert_int_equal(k->why, CONN_END_CLOSED);
    kit_establish(k, &f);
    kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0);
    kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 1, 2, 0);
    kit_send(k, &f, FLOW_OUT, TCP_ACK, 2, 2, 0);
    kit_pass(k, 300000); // the time it waits for stragglers is no silence
    assert_int_equal(k->closed, 2);
    assert_int_equal(k->why, CONN_END_CLOSED);
    assert_int_equal(kit_open(k, &u, NULL), DROP_NONE);
    kit_pass(k, 300000);
    assert_int_equal(k->why, CONN_END_EXPIRED);
    assert_int_equal(kit_open(k, &u, NULL), DROP_NONE);
    close_by_hand(k, &u);
    assert_int_equal(k->why, CONN_END_REVOKED);
    assert_int_equal(kit_open(k, &u, NULL), DROP_NONE);
    conn_port_flush(k->t, 1);
    assert_int_equal(k->why, CONN_END_PORT);
    conn_port_open(k->t, 1, 0, 1);
    struct flow v = UDP(3);
    assert_int_equal(kit_open(k, &u, NULL), DROP_NONE);
    assert_int_equal(kit_open(k, &v, NULL), DROP_NONE);
    assert_int_equal(k->why, CONN_END_EVICTED);
    assert_int_equal(k->closed, 6);
    assert_string_equal(conn_end_name(CONN_END_EVICTED), "evicted");
    kit_destroy(k);
}

static void test_keys_in_use(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    assert_int_equal(kit_syn(k, &f), DROP_TUPLE_IN_USE); // live
    kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0);
    kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 1, 2, 0);
    assert_int_equal(kit_syn(k, &f), DROP_NONE); // over
    assert_int_equal(state_of(k, &f), TCP_STATE_SYN_SENT);
    assert_int_equal(conn_count(k->t), 1);
    kit_destroy(k);
}

static void test_half_close(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 50);
    kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 50);
    kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 52, 0);
    assert_int_equal(state_of(k, &f), TCP_STATE_FIN_WAIT_2);
    kit_pass(k, SECONDS(3600));
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1 + i * 1000, 52, 1000), PASS);
        assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 52, 1001 + i * 1000, 0), PASS);
    }
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 100001, 52, 0), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 52, 100002, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_TIME_WAIT);
    kit_destroy(k);
}

static void test_established_idle(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    for (unsigned i = 0; i < 3; i++) {
        kit_pass(k, SECONDS(7999));
        assert_int_equal(conn_classify(k->t, kit_conn(k, &f), k->now), CONN_IDLE);
        assert_int_equal(kit_send(k, &f, i % 2 ? FLOW_IN : FLOW_OUT, TCP_ACK, 1, 1, 0), PASS);
    }
    for (unsigned i = 0; i < 12; i++) { // a keepalive each two hours
        kit_pass(k, SECONDS(7200));
        assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 0, 1, 0), PASS);
    }
    kit_pass(k, SECONDS(8001));
    assert_int_equal(conn_count(k->t), 0);

    k->config.timeouts.tcp_established = 100; // configurable
    k->config.keep = false;
    kit_restart(k);
    conn_port_open(k->t, 1, 0, 1000);
    kit_establish(k, &f);
    kit_pass(k, SECONDS(101));
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_flush(void **state)
{
    struct kit *k = kit();
    conn_port_open(k->t, 2, 0, 1000);
    for (uint32_t n = 0; n < 300; n++) {
        struct flow udp = UDP(1000 + n), tcp = TCP(1000 + n), other = {.port = 2, .n = n, .protocol = IPPROTO_UDP4};
        kit_open(k, &udp, NULL);
        kit_establish(k, &tcp);
        kit_open(k, &other, NULL);
    }
    assert_int_equal(conn_port_count(k->t, 1), 600);
    conn_port_flush(k->t, 1);
    assert_int_equal(conn_port_count(k->t, 1), 0);
    assert_int_equal(conn_port_count(k->t, 2), 300);
    assert_int_equal(conn_next(k->t, 1, 0), 0);
    assert_int_equal(k->closed, 600);
    kit_check(k);
    struct flow again = TCP(1000);
    kit_establish(k, &again);
    conn_port_flush(k->t, 7);
    conn_port_flush(k->t, 8);
    conn_port_flush(k->t, 0);
    kit_destroy(k);
}

static void test_create_memory(void **state)
{
    for (long site = 0;; site++) {
        struct test_env *e = test_env_create();
        struct conn_table_config config = {.max_connections = 10, .max_ports = 4};
        uint32_t adopted;
        e->fail_after = site;
        struct conn_table *t = conn_table_create(&e->env, &config, 0, &adopted);
        bool done = t != NULL;
        conn_table_destroy(t);
        assert_int_equal(e->live, 0);
        test_env_destroy(e);
        if (done) {
            assert_int_equal(site, 6);
            return;
        }
    }
}

static uint32_t drain_entries(struct kit *k, uint32_t leave, uint32_t *taken)
{
    struct flow_table *flows = conn_table_flows(k->t);
    uint32_t n = 0;
    for (uint32_t entry; (entry = flow_table_entry_alloc(flows)) != 0;)
        taken[n++] = entry;
    for (; leave; leave--)
        flow_table_entry_discard(flows, taken[--n]);
    return n;
}

static void give_back(struct kit *k, const uint32_t *taken, uint32_t n)
{
    while (n)
        flow_table_entry_discard(conn_table_flows(k->t), taken[--n]);
}

static void test_open_memory(void **state)
{
    struct kit *k = kit();
    struct flow first = UDP(1), f = UDP(2);
    static uint32_t taken[10000];
    kit_open(k, &first, NULL);
    for (uint32_t left = 0; left < 2; left++) { // no entry, one entry
        uint32_t n = drain_entries(k, left, taken);
        assert_int_equal(kit_open(k, &f, NULL), DROP_NO_MEMORY);
        kit_check(k);
        assert_int_equal(kit_find(k, &f), 0);
        give_back(k, taken, n);
    }
    uint32_t records = 0; // no record
    for (uint32_t index; conn_record_alloc(k->t, &index);)
        taken[records++] = index;
    assert_int_equal(records, k->t->n_records - 1);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NO_MEMORY);
    kit_check(k);
    while (records)
        conn_record_free(k->t, taken[--records]);
    // The second direction's key is taken when it is to be published: by an entry of nobody's.
    struct flow_table *flows = conn_table_flows(k->t);
    for (uint8_t dir = 0; dir < 2; dir++) {
        struct flow_key key = kit_key(&f, dir);
        uint32_t entry = flow_table_entry_alloc(flows);
        memcpy(flow_table_entry(flows, entry)->key, &key, sizeof(key));
        flow_table_entry(flows, entry)->owner = kit_find(k, &first);
        flow_table_insert(flows, entry, flow_hash(conn_table_secret(k->t), &key));
        assert_int_equal(kit_open(k, &f, NULL), DROP_TUPLE_IN_USE);
        flow_table_remove(flows, entry);
        test_env_quiesce(k->e);
        kit_check(k);
    }
    struct conn_stats stats;
    conn_table_stats(k->t, &stats);
    assert_int_equal(stats.refused, 5);
    uint32_t n = drain_entries(k, 0, taken); // nothing leaked: all but the first connection's two
    assert_int_equal(n, flow_table_capacity(flows) - 2);
    give_back(k, taken, n);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    kit_destroy(k);
}

static uint32_t fill_line(struct kit *k, uint8_t byte) // one slot of the bucket of hash 0, by hand
{
    struct flow_table *flows = conn_table_flows(k->t);
    uint32_t entry = flow_table_entry_alloc(flows);
    memset(flow_table_entry(flows, entry)->key, byte, FLOW_KEY_LEN);
    assert_true(flow_table_insert(flows, entry, 0));
    return entry;
}

static void test_lines_run_out(void **state)
{
    struct kit *k = kit();
    // A hash that an attacker controls: every key falls into one bucket, until overflow lines run out.
    for (unsigned i = 0; i < 8; i++)
        k->t->secret.m[i] = 0;
    uint32_t n = 0;
    for (struct flow f = UDP(0); kit_open(k, &f, NULL) == DROP_NONE; f.n++)
        n++;
    assert_in_range(n, 500, 999);
    kit_check(k);
    assert_int_equal(conn_count(k->t), n);

    struct flow first = UDP(0), f = {.port = 1, .n = 5000, .protocol = 99};
    conn_close(k->t, kit_find(k, &first)); // room for two entries
    uint32_t filler = fill_line(k, 0xff);  // for one: the second insert fails
    assert_int_equal(kit_open(k, &f, NULL), DROP_NO_MEMORY);
    assert_int_equal(kit_entry(k, &f, FLOW_OUT), FLOW_NONE);
    assert_int_equal(kit_entry(k, &f, FLOW_IN), FLOW_NONE);
    uint32_t filler2 = fill_line(k, 0xfe); // for none: the first one fails
    assert_int_equal(kit_open(k, &f, NULL), DROP_NO_MEMORY);
    flow_table_remove(conn_table_flows(k->t), filler);
    flow_table_remove(conn_table_flows(k->t), filler2);
    test_env_quiesce(k->e);
    kit_check(k);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    kit_destroy(k);
}

static void test_update(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    kit_establish(k, &f);
    struct conn *c = kit_conn(k, &f);
    uint32_t out = c->entry[FLOW_OUT], in = c->entry[FLOW_IN];
    struct conn_spec s = kit_spec(&f, NULL);
    // Confirmed: the entries stay.
    s.flow[FLOW_OUT].dependency_version = 3;
    assert_int_equal(conn_update(k->t, kit_find(k, &f), s.flow, 2, 8, 9), DROP_NONE);
    assert_int_equal(c->entry[FLOW_OUT], out);
    struct flow_hot *hot = flow_table_hot(conn_table_flows(k->t), out);
    assert_int_equal(hot->generation, 2);
    assert_int_equal(hot->dependency_version, 3);
    assert_int_equal(c->rule, 8);
    assert_int_equal(c->posture_rule, 9);
    // Changed in one direction: that entry is new, and the counters go on.
    s.flow[FLOW_OUT].xp.dest = 4711;
    assert_int_equal(conn_update(k->t, kit_find(k, &f), s.flow, 3, 8, 9), DROP_NONE);
    assert_int_not_equal(c->entry[FLOW_OUT], out);
    assert_int_equal(c->entry[FLOW_IN], in);
    assert_int_equal(kit_entry(k, &f, FLOW_OUT), c->entry[FLOW_OUT]);
    assert_int_equal(flow_table_hot(conn_table_flows(k->t), c->entry[FLOW_OUT])->packets, 2);
    assert_int_equal(flow_table_hot(conn_table_flows(k->t), c->entry[FLOW_OUT])->bytes, 120);
    assert_int_equal(flow_table_hot(conn_table_flows(k->t), c->entry[FLOW_OUT])->generation, 3);
    assert_int_equal(flow_table_hot(conn_table_flows(k->t), in)->generation, 3);
    assert_int_equal(flow_table_entry(conn_table_flows(k->t), c->entry[FLOW_OUT])->xp.dest, 4711);
    kit_check(k);
    test_env_quiesce(k->e);
    // No memory: nothing changed, generation included.
    static uint32_t taken[10000];
    s.flow[FLOW_OUT].xp.dest = 1;
    s.flow[FLOW_IN].xp.dest = 2;
    for (uint32_t left = 0; left < 2; left++) {
        struct conn before = *c;
        uint32_t n = drain_entries(k, left, taken);
        assert_int_equal(conn_update(k->t, kit_find(k, &f), s.flow, 4, 10, 11), DROP_NO_MEMORY);
        assert_memory_equal(&before, c, sizeof(before));
        assert_int_equal(flow_table_hot(conn_table_flows(k->t), in)->generation, 3);
        assert_int_equal(flow_table_entry_alloc(conn_table_flows(k->t)) != 0, left == 1);
        if (left)
            flow_table_entry_discard(conn_table_flows(k->t), taken[n]);
        give_back(k, taken, n);
        kit_check(k);
    }
    assert_int_equal(conn_update(k->t, kit_find(k, &f), s.flow, 4, 10, 11), DROP_NONE);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 1, 1, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_CLOSE_WAIT);
    kit_destroy(k);
}

static void test_one_direction(void **state)
{
    struct kit *k = kit();
    struct flow f = {.port = 1, .n = 1, .protocol = IPPROTO_ICMP4};
    struct conn_spec s = kit_spec(&f, NULL);
    s.flow[FLOW_IN].key.ip_version = 0;
    uint32_t index;
    assert_int_equal(conn_open(k->t, &s, k->now, &index), DROP_NONE);
    assert_int_equal(kit_entry(k, &f, FLOW_IN), FLOW_NONE);
    assert_int_equal(conn_update(k->t, index, s.flow, 2, 0, 0), DROP_NONE);
    kit_check(k);
    kit_pass(k, SECONDS(61));
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_clock(void **state)
{
    struct kit *k = kit();
    struct flow udp = UDP(1), tcp = TCP(2), quiet = UDP(3);
    kit_establish(k, &tcp);
    kit_open(k, &udp, NULL);
    kit_open(k, &quiet, NULL);
    // A worker whose clock is 1 ms ahead saw both UDP flows; the one that ticks is behind, as their timers fire.
    k->now += SECONDS(30) + 250;
    const struct flow *ahead[] = {&udp, &quiet};
    for (unsigned i = 0; i < 2; i++) {
        for (uint8_t dir = 0; dir < 2; dir++)
            flow_table_hot(conn_table_flows(k->t), kit_entry(k, ahead[i], dir))->last_seen = (uint32_t)k->now + 1;
    }
    for (unsigned i = 0; i < 1000; i++)
        conn_table_tick(k->t, k->now - (i & 1), 100);
    assert_int_equal(conn_count(k->t), 3);
    k->now += SECONDS(3600); // a jump: the UDP flows are due, the TCP connection is not
    assert_int_equal(kit_tick(k), 2);
    assert_int_equal(conn_count(k->t), 1);
    k->now += SECONDS(4400);
    assert_int_equal(kit_tick(k), 1);
    kit_destroy(k);
}

static void test_budget(void **state)
{
    struct kit *k = kit();
    for (uint32_t n = 0; n < 500; n++) {
        struct flow f = UDP(n);
        kit_open(k, &f, NULL);
        k->now += 10;
    }
    k->now += SECONDS(20);
    for (uint32_t n = 0; n < 500; n += 2) { // half of them go on: their timers fire all the same
        struct flow f = UDP(n);
        kit_packet(k, &f, FLOW_OUT, NULL);
    }
    k->now += SECONDS(11);
    unsigned calls = 1, before = 500;
    while (conn_table_tick(k->t, k->now, 100) == 100) {
        assert_true(before - conn_count(k->t) <= 100);
        before = conn_count(k->t);
        assert_true(++calls < 20);
    }
    assert_true(calls > 5);
    assert_int_equal(conn_count(k->t), 250);
    kit_destroy(k);
}

static void test_pick_up(void **state)
{
    struct kit *k = kit();
    struct flow f = TCP(1);
    struct tcp_segment middle = kit_segment(FLOW_OUT, TCP_ACK, 500000, 70000, 100);
    assert_int_equal(kit_open(k, &f, &middle), DROP_NONE);
    assert_int_equal(state_of(k, &f), TCP_STATE_ESTABLISHED);
    assert_int_equal(flags_of(k, &f, FLOW_IN), FLOW_TRACK);
    assert_int_equal(conn_classify(k->t, kit_conn(k, &f), k->now), CONN_HALF_OPEN); // a flood of ACKs can be evicted
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 0x70000000, 500100, 900), PASS); // no window check yet
    assert_int_equal(flags_of(k, &f, FLOW_IN), 0);
    assert_int_equal(conn_classify(k->t, kit_conn(k, &f), k->now), CONN_ACTIVE);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_RST, 0x70000000 + 900, 0, 0), PASS);
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_inbound(void **state)
{
    struct kit *k = kit();
    struct flow f = {.port = 1, .n = 9, .protocol = IPPROTO_TCP4, .opener = FLOW_IN};
    struct tcp_segment syn = kit_segment(FLOW_IN, TCP_SYN, 0, 0, 0);
    assert_int_equal(kit_open(k, &f, &syn), DROP_NONE);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_SYN | TCP_ACK, 0, 1, 0), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 1, 1, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_ESTABLISHED);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0), PASS);
    assert_int_equal(state_of(k, &f), TCP_STATE_CLOSE_WAIT); // the guest is the responder
    kit_destroy(k);
}

static void test_bad_ports(void **state)
{
    struct kit *k = kit();
    struct flow none = {.port = 0, .n = 1, .protocol = IPPROTO_UDP4}, beyond = {.port = 8, .n = 1, .protocol = 17};
    struct flow unopened = {.port = 3, .n = 1, .protocol = IPPROTO_UDP4};
    assert_int_equal(kit_open(k, &none, NULL), DROP_FLOW_LIMIT);
    assert_int_equal(kit_open(k, &beyond, NULL), DROP_FLOW_LIMIT);
    assert_int_equal(kit_open(k, &unopened, NULL), DROP_FLOW_LIMIT);
    assert_false(conn_port_open(k->t, 0, 0, 1));
    assert_false(conn_port_open(k->t, 8, 0, 1));
    assert_int_equal(conn_port_count(k->t, 8), 0);
    assert_string_equal(conn_class_name(CONN_HALF_OPEN), "half-open");
    assert_string_equal(conn_class_name(CONN_CLASSES), "unknown");
    kit_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "a connection is two entries, one lifetime and the first packet's count", .test_func = test_open},
        {.name = "T24 UDP is answered in time, refreshed by each packet, and gone a second later",
         .test_func = test_udp_times},
        {.name = "T24 UDP with a NAT binding has the longer times", .test_func = test_udp_times_nat},
        {.name = "ICMP ends after 60 s, other protocols after 600 s", .test_func = test_other_times},
        {.name = "T35 a SYN without answer ends, and a late SYN-ACK finds nothing", .test_func = test_syn_times},
        {.name = "T36 an orderly close ends after the closing time", .test_func = test_close_times},
        {.name = "T37 a reset removes both directions at once", .test_func = test_reset},
        {.name = "T38 a blind reset changes nothing, the honest one ends the connection",
         .test_func = test_blind_reset},
        {.name = "T39 a SYN on TIME_WAIT begins a new connection at once", .test_func = test_reuse},
        {.name = "T39 a closing connection makes room for its keys, a live one does not",
         .test_func = test_keys_in_use},
        {.name = "the reason why a connection ended is told", .test_func = test_why_it_ended},
        {.name = "T40 a half-closed connection lives for an hour of silence and closes right",
         .test_func = test_half_close},
        {.name = "T41 an established connection lives for 7999 s of silence, and by keepalives for ever",
         .test_func = test_established_idle},
        {.name = "T43 a flushed port has no connections, and others keep theirs", .test_func = test_flush},
        {.name = "T48 creation that runs out of memory at any site leaves nothing", .test_func = test_create_memory},
        {.name = "T48 opening that runs out of memory at any site leaves nothing", .test_func = test_open_memory},
        {.name = "T48 opening when the buckets are full leaves nothing", .test_func = test_lines_run_out},
        {.name = "T48 an update confirms, replaces, or changes nothing for lack of memory", .test_func = test_update},
        {.name = "a connection may have one direction only", .test_func = test_one_direction},
        {.name = "T85 the clock may jump an hour or step back a millisecond", .test_func = test_clock},
        {.name = "a tick does no more than its budget", .test_func = test_budget},
        {.name = "T89 a connection is picked up in the middle", .test_func = test_pick_up},
        {.name = "an inbound connection has the guest as its responder", .test_func = test_inbound},
        {.name = "ports that do not exist or are not open get no connections", .test_func = test_bad_ports},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
