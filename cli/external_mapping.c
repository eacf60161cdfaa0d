// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"

static void address_text(const json_t *mapping, FILE *out)
{
    const char *address = json_string_value(json_object_get(mapping, "address"));
    json_int_t length = json_integer_value(json_object_get(mapping, "prefix_len"));
    output_safe(out, address ? address : "-");
    if (length)
        fprintf(out, "/%" JSON_INTEGER_FORMAT, length);
}

int external_mapping_list(struct cli *c)
{
    static const struct column columns[] = {
        {"ADDRESS", NULL, COLUMN_TEXT, address_text}, {"PROTOCOL", "protocol", COLUMN_TEXT, NULL},
        {"PORTS", "ports", COLUMN_TEXT, NULL},        {"NODE", "node", COLUMN_TEXT, NULL},
        {"PORT", "port", COLUMN_TEXT, NULL},          {"EPOCH", "epoch", COLUMN_NUMBER, NULL},
        {"STATE", "state", COLUMN_TEXT, NULL}};
    return output_list(c, client_path("/v1/external-mappings"), columns, 7);
}

int external_mapping_apply(struct cli *c)
{
    return document_post(c, "/v1/external-mappings");
}
