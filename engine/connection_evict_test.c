// SPDX-License-Identifier: MPL-2.0
#include "engine/connection_test_kit.h"

static struct flow udp(uint32_t port, uint32_t n)
{
    return (struct flow){.port = port, .n = n, .protocol = IPPROTO_UDP4};
}

static struct flow tcp(uint32_t port, uint32_t n)
{
    return (struct flow){.port = port, .n = n, .protocol = IPPROTO_TCP4};
}

static void open_two_way(struct kit *k, uint32_t port, uint32_t n)
{
    struct flow f = udp(port, n);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), PASS);
}

static struct conn_stats stats_of(const struct kit *k)
{
    struct conn_stats s;
    conn_table_stats(k->t, &s);
    return s;
}

static void test_limit(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 8);
    conn_port_open(k->t, 2, 0, 8);
    for (uint32_t n = 1; n <= 8; n++)
        open_two_way(k, 1, n);
    struct flow ninth = udp(1, 9), other = udp(2, 9);
    assert_int_equal(kit_open(k, &ninth, NULL), DROP_FLOW_LIMIT); // all are active
    assert_int_equal(stats_of(k).refused, 1);
    for (uint32_t n = 1; n <= 8; n++) {
        struct flow f = udp(1, n);
        assert_int_equal(kit_packet(k, &f, FLOW_OUT, NULL), PASS);
    }
    assert_int_equal(kit_open(k, &other, NULL), DROP_NONE); // other ports do not notice
    kit_check(k);

    k->now += SECONDS(46); // silent for more than a quarter of 180 s: idle. One goes on
    struct flow busy = udp(1, 1);
    assert_int_equal(kit_packet(k, &busy, FLOW_OUT, NULL), PASS);
    for (uint32_t n = 9; n < 16; n++) {
        struct flow f = udp(1, n);
        assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
        assert_int_equal(kit_packet(k, &f, FLOW_IN, NULL), PASS);
    }
    assert_int_equal(stats_of(k).evicted[CONN_IDLE], 7);
    assert_int_not_equal(kit_find(k, &busy), 0);
    struct flow last = udp(1, 16);
    assert_int_equal(kit_open(k, &last, NULL), DROP_FLOW_LIMIT);
    assert_int_equal(conn_port_count(k->t, 1), 8);
    kit_destroy(k);
}

static void test_half_open_flood(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 20);
    struct flow old = tcp(1, 0);
    kit_establish(k, &old);
    for (uint32_t n = 1; n <= 5000; n++) {
        struct flow f = tcp(1, n);
        assert_int_equal(kit_syn(k, &f), DROP_NONE);
        if (n % 100 == 0)
            test_env_quiesce(k->e);
    }
    assert_int_equal(conn_port_count(k->t, 1), 20);
    assert_int_equal(stats_of(k).evicted[CONN_HALF_OPEN], 5000 - 19);
    struct flow gone = tcp(1, 5000 - 19), oldest = tcp(1, 5000 - 18), fresh = tcp(1, 6000);
    assert_int_equal(kit_find(k, &gone), 0);
    assert_int_not_equal(kit_find(k, &oldest), 0);
    kit_establish(k, &fresh); // succeeds at the cost of the oldest
    assert_int_equal(kit_find(k, &oldest), 0);
    assert_int_equal(kit_conn(k, &old)->tcp.state, TCP_STATE_ESTABLISHED);
    kit_destroy(k);
}

static void test_one_way_flood(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 20);
    for (uint32_t n = 1; n <= 1000; n++) {
        struct flow f = udp(1, n);
        assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    }
    struct flow f = tcp(1, 1);
    kit_establish(k, &f);
    for (uint32_t n = 2000; n <= 3000; n++) {
        struct flow flood = udp(1, n);
        assert_int_equal(kit_open(k, &flood, NULL), DROP_NONE);
        test_env_quiesce(k->e);
    }
    assert_int_equal(kit_conn(k, &f)->tcp.state, TCP_STATE_ESTABLISHED);
    assert_int_equal(stats_of(k).evicted[CONN_ONE_WAY], 1000 - 20 + 1 + 1001);
    kit_destroy(k);
}

static void test_worst_first(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 5);
    struct flow active = tcp(1, 1), idle = udp(1, 2), one_way = udp(1, 3), half_open = tcp(1, 4), closed = tcp(1, 5);
    assert_int_equal(kit_open(k, &idle, NULL), DROP_NONE);
    kit_packet(k, &idle, FLOW_IN, NULL);
    k->now += SECONDS(50);
    kit_establish(k, &active);
    kit_open(k, &one_way, NULL);
    kit_syn(k, &half_open);
    kit_establish(k, &closed);
    kit_send(k, &closed, FLOW_OUT, TCP_FIN | TCP_ACK, 1, 1, 0);
    kit_send(k, &closed, FLOW_IN, TCP_FIN | TCP_ACK, 1, 2, 0);
    const struct flow *order[] = {&closed, &half_open, &one_way, &idle};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        assert_int_not_equal(kit_find(k, order[i]), 0);
        open_two_way(k, 1, 100 + i);
        assert_int_equal(kit_find(k, order[i]), 0);
    }
    struct flow more = udp(1, 200);
    assert_int_equal(kit_open(k, &more, NULL), DROP_FLOW_LIMIT);
    assert_int_not_equal(kit_find(k, &active), 0);
    kit_destroy(k);
}

static void test_second_chance(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 50);
    // All on the one-way list, all answered since, as an entry without FLOW_TRACK would be: they only look one-way.
    for (uint32_t n = 1; n <= 50; n++) {
        struct flow f = udp(1, n);
        kit_open(k, &f, NULL);
        flow_table_hot(conn_table_flows(k->t), kit_entry(k, &f, FLOW_IN))->packets = 1;
    }
    struct flow f = udp(1, 99);
    unsigned moved = 0;
    for (unsigned tries = 0; tries < 10; tries++) { // each attempt looks at eight, and no more
        assert_int_equal(kit_open(k, &f, NULL), DROP_FLOW_LIMIT);
        unsigned now = 0;
        for (uint32_t i = 0; (i = conn_next(k->t, 1, i)) != 0;)
            now += conn_get(k->t, i)->class_ == CONN_ACTIVE;
        assert_in_range(now, moved, moved + 8);
        moved = now;
        kit_check(k);
    }
    assert_int_equal(moved, 50);
    kit_destroy(k);
}

static void test_deep_idle(void **state)
{
    struct kit *k = kit_create(200, 4);
    conn_port_open(k->t, 1, 0, 100);
    for (uint32_t n = 1; n <= 100; n++)
        open_two_way(k, 1, n);
    k->now += SECONDS(50);
    for (uint32_t n = 1; n <= 100; n++) {
        struct flow f = udp(1, n);
        if (n != 77)
            kit_packet(k, &f, FLOW_OUT, NULL);
    }
    struct flow f = udp(1, 500), idle = udp(1, 77);
    unsigned tries = 1;
    for (; kit_open(k, &f, NULL) != DROP_NONE; tries++)
        assert_true(tries < 20);
    assert_int_equal(kit_find(k, &idle), 0);
    kit_destroy(k);
}

static void test_guarantee(void **state)
{
    struct kit *k = kit_create(100, 4);
    assert_true(conn_port_open(k->t, 1, 10, 1000));
    assert_true(conn_port_open(k->t, 2, 30, 1000));
    assert_false(conn_port_open(k->t, 3, 61, 1000)); // 10 + 30 + 61 > 100
    assert_true(conn_port_open(k->t, 3, 60, 1000));
    assert_true(conn_port_open(k->t, 3, 0, 1000));
    uint32_t n = 0;
    for (struct flow f = udp(1, 0); n < 200; n++, f.n++) { // all active: nothing to evict
        if (kit_open(k, &f, NULL) != DROP_NONE)
            break;
        kit_packet(k, &f, FLOW_IN, NULL);
    }
    assert_int_equal(n, 70); // its own 10 and the pool of 60
    struct flow third = udp(3, 1);
    assert_int_equal(kit_open(k, &third, NULL), DROP_FLOW_LIMIT);
    for (n = 1; n <= 30; n++)
        open_two_way(k, 2, n);
    struct flow beyond = udp(2, 31);
    assert_int_equal(kit_open(k, &beyond, NULL), DROP_FLOW_LIMIT);
    assert_int_equal(conn_count(k->t), 100);
    kit_check(k);
    // What port 1 gives up above its guarantee, anybody may have.
    struct flow f = udp(1, 5);
    conn_close(k->t, kit_find(k, &f));
    assert_int_equal(kit_open(k, &third, NULL), DROP_NONE);
    assert_int_equal(kit_open(k, &f, NULL), DROP_FLOW_LIMIT);
    // A flood of port 1 evicts its own only.
    conn_port_flush(k->t, 1);
    for (n = 0; n < 500; n++) {
        f = udp(1, 1000 + n);
        assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    }
    assert_int_equal(conn_port_count(k->t, 2), 30);
    assert_int_equal(conn_port_count(k->t, 3), 1);
    assert_int_equal(conn_port_count(k->t, 1), 69);
    kit_destroy(k);
}

static void test_shed(void **state)
{
    struct kit *k = kit_create(100, 4);
    conn_port_open(k->t, 1, 0, 100);
    conn_port_open(k->t, 2, 0, 100);
    for (uint32_t n = 0; n < 90; n++) {
        struct flow f = udp(1, n);
        kit_open(k, &f, NULL);
    }
    for (uint32_t n = 0; n < 10; n++)
        open_two_way(k, 2, n);
    assert_true(conn_port_open(k->t, 2, 40, 100)); // its guarantee counts at once, although port 1 holds it
    for (uint32_t n = 10; n < 40; n++)
        open_two_way(k, 2, n);
    assert_int_equal(conn_count(k->t), 130);
    kit_check(k);
    assert_int_equal(kit_tick(k), 30);
    assert_int_equal(conn_port_count(k->t, 1), 60);
    assert_true(conn_port_open(k->t, 1, 0, 25)); // a lower cap
    kit_tick(k);
    assert_int_equal(conn_port_count(k->t, 1), 25);
    assert_int_equal(conn_port_count(k->t, 2), 40);
    assert_true(conn_port_open(k->t, 2, 0, 0)); // active connections stay, new ones do not come
    kit_tick(k);
    assert_int_equal(conn_port_count(k->t, 2), 40);
    kit_destroy(k);
}

static void test_grace(void **state)
{
    struct kit *k = kit_create(16, 2);
    conn_port_open(k->t, 1, 0, 16);
    uint32_t n = 0; // readers never quiesce: what was evicted cannot be used again, and in the end there is an answer
    for (struct flow f = udp(1, 0); kit_open(k, &f, NULL) == DROP_NONE; f.n++)
        n++;
    assert_int_equal(n, k->t->n_records);
    struct flow f = udp(1, n);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NO_MEMORY);
    kit_check(k);
    test_env_quiesce(k->e);
    assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    kit_destroy(k);
}

static void random_step(struct kit *k, uint32_t *now_and_then)
{
    struct flow f = {.port = 1 + (uint32_t)random() % 5,
                     .n = (uint32_t)random() % 60,
                     .protocol = random() % 2 ? IPPROTO_TCP4 : IPPROTO_UDP4,
                     .nat = random() % 4 == 0};
    uint8_t dir = random() % 2, flags = random() % 3 ? TCP_ACK : (uint8_t)(random() % 32);
    struct tcp_segment s =
        kit_segment(dir, flags, (uint32_t)random() % 3, (uint32_t)random() % 3, (uint32_t)random() % 2);
    const struct tcp_segment *segment = f.protocol == IPPROTO_TCP4 ? &s : NULL;
    switch (random() % 12) {
    case 0:
        k->now += (uint64_t)random() % 5000;
        conn_table_tick(k->t, k->now, (unsigned)random() % 20);
        break;
    case 1:
        if (random() % 20 == 0)
            k->now += (uint64_t)random() % SECONDS(4000);
        break;
    case 2:
        conn_port_open(k->t, f.port, (uint32_t)random() % 15, (uint32_t)random() % 40);
        break;
    case 3:
        if (random() % 20 == 0)
            conn_port_flush(k->t, f.port);
        test_env_quiesce(k->e);
        break;
    case 4:
        if (kit_find(k, &f)) {
            struct conn_spec spec = kit_spec(&f, NULL);
            spec.flow[dir].xp.dest = (uint32_t)random() % 3;
            conn_update(k->t, kit_find(k, &f), spec.flow, ++*now_and_then, 1, 1);
        }
        break;
    case 5:
        conn_port_lock(k->t, f.port);
        if (kit_find(k, &f))
            conn_close(k->t, kit_find(k, &f));
        conn_port_unlock(k->t, f.port);
        break;
    default:
        if (kit_packet(k, &f, dir, segment) == MISS)
            kit_open(k, &f, segment);
    }
}

static void test_random(void **state)
{
    for (unsigned seed = 0; seed < 10; seed++) {
        struct kit *k = kit_create(100, 6);
        uint32_t generation = 1;
        srandom(seed);
        for (unsigned step = 0; step < 20000; step++) {
            random_step(k, &generation);
            if (step % 64 == 0)
                kit_check(k);
        }
        for (uint32_t port = 1; port < 6; port++)
            conn_port_flush(k->t, port);
        assert_int_equal(conn_count(k->t), 0);
        assert_int_equal(flow_table_count(conn_table_flows(k->t)), 0);
        test_env_quiesce(k->e);
        uint32_t free_entries = 0;
        while (flow_table_entry_alloc(conn_table_flows(k->t)))
            free_entries++;
        assert_int_equal(free_entries, flow_table_capacity(conn_table_flows(k->t)));
        kit_destroy(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T44 at the limit an active flow stays, an idle one goes, and other ports do not notice",
         .test_func = test_limit},
        {.name = "T45 a half-open flood costs the oldest half-open, never the established",
         .test_func = test_half_open_flood},
        {.name = "T46 TCP succeeds in a table full of one-packet UDP", .test_func = test_one_way_flood},
        {.name = "eviction takes the worst first: closed, half-open, one-way, idle", .test_func = test_worst_first},
        {.name = "one eviction looks at a bounded number of records", .test_func = test_second_chance},
        {.name = "an idle connection deep in the active list is found after a few attempts",
         .test_func = test_deep_idle},
        {.name = "T49 a port at its cap cannot reduce another's guarantee", .test_func = test_guarantee},
        {.name = "T49 a port above a changed quota sheds its worst, never the active", .test_func = test_shed},
        {.name = "T48 records in grace may run out, and come back", .test_func = test_grace},
        {.name = "random packets, quotas, jumps and flushes keep every invariant", .test_func = test_random},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
