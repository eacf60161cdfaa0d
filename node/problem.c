// SPDX-License-Identifier: MPL-2.0
#include "node/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *title_of(unsigned status)
{
    switch (status) {
    case 400:
        return "Malformed request";
    case 404:
        return "Not found";
    case 405:
        return "Method not allowed";
    case 409:
        return "Conflict";
    case 413:
        return "Too large";
    case 422:
        return "Invalid document";
    case 503:
        return "Unavailable";
    case 507:
        return "Limit reached";
    default:
        return "Internal error";
    }
}

void problem_errors(struct request *r, unsigned status, const char *slug, const char *detail, json_t *errors)
{
    json_t *document = json_object();
    json_object_set_new(document, "type", json_sprintf("urn:nereus:problem:%s", slug));
    json_object_set_new(document, "title", json_string(title_of(status)));
    json_object_set_new(document, "status", json_integer((json_int_t)status));
    json_object_set_new(document, "detail", json_string(detail));
    json_object_set_new(document, "errors", errors ? errors : json_array());
    answer_json(r, status, document);
}

void problem(struct request *r, unsigned status, const char *slug, const char *detail, ...)
{
    char text[512];
    va_list args;
    va_start(args, detail);
    vsnprintf(text, sizeof(text), detail, args);
    va_end(args);
    problem_errors(r, status, slug, text, NULL);
}

void problem_node(struct request *r, const struct node_error *e)
{
    static const struct {
        unsigned status;
        const char *slug;
    } codes[] = {
        [NODE_OK] = {500, "internal"},       [NODE_INVALID] = {422, "invalid"},     [NODE_STALE] = {409, "stale"},
        [NODE_CONFLICT] = {409, "conflict"}, [NODE_NOT_FOUND] = {404, "not-found"}, [NODE_LIMIT] = {507, "limit"},
        [NODE_DEVICE] = {422, "device"},
    };
    unsigned code = (unsigned)e->code < ARRAY_LEN(codes) ? (unsigned)e->code : NODE_OK;
    json_t *errors = json_array();
    if (code == NODE_INVALID || e->pointer[0])
        json_array_append_new(
            errors, json_pack("{ss,ss,ss}", "pointer", e->pointer, "code", codes[code].slug, "detail", e->text));
    problem_errors(r, codes[code].status, codes[code].slug, e->text, errors);
}

void problem_not_saved(struct request *r)
{
    problem(r, 500, "not-saved", "applied, but not written to the state directory (%s): send it again",
            strerror(errno));
}
