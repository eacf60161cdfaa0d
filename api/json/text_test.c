// SPDX-License-Identifier: MPL-2.0
#include "api/json/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void addresses(void **state)
{
    static const struct {
        const char *in, *out; // out NULL: refused
    } cases[] = {
        {"10.0.0.3", "10.0.0.3"},
        {"0.0.0.0", "0.0.0.0"},
        {"FD00:10:0:0:0:0:0:3", "fd00:10::3"},
        {"::", "::"},
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"}, // RFC 5952 4.2.3
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        {"64:ff9b::192.0.2.1", "64:ff9b::c000:201"},
        {"::ffff:10.0.0.3", NULL},
        {"::ffff:a00:3", NULL},
        {"10.0.0", NULL},
        {"10.0.0.03", NULL},
        {"10.0.0.256", NULL},
        {" 10.0.0.1", NULL},
        {"10.0.0.1 ", NULL},
        {"fe80::1%eth0", NULL},
        {"fd00:::1", NULL},
        {"1:2:3:4:5:6:7:8:9", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ip_addr a;
        char text[IP_TEXT];
        assert_int_equal(ip_from_text(cases[i].in, &a), cases[i].out != NULL);
        if (!cases[i].out)
            continue;
        ip_to_text(&a, text);
        assert_string_equal(text, cases[i].out);
    }
}

static void prefixes(void **state)
{
    static const struct {
        const char *in;
        enum prefix_text result;
        const char *out;
        uint8_t len;
    } cases[] = {
        {"10.0.0.0/24", PREFIX_TEXT_OK, "10.0.0.0/24", 120},
        {"0.0.0.0/0", PREFIX_TEXT_OK, "0.0.0.0/0", 96},
        {"10.0.0.3/32", PREFIX_TEXT_OK, "10.0.0.3/32", 128},
        {"::/0", PREFIX_TEXT_OK, "::/0", 0},
        {"fd00:10::/64", PREFIX_TEXT_OK, "fd00:10::/64", 64},
        {"fd00:10::3/128", PREFIX_TEXT_OK, "fd00:10::3/128", 128},
        {"10.0.0.3/24", PREFIX_TEXT_HOST_BITS, "10.0.0.0/24", 120},
        {"10.0.0.128/24", PREFIX_TEXT_HOST_BITS, "10.0.0.0/24", 120},
        {"10.64.0.0/9", PREFIX_TEXT_HOST_BITS, "10.0.0.0/9", 105},
        {"1.2.3.4/0", PREFIX_TEXT_HOST_BITS, "0.0.0.0/0", 96},
        {"8000::/1", PREFIX_TEXT_OK, "8000::/1", 1},
        {"c000::/1", PREFIX_TEXT_HOST_BITS, "8000::/1", 1},
        {"::1/0", PREFIX_TEXT_HOST_BITS, "::/0", 0},
        {"10.0.0.0/33", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"fd00::/129", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0/", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0/+8", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0/08", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0/8/8", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0/99999999999", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"10.0.0.0", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"/8", PREFIX_TEXT_MALFORMED, NULL, 0},
        {"00000000000000000000000000000000000000000000000000::/8", PREFIX_TEXT_MALFORMED, NULL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ip_prefix p;
        char text[PREFIX_TEXT];
        assert_int_equal(prefix_from_text(cases[i].in, &p), cases[i].result);
        if (!cases[i].out)
            continue;
        prefix_to_text(&p, text);
        assert_string_equal(text, cases[i].out);
        assert_int_equal(p.len, cases[i].len);
    }
}

static void longest_texts_fit(void **state)
{
    struct ip_prefix p = {.len = 128};
    char text[PREFIX_TEXT];
    memset(p.addr.b, 0xee, 16);
    prefix_to_text(&p, text);
    assert_string_equal(text, "eeee:eeee:eeee:eeee:eeee:eeee:eeee:eeee/128");
    struct port_range r = {10000, 65535};
    char ports[PORTS_TEXT];
    ports_to_text(&r, ports);
    assert_string_equal(ports, "10000-65535");
    char flags[TCP_FLAGS_TEXT];
    tcp_flags_to_text(0xff, flags);
    assert_string_equal(flags, "FSRPAUEC");
}

static void uuids_and_macs(void **state)
{
    struct uuid u;
    struct mac_addr m;
    char text[UUID_TEXT], mac[MAC_TEXT];
    assert_true(uuid_from_text("0190A6B2-7c11-7e9a-8f3e-5d2c41a7b001", &u));
    uuid_to_text(&u, text);
    assert_string_equal(text, "0190a6b2-7c11-7e9a-8f3e-5d2c41a7b001");
    assert_false(uuid_from_text("0190a6b2-7c11-7e9a-8f3e-5d2c41a7b00", &u));
    assert_false(uuid_from_text("0190a6b27-c11-7e9a-8f3e-5d2c41a7b001", &u));
    assert_false(uuid_from_text("0190a6b2-7c11-7e9a-8f3e-5d2c41a7b0g1", &u));
    assert_true(mac_from_text("02:Ab:0a:00:00:03", &m));
    mac_to_text(&m, mac);
    assert_string_equal(mac, "02:ab:0a:00:00:03");
    assert_false(mac_from_text("02-ab-0a-00-00-03", &m));
    assert_false(mac_from_text("02:ab:0a:00:00:3", &m));
    assert_false(mac_from_text("02:ab:0a:00:00:03:", &m));
}

static void ports_and_protocols(void **state)
{
    struct port_range r;
    uint16_t p;
    uint8_t flags;
    char text[PORTS_TEXT];
    assert_true(ports_from_text("80-90", &r));
    ports_to_text(&r, text);
    assert_string_equal(text, "80-90");
    assert_true(ports_from_text("22-22", &r));
    ports_to_text(&r, text);
    assert_string_equal(text, "22");
    assert_false(ports_from_text("90-80", &r));
    assert_false(ports_from_text("-80", &r));
    assert_false(ports_from_text("080", &r));
    assert_false(ports_from_text("65536", &r));
    assert_false(ports_from_text("99999999999999999999", &r));
    assert_true(protocol_from_text("esp", &p) && p == 50);
    assert_true(protocol_from_text("any", &p) && p == PROTOCOL_ANY);
    assert_true(protocol_from_text("0", &p) && p == 0);
    assert_false(protocol_from_text("256", &p));
    assert_false(protocol_from_text("", &p));
    assert_true(tcp_flags_from_text("SA", &flags) && flags == 0x12);
    assert_false(tcp_flags_from_text("SX", &flags));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "addresses: strict in, RFC 5952 out, never v4-mapped", .test_func = addresses},
        {.name = "prefixes: lengths of the 16-byte form, host bits told from nonsense", .test_func = prefixes},
        {.name = "the longest texts fit", .test_func = longest_texts_fit},
        {.name = "UUIDs and MAC addresses", .test_func = uuids_and_macs},
        {.name = "ports, protocols, TCP flags", .test_func = ports_and_protocols},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
