// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"

static int show(struct cli *c, const char *path, const struct column *fields, size_t n)
{
    struct answer a;
    int code = client_get(c, client_path(path), &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        output_fields(a.json, fields, n);
    answer_free(&a);
    return CLI_OK;
}

static void uptime_text(const json_t *health, FILE *out)
{
    json_int_t s = json_integer_value(json_object_get(health, "uptime_s"));
    fprintf(out, "%" JSON_INTEGER_FORMAT "d %02d:%02d:%02d", s / 86400, (int)(s / 3600 % 24), (int)(s / 60 % 60),
            (int)(s % 60));
}

int node_health(struct cli *c)
{
    static const struct column fields[] = {
        {"status", "status", COLUMN_TEXT, NULL},     {"version", "version", COLUMN_TEXT, NULL},
        {"node", "node", COLUMN_TEXT, NULL},         {"uptime", NULL, COLUMN_TEXT, uptime_text},
        {"ports", "ports", COLUMN_TEXT, NULL},       {"connections", "connections", COLUMN_TEXT, NULL},
        {"mappings", "mappings", COLUMN_TEXT, NULL}, {"adopted", "adopted", COLUMN_TEXT, NULL},
        {"problems", "problems", COLUMN_TEXT, NULL}};
    return show(c, "/v1/health", fields, sizeof(fields) / sizeof(fields[0]));
}

int node_version(struct cli *c)
{
    static const struct column fields[] = {{"version", "version", COLUMN_TEXT, NULL},
                                           {"API", "api", COLUMN_TEXT, NULL},
                                           {"schema", "schema", COLUMN_TEXT, NULL},
                                           {"capabilities", "capabilities", COLUMN_TEXT, NULL}};
    return show(c, "/v1/version", fields, sizeof(fields) / sizeof(fields[0]));
}
