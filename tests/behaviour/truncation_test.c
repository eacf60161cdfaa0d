// SPDX-License-Identifier: MPL-2.0
// T71: every packet cut at every place. Whatever is left, it ends once, counted; and what lies in memory behind its
// end has no say in it.
#include <stdio.h>

#include "tests/behaviour/lab.h"

#define CUTS 121
#define BASES 48

struct base {
    const char *name, *whole; // whole: what becomes of `out` uncut
    struct frame out, in;     // in: len 0 where it makes no sense
};

struct bases {
    struct base list[BASES];
    unsigned n;
};

#define SENT "sent 1 answered 0 generated 0 flows 1"
#define PASSED_ON "sent 1 answered 0 generated 0 flows 0"
#define ANSWERED "sent 0 answered 1 generated 1 flows 0"
#define CONSUMED "sent 0 answered 0 generated 0 flows 1"
#define EXPIRED "ttl-expired sent 0 answered 0 generated 1 flows 1"
#define ORPHAN "fragment-orphan sent 0 answered 0 generated 0 flows 0"

static const struct end GW = {MAC_OF(1), "10.0.0.1", "fd00::1"};
static const struct end BEYOND = {MAC_OF(9), "10.0.9.9", "fd00:0:0:9::9"};
static const struct end METADATA = {MAC_OF(1), "169.254.169.254", "fd00:ec2::254"};
static const struct end ALL = {{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, "255.255.255.255", "ff02::1:2"};
static const struct end NOBODY = {MAC_OF(3), "0.0.0.0", "fe80::3"};

static void add(struct bases *b, const char *name, const char *whole, struct frame out, struct frame in)
{
    assert_true(b->n < BASES);
    b->list[b->n++] = (struct base){name, whole, out, in};
}

static struct frame insert(struct frame f, const void *bytes, uint32_t n, uint8_t first)
{
    bool v4 = f.bytes[14] >> 4 == 4;
    uint32_t at = v4 ? 34 : 54;
    memmove(f.bytes + at + n, f.bytes + at, f.len - at);
    memcpy(f.bytes + at, bytes, n);
    f.len += n;
    if (v4) {
        f.bytes[14] = (uint8_t)(0x40 | (20 + n) / 4);
        store_be16(f.bytes + 16, (uint16_t)(f.len - 14));
        checksum_write_ip4(f.bytes + 14);
    } else {
        f.bytes[20] = first;
        store_be16(f.bytes + 18, (uint16_t)(f.len - 54));
    }
    return f;
}

static struct frame tcp_with_options(struct frame f)
{
    uint8_t *l4 = f.bytes + (f.bytes[14] >> 4 == 4 ? 34 : 54);
    l4[12] = 0xa0;
    memcpy(l4 + 20, (uint8_t[]){2, 4, 35, 0, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0}, 20);
    frame_fix(&f);
    return f;
}

static struct frame quoting(int family, struct end from, struct end to, const struct frame *quoted)
{
    struct frame f = icmp(family, from, to, family == 4 ? 3 : 1, family == 4 ? 3 : 4);
    uint32_t l4 = family == 4 ? 34 : 54;
    memcpy(f.bytes + l4 + 8, quoted->bytes + 14, quoted->len - 14);
    f.len = l4 + 8 + quoted->len - 14;
    store_be16(f.bytes + (family == 4 ? 16 : 18), (uint16_t)(f.len - (family == 4 ? 14 : 54)));
    frame_fix(&f);
    return f;
}

static struct frame dhcp4(void)
{
    struct frame f = udp(4, NOBODY, 68, ALL, 67, 260);
    uint8_t *m = f.bytes + 42;
    memset(m, 0, 260);
    memcpy(m, (uint8_t[]){1, 1, 6, 0, 1, 2, 3, 4}, 8);
    memcpy(m + 28, GUEST_MAC.b, 6);
    memcpy(m + 236, (uint8_t[]){0x63, 0x82, 0x53, 0x63, 53, 1, 1, 55, 3, 1, 3, 121, 255}, 13);
    frame_fix(&f);
    return f;
}

static struct frame dhcp6(void)
{
    struct frame f = udp(6, NOBODY, 546, ALL, 547, 4 + 14 + 16);
    frame_set_mac(&f, mac("33:33:00:01:00:02"), GUEST_MAC);
    memcpy(f.bytes + 62, (uint8_t[]){1, 0xaa, 0xbb, 0xcc, 0,  1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0,
                                     3, 0,    3,    0,    12, 0, 0, 0,  1, 0, 0, 0, 0, 0, 0, 0, 0},
           34);
    frame_fix(&f);
    return f;
}

static struct frame solicit(uint8_t type)
{
    const struct end to = {{{0x33, 0x33, 0, 0, 0, 2}}, NULL, "ff02::2"};
    struct frame f = icmp(6, NOBODY, to, type, 0);
    uint8_t *m = f.bytes + 54;
    f.bytes[21] = 255;
    memset(m + 4, 0, 36);
    uint32_t n = type == 133 ? 8 : 24;
    if (type == 135)
        memcpy(m + 8, ip("fd00::1").b, 16);
    memcpy(m + n, (uint8_t[]){1, 1, 2, 0, 0, 0, 0, 3}, 8);
    f.len = 54 + n + 8;
    store_be16(f.bytes + 18, (uint16_t)(n + 8));
    frame_fix(&f);
    return f;
}

static void add_family(struct bases *b, int family)
{
    struct end to = via(P, GATEWAY_MAC);
    struct frame none = {0}, out = udp(family, G, 1000, to, 53, 104), in = udp(family, P, 53, G, 1000, 104);
    struct frame fragment = out, later = out;
    add(b, "UDP", SENT, out, in);
    add(b, "TCP", SENT, tcp(family, G, 1000, to, 80, TCP_ACK, 1, 1, 100),
        tcp(family, P, 80, G, 1000, TCP_ACK, 1, 1, 100));
    add(b, "SYN with options", SENT, tcp_with_options(tcp(family, G, 1000, to, 80, TCP_SYN, 1, 0, 40)),
        tcp_with_options(tcp(family, P, 80, G, 1000, TCP_SYN, 1, 0, 40)));
    add(b, "reset", PASSED_ON, tcp(family, G, 1000, to, 80, TCP_RST, 1, 0, 0),
        tcp(family, P, 80, G, 1000, TCP_RST, 1, 1, 0));
    add(b, "echo", SENT, icmp_echo(family, G, to, false, 1, 1, 100), icmp_echo(family, P, G, false, 1, 1, 100));
    add(b, "echo to the gateway", ANSWERED, icmp_echo(family, G, GW, false, 1, 1, 100), none);
    add(b, "SCTP", SENT, other(family, G, to, 132, 100), other(family, P, G, 132, 100));
    add(b, "ESP", SENT, other(family, G, to, 50, 100), other(family, P, G, 50, 100));
    add(b, "metadata", CONSUMED, tcp(family, G, 1000, METADATA, 80, TCP_SYN, 1, 0, 40), none);
    add(b, "ICMP error", PASSED_ON, quoting(family, G, to, &in), quoting(family, P, G, &out));
    struct frame dying = udp(family, G, 1000, via(BEYOND, GATEWAY_MAC), 53, 100);
    dying.bytes[family == 4 ? 22 : 21] = 1;
    frame_fix(&dying);
    add(b, "TTL 1", EXPIRED, dying, none);
    if (family == 4) {
        fragment.bytes[20] = later.bytes[20] = 0x20;
        later.bytes[21] = 14;
        checksum_write_ip4(fragment.bytes + 14);
        checksum_write_ip4(later.bytes + 14);
        static const uint8_t options[] = {7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        add(b, "options", SENT, insert(out, options, 12, 0), insert(in, options, 12, 0));
    } else {
        fragment = insert(out, (uint8_t[]){17, 0, 0, 1, 0, 0, 0, 7}, 8, 44);
        later = insert(out, (uint8_t[]){17, 0, 0, 113, 0, 0, 0, 7}, 8, 44);
        static const uint8_t chain[] = {60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12, [16] = 0, [23] = 0};
        add(b, "chain", SENT, insert(out, chain, 24, 0), insert(in, chain, 24, 0));
    }
    add(b, "first fragment", SENT, fragment, none);
    add(b, "later fragment", ORPHAN, later, none); // its first has passed, and the connection was forgotten since
}

static struct bases *all_bases(void)
{
    struct bases *b = calloc(1, sizeof(*b));
    struct frame none = {0};
    struct frame arp = arp_request(GUEST_MAC, "10.0.0.3", "10.0.0.1");
    add(b, "ARP", ANSWERED, arp, arp);
    add(b, "DHCP", ANSWERED, dhcp4(), none);
    add(b, "DHCPv6", ANSWERED, dhcp6(), none);
    add(b, "router solicitation", ANSWERED, solicit(133), solicit(133));
    add(b, "neighbour solicitation", ANSWERED, solicit(135), solicit(135));
    add_family(b, 4);
    add_family(b, 6);
    for (unsigned i = 0; i < b->n; i++)
        if (b->list[i].in.len)
            frame_set_mac(&b->list[i].in, GUEST_MAC, PEER_MAC);
    return b;
}

struct outcome {
    char counters[160];
    struct frame sent[2];
    unsigned n;
};

static uint64_t total(const struct port_counters *now, const struct port_counters *had, int dir, uint64_t *received)
{
    uint64_t ends = now->sent[dir] - had->sent[dir] + now->answered[dir] - had->answered[dir] + now->consumed[dir] -
                    had->consumed[dir];
    for (int r = 0; r < DROP_COUNT; r++)
        ends += now->drops[dir][r] - had->drops[dir][r];
    *received = now->received[dir] - had->received[dir];
    return ends;
}

// ICMP errors quote a packet of this connection.
static void make_connection(struct lab *l, const char *name, int family)
{
    if (strcmp(name, "ICMP error") != 0)
        return;
    struct frame f = udp(family, G, 1000, via(P, GATEWAY_MAC), 53, 104);
    send_guest(l, &f);
    expect_underlay(l->a, NODE_B);
}

// One packet with a certain memory behind it; the port as new.
static void run(struct lab *l, const char *name, bool from_guest, const uint8_t *bytes, uint32_t len, int tail,
                struct outcome *o)
{
    struct node_error e;
    struct port_counters had, now;
    struct node_counters node_had, node_now;
    node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e);
    fake_quiesce(l->a);
    make_connection(l, name, bytes[from_guest ? 14 : 84] >> 4);
    l->a->now += 20000000; // the rate of local ICMP is not the matter here
    node_port_counters(l->a->node, l->g, &had);
    node_counters(l->a->node, &node_had);
    uint32_t flows_had = flows(l->a, l->g);

    struct packet *p = fake_packet(l->a, NULL, len);
    if (tail == 2) // as a longer packet before it would have left it
        memcpy(p->data, bytes, MIN(p->room, 600u));
    else
        memset(p->data, tail ? 0xff : 0, p->room);
    memcpy(p->data, bytes, len);
    if (from_guest) {
        node_receive_guest(l->a->node, 0, l->g, &p, 1, l->a->now);
    } else {
        p->csum = CSUM_VERIFIED;
        node_receive_underlay(l->a->node, 0, &p, 1, l->a->now);
    }

    node_port_counters(l->a->node, l->g, &now);
    node_counters(l->a->node, &node_now);
    memset(o, 0, sizeof(*o));
    uint64_t received[2], ends[2];
    for (int dir = 0; dir < 2; dir++)
        ends[dir] = total(&now, &had, dir, &received[dir]);
    uint64_t to_port = node_now.underlay_to_port - node_had.underlay_to_port, dropped = 0;
    int n = 0;
    for (int r = 0; r < DROP_COUNT; r++) {
        uint64_t node_drop = node_now.underlay_drops[r] - node_had.underlay_drops[r];
        uint64_t drop = now.drops[0][r] - had.drops[0][r] + now.drops[1][r] - had.drops[1][r];
        dropped += node_drop;
        if (node_drop + drop)
            n += snprintf(o->counters + n, sizeof(o->counters) - (size_t)n, "%s ", drop_name(r));
    }
    if (from_guest) {
        assert_true(received[COUNT_OUT] == 1 && ends[COUNT_OUT] == 1 && received[COUNT_IN] == 0);
    } else {
        assert_int_equal(to_port + dropped, 1);
        assert_true(received[COUNT_IN] == to_port && ends[COUNT_IN] == to_port && received[COUNT_OUT] == 0);
    }
    snprintf(o->counters + n, sizeof(o->counters) - (size_t)n, "sent %lu answered %lu generated %lu flows %u",
             now.sent[0] - had.sent[0] + now.sent[1] - had.sent[1], now.answered[0] - had.answered[0],
             now.generated[1] - had.generated[1], flows(l->a, l->g) - flows_had);
    for (const struct fake_call *c; (c = fake_next(l->a)) && o->n < 2; o->n++) {
        o->sent[o->n].len = c->len;
        memcpy(o->sent[o->n].bytes, c->frame, c->len);
    }
}

static void cut(struct lab *l, const struct base *base, uint32_t len)
{
    const char *name = base->name;
    const struct frame *f = &base->out;
    static struct outcome o[3];
    for (int tail = 0; tail < 3; tail++)
        run(l, name, true, f->bytes, len, tail, &o[tail]);
    for (int tail = 1; tail < 3; tail++) {
        if (strcmp(o[0].counters, o[tail].counters) != 0)
            fail_msg("%s cut at %u: '%s' or '%s', by what lies behind it", name, len, o[0].counters, o[tail].counters);
        for (unsigned i = 0; i < 2; i++) {
            if (o[0].sent[i].len != o[tail].sent[i].len ||
                memcmp(o[0].sent[i].bytes, o[tail].sent[i].bytes, o[0].sent[i].len) != 0)
                fail_msg("%s cut at %u: what lies behind it was sent", name, len);
        }
    }
    if (len < 14)
        assert_string_equal(o[0].counters, "truncated sent 0 answered 0 generated 0 flows 0");
    if (len == f->len && strcmp(o[0].counters, base->whole) != 0)
        fail_msg("%s, whole: '%s', not '%s'", name, o[0].counters, base->whole);
}

static void setup(struct lab *l)
{
    draft_rule(&l->guest, "in", 100, BLUEPRINT_IN, BLUEPRINT_ALLOW, PROTOCOL_ANY);
    put(l->a, &l->guest);
    map(l->a, 100, BEYOND.v4, BEYOND.mac, NODE_C, 1);
    map(l->a, 100, BEYOND.v6, BEYOND.mac, NODE_C, 1);
    fake_forget(l->a);
}

static void t71_from_guest(void **state)
{
    struct lab *l = *state;
    setup(l);
    struct bases *b = all_bases();
    for (unsigned i = 0; i < b->n; i++) {
        const struct base *base = &b->list[i];
        for (uint32_t len = 0; len < CUTS && len <= base->out.len; len++)
            cut(l, base, len);
        cut(l, base, base->out.len);
        check_conservation(l->a);
    }
    free(b);
}

// The inner packet is cut and wrapped whole.
static void t71_inner(void **state)
{
    struct lab *l = *state;
    setup(l);
    struct bases *b = all_bases();
    for (unsigned i = 0; i < b->n; i++) {
        const struct base *base = &b->list[i];
        for (uint32_t len = 0; base->in.len && len <= base->in.len; len += len < CUTS ? 1 : 17) {
            struct frame inner = base->in;
            inner.len = len;
            struct frame f = in_geneve(&inner, 100, NODE_B, NODE_A);
            static struct outcome o;
            run(l, base->name, false, f.bytes, f.len, 1, &o);
            run(l, base->name, false, f.bytes, f.len, 0, &o);
        }
    }
    check_conservation(l->a);
    free(b);
}

// The outer packet is cut: its lengths promise more than there is.
static void t71_outer(void **state)
{
    struct lab *l = *state;
    setup(l);
    struct bases *b = all_bases();
    for (unsigned i = 0; i < b->n; i++) {
        const struct base *base = &b->list[i];
        if (!base->in.len)
            continue;
        struct frame f = in_geneve(&base->in, 100, NODE_B, NODE_A);
        static struct outcome o[2];
        for (uint32_t len = 0; len < f.len && len < 70 + CUTS; len++) {
            for (int tail = 0; tail < 2; tail++)
                run(l, base->name, false, f.bytes, len, tail ? 2 : 0, &o[tail]);
            assert_string_equal(o[0].counters, "outer-invalid sent 0 answered 0 generated 0 flows 0");
            assert_string_equal(o[1].counters, o[0].counters);
        }
    }
    free(b);
}

// Geneve whose lengths agree with the cut: what is inside has to see for itself that it is short.
static void t71_agreeing(void **state)
{
    struct lab *l = *state;
    setup(l);
    struct bases *b = all_bases();
    for (unsigned i = 0; i < b->n; i++) {
        const struct base *base = &b->list[i];
        for (uint32_t len = 0; base->in.len && len < CUTS && len <= base->in.len; len++) {
            struct frame f = in_geneve(&base->in, 100, NODE_B, NODE_A);
            store_be16(f.bytes + 18, (uint16_t)(16 + len)); // bytes behind the UDP length are not the packet's
            store_be16(f.bytes + 58, (uint16_t)(16 + len));
            static struct outcome o[2];
            run(l, base->name, false, f.bytes, f.len, 0, &o[0]);
            run(l, base->name, false, f.bytes, 70 + len, 1, &o[1]);
            assert_string_equal(o[0].counters, o[1].counters);
            assert_int_equal(o[0].sent[0].len, o[1].sent[0].len);
            assert_memory_equal(o[0].sent[0].bytes, o[1].sent[0].bytes, o[0].sent[0].len ? o[0].sent[0].len : 1);
        }
    }
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T71 cut anywhere, from the guest", t71_from_guest),
        TEST("T71 cut anywhere, inside Geneve", t71_inner),
        TEST("T71 cut anywhere, Geneve itself", t71_outer),
        TEST("T71 cut with lengths that agree", t71_agreeing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
