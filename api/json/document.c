// SPDX-License-Identifier: MPL-2.0
// A document as a whole: bytes, JSON, hash, struct.
#include "api/json/fields.h"
#include "api/json/sha256.h"
#include "api/json/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Where nesting passes the limit; `len` when it does not. Runs before the parser, which is recursive.
static size_t too_deep_at(const char *text, size_t len)
{
    unsigned depth = 0;
    bool string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (string && c == '\\')
            i++;
        else if (c == '"')
            string = !string;
        else if (!string && (c == '{' || c == '['))
            depth++;
        else if (!string && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > API_MAX_DEPTH)
            return i;
    }
    return len;
}

static const char *parse_code(const json_error_t *e)
{
    switch (json_error_code(e)) {
    case json_error_duplicate_key:
        return "duplicate-key";
    case json_error_numeric_overflow:
        return "range";
    default:
        return "syntax";
    }
}

static json_t *parse(const char *text, size_t len, struct api_error_list *errors)
{
    char pointer[sizeof(errors->e[0].pointer)];
    json_error_t e;
    if (len > API_MAX_BYTES) {
        api_fail_at(errors, "", "too-large", "%zu bytes, at most %u", len, API_MAX_BYTES);
        return NULL;
    }
    size_t deep = too_deep_at(text, len);
    if (deep < len) {
        locate(text, deep, pointer, sizeof(pointer));
        api_fail_at(errors, pointer, "too-deep", "nested deeper than %u", API_MAX_DEPTH);
        return NULL;
    }
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (json)
        return json;
    locate(text, MIN((size_t)MAX(e.position, 0), len), pointer, sizeof(pointer));
    api_fail_at(errors, pointer, parse_code(&e), "line %d, column %d: %s", e.line, e.column, e.text);
    return NULL;
}

// Numbers are integers everywhere, the free-form parts too: a fraction has no one text to hash.
static void refuse_fractions(struct loader *l, const json_t *json, const struct path *path)
{
    if (json_is_real(json)) {
        api_fail(l, path, "type", "expected an integer, found a fraction");
        return;
    }
    if (json_is_array(json)) {
        for (size_t i = 0; i < json_array_size(json) && !l->errors->more; i++) {
            struct path here = {.up = path, .index = i};
            refuse_fractions(l, json_array_get(json, i), &here);
        }
    } else if (json_is_object(json)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)json, key, value)
        {
            struct path here = {.up = path, .key = key};
            refuse_fractions(l, value, &here);
        }
    }
}

int canonical(const json_t *json, json_dump_callback_t sink, void *ctx)
{
    return json_dump_callback(json, sink, ctx, JSON_COMPACT | JSON_SORT_KEYS);
}

static int hash_bytes(const char *bytes, size_t n, void *ctx)
{
    sha256_add(ctx, bytes, n);
    return 0;
}

bool api_hash(const json_t *document, uint8_t hash[32])
{
    struct sha256 s;
    json_t *rest = json_copy((json_t *)document);
    if (!rest)
        return false;
    json_object_del(rest, "generation");
    json_object_del(rest, "hash");
    sha256_init(&s);
    bool done = canonical(rest, hash_bytes, &s) == 0;
    sha256_end(&s, hash);
    json_decref(rest);
    return done;
}

void api_hash_text(const uint8_t hash[32], char text[API_HASH_TEXT])
{
    memcpy(text, "sha256:", 7);
    bytes_to_hex(hash, 32, text + 7);
}

// Checks the hash the document carries, or gives it one.
static void settle_hash(struct loader *l, json_t *json, struct blueprint *b)
{
    char text[API_HASH_TEXT];
    uint8_t hash[32];
    struct path here = {.key = "hash"};
    if (!api_hash(json, hash)) {
        api_fail(l, NULL, "no-memory", "out of memory");
        return;
    }
    api_hash_text(hash, text);
    if (json_is_string(json_object_get(json, "hash")) && memcmp(b->hash, hash, sizeof(hash)) != 0) {
        api_fail(l, &here, "hash", "the document's hash is %s", text);
        return;
    }
    memcpy(b->hash, hash, sizeof(hash));
    if (json_object_set_new(json, "hash", json_string(text)) < 0)
        api_fail(l, NULL, "no-memory", "out of memory");
}

static bool keep_text(struct api_document *d, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    if (!text)
        return false;
    d->text_len = strlen(text);
    d->text = arena_text(d->arena, text, d->text_len);
    free(text);
    return d->text != NULL;
}

static struct api_document *document_create(enum api_resource resource)
{
    struct arena *arena = arena_create();
    struct api_document *d = arena ? arena_zeroed(arena, sizeof(*d)) : NULL;
    void *value = d ? arena_zeroed(arena, api_objects[resource]->size) : NULL;
    if (!value) {
        arena_destroy(arena);
        return NULL;
    }
    *d = (struct api_document){.resource = resource, .value = value, .arena = arena};
    return d;
}

static void load_json_document(struct loader *l, struct api_document *d, json_t *json)
{
    refuse_fractions(l, json, NULL);
    if (l->errors->n == 0)
        load_object(l, api_objects[d->resource], json, (void *)d->value, NULL);
    if (l->errors->n == 0 && d->resource == API_BLUEPRINT)
        settle_hash(l, json, (struct blueprint *)d->value);
    if (l->errors->n == 0 && !keep_text(d, json))
        api_fail(l, NULL, "no-memory", "out of memory");
}

static struct api_document *load(enum api_resource resource, const char *text, size_t len,
                                 struct api_error_list *errors)
{
    json_t *json = parse(text, len, errors);
    if (!json)
        return NULL;
    struct api_document *d = document_create(resource);
    if (d)
        load_json_document(&(struct loader){d->arena, errors}, d, json);
    else
        api_fail_at(errors, "", "no-memory", "out of memory");
    json_decref(json);
    return d;
}

struct api_document *api_load(enum api_resource resource, const char *text, size_t len, struct api_error_list *errors)
{
    errors->n = 0;
    errors->more = false;
    json_memory_watch();
    struct api_document *d = load(resource, text, len, errors);
    if (json_memory_ran_out()) { // then whatever else was found may come of it
        errors->n = 0;
        api_fail_at(errors, "", "no-memory", "out of memory");
    }
    if (errors->n == 0)
        return d;
    api_document_free(d);
    return NULL;
}

void api_document_free(struct api_document *d)
{
    if (d)
        arena_destroy(d->arena); // d is in it
}
