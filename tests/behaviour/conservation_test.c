// SPDX-License-Identifier: MPL-2.0
// T81: whatever comes, from whichever side, while policy and mappings change: every packet is accounted for once,
// and packets one by one or in batches leave the same node behind.
#include <stdio.h>

#include "tests/behaviour/outside.h"

struct play {
    struct fake *f;
    bool batches;
    uint64_t random;
    unsigned worker;
    struct draft drafts[3]; // G, a neighbour, and G's twin in another VPC
    uint32_t port[3];
    bool there[3];
    uint64_t epoch;
    uint64_t control_drops; // not looked at; keeps put failures visible in the state
    struct frame frames[PLATFORM_BATCH];
    uint64_t offered[4]; // frames given to the node, by origin
    uint64_t at_no_port; // from the devices of removed ports
};

static uint32_t draw(struct play *p)
{
    p->random ^= p->random >> 12;
    p->random ^= p->random << 25;
    p->random ^= p->random >> 27;
    return (uint32_t)((p->random * 0x2545f4914f6cdd1dull) >> 32);
}

static uint32_t below(struct play *p, uint32_t n)
{
    return draw(p) % n;
}

static bool chance(struct play *p, uint32_t percent)
{
    return below(p, 100) < percent;
}

static const struct end ends[] = {
    {MAC_OF(3), "10.0.0.3", "fd00::3"},
    {MAC_OF(4), "10.0.0.4", "fd00::4"},
    {MAC_OF(5), "10.0.0.5", "fd00::5"},
    {MAC_OF(6), "10.0.0.6", "fd00::6"}, // never mapped
    {MAC_OF(9), "10.0.9.9", "fd00:0:0:9::9"},
    {MAC_OF(1), "10.0.0.1", "fd00::1"},
    {MAC_OF(1), "169.254.169.254", "fd00:ec2::254"},
    {MAC_OF(1), "203.0.113.9", "2001:db8:9::9"},
    {MAC_OF(1), "198.51.100.3", "2001:db8:e::3"},
    {MAC_OF(1), "198.51.100.2", "2001:db8:e::2"},
    {MAC_OF(1), "198.51.100.4", "2001:db8:e::4"},
    {MAC_OF(1), "100.64.0.1", "fd00:ec2:0:1::1"},
    {MAC_OF(1), "224.0.0.1", "ff02::1"},
    {MAC_OF(1), "10.0.0.100", "fd00::64"},         // a virtual IP, if it is one
    {MAC_OF(3), "192.0.2.10", "2001:db8:a:1::10"}, // in an external subnet, if it is attached
};
enum { ENDS = ARRAY_LEN(ends) };

static struct frame any_packet(struct play *p, struct end src, struct end dst)
{
    static const uint8_t flags[] = {TCP_SYN,           TCP_SYN | TCP_ACK, TCP_ACK,          TCP_ACK,
                                    TCP_ACK | TCP_FIN, TCP_RST,           TCP_RST | TCP_ACK};
    int family = chance(p, 50) ? 4 : 6;
    uint16_t sport = (uint16_t)(chance(p, 70) ? 1000 + below(p, 4) : 80),
             dport = (uint16_t)(chance(p, 70) ? 80 : 1000 + below(p, 4));
    uint32_t payload = chance(p, 90) ? below(p, 300) : below(p, 1600);
    switch (below(p, 8)) {
    case 0:
    case 1:
    case 2:
        return tcp(family, src, sport, dst, dport, flags[below(p, ARRAY_LEN(flags))], below(p, 4) * 100,
                   below(p, 4) * 100, payload);
    case 3:
    case 4:
        return udp(family, src, sport, dst, dport, payload);
    case 5:
        return icmp_echo(family, src, dst, chance(p, 50), (uint16_t)below(p, 4), 1, payload);
    case 6: {
        struct frame quoted = udp(family, dst, dport, src, sport, 30);
        struct frame f = icmp(family, src, dst, family == 4 ? 3 : 1, 3);
        uint32_t l4 = family == 4 ? 34 : 54;
        memcpy(f.bytes + l4 + 8, quoted.bytes + 14, MIN(quoted.len - 14, f.len - l4 - 8));
        frame_fix(&f);
        return f;
    }
    default:
        return other(family, src, dst, (uint8_t[]){50, 132, 2, 59}[below(p, 4)], payload + 12);
    }
}

// Mostly right, and sometimes damaged.
static struct frame damaged(struct play *p, struct frame f)
{
    if (chance(p, 5))
        f.bytes[f.bytes[14] >> 4 == 4 ? 22 : 21] = (uint8_t)below(p, 3);
    if (chance(p, 3))
        f.len = below(p, f.len + 1);
    if (chance(p, 5) && f.len)
        f.bytes[below(p, MIN(f.len, 100u))] ^= (uint8_t)(1u << below(p, 8));
    return f;
}

static struct frame from_guest(struct play *p, unsigned who)
{
    static const unsigned self[] = {0, 2, 0};
    struct end src = ends[self[who]], dst = ends[below(p, ENDS)];
    if (chance(p, 4))
        src = ends[below(p, ENDS)];
    if (chance(p, 3))
        return damaged(p, arp_request(src.mac, src.v4, dst.v4));
    return damaged(p, any_packet(p, src, via(dst, GATEWAY_MAC)));
}

static struct frame from_underlay(struct play *p)
{
    static const uint32_t vnis[] = {100, 100, 100, 200, 300, GENEVE_VNI_EDGE};
    const struct ip_addr nodes[] = {NODE_B, NODE_C, NODE_A};
    uint32_t vni = vnis[below(p, ARRAY_LEN(vnis))];
    struct end dst = ends[chance(p, 80) ? (chance(p, 50) ? 0 : 2) : below(p, ENDS)], src = ends[below(p, ENDS)];
    if (vni == GENEVE_VNI_EDGE) {
        dst = ends[8 + below(p, 3)];
        src = ends[chance(p, 80) ? 7 : below(p, ENDS)];
    }
    struct frame inner = damaged(p, any_packet(p, src, dst));
    struct frame f = in_geneve(&inner, vni, nodes[below(p, 10) ? below(p, 2) : 2], NODE_A);
    if (chance(p, 3))
        f.bytes[12 + below(p, 60)] ^= (uint8_t)(1u << below(p, 8));
    if (chance(p, 2))
        f.len = below(p, f.len + 1);
    return f;
}

static struct frame from_service(struct play *p)
{
    struct frame f = any_packet(p, ends[6], ends[11]);
    uint32_t host = 1 + below(p, 4);
    bool v4 = f.bytes[14] >> 4 == 4;
    f.bytes[v4 ? 33 : 53] = (uint8_t)host;
    frame_fix(&f);
    return damaged(p, f);
}

static struct frame from_beyond(struct play *p)
{
    if (chance(p, 10)) {
        struct frame f = arp_request(ROUTER_MAC, "198.51.100.1", ends[8 + below(p, 3)].v4);
        f.bytes[21] = (uint8_t)(1 + below(p, 2));
        return damaged(p, f);
    }
    struct frame f = any_packet(p, ends[chance(p, 90) ? 7 : below(p, ENDS)], ends[8 + below(p, 3)]);
    frame_set_mac(&f, LINK_MAC, ROUTER_MAC);
    return damaged(p, f);
}

enum { GUEST, UNDERLAY, SERVICE, LINK_OUTSIDE };

// What a guest's device says of a frame: checksums left to do, super-frames; and what no device would say.
static void give_metadata(struct play *p, struct packet *k)
{
    static const uint8_t gso[] = {GSO_NONE, GSO_TCP4, GSO_TCP6, GSO_UDP};
    bool v4 = k->len > 60 && k->data[14] >> 4 == 4;
    if (k->len < 60 || chance(p, 70))
        return;
    bool is_tcp = k->data[v4 ? 23 : 20] == IPPROTO_TCP4;
    k->csum = (uint8_t)below(p, 3);
    k->csum_start = (uint16_t)(chance(p, 95) ? (v4 ? 34 : 54) : below(p, 100));
    k->csum_offset = chance(p, 95) ? (is_tcp ? 16 : 6) : 2;
    if (chance(p, 50))
        return;
    k->gso_type = chance(p, 90) ? (is_tcp ? (v4 ? GSO_TCP4 : GSO_TCP6) : GSO_UDP) : gso[below(p, ARRAY_LEN(gso))];
    k->gso_size = (uint16_t)below(p, chance(p, 90) ? 1000 : 2000);
}

static void receive(struct play *p, int origin, uint32_t port, struct packet **packets, unsigned n)
{
    switch (origin) {
    case GUEST:
        node_receive_guest(p->f->node, p->worker, port, packets, n, p->f->now);
        break;
    case UNDERLAY:
        node_receive_underlay(p->f->node, p->worker, packets, n, p->f->now);
        break;
    case SERVICE:
        node_receive_service(p->f->node, p->worker, packets, n, p->f->now);
        break;
    default:
        node_receive_external(p->f->node, p->worker, 0, packets, n, p->f->now);
    }
}

// Up to a batch of packets from one side: at once or one by one.
static void packets(struct play *p)
{
    struct packet *list[PLATFORM_BATCH];
    int origin = (int[]){GUEST, GUEST, GUEST, UNDERLAY, UNDERLAY, SERVICE, LINK_OUTSIDE}[below(p, 7)];
    unsigned who = below(p, 3), n = 1 + below(p, PLATFORM_BATCH);
    for (unsigned i = 0; i < n; i++) {
        struct frame f = origin == GUEST      ? from_guest(p, who)
                         : origin == UNDERLAY ? from_underlay(p)
                         : origin == SERVICE  ? from_service(p)
                                              : from_beyond(p);
        if (i && chance(p, 40)) // trains of one flow
            f = p->frames[i - 1];
        p->frames[i] = f;
        list[i] = fake_packet(p->f, f.bytes, f.len);
        if (origin == UNDERLAY)
            list[i]->csum = CSUM_VERIFIED;
        if (origin == GUEST)
            give_metadata(p, list[i]);
    }
    p->worker = below(p, 2);
    p->offered[origin] += n;
    if (origin == GUEST && !p->there[who])
        p->at_no_port += n;
    if (p->batches)
        receive(p, origin, p->port[who], list, n);
    for (unsigned i = 0; !p->batches && i < n; i++)
        receive(p, origin, p->port[who], &list[i], 1);
}

static void give_vips(struct play *p, struct draft *d)
{
    d->b.n_lb = 0;
    for (int family = 4; family <= 6; family += 2) {
        static const uint16_t ways[][2] = {{PROTOCOL_ANY, 0}, {IPPROTO_TCP4, 80}, {IPPROTO_UDP4, 80}};
        const uint16_t *way = ways[below(p, ARRAY_LEN(ways))];
        struct blueprint_vip *v = draft_vip(d, address_of(ends[13], family), way[0], way[1]);
        v->id = family == 4 ? "vip4" : "vip6";
        v->hash = chance(p, 50);
        v->client_affinity = chance(p, 50);
        static const unsigned targets[] = {0, 1, 2, 4};
        for (unsigned i = 0; i < ARRAY_LEN(targets); i++) {
            if (chance(p, 30))
                continue;
            struct blueprint_vip_target *t =
                vip_target(d, v, address_of(ends[targets[i]], family), way[1] && chance(p, 50) ? 1000 : 0);
            t->weight = (uint16_t)(1 + below(p, 3));
            t->state = (uint8_t)(chance(p, 70) ? BLUEPRINT_VIP_TARGET_ACTIVE : below(p, 3));
        }
    }
}

static void attach_subnets(struct draft *d)
{
    d->attached[0] = prefix("192.0.2.8/29");
    d->attached[1] = prefix("2001:db8:a::/48");
    d->b.nat.n_attached = 2;
}

static void change_policy(struct play *p)
{
    static const uint16_t protocols[] = {PROTOCOL_ANY, IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4, IPPROTO_ICMP6};
    unsigned who = below(p, 3);
    struct draft *d = &p->drafts[who];
    struct node_error e;
    d->b.firewall.n_rules = 0;
    memset(d->rules, 0, sizeof(d->rules));
    memset(d->ranges, 0, sizeof(d->ranges));
    static char names[8][4];
    for (unsigned i = 0, n = below(p, 8); i < n; i++) {
        snprintf(names[i], sizeof(names[i]), "r%u", i);
        struct blueprint_rule *r = draft_rule(d, names[i], below(p, 4), chance(p, 60) ? BLUEPRINT_IN : BLUEPRINT_OUT,
                                              (uint8_t)(chance(p, 60) ? BLUEPRINT_ALLOW : 1 + below(p, 2)),
                                              protocols[below(p, ARRAY_LEN(protocols))]);
        if (r->proto == IPPROTO_TCP4 || r->proto == IPPROTO_UDP4)
            rule_ports(d, r, (uint16_t)(chance(p, 50) ? 0 : 80), (uint16_t)(chance(p, 50) ? 80 : 65535));
    }
    d->b.firewall.default_out_allow = chance(p, 80);
    d->b.firewall.established_keep = chance(p, 30);
    d->b.firewall.tcp_strict = chance(p, 10);
    d->b.limits.flows_max = 16 + below(p, 100);
    d->b.limits.flows_min = chance(p, 20) ? 16 : 0;
    d->b.gateway.metadata.enabled = chance(p, 80);
    d->b.nat.n_floating = d->b.nat.n_snat = 0;
    if (chance(p, 60))
        give_floating(d, who == 2 ? FLOATING_2 : FLOATING, ends[who == 1 ? 2 : 0]);
    if (chance(p, 60))
        give_snat(d, SHARED, (uint16_t)(2000 + 100 * who), (uint16_t)(2000 + 100 * who + below(p, 40)));
    d->b.n_lb = d->b.nat.n_attached = 0;
    if (chance(p, 70))
        give_vips(p, d);
    if (who == 0 && chance(p, 50))
        attach_subnets(d);
    if (chance(p, 10))
        d->b.generation -= 2; // a stale one is refused
    if (!try_put(p->f, d, &e))
        p->control_drops++;
    d->b.generation += 2;
    p->port[who] = node_port_find(p->f->node, &d->b.port);
    p->there[who] = p->port[who] != 0;
}

static void flap(struct play *p)
{
    const struct ip_addr nodes[] = {NODE_B, NODE_C, NODE_A};
    static const unsigned mapped[] = {0, 1, 2, 4};
    struct end e = ends[mapped[below(p, ARRAY_LEN(mapped))]];
    struct mapping m = {.vni = chance(p, 70) ? 100 : 200,
                        .ip = ip(chance(p, 50) ? e.v4 : e.v6),
                        .mac = e.mac,
                        .node = nodes[below(p, 3)],
                        .epoch = ++p->epoch - (chance(p, 10) ? 5 : 0),
                        .state = chance(p, 20) ? MAPPING_TOMBSTONE : MAPPING_ACTIVE};
    struct node_error e2;
    if (!node_mapping_put(p->f->node, &m, p->f->now, &e2))
        p->control_drops++;
    fake_quiesce(p->f);
}

static void act(struct play *p)
{
    struct node_error e;
    unsigned who = below(p, 3);
    if (chance(p, 20)) {
        node_blueprint_delete(p->f->node, &p->drafts[who].b.port, &e);
        p->there[who] = false;
    } else {
        node_port_act(p->f->node, &p->drafts[who].b.port, (enum node_port_action)below(p, 3), &e);
    }
    fake_quiesce(p->f);
}

static void trouble(struct play *p)
{
    p->f->deliver_budget = chance(p, 30) ? (long)below(p, 20) : -1;
    p->f->underlay_budget = chance(p, 30) ? (long)below(p, 20) : -1;
    p->f->fail_after = chance(p, 50) ? (long)below(p, 40) : -1; // of memory and packets, once
    p->f->underlay_reason = chance(p, 50) ? DROP_UNDERLAY_FULL : DROP_NEXT_HOP_PENDING;
}

static void step(struct play *p)
{
    uint32_t what = below(p, 100);
    if (what < 80)
        packets(p);
    else if (what < 85)
        change_policy(p);
    else if (what < 91)
        flap(p);
    else if (what < 93)
        act(p);
    else if (what < 95)
        trouble(p);
    else
        fake_advance(p->f, below(p, chance(p, 10) ? 400000 : 2000));
    fake_quiesce(p->f);
}

static void begin(struct play *p, uint64_t seed, bool batches)
{
    struct node_config c = edge_config(NODE_A);
    memset(p, 0, sizeof(*p));
    *p = (struct play){.f = fake_create(), .batches = batches, .random = seed, .epoch = 100};
    c.max_connections = 192;
    c.workers = 2;
    assert_true(fake_start(p->f, &c));
    draft_init(&p->drafts[0], 3, 100, ends[0].v4, ends[0].v6, ends[0].mac);
    draft_init(&p->drafts[1], 4, 100, ends[2].v4, ends[2].v6, ends[2].mac);
    draft_init(&p->drafts[2], 5, 200, ends[0].v4, ends[0].v6, ends[0].mac);
    for (unsigned i = 0; i < 3; i++) {
        p->port[i] = put(p->f, &p->drafts[i]);
        p->there[i] = true;
    }
    serve(p->f, 1, 1, chance(p, 50) ? &NODE_A : &NODE_C);
    for (unsigned i = 0; i < 20; i++)
        flap(p);
}

// Removed ports take their counters along; what they are given is not theirs. What comes in is the node's to count.
static void check_offered(const struct play *p)
{
    struct node_counters n;
    node_counters(p->f->node, &n);
    assert_int_equal(n.underlay_received, p->offered[UNDERLAY]);
    assert_int_equal(n.service_received, p->offered[SERVICE]);
    assert_int_equal(n.external_received, p->offered[LINK_OUTSIDE]);
}

static void t81_random(void **state)
{
    struct play *p = malloc(sizeof(*p));
    for (uint64_t seed = 1; seed <= 6; seed++) {
        begin(p, seed * 0x9e3779b97f4a7c15ull, seed & 1);
        for (unsigned i = 0; i < 1500; i++) {
            step(p);
            if (i % 50 == 0) {
                check_conservation(p->f);
                check_offered(p);
            }
        }
        check_conservation(p->f);
        check_offered(p);
        // Left alone, the node forgets: all is as at the start.
        fake_advance(p->f, 9000000);
        fake_quiesce(p->f);
        check_conservation(p->f);
        for (uint32_t i = node_port_next(p->f->node, 0); i; i = node_port_next(p->f->node, i))
            assert_int_equal(flows(p->f, i), 0);
        fake_destroy(p->f);
    }
    free(p);
}

static bool is_packet(const struct fake_call *c)
{
    return c->kind <= FAKE_SERVICE;
}

// Questions for a next hop do not wait for the batch to end.
static bool is_question(const struct fake_call *c)
{
    if (c->kind != FAKE_EXTERNAL || c->len < 42)
        return false;
    return load_be16(c->frame + 12) == ETHERTYPE_ARP || (c->len > 54 && load_be16(c->frame + 12) == ETHERTYPE_IPV6 &&
                                                         c->frame[20] == IPPROTO_ICMP6 && c->frame[54] == 135);
}

static bool same_place(const struct fake_call *a, const struct fake_call *b)
{
    return a->kind == b->kind && a->where == b->where && is_question(a) == is_question(b);
}

// Every frame, in order, per place it went to: batches may only change the order between places.
static void expect_same_frames(const struct fake *a, const struct fake *b)
{
    bool *seen = calloc(b->n_calls ? b->n_calls : 1, sizeof(*seen));
    for (unsigned i = 0; i < a->n_calls; i++) {
        const struct fake_call *x = &a->calls[i];
        if (!is_packet(x))
            continue;
        unsigned k = 0;
        while (k < b->n_calls && (seen[k] || !same_place(x, &b->calls[k])))
            k++;
        const struct packet *was = &x->meta, *is = &b->calls[k].meta;
        if (k == b->n_calls || b->calls[k].len != x->len || memcmp(b->calls[k].frame, x->frame, x->len) != 0 ||
            was->csum != is->csum || was->gso_type != is->gso_type || was->gso_size != is->gso_size ||
            was->csum_start != is->csum_start)
            fail_msg("call %u: the batch did not send what the single packets sent", i);
        seen[k] = true;
    }
    for (unsigned k = 0; k < b->n_calls; k++)
        if (is_packet(&b->calls[k]) && !seen[k])
            fail_msg("call %u: the batch sent more", k);
    free(seen);
}

static void drop_calls(struct fake *f)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < f->n_calls; i++) {
        if (is_packet(&f->calls[i]))
            free(f->calls[i].frame);
        else
            f->calls[kept++] = f->calls[i];
    }
    f->n_calls = f->next = kept;
}

static void t81_batches(void **state)
{
    struct play *one = malloc(sizeof(*one)), *many = malloc(sizeof(*many));
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(one, seed * 0xd1342543de82ef95ull, false);
        begin(many, seed * 0xd1342543de82ef95ull, true);
        for (unsigned i = 0; i < 1000; i++) {
            step(one);
            step(many);
            expect_same_frames(one->f, many->f);
            drop_calls(one->f);
            drop_calls(many->f);
            if (i % 10)
                continue;
            char *a = whole_state(one->f), *b = whole_state(many->f);
            expect_same_state(a, b);
            free(a);
            free(b);
        }
        assert_int_equal(one->control_drops, many->control_drops);
        fake_destroy(one->f);
        fake_destroy(many->f);
    }
    free(one);
    free(many);
}

// What became of the one packet since `had`, in trace's words; other ports of the node may have had it, too.
static const char *became(const struct port_counters *had, const struct port_counters *now, enum drop *reason)
{
    *reason = DROP_NONE;
    for (int dir = 0; dir < 2; dir++)
        for (int r = 0; r < DROP_COUNT; r++)
            if (now->drops[dir][r] != had->drops[dir][r])
                *reason = (enum drop)r;
    if (*reason != DROP_NONE)
        return "dropped";
    if (now->answered[COUNT_OUT] != had->answered[COUNT_OUT])
        return "answered";
    return now->consumed[COUNT_OUT] != had->consumed[COUNT_OUT] ? "consumed" : "sent";
}

static struct port_counters all_ports(struct fake *f)
{
    struct port_counters sum = {0}, one;
    for (uint32_t i = node_port_next(f->node, 0); i; i = node_port_next(f->node, i)) {
        node_port_counters(f->node, i, &one);
        for (size_t k = 0; k < sizeof(one) / 8; k++)
            ((uint64_t *)&sum)[k] += ((uint64_t *)&one)[k];
    }
    return sum;
}

// What a trace cannot know: how full devices and tables are, and how much was answered lately.
static bool momentary(enum drop r)
{
    return r == DROP_RATE_ICMP || r == DROP_FLOW_LIMIT || r == DROP_PORT_FULL || r == DROP_UNDERLAY_FULL ||
           r == DROP_NEXT_HOP_PENDING || r == DROP_NO_MEMORY;
}

static void t82_trace(void **state)
{
    struct play *p = malloc(sizeof(*p));
    unsigned compared = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(p, seed * 0x2545f4914f6cdd1dull, true);
        for (unsigned i = 0; i < 3000; i++) {
            if (chance(p, 30))
                step(p);
            unsigned who = below(p, 3);
            if (!p->there[who])
                continue;
            bool out = chance(p, 50);
            struct frame f =
                out ? from_guest(p, who) : damaged(p, any_packet(p, ends[below(p, ENDS)], ends[who == 1 ? 2 : 0]));
            if (!out && f.len < 14)
                continue;
            if (!out)
                frame_set_mac(&f, who == 1 ? (struct mac_addr)MAC_OF(5) : GUEST_MAC,
                              (struct mac_addr){{2, 0, 0, 0, 0, 4}});
            struct trace t;
            struct node_error e;
            struct port_counters had, now;
            enum drop reason;
            struct ip_addr any = {0};
            p->f->fail_after = -1;
            assert_true(node_trace(p->f->node, p->port[who], out ? FLOW_OUT : FLOW_IN, &any, f.bytes, f.len, p->f->now,
                                   &t, &e));
            had = all_ports(p->f);
            if (out) {
                fake_guest(p->f, p->port[who], f.bytes, f.len);
            } else {
                struct frame g = in_geneve(&f, who == 2 ? 200 : 100, NODE_B, NODE_A);
                fake_underlay(p->f, g.bytes, g.len);
            }
            fake_quiesce(p->f);
            now = all_ports(p->f);
            int dir = out ? COUNT_OUT : COUNT_IN;
            if (now.received[dir] == had.received[dir])
                continue; // node B is a stranger in this VPC by now
            const char *verdict = became(&had, &now, &reason);
            // To its own external address, from and to one port number, a packet meets the connection it has just
            // opened: a trace opens none.
            // The same by a virtual IP, of a protocol without ports.
            bool itself = (t.xp.to == XP_TO_LOCAL_EXTERNAL && t.xp.dest == p->port[who]) ||
                          (t.xp.to == XP_TO_SELF && reason == DROP_TUPLE_IN_USE);
            if (itself || momentary(reason))
                continue;
            compared++;
            const char *said = strcmp(t.verdict, "delivered") == 0 ? "sent" : t.verdict;
            if (strcmp(said, verdict) != 0 || t.reason != reason)
                fail_msg("trace says %s %s, the packet was %s %s", t.verdict, drop_name(t.reason), verdict,
                         drop_name(reason));
        }
        fake_destroy(p->f);
    }
    assert_true(compared > 2000);
    free(p);
}

// Looking changes nothing: traces of every kind of packet, and refused documents.
static void t81_looking(void **state)
{
    struct play *p = malloc(sizeof(*p));
    begin(p, 4711, true);
    for (unsigned i = 0; i < 400; i++)
        step(p);
    p->f->deliver_budget = p->f->underlay_budget = p->f->fail_after = -1;
    for (unsigned i = 0; i < 3; i++)
        if (!p->there[i])
            p->port[i] = put(p->f, &p->drafts[i]);
    char *was = whole_state(p->f);
    unsigned calls = p->f->n_calls;
    for (unsigned i = 0; i < 2000; i++) {
        struct trace t;
        struct node_error e;
        unsigned who = below(p, 3);
        bool out = chance(p, 50);
        struct frame f = out ? from_guest(p, who) : damaged(p, any_packet(p, ends[below(p, ENDS)], ends[0]));
        assert_true(
            node_trace(p->f->node, p->port[who], out ? FLOW_OUT : FLOW_IN, &NODE_B, f.bytes, f.len, p->f->now, &t, &e));
    }
    assert_int_equal(p->f->n_calls, calls);
    for (unsigned i = 0; i < 3; i++) {
        struct node_error e;
        struct draft d = p->drafts[i];
        d.b.generation = 0;
        assert_false(try_put(p->f, &d, &e)); // stale
    }
    for (; calls < p->f->n_calls; calls++) // the operator is told
        assert_int_equal(p->f->calls[calls].kind, FAKE_EVENT);
    expect_state(p->f, was);
    free(was);
    fake_destroy(p->f);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"T81 each packet is accounted for once, whatever happens", t81_random, NULL, NULL, NULL},
        {"T81 batches and single packets leave the same node behind", t81_batches, NULL, NULL, NULL},
        {"T82 a trace says what becomes of the packet", t82_trace, NULL, NULL, NULL},
        {"T81 T82 looking changes nothing", t81_looking, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
