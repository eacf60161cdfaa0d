// SPDX-License-Identifier: MPL-2.0
// Dumping: a struct as JSON, by the same tables that load it.
#include "api/json/fields.h"
#include "api/json/text.h"
#include <string.h>

static json_t *dump_object(const struct api_object *o, const void *at);

static const void *member(const void *at, uint16_t offset)
{
    return at && offset != API_NONE ? (const uint8_t *)at + offset : NULL;
}

static int64_t integer_at(const void *at, size_t size)
{
    int64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

static const char *text_at(const void *at)
{
    const char *s;
    memcpy(&s, at, sizeof(s));
    return s ? s : "";
}

static json_t *dump_word(const struct api_type *t, const void *at)
{
    uint8_t value = *(const uint8_t *)at;
    for (unsigned i = 0; i < t->n_words; i++) {
        if (t->words[i].value == value)
            return json_string(t->words[i].text);
    }
    return json_null();
}

static json_t *dump_protocol(const void *at)
{
    uint16_t protocol = (uint16_t)integer_at(at, 2);
    const char *name = protocol_name(protocol);
    return name ? json_string(name) : json_integer(protocol);
}

static json_t *dump_scalar(const struct api_type *t, const void *at)
{
    char text[80];
    switch (t->kind) {
    case API_BOOL:
        return json_boolean(*(const uint8_t *)at);
    case API_MARK:
        return json_true();
    case API_INT:
        return json_integer(integer_at(at, t->size));
    case API_NULLABLE:
        return (int32_t)integer_at(at, 4) < 0 ? json_null() : json_integer(integer_at(at, 4));
    case API_WORD:
        return dump_word(t, at);
    case API_PROTOCOL:
        return dump_protocol(at);
    case API_STRING:
        return json_string(text_at(at));
    case API_JSON:
        return json_loads(text_at(at), 0, NULL);
    case API_UUID:
        uuid_to_text(at, text);
        break;
    case API_MAC:
        mac_to_text(at, text);
        break;
    case API_IP:
        ip_to_text(at, text);
        break;
    case API_PREFIX:
        prefix_to_text(at, text);
        break;
    case API_PORTS:
        ports_to_text(at, text);
        break;
    case API_TCP_FLAGS:
        tcp_flags_to_text(*(const uint8_t *)at, text);
        break;
    case API_HASH:
        api_hash_text(at, text);
        break;
    default:
        return NULL;
    }
    return json_string(text);
}

static json_t *dump_list(const struct api_field *f, const void *at)
{
    json_t *list = json_array();
    const uint8_t *items;
    uint32_t n;
    if (!list || f->offset == API_NONE)
        return list;
    memcpy(&items, member(at, f->offset), sizeof(items));
    memcpy(&n, member(at, f->count), sizeof(n));
    const struct api_type *t = f->type.item;
    for (uint32_t i = 0; i < n; i++) {
        const void *element = items + (size_t)i * f->type.item_size;
        json_t *one = t->kind == API_OBJECT ? dump_object(t->object, element) : dump_scalar(t, element);
        if (json_array_append_new(list, one) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *dump_hex(const struct api_field *f, const void *at)
{
    const uint8_t *bytes;
    uint32_t n;
    memcpy(&bytes, member(at, f->offset), sizeof(bytes));
    memcpy(&n, member(at, f->count), sizeof(n));
    struct arena *scratch = arena_create();
    char *text = scratch ? arena_zeroed(scratch, 2 * (size_t)n + 1) : NULL;
    json_t *json = NULL;
    if (text) {
        bytes_to_hex(bytes, n, text);
        json = json_string(text);
    }
    arena_destroy(scratch);
    return json;
}

static bool zero_bytes(const uint8_t *at, size_t n)
{
    while (n > 0 && *at == 0)
        at++, n--;
    return n == 0;
}

// Is the field there, in a document that would load into this struct?
static bool present(const struct api_object *o, const struct api_field *f, const void *at, unsigned one_of_number)
{
    const uint8_t *tag = member(at, o->tag);
    const bool *has = member(at, f->has);
    if (f->one_of && tag)
        return *tag == one_of_number;
    if (has && !*has)
        return false;
    if (f->when && !(f->when >> *tag & 1))
        return false;
    if (f->zero && f->type.kind == API_HEX)
        return integer_at(member(at, f->count), sizeof(uint32_t)) > 0;
    return !f->zero || !zero_bytes(member(at, f->offset), f->type.size);
}

static json_t *dump_field(const struct api_field *f, const void *at)
{
    const void *value = member(at, f->offset);
    uint64_t fallback = (uint64_t)f->fallback; // of a field that is not stored
    if (f->type.kind == API_LIST)
        return dump_list(f, at);
    if (f->type.kind == API_HEX)
        return dump_hex(f, at);
    if (f->type.kind == API_OBJECT)
        return dump_object(f->type.object, value);
    return dump_scalar(&f->type, value ? value : &fallback);
}

static json_t *dump_object(const struct api_object *o, const void *at)
{
    json_t *json = json_object();
    unsigned one_of_number = 0;
    for (unsigned i = 0; json && i < o->n_fields; i++) {
        const struct api_field *f = &o->fields[i];
        unsigned number = f->one_of ? one_of_number++ : 0;
        if (!present(o, f, at, number))
            continue;
        if (json_object_set_new(json, f->name, dump_field(f, at)) < 0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

json_t *api_dump(enum api_resource resource, const void *value)
{
    json_memory_watch();
    json_t *json = dump_object(api_objects[resource], value);
    if (!json_memory_ran_out())
        return json;
    json_decref(json);
    return NULL;
}
