// SPDX-License-Identifier: MPL-2.0
// Congestion marks through the tunnel, packet by packet (RFC 6040): out in normal mode, in by figure 4.
#include "tests/behaviour/outside.h"

enum { NOT_ECT = 0, ECT1 = 1, ECT0 = 2, CE = 3, DROPPED = 4 };
#define DSCP 0xb8

static void set_tos(struct frame *f, uint8_t tos)
{
    uint8_t *l3 = f->bytes + 14;
    if (l3[0] >> 4 == 4) {
        l3[1] = tos;
        checksum_write_ip4(l3);
    } else {
        store_be16(l3, (uint16_t)((load_be16(l3) & 0xf00f) | tos << 4));
    }
}

static uint8_t tos_of(const uint8_t *l3)
{
    return l3[0] >> 4 == 4 ? l3[1] : (uint8_t)(load_be16(l3) >> 4);
}

// Rows: the inner mark as it was sent; columns: the outer mark as it came.
static const uint8_t figure4[4][4] = {
    [NOT_ECT] = {[NOT_ECT] = NOT_ECT, [ECT0] = NOT_ECT, [ECT1] = NOT_ECT, [CE] = DROPPED},
    [ECT0] = {[NOT_ECT] = ECT0, [ECT0] = ECT0, [ECT1] = ECT1, [CE] = CE},
    [ECT1] = {[NOT_ECT] = ECT1, [ECT0] = ECT1, [ECT1] = ECT1, [CE] = CE},
    [CE] = {[NOT_ECT] = CE, [ECT0] = CE, [ECT1] = CE, [CE] = CE},
};

static void in(void **state)
{
    struct lab *l = *state;
    allow_all_in(&l->guest);
    put(l->a, &l->guest);
    EACH_FAMILY(family)
    {
        for (unsigned i = 0; i < 16; i++) {
            uint8_t inner = i / 4, outer = i % 4, want = figure4[inner][outer];
            struct frame f = udp(family, P, 4000, G, 9000, 100);
            set_tos(&f, DSCP | inner);
            struct frame t = in_geneve(&f, 100, NODE_B, NODE_A);
            set_tos(&t, outer);
            fake_underlay(l->a, t.bytes, t.len);
            if (want == DROPPED) {
                expect_drop(l->a, 0, 0, DROP_ECN);
                continue;
            }
            struct frame at = expect_at(l->a, l->g);
            assert_int_equal(tos_of(at.bytes + 14), DSCP | want);
            assert_true(frame_checksums_right(at.bytes, at.len));
        }
        assert_int_equal(flows(l->a, l->g), family == 4 ? 1 : 2); // a mark is no part of a flow
    }
}

static void out(void **state)
{
    struct lab *l = *state;
    EACH_FAMILY(family)
    {
        for (uint8_t mark = NOT_ECT; mark <= CE; mark++) {
            struct frame f = udp(family, G, 4000, via(P, GATEWAY_MAC), 9000, 100);
            set_tos(&f, DSCP | mark);
            send_guest(l, &f);
            const struct fake_call *c = expect_underlay(l->a, NODE_B);
            assert_int_equal(tos_of(c->frame + 14), DSCP | mark);
            assert_int_equal(tos_of(c->frame + GENEVE_ENCAP_LEN + 14), DSCP | mark);
        }
    }
}

static void through_the_edge(void **state)
{
    struct lab *l = *state;
    map_external(l->a, FLOATING, 0, 65535, NODE_B, 1);
    EACH_FAMILY(family)
    {
        struct frame first = udp(family, FLOATING, 4000, via(OUTSIDE, LINK_MAC), 53, 100);
        struct frame know = in_geneve(&first, GENEVE_VNI_EDGE, NODE_B, NODE_A);
        fake_underlay(l->a, know.bytes, know.len);
        expect_outside(l->a);
        for (unsigned i = 0; i < 16; i++) {
            uint8_t inner = i / 4, outer = i % 4, want = figure4[inner][outer];
            struct frame f = first;
            set_tos(&f, inner);
            struct frame t = in_geneve(&f, GENEVE_VNI_EDGE, NODE_B, NODE_A);
            set_tos(&t, outer);
            fake_underlay(l->a, t.bytes, t.len);
            if (want == DROPPED) {
                expect_drop(l->a, 0, 0, DROP_ECN);
                continue;
            }
            struct frame at = expect_outside(l->a);
            assert_int_equal(tos_of(at.bytes + 14), want);
            assert_true(frame_checksums_right(at.bytes, at.len));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("T72 the outer mark reaches the inner packet by RFC 6040", in),
        TEST("T72 the inner mark and class go outside", out),
        {"T72 the outer mark reaches what an edge passes on", through_the_edge, edge_setup, lab_teardown, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
