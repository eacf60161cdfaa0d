// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"
#include "cli/resolve.h"

#include <string.h>

struct rows { // of the two tables
    json_t *counters, *drops;
    const json_t *reasons; // from the node
};

static const char *help_of(const json_t *reasons, const char *name)
{
    size_t i;
    const json_t *reason;
    json_array_foreach(reasons, i, reason)
    {
        const char *other = json_string_value(json_object_get(reason, "name"));
        const char *help = json_string_value(json_object_get(reason, "help"));
        if (other && help && strcmp(other, name) == 0)
            return help;
    }
    return "";
}

static bool is_drops(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcmp(name + length - 5, "drops") == 0;
}

static void add_drops(struct rows *rows, const char *where, json_t *drops)
{
    const char *reason;
    json_t *count;
    json_object_foreach(drops, reason, count)
    {
        if (json_integer_value(count))
            json_array_append_new(rows->drops, json_pack("{ss,ss,sO,ss}", "where", where, "reason", reason, "count",
                                                         count, "help", help_of(rows->reasons, reason)));
    }
}

// Walks an object of counters, which may nest: {"out": {"received": 3, "drops": {...}}}. Names join to "out received".
static void add_counters(struct rows *rows, const char *where, json_t *counters, unsigned depth)
{
    const char *name;
    json_t *value;
    json_object_foreach(counters, name, value)
    {
        char path[128];
        snprintf(path, sizeof(path), "%.60s%s%.60s", where, *where ? " " : "", name);
        if (json_is_object(value) && is_drops(name))
            add_drops(rows, strcmp(name, "drops") == 0 ? where : path, value);
        else if (json_is_object(value) && depth < 4)
            add_counters(rows, path, value, depth + 1);
        else if (json_integer_value(value))
            json_array_append_new(rows->counters, json_pack("{ss,sO}", "name", path, "value", value));
    }
}

static int print_stats(const struct cli *c, json_t *counters)
{
    static const struct column columns[] = {{"COUNTER", "name", COLUMN_TEXT, NULL},
                                            {"VALUE", "value", COLUMN_NUMBER, NULL}};
    static const struct column drop_columns[] = {{"DROPPED", "where", COLUMN_TEXT, NULL},
                                                 {"REASON", "reason", COLUMN_TEXT, NULL},
                                                 {"COUNT", "count", COLUMN_NUMBER, NULL},
                                                 {"MEANING", "help", COLUMN_TEXT, NULL}};
    struct answer a;
    int code = client_list(c, client_path("/v1/drop-reasons"), &a);
    if (code != CLI_OK)
        return code;
    struct rows rows = {json_array(), json_array(), list_items(a.json)};
    add_counters(&rows, "", counters, 0);
    output_table(rows.counters, columns, 2);
    if (json_array_size(rows.drops)) {
        putchar('\n');
        output_table(rows.drops, drop_columns, 4);
    }
    json_decref(rows.counters);
    json_decref(rows.drops);
    answer_free(&a);
    return CLI_OK;
}

int stats_show(struct cli *c)
{
    char id[UUID_TEXT];
    struct answer a;
    int code = resolve_port_option(c, id);
    if (code == CLI_OK)
        code = client_get(c, *id ? client_path("/v1/ports/%s", id) : client_path("/v1/counters"), &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        code = print_stats(c, *id ? json_object_get(a.json, "counters") : a.json);
    answer_free(&a);
    return code;
}
