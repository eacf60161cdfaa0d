// SPDX-License-Identifier: MPL-2.0
// Workers, ticks, a dump and a control thread on one connection table, meant for ThreadSanitizer.
#include "engine/connection_test_kit.h"
#include "engine/test_threads.h"

enum { WORKERS = 3, CONTROL = WORKERS, ROUNDS = 15000, PORTS = 4 };

struct shared {
    struct threads *threads;
    struct kit kit; // t and now only
    unsigned workers_left;
    uint64_t closed, dumped;
};

struct worker {
    struct shared *s;
    unsigned number;
};

static void closed(void *ctx, const struct conn *c, uint32_t index, enum conn_end why)
{
    fetch_add_relaxed(&((struct shared *)ctx)->closed, 1);
}

static void one_packet(struct kit *k, uint64_t *seed)
{
    struct flow f = {.port = 1 + threads_random(seed) % PORTS,
                     .n = threads_random(seed) % 64,
                     .protocol = threads_random(seed) % 2 ? IPPROTO_TCP4 : IPPROTO_UDP4};
    uint8_t dir = threads_random(seed) % 2;
    uint8_t flags = threads_random(seed) % 4 ? TCP_ACK : (uint8_t)(threads_random(seed) % 32);
    struct tcp_segment s = kit_segment(dir, flags, threads_random(seed) % 2, threads_random(seed) % 2, 0);
    const struct tcp_segment *segment = f.protocol == IPPROTO_TCP4 ? &s : NULL;
    enum outcome outcome = kit_packet(k, &f, dir, segment);
    if (outcome == PASS || outcome == OUT_OF_WINDOW)
        return;
    struct conn_spec spec = kit_spec(&f, segment);
    uint32_t index;
    conn_port_lock(k->t, f.port);
    conn_open(k->t, &spec, k->now, &index); // another worker may have been first: a refusal
    conn_port_unlock(k->t, f.port);
}

static void *worker(void *arg)
{
    struct worker *w = arg;
    struct shared *s = w->s;
    struct kit k = s->kit; // a clock of its own
    uint64_t seed = 99 + w->number;
    // On a busy machine the workers could be done before the control thread first runs.
    for (unsigned round = 0; round < ROUNDS || !load_relaxed(&s->dumped); round++) {
        one_packet(&k, &seed);
        if (round % 32)
            continue;
        k.now += threads_random(&seed) % 400;
        conn_table_tick(k.t, k.now, 50);
        threads_quiesce(s->threads, w->number);
    }
    threads_offline(s->threads, w->number);
    __atomic_fetch_sub(&s->workers_left, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *control(void *arg)
{
    struct worker *w = arg;
    struct shared *s = w->s;
    struct conn_table *t = s->kit.t;
    uint64_t seed = 1;
    // Once at least: on a busy machine the workers may be done before this thread first runs.
    for (uint32_t round = 0; round == 0 || load_acquire(&s->workers_left); round++) {
        for (uint32_t i = 0; (i = conn_next(t, 0, i)) != 0;) {
            uint32_t port = load_relaxed(&conn_get(t, i)->port);
            conn_port_lock(t, port);
            struct conn c = *conn_get(t, i);
            if (c.live && c.port == port) {
                struct flow f = {.port = c.port, .protocol = c.protocol};
                struct conn_spec spec = kit_spec(&f, NULL);
                spec.flow[FLOW_OUT].xp.dest = round;
                if (threads_random(&seed) % 4 == 0)
                    conn_update(t, i, spec.flow, round, 1, 1);
                counter_add(&s->dumped, 1);
            }
            conn_port_unlock(t, port);
        }
        conn_port_open(t, 1 + round % PORTS, threads_random(&seed) % 20, 10 + threads_random(&seed) % 40);
        if (round % 50 == 0)
            conn_port_flush(t, 1 + threads_random(&seed) % PORTS);
        struct conn_stats stats;
        conn_table_stats(t, &stats);
        threads_quiesce(s->threads, w->number);
    }
    threads_offline(s->threads, w->number);
    return NULL;
}

static void test_everything_at_once(void **state)
{
    struct shared s = {.threads = threads_create(WORKERS + 1), .workers_left = WORKERS};
    struct conn_table_config config = {
        .max_connections = 100, .max_ports = PORTS + 1, .timeouts = conn_timeouts_default, .closed = closed, .ctx = &s};
    for (unsigned i = 0; i < 8; i++)
        config.fresh_secret.m[i] = 0x9e3779b97f4a7c15ull * (2 * i + 1) | 1;
    s.kit.now = 1000000;
    s.kit.config = config;
    s.kit.t = conn_table_create(&s.threads->env, &config, s.kit.now, &s.kit.adopted);
    assert_non_null(s.kit.t);
    for (uint32_t port = 1; port <= PORTS; port++)
        conn_port_open(s.kit.t, port, 5, 40);

    pthread_t thread[WORKERS + 1];
    struct worker workers[WORKERS + 1];
    for (unsigned i = 0; i <= WORKERS; i++) {
        workers[i] = (struct worker){&s, i};
        pthread_create(&thread[i], NULL, i == CONTROL ? control : worker, &workers[i]);
    }
    for (unsigned i = 0; i <= WORKERS; i++)
        pthread_join(thread[i], NULL);

    kit_check(&s.kit);
    for (uint32_t port = 1; port <= PORTS; port++)
        conn_port_flush(s.kit.t, port);
    kit_check(&s.kit);
    assert_int_equal(conn_count(s.kit.t), 0);
    struct conn_stats stats;
    conn_table_stats(s.kit.t, &stats);
    assert_true(stats.opened > 1000);
    assert_int_equal(stats.opened, s.closed);
    assert_true(s.dumped > 0);
    threads_quiesce(s.threads, THREADS_MAX - 1);
    threads_offline(s.threads, THREADS_MAX - 1);
    threads_quiesce(s.threads, THREADS_MAX - 1);
    uint32_t free_entries = 0;
    while (flow_table_entry_alloc(conn_table_flows(s.kit.t)))
        free_entries++;
    assert_int_equal(free_entries, flow_table_capacity(conn_table_flows(s.kit.t)));
    conn_table_destroy(s.kit.t);
    threads_destroy(s.threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T86 workers, ticks, dumps, updates, quotas and flushes at once keep every invariant",
         .test_func = test_everything_at_once},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
