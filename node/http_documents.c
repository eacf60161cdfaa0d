// SPDX-License-Identifier: MPL-2.0
// Mappings, external mappings, edge sets and address sets over HTTP.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/json/text.h"
#include "node/documents.h"
#include "node/handlers.h"
#include "node/http_load.h"
#include "node/problem.h"

static void answer_doc(struct request *r, enum store_kind kind, const char *key)
{
    const struct doc *doc = store_get(&r->d->store, kind, key);
    struct blob out = {0};
    if (!doc) {
        problem(r, 404, "not-found", "no %s %s", document_kinds[kind].noun, key);
        return;
    }
    blob_add(&out, doc->text, doc->len);
    answer_bytes(r, 200, "application/json", &out);
}

// PUT of one document whose key must be the one in the path.
static void put_one(struct request *r, enum store_kind kind, const char *path_key)
{
    struct api_document *document = request_load(r, document_kinds[kind].one);
    struct store_batch batch = {.kind = kind};
    struct node_error e;
    char key[DOC_KEY_MAX];
    if (!document)
        return;
    document_kinds[kind].key(document->value, key);
    if (strcmp(key, path_key) != 0) {
        problem(r, 422, "invalid", "the document is %s %s, the path says %s", document_kinds[kind].noun, key, path_key);
        api_document_free(document);
        return;
    }
    enum document_result result = document_apply(r->d, &batch, document->value, &e);
    bool saved = store_commit(&r->d->store, &batch);
    if (result == DOCUMENT_STALE || result == DOCUMENT_REFUSED)
        problem_node(r, &e);
    else if (!saved)
        problem_not_saved(r);
    else
        answer_doc(r, kind, key);
    api_document_free(document);
}

// POST of many: wholly refused when any is malformed, then each by its epoch.
static void post_many(struct request *r, enum store_kind kind)
{
    struct api_document *document = request_load(r, document_kinds[kind].list);
    if (!document)
        return;
    struct store_batch batch = {.kind = kind};
    const void *items;
    uint32_t n, i;
    unsigned counts[4] = {0};
    struct node_error e;
    document_kinds[kind].items(document, &items, &n);
    for (i = 0; i < n && counts[DOCUMENT_REFUSED] == 0; i++) {
        const void *item = (const uint8_t *)items + i * document_kinds[kind].size;
        counts[document_apply(r->d, &batch, item, &e)]++;
    }
    bool saved = store_commit(&r->d->store, &batch);
    if (counts[DOCUMENT_REFUSED]) { // a limit: what came before it is applied and saved
        char pointer[sizeof(e.pointer)];
        snprintf(pointer, sizeof(pointer), "/items/%u%.64s", i - 1, e.pointer);
        memcpy(e.pointer, pointer, sizeof(pointer));
        problem_node(r, &e);
    } else if (!saved) {
        problem_not_saved(r);
    } else {
        answer_json(r, 200,
                    json_pack("{si,si,si}", "applied", counts[DOCUMENT_APPLIED], "unchanged",
                              counts[DOCUMENT_UNCHANGED], "stale", counts[DOCUMENT_STALE]));
    }
    api_document_free(document);
}

static bool begins_with(const char *key, const char *start)
{
    return strncmp(key, start, strlen(start)) == 0;
}

// Pages through the documents whose key begins with `start`.
static void list(struct request *r, enum store_kind kind, const char *start)
{
    struct page page;
    if (!page_begin(r, &page))
        return;
    const struct doc_set *docs = &r->d->store.docs[kind];
    const char *last = "";
    const struct doc *d = doc_set_after(docs, strcmp(page.token, start) > 0 ? page.token : start);
    for (; d && begins_with(d->key, start) && !page_full(&page); d = d->next[0]) {
        last = d->key;
        page_add(&page, d->text, d->len);
    }
    page_answer(r, &page, d && begins_with(d->key, start) ? last : "");
}

static bool path_mapping(struct request *r, char key[DOC_KEY_MAX])
{
    uint64_t vni;
    struct ip_addr ip;
    if (!parse_number(r->parameters[0], 0xffffff, &vni) || !ip_from_text(r->parameters[1], &ip)) {
        problem(r, 400, "bad-path", "a mapping is named by VNI and address, as in /v1/mappings/100/10.0.0.4");
        return false;
    }
    mapping_key((uint32_t)vni, &ip, key);
    return true;
}

void put_mapping(struct request *r)
{
    char key[DOC_KEY_MAX];
    if (path_mapping(r, key))
        put_one(r, STORE_MAPPINGS, key);
}

void get_mapping(struct request *r)
{
    char key[DOC_KEY_MAX];
    if (path_mapping(r, key))
        answer_doc(r, STORE_MAPPINGS, key);
}

void post_mappings(struct request *r)
{
    post_many(r, STORE_MAPPINGS);
}

void list_mappings(struct request *r)
{
    char start[DOC_KEY_MAX] = "";
    const char *vni = request_query(r, "vni");
    uint64_t number;
    if (vni && !parse_number(vni, 0xffffff, &number)) {
        problem(r, 400, "bad-query", "vni is not a VNI");
        return;
    }
    if (vni)
        snprintf(start, sizeof(start), "%08u/", (unsigned)number);
    list(r, STORE_MAPPINGS, start);
}

void post_external_mappings(struct request *r)
{
    post_many(r, STORE_EXTERNAL_MAPPINGS);
}

void list_external_mappings(struct request *r)
{
    list(r, STORE_EXTERNAL_MAPPINGS, "");
}

void put_edge_set(struct request *r)
{
    char key[DOC_KEY_MAX], text[PREFIX_TEXT];
    struct ip_prefix prefix;
    snprintf(text, sizeof(text), "%.49s", r->parameters[0]);
    char *underscore = strrchr(text, '_');
    if (underscore)
        *underscore = '/';
    if (!underscore || prefix_from_text(text, &prefix) != PREFIX_TEXT_OK) {
        problem(r, 400, "bad-path", "an edge set is named by its prefix, as in /v1/edge-sets/198.51.100.0_24");
        return;
    }
    prefix_to_text(&prefix, text);
    snprintf(key, sizeof(key), "%s", text);
    put_one(r, STORE_EDGE_SETS, key);
}

void list_edge_sets(struct request *r)
{
    list(r, STORE_EDGE_SETS, "");
}

static bool path_set(struct request *r, struct uuid *id, char key[DOC_KEY_MAX])
{
    char text[UUID_TEXT];
    if (!request_uuid(r, 0, id))
        return false;
    uuid_to_text(id, text);
    snprintf(key, DOC_KEY_MAX, "%s", text);
    return true;
}

void put_address_set(struct request *r)
{
    struct uuid id;
    char key[DOC_KEY_MAX];
    if (path_set(r, &id, key))
        put_one(r, STORE_ADDRESS_SETS, key);
}

void get_address_set(struct request *r)
{
    struct uuid id;
    char key[DOC_KEY_MAX];
    if (path_set(r, &id, key))
        answer_doc(r, STORE_ADDRESS_SETS, key);
}

void list_address_sets(struct request *r)
{
    list(r, STORE_ADDRESS_SETS, "");
}

static bool rules_name_set(const struct blueprint_rule *rules, uint32_t n, const struct uuid *set)
{
    for (uint32_t i = 0; i < n; i++)
        if (rules[i].remote.kind == BLUEPRINT_REMOTE_SET && uuid_equal(&rules[i].remote.set, set))
            return true;
    return false;
}

// A port whose blueprint names the set; NULL when there is none.
static const struct blueprint *user_of_set(struct node *n, const struct uuid *set)
{
    for (uint32_t port = node_port_next(n, 0); port; port = node_port_next(n, port)) {
        const struct blueprint *b = node_blueprint(n, port);
        if (b && (rules_name_set(b->firewall.rules, b->firewall.n_rules, set) ||
                  rules_name_set(b->posture.in, b->posture.n_in, set) ||
                  rules_name_set(b->posture.out, b->posture.n_out, set)))
            return b;
    }
    return NULL;
}

// The policy of a blueprint that was just replaced or removed holds its sets until the last worker has left it: some
// milliseconds at most, for which this waits.
static bool delete_unused_set(struct node *n, const struct uuid *id, struct node_error *e)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int tries = 0; tries < 200; tries++) {
        if (node_address_set_delete(n, id, e))
            return true;
        if (e->code != NODE_CONFLICT)
            return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

void delete_address_set(struct request *r)
{
    struct uuid id;
    char key[DOC_KEY_MAX];
    struct node_error e = {0};
    if (!path_set(r, &id, key))
        return;
    const struct blueprint *user = user_of_set(r->d->node, &id);
    if (user) {
        char port[UUID_TEXT];
        uuid_to_text(&user->port, port);
        problem(r, 409, "conflict", "the blueprint of port %s (%.64s) names this address set", port, user->name);
        return;
    }
    bool stored = store_get(&r->d->store, STORE_ADDRESS_SETS, key) != NULL;
    if (!delete_unused_set(r->d->node, &id, &e) && !(e.code == NODE_NOT_FOUND && stored)) {
        problem_node(r, &e);
        return;
    }
    struct store_batch batch = {.kind = STORE_ADDRESS_SETS};
    store_batch_delete(&batch, key);
    if (store_commit(&r->d->store, &batch))
        answer_empty(r, 204);
    else
        problem_not_saved(r);
}
