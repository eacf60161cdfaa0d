// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "node/metadata.h"

static const struct ip_addr addresses[] = {{.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 3}},
                                           {.b = {0xfd, 0, 0, 0x10, [15] = 3}}};
static const struct ip_prefix subnets[] = {{{.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 0}}, 120}};
static const struct blueprint_floating floating[] = {
    {.external = {.b = {[10] = 0xff, [11] = 0xff, 198, 51, 100, 7}}, .internal = {.b = {0}}}};

static struct blueprint example(const char *document)
{
    return (struct blueprint){
        .port = {.b = {0x01, 0x93, [15] = 0x42}},
        .name = "web",
        .l2 = {.mac = {{2, 0, 0, 0, 0, 3}}, .addresses = addresses, .n_addresses = 2},
        .gateway = {.subnets = subnets,
                    .n_subnets = 1,
                    .dhcp4 = {.hostname = "web-1"},
                    .metadata = {.enabled = true, .document = document}},
        .nat = {.floating = floating, .n_floating = 1},
    };
}

static void expect(const char *document, const char *path, const char *expected)
{
    struct blueprint b = example(document);
    struct blob out = {0};
    const char *type;
    bool found = metadata_get(&b, path, &out, &type);
    assert_int_equal(found, expected != NULL);
    if (expected)
        assert_string_equal(out.s ? out.s : "", expected);
    blob_free(&out);
}

static void defaults_come_from_the_blueprint(void **state)
{
    expect("{}", "/", "1.0\n2009-04-04\n2016-09-02\n2018-09-24\n2021-03-23\nlatest");
    expect("{}", "/latest/", "dynamic/\nmeta-data/");
    expect("{}", "/latest/meta-data/",
           "instance-id\nhostname\nlocal-hostname\nlocal-ipv4\nipv6\nmac\npublic-ipv4\nplacement/\nnetwork/");
    expect("{}", "/latest/meta-data/instance-id", "01930000-0000-0000-0000-000000000042");
    expect("{}", "/latest/meta-data/hostname", "web-1");
    expect("{}", "/latest/meta-data/local-ipv4", "10.0.0.3");
    expect("{}", "/latest/meta-data/public-ipv4", "198.51.100.7");
    expect("{}", "/latest/meta-data/mac", "02:00:00:00:00:03");
    expect("{}", "/latest/meta-data/network/interfaces/macs/", "02:00:00:00:00:03/");
    expect("{}", "/latest/meta-data/network/interfaces/macs/02:00:00:00:00:03/subnet-ipv4-cidr-block", "10.0.0.0/24");
    expect("{}", "/latest/meta-data/network/interfaces/macs/02:00:00:00:00:03/ipv6s", "fd00:10::3");
    expect("{}", "/latest/user-data", NULL);
    expect("", "/latest/meta-data/hostname", "web-1");
}

static void the_document_overrides_extends_and_removes(void **state)
{
    const char *d = "{\"meta-data\":{\"instance-id\":\"i-1\",\"public-ipv4\":null,\"placement\":{\"region\":\"r1\"},"
                    "\"tags\":{\"a\":\"1\"},\"n\":5},\"user-data\":\"#cloud-config\\n\"}";
    expect(d, "/latest/meta-data/instance-id", "i-1");
    expect(d, "/latest/meta-data/public-ipv4", NULL);
    expect(d, "/latest/meta-data/placement/", "availability-zone\nregion");
    expect(d, "/latest/meta-data/tags/a", "1");
    expect(d, "/latest/meta-data/n", "5");
    expect(d, "/latest/user-data", "#cloud-config\n");
    expect(d, "/latest", "dynamic/\nmeta-data/\nuser-data");
}

static void slashes_and_versions_do_not_matter_unknown_names_do(void **state)
{
    expect("{}", "//latest//meta-data//hostname", "web-1");
    expect("{}", "/latest/meta-data/hostname/", "web-1");
    expect("{}", "/2009-04-04/meta-data/hostname", "web-1");
    expect("{}", "/1999-01-01/meta-data/hostname", NULL);
    expect("{}", "/latest/meta-data/nothing", NULL);
    expect("{}", "/latest/meta-data/hostname/below", NULL);
    expect("{}", "/latest/../latest", NULL);
}

static void public_keys_are_numbered(void **state)
{
    const char *named = "{\"meta-data\":{\"public-keys\":{\"me\":\"ssh-ed25519 AAAA me\"}}}";
    expect(named, "/latest/meta-data/public-keys/", "0=me");
    expect(named, "/latest/meta-data/public-keys/0/", "openssh-key");
    expect(named, "/latest/meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA me");
    expect(named, "/latest/meta-data/public-keys/0/_name", NULL);
    const char *list = "{\"meta-data\":{\"public-keys\":[\"k0\",\"k1\"]}}";
    expect(list, "/latest/meta-data/public-keys/", "0=key0\n1=key1");
    expect(list, "/latest/meta-data/public-keys/1/openssh-key", "k1");
}

static void members_beside_meta_data_belong_to_it(void **state)
{
    const char *d = "{\"instance-id\":\"i-2\",\"public-keys\":{\"0\":{\"openssh-key\":\"k\"}},\"user-data\":\"u\"}";
    expect(d, "/latest/meta-data/instance-id", "i-2");
    expect(d, "/latest/meta-data/user-data", NULL);
    expect(d, "/latest/user-data", "u");
    expect(d, "/latest/meta-data/public-keys/", "0=key0");
    expect(d, "/latest/meta-data/public-keys/0/openssh-key", "k");
}

static void the_identity_document_is_json(void **state)
{
    struct blueprint b = example("{\"meta-data\":{\"instance-id\":\"i-1\"}}");
    struct blob out = {0};
    const char *type;
    assert_true(metadata_get(&b, "/latest/dynamic/instance-identity/document", &out, &type));
    assert_string_equal(type, "application/json");
    assert_non_null(strstr(out.s, "\"instanceId\": \"i-1\""));
    assert_non_null(strstr(out.s, "\"privateIp\": \"10.0.0.3\""));
    blob_free(&out);
}

static void hostile_paths_find_nothing(void **state)
{
    char path[2000];
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = 0;
    expect("{}", path, NULL);
    memcpy(path, "/latest/", 8);
    expect("{}", path, NULL);
    for (size_t i = 8; i + 1 < sizeof(path); i++)
        path[i] = i % 2 ? '/' : '_';
    expect("{}", path, NULL);
}

static void a_token_is_good_for_its_port_and_time_only(void **state)
{
    const struct metadata_secret secret = {{1, 2, 3}}, other = {{9}};
    const struct uuid a = {{1}}, b = {{2}};
    char token[METADATA_TOKEN_LEN + 1];
    metadata_token_make(&secret, &a, 1000, 42, token);
    assert_int_equal(strlen(token), METADATA_TOKEN_LEN);
    assert_true(metadata_token_good(&secret, &a, 999, token));
    assert_false(metadata_token_good(&secret, &a, 1000, token));
    assert_false(metadata_token_good(&secret, &b, 999, token));
    assert_false(metadata_token_good(&other, &a, 999, token));
    assert_false(metadata_token_good(&secret, &a, 999, ""));
    for (int i = 0; i < METADATA_TOKEN_LEN; i++) {
        char changed[METADATA_TOKEN_LEN + 1];
        memcpy(changed, token, sizeof(changed));
        changed[i] = changed[i] == '0' ? '1' : '0';
        assert_false(metadata_token_good(&secret, &a, 999, changed));
        changed[i] = 'x';
        assert_false(metadata_token_good(&secret, &a, 999, changed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"T7 defaults come from the blueprint", defaults_come_from_the_blueprint, NULL, NULL, NULL},
        {"the document overrides, extends and removes", the_document_overrides_extends_and_removes, NULL, NULL, NULL},
        {"slashes and versions do not matter, unknown names do", slashes_and_versions_do_not_matter_unknown_names_do,
         NULL, NULL, NULL},
        {"public keys are numbered", public_keys_are_numbered, NULL, NULL, NULL},
        {"members beside meta-data belong to it", members_beside_meta_data_belong_to_it, NULL, NULL, NULL},
        {"the identity document is JSON", the_identity_document_is_json, NULL, NULL, NULL},
        {"hostile paths find nothing", hostile_paths_find_nothing, NULL, NULL, NULL},
        {"a token is good for its port and time only", a_token_is_good_for_its_port_and_time_only, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
