// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"
#include "cli/resolve.h"

#include <string.h>

static void end_text(const json_t *key, const char *address, const char *port, FILE *out)
{
    const char *ip = json_string_value(json_object_get(key, address));
    json_int_t number = json_integer_value(json_object_get(key, port));
    bool brackets = ip && strchr(ip, ':') && number;
    fputs(brackets ? "[" : "", out);
    output_safe(out, ip ? ip : "-");
    fputs(brackets ? "]" : "", out);
    if (number)
        fprintf(out, ":%" JSON_INTEGER_FORMAT, number);
}

static void key_text(const json_t *key, FILE *out)
{
    if (!json_is_object(key)) {
        fputs("-", out);
        return;
    }
    end_text(key, "src", "sport", out);
    fputs(" > ", out);
    end_text(key, "dst", "dport", out);
}

static void out_text(const json_t *flow, FILE *out)
{
    key_text(json_object_get(flow, "out"), out);
}

static void in_text(const json_t *flow, FILE *out)
{
    key_text(json_object_get(flow, "in"), out);
}

int flow_list(struct cli *c)
{
    static const struct column columns[] = {{"ID", "id", COLUMN_NUMBER, NULL},
                                            {"PROTO", "protocol", COLUMN_TEXT, NULL},
                                            {"FROM GUEST", NULL, COLUMN_TEXT, out_text},
                                            {"TO GUEST", NULL, COLUMN_TEXT, in_text},
                                            {"STATE", "state", COLUMN_TEXT, NULL},
                                            {"RULE", "rule", COLUMN_TEXT, NULL},
                                            {"PKTS OUT", "packets.out", COLUMN_NUMBER, NULL},
                                            {"PKTS IN", "packets.in", COLUMN_NUMBER, NULL},
                                            {"AGE", "age_ms", COLUMN_DURATION, NULL},
                                            {"IDLE", "idle_ms", COLUMN_DURATION, NULL},
                                            {"TO", "to", COLUMN_TEXT, NULL}};
    char id[UUID_TEXT];
    int code = resolve_port_option(c, id);
    if (code != CLI_OK)
        return code;
    char *path = *id ? client_path("/v1/flows?port=%s", id) : client_path("/v1/flows");
    return output_list(c, path, columns, sizeof(columns) / sizeof(columns[0]));
}
