// SPDX-License-Identifier: MPL-2.0
// Quotas, and who goes when one is full.
//
// Each port owns its guarantee; what is left of the table is one pool, first come first served, up to each port's cap.
// A port that may not grow evicts one of its own, so who floods the table pays for it. The lists hold each class
// in the order of arrival. Hits move nothing: a record's class is looked at when eviction meets it, and if it has
// become better the record moves to that list's tail (a second chance).
#include "engine/connection_internal.h"

#define LOOKS 8 // records that one eviction reclassifies at most

void conn_list_append(struct conn_table *t, uint32_t index, enum conn_class class_)
{
    struct conn *c = &t->records[index];
    struct conn_list *list = &t->ports[c->port].lists[class_];
    c->class_ = (uint8_t)class_;
    c->next = 0;
    c->prev = list->last;
    if (list->last)
        t->records[list->last].next = index;
    else
        list->first = index;
    list->last = index;
}

void conn_list_remove(struct conn_table *t, uint32_t index)
{
    const struct conn *c = &t->records[index];
    struct conn_list *list = &t->ports[c->port].lists[c->class_];
    if (c->prev)
        t->records[c->prev].next = c->next;
    else
        list->first = c->next;
    if (c->next)
        t->records[c->next].prev = c->prev;
    else
        list->last = c->prev;
}

// The list's head will be the next to go, and has not been touched for long; so has who comes after it.
static void fetch_next(const struct conn_table *t, const struct conn_list *list)
{
    const struct conn *c = &t->records[list->first];
    __builtin_prefetch(&t->records[c->next]);
    __builtin_prefetch(&t->records[c->next].nat);
    for (unsigned dir = 0; list->first && dir < 2; dir++) {
        __builtin_prefetch(flow_table_entry(t->flows, c->entry[dir]));
        __builtin_prefetch(flow_table_hot(t->flows, c->entry[dir]));
    }
}

bool conn_evict(struct conn_table *t, uint32_t port, uint64_t now_ms)
{
    unsigned looks = 0;
    for (unsigned class_ = CONN_CLOSED; class_ < CONN_CLASSES; class_++) {
        uint32_t index;
        while ((index = t->ports[port].lists[class_].first) != 0) {
            enum conn_class now = conn_classify(t, &t->records[index], now_ms);
            if (now != CONN_ACTIVE && (unsigned)now <= class_) {
                conn_end(t, index, &t->stats.evicted[now], now == CONN_CLOSED ? CONN_END_CLOSED : CONN_END_EVICTED);
                fetch_next(t, &t->ports[port].lists[class_]);
                return true;
            }
            if (looks++ == LOOKS)
                return false;
            conn_list_remove(t, index);
            conn_list_append(t, index, now);
        }
    }
    return false;
}

static bool take(struct conn_table *t, uint32_t port)
{
    struct conn_port *p = &t->ports[port];
    if (p->count >= p->cap)
        return false;
    conn_lock_quota(t);
    bool own = p->count < p->guarantee, ok = own || t->shared_used < t->shared_max;
    if (ok) {
        if (!own)
            store_relaxed(&t->shared_used, t->shared_used + 1);
        store_relaxed(&t->count, t->count + 1);
        store_relaxed(&p->count, p->count + 1);
    }
    conn_unlock_quota(t);
    return ok;
}

bool conn_quota_take(struct conn_table *t, uint32_t port, uint64_t now_ms)
{
    return take(t, port) || (conn_evict(t, port, now_ms) && take(t, port));
}

void conn_quota_release(struct conn_table *t, uint32_t port)
{
    struct conn_port *p = &t->ports[port];
    conn_lock_quota(t);
    if (p->count > p->guarantee)
        store_relaxed(&t->shared_used, t->shared_used - 1);
    store_relaxed(&t->count, t->count - 1);
    store_relaxed(&p->count, p->count - 1);
    conn_unlock_quota(t);
}

bool conn_port_over(const struct conn_table *t, const struct conn_port *p)
{
    if (!p->open)
        return false;
    return p->count > p->cap ||
           (p->count > p->guarantee && load_relaxed(&t->shared_used) > load_relaxed(&t->shared_max));
}

static uint32_t above(uint32_t count, uint32_t guarantee)
{
    return count > guarantee ? count - guarantee : 0;
}

bool conn_port_open(struct conn_table *t, uint32_t port, uint32_t guarantee, uint32_t cap)
{
    if (port == 0 || port >= t->config.max_ports)
        return false;
    struct conn_port *p = &t->ports[port];
    guarantee = MIN(guarantee, cap);
    conn_port_lock(t, port);
    conn_lock_quota(t);
    uint32_t others = t->guaranteed - p->guarantee;
    bool ok = guarantee <= t->config.max_connections - others;
    if (ok) {
        t->guaranteed = others + guarantee;
        store_relaxed(&t->shared_max, t->config.max_connections - t->guaranteed);
        uint32_t shared = t->shared_used - above(p->count, p->guarantee) + above(p->count, guarantee);
        store_relaxed(&t->shared_used, shared);
        p->guarantee = guarantee;
        p->cap = cap;
        p->open = true;
    }
    conn_unlock_quota(t);
    conn_port_unlock(t, port);
    return ok;
}

static unsigned flush_some(struct conn_table *t, uint32_t port)
{
    unsigned ended = 0;
    conn_port_lock(t, port);
    for (unsigned class_ = 0; class_ < CONN_CLASSES; class_++) {
        uint32_t index;
        while (ended < 64 && (index = t->ports[port].lists[class_].first) != 0) {
            conn_end(t, index, &t->stats.closed, CONN_END_PORT);
            ended++;
        }
    }
    conn_port_unlock(t, port);
    return ended;
}

void conn_port_flush(struct conn_table *t, uint32_t port)
{
    if (port == 0 || port >= t->config.max_ports)
        return;
    while (flush_some(t, port))
        ; // in portions: packets of the port wait for its lock
}
