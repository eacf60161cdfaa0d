// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "engine/parse.h"
#include "node/frame.h"

static const struct ip_addr own[] = {{.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 3}},
                                     {.b = {0xfd, 0, 0, 0x10, [15] = 3}}};
static const struct ip_addr peer4 = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 4}};
static const struct ip_addr peer6 = {.b = {0xfd, 0, 0, 0x10, [15] = 4}};
static const struct blueprint b = {.l2 = {.mac = {{2, 0, 0, 0, 0, 3}}, .addresses = own, .n_addresses = 2},
                                   .gateway = {.mac = {{2, 0, 0, 0, 0, 1}}}};

static void described_packets_parse_as_described(void **state)
{
    const uint16_t protocols[] = {1, 6, 17, 58, 132, 50, 255};
    for (int v4 = 0; v4 < 2; v4++) {
        for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
            for (int out = 0; out < 2; out++) {
                struct trace_packet t = {.has_src = !out,
                                         .src = v4 ? peer4 : peer6,
                                         .dst = v4 ? peer4 : peer6,
                                         .proto = protocols[i],
                                         .sport = 1234,
                                         .dport = 80,
                                         .flags = 2,
                                         .has_length = true,
                                         .length = 301};
                if (!out)
                    t.dst = own[!v4];
                uint8_t frame[FRAME_MAX + 2048];
                const char *why;
                uint32_t len = frame_make(&b, &t, out, frame, &why);
                assert_int_equal(len, 14 + 301);
                struct packet p = {.data = frame, .len = len, .head = len, .room = sizeof(frame)};
                struct parsed pp;
                if (v4 && protocols[i] == 58)
                    continue; // ICMPv6 in IPv4: the dataplane's to judge
                assert_int_equal(parse_frame(&p, &pp), DROP_NONE);
                assert_int_equal(pp.ip_version, v4 ? 4 : 6);
                assert_int_equal(pp.protocol, protocols[i]);
                assert_true(ip_equal(&pp.dst, &t.dst));
                assert_true(ip_equal(&pp.src, out ? &own[!v4] : &t.src));
                if (protocols[i] == 6 || protocols[i] == 17 || protocols[i] == 132)
                    assert_int_equal(load_be16(&pp.dport), 80);
            }
        }
    }
}

static void impossible_descriptions_are_refused_with_a_reason(void **state)
{
    uint8_t frame[FRAME_MAX];
    const char *why;
    struct trace_packet t = {.has_src = true, .src = peer4, .dst = peer6, .proto = 6};
    assert_int_equal(frame_make(&b, &t, true, frame, &why), 0);
    assert_non_null(why);
    t = (struct trace_packet){.dst = peer4, .proto = 6}; // to the guest, from nowhere
    assert_int_equal(frame_make(&b, &t, false, frame, &why), 0);
    assert_non_null(why);
    t = (struct trace_packet){.dst = peer4, .proto = 6, .has_length = true, .length = 39};
    assert_int_equal(frame_make(&b, &t, true, frame, &why), 0);
    t.length = FRAME_MAX - 13;
    assert_int_equal(frame_make(&b, &t, true, frame, &why), 0);
    t.length = FRAME_MAX - 14;
    assert_int_equal(frame_make(&b, &t, true, frame, &why), FRAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(described_packets_parse_as_described),
        cmocka_unit_test(impossible_descriptions_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
