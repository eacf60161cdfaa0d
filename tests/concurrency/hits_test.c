// SPDX-License-Identifier: MPL-2.0
// T87: what a hit costs, by the platform's own books, where it goes through two ports or out of an edge: no lock, no
// memory, nothing deferred.
#include "engine/atomic.h"
#include "tests/concurrency/crowd.h"

static const struct end NEXT_DOOR = {MAC_OF(5), "10.0.0.5", "fd00::5"};

struct stage {
    struct crowd *c;
    struct draft drafts[2];
    uint32_t g, q;
};

static void send_one(struct stage *s, enum crowd_side side, uint32_t port, const struct frame *f)
{
    crowd_self = 0;
    struct packet *p = crowd_packet(s->c, 0, f->bytes, f->len);
    crowd_self = CROWD_CONTROL;
    p->csum = side == CROWD_UNDERLAY ? CSUM_VERIFIED : CSUM_FULL;
    crowd_receive(s->c, 0, side, port, &p, 1);
}

static int setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct node_config config = edge_config(NODE_A);
    s->c = crowd_create(&config);
    draft_guest(&s->drafts[0]);
    draft_init(&s->drafts[1], 5, 100, NEXT_DOOR.v4, NEXT_DOOR.v6, NEXT_DOOR.mac);
    for (unsigned i = 0; i < 2; i++)
        allow_all_in(&s->drafts[i]);
    give_snat(&s->drafts[0], SHARED, 2000, 2999);
    give_floating(&s->drafts[1], FLOATING, NEXT_DOOR);
    s->g = put(&s->c->lab, &s->drafts[0]);
    s->q = put(&s->c->lab, &s->drafts[1]);
    map(&s->c->lab, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(&s->c->lab, 100, P.v6, PEER_MAC, NODE_B, 1);
    map(&s->c->lab, 100, NEXT_DOOR.v4, NEXT_DOOR.mac, NODE_A, 1);
    map(&s->c->lab, 100, NEXT_DOOR.v6, NEXT_DOOR.mac, NODE_A, 1);
    serve(&s->c->lab, 1, 1, &NODE_A);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct stage *s = *state;
    check_conservation(&s->c->lab);
    crowd_destroy(s->c);
    free(s);
    return 0;
}

struct costs {
    uint64_t locks, allocations, defers, hits, misses, out;
};

static struct costs costs(struct stage *s)
{
    struct crowd_worker w = s->c->workers[0];
    struct costs k = {w.locks, w.allocations, w.defers, 0, 0, w.delivered + w.underlay + w.external};
    for (uint32_t i = node_port_next(s->c->lab.node, 0); i; i = node_port_next(s->c->lab.node, i)) {
        struct port_counters p;
        node_port_counters(s->c->lab.node, i, &p);
        k.hits += p.hits[0] + p.hits[1];
        k.misses += p.misses[0] + p.misses[1];
    }
    return k;
}

// The packet is of a flow that exists. `passes`: ports it goes through on this node.
static void expect_free(struct stage *s, enum crowd_side side, uint32_t port, const struct frame *f, unsigned passes)
{
    struct costs before = costs(s);
    for (unsigned i = 0; i < 100; i++)
        send_one(s, side, port, f);
    struct costs after = costs(s);
    assert_int_equal(after.locks - before.locks, 0);
    assert_int_equal(after.allocations - before.allocations, 0);
    assert_int_equal(after.defers - before.defers, 0);
    assert_int_equal(after.misses - before.misses, 0);
    assert_int_equal(after.hits - before.hits, 100 * passes);
    assert_int_equal(after.out - before.out, 100);
}

static void t87_local(void **state)
{
    struct stage *s = *state;
    EACH_FAMILY(family)
    {
        struct frame there = udp(family, G, 1002, NEXT_DOOR, 53, 40), back = udp(family, NEXT_DOOR, 53, G, 1002, 40);
        map(&s->c->lab, 100, address_of(G, family), GUEST_MAC, NODE_A, 1);
        send_one(s, CROWD_GUEST, s->g, &there);
        send_one(s, CROWD_GUEST, s->q, &back);
        expect_free(s, CROWD_GUEST, s->g, &there, 2);
        expect_free(s, CROWD_GUEST, s->q, &back, 2);
    }
}

// The router's MAC address is asked for once and then found without a lock, for SNAT and floating IPs alike.
static void t87_outside(void **state)
{
    struct stage *s = *state;
    struct end router = {MAC_OF(0xe2), "198.51.100.1", "2001:db8:e::1"};
    EACH_FAMILY(family)
    {
        struct frame shared = udp(family, G, 1003, via(OUTSIDE, GATEWAY_MAC), 53, 40);
        struct frame own = udp(family, NEXT_DOOR, 1003, via(OUTSIDE, GATEWAY_MAC), 53, 40);
        struct frame hello = arp_request(ROUTER_MAC, router.v4, FLOATING.v4);
        if (family == 6) { // a solicitation from the router: its address is learned as it was asked for
            hello = icmp(6, router, FLOATING, 135, 0);
            hello.bytes[21] = 255;
            memcpy(hello.bytes + 62, ip(FLOATING.v6).b, 16);
            hello.bytes[78] = hello.bytes[79] = 1;
            memcpy(hello.bytes + 80, ROUTER_MAC.b, 6);
            frame_fix(&hello);
        }
        send_one(s, CROWD_GUEST, s->g, &shared);
        send_one(s, CROWD_GUEST, s->q, &own);
        send_one(s, CROWD_OUTSIDE, 0, &hello);
        expect_free(s, CROWD_GUEST, s->g, &shared, 1);
        expect_free(s, CROWD_GUEST, s->q, &own, 1);
        struct frame answer = udp(family, via(OUTSIDE, ROUTER_MAC), 53, via(FLOATING, LINK_MAC), 1003, 40);
        send_one(s, CROWD_OUTSIDE, 0, &answer);
        expect_free(s, CROWD_OUTSIDE, 0, &answer, 1);
    }
}

// The books are kept: a first packet costs all three.
static void t87_misses_are_seen(void **state)
{
    struct stage *s = *state;
    struct frame f = udp(4, G, 1004, P, 53, 40);
    struct costs before = costs(s);
    send_one(s, CROWD_GUEST, s->g, &f);
    struct costs after = costs(s);
    assert_true(after.locks > before.locks);
    assert_int_equal(after.allocations, before.allocations); // memory is taken when the node is made
    assert_int_equal(after.misses, before.misses + 1);
    struct frame echo = arp_request(GUEST_MAC, G.v4, "10.0.0.1"); // a reply in the question's own buffer
    send_one(s, CROWD_GUEST, s->g, &echo);
    assert_int_equal(costs(s).allocations, before.allocations);
}

#define STAGED(text, fn) \
    { \
        text, fn, setup, teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED("T87 hits between ports of a node take no lock and no memory", t87_local),
        STAGED("T87 hits to and from outside take no lock and no memory", t87_outside),
        STAGED("T87 the hook sees what a first packet costs", t87_misses_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
