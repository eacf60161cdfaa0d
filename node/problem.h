// SPDX-License-Identifier: MPL-2.0
// problem.h: refusals as RFC 9457 problem documents.
#ifndef NEREUS_NODE_PROBLEM_H
#define NEREUS_NODE_PROBLEM_H

#include "node/http.h"

// slug: the last part of the type URI, e.g. "stale". detail: a sentence for a person.
void problem(struct request *r, unsigned status, const char *slug, const char *detail, ...)
    __attribute__((format(printf, 4, 5)));
// With errors [{pointer, code, detail}], taken over.
void problem_errors(struct request *r, unsigned status, const char *slug, const char *detail, json_t *errors);
void problem_node(struct request *r, const struct node_error *e); // what the dataplane refused
void problem_not_saved(struct request *r);                        // errno of a store_* call

#endif
