// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"

int edge_set_list(struct cli *c)
{
    static const struct column columns[] = {{"PREFIX", "prefix", COLUMN_TEXT, NULL},
                                            {"NODES", "nodes", COLUMN_TEXT, NULL},
                                            {"EPOCH", "epoch", COLUMN_NUMBER, NULL}};
    return output_list(c, client_path("/v1/edge-sets"), columns, 3);
}

int edge_set_apply(struct cli *c)
{
    return document_put_each(c, "/v1/edge-sets", "prefix");
}
