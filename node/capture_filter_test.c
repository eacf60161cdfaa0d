// SPDX-License-Identifier: MPL-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
// clang-format on
#include "engine/base.h"
#include "node/capture_filter.h"

static const uint8_t syn[54] = {
    2,    0, 0, 0,    0,    1, 2,  0, 0,  0, 0, 3, 8,  0, // TCP 10.0.0.3:4000 > 10.0.0.4:80, SYN
    0x45, 0, 0, 40,   0,    0, 0,  0, 64, 6, 0, 0, 10, 0, 0, 3,    10,
    0,    0, 4, 0x0f, 0xa0, 0, 80, 0, 0,  0, 0, 0, 0,  0, 0, 0x50, 2};

static bool matches(const char *expression, uint32_t captured)
{
    char error[256] = "";
    struct capture_filter *f = capture_filter_compile(expression, error, sizeof(error));
    if (!f)
        fail_msg("%s: %s", expression, error);
    bool yes = capture_filter_matches(f, syn, captured, sizeof(syn));
    capture_filter_free(f);
    return yes;
}

static void expressions(void **state)
{
    static const char *const yes[] = {"",
                                      "tcp",
                                      "tcp port 80 and host 10.0.0.4",
                                      "src net 10.0.0.0/24",
                                      "port http",
                                      "ether src 02:00:00:00:00:03",
                                      "tcp[tcpflags] & tcp-syn != 0",
                                      "not udp",
                                      "ip[9] == 6",
                                      "dst host 10.0.0.4 && !(port 22)",
                                      "ether proto \\ip",
                                      "ip proto \\tcp"};
    static const char *const no[] = {"udp", "port 443", "host fd00::4", "ip6", "vlan 5", "icmp[icmptype] == icmp-echo"};
    for (unsigned i = 0; i < ARRAY_LEN(yes); i++)
        if (!matches(yes[i], sizeof(syn)))
            fail_msg("%s does not match", yes[i]);
    for (unsigned i = 0; i < ARRAY_LEN(no); i++)
        if (matches(no[i], sizeof(syn)))
            fail_msg("%s matches", no[i]);
}

static void short_frames(void **state)
{
    for (uint32_t n = 0; n < sizeof(syn); n++) {
        uint8_t *part = test_malloc(n ? n : 1); // so that a read beyond it is seen
        memcpy(part, syn, n);
        char error[256];
        struct capture_filter *f = capture_filter_compile("tcp port 80 and tcp[13] == 2", error, sizeof(error));
        assert_non_null(f);
        assert_int_equal(capture_filter_matches(f, part, n, sizeof(syn)), n >= 48);
        capture_filter_free(f);
        test_free(part);
    }
}

static void refused(void **state)
{
    static const char *const wrong[] = {"tcp port",        "port 80 port 90 (", "host www.example.org",
                                        "www.example.org", "net localnet",      "gibberish",
                                        "tcp and port",    "host 10.0.0.256",   "ether host friend"};
    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
        char error[256] = "";
        assert_null(capture_filter_compile(wrong[i], error, sizeof(error)));
        assert_true(error[0]);
    }
    char longest[CAPTURE_FILTER_MAX + 2], error[256];
    memset(longest, ' ', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    assert_null(capture_filter_compile(longest, error, sizeof(error)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a filter says which frames are wanted", expressions, NULL, NULL, NULL},
        {"a filter reads no byte that was not captured", short_frames, NULL, NULL, NULL},
        {"an expression that is none is refused with the reason, and no name is looked up", refused, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
