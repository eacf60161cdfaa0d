// SPDX-License-Identifier: MPL-2.0
#include "api/json/test_document.h"
#include "api/json/text.h"

#define PORT "0190a6b2-7c11-7e9a-8f3e-5d2c41a7b001"
#define MAPPING "\"vni\":100,\"ip\":\"10.0.0.4\",\"mac\":\"02:00:00:00:00:04\",\"node\":\"fd00:cabe::b\""
#define EXTERNAL "\"address\":\"198.51.100.9\",\"node\":\"fd00:cabe::b\",\"port\":\"" PORT "\",\"epoch\":1"

struct document {
    enum api_resource resource;
    const char *text;
    const char *pointer, *code; // code NULL: accepted
};

static const struct document documents[] = {
    {API_MAPPING, "{" MAPPING ",\"epoch\":3,\"state\":\"moving\"}", "", NULL},
    {API_MAPPING, "{" MAPPING ",\"epoch\":9223372036854775807}", "", NULL},
    {API_MAPPING, "{" MAPPING ",\"epoch\":9223372036854775808}", "/epoch", "range"},
    {API_MAPPING, "{" MAPPING ",\"epoch\":-1}", "/epoch", "range"},
    {API_MAPPING, "{" MAPPING "}", "/epoch", "missing"},
    {API_MAPPING, "{" MAPPING ",\"epoch\":3,\"state\":\"gone\"}", "/state", "word"},
    {API_MAPPING, "{" MAPPING ",\"epoch\":3,\"vni\":7}", "/vni", "duplicate-key"},
    {API_MAPPING, "{\"vni\":1,\"ip\":\"::1\",\"mac\":\"02:00:00:00:00:04\",\"node\":\"10.0.0.1\",\"epoch\":1}", "/node",
     "family"},
    {API_MAPPING, "{\"vni\":1,\"ip\":\"10.1\",\"mac\":\"02:00:00:00:00:04\",\"node\":\"fd00::1\",\"epoch\":1}", "/ip",
     "format"},
    {API_MAPPING, "[]", "", "type"},
    {API_MAPPING, "7", "", "type"},
    {API_MAPPING_LIST, "{\"items\":[]}", "", NULL},
    {API_MAPPING_LIST, "{\"items\":[{" MAPPING ",\"epoch\":3},{" MAPPING ",\"epoch\":4}]}", "", NULL},
    {API_MAPPING_LIST, "{\"items\":[{" MAPPING ",\"epoch\":3},{" MAPPING ",\"epoch\":\"4\"}]}", "/items/1/epoch",
     "type"},
    {API_MAPPING_LIST, "{}", "/items", "missing"},
    {API_MAPPING_LIST, "{\"items\":null}", "/items", "type"},

    {API_EXTERNAL_MAPPING, "{" EXTERNAL "}", "", NULL},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"protocol\":\"tcp\",\"ports\":\"1024-3071\",\"state\":\"tombstone\"}", "",
     NULL},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"protocol\":\"tpc\"}", "/protocol", "word"},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"ports\":\"1-\"}", "/ports", "format"},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"prefix_len\":32}", "/prefix_len", "range"},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"prefix_len\":23}", "/prefix_len", "range"},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"prefix_len\":64}", "/prefix_len", "range"},
    {API_EXTERNAL_MAPPING, "{" EXTERNAL ",\"prefix_len\":29}", "/address", "host-bits"},
    {API_EXTERNAL_MAPPING_LIST, "{\"items\":[{" EXTERNAL ",\"port\":1}]}", "/items/0/port", "duplicate-key"},

    {API_EDGE_SET, "{\"prefix\":\"198.51.100.0/24\",\"nodes\":[\"fd00:cabe::a\"],\"epoch\":1}", "", NULL},
    {API_EDGE_SET, "{\"prefix\":\"198.51.100.0/24\",\"nodes\":[],\"epoch\":1}", "", NULL},
    {API_EDGE_SET, "{\"prefix\":\"198.51.100.1/24\",\"nodes\":[],\"epoch\":1}", "/prefix", "host-bits"},
    {API_EDGE_SET, "{\"prefix\":\"198.51.100.0/24\",\"nodes\":[\"fd00::a\",\"fd00::a\"],\"epoch\":1}", "/nodes/1",
     "duplicate"},
    {API_EDGE_SET, "{\"prefix\":\"198.51.100.0/24\",\"nodes\":[\"10.0.0.1\"],\"epoch\":1}", "/nodes/0", "family"},

    {API_ADDRESS_SET, "{\"id\":\"" PORT "\",\"generation\":4,\"cidrs\":[\"10.0.0.0/25\",\"fd00::/64\"]}", "", NULL},
    {API_ADDRESS_SET, "{\"id\":\"" PORT "\",\"generation\":4,\"cidrs\":[\"10.0.0.0/25\",\"fd00::1/64\"]}", "/cidrs/1",
     "host-bits"},
    {API_ADDRESS_SET, "{\"id\":\"web\",\"generation\":4,\"cidrs\":[]}", "/id", "format"},

    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":\"tcp\"}}",
     "", NULL},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":\"00112233445566778899aabbccddeeff\"}", "",
     NULL},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":\"0011223344556677\"}", "/frame", "range"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":\"00112233445566778899aabbccddeexx\"}",
     "/frame", "format"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":\"00112233445566778899aabbccddeef\"}",
     "/frame", "format"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":1}", "/frame", "type"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\"}", "", "one-of"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"both\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":6}}",
     "/dir", "word"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"in\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":6}}",
     "/packet/src", "missing"},
    {API_TRACE_REQUEST,
     "{\"port\":\"" PORT "\",\"dir\":\"out\",\"from\":\"fd00::1\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":6}}",
     "/from", "not-applicable"},
    {API_TRACE_REQUEST, "{\"port\":\"" PORT "\",\"dir\":\"out\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":\"any\"}}",
     "/packet/proto", "word"},
    {API_TRACE_REQUEST,
     "{\"port\":\"" PORT "\",\"dir\":\"out\",\"packet\":{\"src\":\"fd00::1\",\"dst\":\"10.0.0.4\",\"proto\":6}}",
     "/packet/src", "family"},
    {API_TRACE_REQUEST,
     "{\"port\":\"" PORT "\",\"dir\":\"out\",\"packet\":{\"dst\":\"10.0.0.4\",\"proto\":6,\"flags\":\"SS\"}}",
     "/packet/flags", "format"},

    {API_CONFIG, "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00:cabe::a\"}}", "", NULL},
    {API_CONFIG, "{\"node\":\"a\"}", "/underlay", "missing"},
    {API_CONFIG, "{\"node\":\"a b\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00:cabe::a\"}}", "/node",
     "format"},
    {API_CONFIG, "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"192.0.2.1\"}}", "/underlay/address",
     "family"},
    {API_CONFIG, "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00::a\"},\"socket\":\"x.sock\"}",
     "/socket", "format"},
    {API_CONFIG, "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00::a\"},\"workers\":17}",
     "/workers", "range"},
    {API_CONFIG, "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00::a\"},\"timeouts\":{\"tcp\":1}}",
     "/timeouts/tcp", "unknown-field"},
    {API_CONFIG,
     "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00::a\"},\"external\":[{\"ifname\":\"e\"}]}",
     "/external/0", "missing"},
    {API_CONFIG,
     "{\"node\":\"a\",\"underlay\":{\"ifname\":\"eth0\",\"address\":\"fd00::a\"},\"external\":[{\"ifname\":\"e\","
     "\"prefix4\":\"198.51.100.0/24\",\"gateway4\":\"198.51.101.1\"}]}",
     "/external/0/gateway4", "conflict"},

    // not JSON
    {API_MAPPING, "", "", "syntax"},
    {API_MAPPING, "{", "", "syntax"},
    {API_MAPPING, "{\"vni\":100,\"ip\":\"10.0.0.4", "/ip", "syntax"},
    {API_MAPPING, "{\"vni\":100}}", "", "syntax"},
    {API_MAPPING, "{\"vni\":01}", "/vni", "syntax"},
    {API_MAPPING, "{\"vni\":\"\\ud800\"}", "/vni", "syntax"},
    {API_MAPPING, "{\"vni\":\"\xff\"}", "/vni", "syntax"},
    {API_MAPPING, "{\"vni\":\"\\u0000\"}", "/vni", "syntax"},
    {API_MAPPING_LIST, "{\"items\":[1,2,{\"a/b\":{\"c~\":[0,tru]}}]}", "/items/2/a~1b/c~0/1", "syntax"},
    {API_MAPPING_LIST, "{\"items\":[{},{\"a\":1,\"b\":2,\"a\":3}]}", "/items/1/a", "duplicate-key"},
};

static void one_document_one_answer(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        const struct document *t = &documents[i];
        struct api_error_list errors;
        struct api_document *d = load_text(t->resource, t->text, &errors);
        if (t->code)
            assert_error(&errors, t->text, t->pointer, t->code);
        else if (!d)
            assert_error(&errors, t->text, "", "accepted");
        assert_true(!d == (errors.n > 0));
        api_document_free(d);
    }
}

static void accepted_documents_round_trip(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        const struct document *t = &documents[i];
        struct api_error_list errors;
        if (t->code)
            continue;
        struct api_document *d = load_text(t->resource, t->text, &errors);
        json_t *first = api_dump(t->resource, d->value);
        struct api_document *again = load_json(t->resource, first, &errors);
        if (!again)
            assert_error(&errors, t->text, "", "accepted");
        json_t *second = api_dump(t->resource, again->value);
        assert_true(json_equal(first, second));
        json_decref(first);
        json_decref(second);
        api_document_free(again);
        api_document_free(d);
    }
}

static void mapping_fills_the_struct(void **state)
{
    struct api_error_list errors;
    struct api_document *d = load_text(API_MAPPING, documents[0].text, &errors);
    const struct mapping *m = d->mapping;
    char text[IP_TEXT];
    assert_int_equal(m->vni, 100);
    assert_true(ip_is_v4(&m->ip));
    ip_to_text(&m->node, text);
    assert_string_equal(text, "fd00:cabe::b");
    assert_int_equal(m->mac.b[5], 4);
    assert_int_equal(m->epoch, 3);
    assert_int_equal(m->state, MAPPING_MOVING);
    api_document_free(d);

    d = load_text(API_EXTERNAL_MAPPING, "{" EXTERNAL "}", &errors);
    assert_int_equal(d->external_mapping->protocol, PROTOCOL_ANY);
    assert_int_equal(d->external_mapping->ports.first, 0);
    assert_int_equal(d->external_mapping->ports.last, 65535);
    api_document_free(d);
}

static void example_configuration(void **state)
{
    struct api_error_list errors;
    json_t *json = golden("nereusd.json");
    struct api_document *d = load_json(API_CONFIG, json, &errors);
    if (!d)
        assert_error(&errors, "nereusd.json", "", "accepted");
    const struct nereusd_config *c = d->config;
    assert_string_equal(c->node, "a");
    assert_string_equal(c->underlay.ifname, "eth0");
    assert_int_equal(c->limits.ports, 256);
    assert_int_equal(c->n_external, 1);
    assert_int_equal(c->external[0].prefix4.len, 120);
    assert_true(c->metadata.enabled);
    assert_int_equal(c->timeouts.tcp_established, 8000);
    assert_int_equal(c->timeouts.udp_two_way_nat, 300);
    assert_int_equal(c->timeouts.icmp, 20);
    json_t *again = api_dump(API_CONFIG, c);
    json_t *rest = json_object_get(again, "timeouts");
    assert_int_equal(json_object_size(rest), 11);
    json_object_set(again, "timeouts", json_object_get(json, "timeouts"));
    assert_true(json_equal(json, again));
    json_decref(again);
    json_decref(json);
    api_document_free(d);
}

static void trace_describes_or_shows(void **state)
{
    struct api_error_list errors;
    struct api_document *d = load_text(API_TRACE_REQUEST,
                                       "{\"port\":\"" PORT "\",\"dir\":\"in\",\"from\":\"fd00::b\",\"packet\":"
                                       "{\"src\":\"10.0.0.9\",\"dst\":\"10.0.0.3\",\"proto\":\"tcp\",\"dport\":22}}",
                                       &errors);
    const struct trace_request *t = d->trace_request;
    assert_int_equal(t->dir, BLUEPRINT_IN);
    assert_true(t->has_from && t->has_packet && t->packet.has_src);
    assert_false(t->packet.has_length || t->packet.has_icmp_type);
    assert_int_equal(t->packet.flags, 0x02); // SYN
    assert_int_equal(t->n_frame, 0);
    api_document_free(d);
    d = load_text(API_TRACE_REQUEST,
                  "{\"port\":\"" PORT "\",\"dir\":\"out\",\"frame\":\"00112233445566778899AABBCCDDEEFF\"}", &errors);
    assert_false(d->trace_request->has_packet);
    assert_int_equal(d->trace_request->n_frame, 16);
    assert_int_equal(d->trace_request->frame[10], 0xaa);
    api_document_free(d);
}

static char *repeated(const char *head, const char *part, size_t times, const char *tail)
{
    size_t n = strlen(head), m = strlen(part);
    char *text = malloc(n + m * times + strlen(tail) + 1);
    assert_non_null(text);
    memcpy(text, head, n);
    for (size_t i = 0; i < times; i++)
        memcpy(text + n + i * m, part, m);
    strcpy(text + n + times * m, tail);
    return text;
}

static void limits_of_size_and_depth(void **state)
{
    struct api_error_list errors;
    char *text = repeated("{\"x-a\":", "[", 100000, "");
    assert_null(load_text(API_CONFIG, text, &errors));
    assert_int_equal(errors.n, 1);
    assert_string_equal(errors.e[0].code, "too-deep");
    assert_memory_equal(errors.e[0].pointer, "/x-a/0/0", 8);
    free(text);

    text = repeated("{\"node\":\"a\",\"underlay\":{\"ifname\":\"e\",\"address\":\"fd00::a\"},\"x-a\":", "[",
                    API_MAX_DEPTH - 1, "");
    char *whole = repeated(text, "]", API_MAX_DEPTH - 1, "}");
    struct api_document *d = load_text(API_CONFIG, whole, &errors);
    assert_non_null(d);
    api_document_free(d);
    free(whole);
    free(text);

    text = repeated("{\"x-a\":\"", "0123456789abcdef", 1 << 20, "\"}");
    assert_null(load_text(API_CONFIG, text, &errors));
    assert_error(&errors, "17 MB", "", "too-large");
    free(text);
}

static void errors_stay_utf8(void **state)
{
    struct api_error_list errors;
    char *text = repeated("{\"", "\xe2\x82\xac", 120, "\":1}");
    assert_null(load_text(API_EDGE_SET, text, &errors));
    assert_string_equal(errors.e[0].code, "unknown-field");
    json_t *json = api_errors_json(&errors);
    assert_non_null(json);
    assert_int_equal(json_array_size(json), 4); // and three that are missing
    json_decref(json);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {.name = "T76 each document gets its one answer, with pointer and code", .test_func = one_document_one_answer},
        {.name = "what is accepted survives dump and load", .test_func = accepted_documents_round_trip},
        {.name = "a mapping fills its struct", .test_func = mapping_fills_the_struct},
        {.name = "the example configuration loads, timeouts have defaults", .test_func = example_configuration},
        {.name = "T82 a trace request has a packet or a frame", .test_func = trace_describes_or_shows},
        {.name = "documents too long or too deep are refused before they are parsed",
         .test_func = limits_of_size_and_depth},
        {.name = "errors about odd names stay short and valid UTF-8", .test_func = errors_stay_utf8},
    };
    golden_dir = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
