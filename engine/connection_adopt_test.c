// SPDX-License-Identifier: MPL-2.0
#include "engine/connection_test_kit.h"

enum { FLOWS = 40 };

static struct flow flow_of(uint32_t i)
{
    return (struct flow){.port = 1 + i % 3,
                         .n = i,
                         .protocol = i % 2 ? IPPROTO_TCP4 : IPPROTO_UDP4,
                         .nat = i % 5 == 0 ? CONN_NAT_SNAT : CONN_NAT_NONE};
}

static void populate(struct kit *k)
{
    for (uint32_t port = 1; port < 4; port++)
        conn_port_open(k->t, port, 5, 100);
    for (uint32_t i = 0; i < FLOWS; i++) {
        struct flow f = flow_of(i);
        if (f.protocol == IPPROTO_TCP4)
            kit_establish(k, &f);
        else
            kit_open(k, &f, NULL);
        if (i % 4 == 0)
            kit_packet(k, &f, FLOW_IN, NULL);
    }
    for (uint32_t i = 0; i < FLOWS; i += 10) { // some ended: their records and entries are free
        struct flow f = flow_of(i);
        conn_close(k->t, kit_find(k, &f));
    }
    test_env_quiesce(k->e);
}

static struct kit *kit(void)
{
    struct kit *k = kit_create(100, 6);
    populate(k);
    return k;
}

static void test_adopts(void **state)
{
    struct kit *k = kit();
    struct conn before[FLOWS];
    for (uint32_t i = 0; i < FLOWS; i++) {
        struct flow f = flow_of(i);
        if (kit_find(k, &f))
            before[i] = *kit_conn(k, &f);
    }
    struct flow_secret secret = *conn_table_secret(k->t);
    k->now += SECONDS(20);
    kit_restart(k);
    assert_int_equal(k->adopted, FLOWS - FLOWS / 10);
    assert_int_equal(conn_count(k->t), k->adopted);
    assert_memory_equal(&secret, conn_table_secret(k->t), sizeof(secret)); // hash, so outer ports, go on
    kit_check(k);
    for (uint32_t i = 0; i < FLOWS; i++) {
        struct flow f = flow_of(i);
        if (i % 10 == 0) {
            assert_int_equal(kit_find(k, &f), 0);
            continue;
        }
        const struct conn *c = kit_conn(k, &f);
        assert_memory_equal(&c->nat, &before[i].nat, sizeof(c->nat));
        assert_memory_equal(c->entry, before[i].entry, sizeof(c->entry));
        assert_int_equal(c->tcp.state, before[i].tcp.state);
        assert_int_equal(c->opened, before[i].opened);
        assert_int_equal(c->rule, 7);
        for (uint8_t dir = 0; dir < 2; dir++) {
            const struct flow_hot *hot = flow_table_hot(conn_table_flows(k->t), c->entry[dir]);
            assert_int_equal(hot->generation, 0);
            assert_int_equal(hot->last_seen, (uint32_t)k->now);
            assert_int_equal(flow_table_entry(conn_table_flows(k->t), c->entry[dir])->xp.dest, i);
        }
    }
    kit_destroy(k);
}

static void test_goes_on(void **state)
{
    struct kit *k = kit();
    kit_restart(k);
    for (uint32_t port = 1; port < 4; port++)
        assert_true(conn_port_open(k->t, port, 5, 100));
    kit_check(k);
    struct flow f = flow_of(1);
    // Segments were lost while nobody looked: windows are learned anew before a reset is judged.
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_ACK, 3000000, 2000, 100), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 2000, 3000100, 0), PASS);
    assert_int_equal(flow_table_hot(conn_table_flows(k->t), kit_entry(k, &f, FLOW_IN))->flags, 0);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_FIN | TCP_ACK, 2000, 3000100, 0), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_IN, TCP_FIN | TCP_ACK, 3000100, 2001, 0), PASS);
    assert_int_equal(kit_send(k, &f, FLOW_OUT, TCP_ACK, 2001, 3000101, 0), PASS);
    assert_int_equal(kit_conn(k, &f)->tcp.state, TCP_STATE_TIME_WAIT);
    kit_restart(k); // once more, with that one closing
    assert_int_equal(kit_conn(k, &f)->class_, CONN_CLOSED);
    kit_pass(k, SECONDS(121));
    assert_int_equal(kit_find(k, &f), 0);
    kit_pass(k, SECONDS(8001));
    assert_int_equal(conn_count(k->t), 0);
    kit_destroy(k);
}

static void test_sizes(void **state)
{
    struct kit *k = kit();
    k->config.max_ports = 3; // a port that is no more: its connections go, the others stay
    kit_restart(k);
    struct conn_stats s;
    conn_table_stats(k->t, &s);
    assert_int_equal(s.adopted + s.adopt_failed, FLOWS - FLOWS / 10);
    assert_int_equal(s.adopt_failed, 12);
    kit_check(k);
    k->config.max_connections = 200; // another size: another file
    kit_restart(k);
    assert_int_equal(k->adopted, 0);
    assert_int_equal(conn_table_secret(k->t)->m[3], k->config.fresh_secret.m[3]);
    kit_destroy(k);
}

static void test_not_kept(void **state)
{
    struct kit *k = kit();
    k->config.keep = false;
    kit_restart(k);
    assert_int_equal(k->adopted, 0);
    assert_int_equal(conn_count(k->t), 0);
    populate(k);
    kit_destroy(k);
}

static void *zone(struct kit *k, const char *name, size_t *bytes)
{
    for (unsigned i = 0; i < ARRAY_LEN(k->e->zones); i++) {
        if (strcmp(k->e->zones[i].name, name) == 0) {
            *bytes = k->e->zones[i].bytes;
            return k->e->zones[i].memory;
        }
    }
    return NULL;
}

static void drop_zone(struct kit *k, const char *name)
{
    for (unsigned i = 0; i < ARRAY_LEN(k->e->zones); i++) {
        if (strcmp(k->e->zones[i].name, name) == 0)
            k->e->zones[i].bytes = 0;
    }
}

static void test_one_zone_lost(void **state)
{
    static const char *const names[] = {"connections", "flows"};
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        struct kit *k = kit();
        drop_zone(k, names[i]);
        kit_restart(k);
        assert_int_equal(k->adopted, 0);
        kit_check(k);
        populate(k);
        kit_destroy(k);
    }
}

// What was adopted must be what was there: same key, same rewrite, same binding. And the table must work.
static void check_adopted(struct kit *k, const struct conn *records, const struct flow_slot *slots)
{
    kit_check(k);
    for (uint32_t i = 0; (i = conn_next(k->t, 0, i)) != 0;) {
        const struct conn *c = conn_get(k->t, i);
        assert_memory_equal(c->entry, records[i].entry, sizeof(c->entry));
        assert_memory_equal(&c->nat, &records[i].nat, sizeof(c->nat));
        assert_int_equal(c->port, records[i].port);
        assert_int_equal(c->opener, records[i].opener);
        assert_int_equal(c->protocol, records[i].protocol);
        assert_int_equal(c->tcp.state, records[i].tcp.state);
        for (unsigned dir = 0; dir < 2; dir++)
            assert_memory_equal(flow_table_entry(conn_table_flows(k->t), c->entry[dir]), &slots[c->entry[dir]].entry,
                                sizeof(struct flow_entry));
    }
    for (uint32_t port = 1; port < 4; port++)
        conn_port_open(k->t, port, 5, 100);
    for (uint32_t i = 0; i < 20; i++) {
        struct flow f = flow_of(1000 + i);
        assert_int_equal(kit_open(k, &f, NULL), DROP_NONE);
    }
    for (uint32_t port = 1; port < 4; port++)
        conn_port_flush(k->t, port);
    kit_check(k);
    assert_int_equal(conn_count(k->t), 0);
    test_env_quiesce(k->e);
    assert_int_equal(flow_table_count(conn_table_flows(k->t)), 0);
}

struct image { // of both zones
    uint8_t *memory[2], *copy[2];
    size_t bytes[2], used[2]; // used: the part that a populated table wrote
};

static struct image take_image(struct kit *k)
{
    struct image m;
    m.memory[0] = zone(k, "connections", &m.bytes[0]);
    m.memory[1] = zone(k, "flows", &m.bytes[1]);
    m.used[0] = k->t->fresh_record * sizeof(struct conn);
    m.used[1] = (2 * FLOWS + 1) * sizeof(struct flow_slot);
    for (unsigned i = 0; i < 2; i++) {
        m.copy[i] = malloc(m.bytes[i]);
        memcpy(m.copy[i], m.memory[i], m.bytes[i]);
    }
    return m;
}

static void restore(struct image *m)
{
    for (unsigned i = 0; i < 2; i++)
        memcpy(m->memory[i], m->copy[i], m->bytes[i]);
}

static void drop_image(struct image *m)
{
    free(m->copy[0]);
    free(m->copy[1]);
}

static void test_each_byte(void **state)
{
    struct kit *k = kit();
    struct image m = take_image(k);
    const uint32_t whole = FLOWS - FLOWS / 10;
    for (unsigned z = 0; z < 2; z++) {
        for (size_t at = 0; at < m.used[z]; at += 1 + at / 1024 % 2) {
            conn_table_destroy(k->t);
            restore(&m);
            m.memory[z][at] ^= (uint8_t)(1 + at % 255);
            k->t = kit_table(k);
            assert_non_null(k->t);
            // One record at most is lost, or the header was hit and all are.
            assert_true(k->adopted >= whole - 1 || (k->adopted == 0 && z == 0 && at < sizeof(struct conn)));
            check_adopted(k, (struct conn *)m.copy[0], (struct flow_slot *)m.copy[1]);
        }
    }
    drop_image(&m);
    kit_destroy(k);
}

static void corrupt(struct image *m)
{
    static const size_t unit[2] = {sizeof(struct conn), sizeof(struct flow_slot)};
    unsigned hits = 1 + (unsigned)random() % 200;
    while (hits--) {
        unsigned z = random() % 2;
        size_t at = (size_t)random() % m->used[z];
        if (z == 0 && at < sizeof(struct conn) && random() % 100)
            continue; // mostly spare the header: behind it is where the work is
        switch (random() % 4) {
        case 0:
            m->memory[z][at] = (uint8_t)random();
            break;
        case 1: // small numbers look like good indexes
            m->memory[z][at] = (uint8_t)random() % 4;
            break;
        case 2: // a record or an entry in another's place
            at = at / unit[z] * unit[z];
            memcpy(m->memory[z] + at, m->copy[z] + (size_t)random() % (m->used[z] / unit[z]) * unit[z], unit[z]);
            break;
        default:
            m->memory[z][at] = 0xff;
        }
    }
}

static void test_random_damage(void **state)
{
    srandom(11);
    struct kit *k = kit();
    struct image m = take_image(k);
    uint64_t adopted = 0;
    for (unsigned run = 0; run < 1500; run++) {
        conn_table_destroy(k->t);
        restore(&m);
        corrupt(&m);
        k->t = kit_table(k);
        assert_non_null(k->t);
        adopted += k->adopted;
        check_adopted(k, (struct conn *)m.copy[0], (struct flow_slot *)m.copy[1]);
    }
    assert_true(adopted > 1500); // the sound ones did come through
    drop_image(&m);
    kit_destroy(k);
}

static void test_cut_off(void **state)
{
    // The former process ended in the middle of anything: the zones are frozen between any two calls of a random run,
    // deferred frees included.
    srandom(5);
    struct kit *k = kit();
    for (unsigned run = 0; run < 200; run++) {
        for (unsigned step = 0; step < 50; step++) {
            struct flow f = flow_of((uint32_t)random() % FLOWS);
            struct tcp_segment s = kit_segment(FLOW_OUT, random() % 2 ? TCP_ACK : TCP_SYN, 1, 1, 0);
            if (kit_packet(k, &f, random() % 2, f.protocol == IPPROTO_TCP4 ? &s : NULL) == MISS)
                kit_open(k, &f, f.protocol == IPPROTO_TCP4 ? &s : NULL);
            else if (random() % 3 == 0 && kit_find(k, &f))
                conn_close(k->t, kit_find(k, &f));
        }
        uint32_t live = conn_count(k->t);
        k->e->n_deferred = 0; // never run
        conn_table_destroy(k->t);
        k->t = kit_table(k);
        assert_int_equal(k->adopted, live);
        kit_check(k);
        for (uint32_t port = 1; port < 4; port++)
            conn_port_open(k->t, port, 5, 100);
    }
    kit_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T80 a restart adopts connections with their bindings, entries and secret", .test_func = test_adopts},
        {.name = "T80 adopted connections go on, close and expire", .test_func = test_goes_on},
        {.name = "a file of another size is another file, and a vanished port's records go", .test_func = test_sizes},
        {.name = "without keep nothing is adopted", .test_func = test_not_kept},
        {.name = "one zone without the other is of no use", .test_func = test_one_zone_lost},
        {.name = "any byte damaged costs its record, or all when it is the header's", .test_func = test_each_byte},
        {.name = "random damage never crashes and never adopts what was not there", .test_func = test_random_damage},
        {.name = "a process may end at any time", .test_func = test_cut_off},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
