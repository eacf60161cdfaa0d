// SPDX-License-Identifier: MPL-2.0
#include "node/http_load.h"

#include <string.h>

#include "api/json/text.h"
#include "node/problem.h"

struct api_document *request_load(struct request *r, enum api_resource resource)
{
    struct api_error_list errors;
    if (r->body.failed) {
        problem(r, 503, "no-memory", "out of memory");
        return NULL;
    }
    struct api_document *document = api_load(resource, r->body.s ? r->body.s : "", r->body.len, &errors);
    if (document)
        return document;
    const char *code = errors.e[0].code;
    unsigned status = strcmp(code, "syntax") == 0 ? 400 : strcmp(code, "no-memory") == 0 ? 503 : 422;
    const char *slug = status == 400 ? "syntax" : status == 503 ? "no-memory" : "invalid";
    problem_errors(r, status, slug, errors.e[0].detail, api_errors_json(&errors));
    return NULL;
}

bool request_uuid(struct request *r, unsigned parameter, struct uuid *out)
{
    if (uuid_from_text(r->parameters[parameter], out))
        return true;
    problem(r, 400, "bad-path", "%s is not a UUID", r->parameters[parameter]);
    return false;
}

static uint32_t find(struct request *r, const struct uuid *id, const char *text)
{
    uint32_t port = node_port_find(r->d->node, id);
    if (!port)
        problem(r, 404, "not-found", "no port %s on this node", text);
    return port;
}

uint32_t request_port(struct request *r, unsigned parameter)
{
    struct uuid id;
    return request_uuid(r, parameter, &id) ? find(r, &id, r->parameters[parameter]) : 0;
}

bool request_query_port(struct request *r, uint32_t *port)
{
    const char *text = request_query(r, "port");
    struct uuid id;
    *port = 0;
    if (!text)
        return true;
    if (!uuid_from_text(text, &id)) {
        problem(r, 400, "bad-query", "port is not a UUID");
        return false;
    }
    *port = find(r, &id, text);
    return *port != 0;
}
