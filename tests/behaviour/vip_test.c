// SPDX-License-Identifier: MPL-2.0
// Virtual IPs: the client's node chooses a target and translates the destination.
//
// VIP = 10.0.0.100 / fd00::64, with targets P and R on node B, unless a test says otherwise.
#include "tests/behaviour/outside.h"
#include "vpc/text.h"

static const struct end VIP = {MAC_OF(1), "10.0.0.100", "fd00::64"};
static const struct end VIP_2 = {MAC_OF(1), "10.0.0.101", "fd00::65"};
static const struct end R = {MAC_OF(7), "10.0.0.7", "fd00::7"};
static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static const struct end *others[] = {&P, &R};

static int vip_setup(void **state)
{
    assert_int_equal(edge_setup(state), 0);
    struct lab *l = *state;
    EACH_FAMILY(family)
    map(l->a, 100, address_of(R, family), R.mac, NODE_B, 1);
    return 0;
}

// A virtual IP of both families. Returns the first of the pair; the second follows it.
static struct blueprint_vip *give_vip(struct draft *d, struct end vip, uint16_t protocol, uint16_t port)
{
    struct blueprint_vip *first = draft_vip(d, vip.v4, protocol, port);
    draft_vip(d, vip.v6, protocol, port);
    return first;
}

static void give_target(struct draft *d, struct blueprint_vip *pair, struct end target, uint16_t port)
{
    vip_target(d, pair, target.v4, port);
    vip_target(d, pair + 1, target.v6, port);
}

static void set_state(struct draft *d, struct blueprint_vip *pair, unsigned target, uint8_t state)
{
    for (int i = 0; i < 2; i++)
        d->targets[pair + i - d->vips][target].state = state;
}

static struct blueprint_vip *web(struct lab *l)
{
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_TCP4, 80);
    give_target(&l->guest, v, P, 8080);
    give_target(&l->guest, v, R, 8080);
    return v;
}

static struct blueprint_vip *everything(struct lab *l)
{
    struct blueprint_vip *v = give_vip(&l->guest, VIP, PROTOCOL_ANY, 0);
    give_target(&l->guest, v, P, 0);
    give_target(&l->guest, v, R, 0);
    return v;
}

static unsigned which(struct frame *f, int family)
{
    for (unsigned i = 0; i < 2; i++)
        if (goes(f, family, G, *others[i]))
            return i;
    fail_msg("the packet goes to no target");
    return 0;
}

static struct frame syn(int family, uint16_t sport, struct end vip, uint16_t dport)
{
    return tcp(family, G, sport, via(vip, GATEWAY_MAC), dport, TCP_SYN, 1000, 0, 0);
}

static struct frame segment(int family, uint16_t sport, struct end vip, uint16_t dport)
{
    return tcp(family, G, sport, via(vip, GATEWAY_MAC), dport, TCP_ACK, 1001, 5001, 10);
}

// Opens a TCP connection to VIP:80 to the end of its handshake; which target?
static unsigned shake_hands(struct lab *l, int family, uint16_t sport)
{
    struct frame f = syn(family, sport, VIP, 80);
    send_guest(l, &f);
    struct frame out = expect_carried(l->a, NODE_B, 100);
    unsigned target = which(&out, family);
    assert_int_equal(view_of(&out).dport, 8080);
    struct frame answer = reply_to(&out, TCP_SYN | TCP_ACK);
    store_be32(view_of(&answer).l4 + 4, 5000);
    frame_fix(&answer);
    frame_set_mac(&answer, GUEST_MAC, others[target]->mac);
    receive_vpc(l, &answer);
    struct frame at = expect_at(l->a, l->g);
    assert_true(goes(&at, family, VIP, G));
    assert_int_equal(view_of(&at).sport, 80);
    assert_int_equal(view_of(&at).dport, sport);
    f = segment(family, sport, VIP, 80);
    send_guest(l, &f);
    out = expect_carried(l->a, NODE_B, 100);
    assert_int_equal(which(&out, family), target);
    return target;
}

static void expect_kept(struct lab *l, int family, uint16_t sport, unsigned target)
{
    struct frame f = segment(family, sport, VIP, 80);
    send_guest(l, &f);
    struct frame out = expect_carried(l->a, NODE_B, 100);
    assert_int_equal(which(&out, family), target);
    assert_int_equal(view_of(&out).dport, 8080);
    struct frame answer = reply_to(&out, TCP_ACK);
    frame_set_mac(&answer, GUEST_MAC, others[target]->mac);
    receive_vpc(l, &answer);
    struct frame at = expect_at(l->a, l->g);
    assert_true(goes(&at, family, VIP, G));
}

static void there_and_back(void **state)
{
    struct lab *l = *state;
    everything(l);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
        struct frame sent = start(protocols[i], family, G, 4000, via(VIP, GATEWAY_MAC), 80);
        for (int round = 0; round < 2; round++) {
            send_guest(l, &sent);
            struct frame out = expect_carried(l->a, NODE_B, 100);
            const struct end *target = others[which(&out, family)];
            assert_memory_equal(out.bytes, target->mac.b, 6);
            assert_memory_equal(out.bytes + 6, GUEST_MAC.b, 6); // within the subnet: no hop is taken
            assert_int_equal(view_of(&out).ttl, 64);
            assert_int_equal(view_of(&out).sport, 4000);
            struct frame answer = reply_to(&out, TCP_SYN | TCP_ACK);
            frame_set_mac(&answer, GUEST_MAC, target->mac);
            receive_vpc(l, &answer);
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
        }
        struct node_error e;
        struct flow_info flow = only_flow(l->a, l->g);
        struct ip_addr vip = ip(address_of(VIP, family));
        assert_int_equal(flow.nat.kind, CONN_NAT_VIP);
        assert_true(ip_equal(&flow.nat.external, &vip));
        assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
        fake_quiesce(l->a);
    }
}

static void spread(struct lab *l, int family, unsigned n, unsigned count[2])
{
    count[0] = count[1] = 0;
    for (unsigned i = 0; i < n; i++) {
        struct frame f = syn(family, (uint16_t)(10000 + i), VIP, 80);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        count[which(&out, family)]++;
    }
    struct node_error e;
    assert_true(node_port_act(l->a->node, &l->guest.b.port, NODE_PORT_RESET, &e));
    fake_quiesce(l->a);
}

static void shares(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    for (int hash = 0; hash < 2; hash++) {
        v[0].hash = v[1].hash = hash;
        for (unsigned weight = 1; weight <= 3; weight += 2) {
            l->guest.targets[0][1].weight = l->guest.targets[1][1].weight = (uint16_t)weight;
            put(l->a, &l->guest);
            EACH_FAMILY(family)
            {
                unsigned count[2];
                spread(l, family, 1000, count);
                unsigned fair = 1000 * weight / (weight + 1); // four standard deviations
                assert_in_range(count[1], fair - 64, fair + 64);
            }
        }
    }
}

static void client_affinity(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    v[0].client_affinity = v[1].client_affinity = true;
    for (int hash = 0; hash < 2; hash++) {
        v[0].hash = v[1].hash = hash;
        put(l->a, &l->guest);
        EACH_FAMILY(family)
        {
            unsigned count[2];
            spread(l, family, 50, count);
            assert_true(count[0] == 0 || count[1] == 0);
        }
    }
}

static void o12_down(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        unsigned of[40], gone = 0;
        for (uint16_t i = 0; i < 40; i++)
            of[i] = shake_hands(l, family, (uint16_t)(20000 + i));
        uint32_t before = flows(l->a, l->g);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_DOWN);
        put(l->a, &l->guest);
        for (uint16_t i = 0; i < 40; i++) {
            if (of[i] == 1) {
                expect_kept(l, family, (uint16_t)(20000 + i), 1);
                continue;
            }
            struct frame f = segment(family, (uint16_t)(20000 + i), VIP, 80);
            send_guest(l, &f);
            expect_drop(l->a, l->g, COUNT_OUT, DROP_VIP_TARGET_GONE);
            gone++;
            assert_int_equal(shake_hands(l, family, (uint16_t)(20000 + i)), 1); // it reconnects elsewhere
        }
        assert_in_range(gone, 5, 35);
        assert_int_equal(flows(l->a, l->g), before);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_ACTIVE);
        put(l->a, &l->guest);
        expect_kept(l, family, 20000, 1); // what comes back takes nobody's connections
    }
}

// The answer may be the first to meet the change.
static void o12_down_answer(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    v[0].n_targets = v[1].n_targets = 1;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        shake_hands(l, family, 20000);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_DOWN);
        put(l->a, &l->guest);
        struct frame answer = tcp(family, P, 8080, via(G, GUEST_MAC), 20000, TCP_ACK, 5001, 1011, 10);
        receive_vpc(l, &answer);
        expect_drop(l->a, l->g, COUNT_IN, DROP_VIP_TARGET_GONE);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_ACTIVE);
        put(l->a, &l->guest);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void o12_draining(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        unsigned of[40];
        for (uint16_t i = 0; i < 40; i++)
            of[i] = shake_hands(l, family, (uint16_t)(20000 + i));
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_DRAINING);
        put(l->a, &l->guest);
        for (uint16_t i = 0; i < 40; i++)
            expect_kept(l, family, (uint16_t)(20000 + i), of[i]);
        for (uint16_t i = 40; i < 60; i++)
            assert_int_equal(shake_hands(l, family, (uint16_t)(20000 + i)), 1);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_ACTIVE);
        put(l->a, &l->guest);
    }
}

static void o12_last_target(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l), *second = give_vip(&l->guest, VIP_2, IPPROTO_TCP4, 80);
    give_target(&l->guest, second, P, 8080);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 30000, VIP_2, 80);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&out, family, G, P));
        shake_hands(l, family, 20000);

        v[0].n_targets = v[1].n_targets = 0;
        put(l->a, &l->guest);
        f = syn(family, 20001, VIP, 80);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_VIP_NO_TARGET);
        f = segment(family, 20000, VIP, 80);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_VIP_TARGET_GONE);
        f = syn(family, 30000, VIP_2, 80); // again: the other one's connection goes on
        send_guest(l, &f);
        out = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&out, family, G, P));
        f = syn(family, 30001, VIP_2, 80);
        send_guest(l, &f);
        expect_carried(l->a, NODE_B, 100);
        assert_int_equal(flows(l->a, l->g), family == 4 ? 2 : 4);

        v[0].n_targets = v[1].n_targets = 2;
        put(l->a, &l->guest);
    }
}

// Exact port and protocol win over the whole protocol, that over all.
static void most_exact(void **state)
{
    struct lab *l = *state;
    const struct end *at[] = {&P, &R};
    struct blueprint_vip *all = draft_vip(&l->guest, VIP.v4, PROTOCOL_ANY, 0);
    vip_target(&l->guest, all, R.v4, 0);
    struct blueprint_vip *dns = draft_vip(&l->guest, VIP.v4, IPPROTO_UDP4, 53);
    vip_target(&l->guest, dns, P.v4, 5353);
    put(l->a, &l->guest);
    static const struct {
        uint16_t port, arrives;
        unsigned who;
    } cases[] = {{53, 5353, 0}, {54, 54, 1}};
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame f = udp(4, G, 4000, via(VIP, GATEWAY_MAC), cases[i].port, 10);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&out, 4, G, *at[cases[i].who]));
        assert_int_equal(view_of(&out).dport, cases[i].arrives);
    }
    struct frame f = tcp(4, G, 4000, via(VIP, GATEWAY_MAC), 53, TCP_SYN, 1, 0, 0);
    send_guest(l, &f);
    struct frame out = expect_carried(l->a, NODE_B, 100);
    assert_true(goes(&out, 4, G, R));
    struct frame gre = other(4, G, via(VIP, GATEWAY_MAC), 47, 20); // a protocol without ports
    send_guest(l, &gre);
    out = expect_carried(l->a, NODE_B, 100);
    assert_true(goes(&out, 4, G, R));
}

static void not_its_port(void **state)
{
    struct lab *l = *state;
    web(l);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, VIP, 81); // nobody has the address itself
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING);
    }
}

// ---- Answers that would look alike

static void same_target_twice(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = everything(l);
    v[0].n_targets = v[1].n_targets = 1;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
        struct frame direct = start(protocols[i], family, G, 4000, via(P, GATEWAY_MAC), 80);
        struct frame by_vip = start(protocols[i], family, G, 4000, via(VIP, GATEWAY_MAC), 80);
        send_guest(l, &direct);
        struct frame first = expect_carried(l->a, NODE_B, 100);
        send_guest(l, &by_vip);
        struct frame second = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&first, family, G, P) && goes(&second, family, G, P));
        uint16_t other_port = view_of(&second).sport;
        assert_int_equal(view_of(&first).sport, 4000);
        assert_true(other_port >= 1024 && other_port != 4000);

        put(l->a, &l->guest); // and it keeps it
        send_guest(l, &by_vip);
        second = expect_carried(l->a, NODE_B, 100);
        assert_int_equal(view_of(&second).sport, other_port);

        struct frame answer = reply_to(&second, TCP_SYN | TCP_ACK);
        frame_set_mac(&answer, GUEST_MAC, PEER_MAC);
        receive_vpc(l, &answer);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, VIP, G));
        assert_int_equal(view_of(&at).dport, 4000);
        answer = reply_to(&first, TCP_SYN | TCP_ACK);
        frame_set_mac(&answer, GUEST_MAC, PEER_MAC);
        receive_vpc(l, &answer);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, P, G));
        assert_int_equal(view_of(&at).dport, 4000);
    }
}

// ---- The guest itself as target

static void t58_itself(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, PROTOCOL_ANY, 0);
    give_target(&l->guest, v, G, 0);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
        struct frame sent = start(protocols[i], family, G, 4000, via(VIP, GATEWAY_MAC), 80);
        for (int round = 0; round < 3; round++) {
            send_guest(l, &sent);
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G)); // the source too: the answer must come back this way
            assert_memory_equal(at.bytes, GUEST_MAC.b, 6);
            assert_memory_equal(at.bytes + 6, GATEWAY_MAC.b, 6);
            struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
            frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
            send_guest(l, &answer);
            at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
            assert_int_equal(protocols[i] == IPPROTO_ICMP4 ? view_of(&at).sport : view_of(&at).dport, 4000);
            put(l->a, &l->guest); // judged again and the same
        }
    }
    assert_int_equal(flows(l->a, l->g), 12); // each way round is a connection of its own
}

static void t58_port(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_TCP4, 80);
    give_target(&l->guest, v, G, 8080);
    struct blueprint_rule *r = draft_rule(&l->guest, "web", 10, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 8080, 8080);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, VIP, 80);
        send_guest(l, &f);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, VIP, G));
        assert_int_equal(view_of(&at).dport, 8080);
        struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
        frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &answer);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, VIP, G));
        assert_int_equal(view_of(&at).sport, 80);
    }
    l->guest.b.firewall.n_rules = 0; // its own door is a door
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 5000, VIP, 80);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_IN, DROP_FIREWALL_DENY);
    }
}

// From port 80 to port 80 the answer looks like the question, unless the source port is another on its way round.
static void t58_one_port(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, PROTOCOL_ANY, 0);
    give_target(&l->guest, v, G, 0);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    for (unsigned i = 0; i < 2; i++) {
        struct frame sent = start(protocols[i], family, G, 80, via(VIP, GATEWAY_MAC), 80);
        for (int round = 0; round < 2; round++) {
            send_guest(l, &sent);
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
            assert_int_not_equal(view_of(&at).sport, 80);
            struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
            frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
            send_guest(l, &answer);
            at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
            assert_int_equal(view_of(&at).sport, 80);
            assert_int_equal(view_of(&at).dport, 80);
            put(l->a, &l->guest);
        }
        struct frame gre = other(family, G, via(VIP, GATEWAY_MAC), 47, 20); // without ports there is no telling
        send_guest(l, &gre);
        expect_drop(l->a, l->g, COUNT_IN, DROP_TUPLE_IN_USE);
    }
}

static void t58_neighbour(void **state)
{
    struct lab *l = *state;
    struct draft other;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, PROTOCOL_ANY, 0);
    give_target(&l->guest, v, Q, 0);
    put(l->a, &l->guest);
    draft_init(&other, 5, 100, Q.v4, Q.v6, Q.mac);
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    {
        map(l->a, 100, address_of(Q, family), Q.mac, NODE_A, 1);
        map(l->a, 100, address_of(G, family), G.mac, NODE_A, 1);
        for (unsigned i = 0; i < ARRAY_LEN(protocols); i++) {
            struct frame f = start(protocols[i], family, G, 4000, via(VIP, GATEWAY_MAC), 80);
            send_guest(l, &f);
            struct frame at = expect_at(l->a, q);
            assert_true(goes(&at, family, G, Q)); // it sees who its client is
            struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
            frame_set_mac(&answer, GATEWAY_MAC, Q.mac);
            send_from(l->a, q, &answer);
            at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
        }
    }
}

// ---- Rules and routes

static void rules_see_the_vip(void **state)
{
    struct lab *l = *state;
    web(l);
    l->guest.b.firewall.default_out_allow = false;
    struct blueprint_rule *r = draft_rule(&l->guest, "vip", 10, BLUEPRINT_OUT, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 80, 80);
    rule_cidr(&l->guest, r, "10.0.0.100/32");
    rule_cidr(&l->guest, r, "fd00::64/128");
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        shake_hands(l, family, 4000);
        struct frame f = tcp(family, G, 4001, via(P, GATEWAY_MAC), 8080, TCP_SYN, 1, 0, 0);
        send_guest(l, &f); // the target itself is not allowed by it
        expect_drop(l->a, l->g, COUNT_OUT, DROP_FIREWALL_DENY);
    }
    l->guest.b.firewall.n_rules = 0;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = segment(family, 4000, VIP, 80);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_REVALIDATE_DENY);
    }
}

static void vip_is_in_the_vpc(void **state)
{
    struct lab *l = *state;
    const struct end public = {MAC_OF(1), "192.0.2.80", "2001:db8:80::1"}; // by the default route it would be outside
    struct blueprint_vip *v = give_vip(&l->guest, public, IPPROTO_TCP4, 80);
    give_target(&l->guest, v, P, 0);
    l->guest.b.firewall.default_out_allow = false;
    draft_rule(&l->guest, "vpc", 10, BLUEPRINT_OUT, BLUEPRINT_ALLOW, PROTOCOL_ANY)->remote.kind = BLUEPRINT_REMOTE_VPC;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, public, 80);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&out, family, G, P));
        assert_int_equal(view_of(&out).ttl, 64); // the way is the target's, and so are its hops
        assert_int_equal(view_of(&out).dport, 80);
    }
}

static void target_in_another_subnet(void **state)
{
    struct lab *l = *state;
    const struct end far = {MAC_OF(9), "10.0.9.9", "fd00:0:0:9::9"};
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_UDP4, 53);
    give_target(&l->guest, v, far, 0);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        map(l->a, 100, address_of(far, family), far.mac, NODE_C, 1);
        struct frame f = udp(family, G, 4000, via(VIP, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_C, 100);
        assert_true(goes(&out, family, G, far));
        assert_int_equal(view_of(&out).ttl, 63);
        assert_memory_equal(out.bytes, far.mac.b, 6);
        assert_memory_equal(out.bytes + 6, GATEWAY_MAC.b, 6);
    }
}

static void target_outside(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_UDP4, 53);
    give_target(&l->guest, v, OUTSIDE, 0);
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = udp(family, G, 4000, via(VIP, GATEWAY_MAC), 53, 10);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_VIP_OUTSIDE);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void vip_comes_later(void **state)
{
    struct lab *l = *state;
    struct end plain = {R.mac, VIP.v4, VIP.v6}; // somebody had the address before
    EACH_FAMILY(family)
    map(l->a, 100, address_of(VIP, family), R.mac, NODE_C, 1);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, VIP, 80);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_C, 100);
        assert_true(goes(&out, family, G, plain));
    }
    web(l);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, VIP, 80);
        send_guest(l, &f); // a re-walk takes no binding
        struct frame out = expect_carried(l->a, NODE_C, 100);
        assert_true(goes(&out, family, G, plain));
        shake_hands(l, family, 4001);
    }
}

static void target_moves(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = web(l);
    v[0].n_targets = v[1].n_targets = 1;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        shake_hands(l, family, 4000);
        map(l->a, 100, address_of(P, family), PEER_MAC, NODE_C, 2);
        struct frame f = segment(family, 4000, VIP, 80);
        send_guest(l, &f);
        struct frame out = expect_carried(l->a, NODE_C, 100);
        assert_true(goes(&out, family, G, P));
        unmap(l->a, 100, address_of(P, family), 3);
        send_guest(l, &f);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_NO_MAPPING); // passing trouble: the connection waits
        map(l->a, 100, address_of(P, family), PEER_MAC, NODE_B, 4);
        expect_kept(l, family, 4000, 0);
    }
}

// ---- ICMP errors

static void expect_quoted(struct frame *error, struct end src, uint16_t sport, struct end dst, uint16_t dport,
                          int family)
{
    uint8_t *ip_at = error->bytes + 14 + (family == 4 ? 28 : 48), *l4 = ip_at + (family == 4 ? 20 : 40);
    struct ip_addr from = family == 4 ? ip_from_v4(ip_at + 12) : ip_from_v6(ip_at + 8);
    struct ip_addr to = family == 4 ? ip_from_v4(ip_at + 16) : ip_from_v6(ip_at + 24);
    struct ip_addr want_from = ip(address_of(src, family)), want_to = ip(address_of(dst, family));
    assert_true(ip_equal(&from, &want_from) && ip_equal(&to, &want_to));
    assert_int_equal(load_be16(l4), sport);
    assert_int_equal(load_be16(l4 + 2), dport);
}

static void errors_to_the_client(void **state)
{
    struct lab *l = *state;
    const struct end hop = {PEER_MAC, "10.0.200.1", "fd00:0:0:200::1"};
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_UDP4, 53);
    give_target(&l->guest, v, P, 5353);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        uint8_t type = family == 4 ? 3 : 1, code = family == 4 ? 3 : 4;
        struct frame sent = udp(family, G, 4000, via(VIP, GATEWAY_MAC), 53, 30);
        send_guest(l, &sent);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        for (uint32_t quoted = (family == 4 ? 20 : 40) + 8; quoted <= out.len - 14; quoted += 10) {
            struct frame error = error_about(family, P, ip(address_of(G, family)), &out, quoted, type, code);
            frame_set_mac(&error, GUEST_MAC, PEER_MAC);
            receive_vpc(l, &error); // the target's own: nothing of it is seen but the virtual IP
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, VIP, G));
            expect_quoted(&at, G, 4000, VIP, 53, family);
            error = error_about(family, hop, ip(address_of(G, family)), &out, quoted, type, code);
            frame_set_mac(&error, GUEST_MAC, PEER_MAC);
            receive_vpc(l, &error); // one on the way keeps its address
            at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, hop, G));
            expect_quoted(&at, G, 4000, VIP, 53, family);
        }
    }
}

static void errors_to_the_target(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_UDP4, 53);
    give_target(&l->guest, v, P, 5353);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 4000, via(VIP, GATEWAY_MAC), 53, 30);
        send_guest(l, &sent);
        struct frame out = expect_carried(l->a, NODE_B, 100);
        struct frame answer = reply_to(&out, 0);
        frame_set_mac(&answer, GUEST_MAC, PEER_MAC);
        receive_vpc(l, &answer);
        struct frame at = expect_at(l->a, l->g);
        struct frame error =
            error_about(family, G, ip(address_of(VIP, family)), &at, 60, family == 4 ? 3 : 1, family == 4 ? 3 : 4);
        frame_set_mac(&error, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &error); // the client's socket is closed
        out = expect_carried(l->a, NODE_B, 100);
        assert_true(goes(&out, family, G, P));
        expect_quoted(&out, P, 5353, G, 4000, family);
    }
}

static void errors_to_itself(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_vip(&l->guest, VIP, IPPROTO_UDP4, 53);
    give_target(&l->guest, v, G, 5353);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 4000, via(VIP, GATEWAY_MAC), 53, 30);
        send_guest(l, &sent);
        struct frame at = expect_at(l->a, l->g);
        struct frame error =
            error_about(family, G, ip(address_of(VIP, family)), &at, 60, family == 4 ? 3 : 1, family == 4 ? 3 : 4);
        frame_set_mac(&error, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &error); // no server there
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, VIP, G));
        expect_quoted(&at, G, 4000, VIP, 53, family);
    }
}

// ---- From outside

static const struct end SERVICE = {MAC_OF(1), "198.51.100.50", "2001:db8:e::50"};

static struct blueprint_vip *give_external(struct lab *l, uint16_t port, uint16_t target_port)
{
    struct blueprint_vip *v = give_vip(&l->guest, SERVICE, IPPROTO_TCP4, port);
    give_target(&l->guest, v, G, target_port);
    v[0].external = v[1].external = true;
    return v;
}

static void from_outside_in(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_external(l, 443, 8443);
    struct blueprint_rule *r = draft_rule(&l->guest, "web", 10, BLUEPRINT_IN, BLUEPRINT_ALLOW, IPPROTO_TCP4);
    rule_ports(&l->guest, r, 8443, 8443); // inbound the rules see the guest's own port
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame in = tcp(family, OUTSIDE, 5000, SERVICE, 443, TCP_SYN, 1000, 0, 0);
        for (int round = 0; round < 2; round++) {
            from_outside(l->a, &in);
            struct frame at = expect_at(l->a, l->g);
            assert_true(goes(&at, family, OUTSIDE, G));
            assert_int_equal(view_of(&at).dport, 8443);
            assert_int_equal(view_of(&at).ttl, 63);
            struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
            frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
            send_guest(l, &answer);
            struct frame out = expect_outside(l->a);
            assert_true(goes(&out, family, SERVICE, OUTSIDE));
            assert_int_equal(view_of(&out).sport, 443);
            put(l->a, &l->guest);
        }
        struct frame not_its_port = tcp(family, OUTSIDE, 5000, SERVICE, 80, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &not_its_port);
        expect_outside_drop(l->a, DROP_NO_EXTERNAL_MAPPING);

        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_DRAINING);
        put(l->a, &l->guest);
        from_outside(l->a, &in);
        expect_at(l->a, l->g);
        in = tcp(family, OUTSIDE, 5001, SERVICE, 443, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_VIP_NO_TARGET);

        in = tcp(family, OUTSIDE, 5000, SERVICE, 443, TCP_SYN, 1000, 0, 0);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_DOWN);
        put(l->a, &l->guest);
        from_outside(l->a, &in);
        expect_drop(l->a, l->g, COUNT_IN, DROP_VIP_TARGET_GONE);
        set_state(&l->guest, v, 0, BLUEPRINT_VIP_TARGET_ACTIVE);
        put(l->a, &l->guest);
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

static void external_shared_by_ports(void **state)
{
    struct lab *l = *state;
    struct draft other;
    give_external(l, 443, 0);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    draft_init(&other, 5, 200, Q.v4, Q.v6, Q.mac);
    struct blueprint_vip *v = give_vip(&other, SERVICE, IPPROTO_TCP4, 80);
    give_target(&other, v, Q, 0);
    v[0].external = v[1].external = true;
    allow_all_in(&other);
    uint32_t q = put(l->a, &other);
    EACH_FAMILY(family)
    {
        struct frame in = tcp(family, OUTSIDE, 5000, SERVICE, 443, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        expect_at(l->a, l->g);
        in = tcp(family, OUTSIDE, 5000, SERVICE, 80, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        struct frame at = expect_at(l->a, q);
        assert_true(goes(&at, family, OUTSIDE, Q));
    }
}

// An inner virtual IP has no door to the outside.
static void inner_stays_inside(void **state)
{
    struct lab *l = *state;
    struct blueprint_vip *v = give_external(l, 443, 0);
    v[0].external = v[1].external = false;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame in = tcp(family, OUTSIDE, 5000, SERVICE, 443, TCP_SYN, 1000, 0, 0);
        from_outside(l->a, &in);
        expect_outside_drop(l->a, DROP_NO_EXTERNAL_MAPPING);
    }
}

static void t58_external(void **state)
{
    struct lab *l = *state;
    give_external(l, 443, 8443);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, SERVICE, 443);
        send_guest(l, &f);
        struct frame at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, SERVICE, G));
        assert_int_equal(view_of(&at).dport, 8443);
        struct frame answer = reply_to(&at, TCP_SYN | TCP_ACK);
        frame_set_mac(&answer, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &answer);
        at = expect_at(l->a, l->g);
        assert_true(goes(&at, family, SERVICE, G));
    }
}

// ---- Restart, trace, refusals

static void restart_keeps_the_target(void **state)
{
    struct lab *l = *state;
    web(l);
    put(l->a, &l->guest);
    unsigned of[2][20];
    for (unsigned i = 0; i < 20; i++)
        EACH_FAMILY(family)
    of[family == 6][i] = shake_hands(l, family, (uint16_t)(20000 + i));
    struct node_config c = edge_config(NODE_A);
    check_conservation(l->a);
    fake_crash(l->a);
    fake_forget(l->a);
    memset(l->a->spent_drops, 0, sizeof(l->a->spent_drops));
    assert_true(fake_start(l->a, &c));
    EACH_FAMILY(family)
    {
        map(l->a, 100, address_of(P, family), PEER_MAC, NODE_B, 1);
        map(l->a, 100, address_of(R, family), R.mac, NODE_B, 1);
    }
    serve(l->a, 1, 1, &NODE_A);
    // The order of the list is another now: who was chosen is remembered, not chosen again.
    for (unsigned i = 0; i < 2; i++) {
        struct blueprint_vip_target first = l->guest.targets[i][0];
        l->guest.targets[i][0] = l->guest.targets[i][1];
        l->guest.targets[i][1] = first;
        l->guest.vips[i].hash = true;
    }
    l->g = put(l->a, &l->guest);
    fake_forget(l->a);
    for (unsigned i = 0; i < 20; i++)
        EACH_FAMILY(family)
    expect_kept(l, family, (uint16_t)(20000 + i), of[family == 6][i]);
    assert_int_equal(flows(l->a, l->g), 40);
}

static void traced(void **state)
{
    struct lab *l = *state;
    static const char *const words[] = {"VIP 10.0.0.100:80 to 10.0.0.4:8080", "VIP [fd00::64]:80 to [fd00::4]:8080"};
    struct blueprint_vip *v = web(l);
    v[0].n_targets = v[1].n_targets = 1;
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame f = syn(family, 4000, VIP, 80);
        struct trace t;
        struct node_error e;
        struct ip_addr any = {0};
        assert_true(node_trace(l->a->node, l->g, FLOW_OUT, &any, f.bytes, f.len, l->a->now, &t, &e));
        assert_string_equal(t.verdict, "sent");
        bool found = false;
        for (unsigned i = 0; i < t.log.n; i++)
            found |= strcmp(t.log.steps[i].layer, "nat") == 0 && strcmp(t.log.steps[i].detail, words[family == 6]) == 0;
        assert_true(found);
        assert_int_equal(flows(l->a, l->g), 0);
    }
}

struct bad {
    const char *pointer;
    void (*spoil)(struct draft *d);
};

static void own_address(struct draft *d)
{
    d->vips[0].address = ip(G.v4);
}

static void gateway_address(struct draft *d)
{
    d->vips[0].address = ip("10.0.0.1");
}

static void metadata_address(struct draft *d)
{
    d->vips[1].address = ip("fd00:ec2::254");
}

static void port_without_protocol(struct draft *d)
{
    d->vips[0].protocol = PROTOCOL_ANY;
}

static void other_family(struct draft *d)
{
    d->targets[0][0].address = ip(P.v6);
}

static void no_weight(struct draft *d)
{
    d->targets[0][0].weight = 0;
}

static void twice(struct draft *d)
{
    d->vips[1].address = d->vips[0].address;
    d->targets[1][0].address = ip(P.v4);
    d->targets[1][1].address = ip(R.v4);
}

static void target_twice(struct draft *d)
{
    d->targets[0][1] = d->targets[0][0];
}

static void external_elsewhere(struct draft *d)
{
    d->vips[0].external = true;
}

static void floating_too(struct draft *d)
{
    draft_floating(d, VIP.v4, G.v4);
}

static void refusals(void **state)
{
    struct lab *l = *state;
    static const struct bad bad[] = {
        {"/lb/0/address", own_address},
        {"/lb/0/address", gateway_address},
        {"/lb/1/address", metadata_address},
        {"/lb/0/port", port_without_protocol},
        {"/lb/0/targets", other_family},
        {"/lb/0/targets", no_weight},
        {"/lb/1/address", twice},
        {"/lb/0/targets", target_twice},
        {"/lb/0/targets", external_elsewhere},
        {"/lb/0/address", floating_too},
    };
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        struct node_error e;
        draft_guest(&l->guest);
        l->guest.b.generation = 1000 + i;
        web(l);
        bad[i].spoil(&l->guest);
        assert_false(try_put(l->a, &l->guest, &e));
        assert_int_equal(e.code, NODE_INVALID);
        assert_string_equal(e.pointer, bad[i].pointer);
    }
}

#define VIP_TEST(text, fn) \
    { \
        text, fn, vip_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        VIP_TEST("a virtual IP: TCP, UDP and ICMP go to a target and the answers come from the virtual IP",
                 there_and_back),
        VIP_TEST("targets have their shares of new connections", shares),
        VIP_TEST("affinity client-ip: one client, one target", client_affinity),
        VIP_TEST("O12 a target that goes down loses its connections, named, and they come back elsewhere", o12_down),
        VIP_TEST("O12 a target that goes down loses them to its own answers too", o12_down_answer),
        VIP_TEST("O12 a draining target finishes its connections and gets no new ones", o12_draining),
        VIP_TEST("O12 removing the last target touches no other virtual IP", o12_last_target),
        VIP_TEST("the most exact virtual IP serves", most_exact),
        VIP_TEST("a virtual IP's other ports are nobody's", not_its_port),
        VIP_TEST("a target that is talked to directly as well gets another source port", same_target_twice),
        VIP_TEST("T58 a guest reaches itself by its own virtual IP", t58_itself),
        VIP_TEST("T58 by its own virtual IP the port is the target's and the guest's own rules decide", t58_port),
        VIP_TEST("T58 a guest reaches itself from and to one port number", t58_one_port),
        VIP_TEST("T58 a guest reaches a target of the same node by a virtual IP", t58_neighbour),
        VIP_TEST("T58 a guest reaches itself by its own external virtual IP", t58_external),
        VIP_TEST("rules judge the virtual IP, not the target", rules_see_the_vip),
        VIP_TEST("a virtual IP is in the VPC whatever its address", vip_is_in_the_vpc),
        VIP_TEST("the way and its hop are the target's", target_in_another_subnet),
        VIP_TEST("a target outside the VPC is refused, named", target_outside),
        VIP_TEST("a connection older than the virtual IP stays where it is", vip_comes_later),
        VIP_TEST("a target that moves keeps its connections", target_moves),
        VIP_TEST("ICMP errors about a virtual IP's connection come to the client as it knows it", errors_to_the_client),
        VIP_TEST("ICMP errors from the client come to the target as it knows it", errors_to_the_target),
        VIP_TEST("ICMP errors go the way round", errors_to_itself),
        VIP_TEST("an external virtual IP serves connections from outside by its port", from_outside_in),
        VIP_TEST("two ports share the address of an external virtual IP", external_shared_by_ports),
        VIP_TEST("a virtual IP that is not external is not reached from outside", inner_stays_inside),
        VIP_TEST("O9 after a restart connections keep their targets", restart_keeps_the_target),
        VIP_TEST("T82 a trace names the virtual IP and its target", traced),
        VIP_TEST("T77 senseless virtual IPs are refused with the field's pointer", refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
