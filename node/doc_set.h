// SPDX-License-Identifier: MPL-2.0
// doc_set.h: accepted documents of one kind, in memory: key -> canonical JSON text, ordered by key (strcmp), so that a
// list can page by the last key it gave. A skip list: 65,536 documents in any order go in within a fraction of a
// second. Control thread only.
#ifndef NEREUS_NODE_DOC_SET_H
#define NEREUS_NODE_DOC_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOC_KEY_MAX 96
#define DOC_SET_HEIGHT 12

struct doc {
    char *key;
    char *text; // canonical JSON
    size_t len;
    unsigned height;
    struct doc *next[]; // next[0]: the next greater key, NULL at the end
};

struct doc_set { // all zero: empty
    struct doc *first[DOC_SET_HEIGHT];
    size_t n;
    uint64_t random; // of the heights
};

struct doc *doc_set_get(const struct doc_set *s, const char *key);
bool doc_set_put(struct doc_set *s, const char *key, const char *text, size_t len); // copies; false: no memory
void doc_set_delete(struct doc_set *s, const char *key);
struct doc *doc_set_after(const struct doc_set *s, const char *key); // first key greater than `key`, NULL at the end
void doc_set_clear(struct doc_set *s);

#endif
