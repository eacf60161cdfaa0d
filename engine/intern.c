// SPDX-License-Identifier: MPL-2.0
#include "engine/intern.h"
#include "engine/flow_key.h"

void intern_init(struct intern *s, const struct env *env, size_t record_bytes)
{
    *s = (struct intern){.env = env, .record_bytes = record_bytes};
}

void intern_free(struct intern *s)
{
    if (s->records)
        s->env->free(s->env->ctx, s->records);
    if (s->buckets)
        s->env->free(s->env->ctx, s->buckets);
}

static uint64_t hash(const void *record, size_t bytes)
{
    uint64_t h = 0x9e3779b97f4a7c15ull, word;
    for (size_t i = 0; i < bytes; i += 8) {
        memcpy(&word, (const uint8_t *)record + i, 8);
        h = flow_fold(h ^ word, 0xd6e8feb86659fd93ull) + i;
    }
    return h;
}

static uint32_t *bucket_of(const struct intern *s, const void *record)
{
    uint32_t i = (uint32_t)hash(record, s->record_bytes) & (s->n_buckets - 1);
    while (s->buckets[i] && memcmp(intern_get(s, s->buckets[i] - 1), record, s->record_bytes) != 0)
        i = (i + 1) & (s->n_buckets - 1);
    return &s->buckets[i];
}

static bool grow(struct intern *s)
{
    uint32_t capacity = s->capacity ? s->capacity * 2 : 16;
    if (capacity > UINT32_MAX / 4)
        return false;
    uint8_t *records = s->env->alloc(s->env->ctx, capacity * s->record_bytes);
    uint32_t *buckets = s->env->alloc(s->env->ctx, (size_t)capacity * 2 * sizeof(*buckets));
    if (!records || !buckets) {
        if (records)
            s->env->free(s->env->ctx, records);
        if (buckets)
            s->env->free(s->env->ctx, buckets);
        return false;
    }
    struct intern old = *s;
    s->records = records;
    s->buckets = buckets;
    s->capacity = capacity;
    s->n_buckets = capacity * 2;
    if (old.n)
        memcpy(records, old.records, old.n * old.record_bytes);
    for (uint32_t i = 0; i < s->n; i++)
        *bucket_of(s, intern_get(s, i)) = i + 1;
    intern_free(&old);
    return true;
}

uint32_t intern_add(struct intern *s, const void *record)
{
    if (s->n == s->capacity && !grow(s))
        return INTERN_NONE;
    uint32_t *bucket = bucket_of(s, record);
    if (*bucket == 0) {
        memcpy(s->records + s->n * s->record_bytes, record, s->record_bytes);
        *bucket = ++s->n;
    }
    return *bucket - 1;
}
