// SPDX-License-Identifier: MPL-2.0
// metadata.h: what a guest reads at 169.254.169.254, apart from HTTP: the tree of EC2's metadata service, made
// from the port's blueprint, and session tokens (IMDSv2).
//
// `metadata.document` of the blueprint is an object with any of: "meta-data" (an object laid over the defaults, member
// by member; null removes one), "user-data" (a string), "dynamic" (likewise an object). Any other member is taken as
// one of meta-data. "public-keys" may be a list of keys, an object name -> key, or EC2's numbered form, in which it is
// shown.
#ifndef NEREUS_NODE_METADATA_H
#define NEREUS_NODE_METADATA_H

#include "api/types/blueprint.h"
#include "node/blob.h"

// The answer to GET `path` (no query string), appended to `out`. False: there is nothing of that name.
bool metadata_get(const struct blueprint *b, const char *path, struct blob *out, const char **content_type);

#define METADATA_TOKEN_MAX_S 21600
#define METADATA_TOKEN_LEN 96 // characters, without the NUL

struct metadata_secret { // drawn at start: tokens end with the process
    uint8_t key[32];
};
// A token for `port`, good until `expires` (monotonic seconds). It holds its own proof: nothing is stored.
void metadata_token_make(const struct metadata_secret *s, const struct uuid *port, uint64_t expires, uint64_t nonce,
                         char out[METADATA_TOKEN_LEN + 1]);
bool metadata_token_good(const struct metadata_secret *s, const struct uuid *port, uint64_t now, const char *token);

#endif
