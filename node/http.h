// SPDX-License-Identifier: MPL-2.0
// http.h: the API server: one table of routes (http_routes.c), one handler each, all on the control thread.
//
// A handler reads the request, does its work and says the answer with one of the answer_* calls. The body is whole when
// a handler runs. What no handler answers is a problem document (RFC 9457).
#ifndef NEREUS_NODE_HTTP_H
#define NEREUS_NODE_HTTP_H

#include <jansson.h>
#include <microhttpd.h>

#include "node/blob.h"
#include "node/daemon.h"

#define HTTP_BODY_MAX (16u << 20)
#define HTTP_PAGE_DEFAULT 1000
#define HTTP_PAGE_MAX 100000
#define HTTP_PARAMETERS 3

struct request {
    struct daemon *d;
    struct MHD_Connection *connection;
    const struct route *route;
    char parameters[HTTP_PARAMETERS][128]; // what stood for each {name} of the route's pattern, in order
    struct blob body;
    bool body_too_large;
    struct MHD_Response *response;
    unsigned status;
};

struct route {
    const char *method, *pattern; // "/v1/ports/{port}/rules"
    void (*handle)(struct request *r);
    bool body; // takes a body; without this flag one is ignored
};
extern const struct route http_routes[];
extern const size_t http_n_routes;

struct http_server *http_start(struct daemon *d, char *error, size_t size);
void http_stop(struct http_server *s);
// Handles what is ready. Returns milliseconds until it wants to run again, -1 when only events matter.
int http_run(struct http_server *s);

const char *request_query(const struct request *r, const char *name); // NULL when absent
bool request_flag(const struct request *r, const char *name);         // ?name=1 or true
bool parse_number(const char *text, uint64_t max, uint64_t *out);     // decimal digits only

// ---- Answers. Exactly one per request; json is taken over.
void answer_json(struct request *r, unsigned status, json_t *json);
void answer_bytes(struct request *r, unsigned status, const char *content_type, struct blob *body); // empties body
void answer_empty(struct request *r, unsigned status);

// A page of {"items": [...], "next": "..."}; items are added as JSON text.
struct page {
    struct blob out;
    const char *token; // "": from the start
    uint64_t limit, n;
    char next[128];
};
bool page_begin(struct request *r, struct page *p); // false: answered with a problem
bool page_full(const struct page *p);
void page_add(struct page *p, const char *json, size_t len);
void page_add_json(struct page *p, json_t *json); // taken over
// next: token for what comes after this page, "" at the end.
void page_answer(struct request *r, struct page *p, const char *next);

#endif
