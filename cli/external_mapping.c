// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"

int external_mapping_list(struct cli *c)
{
    static const struct column columns[] = {
        {"ADDRESS", "address", COLUMN_TEXT, NULL}, {"PROTOCOL", "protocol", COLUMN_TEXT, NULL},
        {"PORTS", "ports", COLUMN_TEXT, NULL},     {"NODE", "node", COLUMN_TEXT, NULL},
        {"PORT", "port", COLUMN_TEXT, NULL},       {"EPOCH", "epoch", COLUMN_NUMBER, NULL},
        {"STATE", "state", COLUMN_TEXT, NULL}};
    return output_list(c, client_path("/v1/external-mappings"), columns, 7);
}

int external_mapping_apply(struct cli *c)
{
    return document_post(c, "/v1/external-mappings");
}
