// SPDX-License-Identifier: MPL-2.0
// intern.h: a store of equal-sized records in which equal records are kept once, for control-time builders.
// Records are numbered from 0 in the order they first came; their memory moves as the store grows.
#ifndef NEREUS_ENGINE_INTERN_H
#define NEREUS_ENGINE_INTERN_H

#include "engine/env.h"

#define INTERN_NONE 0xffffffffu

struct intern {
    const struct env *env;
    size_t record_bytes; // a multiple of 8
    uint8_t *records;
    uint32_t *buckets; // open addressing: record number + 1, 0 = free
    uint32_t n, capacity, n_buckets;
};

void intern_init(struct intern *s, const struct env *env, size_t record_bytes); // allocates nothing
void intern_free(struct intern *s);
uint32_t intern_add(struct intern *s, const void *record); // the record's number; INTERN_NONE: out of memory

static inline const void *intern_get(const struct intern *s, uint32_t number)
{
    return s->records + number * s->record_bytes;
}

#endif
