// SPDX-License-Identifier: MPL-2.0
#include "tests/behaviour/outside.h"

const struct mac_addr LINK_MAC = MAC_OF(0xe1), ROUTER_MAC = MAC_OF(0xe2);
const struct end FLOATING = {MAC_OF(1), "198.51.100.3", "2001:db8:e::3"};
const struct end FLOATING_2 = {MAC_OF(1), "198.51.100.4", "2001:db8:e::4"};
const struct end SHARED = {MAC_OF(1), "198.51.100.2", "2001:db8:e::2"};
const struct end Q = {MAC_OF(5), "10.0.0.5", "fd00::5"};

#define V4(host) \
    { \
        .b = { [10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = host } \
    }
#define V6(host) \
    { \
        .b = { 0x20, 0x01, 0x0d, 0xb8, 0, 0x0e, [15] = host } \
    }
const struct node_external_link LINK = {.mac = MAC_OF(0xe1),
                                        .prefix4 = {.addr = V4(0), .len = 120},
                                        .prefix6 = {.addr = V6(0), .len = 64},
                                        .gateway4 = V4(1),
                                        .gateway6 = V6(1),
                                        .mtu = 1500};

const char *address_of(struct end e, int family)
{
    return family == 4 ? e.v4 : e.v6;
}

struct node_config edge_config(struct ip_addr self)
{
    struct node_config c = lab_config(self);
    c.external = &LINK;
    c.n_external = 1;
    return c;
}

void serve(struct fake *f, uint64_t epoch, unsigned n, const struct ip_addr nodes[])
{
    EACH_FAMILY(family)
    {
        struct edge_set s = {.prefix = family == 4 ? LINK.prefix4 : LINK.prefix6,
                             .nodes = (struct ip_addr *)nodes,
                             .n_nodes = n,
                             .epoch = epoch};
        struct node_error e;
        if (!node_edge_set_put(f->node, &s, &e))
            fail_msg("edge set refused: %s", e.text);
    }
    fake_quiesce(f);
}

void map_external(struct fake *f, struct end end, uint16_t first, uint16_t last, struct ip_addr node, uint64_t epoch)
{
    EACH_FAMILY(family)
    {
        struct external_mapping m = {.address = ip(address_of(end, family)),
                                     .protocol = PROTOCOL_ANY,
                                     .ports = {first, last},
                                     .node = node,
                                     .epoch = epoch};
        struct node_error e;
        if (!node_external_mapping_put(f->node, &m, &e))
            fail_msg("external mapping refused: %s", e.text);
    }
    fake_quiesce(f);
}

int edge_setup(void **state)
{
    struct lab *l = calloc(1, sizeof(*l));
    struct node_config c = edge_config(NODE_A);
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    draft_guest(&l->guest);
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    serve(l->a, 1, 1, &NODE_A);
    fake_forget(l->a);
    *state = l;
    return 0;
}

void give_floating(struct draft *d, struct end external, struct end internal)
{
    EACH_FAMILY(family)
    draft_floating(d, address_of(external, family), address_of(internal, family));
}

void give_snat(struct draft *d, struct end external, uint16_t first, uint16_t last)
{
    EACH_FAMILY(family)
    draft_snat(d, address_of(external, family), first, last);
}

void allow_all_in(struct draft *d)
{
    d->b.firewall.default_in_allow = true;
}

// ---- reading and making packets

static uint8_t *l4_at(struct frame *f)
{
    return f->bytes + 14 + (f->bytes[14] >> 4 == 4 ? 20 : 40);
}

struct view view_of(struct frame *f)
{
    struct view v = {.l3 = f->bytes + 14, .l4 = l4_at(f)};
    bool v4 = v.l3[0] >> 4 == 4;
    v.src = v4 ? ip_from_v4(v.l3 + 12) : ip_from_v6(v.l3 + 8);
    v.dst = v4 ? ip_from_v4(v.l3 + 16) : ip_from_v6(v.l3 + 24);
    v.protocol = v4 ? v.l3[9] : v.l3[6];
    v.ttl = v4 ? v.l3[8] : v.l3[7];
    bool icmp = v.protocol == IPPROTO_ICMP4 || v.protocol == IPPROTO_ICMP6;
    v.sport = load_be16(v.l4 + (icmp ? 4 : 0));
    v.dport = load_be16(v.l4 + (icmp ? 4 : 2));
    return v;
}

bool goes(struct frame *f, int family, struct end src, struct end dst)
{
    struct view v = view_of(f);
    struct ip_addr from = ip(address_of(src, family)), to = ip(address_of(dst, family));
    return ip_equal(&v.src, &from) && ip_equal(&v.dst, &to) && frame_checksums_right(f->bytes, f->len);
}

static void swap(uint8_t *a, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t was = a[i];
        a[i] = b[i];
        b[i] = was;
    }
}

struct frame reply_to(const struct frame *f, uint8_t tcp_flags)
{
    struct frame r = *f;
    struct view v = view_of(&r);
    bool v4 = v.l3[0] >> 4 == 4;
    swap(r.bytes, r.bytes + 6, 6);
    swap(v.l3 + (v4 ? 12 : 8), v.l3 + (v4 ? 16 : 24), v4 ? 4 : 16);
    v.l3[v4 ? 8 : 7] = 64;
    if (v.protocol == IPPROTO_ICMP4)
        v.l4[0] = v.l4[0] == 8 ? 0 : 8;
    else if (v.protocol == IPPROTO_ICMP6)
        v.l4[0] = v.l4[0] == 128 ? 129 : 128;
    else
        swap(v.l4, v.l4 + 2, 2);
    if (v.protocol == IPPROTO_TCP4) {
        uint32_t seq = load_be32(v.l4 + 4), ack = load_be32(v.l4 + 8);
        store_be32(v.l4 + 4, ack);
        store_be32(v.l4 + 8, seq + ((v.l4[13] & (TCP_SYN | TCP_FIN)) ? 1 : 0));
        v.l4[13] = tcp_flags;
    }
    frame_fix(&r);
    return r;
}

struct frame error_about(int family, struct end from, struct ip_addr to, const struct frame *sent, uint32_t quoted,
                         uint8_t type, uint8_t code)
{
    struct frame f = icmp(family, from, OUTSIDE, type, code);
    struct view v = view_of(&f);
    if (quoted > sent->len - 14)
        quoted = sent->len - 14;
    memcpy(v.l3 + (family == 4 ? 16 : 24), to.b + (family == 4 ? 12 : 0), family == 4 ? 4 : 16);
    memcpy(v.l4 + 8, sent->bytes + 14, quoted);
    f.len = (uint32_t)(v.l4 - f.bytes) + 8 + quoted;
    if (family == 4)
        store_be16(v.l3 + 2, (uint16_t)(f.len - 14));
    else
        store_be16(v.l3 + 4, (uint16_t)(8 + quoted));
    frame_fix(&f);
    return f;
}

struct frame start(uint8_t protocol, int family, struct end src, uint16_t sport, struct end dst, uint16_t dport)
{
    switch (protocol) {
    case IPPROTO_TCP4:
        return tcp(family, src, sport, dst, dport, TCP_SYN, 1000, 0, 0);
    case IPPROTO_UDP4:
        return udp(family, src, sport, dst, dport, 33);
    default:
        return icmp_echo(family, src, dst, false, sport, 1, 33);
    }
}

// ---- what came

static struct frame frame_of(const struct fake_call *c, uint32_t skip)
{
    struct frame f = {.len = c->len - skip};
    assert_true(f.len <= sizeof(f.bytes));
    memcpy(f.bytes, c->frame + skip, f.len);
    return f;
}

static bool is_arp_question(const struct fake_call *c)
{
    return c->len == 42 && load_be16(c->frame + 12) == ETHERTYPE_ARP && load_be16(c->frame + 20) == 1;
}

static bool is_solicitation(const struct fake_call *c)
{
    return c->len == 86 && load_be16(c->frame + 12) == ETHERTYPE_IPV6 && c->frame[20] == IPPROTO_ICMP6 &&
           c->frame[54] == 135;
}

bool answer_question(struct fake *f, const struct fake_call *c)
{
    if (c->kind != FAKE_EXTERNAL || (!is_arp_question(c) && !is_solicitation(c)))
        return false;
    struct frame q = frame_of(c, 0);
    struct view v;
    memcpy(q.bytes, LINK_MAC.b, 6);
    memcpy(q.bytes + 6, ROUTER_MAC.b, 6);
    if (is_arp_question(c)) {
        store_be16(q.bytes + 20, 2);
        swap(q.bytes + 22, q.bytes + 32, 10);
        memcpy(q.bytes + 22, ROUTER_MAC.b, 6);
    } else {
        v = view_of(&q);
        memcpy(v.l3 + 24, v.l3 + 8, 16);
        memcpy(v.l3 + 8, v.l4 + 8, 16);
        v.l4[0] = 136;
        v.l4[4] = 0x60;
        v.l4[24] = 2;
        memcpy(v.l4 + 26, ROUTER_MAC.b, 6);
        frame_fix(&q);
    }
    fake_external(f, c->where, q.bytes, q.len);
    return true;
}

struct frame expect_outside(struct fake *f)
{
    const struct fake_call *c = fake_next(f);
    while (c && answer_question(f, c))
        c = fake_next(f);
    if (!c || c->kind != FAKE_EXTERNAL)
        fail_msg("expected a packet to be sent outside, got %s", c ? "another" : "none");
    struct frame frame = frame_of(c, 0);
    expect_nothing(f);
    assert_memory_equal(frame.bytes, ROUTER_MAC.b, 6);
    assert_memory_equal(frame.bytes + 6, LINK_MAC.b, 6);
    return frame;
}

struct frame expect_at(struct fake *f, uint32_t port)
{
    return frame_of(expect_deliver(f, port), 0);
}

struct frame expect_carried(struct fake *f, struct ip_addr node, uint32_t vni)
{
    const struct fake_call *c = expect_underlay(f, node);
    assert_int_equal(load_be32(c->frame + 66) >> 8, vni);
    return frame_of(c, GENEVE_ENCAP_LEN);
}

void send_from(struct fake *f, uint32_t port, const struct frame *frame)
{
    fake_guest(f, port, frame->bytes, frame->len);
}

void from_outside(struct fake *f, const struct frame *frame)
{
    struct frame copy = *frame;
    frame_set_mac(&copy, LINK_MAC, ROUTER_MAC);
    fake_external(f, 0, copy.bytes, copy.len);
}

uint64_t outside_drops(struct fake *f, enum drop reason)
{
    struct node_counters n;
    node_counters(f->node, &n);
    return n.external_drops[reason];
}

// Place 63 of the spent drops is the edge's own: no test node has so many ports.
void expect_outside_drop(struct fake *f, enum drop reason)
{
    expect_nothing(f);
    uint64_t *spent = &f->spent_drops[63][0][reason];
    assert_int_equal(outside_drops(f, reason), *spent + 1);
    ++*spent;
}
