// SPDX-License-Identifier: MPL-2.0
#include "api/json/fields.h"
#include <stdlib.h>
#include <string.h>

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) uint8_t bytes[];
};

struct arena {
    struct chunk *chunks; // the first has room
};

#define CHUNK 8192u

struct arena *arena_create(void)
{
    return calloc(1, sizeof(struct arena));
}

void arena_destroy(struct arena *a)
{
    if (!a)
        return;
    for (struct chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

void *arena_zeroed(struct arena *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct chunk *c = a->chunks;
    if (!c || c->size - c->used < size) {
        size_t room = MAX(size, CHUNK);
        c = calloc(1, sizeof(*c) + room);
        if (!c)
            return NULL;
        c->size = room;
        c->next = a->chunks;
        a->chunks = c;
    }
    void *at = c->bytes + c->used;
    c->used += size;
    return at;
}

char *arena_text(struct arena *a, const char *s, size_t len)
{
    char *copy = arena_zeroed(a, len + 1);
    if (copy)
        memcpy(copy, s, len);
    return copy;
}
