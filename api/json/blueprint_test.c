// SPDX-License-Identifier: MPL-2.0
#include "api/json/test_document.h"
#include "api/json/text.h"

static void golden_round_trips(void **state)
{
    struct api_error_list errors;
    json_t *json = golden("blueprint.json");
    struct api_document *d = load_json(API_BLUEPRINT, json, &errors);
    if (!d)
        assert_error(&errors, "golden", "", "");
    json_t *again = api_dump(API_BLUEPRINT, d->blueprint);
    if (!json_equal(json, again))
        fail_msg("dumped: %s", json_dumps(again, 0));
    json_decref(again);

    struct api_document *second = api_load(API_BLUEPRINT, d->text, d->text_len, &errors);
    assert_non_null(second);
    assert_string_equal(second->text, d->text);
    assert_memory_equal(second->blueprint->hash, d->blueprint->hash, 32);
    api_document_free(second);
    api_document_free(d);
    json_decref(json);
}

static void assert_ip(const struct ip_addr *a, const char *text)
{
    char found[IP_TEXT];
    ip_to_text(a, found);
    assert_string_equal(found, text);
}

static void golden_fills_the_struct(void **state)
{
    struct api_error_list errors;
    json_t *json = golden("blueprint.json");
    struct api_document *d = load_json(API_BLUEPRINT, json, &errors);
    const struct blueprint *b = d->blueprint;
    assert_int_equal(b->generation, 7);
    assert_string_equal(b->name, "web");
    assert_int_equal(b->vpc.vni, 100);
    assert_int_equal(b->device.kind, BLUEPRINT_DEVICE_VETH);
    assert_string_equal(b->device.ifname, "nv-web");
    assert_int_equal(b->l2.n_addresses, 2);
    assert_true(ip_is_v4(&b->l2.addresses[0]));
    assert_ip(&b->l2.addresses[1], "fd00:10::3");
    assert_int_equal(b->l2.n_allowed, 3);
    assert_int_equal(b->l2.allowed[0].cidr.len, 96 + 16);
    assert_false(b->l2.allowed[0].has_mac);
    assert_true(b->l2.allowed[1].has_mac);
    assert_int_equal(b->l2.allowed[2].dir, BLUEPRINT_IN);
    assert_true(b->gateway.has_v4 && b->gateway.has_v6);
    assert_true(b->gateway.dhcp4.enabled && b->gateway.dhcp6.enabled && b->gateway.ra.enabled);
    assert_true(ip_is_unspecified(&b->gateway.dhcp4.routes[0].via));
    assert_ip(&b->gateway.dhcp4.routes[1].via, "10.0.0.50");
    assert_string_equal(b->gateway.metadata.document,
                        "{\"hostname\":\"web\",\"instance-id\":\"i-0a1b2c3d\","
                        "\"public-keys\":{\"0\":{\"openssh-key\":\"ssh-ed25519 AAAA caf\xc3\xa9\"}},"
                        "\"user-data\":\"#cloud-config\\nhostname: web\\n\"}");
    const struct blueprint_rule *r = b->firewall.rules;
    assert_int_equal(b->firewall.n_rules, 5);
    assert_int_equal(r[0].n_ports, 3);
    assert_int_equal(r[0].ports[1].first, 80);
    assert_int_equal(r[0].ports[1].last, 90);
    assert_int_equal(r[0].remote.kind, BLUEPRINT_REMOTE_CIDRS);
    assert_int_equal(r[0].remote.cidrs[0].len, 96);
    assert_int_equal(r[0].remote.cidrs[1].len, 0);
    assert_int_equal(r[1].icmp[0].type, 8);
    assert_int_equal(r[1].icmp[0].code, -1);
    assert_int_equal(r[1].remote.kind, BLUEPRINT_REMOTE_VPC);
    assert_int_equal(r[2].proto, 58);
    assert_int_equal(r[3].remote.kind, BLUEPRINT_REMOTE_SET);
    assert_int_equal(r[4].proto, 89);
    assert_int_equal(b->posture.in[0].proto, PROTOCOL_ANY);
    assert_true(b->routes[2].custom);
    assert_int_equal(b->routes[4].target.vni, 200);
    assert_true(b->routes[5].target.has_network);
    assert_int_equal(b->nat.snat[0].ports.last, 3071);
    assert_int_equal(b->limits.flows_min, 100);
    api_document_free(d);
    json_decref(json);
}

static const char minimal[] =
    "{\"schema\":1,\"port\":\"0190a6b2-7c11-7e9a-8f3e-5d2c41a7b001\",\"generation\":1,"
    "\"vpc\":{\"id\":\"0190a6b2-7c11-7e9a-8f3e-5d2c41a7a001\",\"vni\":100,\"mtu\":1430},\"device\":{\"kind\":\"none\"},"
    "\"l2\":{\"mac\":\"02:00:0a:00:00:03\",\"addresses\":[\"10.0.0.3\"]},\"gateway\":{\"mac\":\"02:00:00:00:00:01\"}}";

static void absent_fields_have_defaults(void **state)
{
    struct api_error_list errors;
    struct api_document *d = load_text(API_BLUEPRINT, minimal, &errors);
    assert_non_null(d);
    const struct blueprint *b = d->blueprint;
    assert_string_equal(b->name, "");
    assert_string_equal(b->device.ifname, "");
    assert_int_equal(b->device.queues, 1);
    assert_true(b->device.offloads);
    assert_true(b->l2.anti_spoof);
    assert_false(b->gateway.has_v4 || b->gateway.dhcp4.enabled || b->gateway.metadata.enabled);
    assert_string_equal(b->gateway.dhcp4.domain, "");
    assert_string_equal(b->gateway.metadata.document, "{}");
    assert_false(b->firewall.default_in_allow);
    assert_true(b->firewall.default_out_allow);
    assert_false(b->firewall.established_keep);
    assert_int_equal(b->limits.flows_max, 65536);
    api_document_free(d);
}

static void dumped_defaults_are_loadable(void **state)
{
    struct api_error_list errors;
    struct api_document *d = load_text(API_BLUEPRINT, minimal, &errors);
    json_t *json = api_dump(API_BLUEPRINT, d->blueprint);
    json_object_del(json, "hash");
    struct api_document *again = load_json(API_BLUEPRINT, json, &errors);
    assert_non_null(again);
    json_t *second = api_dump(API_BLUEPRINT, again->blueprint);
    json_object_del(second, "hash");
    assert_true(json_equal(json, second));
    json_decref(second);
    json_decref(json);
    api_document_free(again);
    api_document_free(d);
}

static void rule_defaults(void **state)
{
    struct api_error_list errors;
    json_t *json = json_loads(minimal, 0, NULL);
    set_at(json, "/firewall", "{\"rules\":[{\"id\":\"r1\",\"prio\":1,\"dir\":\"in\",\"action\":\"allow\"}]}");
    struct api_document *d = load_json(API_BLUEPRINT, json, &errors);
    assert_non_null(d);
    const struct blueprint_rule *r = d->blueprint->firewall.rules;
    assert_int_equal(r->proto, PROTOCOL_ANY);
    assert_int_equal(r->remote.kind, BLUEPRINT_REMOTE_ANY);
    assert_true(r->stateful);
    assert_false(r->log);
    api_document_free(d);
    json_decref(json);
}

struct change { // to the golden blueprint
    const char *at, *json;
    const char *pointer, *code; // code NULL: accepted
};

#define SAME NULL // the error is where the change is

static const struct change changes[] = {
    // whole document
    {"/colour", "1", SAME, "unknown-field"},
    {"/x-colour", "1", SAME, NULL},
    {"/a~b", "1", "/a~0b", "unknown-field"},
    {"/schema", "2", SAME, "range"}, // T76
    {"/schema", NULL, SAME, "missing"},
    {"/port", NULL, SAME, "missing"},
    {"/port", "\"0190a6b2-7c11-7e9a-8f3e-5d2c41a7b00\"", SAME, "format"},
    {"/port", "\"0190a6b2x7c11-7e9a-8f3e-5d2c41a7b001\"", SAME, "format"},
    {"/port", "17", SAME, "type"},
    {"/generation", "0", SAME, "range"},
    {"/generation", "-1", SAME, "range"},
    {"/generation", "1.5", SAME, "type"},
    {"/generation", "\"7\"", SAME, "type"},
    {"/hash", "\"md5:00\"", SAME, "format"},
    {"/hash", "\"sha256:4ce9d86a58f22fb5966eda32fd404ea56b37e6c9c93111b80762215d4874d1ba\"", SAME, "hash"},
    {"/hash", NULL, SAME, NULL},
    {"/name", "\"a\\u0007b\"", SAME, "format"},
    {"/pipeline", "\"bridge\"", SAME, "unsupported"},
    {"/pipeline", "\"vcp\"", SAME, "word"},
    // vpc, device
    {"/vpc", NULL, SAME, "missing"},
    {"/vpc", "[]", SAME, "type"},
    {"/vpc/vni", "0", SAME, "range"},
    {"/vpc/vni", "16777214", SAME, "range"}, // the reserved VNI
    {"/vpc/mtu", "1279", SAME, "range"},
    {"/vpc/mtu", "\"auto\"", SAME, "type"},
    {"/device/kind", "\"vhost-user\"", SAME, "unsupported"},
    {"/device/kind", "\"vteh\"", SAME, "word"},
    {"/device/kind", "\"none\"", "/device/ifname", "not-applicable"},
    {"/device/ifname", NULL, SAME, "missing"},
    {"/device/ifname", "\"\"", SAME, "missing"},
    {"/device/ifname", "\"sixteen-letters-\"", SAME, "too-large"},
    {"/device/ifname", "\"a/b\"", SAME, "format"},
    {"/device/socket", "\"/run/x.sock\"", SAME, "not-applicable"},
    {"/device/queues", "0", SAME, "range"},
    {"/device/queues", "17", SAME, "range"},
    {"/device/offloads", "1", SAME, "type"},
    // l2
    {"/l2/mac", "\"02:00:0a:00:00\"", SAME, "format"},
    {"/l2/mac", "\"03:00:0a:00:00:03\"", SAME, "range"},
    {"/l2/mac", "\"00:00:00:00:00:00\"", SAME, "range"},
    {"/l2/mac", "\"02:00:00:00:00:01\"", SAME, "conflict"}, // the gateway's
    {"/l2/mac", NULL, SAME, "missing"},
    {"/l2/addresses", "[]", SAME, "range"},
    {"/l2/addresses", "\"10.0.0.3\"", SAME, "type"},
    {"/l2/addresses/0", "\"10.0.0.300\"", SAME, "format"},
    {"/l2/addresses/0", "\"010.0.0.3\"", SAME, "format"},
    {"/l2/addresses/0", "\"10.0.0.3/32\"", SAME, "format"},
    {"/l2/addresses/1", "\"::ffff:10.0.0.3\"", SAME, "format"},
    {"/l2/addresses/1", "\"ff02::1\"", SAME, "range"},
    {"/l2/addresses/2", "\"fe80::3\"", SAME, "range"},
    {"/l2/addresses/2", "\"0.0.0.0\"", SAME, "range"},
    {"/l2/addresses/2", "\"255.255.255.255\"", SAME, "range"},
    {"/l2/addresses/2", "\"10.0.0.3\"", SAME, "duplicate"},
    {"/l2/addresses/2", "\"10.0.0.1\"", SAME, "conflict"},
    {"/l2/allowed/0/cidr", "\"192.168.0.1/16\"", SAME, "host-bits"},
    {"/l2/allowed/0/cidr", "\"192.168.0.0/33\"", SAME, "format"},
    {"/l2/allowed/0/cidr", "\"192.168.0.0/016\"", SAME, "format"},
    {"/l2/allowed/0/cidr", "\"192.168.0.0\"", SAME, "format"},
    {"/l2/allowed/2/cidr", "\"fd00:20::1/64\"", SAME, "host-bits"},
    {"/l2/allowed/1/mac", "null", SAME, NULL},
    {"/l2/allowed/1/mac", "\"x\"", SAME, "format"},
    {"/l2/allowed/0/dir", "\"sideways\"", SAME, "word"},
    // gateway
    {"/gateway/v4", "\"fd00::1\"", SAME, "family"},
    {"/gateway/v6", "\"10.0.0.1\"", SAME, "family"},
    {"/gateway/v6", "null", SAME, NULL},
    {"/gateway/subnets/0", "\"10.0.0.1/24\"", SAME, "host-bits"},
    {"/gateway/guest_prefix", "\"net\"", SAME, "word"},
    {"/gateway/dhcp4/lease_s", "59", SAME, "range"},
    {"/gateway/dhcp4/dns/0", "\"fd00::2\"", SAME, "family"},
    {"/gateway/dhcp4/hostname", "\"-web\"", SAME, "format"},
    {"/gateway/dhcp4/domain", "\"a..b\"", SAME, "format"},
    {"/gateway/dhcp4/routes/0/prefix", "\"fd00::/64\"", SAME, "family"},
    {"/gateway/dhcp4/routes/1/via", "\"fd00::1\"", SAME, "family"},
    {"/gateway/dhcp4", "null", SAME, NULL},
    {"/gateway/dhcp6/dns/0", "\"9.9.9.9\"", SAME, "family"},
    {"/gateway/dhcp6", "{}", SAME, NULL},
    {"/gateway/ra/slaac", "null", SAME, "type"},
    {"/gateway/metadata/document", "[]", SAME, "type"},
    {"/gateway/metadata/document/weight", "0.5", SAME, "type"},
    // rules: T77, the error is at the rule
    {"/firewall/default_in", "\"reject\"", SAME, "word"},
    {"/firewall/rules", "{}", SAME, "type"},
    {"/firewall/rules/1", "7", SAME, "type"},
    {"/firewall/rules/1/id", NULL, SAME, "missing"},
    {"/firewall/rules/1/id", "\"\"", SAME, "format"},
    {"/firewall/rules/1/id", "\"two words\"", SAME, "format"},
    {"/firewall/rules/1/id", "\"ssh-and-web\"", SAME, "duplicate"},
    {"/firewall/rules/1/id", "\"default-in\"", SAME, "conflict"},
    {"/firewall/rules/1/prio", "65536", SAME, "range"},
    {"/firewall/rules/1/dir", "\"both\"", SAME, "word"},
    {"/firewall/rules/1/action", "\"drop\"", SAME, "word"},
    {"/firewall/rules/1/action", NULL, SAME, "missing"},
    {"/firewall/rules/0/proto", "\"tpc\"", SAME, "word"},
    {"/firewall/rules/0/proto", "256", SAME, "range"},
    {"/firewall/rules/0/proto", "\"256\"", SAME, "word"},
    {"/firewall/rules/0/proto", "\"6\"", SAME, NULL},
    {"/firewall/rules/0/proto", "6", SAME, NULL},
    {"/firewall/rules/0/proto", "true", SAME, "type"},
    {"/firewall/rules/0/proto", "\"any\"", "/firewall/rules/0/ports", "not-applicable"},
    {"/firewall/rules/0/ports/0", "\"22-\"", SAME, "format"},
    {"/firewall/rules/0/ports/0", "\"90-80\"", SAME, "format"},
    {"/firewall/rules/0/ports/0", "\"65536\"", SAME, "format"},
    {"/firewall/rules/0/ports/0", "\"\"", SAME, "format"},
    {"/firewall/rules/0/ports/0", "22", SAME, "type"},
    {"/firewall/rules/0/icmp", "[{\"type\":8}]", SAME, "not-applicable"},
    {"/firewall/rules/1/icmp/0/type", "256", SAME, "range"},
    {"/firewall/rules/1/icmp/0/code", "\"any\"", SAME, "type"},
    {"/firewall/rules/0/remote", "{}", SAME, "one-of"},
    {"/firewall/rules/0/remote", "{\"any\":true,\"vpc\":true}", SAME, "one-of"},
    {"/firewall/rules/0/remote", "{\"any\":false}", "/firewall/rules/0/remote/any", "range"},
    {"/firewall/rules/0/remote", "{\"cidrs\":[\"10.0.0.1/8\"]}", "/firewall/rules/0/remote/cidrs/0", "host-bits"},
    {"/firewall/rules/0/remote", "{\"set\":\"web\"}", "/firewall/rules/0/remote/set", "format"},
    {"/firewall/rules/0/remote", "{\"group\":\"web\"}", NULL, "two"},
    {"/firewall/rules/0/stateful", "false", SAME, "unsupported"},
    {"/firewall/rules/0/meter", "4294967296", SAME, "range"},
    {"/posture/out/0/dir", "\"in\"", SAME, "conflict"},
    {"/posture/in/0/proto", "\"tcp/udp\"", SAME, "word"},
    // routes
    {"/routes/2/target/ip", "\"fd00:10::50\"", SAME, "family"}, // T62
    {"/routes/2/prefix", "\"fd00:30::/64\"", "/routes/2/target/ip", "family"},
    {"/routes/2/prefix", "\"10.0.0.4/24\"", SAME, "host-bits"},
    {"/routes/2/target/ip", NULL, SAME, "missing"},
    {"/routes/0/target/ip", "\"10.0.0.9\"", SAME, "not-applicable"},
    {"/routes/4/target/vni", NULL, SAME, "missing"},
    {"/routes/4/target/vni", "0", SAME, "range"},
    {"/routes/4/target/vni", "100", SAME, "conflict"},
    {"/routes/7/target/kind", "\"internet\"", SAME, "word"},
    {"/routes/7/target/kind", NULL, SAME, "missing"},
    {"/routes/7/target/network", "\"10\"", SAME, "format"},
    {"/routes/6/target/network", "\"0190a6b2-7c11-7e9a-8f3e-5d2c41a7d001\"", SAME, "not-applicable"},
    {"/routes/7/origin", "\"static\"", SAME, "word"},
    {"/routes/9", "{\"prefix\":\"0.0.0.0/0\",\"target\":{\"kind\":\"blackhole\"}}", "/routes/9/prefix", "duplicate"},
    {"/routes/9", "{\"prefix\":\"0.0.0.0/0\",\"target\":{\"kind\":\"local\"},\"origin\":\"custom\"}", SAME, NULL},
    // nat, lb, qos, limits
    {"/nat/floating/0/internal", "\"fd00:10::3\"", SAME, "family"},
    {"/nat/floating/0/internal", "\"10.0.0.4\"", SAME, "conflict"},
    {"/nat/floating/2", "{\"external\":\"198.51.100.7\",\"internal\":\"10.0.0.3\"}", "/nat/floating/2/external",
     "duplicate"},
    {"/nat/snat/0/ports", "\"0-1023\"", SAME, "range"},
    {"/nat/snat/0/ports", NULL, SAME, "missing"},
    {"/nat/snat/1", "{\"address\":\"198.51.100.9\",\"ports\":\"3000-4000\"}", "/nat/snat/1/ports", "duplicate"},
    {"/nat/snat/1", "{\"address\":\"198.51.100.9\",\"ports\":\"4096-5119\"}", SAME, NULL},
    {"/nat/snat/0/address", "\"198.51.100.7\"", SAME, "conflict"},
    {"/lb", "[{}]", NULL, "two"},
    {"/lb/0/address", "\"10.0.0.3\"", SAME, "conflict"},
    {"/lb/0/address", "\"10.0.0.1\"", SAME, "conflict"},
    {"/lb/0/address", "\"198.51.100.7\"", SAME, "conflict"},
    {"/lb/0/address", "\"169.254.1.1\"", SAME, "range"},
    {"/lb/0/address", "\"224.0.0.1\"", SAME, "range"},
    {"/lb/0/protocol", "\"any\"", "/lb/0/port", "not-applicable"},
    {"/lb/0/port", "65536", SAME, "range"},
    {"/lb/1/targets/0/port", "80", SAME, "not-applicable"},
    {"/lb/0/scheduler", "\"rr\"", SAME, "word"},
    {"/lb/0/affinity", "\"cookie\"", SAME, "word"},
    {"/lb/0/affinity_s", "60", SAME, "unknown-field"},
    {"/lb/0/targets/0/address", "\"fd00:10::4\"", SAME, "family"},
    {"/lb/0/targets/0/weight", "0", SAME, "range"},
    {"/lb/0/targets/0/weight", "257", SAME, "range"},
    {"/lb/0/targets/0/state", "\"up\"", SAME, "word"},
    {"/lb/0/targets/1/address", "\"10.0.0.4\"", SAME, "duplicate"},
    {"/lb/0/targets", "[]", SAME, NULL},
    {"/lb/0/external", "true", NULL, "two"},
    {"/lb/1/id", "\"web-vip\"", SAME, "duplicate"},
    {"/lb/2", "{\"id\":\"x\",\"address\":\"10.0.0.100\",\"protocol\":\"tcp\",\"port\":80}", "/lb/2/address",
     "duplicate"},
    {"/lb/2", "{\"id\":\"x\",\"address\":\"10.0.0.100\",\"protocol\":\"udp\",\"port\":80}", SAME, NULL},
    {"/lb/2", "{\"id\":\"x\",\"address\":\"198.51.100.9\",\"protocol\":\"tcp\",\"port\":2000}", "/lb/2/port",
     "conflict"},
    {"/lb", "{}", SAME, "type"},
    {"/nat/attached", "[\"203.0.113.8/29\",\"2001:db8:5::/48\"]", SAME, NULL},
    {"/nat/attached", "[\"203.0.113.8/23\"]", "/nat/attached/0", "host-bits"},
    {"/nat/attached", "[\"203.0.112.0/23\"]", "/nat/attached/0", "range"},
    {"/nat/attached", "[\"2001:db8:5::/96\"]", "/nat/attached/0", "range"},
    {"/nat/attached", "[\"224.0.1.0/24\"]", "/nat/attached/0", "range"},
    {"/nat/attached", "[\"203.0.113.8/29\",\"203.0.113.0/24\"]", "/nat/attached/1", "duplicate"},
    {"/nat/attached", "[\"198.51.100.9/32\"]", "/nat/attached/0", "conflict"},
    {"/nat/attached", "[\"198.51.100.6/31\"]", "/nat/attached/0", "conflict"},
    {"/qos/out_bps", "1000000000001", SAME, "range"},
    {"/qos/out_bps", "1000000", SAME, NULL},
    {"/qos/burst", "0", SAME, "unknown-field"},
    {"/limits/flows_min", "70000", SAME, "conflict"},
    {"/limits/flows_max", "0", SAME, "range"},
};

static void changed_documents(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        const struct change *c = &changes[i];
        char what[256];
        struct api_error_list errors;
        json_t *json = golden("blueprint.json");
        if (strcmp(c->at, "/hash") != 0)
            json_object_del(json, "hash");
        set_at(json, c->at, c->json);
        struct api_document *d = load_json(API_BLUEPRINT, json, &errors);
        snprintf(what, sizeof(what), "%s = %s", c->at, c->json ? c->json : "absent");
        if (c->code && strcmp(c->code, "two") == 0)
            assert_int_equal(errors.n, 2);
        else if (c->code)
            assert_error(&errors, what, c->pointer ? c->pointer : c->at, c->code);
        else if (!d)
            assert_error(&errors, what, "", "accepted");
        assert_true(!d == (errors.n > 0));
        api_document_free(d);
        json_decref(json);
    }
}

static void rule_is_named(void **state)
{
    struct api_error_list errors;
    json_t *json = golden("blueprint.json");
    set_at(json, "/firewall/rules/3/proto", "\"tpc\"");
    assert_null(load_json(API_BLUEPRINT, json, &errors));
    assert_error(&errors, "proto", "/firewall/rules/3/proto", "word");
    assert_non_null(strstr(errors.e[0].detail, "rule \"database\""));
    json_decref(json);
}

static void errors_are_collected(void **state)
{
    struct api_error_list errors;
    json_t *json = golden("blueprint.json");
    set_at(json, "/vpc/vni", "0");
    set_at(json, "/l2/mac", "\"x\"");
    set_at(json, "/routes/0/prefix", "\"10.0.0.1/24\"");
    assert_null(load_json(API_BLUEPRINT, json, &errors));
    assert_int_equal(errors.n, 3);
    assert_false(errors.more);
    assert_string_equal(errors.e[0].pointer, "/vpc/vni");
    assert_string_equal(errors.e[1].pointer, "/l2/mac");
    assert_string_equal(errors.e[2].pointer, "/routes/0/prefix");
    json_t *answer = api_errors_json(&errors);
    assert_int_equal(json_array_size(answer), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(answer, 2), "code")), "host-bits");
    json_decref(answer);

    set_at(json, "/lb", "{}");
    json_t *rules = json_object_get(json_object_get(json, "firewall"), "rules");
    for (unsigned i = 0; i < 100; i++)
        json_array_append_new(rules, json_integer(i));
    assert_null(load_json(API_BLUEPRINT, json, &errors));
    assert_int_equal(errors.n, API_MAX_ERRORS);
    assert_true(errors.more);
    json_decref(json);
}

static void hash_ignores_order_and_generation(void **state)
{
    static const char a[] =
        "{\"b\":[1,2],\"a\":{\"y\":true,\"x\":\"\xc3\xa9/\\u0001\"},\"generation\":1,\"hash\":\"?\"}";
    static const char b[] = "{ \"a\":{\"x\":\"\\u00e9\\/\\u0001\",\"y\":true}, \"generation\":2, \"b\":[1, 2]}";
    uint8_t hash[2][32];
    char text[API_HASH_TEXT];
    for (unsigned i = 0; i < 2; i++) {
        json_t *json = json_loads(i ? b : a, 0, NULL);
        assert_true(api_hash(json, hash[i]));
        json_decref(json);
    }
    assert_memory_equal(hash[0], hash[1], 32);
    api_hash_text(hash[0], text); // printf '{"a":{"x":"é/\\u0001","y":true},"b":[1,2]}' | sha256sum
    assert_string_equal(text, "sha256:854a98c12f75e7939dc51ffd9562e5657a184da6b25c0dcc8529fcfce03e03eb");
}

static void text_is_the_document_as_sent(void **state)
{
    struct api_error_list errors;
    json_t *json = json_loads(minimal, 0, NULL);
    set_at(json, "/x-note", "{\"kept\":[1,2]}");
    struct api_document *d = load_json(API_BLUEPRINT, json, &errors);
    assert_non_null(strstr(d->text, "\"x-note\":{\"kept\":[1,2]}"));
    assert_null(strstr(d->text, "flows_max"));
    char hash[API_HASH_TEXT];
    api_hash_text(d->blueprint->hash, hash);
    assert_non_null(strstr(d->text, hash));
    assert_int_equal(strlen(d->text), d->text_len);
    api_document_free(d);
    json_decref(json);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {.name = "golden blueprint: load, dump, the same; its text loads with the same hash",
         .test_func = golden_round_trips},
        {.name = "golden blueprint fills the struct", .test_func = golden_fills_the_struct},
        {.name = "absent fields have their defaults", .test_func = absent_fields_have_defaults},
        {.name = "a dump with defaults spelled out loads to the same", .test_func = dumped_defaults_are_loadable},
        {.name = "a rule's defaults: any protocol, any remote, stateful", .test_func = rule_defaults},
        {.name = "T62 T76 T77 one wrong field: exactly one error, with its pointer and code",
         .test_func = changed_documents},
        {.name = "T77 the error names the rule", .test_func = rule_is_named},
        {.name = "errors are collected, up to 32", .test_func = errors_are_collected},
        {.name = "the hash depends on content alone", .test_func = hash_ignores_order_and_generation},
        {.name = "the kept text is the document as sent, with its hash", .test_func = text_is_the_document_as_sent},
    };
    golden_dir = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
