// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"

int address_set_list(struct cli *c)
{
    static const struct column columns[] = {{"ID", "id", COLUMN_TEXT, NULL},
                                            {"GENERATION", "generation", COLUMN_NUMBER, NULL},
                                            {"CIDRS", "cidrs", COLUMN_TEXT, NULL}};
    return output_list(c, client_path("/v1/address-sets"), columns, 3);
}

int address_set_apply(struct cli *c)
{
    return document_put_each(c, "/v1/address-sets", "id");
}

int address_set_delete(struct cli *c)
{
    struct answer a;
    int code = client_send(c, "DELETE", client_path("/v1/address-sets/%s", c->args[0]), NULL, 0, &a);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        printf("address set %s deleted\n", c->args[0]);
    answer_free(&a);
    return CLI_OK;
}
