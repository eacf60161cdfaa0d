// SPDX-License-Identifier: MPL-2.0
// Trace says what a packet would meet, and leaves no trace itself.
#include <stdio.h>

#include "core/internal.h"
#include "tests/behaviour/outside.h"

struct scene {
    struct lab lab; // node A, edge, with G: floating IP for IPv4, SNAT for IPv6
    struct draft other;
    uint32_t q; // Q on the same node: a floating IP for IPv6
    uint32_t seed;
    struct frame last_out, last_in; // as they left the node, for errors and answers about them
    struct frame before;            // the packet before, as it was sent
    uint8_t dir_before;
    uint64_t epoch;
};

static uint32_t draw(struct scene *s, uint32_t n)
{
    s->seed = s->seed * 1664525 + 1013904223;
    return (s->seed >> 8) % n;
}

static int setup(void **state)
{
    struct scene *s = calloc(1, sizeof(*s));
    struct node_config c = edge_config(NODE_A);
    c.tcp_port_quarantine_s = 100000;
    s->lab.a = fake_create();
    assert_true(fake_start(s->lab.a, &c));
    struct draft *d = &s->lab.guest;
    draft_guest(d);
    d->b.limits.flows_max = 4000;
    draft_floating(d, FLOATING.v4, G.v4);
    draft_snat(d, SHARED.v6, 2000, 2002);
    rule_ports(d, draft_rule(d, "ssh", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4), 22, 22);
    rule_ports(d, draft_rule(d, "no-smtp", 100, BLUEPRINT_OUT, BLUEPRINT_REJECT, IPPROTO_TCP4), 25, 25);
    rule_cidr(d, draft_rule(d, "far", 200, BLUEPRINT_OUT, BLUEPRINT_DENY, IPPROTO_UDP4), "203.0.113.128/25");
    draft_rule(d, "peers", 300, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_UDP4)->remote.kind = BLUEPRINT_REMOTE_VPC;
    draft_rule(d, "ping", 300, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_ICMP4);
    d->posture_out[0] = d->rules[1];
    d->posture_out[0].id = "operator";
    d->posture_out[0].action = BLUEPRINT_DENY;
    d->posture_out[0].proto = IPPROTO_UDP4;
    d->b.posture.n_out = 1;
    s->lab.g = put(s->lab.a, d);
    draft_init(&s->other, 5, 100, Q.v4, Q.v6, Q.mac);
    draft_floating(&s->other, FLOATING_2.v6, Q.v6);
    rule_ports(&s->other, draft_rule(&s->other, "ssh", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4), 22, 22);
    s->q = put(s->lab.a, &s->other);
    EACH_FAMILY(family)
    {
        map(s->lab.a, 100, address_of(P, family), PEER_MAC, NODE_B, 1);
        map(s->lab.a, 100, address_of(Q, family), Q.mac, NODE_A, 1);
    }
    serve(s->lab.a, 1, 1, &NODE_A);
    struct frame first = udp(4, G, 9, via(OUTSIDE, GATEWAY_MAC), 9, 10),
                 first6 = udp(6, G, 9, via(OUTSIDE, GATEWAY_MAC), 9, 10);
    send_guest(&s->lab, &first);
    s->last_out = expect_outside(s->lab.a);
    send_guest(&s->lab, &first6);
    s->last_out = expect_outside(s->lab.a); // and the router's MACs are known
    s->last_in = udp(4, P, 9, via(G, GUEST_MAC), 9, 10);
    s->seed = 82;
    s->epoch = 10;
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    check_conservation(s->lab.a);
    fake_destroy(s->lab.a);
    free(s);
    return 0;
}

// ---- what must not change

struct memory {
    uint8_t bytes[1 << 16];
    size_t n;
};

static void remember(struct memory *m, const void *bytes, size_t n)
{
    assert_true(m->n + n <= sizeof(m->bytes));
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

// Behind what the API shows: slices, rate of local ICMP, table sizes, neighbours.
static void remember_node(struct memory *m, struct node *n)
{
    m->n = 0;
    uint32_t sizes[] = {conn_count(n->connections), flow_table_count(n->flows),   n->last_generation,
                        n->tables.outside_version,  n->tables.mapping_map.linked, n->tables.external_map.linked};
    remember(m, sizes, sizeof(sizes));
    for (uint32_t i = 1; i < n->config.max_ports; i++) {
        struct port *p = &n->ports[i];
        remember(m, &p->icmp, sizeof(p->icmp));
        remember(m, &p->generation, sizeof(p->generation));
        remember(m, &p->snat.exhausted, sizeof(p->snat.exhausted));
        for (unsigned k = 0; k < SNAT_SLICES; k++) {
            struct snat_slice *slice = p->snat.slice[k];
            if (!slice)
                continue;
            remember(m, slice, sizeof(*slice));
            for (unsigned x = 0; x < SNAT_PROTOCOLS; x++)
                remember(m, slice->taken[x], (slice->last - slice->first + 64u) / 64 * 8);
        }
    }
    for (uint32_t i = 1; i <= n->config.max_connections; i++) {
        const struct conn *k = conn_get(n->connections, i);
        if (k->live && m->n + sizeof(*k) < sizeof(m->bytes))
            remember(m, k, sizeof(*k));
    }
}

// ---- packets of all kinds

static struct end someone(struct scene *s)
{
    const struct end ends[] = {P,
                               P,
                               Q,
                               OUTSIDE,
                               OUTSIDE,
                               FLOATING,
                               FLOATING_2,
                               SHARED,
                               OUTSIDE,
                               {GATEWAY_MAC, "10.0.0.1", "fd00::1"},
                               {GATEWAY_MAC, "10.0.0.99", "fd00::99"},
                               {GATEWAY_MAC, "203.0.113.200", "2001:db8:9::200"},
                               {GATEWAY_MAC, "169.254.169.254", "fd00:ec2::254"}};
    return ends[draw(s, ARRAY_LEN(ends))];
}

static struct frame any_packet(struct scene *s, int family, struct end src, struct end dst)
{
    static const uint8_t flags[] = {TCP_SYN,           TCP_SYN,           TCP_ACK,           TCP_SYN | TCP_ACK,
                                    TCP_ACK | TCP_FIN, TCP_RST | TCP_ACK, TCP_ACK | TCP_PSH, TCP_RST};
    static const uint16_t ports[] = {22, 25, 53, 80, 443, 40000, 40001, 9};
    uint16_t sport = ports[draw(s, 8)], dport = ports[draw(s, 8)];
    switch (draw(s, 9)) {
    case 0:
    case 1:
    case 2: {
        uint8_t f = flags[draw(s, ARRAY_LEN(flags))];
        return tcp(family, src, sport, dst, dport, f, 100 + draw(s, 3), f & TCP_ACK ? 100 + draw(s, 3) : 0,
                   draw(s, 20));
    }
    case 3:
    case 4:
    case 5:
        return udp(family, src, sport, dst, dport, draw(s, 4) ? 40 : 1420);
    case 6:
        return icmp_echo(family, src, dst, draw(s, 3) == 0, 7, 1, 20);
    case 7:
        return icmp(family, src, dst, family == 4 ? 13 : 3, 0);
    default:
        return other(family, src, dst, 47, 40);
    }
}

static struct frame next_packet(struct scene *s, uint8_t *dir)
{
    int family = draw(s, 2) ? 4 : 6;
    struct frame f;
    *dir = draw(s, 5) < 3 ? FLOW_OUT : FLOW_IN;
    switch (draw(s, 12)) {
    case 0:
        *dir = FLOW_OUT;
        return arp_request(GUEST_MAC, "10.0.0.3", draw(s, 2) ? "10.0.0.1" : "10.0.0.3");
    case 1: // an answer to what was sent last, or one that is not
        f = reply_to(&s->last_in, TCP_ACK);
        frame_set_mac(&f, GATEWAY_MAC, GUEST_MAC);
        *dir = FLOW_OUT;
        break;
    case 2: { // an error about what came in last
        struct frame about = s->last_in;
        bool v4 = about.bytes[14] >> 4 == 4;
        f = error_about(v4 ? 4 : 6, G, view_of(&about).src, &about, 60, v4 ? 3 : 1, v4 ? 3 : 4);
        frame_set_mac(&f, GATEWAY_MAC, GUEST_MAC);
        *dir = FLOW_OUT;
        break;
    }
    case 3: { // an error from a peer about what went out last: only those within the VPC
        struct frame about = s->last_out;
        bool v4 = about.bytes[14] >> 4 == 4;
        f = error_about(v4 ? 4 : 6, P, view_of(&about).src, &about, 60, v4 ? 3 : 1, v4 ? 3 : 4);
        frame_set_mac(&f, GUEST_MAC, PEER_MAC);
        *dir = FLOW_IN;
        break;
    }
    case 4:
        f = reply_to(&s->last_out, TCP_SYN | TCP_ACK);
        frame_set_mac(&f, GUEST_MAC, PEER_MAC);
        *dir = FLOW_IN;
        break;
    case 5:
    case 6:
        if (s->before.len) { // the same again
            *dir = s->dir_before;
            return s->before;
        }
        // fall through
    default:
        f = *dir == FLOW_OUT ? any_packet(s, family, draw(s, 20) ? G : Q, via(someone(s), GATEWAY_MAC))
                             : any_packet(s, family, via(someone(s), PEER_MAC), draw(s, 20) ? G : P);
        if (*dir == FLOW_IN)
            frame_set_mac(&f, GUEST_MAC, PEER_MAC);
        else if (draw(s, 20))
            frame_set_mac(&f, GATEWAY_MAC, GUEST_MAC);
    }
    bool v4 = f.bytes[14] >> 4 == 4;
    if (draw(s, 20) == 0) { // hop limit 1
        f.bytes[14 + (v4 ? 8 : 7)] = 1;
        frame_fix(&f);
    }
    if (v4 && draw(s, 30) == 0) { // a fragment
        f.bytes[14 + 6] = 0x20;
        frame_fix(&f);
    }
    if (draw(s, 30) == 0)
        f.len -= 1 + draw(s, f.len - 20);
    return f;
}

// Things happen between packets, so that flows go stale in every way.
static void change(struct scene *s)
{
    struct fake *a = s->lab.a;
    const struct ip_addr nodes[] = {NODE_B, NODE_C};
    struct node_error e;
    switch (draw(s, 40)) {
    case 0:
        s->lab.guest.rules[0].action ^= 1;
        put(a, &s->lab.guest);
        break;
    case 1:
        s->lab.guest.b.firewall.default_out_allow = !s->lab.guest.b.firewall.default_out_allow;
        put(a, &s->lab.guest);
        break;
    case 2:
        s->lab.guest.b.firewall.tcp_strict = !s->lab.guest.b.firewall.tcp_strict;
        put(a, &s->lab.guest);
        break;
    case 3:
        s->lab.guest.b.nat.n_floating ^= 1;
        put(a, &s->lab.guest);
        break;
    case 4:
        s->lab.guest.b.firewall.established_keep = !s->lab.guest.b.firewall.established_keep;
        put(a, &s->lab.guest);
        break;
    case 5:
    case 6:
        EACH_FAMILY(family)
        map(a, 100, address_of(P, family), PEER_MAC, nodes[draw(s, 2)], s->epoch);
        s->epoch++;
        break;
    case 7:
        EACH_FAMILY(family)
        unmap(a, 100, address_of(P, family), s->epoch);
        s->epoch++;
        break;
    case 8:
        serve(a, s->epoch++, draw(s, 2), &NODE_A);
        break;
    case 9:
        s->other.rules[0].action ^= 1;
        put(a, &s->other);
        break;
    case 10:
        fake_advance(a, draw(s, 60000));
        break;
    case 11: // few flows at a time: the whole state is compared for each packet
        if (draw(s, 10) == 0)
            assert_true(node_port_act(a->node, &s->lab.guest.b.port, NODE_PORT_RESET, &e));
        break;
    }
    fake_advance(a, 40); // the rate of local answers is no packet's fate here
    fake_quiesce(a);
    for (const struct fake_call *c; (c = fake_next(a));)
        answer_question(a, c); // the next hops of the packet before
}

// ---- the same end

static uint64_t count_drops(struct fake *a, struct scene *s, enum drop reason)
{
    return drops(a, s->lab.g, 0, reason) + drops(a, s->lab.g, 1, reason) + drops(a, s->q, 0, reason) +
           drops(a, s->q, 1, reason) + drops(a, 0, 0, reason);
}

static const char *what_became(const struct fake_call *c)
{
    static const char *const words[] = {
        [FAKE_DELIVER] = "delivered", [FAKE_UNDERLAY] = "sent", [FAKE_EXTERNAL] = "sent", [FAKE_SERVICE] = "consumed"};
    return words[c->kind];
}

static void expect_told(struct scene *s, const struct trace *t, const struct fake_call *c, const uint64_t before[])
{
    struct fake *a = s->lab.a;
    for (int r = 1; r < DROP_COUNT; r++) {
        uint64_t more = count_drops(a, s, (enum drop)r) - before[r];
        if (more != (t->reason == (enum drop)r)) {
            for (unsigned i = 0; i < t->log.n; i++)
                print_message("  %s %s %s\n", t->log.steps[i].layer, t->log.steps[i].result, t->log.steps[i].detail);
            fail_msg("%lu dropped as %s; the trace says %s, %s", more, drop_name(r), t->verdict, drop_name(t->reason));
        }
    }
    if (t->reason != DROP_NONE) {
        assert_string_equal(t->verdict, "dropped");
        return;
    }
    assert_non_null(c);
    if (strcmp(t->verdict, "answered") == 0) {
        assert_int_equal(c->kind, FAKE_DELIVER);
        return;
    }
    assert_string_equal(what_became(c), t->verdict);
    if (c->kind == FAKE_UNDERLAY)
        assert_memory_equal(c->node.b, t->tunnel.b, 16);
}

// The transposition that the trace shows, applied by hand, makes the frame that left.
static void expect_shown(const struct trace *t, const struct frame *sent, const struct fake_call *c)
{
    uint8_t memory[PACKET_HEADROOM + PACKET_MIN_ROOM];
    struct packet p = {.data = memory + PACKET_HEADROOM,
                       .len = sent->len,
                       .head = sent->len,
                       .room = PACKET_MIN_ROOM,
                       .headroom = PACKET_HEADROOM};
    struct parsed pp;
    memcpy(p.data, sent->bytes, sent->len);
    bool one_pass = t->xp.to == XP_TO_TUNNEL || t->xp.to == XP_TO_GUEST || t->xp.to == XP_TO_SERVICE;
    if (t->reason != DROP_NONE || !one_pass || strcmp(t->verdict, "answered") == 0 || parse_frame(&p, &pp) ||
        (pp.flags & PARSE_ICMP_ERROR))
        return;
    transposition_apply(&t->xp, &p, &pp, 1390);
    uint32_t skip = c->kind == FAKE_UNDERLAY ? GENEVE_ENCAP_LEN : 0;
    assert_int_equal(c->len - skip, p.len);
    assert_memory_equal(c->frame + skip, p.data, p.len);
}

static void t82_random(void **state)
{
    struct scene *s = *state;
    struct fake *a = s->lab.a;
    static struct memory was, is;
    unsigned reasons[DROP_COUNT] = {0}, hits = 0, told = 0;
    for (unsigned i = 0; i < 4000; i++) {
        struct trace t;
        struct node_error e;
        uint8_t dir;
        uint64_t before[DROP_COUNT];
        const struct ip_addr from = NODE_B;
        change(s);
        struct frame f = next_packet(s, &dir);
        if (load_be16(f.bytes + 12) == ETHERTYPE_IPV4 && f.len > 14 + 1430) { // without DF it would leave in pieces
            f.bytes[20] |= 0x40;
            checksum_write_ip4(f.bytes + 14);
        }
        s->before = f;
        s->dir_before = dir;
        uint64_t random = a->random_state;
        char *state_before = whole_state(a);
        remember_node(&was, a->node);
        unsigned calls = a->n_calls;
        assert_true(node_trace(a->node, s->lab.g, dir, &from, f.bytes, f.len, a->now, &t, &e));
        assert_int_equal(a->n_calls, calls);
        expect_state(a, state_before);
        free(state_before);
        remember_node(&is, a->node);
        assert_int_equal(was.n, is.n);
        assert_memory_equal(was.bytes, is.bytes, was.n);
        a->random_state = random;

        for (int r = 0; r < DROP_COUNT; r++)
            before[r] = count_drops(a, s, (enum drop)r);
        if (dir == FLOW_OUT)
            send_guest(&s->lab, &f);
        else
            receive_vpc(&s->lab, &f);
        const struct fake_call *c = fake_next(a);
        expect_told(s, &t, c, before);
        if (c)
            expect_shown(&t, &f, c);
        reasons[t.reason]++;
        hits += t.hit;
        told += t.reason == DROP_NONE;
        if (c && c->kind == FAKE_UNDERLAY && c->len < 2000) {
            s->last_out = (struct frame){.len = c->len - GENEVE_ENCAP_LEN};
            memcpy(s->last_out.bytes, c->frame + GENEVE_ENCAP_LEN, s->last_out.len);
        } else if (c && c->kind == FAKE_DELIVER && dir == FLOW_IN) {
            s->last_in = (struct frame){.len = c->len};
            memcpy(s->last_in.bytes, c->frame, c->len);
        }
        if (c)
            answer_question(a, c);
    }
    if (hits < 300 || told < 1000)
        fail_msg("only %u of the packets were hits, %u passed: the scene is too small", hits, told);
    const enum drop expected[] = {DROP_FIREWALL_DENY, DROP_FIREWALL_REJECT, DROP_POSTURE_DENY,   DROP_REVALIDATE_DENY,
                                  DROP_TTL_EXPIRED,   DROP_NO_MAPPING,      DROP_NAT_REVOKED,    DROP_SNAT_EXHAUSTED,
                                  DROP_TCP_STRICT,    DROP_ICMP_UNRELATED,  DROP_TRUNCATED,      DROP_SPOOF_IP,
                                  DROP_NO_EDGE,       DROP_BAD_VTEP,        DROP_NO_EXTERNAL_IP, DROP_WRONG_DST};
    for (unsigned i = 0; i < ARRAY_LEN(expected); i++)
        if (reasons[expected[i]] == 0)
            fail_msg("no packet was dropped as %s: the scene is too small", drop_name(expected[i]));
}

static const struct trace_step *step(const struct trace *t, const char *layer)
{
    for (unsigned i = 0; i < t->log.n; i++)
        if (strcmp(t->log.steps[i].layer, layer) == 0)
            return &t->log.steps[i];
    fail_msg("the trace does not mention %s", layer);
    return NULL;
}

static void t82_words(void **state)
{
    struct scene *s = *state;
    struct fake *a = s->lab.a;
    struct trace t;
    struct node_error e;
    struct frame f = udp(4, G, 1000, via(OUTSIDE, GATEWAY_MAC), 53, 10);
    assert_true(node_trace(a->node, s->lab.g, FLOW_OUT, NULL, f.bytes, f.len, a->now, &t, &e));
    const char *const layers[] = {"gateway", "posture", "firewall", "router", "nat", "overlay"};
    assert_int_equal(t.log.n, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(t.log.steps[i].layer, layers[i]);
    assert_non_null(strstr(step(&t, "firewall")->detail, "default-out"));
    assert_non_null(strstr(step(&t, "nat")->detail, FLOATING.v4));
    assert_int_equal(t.xp.to, XP_TO_EXTERNAL);
    assert_false(t.hit);
    send_guest(&s->lab, &f);
    expect_outside(a);
    assert_true(node_trace(a->node, s->lab.g, FLOW_OUT, NULL, f.bytes, f.len, a->now, &t, &e));
    assert_true(t.hit);
    f = tcp(4, G, 1000, via(P, GATEWAY_MAC), 25, TCP_SYN, 1, 0, 0);
    assert_true(node_trace(a->node, s->lab.g, FLOW_OUT, NULL, f.bytes, f.len, a->now, &t, &e));
    assert_non_null(strstr(step(&t, "firewall")->detail, "no-smtp"));
    assert_string_equal(step(&t, "firewall")->result, "reject");
    // To a port of this node: through both firewalls.
    f = tcp(4, G, 1000, via(Q, GATEWAY_MAC), 80, TCP_SYN, 1, 0, 0);
    assert_true(node_trace(a->node, s->lab.g, FLOW_OUT, NULL, f.bytes, f.len, a->now, &t, &e));
    assert_int_equal(t.reason, DROP_FIREWALL_DENY);
    assert_string_equal(t.log.steps[t.log.n - 1].result, "drop");
    assert_non_null(strstr(t.log.steps[t.log.n - 1].detail, "default-in"));
    assert_int_equal(t.xp.to, XP_TO_PORT);
    // Errors of the call itself.
    assert_false(node_trace(a->node, 15, FLOW_OUT, NULL, f.bytes, f.len, a->now, &t, &e));
    assert_int_equal(e.code, NODE_NOT_FOUND);
    static const uint8_t huge[4096];
    assert_false(node_trace(a->node, s->lab.g, FLOW_OUT, NULL, huge, sizeof(huge), a->now, &t, &e));
    assert_int_equal(e.code, NODE_INVALID);
}

#define SCENE(text, fn) \
    { \
        text, fn, setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE("T82 a trace tells the real packet's end, and nothing has changed", t82_random),
        SCENE("T82 a trace names layers, rules and translations", t82_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
