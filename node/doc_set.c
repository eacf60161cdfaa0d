// SPDX-License-Identifier: MPL-2.0
#include "node/doc_set.h"

#include <stdlib.h>
#include <string.h>

// First position whose key is not less than `key` (or, with `after`, greater).
static size_t position(const struct doc_set *s, const char *key, bool after)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(s->items[middle]->key, key);
        if (order < 0 || (after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t doc_set_after(const struct doc_set *s, const char *key)
{
    return position(s, key, true);
}

struct doc *doc_set_get(const struct doc_set *s, const char *key)
{
    size_t at = position(s, key, false);
    return at < s->n && strcmp(s->items[at]->key, key) == 0 ? s->items[at] : NULL;
}

static bool grow(struct doc_set *s)
{
    if (s->n < s->room)
        return true;
    size_t room = s->room ? s->room * 2 : 64;
    struct doc **items = realloc(s->items, room * sizeof(struct doc *));
    if (!items)
        return false;
    s->items = items;
    s->room = room;
    return true;
}

bool doc_set_put(struct doc_set *s, const char *key, const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;

    size_t at = position(s, key, false);
    if (at < s->n && strcmp(s->items[at]->key, key) == 0) {
        free(s->items[at]->text);
        s->items[at]->text = copy;
        s->items[at]->len = len;
        return true;
    }
    struct doc *d = malloc(sizeof(*d) + strlen(key) + 1);
    if (!d || !grow(s)) {
        free(d);
        free(copy);
        return false;
    }
    d->text = copy;
    d->len = len;
    strcpy(d->key, key);
    memmove(s->items + at + 1, s->items + at, (s->n - at) * sizeof(struct doc *));
    s->items[at] = d;
    s->n++;
    return true;
}

static void doc_free(struct doc *d)
{
    free(d->text);
    free(d);
}

void doc_set_delete(struct doc_set *s, const char *key)
{
    size_t at = position(s, key, false);
    if (at == s->n || strcmp(s->items[at]->key, key) != 0)
        return;
    doc_free(s->items[at]);
    memmove(s->items + at, s->items + at + 1, (s->n - at - 1) * sizeof(struct doc *));
    s->n--;
}

void doc_set_clear(struct doc_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        doc_free(s->items[i]);
    free(s->items);
    *s = (struct doc_set){0};
}
