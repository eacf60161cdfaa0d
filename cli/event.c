// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"
#include "cli/resolve.h"

#include <time.h>

static void time_text(const json_t *event, FILE *out)
{
    char text[32];
    time_t s = (time_t)(json_integer_value(json_object_get(event, "time_ms")) / 1000);
    struct tm t;
    localtime_r(&s, &t);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &t);
    fputs(text, out);
}

static void port_text(const json_t *event, FILE *out)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *port = json_string_value(json_object_get(event, "port"));
    output_safe(out, name && *name ? name : port && *port ? port : "-");
}

int event_list(struct cli *c)
{
    static const struct column columns[] = {{"TIME", NULL, COLUMN_TEXT, time_text},
                                            {"KIND", "kind", COLUMN_TEXT, NULL},
                                            {"PORT", NULL, COLUMN_TEXT, port_text},
                                            {"COUNT", "count", COLUMN_NUMBER, NULL},
                                            {"WHAT", "text", COLUMN_TEXT, NULL}};
    char id[UUID_TEXT];
    int code = resolve_port_option(c, id);
    if (code != CLI_OK)
        return code;
    char *path = *id ? client_path("/v1/events?port=%s", id) : client_path("/v1/events");
    return output_list(c, path, columns, sizeof(columns) / sizeof(columns[0]));
}
