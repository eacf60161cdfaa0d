// SPDX-License-Identifier: MPL-2.0
#include "cli/resolve.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/output.h"

static bool is_uuid(const char *text)
{
    if (strlen(text) != UUID_TEXT - 1)
        return false;
    for (int i = 0; i < UUID_TEXT - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

static bool starts_uuid(const char *what, const char *id)
{
    return *what && strncasecmp(what, id, strlen(what)) == 0;
}

// Counts the ports with that name or, with by_id, whose UUID begins so; the last one found is *uuid.
static unsigned find(const json_t *ports, const char *what, bool by_id, char uuid[UUID_TEXT])
{
    unsigned found = 0;
    size_t i;
    const json_t *port;
    json_array_foreach(ports, i, port)
    {
        const char *id = json_string_value(json_object_get(port, "id"));
        const char *name = json_string_value(json_object_get(port, "name"));
        if (!id || !is_uuid(id))
            continue;
        if (by_id ? !starts_uuid(what, id) : !name || strcmp(name, what) != 0)
            continue;
        snprintf(uuid, UUID_TEXT, "%s", id);
        found++;
    }
    return found;
}

static int ambiguous(const struct cli *c, const json_t *ports, const char *what, bool by_id)
{
    cli_refuse(c, "%s '%s' of several ports:", by_id ? "the UUIDs begin with" : "the name is", what);
    size_t i;
    const json_t *port;
    json_array_foreach(ports, i, port)
    {
        char uuid[UUID_TEXT];
        json_t *one = json_pack("[O]", port);
        if (find(one, what, by_id, uuid)) {
            const char *name = json_string_value(json_object_get(port, "name"));
            fprintf(stderr, "  %s  ", uuid);
            output_safe(stderr, name ? name : "");
            fprintf(stderr, "\n");
        }
        json_decref(one);
    }
    return CLI_USAGE;
}

int resolve_port(const struct cli *c, const char *what, char uuid[UUID_TEXT])
{
    if (is_uuid(what)) {
        for (int i = 0; i < UUID_TEXT; i++)
            uuid[i] = (char)tolower((unsigned char)what[i]);
        return CLI_OK;
    }
    struct answer a;
    int code = client_list(c, client_path("/v1/ports"), &a);
    if (code != CLI_OK)
        return code;
    const json_t *ports = list_items(a.json);
    bool by_id = false;
    unsigned found = find(ports, what, false, uuid);
    if (found == 0) {
        by_id = true;
        found = find(ports, what, true, uuid);
    }
    if (found == 0)
        code = cli_refuse(c, "no port '%s' on this node ('nereus port list' shows them)", what);
    else if (found > 1)
        code = ambiguous(c, ports, what, by_id);
    answer_free(&a);
    return code;
}

int resolve_port_option(const struct cli *c, char uuid[UUID_TEXT])
{
    const char *port = cli_option(c, "port");
    uuid[0] = '\0';
    return port ? resolve_port(c, port, uuid) : CLI_OK;
}
