// SPDX-License-Identifier: MPL-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/http.h"
#include "node/problem.h"

const char *request_query(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool request_flag(const struct request *r, const char *name)
{
    const char *value = request_query(r, name);
    return value && (strcmp(value, "1") == 0 || strcmp(value, "true") == 0);
}

bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (digit > 9 || digit > max || v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

static void answer(struct request *r, unsigned status, const char *content_type, void *data, size_t len)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return; // the connection is closed
    }
    if (content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (r->response)
        MHD_destroy_response(r->response);
    r->response = response;
    r->status = status;
}

void answer_json(struct request *r, unsigned status, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text)
        answer(r, status, status >= 400 ? "application/problem+json" : "application/json", text, strlen(text));
}

void answer_bytes(struct request *r, unsigned status, const char *content_type, struct blob *body)
{
    if (!body->failed)
        answer(r, status, content_type, body->s, body->len);
    else
        free(body->s);
    *body = (struct blob){0};
}

void answer_empty(struct request *r, unsigned status)
{
    answer(r, status, NULL, NULL, 0);
}

bool page_begin(struct request *r, struct page *p)
{
    *p = (struct page){.limit = HTTP_PAGE_DEFAULT, .token = request_query(r, "page_token")};
    const char *limit = request_query(r, "limit");
    if (limit && (!parse_number(limit, HTTP_PAGE_MAX, &p->limit) || p->limit == 0)) {
        problem(r, 400, "bad-query", "limit must be 1 to %u", HTTP_PAGE_MAX);
        return false;
    }
    if (!p->token)
        p->token = "";
    blob_puts(&p->out, "{\"items\":[");
    return true;
}

bool page_full(const struct page *p)
{
    return p->n == p->limit;
}

void page_add(struct page *p, const char *json, size_t len)
{
    if (p->n++)
        blob_puts(&p->out, ",");
    blob_add(&p->out, json, len);
}

void page_add_json(struct page *p, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text)
        page_add(p, text, strlen(text));
    else
        p->out.failed = true;
    free(text);
}

void page_answer(struct request *r, struct page *p, const char *next)
{
    blob_printf(&p->out, "],\"next\":\"%s\"}", next); // tokens are keys and numbers: nothing to escape
    answer_bytes(r, 200, "application/json", &p->out);
}
