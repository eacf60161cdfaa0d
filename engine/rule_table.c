// SPDX-License-Identifier: MPL-2.0
#include "engine/rule_table_internal.h"

struct operands { // vectors whose intersection is sought: protocol & remote & (l4 | code)
    const uint64_t *protocol, *remote, *l4, *code;
};

static inline const uint64_t *vector_at(const struct rule_table *t, uint32_t vector)
{
    return t->vectors + (size_t)vector * t->vector_words;
}

static inline uint64_t word_at(const struct rule_table *t, const uint64_t *vector, uint32_t word)
{
    const uint32_t *numbers = (const uint32_t *)(vector + t->n_summary);
    return t->blocks[numbers[word / BLOCK_WORDS]][word % BLOCK_WORDS];
}

// The first position >= from in the intersection; t->n when there is none.
static uint32_t next_match(const struct rule_table *t, const struct operands *o, uint32_t from)
{
    uint64_t words_left = ~0ull << (from / 64 % 64);
    for (uint32_t s = from / 4096; s < t->n_summary; s++, words_left = ~0ull) {
        uint64_t summary = o->protocol[s] & o->remote[s] & (o->l4[s] | o->code[s]) & words_left;
        for (; summary; summary &= summary - 1) {
            uint32_t word = s * 64 + (uint32_t)__builtin_ctzll(summary);
            uint64_t bits = word_at(t, o->protocol, word) & word_at(t, o->remote, word) &
                            (word_at(t, o->l4, word) | word_at(t, o->code, word));
            if (word == from / 64)
                bits &= ~0ull << (from % 64);
            if (bits)
                return word * 64 + (uint32_t)__builtin_ctzll(bits);
        }
    }
    return t->n;
}

static uint32_t interval_vector(const struct interval_map *m, uint16_t value)
{
    const uint16_t *base = m->first;
    for (uint32_t n = m->n; n > 1;) {
        uint32_t half = n / 2;
        base = base[half] <= value ? base + half : base; // a conditional move, not a branch
        n -= half;
    }
    return m->vectors[base - m->first];
}

// The first position before `end` whose rule names a set that holds the remote address; `end` when none does.
// Rules that fail for another reason are passed over, and no set is asked twice.
static uint32_t match_sets(const struct rule_table *t, const struct operands *o, uint32_t end,
                           const struct rule_query *q, rule_set_member member, void *ctx)
{
    uint64_t asked[ASKED_MAX / 64];
    memset(asked, 0, (MIN(t->n_sets, ASKED_MAX) + 63) / 64 * sizeof(asked[0]));
    for (uint32_t p = next_match(t, o, 0); p < end; p = next_match(t, o, p + 1)) {
        for (uint32_t i = t->sets_begin[p]; i < t->sets_begin[p + 1]; i++) {
            uint32_t set = t->set_indexes[i];
            if (set < ASKED_MAX) {
                uint64_t bit = 1ull << (set % 64);
                if (asked[set / 64] & bit)
                    continue;
                asked[set / 64] |= bit;
            }
            if (member(ctx, t->sets[set], &q->remote))
                return p;
        }
    }
    return end;
}

uint32_t rule_table_match(const struct rule_table *t, const struct rule_query *q, rule_set_member member, void *ctx)
{
    unsigned class = t->protocol_class[q->protocol];
    uint32_t protocol = t->protocol_vectors[family_row(q->ip_version) * t->n_classes + class];
    uint32_t prefix = lpm_lookup(t->prefixes, &q->remote);
    uint32_t remote = prefix == LPM_NONE ? t->elsewhere[q->overlay] : t->prefix_vectors[q->overlay][prefix];
    uint32_t l4 = t->portless, code = t->nothing;
    if (query_is_icmp(q)) {
        l4 = interval_vector(&t->icmp, (uint16_t)(q->icmp_type << 8 | q->icmp_code));
        code = interval_vector(&t->icmp_code, q->icmp_code);
    } else if (query_has_ports(q)) {
        l4 = interval_vector(&t->ports, q->dport);
    }

    struct operands o = {vector_at(t, protocol), vector_at(t, remote), vector_at(t, l4), vector_at(t, code)};
    uint32_t position = next_match(t, &o, 0);
    if (q->overlay && t->n_sets) {
        o.remote = vector_at(t, t->with_sets);
        position = match_sets(t, &o, position, q, member, ctx);
    }
    return position < t->n ? t->ids[position] : RULE_NONE;
}

size_t rule_table_bytes(const struct rule_table *t)
{
    return t->bytes + lpm_bytes(t->prefixes);
}

void rule_table_free(const struct env *env, struct rule_table *t)
{
    if (!t)
        return;
    lpm_free(env, t->prefixes);
    env->free(env->ctx, t);
}
