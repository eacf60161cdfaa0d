// SPDX-License-Identifier: MPL-2.0
#include "engine/flow_table.h"

#include "engine/flow_key.h"

// A bucket is a line; further lines of its chain come from the tail of the same array. A published entry never
// moves to another slot, so a reader that walks the chain cannot miss it. A slot is empty while its index is
// FLOW_NONE; the tag of an empty slot means nothing.
#define SLOTS 8
#define LOAD 4 // entries per bucket when the table is full: half of the slots

struct CACHE_ALIGNED flow_line {
    uint64_t tags[2];      // SLOTS tags of 16 bits
    uint32_t entry[SLOTS]; // published with release
    uint32_t next;         // line number, 0 = end of chain (line 0 is a bucket and never linked)
    uint32_t spare[3];
};
_Static_assert(sizeof(struct flow_line) == CACHE_LINE, "one cache line");

#define MAX_CAPACITY (1u << 28)
#define FLAG_PUBLISHED (1u << 31) // of flow_hot.flags, only inside flow_table_adopt_done

struct flow_table {
    const struct env *env;
    struct flow_slot *slots; // [capacity + 1]
    struct flow_line *lines; // [buckets + overflow]
    uint32_t capacity, buckets, n_lines;
    bool adopting; // former entries wait for their owner; no readers yet

    CACHE_ALIGNED uint32_t count;
    // [FLOW_LOCK_ENTRIES] A free entry's link stands in its hot part: the entry itself says owner 0 and no more.
    CACHE_ALIGNED uint32_t free_entry;
    uint32_t fresh_entry; // entries from here to capacity were never used
    // [FLOW_LOCK_LINES]
    CACHE_ALIGNED uint32_t free_line;
    uint32_t fresh_line;
};

// Bucket and tag come from the low half of the hash, which the entry stores: removal needs no key and no secret.
static uint32_t bucket_of(const struct flow_table *t, uint32_t hash_low)
{
    return (uint32_t)(((uint64_t)hash_low * t->buckets) >> 32);
}

static uint64_t tag_of(uint32_t hash_low)
{
    return hash_low & 0xffff;
}

// Bit 15 of each 16-bit lane of `tags` that equals `tag`; exact, no carries between lanes.
static uint64_t lanes_equal(uint64_t tags, uint64_t tag)
{
    const uint64_t low15 = 0x7fff7fff7fff7fffull;
    uint64_t x = tags ^ tag * 0x0001000100010001ull;
    return ~(((x & low15) + low15) | x | low15);
}

// Slots of a line whose tag matches, as bits: slot i of the first word at 16 * i, of the second at 16 * i + 1.
static uint64_t match_line(const struct flow_line *line, uint64_t tag)
{
    return lanes_equal(load_relaxed(&line->tags[0]), tag) >> 15 | lanes_equal(load_relaxed(&line->tags[1]), tag) >> 14;
}

static unsigned first_slot(uint64_t match)
{
    unsigned bit = (unsigned)__builtin_ctzll(match);
    return (bit & 1) * 4 + (bit >> 4);
}

static bool key_equal(const void *a, const void *b)
{
    uint64_t x[FLOW_KEY_LEN / 8], y[FLOW_KEY_LEN / 8], differ = 0;
    __builtin_memcpy(x, a, FLOW_KEY_LEN);
    __builtin_memcpy(y, b, FLOW_KEY_LEN);
    for (unsigned i = 0; i < ARRAY_LEN(x); i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}

static void clear_hot(struct flow_hot *hot)
{
    store_relaxed(&hot->packets, 0);
    store_relaxed(&hot->bytes, 0);
    store_relaxed(&hot->generation, 0);
    store_relaxed(&hot->dependency_version, 0);
    store_relaxed(&hot->last_seen, 0);
    store_relaxed(&hot->flags, 0);
}

struct flow_table *flow_table_create(const struct env *env, uint32_t capacity, bool keep, bool *kept)
{
    *kept = false;
    if (capacity == 0 || capacity > MAX_CAPACITY)
        return NULL;
    struct flow_table *t = env->alloc(env->ctx, sizeof(*t));
    if (!t)
        return NULL;
    t->env = env;
    t->capacity = capacity;
    t->buckets = capacity / LOAD + 1;
    // At a load of half about 2 % of the buckets hold more than SLOTS entries; an eighth leaves room for lines in
    // grace.
    t->n_lines = t->buckets + t->buckets / 8 + 64;
    t->slots = env->zone(env->ctx, "flows", (capacity + 1ull) * sizeof(struct flow_slot), keep, kept);
    t->lines = env->zone(env->ctx, "flow-lines", (size_t)t->n_lines * sizeof(struct flow_line), false, NULL);
    if (!t->slots || !t->lines) {
        env->free(env->ctx, t);
        return NULL;
    }
    for (uint32_t index = 1; *kept && index <= capacity; index++)
        clear_hot(&t->slots[index].hot); // they spoke of the former process
    t->adopting = *kept;
    t->fresh_entry = *kept ? capacity + 1 : 1;
    t->fresh_line = t->buckets;
    return t;
}

void flow_table_destroy(struct flow_table *t)
{
    if (t)
        t->env->free(t->env->ctx, t);
}

struct flow_entry *flow_table_entry(const struct flow_table *t, uint32_t index)
{
    return &t->slots[index].entry;
}

struct flow_hot *flow_table_hot(const struct flow_table *t, uint32_t index)
{
    return &t->slots[index].hot;
}

uint32_t flow_table_capacity(const struct flow_table *t)
{
    return t->capacity;
}

uint32_t flow_table_count(const struct flow_table *t)
{
    return load_relaxed(&t->count);
}

void flow_table_prefetch_bucket(const struct flow_table *t, uint64_t hash)
{
    __builtin_prefetch(&t->lines[bucket_of(t, (uint32_t)hash)]);
}

uint32_t flow_table_prefetch_entry(const struct flow_table *t, uint64_t hash)
{
    const struct flow_line *line = &t->lines[bucket_of(t, (uint32_t)hash)];
    uint64_t match = match_line(line, tag_of((uint32_t)hash));
    if (!match) {
        __builtin_prefetch(&t->lines[load_relaxed(&line->next)]);
        return FLOW_NONE;
    }
    uint32_t index = load_acquire(&line->entry[first_slot(match)]);
    __builtin_prefetch(&t->slots[index].entry);
    __builtin_prefetch(&t->slots[index].entry.xp);
    __builtin_prefetch(&t->slots[index].hot, 1);
    return index;
}

bool flow_table_holds(const struct flow_table *t, uint32_t index, const void *key48)
{
    return index != FLOW_NONE && key_equal(t->slots[index].entry.key, key48);
}

uint32_t flow_table_lookup(const struct flow_table *t, const void *key48, uint64_t hash)
{
    uint64_t tag = tag_of((uint32_t)hash);
    uint32_t number = bucket_of(t, (uint32_t)hash);
    do {
        const struct flow_line *line = &t->lines[number];
        for (uint64_t match = match_line(line, tag); match; match &= match - 1) {
            uint32_t index = load_acquire(&line->entry[first_slot(match)]);
            if (index != FLOW_NONE && key_equal(t->slots[index].entry.key, key48))
                return index;
        }
        number = load_acquire(&line->next);
    } while (unlikely(number));
    return FLOW_NONE;
}

// ---- Free lists

uint32_t flow_table_entry_alloc(struct flow_table *t)
{
    const struct env *env = t->env;
    env->lock(env->ctx, FLOW_LOCK_ENTRIES);
    uint32_t index = t->free_entry;
    if (index)
        t->free_entry = load_relaxed(&t->slots[index].hot.last_seen);
    else if (t->fresh_entry <= t->capacity)
        index = t->fresh_entry++;
    env->unlock(env->ctx, FLOW_LOCK_ENTRIES);
    if (index) {
        memset(&t->slots[index].entry, 0, sizeof(struct flow_entry));
        clear_hot(&t->slots[index].hot);
    }
    return index;
}

void flow_table_entry_discard(struct flow_table *t, uint32_t index)
{
    const struct env *env = t->env;
    t->slots[index].entry.owner = 0;
    if (t->adopting)
        return; // flow_table_adopt_done collects it
    env->lock(env->ctx, FLOW_LOCK_ENTRIES);
    store_relaxed(&t->slots[index].hot.last_seen, t->free_entry);
    t->free_entry = index;
    env->unlock(env->ctx, FLOW_LOCK_ENTRIES);
}

static void entry_free(void *table, uint64_t index)
{
    flow_table_entry_discard(table, (uint32_t)index);
}

static uint32_t line_alloc(struct flow_table *t)
{
    const struct env *env = t->env;
    env->lock(env->ctx, FLOW_LOCK_LINES);
    uint32_t number = t->free_line;
    if (number)
        t->free_line = t->lines[number].next;
    else if (t->fresh_line < t->n_lines)
        number = t->fresh_line++;
    env->unlock(env->ctx, FLOW_LOCK_LINES);
    return number;
}

static void line_free(void *table, uint64_t number)
{
    struct flow_table *t = table;
    const struct env *env = t->env;
    env->lock(env->ctx, FLOW_LOCK_LINES);
    store_relaxed(&t->lines[number].next, t->free_line);
    t->free_line = (uint32_t)number;
    env->unlock(env->ctx, FLOW_LOCK_LINES);
}

// ---- Writers: one bucket's chain is changed by one thread at a time

static unsigned stripe_lock(struct flow_table *t, uint32_t bucket)
{
    unsigned id = FLOW_LOCK_STRIPES + bucket % FLOW_LOCK_STRIPE_COUNT;
    t->env->lock(t->env->ctx, id);
    return id;
}

uint32_t flow_table_find(struct flow_table *t, const void *key48, uint64_t hash)
{
    unsigned id = stripe_lock(t, bucket_of(t, (uint32_t)hash));
    uint32_t index = flow_table_lookup(t, key48, hash);
    t->env->unlock(t->env->ctx, id);
    return index;
}

static void publish(struct flow_line *line, unsigned slot, uint64_t tag, uint32_t index)
{
    uint64_t *word = &line->tags[slot / 4];
    unsigned shift = slot % 4 * 16;
    store_relaxed(word, (*word & ~(0xffffull << shift)) | tag << shift);
    store_release(&line->entry[slot], index);
}

// Where `index` is published: line and slot, and the line before it (0: the line is the bucket itself).
struct place {
    struct flow_line *line;
    uint32_t number, before;
    unsigned slot;
};

static bool find_place(struct flow_table *t, uint32_t bucket, uint32_t index, struct place *p)
{
    *p = (struct place){.number = bucket};
    for (;;) {
        p->line = &t->lines[p->number];
        for (p->slot = 0; p->slot < SLOTS; p->slot++) {
            if (p->line->entry[p->slot] == index)
                return true;
        }
        if (!p->line->next)
            return false;
        p->before = p->number;
        p->number = p->line->next;
    }
}

static bool insert_locked(struct flow_table *t, uint32_t bucket, uint32_t index)
{
    const struct flow_entry *entry = &t->slots[index].entry;
    struct flow_line *line = &t->lines[bucket], *free_in = NULL;
    unsigned free_slot = 0;
    for (;;) {
        for (unsigned slot = 0; slot < SLOTS; slot++) {
            uint32_t other = line->entry[slot];
            if (other == FLOW_NONE && !free_in) {
                free_in = line;
                free_slot = slot;
            } else if (other != FLOW_NONE && t->slots[other].entry.hash_low == entry->hash_low &&
                       key_equal(t->slots[other].entry.key, entry->key)) {
                return false;
            }
        }
        if (!line->next)
            break;
        line = &t->lines[line->next];
    }
    if (free_in) {
        publish(free_in, free_slot, tag_of(entry->hash_low), index);
        return true;
    }
    uint32_t number = line_alloc(t);
    if (!number)
        return false;
    store_relaxed(&t->lines[number].next, 0);
    publish(&t->lines[number], 0, tag_of(entry->hash_low), index);
    store_release(&line->next, number);
    return true;
}

bool flow_table_insert(struct flow_table *t, uint32_t index, uint64_t hash)
{
    uint32_t bucket = bucket_of(t, (uint32_t)hash);
    t->slots[index].entry.hash_low = (uint32_t)hash;
    unsigned id = stripe_lock(t, bucket);
    bool done = insert_locked(t, bucket, index);
    t->env->unlock(t->env->ctx, id);
    if (done)
        fetch_add_relaxed(&t->count, 1);
    return done;
}

void flow_table_replace(struct flow_table *t, uint32_t old, uint32_t index, uint64_t hash)
{
    uint32_t bucket = bucket_of(t, (uint32_t)hash);
    struct place p;
    t->slots[index].entry.hash_low = (uint32_t)hash;
    unsigned id = stripe_lock(t, bucket);
    bool found = find_place(t, bucket, old, &p);
    if (found)
        store_release(&p.line->entry[p.slot], index);
    t->env->unlock(t->env->ctx, id);
    if (found)
        t->env->defer(t->env->ctx, entry_free, t, old);
}

static bool line_empty(const struct flow_line *line)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (line->entry[slot] != FLOW_NONE)
            return false;
    }
    return true;
}

void flow_table_remove(struct flow_table *t, uint32_t index)
{
    const struct env *env = t->env;
    uint32_t bucket = bucket_of(t, t->slots[index].entry.hash_low);
    struct place p;
    unsigned id = stripe_lock(t, bucket);
    bool found = find_place(t, bucket, index, &p), emptied = false;
    if (found) {
        store_release(&p.line->entry[p.slot], FLOW_NONE);
        emptied = p.number != bucket && line_empty(p.line);
        // The line keeps its own link until the grace period ends: a reader that stands on it walks on.
        if (emptied)
            store_release(&t->lines[p.before].next, p.line->next);
    }
    env->unlock(env->ctx, id);
    if (!found)
        return;
    fetch_add_relaxed(&t->count, (uint32_t)-1);
    if (t->adopting) { // no readers
        if (emptied)
            line_free(t, p.number);
        entry_free(t, index);
        return;
    }
    if (emptied)
        env->defer(env->ctx, line_free, t, p.number);
    env->defer(env->ctx, entry_free, t, index);
}

void flow_table_adopt_done(struct flow_table *t)
{
    if (!t->adopting)
        return;
    t->adopting = false;
    for (uint32_t number = 0; number < t->fresh_line; number++) {
        for (unsigned slot = 0; slot < SLOTS; slot++)
            t->slots[t->lines[number].entry[slot]].hot.flags |= FLAG_PUBLISHED;
    }
    for (uint32_t index = t->capacity; index > 0; index--) {
        if (t->slots[index].hot.flags & FLAG_PUBLISHED)
            t->slots[index].hot.flags &= ~FLAG_PUBLISHED;
        else
            flow_table_entry_discard(t, index);
    }
}
