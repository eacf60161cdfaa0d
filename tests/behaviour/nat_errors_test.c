// SPDX-License-Identifier: MPL-2.0
// ICMP errors about translated packets: the quoted packet is what its reader knows, addresses, ports, checksums.
#include "tests/behaviour/outside.h"

static const struct end HOP = {{{2, 0, 0, 0, 0, 1}}, "192.0.2.77", "2001:db8:77::1"}; // a router on the way

struct error {
    uint8_t type4, code4, type6, code6;
};
static const struct error errors[] = {{11, 0, 3, 0}, {3, 4, 2, 0}, {3, 3, 1, 4}};
static const uint8_t protocols[] = {IPPROTO_TCP4, IPPROTO_UDP4, IPPROTO_ICMP4};

static struct frame error_of(const struct error *e, int family, struct end from, struct ip_addr to,
                             const struct frame *about, uint32_t quoted)
{
    return error_about(family, from, to, about, quoted, family == 4 ? e->type4 : e->type6,
                       family == 4 ? e->code4 : e->code6);
}

// Is the packet quoted in `error` the one that `original` was, hop limit aside? With right checksums where whole.
static void expect_quoted(struct frame *error, struct frame *original, int family)
{
    uint32_t header = family == 4 ? 20 : 40, outer = 14 + header + 8;
    uint32_t n = error->len - outer;
    struct frame quoted = {.len = 14 + n};
    memcpy(quoted.bytes, original->bytes, 14);
    memcpy(quoted.bytes + 14, error->bytes + outer, n);
    assert_true(n <= original->len - 14);
    // The quoted packet had lost hops on its way: with them back, it is the original to the byte.
    uint8_t *was = original->bytes + 14, *is = quoted.bytes + 14;
    if (family == 4) {
        uint32_t sum = 0;
        for (unsigned i = 0; i < 20; i += 2)
            sum += load_be16(is + i);
        assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
        is[8] = was[8];
        memcpy(is + 10, was + 10, 2);
    } else {
        is[7] = was[7];
    }
    assert_memory_equal(is, was, n);
}

static void errors_come_home(struct lab *l, struct end external, uint16_t sport)
{
    EACH_FAMILY(family)
    {
        struct ip_addr to = ip(address_of(external, family));
        uint32_t header = family == 4 ? 20 : 40;
        for (unsigned p = 0; p < ARRAY_LEN(protocols); p++) {
            struct frame sent = start(protocols[p], family, G, sport++, via(OUTSIDE, GATEWAY_MAC), 443);
            send_guest(l, &sent);
            struct frame out = expect_outside(l->a);
            for (unsigned k = 0; k < ARRAY_LEN(errors); k++) {
                for (uint32_t quoted = header + 8; quoted <= out.len - 14; quoted += 7) {
                    struct frame error = error_of(&errors[k], family, HOP, to, &out, quoted);
                    from_outside(l->a, &error);
                    struct frame in = expect_at(l->a, l->g);
                    assert_true(goes(&in, family, HOP, G)); // the router keeps its address
                    assert_memory_equal(in.bytes, GUEST_MAC.b, 6);
                    expect_quoted(&in, &sent, family);
                    // The next-hop MTU and the like are passed on.
                    assert_memory_equal(in.bytes + 14 + header + 4, error.bytes + 14 + header + 4, 4);
                }
            }
            struct frame own = error_of(&errors[2], family, OUTSIDE, to, &out, header + 8); // from the peer itself
            from_outside(l->a, &own);
            struct frame in = expect_at(l->a, l->g);
            assert_true(goes(&in, family, OUTSIDE, G));
        }
    }
}

static void t55_snat(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    put(l->a, &l->guest);
    errors_come_home(l, SHARED, 30000);
}

static void t56_floating(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    errors_come_home(l, FLOATING, 30000);
}

static void t55_no_flow(void **state)
{
    struct lab *l = *state;
    give_snat(&l->guest, SHARED, 2000, 2999);
    give_floating(&l->guest, FLOATING, G);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    const struct end externals[] = {SHARED, FLOATING};
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 2; i++) {
            struct ip_addr to = ip(address_of(externals[i], family));
            struct frame never = udp(family, externals[i], 2500, OUTSIDE, 443, 10);
            struct frame error = error_of(&errors[0], family, HOP, to, &never, 60);
            from_outside(l->a, &error);
            expect_drop(l->a, l->g, COUNT_IN, DROP_ICMP_UNRELATED);
        }
    }
    assert_int_equal(flows(l->a, l->g), 0);
}

// The quoted packet must have come from where the error goes to: who quotes another's flow gets nothing through.
static void t55_wrong_addressee(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    give_floating(&l->guest, FLOATING_2, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 30000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &sent);
        struct frame out = expect_outside(l->a);
        struct end not = goes(&out, family, FLOATING, OUTSIDE) ? FLOATING_2 : FLOATING;
        struct frame error = error_of(&errors[0], family, HOP, ip(address_of(not, family)), &out, 60);
        from_outside(l->a, &error);
        expect_drop(l->a, l->g, COUNT_IN, DROP_ICMP_UNRELATED);
        // The other way: a guest cannot reach a third party by quoting a flow of its own.
        struct frame in = udp(family, OUTSIDE, 443, not, 30000, 10);
        struct frame to_third =
            error_of(&errors[2], family, G, ip(family == 4 ? "192.0.2.1" : "2001:db8:77::9"), &in, 60);
        frame_set_mac(&to_third, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &to_third);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_ICMP_UNRELATED);
        struct frame reply = reply_to(&out, 0);
        from_outside(l->a, &reply);
        struct frame at = expect_at(l->a, l->g);
        to_third = error_of(&errors[2], family, G, ip(family == 4 ? "192.0.2.1" : "2001:db8:77::9"), &at, 60);
        frame_set_mac(&to_third, GATEWAY_MAC, GUEST_MAC);
        send_guest(l, &to_third);
        expect_drop(l->a, l->g, COUNT_OUT, DROP_ICMP_UNRELATED);
    }
}

static void t56_from_guest(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    uint16_t sport = 5000;
    EACH_FAMILY(family)
    {
        uint32_t header = family == 4 ? 20 : 40;
        for (unsigned p = 0; p < 2; p++) {
            struct frame in = start(protocols[p], family, OUTSIDE, sport++, FLOATING, 33434);
            from_outside(l->a, &in);
            struct frame at = expect_at(l->a, l->g);
            for (uint32_t quoted = header + 8; quoted <= at.len - 14; quoted += 5) {
                struct frame error = error_of(&errors[2], family, G, ip(address_of(OUTSIDE, family)), &at, quoted);
                frame_set_mac(&error, GATEWAY_MAC, GUEST_MAC);
                send_guest(l, &error);
                struct frame out = expect_outside(l->a);
                assert_true(goes(&out, family, FLOATING, OUTSIDE));
                expect_quoted(&out, &in, family);
            }
        }
    }
}

// An error is a packet like others at the virtual router: it may not live for ever.
static void t91_hop_limit(void **state)
{
    struct lab *l = *state;
    give_floating(&l->guest, FLOATING, G);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        struct frame sent = udp(family, G, 30000, via(OUTSIDE, GATEWAY_MAC), 443, 10);
        send_guest(l, &sent);
        struct frame out = expect_outside(l->a);
        struct frame error = error_of(&errors[0], family, HOP, ip(address_of(FLOATING, family)), &out, 60);
        error.bytes[14 + (family == 4 ? 8 : 7)] = 1;
        frame_fix(&error);
        from_outside(l->a, &error);
        expect_drop(l->a, l->g, COUNT_IN, DROP_TTL_EXPIRED);
        error.bytes[14 + (family == 4 ? 8 : 7)] = 2;
        frame_fix(&error);
        from_outside(l->a, &error);
        struct frame in = expect_at(l->a, l->g);
        assert_int_equal(view_of(&in).ttl, 1);
        struct frame reply = reply_to(&out, 0);
        from_outside(l->a, &reply);
        struct frame at = expect_at(l->a, l->g);
        error = error_of(&errors[2], family, G, ip(address_of(OUTSIDE, family)), &at, 60);
        frame_set_mac(&error, GATEWAY_MAC, GUEST_MAC);
        error.bytes[14 + (family == 4 ? 8 : 7)] = 1;
        frame_fix(&error);
        send_guest(l, &error); // no error about an error
        expect_drop(l->a, l->g, COUNT_OUT, DROP_TTL_EXPIRED);
    }
}

#define EDGE_TEST(text, fn) \
    { \
        text, fn, edge_setup, lab_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE_TEST("T55 an ICMP error about an SNAT flow comes home with the guest's address and port inside", t55_snat),
        EDGE_TEST("T55 an ICMP error about no flow is dropped", t55_no_flow),
        EDGE_TEST("T55 an ICMP error to another than the quoted sender is dropped", t55_wrong_addressee),
        EDGE_TEST("T56 an ICMP error about a floating IP's flow comes home, however short the quote", t56_floating),
        EDGE_TEST("T56 a guest's ICMP error about an inbound flow leaves as the floating IP", t56_from_guest),
        EDGE_TEST("T91 ICMP errors lose hops too", t91_hop_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
