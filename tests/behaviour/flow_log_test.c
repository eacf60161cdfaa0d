// SPDX-License-Identifier: MPL-2.0
// The flow log: what begins, what ends and why, what is refused; and that a flood stays a trickle.
#include <pthread.h>

#include "core/flow_log.h"
#include "tests/behaviour/lab.h"

#define SECOND 1000000000ull

static void restart(struct lab *l, uint32_t room, bool all)
{
    struct node_config c = lab_config(NODE_A);
    c.flow_log_records = room;
    c.flow_log_all = all;
    fake_destroy(l->a);
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    fake_forget(l->a);
}

static struct flow_record only(struct lab *l, enum flow_record_kind kind)
{
    struct flow_record r, next;
    assert_true(node_flow_log_take(l->a->node, &r));
    assert_false(node_flow_log_take(l->a->node, &next));
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.index, l->g);
    assert_int_equal(r.vni, 100);
    assert_memory_equal(&r.port, &l->guest.b.port, sizeof(r.port));
    return r;
}

static bool is(const struct ip_addr *a, const char *text)
{
    struct ip_addr b = ip(text);
    return ip_equal(a, &b);
}

static void none(struct lab *l)
{
    struct flow_record r;
    assert_false(node_flow_log_take(l->a->node, &r));
}

static void start_and_end(void **state)
{
    struct lab *l = *state;
    struct blueprint_rule *r = draft_rule(&l->guest, "dns", 100, BLUEPRINT_OUT, BLUEPRINT_ALLOW, IPPROTO_UDP4);
    r->log = true;
    restart(l, 64, false);
    struct frame silent = icmp_echo(4, G, P, false, 1, 1, 10), out = udp(4, G, 4000, P, 53, 100);
    struct frame in = udp(4, P, 53, G, 4000, 500);
    send_guest(l, &silent); // by a rule that does not log
    none(l);
    send_guest(l, &out);
    struct flow_record s = only(l, FLOW_RECORD_START);
    assert_string_equal(s.rule, "dns");
    assert_int_equal(s.opener, FLOW_OUT);
    assert_int_equal(s.packets[FLOW_OUT], 1);
    assert_true(is(&s.key[FLOW_OUT].dst, P.v4));
    assert_int_equal(s.time, l->a->now);
    receive_vpc(l, &in);
    send_guest(l, &out);
    fake_discard(l->a);
    pass_time(l->a, 200000);
    struct flow_record e = only(l, FLOW_RECORD_END);
    assert_string_equal(e.rule, "dns");
    assert_int_equal(e.why, CONN_END_EXPIRED);
    assert_int_equal(e.packets[FLOW_OUT], 2);
    assert_int_equal(e.bytes[FLOW_OUT], 2 * out.len);
    assert_int_equal(e.packets[FLOW_IN], 1);
    assert_int_equal(e.bytes[FLOW_IN], in.len);
    assert_int_equal(load_be16(&e.key[FLOW_IN].sport), 53);
}

static void translated_tuples(void **state)
{
    struct lab *l = *state;
    draft_floating(&l->guest, "198.51.100.7", G.v4);
    struct blueprint_rule *r = draft_rule(&l->guest, "web", 100, BLUEPRINT_OUT, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    r->log = true;
    restart(l, 64, false);
    struct edge_set edges = {.prefix = prefix("198.51.100.0/24"), .n_nodes = 1, .nodes = &NODE_C, .epoch = 1};
    struct node_error err;
    assert_true(node_edge_set_put(l->a->node, &edges, &err));
    struct frame f = udp(4, G, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    struct flow_record s = only(l, FLOW_RECORD_START);
    assert_int_equal(s.nat, CONN_NAT_FLOATING);
    assert_true(is(&s.key[FLOW_OUT].src, G.v4));
    assert_true(is(&s.key[FLOW_IN].dst, "198.51.100.7"));
    fake_discard(l->a);
}

static void why_it_ended(void **state)
{
    struct lab *l = *state;
    restart(l, 64, true);
    struct frame syn = tcp(4, G, 4000, P, 80, TCP_SYN, 1, 0, 0),
                 reset = tcp(4, P, 80, G, 4000, TCP_RST | TCP_ACK, 0, 2, 0);
    struct frame out = udp(4, G, 4000, P, 53, 10);
    send_guest(l, &syn);
    assert_string_equal(only(l, FLOW_RECORD_START).rule, "default-out");
    receive_vpc(l, &reset);
    assert_int_equal(only(l, FLOW_RECORD_END).why, CONN_END_CLOSED);
    send_guest(l, &out);
    only(l, FLOW_RECORD_START);
    draft_rule(&l->guest, "stop", 1, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_UDP4);
    put(l->a, &l->guest);
    send_guest(l, &out);
    assert_int_equal(only(l, FLOW_RECORD_END).why, CONN_END_REVOKED);
    l->guest.b.firewall.n_rules = 0;
    put(l->a, &l->guest);
    send_guest(l, &out);
    only(l, FLOW_RECORD_START);
    struct node_error e;
    assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
    assert_int_equal(only(l, FLOW_RECORD_END).why, CONN_END_PORT);
    fake_quiesce(l->a);
    send_guest(l, &out);
    only(l, FLOW_RECORD_START);
    assert_true(node_blueprint_delete(l->a->node, &l->guest.b.port, &e));
    assert_int_equal(only(l, FLOW_RECORD_END).why, CONN_END_PORT);
    fake_discard(l->a);
}

static void flood_of_refusals(void **state)
{
    struct lab *l = *state;
    struct blueprint_rule *r = draft_rule(&l->guest, "no-smtp", 10, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_TCP4);
    r->log = true;
    rule_ports(&l->guest, r, 25, 25);
    draft_rule(&l->guest, "no-ssh", 10, BLUEPRINT_OUT, BLUEPRINT_REJECT, IPPROTO_TCP4)->log = false;
    restart(l, 64, false);
    l->a->now = 100 * SECOND;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < 5000; i++, l->a->now += SECOND / 1000) {
        struct frame f = tcp(4, G, (uint16_t)(1000 + i), P, 25, TCP_SYN, i, 0, 0);
        struct frame quiet = tcp(4, G, (uint16_t)(1000 + i), P, 22, TCP_SYN, i, 0, 0);
        bytes += f.len;
        send_guest(l, &f);
        send_guest(l, &quiet);
        fake_discard(l->a);
    }
    fake_advance(l->a, 2000);
    struct flow_record got;
    uint64_t packets = 0, sum = 0, records = 0;
    for (; node_flow_log_take(l->a->node, &got); records++) {
        assert_int_equal(got.kind, FLOW_RECORD_DENIED);
        assert_string_equal(got.rule, "no-smtp");
        assert_string_equal(got.layer, "firewall");
        assert_int_equal(got.drop, DROP_FIREWALL_DENY);
        packets += got.packets[FLOW_OUT];
        sum += got.bytes[FLOW_OUT];
    }
    assert_int_equal(records, 5);
    assert_int_equal(packets, 5000);
    assert_int_equal(sum, bytes);
    assert_int_equal(node_flow_log_lost(l->a->node), 0);
}

static void full_ring(void **state)
{
    struct lab *l = *state;
    restart(l, 8, true);
    for (uint16_t i = 0; i < 100; i++) {
        struct frame f = udp(4, G, (uint16_t)(4000 + i), P, 53, 10);
        send_guest(l, &f);
        expect_underlay(l->a, NODE_B); // no packet waits for the log
    }
    assert_int_equal(node_flow_log_lost(l->a->node), 92);
    struct flow_record r;
    for (uint16_t i = 0; i < 8; i++) {
        assert_true(node_flow_log_take(l->a->node, &r));
        assert_int_equal(load_be16(&r.key[FLOW_OUT].sport), 4000 + i);
    }
    none(l);
}

struct producers {
    struct flow_log *log;
    unsigned number, running;
};

static void *produce(void *arg)
{
    struct producers *p = arg;
    unsigned id = __atomic_fetch_add(&p->number, 1, __ATOMIC_RELAXED);
    for (uint64_t i = 1; i <= 100000; i++) {
        struct flow_record r = {.index = id, .time = i, .bytes = {i, ~i}};
        flow_log_put(p->log, &r);
    }
    __atomic_fetch_sub(&p->running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void producers_and_consumer(void **state)
{
    struct lab *l = *state;
    struct producers p = {.log = flow_log_create(l->a->node ? &l->a->platform.env : NULL, 1024), .running = 3};
    pthread_t t[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, produce, &p), 0);
    uint64_t last[3] = {0}, taken = 0;
    for (bool over = false; !over;) {
        over = __atomic_load_n(&p.running, __ATOMIC_ACQUIRE) == 0;
        struct flow_record r;
        for (; flow_log_take(p.log, &r); taken++) {
            assert_true(r.index < 3 && r.time > last[r.index]);         // in order, each once
            assert_true(r.bytes[0] == r.time && r.bytes[1] == ~r.time); // and whole
            last[r.index] = r.time;
        }
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(taken + flow_log_lost(p.log), 300000);
    flow_log_destroy(&l->a->platform.env, p.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("a logging rule's connection is recorded when it begins and ends", start_and_end),
        TEST("a record shows both sides of a translation", translated_tuples),
        TEST("a record says why the connection ended", why_it_ended),
        TEST("a flood of refusals is one record for each rule and second", flood_of_refusals),
        TEST("a full log loses records, counts them, and delays no packet", full_ring),
        TEST("producers and the consumer of the ring never tear or repeat a record", producers_and_consumer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
