// SPDX-License-Identifier: MPL-2.0
// Any bytes as any document: refused with errors, or accepted; what is accepted loads again from its own text and,
// through its dump, comes to the same struct.
#include "api/json/json.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void check_errors(const struct api_error_list *errors)
{
    demand(errors->n > 0 && errors->n <= API_MAX_ERRORS);
    json_t *json = api_errors_json(errors);
    demand(json && json_array_size(json) == errors->n);
    json_decref(json);
}

static void check_accepted(const struct api_document *d)
{
    struct api_error_list errors;
    struct api_document *again = api_load(d->resource, d->text, d->text_len, &errors);
    demand(again && strcmp(again->text, d->text) == 0);
    json_t *first = api_dump(d->resource, d->value);
    json_t *second = api_dump(again->resource, again->value);
    demand(first && second && json_equal(first, second));
    json_object_del(first, "hash"); // of the text, not of the dump
    char *text = json_dumps(first, JSON_COMPACT);
    struct api_document *third = api_load(d->resource, text, strlen(text), &errors);
    demand(third != NULL);
    free(text);
    json_decref(first);
    json_decref(second);
    api_document_free(third);
    api_document_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (unsigned resource = 0; resource < API_RESOURCES; resource++) {
        struct api_error_list errors;
        struct api_document *d = api_load(resource, (const char *)data, size, &errors);
        if (d)
            check_accepted(d);
        else
            check_errors(&errors);
        api_document_free(d);
    }
    return 0;
}
