// SPDX-License-Identifier: MPL-2.0
// http_load.h: what most handlers begin with. Each answers with a problem and returns NULL, 0 or false when it cannot.
#ifndef NEREUS_NODE_HTTP_LOAD_H
#define NEREUS_NODE_HTTP_LOAD_H

#include "api/json/json.h"
#include "node/http.h"

struct api_document *request_load(struct request *r, enum api_resource resource); // the body
bool request_uuid(struct request *r, unsigned parameter, struct uuid *out);
uint32_t request_port(struct request *r, unsigned parameter); // index of a port that exists
bool request_query_port(struct request *r, uint32_t *port);   // ?port=, 0 when absent

#endif
