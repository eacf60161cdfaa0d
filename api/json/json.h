// SPDX-License-Identifier: MPL-2.0
// json.h: API documents as JSON, in and out. One table per resource (api/fields) says what is right.
//
// Loading is strict: a field that is not in the table is refused unless its name begins with "x-"; types,
// ranges, words, address syntax, host bits, duplicate keys, missing and contradicting fields are refused. null on
// an optional field is the same as its absence. Up to API_MAX_ERRORS errors are collected, each with the JSON
// pointer (RFC 6901) of the field, a code for programs and a sentence for people.
//
// Memory: what cannot be had is an error of code no-memory, and nothing half loaded is handed out. jansson's own parser
// (2.14) may read out of bounds, though, when malloc fails in the middle of a string: hosts that limit the address
// space of the process give it room for a hundred times the largest document.
//
// Threads: nothing is shared; any thread may load and dump. Input is hostile: it is at most API_MAX_BYTES long and
// API_MAX_DEPTH deep.
#ifndef NEREUS_API_JSON_JSON_H
#define NEREUS_API_JSON_JSON_H

#include "api/types/blueprint.h"
#include "api/types/config.h"
#include "api/types/mapping.h"
#include "api/types/trace.h"
#include <jansson.h>

#define API_MAX_BYTES (16u << 20)
#define API_MAX_DEPTH 64
#define API_MAX_ERRORS 32

enum api_resource {
    API_BLUEPRINT,
    API_MAPPING,
    API_MAPPING_LIST, // {"items": [...]}
    API_EXTERNAL_MAPPING,
    API_EXTERNAL_MAPPING_LIST, // {"items": [...]}
    API_EDGE_SET,
    API_ADDRESS_SET,
    API_TRACE_REQUEST,
    API_CONFIG,
    API_RESOURCES,
};

// Codes, for programs:
//   syntax          not JSON                      unknown-field   not in the table
//   duplicate-key   a key twice in one object     missing         a field that must be there
//   too-large       document, list or string      type            another JSON type was expected
//   too-deep        nested beyond API_MAX_DEPTH   range           a number outside its range
//   no-memory       ours, not the sender's        word            none of a field's words
//   format          address, UUID, name, ... is malformed
//   host-bits       a prefix with bits set beyond its length
//   family          IPv4 where IPv6 belongs, or the reverse
//   one-of          none or several of fields that exclude each other
//   not-applicable  a field that does not go with its neighbours
//   conflict        values that contradict each other
//   duplicate       the same key twice in a list
//   unsupported     right, but beyond this version
//   hash            the document's hash is not the one it carries
struct api_error {
    char pointer[192]; // "" is the whole document
    char code[16];
    char detail[256]; // valid UTF-8
};

struct api_error_list {
    unsigned n;
    bool more; // there were others beyond the last
    struct api_error e[API_MAX_ERRORS];
};

// A loaded document: the struct, and everything it points at, in one arena.
struct api_document {
    enum api_resource resource;
    union {
        const void *value;
        const struct blueprint *blueprint;
        const struct mapping *mapping;
        const struct mapping_list *mapping_list;
        const struct external_mapping *external_mapping;
        const struct external_mapping_list *external_mapping_list;
        const struct edge_set *edge_set;
        const struct address_set *address_set;
        const struct trace_request *trace_request;
        const struct nereusd_config *config;
    };
    // The document as accepted: compact JSON, fields in the sender's order, x- fields kept, `hash` filled in. This
    // is what GET answers and what is saved: its hash holds when it is loaded again.
    const char *text;
    size_t text_len;
    struct arena *arena;
};

// NULL and *errors filled when the document is refused. errors->n is 0 on success.
struct api_document *api_load(enum api_resource resource, const char *text, size_t len, struct api_error_list *errors);
void api_document_free(struct api_document *d); // NULL is allowed

// A new reference, defaults spelled out; NULL when memory is out. `value` is the resource's struct. A blueprint's hash
// is the struct's: of the document as accepted, which need not have spelled out its defaults.
json_t *api_dump(enum api_resource resource, const void *value);

// The hash of a blueprint as JSON: SHA-256 over the document without its members "generation" and "hash",
// keys sorted by bytes, no spaces, UTF-8 unescaped, control characters as \b \f \n \r \t or \u00XX (upper-case
// hex). False when memory is out.
bool api_hash(const json_t *document, uint8_t hash[32]);
#define API_HASH_TEXT 72
void api_hash_text(const uint8_t hash[32], char text[API_HASH_TEXT]); // "sha256:<hex>"

// For answers: [{pointer, code, detail}], a new reference.
json_t *api_errors_json(const struct api_error_list *errors);

#endif
