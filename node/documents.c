// SPDX-License-Identifier: MPL-2.0
#include "node/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/text.h"
#include "node/log.h"

void mapping_key(uint32_t vni, const struct ip_addr *ip, char key[DOC_KEY_MAX])
{
    char text[IP_TEXT];
    ip_to_text(ip, text);
    snprintf(key, DOC_KEY_MAX, "%08u/%s", vni, text);
}

static void key_of_mapping(const void *value, char key[DOC_KEY_MAX])
{
    const struct mapping *m = value;
    mapping_key(m->vni, &m->ip, key);
}

static void key_of_external_mapping(const void *value, char key[DOC_KEY_MAX])
{
    const struct external_mapping *m = value;
    char ip[IP_TEXT], length[8] = "", protocol[PROTOCOL_TEXT], ports[PORTS_TEXT];
    ip_to_text(&m->address, ip);
    if (m->prefix_len)
        snprintf(length, sizeof(length), "_%u", m->prefix_len);
    protocol_to_text(m->protocol, protocol);
    ports_to_text(&m->ports, ports);
    snprintf(key, DOC_KEY_MAX, "%s%s/%s/%s", ip, length, protocol, ports);
}

static void key_of_edge_set(const void *value, char key[DOC_KEY_MAX])
{
    char text[PREFIX_TEXT];
    prefix_to_text(&((const struct edge_set *)value)->prefix, text);
    snprintf(key, DOC_KEY_MAX, "%s", text);
}

static void key_of_address_set(const void *value, char key[DOC_KEY_MAX])
{
    char text[UUID_TEXT];
    uuid_to_text(&((const struct address_set *)value)->id, text);
    snprintf(key, DOC_KEY_MAX, "%s", text);
}

static bool put_mapping(struct daemon *d, const void *value, struct node_error *e)
{
    return node_mapping_put(d->node, value, daemon_now(), e);
}

static bool put_external_mapping(struct daemon *d, const void *value, struct node_error *e)
{
    return node_external_mapping_put(d->node, value, e);
}

static bool put_edge_set(struct daemon *d, const void *value, struct node_error *e)
{
    return node_edge_set_put(d->node, value, e);
}

static bool put_address_set(struct daemon *d, const void *value, struct node_error *e)
{
    return node_address_set_put(d->node, value, e);
}

static void items_of_mappings(const struct api_document *list, const void **items, uint32_t *n)
{
    *items = list->mapping_list->items;
    *n = list->mapping_list->n_items;
}

static void items_of_external_mappings(const struct api_document *list, const void **items, uint32_t *n)
{
    *items = list->external_mapping_list->items;
    *n = list->external_mapping_list->n_items;
}

const struct document_kind document_kinds[STORE_JOURNALS] = {
    [STORE_ADDRESS_SETS] = {"address set", API_ADDRESS_SET, API_RESOURCES, sizeof(struct address_set),
                            key_of_address_set, put_address_set, NULL},
    [STORE_MAPPINGS] = {"mapping", API_MAPPING, API_MAPPING_LIST, sizeof(struct mapping), key_of_mapping, put_mapping,
                        items_of_mappings},
    [STORE_EXTERNAL_MAPPINGS] = {"external mapping", API_EXTERNAL_MAPPING, API_EXTERNAL_MAPPING_LIST,
                                 sizeof(struct external_mapping), key_of_external_mapping, put_external_mapping,
                                 items_of_external_mappings},
    [STORE_EDGE_SETS] = {"edge set", API_EDGE_SET, API_RESOURCES, sizeof(struct edge_set), key_of_edge_set,
                         put_edge_set, NULL},
};

enum document_result document_apply(struct daemon *d, struct store_batch *batch, const void *value,
                                    struct node_error *e)
{
    const struct document_kind *kind = &document_kinds[batch->kind];
    char key[DOC_KEY_MAX];
    kind->key(value, key);
    json_t *json = api_dump(kind->one, value);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    *e = (struct node_error){0};
    if (!text) {
        *e = (struct node_error){.code = NODE_LIMIT, .text = "out of memory"};
        return DOCUMENT_REFUSED;
    }
    const struct doc *old = store_get(&d->store, batch->kind, key);
    enum document_result result = DOCUMENT_UNCHANGED;
    if (!old || strcmp(old->text, text) != 0) {
        result = DOCUMENT_APPLIED;
        if (kind->put(d, value, e))
            store_batch_put(batch, key, text, strlen(text));
        else
            result = e->code == NODE_STALE ? DOCUMENT_STALE : DOCUMENT_REFUSED;
    }
    free(text);
    return result;
}

// ---- At start

static bool restore_one(struct daemon *d, enum store_kind kind, const struct api_document *document,
                        struct node_error *e)
{
    if (kind == STORE_BLUEPRINTS)
        return node_blueprint_put(d->node, document->blueprint, daemon_now(), daemon_wall(), e);
    return document_kinds[kind].put(d, document->value, e);
}

static void restore(struct daemon *d, enum store_kind kind, const struct doc *doc)
{
    enum api_resource resource = kind == STORE_BLUEPRINTS ? API_BLUEPRINT : document_kinds[kind].one;
    struct api_error_list errors;
    struct api_document *document = api_load(resource, doc->text, doc->len, &errors);
    struct node_error e = {0};
    if (!document)
        store_problem(&d->store, "%s %s is stored but not understood: %s %s", store_kind_name(kind), doc->key,
                      errors.e[0].pointer, errors.e[0].detail);
    else if (!restore_one(d, kind, document, &e))
        store_problem(&d->store, "%s %s is stored but refused: %s %s", store_kind_name(kind), doc->key, e.pointer,
                      e.text);
    api_document_free(document);
}

void documents_restore(struct daemon *d)
{
    for (int kind = 0; kind < STORE_KINDS; kind++) {
        const struct doc_set *docs = &d->store.docs[kind];
        for (const struct doc *doc = docs->first[0]; doc; doc = doc->next[0])
            restore(d, kind, doc);
        if (docs->n)
            log_info("state restored", "kind=%s documents=%zu", store_kind_name(kind), docs->n);
    }
}
