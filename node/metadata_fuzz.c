// SPDX-License-Identifier: MPL-2.0
// What a guest chooses of a metadata request: the path and the token.
#include <stdlib.h>
#include <string.h>

#include "node/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ip_addr address = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 3}};
    static const struct blueprint b = {
        .name = "web",
        .l2 = {.addresses = &address, .n_addresses = 1},
        .gateway.metadata = {true, false, "{\"public-keys\":[\"k\"],\"a\":{\"b\":[1,null,{}]},\"user-data\":\"u\"}"},
    };
    static const struct metadata_secret secret;
    char *text = malloc(size + 1);
    struct blob out = {0};
    const char *type;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    metadata_get(&b, text, &out, &type);
    blob_free(&out);
    if (metadata_token_good(&secret, &b.port, 0, text))
        abort(); // found a proof without the key
    free(text);
    return 0;
}
