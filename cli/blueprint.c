// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"
#include "cli/resolve.h"

#include <stdlib.h>
#include <string.h>

int blueprint_list(struct cli *c)
{
    static const struct column columns[] = {{"PORT", "port", COLUMN_TEXT, NULL},
                                            {"NAME", "name", COLUMN_TEXT, NULL},
                                            {"GENERATION", "generation", COLUMN_NUMBER, NULL},
                                            {"HASH", "hash", COLUMN_TEXT, NULL}};
    return output_list(c, client_path("/v1/blueprints"), columns, 4);
}

int blueprint_show(struct cli *c)
{
    char id[UUID_TEXT];
    struct answer a;
    int code = resolve_port(c, c->args[0], id);
    if (code == CLI_OK)
        code = client_get(c, client_path("/v1/blueprints/%s", id), &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        output_pretty(a.json);
    answer_free(&a);
    return CLI_OK;
}

static void print_result(const struct cli *c, bool check, const char *port, const struct answer *a)
{
    json_int_t generation = json_integer_value(json_object_get(a->json, "generation"));
    const json_t *changed = json_object_get(a->json, "changed");
    if (check)
        printf("%s: port %s: generation %" JSON_INTEGER_FORMAT " is good\n", c->subject, port, generation);
    else
        printf("%s: port %s: generation %" JSON_INTEGER_FORMAT " %s\n", c->subject, port, generation,
               a->status == 201         ? "applied, the port is new"
               : json_is_false(changed) ? "is in force already"
                                        : "applied");
}

// The file's bytes go to the node as they are: the hash and the pointers are about them.
static int send_file(struct cli *c, const char *file, bool check)
{
    char *text;
    size_t length;
    json_t *json;
    int code = document_read(c, file, &text, &length, &json);
    if (code != CLI_OK)
        return code;
    const char *port = json_string_value(json_object_get(json, "port"));
    struct answer a = {0};
    if (!port)
        code = cli_refuse(c, "not a blueprint: it has no \"port\"");
    else
        code = client_send(c, "PUT", client_path(check ? "/v1/blueprints/%s?dry_run=1" : "/v1/blueprints/%s", port),
                           text, length, &a);
    if (code == CLI_OK && c->json)
        output_json(&a);
    else if (code == CLI_OK)
        print_result(c, check, port, &a);
    answer_free(&a);
    json_decref(json);
    free(text);
    return code;
}

int blueprint_apply(struct cli *c)
{
    bool check = strcmp(c->command->verb, "check") == 0;
    int worst = CLI_OK;
    for (unsigned i = 0; i < c->n_args; i++) {
        int code = send_file(c, c->args[i], check);
        if (code != CLI_OK && !(check && code == CLI_REFUSED))
            return code;
        worst = code > worst ? code : worst;
    }
    return worst;
}

int blueprint_delete(struct cli *c)
{
    char id[UUID_TEXT];
    struct answer a;
    int code = resolve_port(c, c->args[0], id);
    if (code == CLI_OK)
        code = client_send(c, "DELETE", client_path("/v1/blueprints/%s", id), NULL, 0, &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        printf("port %s removed\n", c->args[0]);
    answer_free(&a);
    return CLI_OK;
}
