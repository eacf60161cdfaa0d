// SPDX-License-Identifier: MPL-2.0
// fields.h: descriptors made from the field tables (fields.c, generated), and what loading keeps at hand.
// Private to api/json.
#ifndef NEREUS_API_JSON_FIELDS_H
#define NEREUS_API_JSON_FIELDS_H

#include "api/json/json.h"

#define API_NONE 0xffff // not stored

enum api_kind {
    API_BOOL,
    API_INT,      // unsigned, .size bytes
    API_NULLABLE, // int32_t, null is -1
    API_WORD,     // one of .words, one byte
    API_STRING,   // const char *
    API_UUID,
    API_MAC,
    API_IP,
    API_PREFIX,
    API_PORTS,     // struct port_range
    API_PROTOCOL,  // uint16_t
    API_TCP_FLAGS, // uint8_t
    API_HASH,      // "sha256:<hex>", 32 bytes
    API_HEX,       // pointer and count of bytes
    API_JSON,      // any object; stored as canonical text
    API_MARK,      // true and nothing else
    API_OBJECT,
    API_LIST, // pointer and count of .item
};

enum api_format { FORMAT_ANY, FORMAT_TEXT, FORMAT_WORD, FORMAT_IFNAME, FORMAT_DOMAIN, FORMAT_PATH, FORMAT_UNICAST };

struct api_word {
    const char *text;
    uint8_t value;
    bool supported;
};

struct api_type {
    uint8_t kind;   // enum api_kind
    uint8_t size;   // of the stored scalar
    uint8_t family; // IP, PREFIX: 4, 6 or 0 for either
    uint8_t format; // enum api_format, for STRING, IP, MAC
    uint8_t n_words;
    uint16_t item_size; // LIST
    int64_t min, max;   // INT, NULLABLE: value; STRING: bytes; HEX, LIST: elements
    const struct api_word *words;
    const struct api_object *object;
    const struct api_type *item;
};

struct api_field {
    const char *name;
    struct api_type type;
    uint16_t offset; // in the struct, or API_NONE
    uint16_t count;  // LIST, HEX: of the count
    uint16_t has;    // of the bool that says it was there, or API_NONE
    bool required;
    bool optional; // absence is kept in `has`
    bool zero;     // absence is zero bytes
    bool one_of;
    uint32_t when, need; // bits by the tag's value; when 0: always allowed
    int64_t fallback;    // default of a scalar
    const char *fallback_text;
    const char *unsupported; // what anything but the default would need
};

struct loader;
struct path;

struct api_object {
    const char *name;
    const struct api_field *fields;
    uint16_t n_fields, size;
    uint16_t tag; // byte that `when` and `need` speak of, or that is set to the number of the one_of field
    const char *tag_name;
    const struct api_word *tag_words;
    bool labelled; // errors name it with its "id"
    // What takes more than one field to see. Runs when every field is right.
    void (*check)(struct loader *l, const void *value, const struct path *path);
};

extern const struct api_object *const api_objects[API_RESOURCES];

// ---- Where we are in the document. Frames live on the stack, as deep as the tables.
struct path {
    const struct path *up;
    const char *key; // NULL: an element
    size_t index;
    const char *label, *id; // of an element that has a name: rule "r1"
};

struct loader {
    struct arena *arena;
    struct api_error_list *errors;
};

__attribute__((format(printf, 4, 5))) void api_fail(struct loader *l, const struct path *path, const char *code,
                                                    const char *format, ...);
// The same for a pointer that is text already.
__attribute__((format(printf, 4, 5))) void api_fail_at(struct api_error_list *errors, const char *pointer,
                                                       const char *code, const char *format, ...);
// Shortens s, which has no room for more than `size`, to whole UTF-8 characters.
void utf8_trim(char *s);

// ---- Memory of one document
struct arena *arena_create(void);
void arena_destroy(struct arena *a);
void *arena_zeroed(struct arena *a, size_t size); // aligned for anything; NULL: no memory
char *arena_text(struct arena *a, const char *s, size_t len);

// Has an allocation of jansson failed on this thread since it was last watched?
void json_memory_watch(void);
bool json_memory_ran_out(void);

// ---- Loading (load.c, scalar.c)
void load_object(struct loader *l, const struct api_object *o, const json_t *json, void *at, const struct path *path);
// `at` NULL: checked, not stored. Anything but objects and lists.
void load_scalar(struct loader *l, const struct api_field *f, const struct api_type *t, const json_t *json, void *at,
                 const struct path *path);
void store_default(const struct api_field *f, void *at); // scalars only
const char *json_type_name(const json_t *json);          // "a string"

// What the tables name as `check` (check.c).
void check_blueprint(struct loader *l, const void *value, const struct path *path);
bool check_external_prefix(struct loader *l, const struct ip_prefix *p, const struct path *path);
void check_load_balancers(struct loader *l, const struct blueprint *b); // part of check_blueprint (check_lb.c)
void check_external_mapping(struct loader *l, const void *value, const struct path *path);
void check_edge_set(struct loader *l, const void *value, const struct path *path);
void check_external(struct loader *l, const void *value, const struct path *path);
void check_trace(struct loader *l, const void *value, const struct path *path);
void check_trace_packet(struct loader *l, const void *value, const struct path *path);

// JSON pointer of the place at byte `position` of a text that is not, or not yet, valid JSON (locate.c).
void locate(const char *text, size_t position, char *pointer, size_t size);

// Compact, keys sorted; bytes go to `sink`, which answers 0, or -1 to stop.
int canonical(const json_t *json, json_dump_callback_t sink, void *ctx);

#endif
