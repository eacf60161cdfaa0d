// SPDX-License-Identifier: MPL-2.0
// test_document.h: for the tests of api/json: the golden blueprint, changed at one place, and what comes of it.
#ifndef NEREUS_API_JSON_TEST_DOCUMENT_H
#define NEREUS_API_JSON_TEST_DOCUMENT_H

#include "api/json/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *golden_dir; // argv[1] of the test

static inline json_t *golden(const char *name)
{
    char path[1024];
    json_error_t e;
    snprintf(path, sizeof(path), "%s/%s", golden_dir, name);
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!json)
        fail_msg("%s: %s", path, e.text);
    return json;
}

// Replaces what `pointer` names by the JSON `text`; NULL removes it. An index one past the end appends.
static inline void set_at(json_t *document, const char *pointer, const char *text)
{
    char copy[256];
    json_t *at = document;
    snprintf(copy, sizeof(copy), "%s", pointer + 1);
    char *key = copy;
    for (char *slash; (slash = strchr(key, '/')); key = slash + 1) {
        *slash = '\0';
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
        assert_non_null(at);
    }
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!text || value);
    if (json_is_array(at) && (size_t)atoi(key) == json_array_size(at))
        assert_int_equal(json_array_append_new(at, value), 0);
    else if (json_is_array(at) && value)
        assert_int_equal(json_array_set_new(at, (size_t)atoi(key), value), 0);
    else if (json_is_array(at))
        assert_int_equal(json_array_remove(at, (size_t)atoi(key)), 0);
    else if (value)
        assert_int_equal(json_object_set_new(at, key, value), 0);
    else
        assert_int_equal(json_object_del(at, key), 0);
}

static inline struct api_document *load_json(enum api_resource resource, const json_t *json,
                                             struct api_error_list *errors)
{
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    struct api_document *d = api_load(resource, text, strlen(text), errors);
    free(text);
    return d;
}

static inline struct api_document *load_text(enum api_resource resource, const char *text,
                                             struct api_error_list *errors)
{
    return api_load(resource, text, strlen(text), errors);
}

// Exactly this one error.
static inline void assert_error(const struct api_error_list *errors, const char *what, const char *pointer,
                                const char *code)
{
    if (errors->n == 1 && strcmp(errors->e[0].pointer, pointer) == 0 && strcmp(errors->e[0].code, code) == 0)
        return;
    print_error("%s: expected %s at \"%s\", got %u:\n", what, code, pointer, errors->n);
    for (unsigned i = 0; i < errors->n; i++)
        print_error("  %s at \"%s\": %s\n", errors->e[i].code, errors->e[i].pointer, errors->e[i].detail);
    fail();
}

#endif
