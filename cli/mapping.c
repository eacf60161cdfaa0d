// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int mapping_list(struct cli *c)
{
    static const struct column columns[] = {
        {"VNI", "vni", COLUMN_NUMBER, NULL},     {"IP", "ip", COLUMN_TEXT, NULL},
        {"MAC", "mac", COLUMN_TEXT, NULL},       {"NODE", "node", COLUMN_TEXT, NULL},
        {"EPOCH", "epoch", COLUMN_NUMBER, NULL}, {"STATE", "state", COLUMN_TEXT, NULL}};
    unsigned long long vni;
    bool given;
    if (!cli_number(c, "vni", 0xffffff, &vni, &given))
        return CLI_USAGE;
    char *path = given ? client_path("/v1/mappings?vni=%s", cli_option(c, "vni")) : client_path("/v1/mappings");
    return output_list(c, path, columns, 6);
}

int mapping_apply(struct cli *c)
{
    return document_post(c, "/v1/mappings");
}

// Sends what is in force (or nothing), overridden by the given members, under a higher epoch.
static int put(struct cli *c, json_t *mapping, const char *state)
{
    unsigned long long epoch = 0;
    bool given;
    if (!cli_number(c, "epoch", INT64_MAX, &epoch, &given))
        return CLI_USAGE;
    if (!given)
        epoch = (unsigned long long)json_integer_value(json_object_get(mapping, "epoch")) + 1;
    json_object_set_new(mapping, "epoch", json_integer((json_int_t)epoch));
    json_object_set_new(mapping, "state", json_string(state));
    char *text = json_dumps(mapping, JSON_COMPACT);
    struct answer a;
    int code = client_send(c, "PUT", client_path("/v1/mappings/%s/%s", c->args[0], c->args[1]), text, strlen(text), &a);
    free(text);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        printf("mapping %s %s: %s, epoch %llu\n", c->args[0], c->args[1], state, epoch);
    answer_free(&a);
    return CLI_OK;
}

static int check_vni(const struct cli *c, json_int_t *vni)
{
    char *end;
    *vni = strtol(c->args[0], &end, 10);
    if (*end || *vni < 1 || *vni > 0xffffff)
        return cli_usage(c, "VNI is a number from 1 to 16777215, not '%s'", c->args[0]);
    return CLI_OK;
}

int mapping_set(struct cli *c)
{
    static const char *const states[] = {"active", "moving", "tombstone"};
    const char *state = cli_option(c, "state");
    if (!state)
        state = states[0];
    unsigned known = 0;
    while (known < 3 && strcmp(state, states[known]) != 0)
        known++;
    if (known == 3)
        return cli_usage(c, "--state is active, moving or tombstone, not '%s'", state);

    json_int_t vni;
    struct answer a;
    int code = check_vni(c, &vni);
    if (code == CLI_OK)
        code = client_find(c, client_path("/v1/mappings/%s/%s", c->args[0], c->args[1]), &a);
    if (code != CLI_OK)
        return code;
    json_t *mapping = a.status == 404 ? json_pack("{sI,ss}", "vni", vni, "ip", c->args[1]) : json_incref(a.json);
    answer_free(&a);
    static const char *const members[] = {"mac", "node"};
    for (unsigned i = 0; i < 2 && code == CLI_OK; i++) {
        const char *value = cli_option(c, members[i]);
        if (value)
            json_object_set_new(mapping, members[i], json_string(value));
        else if (!json_object_get(mapping, members[i]))
            code = cli_usage(c, "there is no such mapping yet: give --%s", members[i]);
    }
    if (code == CLI_OK)
        code = put(c, mapping, state);
    json_decref(mapping);
    return code;
}

int mapping_delete(struct cli *c)
{
    json_int_t vni;
    struct answer a;
    int code = check_vni(c, &vni);
    if (code == CLI_OK)
        code = client_get(c, client_path("/v1/mappings/%s/%s", c->args[0], c->args[1]), &a);
    if (code != CLI_OK)
        return code;
    code = put(c, a.json, "tombstone");
    answer_free(&a);
    return code;
}
