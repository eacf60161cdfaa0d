// SPDX-License-Identifier: MPL-2.0
// A trie over bytes of the address, one root per family. A node skips the bytes that all prefixes below it
// share, and holds its 256 leaf-pushed slots as runs: `run` marks where a run of equal slots begins, and
// counting marks up to a byte finds its slot. IPv4 starts at byte 12, so it visits at most four nodes.
#include "engine/lpm.h"
#include "engine/sort.h"

#define SLOT_NODE (1ull << 63) // the low 32 bits are a node's index; else they are a value or LPM_NONE

struct lpm_node {
    uint64_t run[4];
    struct ip_addr path; // bytes [0, depth) of every prefix below
    uint32_t base;       // first slot
    uint32_t miss;       // the value when the skipped bytes differ
    uint8_t rank[4];     // marks in the words of `run` before this one
    uint8_t from, depth; // bytes [from, depth) are skipped, byte `depth` selects
} CACHE_ALIGNED;
_Static_assert(sizeof(struct lpm_node) == 64, "a node is one cache line");

struct lpm {
    uint64_t root4, root6;
    size_t bytes;
    uint64_t *slots;
    struct lpm_node nodes[];
};

static inline unsigned count_bits(uint64_t v) // inline: no popcnt instruction or libgcc call is assumed
{
    v -= (v >> 1) & 0x5555555555555555ull;
    v = (v & 0x3333333333333333ull) + ((v >> 2) & 0x3333333333333333ull);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (unsigned)((v * 0x0101010101010101ull) >> 56);
}

static inline bool path_matches(const struct lpm_node *node, const struct ip_addr *addr)
{
    unsigned bits = node->depth * 8u; // 1..120: a node that skips is never the first byte
    uint64_t high = bits >= 64 ? ~0ull : ~0ull << (64 - bits);
    uint64_t low = bits <= 64 ? 0 : ~0ull << (128 - bits);
    return (((load_be64(addr->b) ^ load_be64(node->path.b)) & high) |
            ((load_be64(addr->b + 8) ^ load_be64(node->path.b + 8)) & low)) == 0;
}

uint32_t lpm_lookup(const struct lpm *t, const struct ip_addr *addr)
{
    uint64_t slot = ip_is_v4(addr) ? t->root4 : t->root6;
    while (slot & SLOT_NODE) { // each node tests a later byte, so this ends
        const struct lpm_node *node = &t->nodes[(uint32_t)slot];
        if (node->from != node->depth && !path_matches(node, addr))
            return node->miss;
        unsigned byte = addr->b[node->depth];
        uint64_t marks = node->run[byte / 64] & (~0ull >> (63 - byte % 64));
        slot = t->slots[node->base + node->rank[byte / 64] + count_bits(marks) - 1];
    }
    return (uint32_t)slot;
}

size_t lpm_bytes(const struct lpm *t)
{
    return t->bytes;
}

void lpm_free(const struct env *env, struct lpm *t)
{
    if (t)
        env->free(env->ctx, t);
}

// ---- Building

struct entry {
    struct ip_addr addr;
    uint32_t value, index;
    uint32_t len;
};

struct span { // the prefixes of one node to be made: all longer than 8 * from bits, equal in bytes [0, from)
    uint32_t first, end;
    uint32_t inherited; // value of the longest prefix that covers the whole span
    uint32_t from;
};

struct build {
    const struct env *env;
    struct entry *entries; // sorted, without duplicates: IPv4, then IPv6
    struct span *spans;    // span i becomes node i
    uint32_t n_spans;
    uint64_t n_slots;
    uint64_t slots[256]; // of the node at hand
};

static int compare_entries(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    int order = memcmp(a->addr.b, b->addr.b, 16);
    if (order != 0)
        return order;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void clear_host_bits(struct ip_addr *addr, unsigned len)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = len > i * 8 ? MIN(len - i * 8, 8) : 0;
        addr->b[i] &= (uint8_t)(0xff00 >> keep);
    }
}

static bool is_v4_prefix(const struct ip_prefix *p)
{
    return p->len >= 96 && ip_is_v4(&p->addr);
}

// Sorted entries of one family without duplicates at `entries`; returns how many.
static uint32_t gather(struct entry *entries, const struct lpm_route *routes, uint32_t n, bool v4)
{
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct ip_prefix *p = &routes[i].prefix;
        if (is_v4_prefix(p) != v4)
            continue;
        struct entry *e = &entries[count++];
        *e = (struct entry){p->addr, routes[i].value, i, MIN(p->len, 128)};
        clear_host_bits(&e->addr, e->len);
    }
    sort(entries, count, sizeof(*entries), compare_entries);
    for (uint32_t i = 0; i < count; i++) {
        const struct entry *e = &entries[i], *last = kept ? &entries[kept - 1] : NULL;
        if (!last || last->len != e->len || !ip_equal(&last->addr, &e->addr))
            entries[kept++] = *e;
    }
    return kept;
}

static unsigned common_bytes(const struct ip_addr *a, const struct ip_addr *b)
{
    unsigned i = 0;
    while (i < 16 && a->b[i] == b->b[i])
        i++;
    return i;
}

// The byte at which a span's prefixes first differ or first end. Sorted: the first and last differ earliest.
static unsigned span_depth(const struct build *b, const struct span *s)
{
    unsigned depth = common_bytes(&b->entries[s->first].addr, &b->entries[s->end - 1].addr);
    for (uint32_t i = s->first; i < s->end; i++)
        depth = MIN(depth, (b->entries[i].len - 1) / 8);
    return depth;
}

static uint64_t span_push(struct build *b, uint32_t first, uint32_t end, uint32_t inherited, unsigned from)
{
    if (first == end)
        return inherited;
    b->spans[b->n_spans] = (struct span){first, end, inherited, from};
    return SLOT_NODE | b->n_spans++;
}

// Fills b->slots for the node of span s. Sorted order puts a prefix before those it covers, and those that end
// within this byte before the deeper ones with the same byte.
static void paint(struct build *b, const struct span *s, unsigned depth)
{
    for (unsigned i = 0; i < 256; i++)
        b->slots[i] = s->inherited;
    for (uint32_t i = s->first; i < s->end;) {
        const struct entry *e = &b->entries[i];
        unsigned byte = e->addr.b[depth];
        if (e->len <= (depth + 1) * 8) {
            unsigned width = 1u << ((depth + 1) * 8 - e->len);
            for (unsigned k = 0; k < width; k++)
                b->slots[byte + k] = e->value;
            i++;
            continue;
        }
        uint32_t first = i;
        while (i < s->end && b->entries[i].addr.b[depth] == byte)
            i++;
        b->slots[byte] = span_push(b, first, i, (uint32_t)b->slots[byte], depth + 1);
    }
}

// Makes node after node from the spans; each may push more. Without a table it only counts.
static void walk(struct build *b, uint32_t n_roots, struct lpm *t)
{
    b->n_spans = n_roots;
    b->n_slots = 0;
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const struct span s = b->spans[i];
        unsigned depth = span_depth(b, &s), runs = 0;
        struct lpm_node node = {.path = b->entries[s.first].addr, .base = (uint32_t)b->n_slots, .miss = s.inherited};
        node.from = (uint8_t)s.from;
        node.depth = (uint8_t)depth;
        paint(b, &s, depth);
        for (unsigned k = 0; k < 256; k++) {
            if (k % 64 == 0)
                node.rank[k / 64] = (uint8_t)runs;
            if (k > 0 && b->slots[k] == b->slots[k - 1])
                continue;
            node.run[k / 64] |= 1ull << (k % 64);
            if (t)
                t->slots[b->n_slots + runs] = b->slots[k];
            runs++;
        }
        if (t)
            t->nodes[i] = node;
        b->n_slots += runs;
    }
}

// The slot of a family's root. A prefix of `base` bits covers all of the family.
static uint64_t root(struct build *b, uint32_t first, uint32_t end, unsigned base)
{
    uint32_t inherited = LPM_NONE;
    if (first < end && b->entries[first].len == base)
        inherited = b->entries[first++].value;
    return span_push(b, first, end, inherited, base / 8);
}

static struct lpm *build(struct build *b, const struct lpm_route *routes, uint32_t n)
{
    uint32_t n4 = gather(b->entries, routes, n, true);
    uint32_t n_all = n4 + gather(b->entries + n4, routes, n, false);
    uint64_t root4 = root(b, 0, n4, 96), root6 = root(b, n4, n_all, 0);
    uint32_t n_roots = b->n_spans;
    walk(b, n_roots, NULL);
    if (b->n_slots > UINT32_MAX)
        return NULL;

    size_t head = sizeof(struct lpm) + (size_t)b->n_spans * sizeof(struct lpm_node);
    size_t bytes = head + b->n_slots * sizeof(uint64_t);
    struct lpm *t = b->env->alloc(b->env->ctx, bytes);
    if (!t)
        return NULL;
    t->root4 = root4;
    t->root6 = root6;
    t->bytes = bytes;
    t->slots = (uint64_t *)((uint8_t *)t + head);
    walk(b, n_roots, t);
    return t;
}

struct lpm *lpm_build(const struct env *env, const struct lpm_route *routes, uint32_t n)
{
    if (n > INT32_MAX) // node indexes are 32 bits
        return NULL;
    struct build *b = env->alloc(env->ctx, sizeof(*b));
    if (!b)
        return NULL;
    b->env = env;
    // A node has a prefix that ends in it or two nodes below it: fewer than 2n nodes.
    b->entries = env->alloc(env->ctx, (size_t)(n + 1) * sizeof(*b->entries));
    b->spans = env->alloc(env->ctx, (size_t)(n + 1) * 2 * sizeof(*b->spans));
    struct lpm *t = b->entries && b->spans ? build(b, routes, n) : NULL;
    if (b->spans)
        env->free(env->ctx, b->spans);
    if (b->entries)
        env->free(env->ctx, b->entries);
    env->free(env->ctx, b);
    return t;
}
