// SPDX-License-Identifier: MPL-2.0
// T82 with a blueprint that is not in force: the answer is what it would be, and nothing becomes of it.
#include "tests/behaviour/lab.h"

static struct trace ask(struct lab *l, const struct blueprint *b, uint8_t dir, const struct frame *f)
{
    struct trace_question q = {.port = l->g, .blueprint = b, .dir = dir, .frame = f->bytes, .len = f->len};
    struct trace t;
    struct node_error e;
    char *was = whole_state(l->a);
    if (!node_trace_ask(l->a->node, &q, l->a->now, &t, &e))
        fail_msg("trace refused at %s: %s", e.pointer, e.text);
    expect_state(l->a, was);
    free(was);
    expect_nothing(l->a);
    return t;
}

static void t82_other_rules(void **state)
{
    struct lab *l = *state;
    struct draft other = l->guest;
    other.b.firewall.rules = other.rules;
    draft_rule(&other, "no-dns", 1, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_UDP4);
    struct frame f = udp(4, G, 4000, P, 53, 10);
    struct trace now = ask(l, NULL, FLOW_OUT, &f), then = ask(l, &other.b, FLOW_OUT, &f);
    assert_string_equal(now.verdict, "sent");
    assert_string_equal(then.verdict, "dropped");
    assert_int_equal(then.reason, DROP_FIREWALL_DENY);
    send_guest(l, &f); // what runs is what ran
    expect_underlay(l->a, NODE_B);
}

static void t82_running_connection(void **state)
{
    struct lab *l = *state;
    struct frame f = udp(4, G, 4000, P, 53, 10);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    struct draft other = l->guest;
    other.b.firewall.rules = other.rules;
    struct trace same = ask(l, &other.b, FLOW_OUT, &f);
    assert_string_equal(same.verdict, "sent");
    assert_string_equal(same.log.steps[0].result, "stale");
    draft_rule(&other, "no-dns", 1, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_UDP4);
    assert_int_equal(ask(l, &other.b, FLOW_OUT, &f).reason, DROP_REVALIDATE_DENY);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
    assert_int_equal(flows(l->a, l->g), 1);
}

static void t82_shared_address(void **state)
{
    struct lab *l = *state;
    draft_snat(&l->guest, "198.51.100.9", 1024, 1031);
    l->g = put(l->a, &l->guest);
    struct edge_set edges = {.prefix = prefix("198.51.100.0/24"), .n_nodes = 1, .nodes = &NODE_C, .epoch = 1};
    struct node_error e;
    assert_true(node_edge_set_put(l->a->node, &edges, &e));
    fake_discard(l->a);
    struct frame f = udp(4, G, 4000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_C);
    struct conn_binding had = only_flow(l->a, l->g).nat;
    // A further slice before the one in use: the connection keeps its port.
    struct draft other = l->guest;
    other.b.nat.snat = other.snat;
    other.snat[1] = other.snat[0];
    other.snat[0].address = ip("198.51.100.10");
    other.b.nat.n_snat = 2;
    struct trace kept = ask(l, &other.b, FLOW_OUT, &f);
    assert_string_equal(kept.verdict, "sent");
    assert_true(ip_equal(&kept.xp.src_ip, &had.external));
    assert_int_equal(kept.xp.src_port, had.external_port);
    other.b.nat.n_snat = 1; // without its slice it would end
    assert_int_equal(ask(l, &other.b, FLOW_OUT, &f).reason, DROP_NAT_REVOKED);
    other.b.nat.n_snat = 0;
    struct frame another = udp(4, G, 4001, via(OUTSIDE, GATEWAY_MAC), 53, 10);
    assert_int_equal(ask(l, &other.b, FLOW_OUT, &another).reason, DROP_NO_EXTERNAL_IP);
}

static void t82_port_that_is_not_there(void **state)
{
    struct lab *l = *state;
    static const struct end other = {MAC_OF(5), "10.0.0.5", "fd00::5"};
    struct draft fresh;
    draft_init(&fresh, 5, 100, other.v4, other.v6, other.mac);
    fresh.b.generation = 1;
    struct frame to_guest = tcp(6, other, 4000, via(G, GATEWAY_MAC), 80, TCP_SYN, 1, 0, 0);
    map(l->a, 100, G.v6, GUEST_MAC, NODE_A, 1);
    struct trace t = ask(l, &fresh.b, FLOW_OUT, &to_guest);
    assert_int_equal(t.reason, DROP_FIREWALL_DENY); // of the guest that is there: it is followed there
    fresh.b.l2.mac = GUEST_MAC;
    struct trace_question q = {.blueprint = &fresh.b, .frame = to_guest.bytes, .len = to_guest.len};
    struct node_error e;
    assert_false(node_trace_ask(l->a->node, &q, l->a->now, &t, &e)); // what could not be applied cannot be tried
    assert_string_equal(e.pointer, "/l2/mac");
}

static void t82_memory(void **state)
{
    struct lab *l = *state;
    struct draft other = l->guest;
    struct frame f = udp(4, G, 4000, P, 53, 10);
    struct trace_question q = {.blueprint = &other.b, .frame = f.bytes, .len = f.len};
    draft_snat(&other, "198.51.100.9", 1024, 1031);
    other.b.nat.snat = other.snat;
    bool done = false;
    for (long fail = 0; !done && fail < 5000; fail++) {
        struct trace t;
        struct node_error e;
        l->a->fail_after = fail;
        done = node_trace_ask(l->a->node, &q, l->a->now, &t, &e);
        if (!done && e.code != NODE_LIMIT)
            fail_msg("%s: %s", e.pointer, e.text);
    }
    l->a->fail_after = -1;
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T82 a blueprint is tried against a packet without being applied", t82_other_rules),
        TEST("T82 a trial says what would become of a running connection", t82_running_connection),
        TEST("T82 a trial keeps the port of a shared address, or says that it would go", t82_shared_address),
        TEST("T82 a port can be tried before it is there", t82_port_that_is_not_there),
        TEST("T82 a trial without memory is refused and leaks nothing", t82_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
