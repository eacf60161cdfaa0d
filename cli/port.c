// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"
#include "cli/resolve.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void device_text(const json_t *port, FILE *out)
{
    const json_t *device = json_object_get(port, "device");
    if (json_is_string(device)) {
        output_safe(out, json_string_value(device));
        return;
    }
    static const char *const members[] = {"kind", "ifname", "socket"};
    const char *gap = "";
    for (size_t i = 0; i < COUNT(members); i++) {
        const char *value = json_string_value(json_object_get(device, members[i]));
        if (!value || !*value)
            continue;
        fputs(gap, out);
        output_safe(out, value);
        gap = " ";
    }
    if (!*gap)
        fputs("-", out);
}

static void state_text(const json_t *port, FILE *out)
{
    const char *error = json_string_value(json_object_get(port, "device_error"));
    if (json_is_true(json_object_get(port, "paused")))
        fputs("paused", out);
    else if (error && *error)
        fputs("device error", out);
    else
        fputs(json_is_false(json_object_get(port, "attached")) ? "no device" : "running", out);
}

static void connections_text(const json_t *port, FILE *out)
{
    fprintf(out, "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
            json_integer_value(json_object_get(port, "connections")),
            json_integer_value(json_object_get(port, "connections_max")));
}

static const struct column list_columns[] = {
    {"ID", "id", COLUMN_TEXT, NULL},
    {"NAME", "name", COLUMN_TEXT, NULL},
    {"VNI", "vni", COLUMN_NUMBER, NULL},
    {"ADDRESSES", "addresses", COLUMN_TEXT, NULL},
    {"DEVICE", NULL, COLUMN_TEXT, device_text},
    {"STATE", NULL, COLUMN_TEXT, state_text},
    {"GEN", "generation", COLUMN_NUMBER, NULL},
    {"CONNS", "connections", COLUMN_NUMBER, NULL},
};

static const struct column show_fields[] = {
    {"id", "id", COLUMN_TEXT, NULL},
    {"name", "name", COLUMN_TEXT, NULL},
    {"state", NULL, COLUMN_TEXT, state_text},
    {"VPC", "vpc", COLUMN_TEXT, NULL},
    {"VNI", "vni", COLUMN_TEXT, NULL},
    {"MAC", "mac", COLUMN_TEXT, NULL},
    {"addresses", "addresses", COLUMN_TEXT, NULL},
    {"device", NULL, COLUMN_TEXT, device_text},
    {"device error", "device_error", COLUMN_TEXT, NULL},
    {"generation", "generation", COLUMN_TEXT, NULL},
    {"hash", "hash", COLUMN_TEXT, NULL},
    {"applied", "applied_at", COLUMN_TIME, NULL},
    {"connections", NULL, COLUMN_TEXT, connections_text},
};

static const struct column rule_columns[] = {
    {"RULE", "id", COLUMN_TEXT, NULL},          {"LAYER", "layer", COLUMN_TEXT, NULL},
    {"DIR", "dir", COLUMN_TEXT, NULL},          {"ACTION", "action", COLUMN_TEXT, NULL},
    {"DECISIONS", "hits", COLUMN_NUMBER, NULL},
};

int port_list(struct cli *c)
{
    return output_list(c, client_path("/v1/ports"), list_columns, COUNT(list_columns));
}

static void print_counters(const json_t *counters)
{
    static const struct column columns[] = {{"COUNTER", "name", COLUMN_TEXT, NULL},
                                            {"FROM GUEST", "out", COLUMN_NUMBER, NULL},
                                            {"TO GUEST", "in", COLUMN_NUMBER, NULL}};
    const json_t *out = json_object_get(counters, "out"), *in = json_object_get(counters, "in");
    json_t *rows = json_array();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)out, name, value)
    {
        if (json_is_integer(value))
            json_array_append_new(
                rows, json_pack("{ss,sO,sO*}", "name", name, "out", value, "in", json_object_get(in, name)));
    }
    if (json_array_size(rows))
        putchar('\n');
    output_table(rows, columns, COUNT(columns));
    json_decref(rows);
}

int port_show(struct cli *c)
{
    char id[UUID_TEXT];
    struct answer a;
    int code = resolve_port(c, c->args[0], id);
    if (code == CLI_OK)
        code = client_get(c, client_path("/v1/ports/%s", id), &a);
    if (code != CLI_OK)
        return code;
    if (c->json) {
        output_json(&a);
    } else {
        output_fields(a.json, show_fields, COUNT(show_fields));
        print_counters(json_object_get(a.json, "counters"));
    }
    answer_free(&a);
    return CLI_OK;
}

int port_act(struct cli *c)
{
    char id[UUID_TEXT];
    struct answer a;
    int code = resolve_port(c, c->args[0], id);
    if (code == CLI_OK)
        code = client_send(c, "POST", client_path("/v1/ports/%s/%s", id, c->command->verb), "", 0, &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        printf("port %s %s\n", c->args[0],
               strcmp(c->command->verb, "pause") == 0    ? "paused"
               : strcmp(c->command->verb, "resume") == 0 ? "resumed"
                                                         : "reset");
    answer_free(&a);
    return CLI_OK;
}

int port_meters(struct cli *c)
{
    static const struct column columns[] = {{"CLASS", "class", COLUMN_NUMBER, NULL},
                                            {"PKTS OUT", "packets.out", COLUMN_NUMBER, NULL},
                                            {"BYTES OUT", "bytes.out", COLUMN_NUMBER, NULL},
                                            {"PKTS IN", "packets.in", COLUMN_NUMBER, NULL},
                                            {"BYTES IN", "bytes.in", COLUMN_NUMBER, NULL}};
    char id[UUID_TEXT];
    int code = resolve_port(c, c->args[0], id);
    if (code != CLI_OK)
        return code;
    return output_list(c, client_path("/v1/ports/%s/meters", id), columns, COUNT(columns));
}

int port_rules(struct cli *c)
{
    char id[UUID_TEXT];
    int code = resolve_port(c, c->args[0], id);
    if (code != CLI_OK)
        return code;
    return output_list(c, client_path("/v1/ports/%s/rules", id), rule_columns, COUNT(rule_columns));
}
