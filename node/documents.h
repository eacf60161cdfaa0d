// SPDX-License-Identifier: MPL-2.0
// documents.h: the kinds of documents that are not blueprints, in one table: how each is loaded, keyed, given to
// the dataplane and stored. Start and API take the same path.
#ifndef NEREUS_NODE_DOCUMENTS_H
#define NEREUS_NODE_DOCUMENTS_H

#include "api/json/json.h"
#include "node/daemon.h"

struct document_kind {
    const char *noun;            // in sentences: "mapping"
    enum api_resource one, list; // list: API_RESOURCES when there is no call for many
    size_t size;                 // of the struct
    void (*key)(const void *value, char key[DOC_KEY_MAX]);
    bool (*put)(struct daemon *d, const void *value, struct node_error *e);
    void (*items)(const struct api_document *list, const void **items, uint32_t *n);
};
extern const struct document_kind document_kinds[STORE_JOURNALS]; // by enum store_kind

enum document_result { DOCUMENT_APPLIED, DOCUMENT_UNCHANGED, DOCUMENT_STALE, DOCUMENT_REFUSED };
// Gives one document to the dataplane and, when it took it and it is new, to the batch.
enum document_result document_apply(struct daemon *d, struct store_batch *batch, const void *value,
                                    struct node_error *e);

// At start: everything in the store goes to the dataplane, blueprints last. What it refuses stays stored and is
// reported.
void documents_restore(struct daemon *d);

void mapping_key(uint32_t vni, const struct ip_addr *ip, char key[DOC_KEY_MAX]);

#endif
