// SPDX-License-Identifier: MPL-2.0
#include "api/json/fields.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_PATH (API_MAX_DEPTH + 1)

void utf8_trim(char *s)
{
    size_t n = strlen(s), back = 0;
    while (back < n && back < 3 && ((uint8_t)s[n - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == n)
        return;
    uint8_t lead = (uint8_t)s[n - 1 - back];
    size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (back < need)
        s[n - 1 - back] = '\0';
}

// Appends "/key" with ~ and / escaped; false when it does not fit.
static bool append_key(char *pointer, size_t size, const char *key)
{
    size_t n = strlen(pointer);
    if (n + 2 > size)
        return false;
    pointer[n++] = '/';
    for (; *key; key++) {
        bool escape = *key == '~' || *key == '/';
        if (n + escape + 2 > size) {
            pointer[n] = '\0';
            utf8_trim(pointer);
            return false;
        }
        if (escape)
            pointer[n++] = '~';
        pointer[n++] = *key == '~' ? '0' : *key == '/' ? '1' : *key;
    }
    pointer[n] = '\0';
    return true;
}

static void path_to_pointer(const struct path *path, char *pointer, size_t size)
{
    const struct path *frames[MAX_PATH];
    unsigned n = 0;
    for (const struct path *p = path; p && n < MAX_PATH; p = p->up)
        frames[n++] = p;
    pointer[0] = '\0';
    while (n-- > 0) {
        char index[24];
        snprintf(index, sizeof(index), "%zu", frames[n]->index);
        if (!append_key(pointer, size, frames[n]->key ? frames[n]->key : index))
            return;
    }
}

static void add(struct api_error_list *errors, const char *pointer, const char *code, const char *prefix,
                const char *format, va_list args)
{
    if (errors->n == API_MAX_ERRORS) {
        errors->more = true;
        return;
    }
    struct api_error *e = &errors->e[errors->n++];
    snprintf(e->pointer, sizeof(e->pointer), "%s", pointer);
    utf8_trim(e->pointer);
    snprintf(e->code, sizeof(e->code), "%s", code);
    size_t n = (size_t)snprintf(e->detail, sizeof(e->detail), "%s", prefix);
    vsnprintf(e->detail + n, sizeof(e->detail) - n, format, args);
    utf8_trim(e->detail);
}

void api_fail(struct loader *l, const struct path *path, const char *code, const char *format, ...)
{
    char pointer[sizeof(((struct api_error *)0)->pointer)];
    char prefix[96] = "";
    path_to_pointer(path, pointer, sizeof(pointer));
    for (const struct path *p = path; p; p = p->up) {
        if (p->id) {
            snprintf(prefix, sizeof(prefix), "%s \"%.64s\": ", p->label, p->id);
            break;
        }
    }
    va_list args;
    va_start(args, format);
    add(l->errors, pointer, code, prefix, format, args);
    va_end(args);
}

void api_fail_at(struct api_error_list *errors, const char *pointer, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(errors, pointer, code, "", format, args);
    va_end(args);
}

json_t *api_errors_json(const struct api_error_list *errors)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < errors->n; i++) {
        const struct api_error *e = &errors->e[i];
        json_t *one = json_pack("{s:s, s:s, s:s}", "pointer", e->pointer, "code", e->code, "detail", e->detail);
        if (!one || json_array_append_new(list, one) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
