// SPDX-License-Identifier: MPL-2.0
// Session tokens: expiry, nonce and HMAC-SHA-256 (RFC 2104) over both and the port, in hex.
#include <string.h>

#include "api/json/sha256.h"
#include "api/json/text.h"
#include "node/metadata.h"

struct claim { // what the proof covers
    struct uuid port;
    uint8_t expires[8], nonce[8];
};

static void digest(const void *data, size_t len, uint8_t out[32])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, data, len);
    sha256_end(&s, out);
}

static void hmac(const struct metadata_secret *s, const struct claim *c, uint8_t out[32])
{
    uint8_t inner[64 + sizeof(*c)], outer[64 + 32];
    for (int i = 0; i < 64; i++) {
        uint8_t k = i < 32 ? s->key[i] : 0;
        inner[i] = k ^ 0x36;
        outer[i] = k ^ 0x5c;
    }
    memcpy(inner + 64, c, sizeof(*c));
    digest(inner, sizeof(inner), outer + 64);
    digest(outer, sizeof(outer), out);
}

static void make(const struct metadata_secret *s, const struct claim *c, char out[METADATA_TOKEN_LEN + 1])
{
    uint8_t raw[48];
    memcpy(raw, c->expires, 8);
    memcpy(raw + 8, c->nonce, 8);
    hmac(s, c, raw + 16);
    bytes_to_hex(raw, sizeof(raw), out);
}

void metadata_token_make(const struct metadata_secret *s, const struct uuid *port, uint64_t expires, uint64_t nonce,
                         char out[METADATA_TOKEN_LEN + 1])
{
    struct claim c = {.port = *port};
    store_be64(c.expires, expires);
    store_be64(c.nonce, nonce);
    make(s, &c, out);
}

bool metadata_token_good(const struct metadata_secret *s, const struct uuid *port, uint64_t now, const char *token)
{
    if (strlen(token) != METADATA_TOKEN_LEN)
        return false;
    char head[33];
    uint8_t fields[16]; // expiry, nonce
    memcpy(head, token, 32);
    head[32] = 0;
    if (!bytes_from_hex(head, fields, sizeof(fields)))
        return false;
    char expected[METADATA_TOKEN_LEN + 1];
    metadata_token_make(s, port, load_be64(fields), load_be64(fields + 8), expected);
    unsigned difference = 0; // the time taken tells nothing about where the first difference is
    for (int i = 0; i < METADATA_TOKEN_LEN; i++)
        difference |= (unsigned)(expected[i] ^ token[i]);
    return difference == 0 && now < load_be64(fields);
}
