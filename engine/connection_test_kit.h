// SPDX-License-Identifier: MPL-2.0
// connection_test_kit.h: a connection table on a test env, a clock, and packets as a hit path would treat them. Hosted
// code; for tests only.
#ifndef NEREUS_ENGINE_CONNECTION_TEST_KIT_H
#define NEREUS_ENGINE_CONNECTION_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/connection_internal.h"
#include "engine/parse.h"
#include "engine/test_env.h"

#define SECONDS(n) ((n)*1000ull)

struct kit {
    struct test_env *e;
    struct conn_table *t;
    struct conn_table_config config;
    uint64_t now;
    uint32_t adopted;
    unsigned closed;         // calls of the callback
    uint64_t closed_packets; // of the last one, both directions
    enum conn_end why;       // it ended
};

struct flow { // a conversation by number
    uint32_t port, n;
    uint8_t protocol;
    uint8_t opener;
    uint8_t nat;
};

static inline struct flow_key kit_key(const struct flow *f, uint8_t dir)
{
    struct flow_key k = {.port = f->port, .vni = 100, .ip_version = 4, .protocol = f->protocol, .dir = dir};
    struct ip_addr guest = ip_from_v4((uint8_t[4]){10, 0, 0, 3}), peer = ip_from_v4((uint8_t[4]){10, 0, 0, 4});
    memcpy(guest.b + 8, &f->n, 2);
    k.src = dir == FLOW_OUT ? guest : peer;
    k.dst = dir == FLOW_OUT ? peer : guest;
    k.sport = dir == FLOW_OUT ? (uint16_t)f->n : 53;
    k.dport = dir == FLOW_OUT ? 53 : (uint16_t)f->n;
    return k;
}

static inline uint32_t kit_entry(const struct kit *k, const struct flow *f, uint8_t dir)
{
    struct flow_key key = kit_key(f, dir);
    return flow_table_lookup(conn_table_flows(k->t), &key, flow_hash(conn_table_secret(k->t), &key));
}

static inline uint32_t kit_find(const struct kit *k, const struct flow *f) // connection index, 0 = none
{
    uint32_t entry = kit_entry(k, f, FLOW_OUT);
    return entry ? flow_table_entry(conn_table_flows(k->t), entry)->owner : 0;
}

static inline struct conn *kit_conn(const struct kit *k, const struct flow *f)
{
    uint32_t index = kit_find(k, f);
    assert_int_not_equal(index, 0);
    return conn_get(k->t, index);
}

static inline struct conn_spec kit_spec(const struct flow *f, const struct tcp_segment *first)
{
    struct conn_spec s = {.port = f->port,
                          .opener = f->opener,
                          .protocol = f->protocol,
                          .generation = 1,
                          .nat.kind = f->nat,
                          .rule = 7,
                          .posture_rule = UINT32_MAX,
                          .tcp = first,
                          .bytes = 60 + (first ? first->payload : 0)};
    for (uint8_t dir = 0; dir < 2; dir++) {
        s.flow[dir].key = kit_key(f, dir);
        s.flow[dir].xp.to = dir == FLOW_OUT ? XP_TO_TUNNEL : XP_TO_GUEST;
        s.flow[dir].xp.dest = f->n;
        s.flow[dir].dependency = dir == FLOW_OUT ? 5 : 0;
        s.flow[dir].dependency_version = dir == FLOW_OUT ? 2 : 0;
    }
    return s;
}

static inline enum drop kit_open(struct kit *k, const struct flow *f, const struct tcp_segment *first)
{
    struct conn_spec s = kit_spec(f, first);
    uint32_t index;
    conn_port_lock(k->t, f->port);
    enum drop drop = conn_open(k->t, &s, k->now, &index);
    conn_port_unlock(k->t, f->port);
    assert_int_equal(drop == DROP_NONE, index != 0);
    return drop;
}

enum outcome { MISS, PASS, NEW, OUT_OF_WINDOW };

// A later packet as the hit path treats it: count, and follow where the entry or the flags say so.
static inline enum outcome kit_packet(struct kit *k, const struct flow *f, uint8_t dir, const struct tcp_segment *s)
{
    uint32_t entry = kit_entry(k, f, dir);
    if (!entry)
        return MISS;
    struct flow_hot *hot = flow_table_hot(conn_table_flows(k->t), entry);
    fetch_add_relaxed(&hot->packets, 1);
    fetch_add_relaxed(&hot->bytes, 60 + (s ? s->payload : 0));
    store_relaxed(&hot->last_seen, (uint32_t)k->now);
    if (!(load_relaxed(&hot->flags) & FLOW_TRACK) && !(s && (s->flags & (TCP_SYN | TCP_FIN | TCP_RST))))
        return PASS;
    conn_port_lock(k->t, f->port);
    uint32_t index = flow_table_entry(conn_table_flows(k->t), entry)->owner;
    enum tcp_verdict verdict = conn_track(k->t, index, dir, s, k->now);
    conn_port_unlock(k->t, f->port);
    return verdict == TCP_PASS ? PASS : verdict == TCP_PASS_NEW ? NEW : OUT_OF_WINDOW;
}

// Everything that must hold between calls, whatever happened.
static inline void kit_check(const struct kit *k)
{
    const struct conn_table *t = k->t;
    uint32_t total = 0, entries = 0, shared = 0;
    for (uint32_t port = 0; port < t->config.max_ports; port++) {
        const struct conn_port *p = &t->ports[port];
        uint32_t on_lists = 0;
        for (unsigned class_ = 0; class_ < CONN_CLASSES; class_++) {
            uint32_t before = 0;
            for (uint32_t i = p->lists[class_].first; i; i = t->records[i].next) {
                const struct conn *c = &t->records[i];
                assert_int_equal(c->live, 1);
                assert_int_equal(c->port, port);
                assert_int_equal(c->class_, class_);
                assert_int_equal(c->prev, before);
                assert_int_not_equal(c->timer.slot, 0);
                assert_int_equal(c->check, conn_check_body(t, c) ^ conn_check_state(t, c));
                for (unsigned dir = 0; dir < 2; dir++) {
                    if (!c->entry[dir])
                        continue;
                    const struct flow_entry *e = flow_table_entry(t->flows, c->entry[dir]);
                    assert_int_equal(e->owner, i);
                    assert_int_equal(flow_table_lookup(t->flows, e->key, flow_hash(&t->secret, e->key)), c->entry[dir]);
                    entries++;
                }
                before = i;
                on_lists++;
            }
            assert_int_equal(p->lists[class_].last, before);
        }
        assert_int_equal(p->count, on_lists);
        assert_int_equal(p->wheel.armed, on_lists);
        total += on_lists;
        shared += on_lists > p->guarantee ? on_lists - p->guarantee : 0;
    }
    assert_int_equal(conn_count(t), total);
    assert_int_equal(t->shared_used, shared);
    assert_int_equal(flow_table_count(t->flows), entries);
    uint32_t live = 0;
    for (uint32_t i = 0; (i = conn_next(t, 0, i)) != 0;)
        live++;
    assert_int_equal(live, total);
    struct conn_stats s;
    conn_table_stats(t, &s);
    uint64_t ended = s.closed + s.expired;
    for (unsigned class_ = 0; class_ < CONN_CLASSES; class_++)
        ended += s.evicted[class_];
    assert_int_equal(s.opened + s.adopted, ended + total);
    assert_int_equal(s.evicted[CONN_ACTIVE], 0);
}

static inline uint32_t kit_tick(struct kit *k) // returns ended
{
    uint32_t before = conn_count(k->t);
    while (conn_table_tick(k->t, k->now, 16) == 16)
        ;
    test_env_quiesce(k->e);
    return before - conn_count(k->t);
}

static inline void kit_pass(struct kit *k, uint64_t ms) // time, with ticks as a node makes them
{
    for (uint64_t end = k->now + ms; k->now < end;) {
        k->now += MIN(end - k->now, 250);
        conn_table_tick(k->t, k->now, 10000);
    }
    test_env_quiesce(k->e);
}

static inline void kit_closed(void *ctx, const struct conn *c, uint32_t index, enum conn_end why)
{
    struct kit *k = ctx;
    assert_true(c->live);
    k->closed++;
    k->why = why;
    k->closed_packets = 0;
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!c->entry[dir])
            continue;
        assert_int_equal(flow_table_entry(conn_table_flows(k->t), c->entry[dir])->owner, index);
        k->closed_packets += flow_table_hot(conn_table_flows(k->t), c->entry[dir])->packets;
    }
}

static inline struct conn_table *kit_table(struct kit *k)
{
    return conn_table_create(&k->e->env, &k->config, k->now, &k->adopted);
}

static inline struct kit *kit_create(uint32_t max_connections, uint32_t max_ports)
{
    struct kit *k = calloc(1, sizeof(*k));
    k->e = test_env_create();
    k->now = 0xfffff000; // the flow clock turns over within seconds
    k->config = (struct conn_table_config){.max_connections = max_connections,
                                           .max_ports = max_ports,
                                           .keep = true,
                                           .timeouts = conn_timeouts_default,
                                           .closed = kit_closed,
                                           .ctx = k};
    for (unsigned i = 0; i < 8; i++)
        k->config.fresh_secret.m[i] = 0x9e3779b97f4a7c15ull * (2 * i + 1) | 1;
    k->t = kit_table(k);
    assert_non_null(k->t);
    return k;
}

// The process ends without notice, and another one takes over.
static inline void kit_restart(struct kit *k)
{
    test_env_quiesce(k->e);
    conn_table_destroy(k->t);
    k->config.fresh_secret.m[3] += 2;
    k->t = kit_table(k);
    assert_non_null(k->t);
}

static inline void kit_destroy(struct kit *k)
{
    kit_check(k);
    test_env_quiesce(k->e);
    conn_table_destroy(k->t);
    assert_int_equal(k->e->live, 0);
    test_env_destroy(k->e);
    free(k);
}

// ---- TCP by relative numbers: the guest begins at 1000, the peer at 5000
static inline struct tcp_segment kit_segment(uint8_t dir, uint8_t flags, uint32_t seq, uint32_t ack, uint32_t payload)
{
    return (struct tcp_segment){.flags = flags,
                                .window = 64240,
                                .seq = (dir == FLOW_OUT ? 1000 : 5000) + seq,
                                .ack = flags & TCP_ACK ? (dir == FLOW_OUT ? 5000 : 1000) + ack : 0,
                                .payload = payload};
}

static inline enum outcome kit_send(struct kit *k, const struct flow *f, uint8_t dir, uint8_t flags, uint32_t seq,
                                    uint32_t ack, uint32_t payload)
{
    struct tcp_segment s = kit_segment(dir, flags, seq, ack, payload);
    return kit_packet(k, f, dir, &s);
}

static inline enum drop kit_syn(struct kit *k, const struct flow *f)
{
    struct tcp_segment s = kit_segment(FLOW_OUT, TCP_SYN, 0, 0, 0);
    return kit_open(k, f, &s);
}

static inline void kit_establish(struct kit *k, const struct flow *f)
{
    assert_int_equal(kit_syn(k, f), DROP_NONE);
    assert_int_equal(kit_conn(k, f)->tcp.state, TCP_STATE_SYN_SENT);
    assert_int_equal(kit_send(k, f, FLOW_IN, TCP_SYN | TCP_ACK, 0, 1, 0), PASS);
    assert_int_equal(kit_send(k, f, FLOW_OUT, TCP_ACK, 1, 1, 0), PASS);
    assert_int_equal(kit_conn(k, f)->tcp.state, TCP_STATE_ESTABLISHED);
}

#endif
