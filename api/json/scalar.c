// SPDX-License-Identifier: MPL-2.0
// Scalars from JSON: one function per kind of field.
#include "api/json/fields.h"
#include "api/json/text.h"
#include <stdio.h>
#include <string.h>

const char *json_type_name(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

static void store_integer(void *at, size_t size, int64_t value)
{
    if (at) // little-endian (engine/base.h): the low bytes come first
        memcpy(at, &value, size);
}

static void store(void *at, const void *value, size_t size)
{
    if (at)
        memcpy(at, value, size);
}

static void wrong_type(struct loader *l, const struct path *path, const char *expected, const json_t *found)
{
    api_fail(l, path, "type", "expected %s, found %s", expected, json_type_name(found));
}

static const char *string_value(struct loader *l, const json_t *json, const struct path *path)
{
    if (!json_is_string(json))
        wrong_type(l, path, "a string", json);
    return json_string_value(json); // NULL unless a string
}

static void load_bool(struct loader *l, const struct api_field *f, const json_t *json, void *at,
                      const struct path *path)
{
    if (!json_is_boolean(json)) {
        wrong_type(l, path, "true or false", json);
        return;
    }
    int64_t value = json_is_true(json);
    if (f->unsupported && value != f->fallback) {
        api_fail(l, path, "unsupported", "this version does not implement %s", f->unsupported);
        return;
    }
    store_integer(at, 1, value);
}

static void load_integer(struct loader *l, const struct api_field *f, const struct api_type *t, const json_t *json,
                         void *at, const struct path *path)
{
    if (t->kind == API_NULLABLE && json_is_null(json)) {
        store_integer(at, t->size, -1);
        return;
    }
    if (!json_is_integer(json)) {
        wrong_type(l, path, t->kind == API_NULLABLE ? "an integer or null" : "an integer", json);
        return;
    }
    int64_t value = json_integer_value(json);
    if (value < t->min || value > t->max)
        api_fail(l, path, "range", "%lld is not in %lld..%lld", (long long)value, (long long)t->min, (long long)t->max);
    else if (f->unsupported && value != f->fallback)
        api_fail(l, path, "unsupported", "this version does not implement %s: only %lld is accepted", f->unsupported,
                 (long long)f->fallback);
    else
        store_integer(at, t->size, value);
}

static void load_word(struct loader *l, const struct api_type *t, const json_t *json, void *at, const struct path *path)
{
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    char words[160] = "";
    for (unsigned i = 0; i < t->n_words; i++) {
        const struct api_word *w = &t->words[i];
        if (strcmp(s, w->text) == 0) {
            if (w->supported)
                store_integer(at, 1, w->value);
            else
                api_fail(l, path, "unsupported", "this version does not implement \"%s\"", s);
            return;
        }
        size_t n = strlen(words);
        if (w->supported)
            snprintf(words + n, sizeof(words) - n, "%s%s", n > 0 ? ", " : "", w->text);
    }
    api_fail(l, path, "word", "\"%.40s\" is none of: %s", s, words);
}

static bool printable(const char *s, bool blanks)
{
    for (; *s; s++) {
        uint8_t c = (uint8_t)*s;
        if (c < 0x20 || c == 0x7f || (c == ' ' && !blanks))
            return false;
    }
    return true;
}

// RFC 1123 host name: labels of letters, digits and inner hyphens, at most 63 characters each.
static bool domain_name(const char *s)
{
    unsigned label = 0;
    for (const char *p = s; *p; p++) {
        bool alnum = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (*p == '.') {
            if (label == 0 || p[-1] == '-')
                return false;
            label = 0;
        } else if ((!alnum && (*p != '-' || label == 0)) || ++label > 63) {
            return false;
        }
    }
    size_t n = strlen(s);
    return n == 0 || (s[n - 1] != '-' && s[n - 1] != '.');
}

// Why the string is not of its format; NULL: it is.
static const char *string_fault(const char *s, uint8_t format)
{
    switch (format) {
    case FORMAT_WORD:
        return printable(s, false) ? NULL : "it may not hold blanks or control characters";
    case FORMAT_IFNAME:
        if (strcmp(s, ".") == 0 || strcmp(s, "..") == 0 || strpbrk(s, "/:") || !printable(s, false))
            return "it is not an interface name";
        return NULL;
    case FORMAT_DOMAIN:
        return domain_name(s) ? NULL : "it is not a domain name";
    case FORMAT_PATH:
        return *s == '\0' || (*s == '/' && printable(s, true)) ? NULL : "it is not an absolute path";
    default:
        return printable(s, true) ? NULL : "it may not hold control characters";
    }
}

static void load_string(struct loader *l, const struct api_type *t, const json_t *json, void *at,
                        const struct path *path)
{
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    size_t n = json_string_length(json);
    if (n > (size_t)t->max) {
        api_fail(l, path, "too-large", "%zu bytes, at most %lld", n, (long long)t->max);
        return;
    }
    const char *fault = n < (size_t)t->min ? "it may not be empty" : string_fault(s, t->format);
    if (fault) {
        api_fail(l, path, "format", "\"%.40s\": %s", s, fault);
        return;
    }
    const char *copy = at ? arena_text(l->arena, s, n) : s;
    if (!copy)
        api_fail(l, path, "no-memory", "out of memory");
    else
        store(at, &copy, sizeof(copy));
}

static const char *family_name(uint8_t family)
{
    return family == 4 ? "an IPv4" : family == 6 ? "an IPv6" : "an IP";
}

static bool right_family(struct loader *l, const struct api_type *t, bool v4, const char *s, const struct path *path)
{
    if (t->family == 0 || (t->family == 4) == v4)
        return true;
    api_fail(l, path, "family", "%s is %s, expected IPv%u", s, v4 ? "IPv4" : "IPv6", t->family);
    return false;
}

static void load_ip(struct loader *l, const struct api_type *t, const json_t *json, void *at, const struct path *path)
{
    struct ip_addr a;
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (!ip_from_text(s, &a)) {
        api_fail(l, path, "format", "\"%.50s\" is not %s address", s, family_name(t->family));
        return;
    }
    if (!right_family(l, t, ip_is_v4(&a), s, path))
        return;
    bool unicast = !ip_is_unspecified(&a) && !ip_is_multicast(&a) && !ip_is_v4_broadcast(&a);
    if (t->format == FORMAT_UNICAST && !unicast) {
        api_fail(l, path, "range", "%s is not a unicast address", s);
        return;
    }
    store(at, &a, sizeof(a));
}

static void load_prefix(struct loader *l, const struct api_type *t, const json_t *json, void *at,
                        const struct path *path)
{
    struct ip_prefix p;
    char text[PREFIX_TEXT];
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    switch (prefix_from_text(s, &p)) {
    case PREFIX_TEXT_MALFORMED:
        api_fail(l, path, "format", "\"%.50s\" is not %s prefix (address/length)", s, family_name(t->family));
        return;
    case PREFIX_TEXT_HOST_BITS:
        prefix_to_text(&p, text);
        api_fail(l, path, "host-bits", "%s has bits set beyond its length; the prefix is %s", s, text);
        return;
    case PREFIX_TEXT_OK:
        if (right_family(l, t, prefix_is_v4(&p), s, path))
            store(at, &p, sizeof(p));
    }
}

static void load_mac(struct loader *l, const struct api_type *t, const json_t *json, void *at, const struct path *path)
{
    static const struct mac_addr zero;
    struct mac_addr m;
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (!mac_from_text(s, &m))
        api_fail(l, path, "format", "\"%.40s\" is not a MAC address like 02:00:00:00:00:01", s);
    else if (t->format == FORMAT_UNICAST && (mac_is_multicast(&m) || mac_equal(&m, &zero)))
        api_fail(l, path, "range", "%s is not a unicast MAC address", s);
    else
        store(at, &m, sizeof(m));
}

static void load_uuid(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    struct uuid u;
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (!uuid_from_text(s, &u))
        api_fail(l, path, "format", "\"%.40s\" is not a UUID", s);
    else
        store(at, &u, sizeof(u));
}

static void load_ports(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    struct port_range r;
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (!ports_from_text(s, &r))
        api_fail(l, path, "format", "\"%.40s\" is not a port or a range of ports like 22 or 80-90", s);
    else
        store(at, &r, sizeof(r));
}

static void load_protocol(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    uint16_t protocol;
    if (json_is_integer(json)) {
        json_int_t value = json_integer_value(json);
        if (value < 0 || value > 255) {
            api_fail(l, path, "range", "protocol %lld is not in 0..255", (long long)value);
            return;
        }
        protocol = (uint16_t)value;
    } else if (!json_is_string(json)) {
        wrong_type(l, path, "a protocol's name or number", json);
        return;
    } else if (!protocol_from_text(json_string_value(json), &protocol)) {
        api_fail(l, path, "word", "\"%.40s\" is no protocol: any, tcp, udp, icmp, icmp6, sctp, esp, gre, ah or 0-255",
                 json_string_value(json));
        return;
    }
    store(at, &protocol, sizeof(protocol));
}

static void load_tcp_flags(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    uint8_t flags;
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (!tcp_flags_from_text(s, &flags))
        api_fail(l, path, "format", "\"%.40s\" is not a set of TCP flags from FSRPAUEC", s);
    else
        store(at, &flags, sizeof(flags));
}

static void load_hash(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    uint8_t hash[32];
    const char *s = string_value(l, json, path);
    if (!s)
        return;
    if (strncmp(s, "sha256:", 7) != 0 || strlen(s) != 7 + 64 || !bytes_from_hex(s + 7, hash, 32))
        api_fail(l, path, "format", "\"%.40s\" is not sha256: and 64 hex digits", s);
    else
        store(at, hash, sizeof(hash));
}

static int count_bytes(const char *bytes, size_t n, void *ctx)
{
    *(size_t *)ctx += n;
    return 0;
}

static int copy_bytes(const char *bytes, size_t n, void *ctx)
{
    char **to = ctx;
    memcpy(*to, bytes, n);
    *to += n;
    return 0;
}

static void load_json(struct loader *l, const json_t *json, void *at, const struct path *path)
{
    if (!json_is_object(json)) {
        wrong_type(l, path, "an object", json);
        return;
    }
    if (!at)
        return;
    size_t n = 0;
    char *text = NULL;
    if (canonical(json, count_bytes, &n) == 0)
        text = arena_zeroed(l->arena, n + 1);
    char *end = text;
    if (!text || canonical(json, copy_bytes, &end) != 0)
        api_fail(l, path, "no-memory", "out of memory");
    else
        store(at, &text, sizeof(text));
}

static void load_mark(struct loader *l, const json_t *json, const struct path *path)
{
    if (!json_is_true(json))
        api_fail(l, path, json_is_false(json) ? "range" : "type", "expected true, found %s",
                 json_is_false(json) ? "false" : json_type_name(json));
}

void load_scalar(struct loader *l, const struct api_field *f, const struct api_type *t, const json_t *json, void *at,
                 const struct path *path)
{
    switch (t->kind) {
    case API_BOOL:
        return load_bool(l, f, json, at, path);
    case API_INT:
    case API_NULLABLE:
        return load_integer(l, f, t, json, at, path);
    case API_WORD:
        return load_word(l, t, json, at, path);
    case API_STRING:
        return load_string(l, t, json, at, path);
    case API_UUID:
        return load_uuid(l, json, at, path);
    case API_MAC:
        return load_mac(l, t, json, at, path);
    case API_IP:
        return load_ip(l, t, json, at, path);
    case API_PREFIX:
        return load_prefix(l, t, json, at, path);
    case API_PORTS:
        return load_ports(l, json, at, path);
    case API_PROTOCOL:
        return load_protocol(l, json, at, path);
    case API_TCP_FLAGS:
        return load_tcp_flags(l, json, at, path);
    case API_HASH:
        return load_hash(l, json, at, path);
    case API_JSON:
        return load_json(l, json, at, path);
    case API_MARK:
        return load_mark(l, json, path);
    default:
        api_fail(l, path, "type", "the table has no such scalar");
    }
}

void store_default(const struct api_field *f, void *at)
{
    if (f->fallback_text) {
        store(at, &f->fallback_text, sizeof(f->fallback_text));
        return;
    }
    struct port_range range = {(uint16_t)(f->fallback >> 16), (uint16_t)f->fallback};
    if (f->type.kind == API_PORTS)
        store(at, &range, sizeof(range));
    else if (f->fallback)
        store_integer(at, f->type.size, f->fallback);
}
