// SPDX-License-Identifier: MPL-2.0
#include "node/doc_set.h"

#include <stdlib.h>
#include <string.h>

// The first document whose key is not less than `key` (or, with `after`, greater). links[level], when asked for, is
// what points there on that level.
static struct doc *find(const struct doc_set *s, const char *key, bool after, struct doc ***links)
{
    struct doc *const *at = s->first;
    for (int level = DOC_SET_HEIGHT - 1; level >= 0; level--) {
        for (struct doc *d; (d = at[level]); at = d->next) {
            int order = strcmp(d->key, key);
            if (order > 0 || (order == 0 && !after))
                break;
        }
        if (links)
            links[level] = (struct doc **)&at[level];
    }
    return at[0];
}

struct doc *doc_set_after(const struct doc_set *s, const char *key)
{
    return find(s, key, true, NULL);
}

struct doc *doc_set_get(const struct doc_set *s, const char *key)
{
    struct doc *d = find(s, key, false, NULL);
    return d && strcmp(d->key, key) == 0 ? d : NULL;
}

// One document in four is a level higher than its fellows. Keys come from a trusted controller: no secret is needed.
static unsigned pick_height(struct doc_set *s)
{
    uint64_t x = s->random ? s->random : 0x9e3779b97f4a7c15;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    s->random = x;
    unsigned height = 1;
    for (; height < DOC_SET_HEIGHT && (x & 3) == 0; x >>= 2)
        height++;
    return height;
}

static char *copy(const char *bytes, size_t len)
{
    char *out = malloc(len + 1);
    if (!out)
        return NULL;
    memcpy(out, bytes, len);
    out[len] = 0;
    return out;
}

static void doc_free(struct doc *d)
{
    free(d->key);
    free(d->text);
    free(d);
}

static bool insert(struct doc_set *s, struct doc ***links, const char *key, char *text, size_t len)
{
    unsigned height = pick_height(s);
    struct doc *d = calloc(1, sizeof(*d) + height * sizeof(d->next[0]));
    char *own_key = copy(key, strlen(key));
    if (!d || !own_key) {
        free(d);
        free(own_key);
        return false;
    }
    d->key = own_key;
    d->text = text;
    d->len = len;
    d->height = height;
    for (unsigned level = 0; level < height; level++) {
        d->next[level] = *links[level];
        *links[level] = d;
    }
    s->n++;
    return true;
}

bool doc_set_put(struct doc_set *s, const char *key, const char *text, size_t len)
{
    struct doc **links[DOC_SET_HEIGHT];
    struct doc *d = find(s, key, false, links);
    char *own_text = copy(text, len);
    if (!own_text)
        return false;
    if (d && strcmp(d->key, key) == 0) {
        free(d->text);
        d->text = own_text;
        d->len = len;
        return true;
    }
    if (insert(s, links, key, own_text, len))
        return true;
    free(own_text);
    return false;
}

void doc_set_delete(struct doc_set *s, const char *key)
{
    struct doc **links[DOC_SET_HEIGHT];
    struct doc *d = find(s, key, false, links);
    if (!d || strcmp(d->key, key) != 0)
        return;
    for (unsigned level = 0; level < d->height; level++)
        *links[level] = d->next[level];
    doc_free(d);
    s->n--;
}

void doc_set_clear(struct doc_set *s)
{
    for (struct doc *d = s->first[0], *next; d; d = next) {
        next = d->next[0];
        doc_free(d);
    }
    *s = (struct doc_set){0};
}
