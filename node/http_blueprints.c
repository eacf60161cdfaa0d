// SPDX-License-Identifier: MPL-2.0
#include <inttypes.h>
#include <string.h>

#include "api/json/text.h"
#include "node/handlers.h"
#include "node/http_load.h"
#include "node/log.h"
#include "node/problem.h"

static bool path_matches(struct request *r, const struct blueprint *b)
{
    struct uuid id;
    if (!request_uuid(r, 0, &id))
        return false;
    if (uuid_equal(&id, &b->port))
        return true;
    json_t *error = json_pack("[{ss,ss,ss}]", "pointer", "/port", "code", "conflict", "detail",
                              "is not the port that the path names");
    problem_errors(r, 422, "invalid", "the document is for another port than the path", error);
    return false;
}

static void answer_applied(struct request *r, unsigned status, const struct blueprint *b, uint64_t applied_at,
                           bool changed)
{
    char port[UUID_TEXT], hash[API_HASH_TEXT];
    uuid_to_text(&b->port, port);
    api_hash_text(b->hash, hash);
    answer_json(r, status,
                json_pack("{ss,sI,ss,sI,sb}", "port", port, "generation", (json_int_t)b->generation, "hash", hash,
                          "applied_at", (json_int_t)applied_at, "changed", changed));
}

static bool same_document(const struct node_port_status *s, const struct blueprint *b)
{
    return s->generation == b->generation && memcmp(s->hash, b->hash, sizeof(b->hash)) == 0;
}

static void check(struct request *r, const struct blueprint *b, uint32_t port, const struct node_port_status *old)
{
    struct node_error e = {0};
    if (node_blueprint_check(r->d->node, b, &e))
        answer_applied(r, 200, b, port ? old->applied_at : 0, !port || !same_document(old, b));
    else
        problem_node(r, &e);
}

static void apply(struct request *r, const struct api_document *document)
{
    const struct blueprint *b = document->blueprint;
    struct node_port_status old = {0}, now = {0};
    struct node_error e = {0};
    char key[UUID_TEXT];
    uuid_to_text(&b->port, key);
    uint32_t port = node_port_find(r->d->node, &b->port);
    if (port)
        node_port_status(r->d->node, port, &old);
    if (request_flag(r, "dry_run")) {
        check(r, b, port, &old);
        return;
    }
    if (!node_blueprint_put(r->d->node, b, daemon_now(), daemon_wall(), &e)) {
        log_warn("blueprint refused", "port=%s generation=%" PRIu64 " pointer=%s detail=%s", key, b->generation,
                 log_quote(e.pointer).s, log_quote(e.text).s);
        problem_node(r, &e);
        return;
    }
    bool changed = !port || !same_document(&old, b);
    // Also when nothing changed: a former attempt may have been applied and not saved. Equal text is not written again.
    if (!store_blueprint_put(&r->d->store, key, document->text, document->text_len)) {
        problem_not_saved(r);
        return;
    }
    node_port_status(r->d->node, node_port_find(r->d->node, &b->port), &now);
    if (changed)
        log_info("blueprint applied", "port=%s generation=%" PRIu64, key, b->generation);
    answer_applied(r, port ? 200 : 201, b, now.applied_at, changed);
}

void put_blueprint(struct request *r)
{
    struct api_document *document = request_load(r, API_BLUEPRINT);
    if (document && path_matches(r, document->blueprint))
        apply(r, document);
    api_document_free(document);
}

void get_blueprint(struct request *r)
{
    struct uuid id;
    char key[UUID_TEXT];
    if (!request_uuid(r, 0, &id))
        return;
    uuid_to_text(&id, key);
    const struct doc *doc = store_get(&r->d->store, STORE_BLUEPRINTS, key);
    if (!doc) {
        problem(r, 404, "not-found", "no blueprint for port %s", key);
        return;
    }
    struct blob out = {0};
    blob_add(&out, doc->text, doc->len);
    answer_bytes(r, 200, "application/json", &out);
}

void list_blueprints(struct request *r)
{
    struct page page;
    if (!page_begin(r, &page))
        return;
    const struct doc_set *docs = &r->d->store.docs[STORE_BLUEPRINTS];
    const struct doc *d = doc_set_after(docs, page.token);
    const char *last = "";
    for (; d && !page_full(&page); d = d->next[0]) {
        struct uuid id;
        struct node_port_status s;
        char hash[API_HASH_TEXT];
        last = d->key;
        uint32_t port = uuid_from_text(last, &id) ? node_port_find(r->d->node, &id) : 0;
        if (!port || !node_port_status(r->d->node, port, &s))
            continue; // stored but refused at start: /v1/health says so
        api_hash_text(s.hash, hash);
        page_add_json(&page, json_pack("{ss,ss,sI,ss}", "port", last, "name", s.name, "generation",
                                       (json_int_t)s.generation, "hash", hash));
    }
    page_answer(r, &page, d ? last : "");
}

void delete_blueprint(struct request *r)
{
    struct uuid id;
    char key[UUID_TEXT];
    struct node_error e = {0};
    if (!request_uuid(r, 0, &id))
        return;
    uuid_to_text(&id, key);
    bool here = node_port_find(r->d->node, &id) != 0;
    if (!here && !store_get(&r->d->store, STORE_BLUEPRINTS, key)) {
        problem(r, 404, "not-found", "no blueprint for port %s", key);
        return;
    }
    if (here && !node_blueprint_delete(r->d->node, &id, &e)) {
        problem_node(r, &e);
        return;
    }
    if (!store_blueprint_delete(&r->d->store, key)) {
        problem_not_saved(r);
        return;
    }
    log_info("port removed", "port=%s", key);
    answer_empty(r, 204);
}
