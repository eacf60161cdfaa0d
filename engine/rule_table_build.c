// SPDX-License-Identifier: MPL-2.0
// Building: order the rules, let each dimension make its vectors, copy all arrays into one piece of memory.
#include "engine/rule_table_internal.h"
#include "engine/sort.h"

void *rule_build_alloc(struct rule_build *b, uint64_t n, size_t size)
{
    if (n >= SIZE_MAX / 2 / size)
        return NULL;
    return b->env->alloc(b->env->ctx, (size_t)(n ? n : 1) * size);
}

void rule_build_release(struct rule_build *b, void *memory)
{
    if (memory)
        b->env->free(b->env->ctx, memory);
}

void rule_build_clear(struct rule_build *b)
{
    memset(b->bits, 0, (size_t)b->table.n_blocks * BLOCK_WORDS * sizeof(*b->bits));
}

void rule_build_expand(struct rule_build *b, uint32_t vector)
{
    const uint64_t *record = intern_get(&b->vectors, vector);
    const uint32_t *numbers = (const uint32_t *)(record + b->table.n_summary);
    for (uint32_t i = 0; i < b->table.n_blocks; i++)
        memcpy(b->bits + (size_t)i * BLOCK_WORDS, intern_get(&b->blocks, numbers[i]), BLOCK_WORDS * sizeof(*b->bits));
}

bool rule_build_store(struct rule_build *b, uint32_t *vector)
{
    struct rule_table *t = &b->table;
    memset(b->record, 0, t->vector_words * sizeof(*b->record));
    uint32_t *numbers = (uint32_t *)(b->record + t->n_summary);
    for (uint32_t i = 0; i < t->n_blocks; i++) {
        const uint64_t *block = b->bits + (size_t)i * BLOCK_WORDS;
        numbers[i] = intern_add(&b->blocks, block);
        if (numbers[i] == INTERN_NONE)
            return false;
        for (uint32_t w = 0; w < BLOCK_WORDS; w++) {
            uint32_t word = i * BLOCK_WORDS + w;
            if (block[w])
                b->record[word / 64] |= 1ull << (word % 64);
        }
    }
    *vector = intern_add(&b->vectors, b->record);
    return *vector != INTERN_NONE;
}

struct order_key { // the part of a rule that orders it
    uint32_t priority, index;
    uint8_t action;
};

static int compare_order(const void *pa, const void *pb)
{
    const struct order_key *a = pa, *b = pb;
    const struct rule ra = {.priority = a->priority, .action = a->action};
    const struct rule rb = {.priority = b->priority, .action = b->action};
    return rule_precedes(&ra, a->index, &rb, b->index) ? -1 : 1;
}

static bool order_rules(struct rule_build *b)
{
    uint32_t n = b->table.n;
    b->ids = rule_build_alloc(b, n, sizeof(*b->ids));
    struct order_key *keys = rule_build_alloc(b, n, sizeof(*keys));
    if (!b->ids || !keys) {
        rule_build_release(b, keys);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct order_key){b->rules[i].priority, i, b->rules[i].action};
    sort(keys, n, sizeof(*keys), compare_order);
    for (uint32_t i = 0; i < n; i++)
        b->ids[i] = keys[i].index;
    rule_build_release(b, keys);
    return true;
}

// ---- One piece of memory at the end

struct area { // hands out parts of the final memory; without memory it only adds up
    uint8_t *memory;
    size_t used;
};

static const void *place(struct area *a, const void *array, size_t bytes)
{
    uint8_t *to = a->memory ? a->memory + a->used : NULL;
    if (to && bytes)
        memcpy(to, array, bytes);
    a->used += (bytes + 7) / 8 * 8;
    return to;
}

static void place_intervals(struct area *a, struct interval_map *m, const struct interval_arrays *from)
{
    m->first = place(a, from->first, m->n * sizeof(*m->first));
    m->vectors = place(a, from->vectors, m->n * sizeof(*m->vectors));
}

static void place_all(struct rule_build *b, struct area *a)
{
    struct rule_table *t = &b->table;
    a->used = (sizeof(*t) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE; // blocks are cache lines
    t->blocks = place(a, b->blocks.records, b->blocks.n * b->blocks.record_bytes);
    t->vectors = place(a, b->vectors.records, b->vectors.n * b->vectors.record_bytes);
    t->ids = place(a, b->ids, t->n * sizeof(*t->ids));
    t->protocol_vectors = place(a, b->protocol_vectors, (size_t)FAMILIES * t->n_classes * sizeof(uint32_t));
    for (unsigned i = 0; i < 2; i++)
        t->prefix_vectors[i] = place(a, b->prefix_vectors[i], b->n_prefixes * sizeof(uint32_t));
    place_intervals(a, &t->ports, &b->ports);
    place_intervals(a, &t->icmp, &b->icmp);
    place_intervals(a, &t->icmp_code, &b->icmp_code);
    t->sets = place(a, b->sets, t->n_sets * sizeof(*t->sets));
    t->sets_begin = place(a, b->sets_begin, ((size_t)t->n + 1) * sizeof(*t->sets_begin));
    t->set_indexes = place(a, b->set_indexes, b->n_set_refs * sizeof(*t->set_indexes));
}

static struct rule_table *finish(struct rule_build *b)
{
    struct area area = {0};
    place_all(b, &area);
    area.memory = b->env->alloc(b->env->ctx, area.used);
    if (!area.memory)
        return NULL;
    b->table.bytes = area.used;
    place_all(b, &area);
    b->table.prefixes = b->prefixes;
    b->prefixes = NULL; // the table's now
    memcpy(area.memory, &b->table, sizeof(b->table));
    return (struct rule_table *)area.memory;
}

static struct rule_table *build(struct rule_build *b)
{
    struct rule_table *t = &b->table;
    t->n_blocks = MAX((t->n + BLOCK_BITS - 1) / BLOCK_BITS, 1);
    t->n_summary = (t->n_blocks * BLOCK_WORDS + 63) / 64;
    t->vector_words = t->n_summary + (t->n_blocks + 1) / 2;
    intern_init(&b->blocks, b->env, BLOCK_WORDS * sizeof(uint64_t));
    intern_init(&b->vectors, b->env, t->vector_words * sizeof(uint64_t));
    b->bits = rule_build_alloc(b, (uint64_t)t->n_blocks * BLOCK_WORDS, sizeof(*b->bits));
    b->record = rule_build_alloc(b, t->vector_words, sizeof(*b->record));
    if (!b->bits || !b->record || !order_rules(b))
        return NULL;
    if (!rule_build_store(b, &t->nothing)) // bits are zero
        return NULL;
    if (!rule_build_protocols(b) || !rule_build_remotes(b) || !rule_build_l4(b) || !rule_build_sets(b))
        return NULL;
    return finish(b);
}

static void release(struct rule_build *b)
{
    lpm_free(b->env, b->prefixes);
    intern_free(&b->blocks);
    intern_free(&b->vectors);
    void *const arrays[] = {b->bits,
                            b->record,
                            b->ids,
                            b->protocol_vectors,
                            b->prefix_vectors[0],
                            b->prefix_vectors[1],
                            b->ports.first,
                            b->ports.vectors,
                            b->icmp.first,
                            b->icmp.vectors,
                            b->icmp_code.first,
                            b->icmp_code.vectors,
                            b->sets,
                            b->sets_begin,
                            b->set_indexes};
    for (unsigned i = 0; i < ARRAY_LEN(arrays); i++)
        rule_build_release(b, arrays[i]);
    b->env->free(b->env->ctx, b);
}

struct rule_table *rule_table_build(const struct env *env, const struct rule *rules, uint32_t n)
{
    if (n > INT32_MAX)
        return NULL;
    struct rule_build *b = env->alloc(env->ctx, sizeof(*b)); // too large for a stack
    if (!b)
        return NULL;
    b->env = env;
    b->rules = rules;
    b->table.n = n;
    struct rule_table *t = build(b);
    release(b);
    return t;
}
