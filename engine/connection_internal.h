// SPDX-License-Identifier: MPL-2.0
// connection_internal.h: what the connection_*.c files share. Not for callers.
#ifndef NEREUS_ENGINE_CONNECTION_INTERNAL_H
#define NEREUS_ENGINE_CONNECTION_INTERNAL_H

#include "engine/connection.h"

struct conn_list { // record indexes; new ones come in at the tail
    uint32_t first, last;
};

struct conn_port { // [port lock], but count is read without it
    struct conn_list lists[CONN_CLASSES];
    uint32_t count, guarantee, cap;
    bool open; // conn_port_open was called: quotas are known
    struct timer_wheel wheel;
};

struct conn_table {
    const struct env *env;
    struct conn_table_config config;
    struct flow_table *flows;
    struct flow_secret secret;
    struct conn *records; // [n_records + 1]; the zone's slot 0 is the header (connection_adopt.c)
    uint32_t n_records;
    struct conn_port *ports; // [max_ports]
    struct conn_stats stats;
    uint32_t tick_port; // where the next conn_table_tick goes on

    // [CONN_LOCK_QUOTA]
    CACHE_ALIGNED uint32_t free_record;
    uint32_t fresh_record;            // records from here on were never used
    uint32_t guaranteed;              // sum over ports
    uint32_t shared_used, shared_max; // connections above their port's guarantee; shared_max = max - guaranteed
    uint32_t count;
};

static inline const struct flow_key *conn_key(const struct conn_table *t, uint32_t entry)
{
    return (const struct flow_key *)flow_table_entry(t->flows, entry)->key;
}

static inline void conn_lock_quota(struct conn_table *t)
{
    t->env->lock(t->env->ctx, CONN_LOCK_QUOTA);
}

static inline void conn_unlock_quota(struct conn_table *t)
{
    t->env->unlock(t->env->ctx, CONN_LOCK_QUOTA);
}

// connection.c
struct conn *conn_record_alloc(struct conn_table *t, uint32_t *index);
void conn_record_free(struct conn_table *t, uint32_t index);
void conn_end(struct conn_table *t, uint32_t index, uint64_t *stat, enum conn_end why); // [port lock] stat: of t->stats
void conn_fill_entry(struct flow_entry *e, const struct conn_flow *f, uint32_t owner, uint8_t dir);

// connection_track.c [port lock]
void conn_set_track_flags(struct conn_table *t, const struct conn *c);

// connection_evict.c [port lock]
void conn_list_append(struct conn_table *t, uint32_t index, enum conn_class class_);
void conn_list_remove(struct conn_table *t, uint32_t index);
bool conn_quota_take(struct conn_table *t, uint32_t port, uint64_t now_ms); // evicts where that helps
void conn_quota_release(struct conn_table *t, uint32_t port);
bool conn_port_over(const struct conn_table *t, const struct conn_port *p);
bool conn_evict(struct conn_table *t, uint32_t port, uint64_t now_ms);

// connection_timeout.c
uint32_t conn_idle_ms(const struct conn_table *t, const struct conn *c, uint64_t now_ms);
void conn_arm(struct conn_table *t, uint32_t index, uint64_t now_ms); // [port lock]
struct timer_link *conn_timer_link(void *table, uint32_t index);

// connection_adopt.c
uint32_t conn_check_body(const struct conn_table *t, const struct conn *c);  // what conn_open and conn_update write
uint32_t conn_check_state(const struct conn_table *t, const struct conn *c); // what conn_track writes
void conn_start_fresh(struct conn_table *t);
bool conn_adopt(struct conn_table *t, uint64_t now_ms, uint32_t *adopted); // false: the file is not usable

#endif
