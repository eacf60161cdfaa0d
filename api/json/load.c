// SPDX-License-Identifier: MPL-2.0
// Loading: a document into its struct, by the tables.
#include "api/json/fields.h"
#include "api/json/text.h"
#include <stdio.h>
#include <string.h>

static void *member(void *at, uint16_t offset)
{
    return at && offset != API_NONE ? (uint8_t *)at + offset : NULL;
}

static const struct api_field *find_field(const struct api_object *o, const char *name)
{
    for (unsigned i = 0; i < o->n_fields; i++) {
        if (strcmp(o->fields[i].name, name) == 0)
            return &o->fields[i];
    }
    return NULL;
}

static void refuse_unknown(struct loader *l, const struct api_object *o, const json_t *json, const struct path *path)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        if (find_field(o, key) || strncmp(key, "x-", 2) == 0)
            continue;
        struct path here = {.up = path, .key = key};
        api_fail(l, &here, "unknown-field", "there is no field \"%.60s\" here", key);
    }
}

static void load_list(struct loader *l, const struct api_field *f, const json_t *json, void *at, struct path *path)
{
    const struct api_type *t = &f->type;
    size_t n = json_array_size(json);
    if (!json_is_array(json)) {
        api_fail(l, path, "type", "expected an array, found %s", json_type_name(json));
        return;
    }
    if (n > 0 && f->unsupported) {
        api_fail(l, path, "unsupported", "this version does not implement %s: the list must be empty", f->unsupported);
        return;
    }
    if (n < (size_t)t->min || n > (size_t)t->max) {
        api_fail(l, path, n > (size_t)t->max ? "too-large" : "range", "%zu elements, expected %lld..%lld", n,
                 (long long)t->min, (long long)t->max);
        return;
    }
    uint8_t *items = n > 0 ? arena_zeroed(l->arena, n * t->item_size) : NULL;
    if (n > 0 && !items) {
        api_fail(l, path, "no-memory", "out of memory");
        return;
    }
    for (size_t i = 0; i < n && !l->errors->more; i++) {
        const json_t *element = json_array_get(json, i);
        struct path here = {.up = path, .index = i};
        if (t->item->kind == API_OBJECT)
            load_object(l, t->item->object, element, items + i * t->item_size, &here);
        else
            load_scalar(l, f, t->item, element, items + i * t->item_size, &here);
    }
    uint32_t count = (uint32_t)n;
    if (f->offset == API_NONE)
        return;
    memcpy(member(at, f->offset), &items, sizeof(items));
    memcpy(member(at, f->count), &count, sizeof(count));
}

static void load_hex(struct loader *l, const struct api_field *f, const json_t *json, void *at, const struct path *path)
{
    const char *s = json_string_value(json);
    if (!s) {
        api_fail(l, path, "type", "expected a string, found %s", json_type_name(json));
        return;
    }
    size_t digits = strlen(s);
    uint32_t n = (uint32_t)(digits / 2);
    if (n < (size_t)f->type.min || n > (size_t)f->type.max) {
        api_fail(l, path, "range", "%u bytes, expected %lld..%lld", n, (long long)f->type.min, (long long)f->type.max);
        return;
    }
    uint8_t *bytes = arena_zeroed(l->arena, n);
    if (!bytes) {
        api_fail(l, path, "no-memory", "out of memory");
    } else if (digits % 2 || !bytes_from_hex(s, bytes, n)) {
        api_fail(l, path, "format", "not an even number of hex digits");
    } else {
        memcpy(member(at, f->offset), &bytes, sizeof(bytes));
        memcpy(member(at, f->count), &n, sizeof(n));
    }
}

static void fill_defaults(const struct api_object *o, void *at)
{
    for (unsigned i = 0; i < o->n_fields; i++) {
        const struct api_field *f = &o->fields[i];
        if (f->type.kind == API_OBJECT)
            fill_defaults(f->type.object, member(at, f->offset));
        else if (f->type.kind != API_LIST && f->type.kind != API_HEX)
            store_default(f, member(at, f->offset));
    }
}

static void load_field(struct loader *l, const struct api_field *f, const json_t *json, void *at,
                       const struct path *path)
{
    struct path here = {.up = path, .key = f->name};
    bool *has = member(at, f->has);
    if (has)
        *has = true;
    if (f->type.kind == API_OBJECT)
        load_object(l, f->type.object, json, member(at, f->offset), &here);
    else if (f->type.kind == API_LIST)
        load_list(l, f, json, at, &here);
    else if (f->type.kind == API_HEX)
        load_hex(l, f, json, at, &here);
    else
        load_scalar(l, f, &f->type, json, member(at, f->offset), &here);
}

static const char *tag_word(const struct api_object *o, uint8_t tag)
{
    const struct api_word *w = o->tag_words;
    while (w->value != tag)
        w++;
    return w->text;
}

// A field that goes with some values of the object's tag only. An empty string asks for nothing.
static void load_dependent(struct loader *l, const struct api_object *o, const struct api_field *f, const json_t *value,
                           void *at, const struct path *path)
{
    uint8_t tag = *(uint8_t *)member(at, o->tag);
    struct path here = {.up = path, .key = f->name};
    bool filled = value && !(json_is_string(value) && json_string_length(value) == 0);
    if (filled && !(f->when >> tag & 1))
        api_fail(l, &here, "not-applicable", "%s \"%s\" takes no %s", o->tag_name, tag_word(o, tag), f->name);
    else if (filled)
        load_field(l, f, value, at, path);
    else if (f->need >> tag & 1)
        api_fail(l, &here, "missing", "%s \"%s\" needs the field %s", o->tag_name, tag_word(o, tag), f->name);
}

static void check_one_of(struct loader *l, const struct api_object *o, const json_t *json, void *at,
                         const struct path *path)
{
    char names[128] = "";
    unsigned found = 0, number = 0;
    for (unsigned i = 0; i < o->n_fields; i++) {
        const struct api_field *f = &o->fields[i];
        if (!f->one_of)
            continue;
        size_t n = strlen(names);
        snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", f->name);
        if (json_object_get(json, f->name)) {
            found++;
            if (o->tag != API_NONE)
                *(uint8_t *)member(at, o->tag) = (uint8_t)number;
        }
        number++;
    }
    if (number > 0 && found != 1)
        api_fail(l, path, "one-of", "expected exactly one of %s, found %s", names, found > 0 ? "several" : "none");
}

static void load_fields(struct loader *l, const struct api_object *o, const json_t *json, void *at,
                        const struct path *path)
{
    bool tag_wrong = false; // then nothing can be said of what depends on it
    for (unsigned i = 0; i < o->n_fields; i++) {
        const struct api_field *f = &o->fields[i];
        struct path here = {.up = path, .key = f->name};
        unsigned before = l->errors->n;
        const json_t *value = json_object_get(json, f->name);
        if (value && json_is_null(value) && (f->optional || f->zero) && !f->one_of)
            value = NULL;
        if (f->when && tag_wrong)
            continue;
        if (f->when)
            load_dependent(l, o, f, value, at, path);
        else if (value)
            load_field(l, f, value, at, path);
        else if (f->required)
            api_fail(l, &here, "missing", "the field %s is missing", f->name);
        if (o->tag != API_NONE && f->offset == o->tag && l->errors->n != before)
            tag_wrong = true;
    }
}

void load_object(struct loader *l, const struct api_object *o, const json_t *json, void *at, const struct path *path)
{
    if (l->errors->more)
        return;
    if (!json_is_object(json)) {
        api_fail(l, path, "type", "expected an object, found %s", json_type_name(json));
        return;
    }
    struct path here;
    if (path && o->labelled) {
        here = *path;
        here.label = o->name;
        here.id = json_string_value(json_object_get(json, "id"));
        path = &here;
    }
    unsigned before = l->errors->n;
    refuse_unknown(l, o, json, path);
    fill_defaults(o, at);
    load_fields(l, o, json, at, path);
    check_one_of(l, o, json, at, path);
    if (o->check && l->errors->n == before)
        o->check(l, at, path);
}
