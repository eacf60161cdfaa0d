// SPDX-License-Identifier: MPL-2.0
// doc_set.h: accepted documents of one kind, in memory: key -> canonical JSON text, ordered by key, so that a
// list can page by the last key it gave. Keys are short strings of a fixed shape per kind (doc_set.c is the
// only place that compares them). Control thread only.
#ifndef NEREUS_NODE_DOC_SET_H
#define NEREUS_NODE_DOC_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOC_KEY_MAX 96

struct doc {
    char *text; // canonical JSON
    size_t len;
    char key[];
};

struct doc_set {
    struct doc **items;
    size_t n, room;
};

struct doc *doc_set_get(const struct doc_set *s, const char *key);
bool doc_set_put(struct doc_set *s, const char *key, const char *text, size_t len); // copies; false: no memory
void doc_set_delete(struct doc_set *s, const char *key);
size_t doc_set_after(const struct doc_set *s, const char *key); // position of the first key greater than `key`
void doc_set_clear(struct doc_set *s);

#endif
