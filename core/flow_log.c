// SPDX-License-Identifier: MPL-2.0
// Many producers, one consumer. A slot's turn says whose it is: equal to a producer's position, it may be written; one
// above it, it may be read.
#include "core/flow_log.h"

#include "engine/atomic.h"

#define TRIES 32u // of a producer that others are faster than

struct slot {
    uint64_t turn;
    struct flow_record record;
};

struct flow_log {
    uint32_t room;
    struct slot *slots;
    CACHE_ALIGNED uint64_t head; // producers
    uint64_t lost;
    CACHE_ALIGNED uint64_t tail; // the consumer's own
};

struct flow_log *flow_log_create(const struct env *env, uint32_t room)
{
    struct flow_log *l = env->alloc(env->ctx, sizeof(*l));
    if (l && !(l->slots = env->alloc(env->ctx, room * sizeof(struct slot)))) {
        env->free(env->ctx, l);
        return NULL;
    }
    for (uint32_t i = 0; l && i < room; i++)
        l->slots[i].turn = i;
    if (l)
        l->room = room;
    return l;
}

void flow_log_destroy(const struct env *env, struct flow_log *l)
{
    if (!l)
        return;
    env->free(env->ctx, l->slots);
    env->free(env->ctx, l);
}

void flow_log_put(struct flow_log *l, const struct flow_record *r)
{
    uint64_t at = load_relaxed(&l->head);
    for (unsigned i = 0; i < TRIES; i++) {
        struct slot *s = &l->slots[at & (l->room - 1)];
        uint64_t turn = load_acquire(&s->turn);
        if (turn == at) {
            if (!__atomic_compare_exchange_n(&l->head, &at, at + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                continue;
            s->record = *r;
            store_release(&s->turn, at + 1);
            return;
        }
        if ((int64_t)(turn - at) < 0)
            break; // full
        at = load_relaxed(&l->head);
    }
    fetch_add_relaxed(&l->lost, 1);
}

bool flow_log_take(struct flow_log *l, struct flow_record *out)
{
    struct slot *s = &l->slots[l->tail & (l->room - 1)];
    if (load_acquire(&s->turn) != l->tail + 1)
        return false;
    *out = s->record;
    store_release(&s->turn, l->tail + l->room);
    l->tail++;
    return true;
}

uint64_t flow_log_lost(const struct flow_log *l)
{
    return load_relaxed(&l->lost);
}
