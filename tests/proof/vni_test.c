// SPDX-License-Identifier: MPL-2.0
// The VNI never crosses: under random policies, every frame that leaves in a tunnel carries the VNI that its route
// names, which is the port's own, a peering's, or the reserved one toward an edge; and the MAC of a mapping there.
#include "tests/behaviour/outside.h"

#define ROUNDS 2000
enum { OWN = 100, PEER_1 = 200, PEER_2 = 201, STRANGER = 300 };

static const uint32_t vnis[] = {OWN, PEER_1, PEER_2, STRANGER};
// Each destination is in the route of its place and in those behind it, the longest first.
static const char *const to4[] = {"10.0.0.4", "10.9.1.4", "10.9.2.4"}, *const to6[] = {"fd00::4", "fd09:0:1::4",
                                                                                       "fd09::4"};
static const char *const routes4[] = {"10.0.0.0/24", "10.9.1.0/24", "10.9.0.0/16"};
static const char *const routes6[] = {"fd00::/64", "fd09:0:1::/64", "fd09::/32"};
static const uint8_t kinds[] = {BLUEPRINT_TARGET_LOCAL,    BLUEPRINT_TARGET_IP,  BLUEPRINT_TARGET_PEERING,
                                BLUEPRINT_TARGET_EXTERNAL, BLUEPRINT_TARGET_NAT, BLUEPRINT_TARGET_BLACKHOLE};

static uint32_t seed = 1;

static uint32_t any(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % n;
}

static struct mac_addr mac_in(uint32_t vni)
{
    return (struct mac_addr){{2, 0, 0, 0, (uint8_t)(vni >> 8), (uint8_t)vni}};
}

static void map_all(struct lab *l) // the same addresses in every VPC
{
    for (unsigned v = 0; v < ARRAY_LEN(vnis); v++)
        for (unsigned i = 0; i < ARRAY_LEN(to4); i++) {
            map(l->a, vnis[v], to4[i], mac_in(vnis[v]), vnis[v] == OWN ? NODE_B : NODE_C, 10);
            map(l->a, vnis[v], to6[i], mac_in(vnis[v]), vnis[v] == OWN ? NODE_B : NODE_C, 10);
        }
}

// Adds a random route; the VNI in which its packets must leave, 0 = not at all.
static uint32_t any_route(struct draft *d, const char *to, bool v4)
{
    uint8_t kind = kinds[any(ARRAY_LEN(kinds))];
    draft_route(d, to, kind, kind == BLUEPRINT_TARGET_IP ? (v4 ? P.v4 : P.v6) : NULL);
    struct blueprint_target *t = &d->routes[d->b.n_routes - 1].target;
    switch (kind) {
    case BLUEPRINT_TARGET_PEERING:
        t->vni = any(2) ? PEER_1 : PEER_2;
        return t->vni;
    case BLUEPRINT_TARGET_EXTERNAL:
    case BLUEPRINT_TARGET_NAT:
        return GENEVE_VNI_EDGE;
    case BLUEPRINT_TARGET_BLACKHOLE:
        return 0;
    default:
        return OWN;
    }
}

static unsigned seen_own, seen_peer, seen_edge;

static void expect_in(struct fake *f, uint32_t want)
{
    for (const struct fake_call *c; (c = fake_next(f));) {
        if (c->kind != FAKE_UNDERLAY)
            continue; // the router's answer to the guest
        uint32_t vni = load_be32(c->frame + 66) >> 8;
        assert_int_equal(vni, want);
        vni == OWN ? seen_own++ : vni == GENEVE_VNI_EDGE ? seen_edge++ : seen_peer++;
        if (vni != GENEVE_VNI_EDGE)
            assert_memory_equal(c->frame + 70, mac_in(vni).b, 6);
    }
}

static void vni_never_crosses(void **state)
{
    struct lab *l = *state;
    map_all(l);
    serve(l->a, 10, 1, &NODE_B);
    fake_forget(l->a);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t want[2][3];
        struct draft *d = &l->guest;
        d->b.n_routes = 0;
        d->b.nat.n_floating = 0;
        give_floating(d, FLOATING, G);
        for (unsigned i = 0; i < 3; i++) {
            want[0][i] = any_route(d, routes4[i], true);
            want[1][i] = any_route(d, routes6[i], false);
        }
        put(l->a, d);
        fake_forget(l->a);
        for (unsigned i = 0; i < 12; i++) { // ports come again: flows meet policies that they were not made under
            unsigned at = any(3);
            int family = any(2) ? 4 : 6;
            struct end to = {GATEWAY_MAC, to4[at], to6[at]};
            struct frame f = udp(family, G, (uint16_t)(1000 + any(4)), to, 53, 10);
            send_guest(l, &f);
            expect_in(l->a, want[family == 6][at]);
        }
        fake_discard(l->a);
    }
    assert_true(seen_own > 1000 && seen_peer > 1000 && seen_edge > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T10 under random policies every tunnelled packet is in its route's VNI", vni_never_crosses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
