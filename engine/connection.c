// SPDX-License-Identifier: MPL-2.0
#include "engine/connection.h"

#include "engine/connection_internal.h"
#include "engine/parse.h"

// ---- The table

// More records and entries than connections may exist: those that ended wait for a grace period.
static uint32_t records_for(uint32_t max_connections)
{
    return max_connections + max_connections / 8 + 1024;
}

static struct conn_table *release(struct conn_table *t)
{
    flow_table_destroy(t->flows);
    t->env->free(t->env->ctx, t->ports);
    t->env->free(t->env->ctx, t);
    return NULL;
}

struct conn_table *conn_table_create(const struct env *env, const struct conn_table_config *config, uint64_t now_ms,
                                     uint32_t *adopted)
{
    bool kept_records = false, kept_flows = false;
    *adopted = 0;
    if (config->max_connections == 0 || config->max_connections > 1u << 26 || config->max_ports < 2)
        return NULL;
    struct conn_table *t = env->alloc(env->ctx, sizeof(*t));
    if (!t)
        return NULL;
    t->env = env;
    t->config = *config;
    t->secret = config->fresh_secret;
    t->shared_max = config->max_connections;
    t->n_records = records_for(config->max_connections);
    t->ports = env->alloc(env->ctx, config->max_ports * sizeof(*t->ports));
    t->records =
        env->zone(env->ctx, "connections", (t->n_records + 1ull) * sizeof(struct conn), config->keep, &kept_records);
    t->flows = flow_table_create(env, 2 * t->n_records, config->keep, &kept_flows);
    if (!t->ports || !t->records || !t->flows)
        return release(t);
    for (uint32_t port = 0; port < config->max_ports; port++)
        timer_wheel_init(&t->ports[port].wheel, now_ms, conn_timer_link, t);

    if (!kept_records || !kept_flows || !conn_adopt(t, now_ms, adopted))
        conn_start_fresh(t);
    flow_table_adopt_done(t->flows);
    return t;
}

void conn_table_destroy(struct conn_table *t)
{
    if (t)
        release(t);
}

struct flow_table *conn_table_flows(const struct conn_table *t)
{
    return t->flows;
}

const struct flow_secret *conn_table_secret(const struct conn_table *t)
{
    return &t->secret;
}

struct conn *conn_get(const struct conn_table *t, uint32_t index)
{
    return &t->records[index];
}

uint32_t conn_last(const struct conn_table *t)
{
    return t->n_records;
}

uint32_t conn_count(const struct conn_table *t)
{
    return load_relaxed(&t->count);
}

uint32_t conn_port_count(const struct conn_table *t, uint32_t port)
{
    return port < t->config.max_ports ? load_relaxed(&t->ports[port].count) : 0;
}

void conn_port_lock(struct conn_table *t, uint32_t port)
{
    t->env->lock(t->env->ctx, port % CONN_LOCK_PORTS);
}

void conn_port_unlock(struct conn_table *t, uint32_t port)
{
    t->env->unlock(t->env->ctx, port % CONN_LOCK_PORTS);
}

uint32_t conn_next(const struct conn_table *t, uint32_t port, uint32_t after)
{
    uint32_t end = load_relaxed(&t->fresh_record);
    for (uint32_t index = after + 1; index != 0 && index < end; index++) {
        const struct conn *c = &t->records[index];
        if (load_acquire(&c->live) && (port == 0 || load_relaxed(&c->port) == port))
            return index;
    }
    return 0;
}

void conn_table_stats(const struct conn_table *t, struct conn_stats *out)
{
    const uint64_t *from = (const uint64_t *)&t->stats;
    uint64_t *to = (uint64_t *)out;
    for (size_t i = 0; i < sizeof(*out) / sizeof(uint64_t); i++)
        to[i] = load_relaxed(&from[i]);
}

// ---- Records

struct conn *conn_record_alloc(struct conn_table *t, uint32_t *index)
{
    conn_lock_quota(t);
    uint32_t i = t->free_record;
    if (i)
        t->free_record = t->records[i].next;
    else if (t->fresh_record <= t->n_records)
        store_relaxed(&t->fresh_record, (i = t->fresh_record) + 1);
    conn_unlock_quota(t);
    *index = i;
    return i ? &t->records[i] : NULL;
}

void conn_record_free(struct conn_table *t, uint32_t index)
{
    conn_lock_quota(t);
    t->records[index].next = t->free_record;
    t->free_record = index;
    conn_unlock_quota(t);
}

static void record_free_later(void *table, uint64_t index)
{
    conn_record_free(table, (uint32_t)index);
}

void conn_end(struct conn_table *t, uint32_t index, uint64_t *stat, enum conn_end why)
{
    struct conn *c = &t->records[index];
    for (unsigned dir = 0; dir < 2; dir++) // nobody has looked at them for long, and they lie apart
        __builtin_prefetch(flow_table_entry(t->flows, c->entry[dir]));
    if (t->config.closed)
        t->config.closed(t->config.ctx, c, index, why);
    store_relaxed(&c->live, 0);
    c->check = 0;
    timer_wheel_stop(&t->ports[c->port].wheel, index);
    conn_list_remove(t, index);
    for (unsigned dir = 0; dir < 2; dir++)
        flow_table_prefetch_bucket(t->flows, flow_table_entry(t->flows, c->entry[dir])->hash_low);
    for (unsigned dir = 0; dir < 2; dir++) {
        if (c->entry[dir])
            flow_table_remove(t->flows, c->entry[dir]);
    }
    conn_quota_release(t, c->port);
    fetch_add_relaxed(stat, 1);
    t->env->defer(t->env->ctx, record_free_later, t, index);
}

void conn_close(struct conn_table *t, uint32_t index)
{
    if (t->records[index].live)
        conn_end(t, index, &t->stats.closed, CONN_END_REVOKED);
}

// ---- Opening

void conn_fill_entry(struct flow_entry *e, const struct conn_flow *f, uint32_t owner, uint8_t dir)
{
    e->owner = owner;
    e->dependency = f->dependency;
    e->mss = f->mss;
    e->dir = dir;
    e->pipeline = FLOW_VPC;
    e->xp = f->xp;
}

static uint32_t new_entry(struct conn_table *t, const struct conn_spec *spec, uint8_t dir, uint32_t owner,
                          uint64_t now_ms)
{
    const struct conn_flow *f = &spec->flow[dir];
    uint32_t index = flow_table_entry_alloc(t->flows);
    if (!index)
        return FLOW_NONE;
    struct flow_entry *e = flow_table_entry(t->flows, index);
    memcpy(e->key, &f->key, FLOW_KEY_LEN);
    conn_fill_entry(e, f, owner, dir);
    struct flow_hot *hot = flow_table_hot(t->flows, index);
    bool first = dir == spec->opener;
    store_relaxed(&hot->packets, first);
    store_relaxed(&hot->bytes, first ? spec->bytes : 0);
    store_relaxed(&hot->generation, spec->generation);
    store_relaxed(&hot->dependency_version, f->dependency_version);
    store_relaxed(&hot->last_seen, (uint32_t)now_ms);
    return index;
}

struct making { // a connection on its way
    uint32_t index;
    uint32_t entry[2];
    uint64_t hash[2];
};

static void discard(struct conn_table *t, const struct making *m)
{
    for (unsigned dir = 0; dir < 2; dir++) {
        if (m->entry[dir])
            flow_table_entry_discard(t->flows, m->entry[dir]);
    }
    if (m->index)
        conn_record_free(t, m->index);
}

static bool take_memory(struct conn_table *t, const struct conn_spec *spec, uint64_t now_ms, struct making *m)
{
    for (uint8_t dir = 0; dir < 2; dir++) {
        m->hash[dir] = flow_hash(&t->secret, &spec->flow[dir].key);
        flow_table_prefetch_bucket(t->flows, m->hash[dir]);
    }
    if (!conn_record_alloc(t, &m->index))
        return false;
    for (uint8_t dir = 0; dir < 2; dir++) {
        if (!spec->flow[dir].key.ip_version)
            continue;
        m->entry[dir] = new_entry(t, spec, dir, m->index, now_ms);
        if (!m->entry[dir])
            return false;
    }
    return true;
}

// A connection that is over may still hold one of the keys (TIME_WAIT); it makes room. So does one that has no answers:
// a stray echo reply must not be in the way of the echoes it would have answered. Any other does not.
static bool makes_room(const struct conn_table *t, uint32_t index, uint64_t now_ms)
{
    const struct conn *c = &t->records[index];
    return c->entry[!c->opener] == FLOW_NONE || conn_classify(t, c, now_ms) == CONN_CLOSED;
}

// Who has the key of that direction; 0: nobody.
static uint32_t holder(const struct conn_table *t, const struct conn_flow *f)
{
    uint32_t found =
        f->key.ip_version ? flow_table_lookup(t->flows, &f->key, flow_hash(&t->secret, &f->key)) : FLOW_NONE;
    return found ? flow_table_entry(t->flows, found)->owner : 0;
}

bool conn_keys_taken(const struct conn_table *t, const struct conn_flow flow[2], uint64_t now_ms)
{
    for (unsigned dir = 0; dir < 2; dir++) {
        uint32_t owner = holder(t, &flow[dir]);
        if (owner && !makes_room(t, owner, now_ms))
            return true;
    }
    return false;
}

static void make_room(struct conn_table *t, const struct conn_flow flow[2])
{
    for (unsigned dir = 0; dir < 2; dir++) {
        uint32_t owner = holder(t, &flow[dir]);
        if (owner)
            conn_end(t, owner, &t->stats.closed, CONN_END_CLOSED);
    }
}

static void fill_record(struct conn *c, const struct conn_spec *spec, const struct making *m, uint64_t now_ms)
{
    // conn_next looks at port and live without a lock: they are not cleared with the rest.
    store_relaxed(&c->port, spec->port);
    memset(&c->opener, 0, sizeof(*c) - offsetof(struct conn, opener));
    c->entry[0] = m->entry[0];
    c->entry[1] = m->entry[1];
    c->opener = spec->opener;
    c->protocol = spec->protocol;
    c->strict = spec->strict;
    c->nat = spec->nat;
    c->rule = spec->rule;
    c->posture_rule = spec->posture_rule;
    c->meter = spec->meter;
    c->log = spec->log;
    c->opened = (uint32_t)now_ms;
    if (spec->protocol == IPPROTO_TCP4 && spec->tcp)
        tcp_track_open(&c->tcp, spec->tcp);
}

static bool publish(struct conn_table *t, const struct making *m)
{
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!m->entry[dir] || flow_table_insert(t->flows, m->entry[dir], m->hash[dir]))
            continue;
        flow_table_entry_discard(t->flows, m->entry[dir]);
        if (dir == 1 && m->entry[0])
            flow_table_remove(t->flows, m->entry[0]);
        // A worker may have met the first entry meanwhile: it waits for the port lock and then finds no connection.
        if (!dir && m->entry[1])
            flow_table_entry_discard(t->flows, m->entry[1]);
        t->env->defer(t->env->ctx, record_free_later, t, m->index);
        return false;
    }
    return true;
}

static enum drop make(struct conn_table *t, const struct conn_spec *spec, uint64_t now_ms, uint32_t *index)
{
    struct making m = {0};
    if (spec->port == 0 || spec->port >= t->config.max_ports)
        return DROP_FLOW_LIMIT;
    if (!take_memory(t, spec, now_ms, &m)) {
        discard(t, &m);
        return DROP_NO_MEMORY;
    }
    bool taken = conn_keys_taken(t, spec->flow, now_ms);
    if (!taken)
        make_room(t, spec->flow);
    if (taken || !conn_quota_take(t, spec->port, now_ms)) {
        discard(t, &m);
        return taken ? DROP_TUPLE_IN_USE : DROP_FLOW_LIMIT;
    }
    struct conn *c = &t->records[m.index];
    fill_record(c, spec, &m, now_ms);
    conn_set_track_flags(t, c);
    if (!publish(t, &m)) {
        conn_quota_release(t, spec->port);
        return DROP_NO_MEMORY;
    }
    c->check = conn_check_body(t, c) ^ conn_check_state(t, c);
    conn_list_append(t, m.index, conn_classify(t, c, now_ms));
    conn_arm(t, m.index, now_ms);
    store_release(&c->live, 1);
    *index = m.index;
    return DROP_NONE;
}

enum drop conn_open(struct conn_table *t, const struct conn_spec *spec, uint64_t now_ms, uint32_t *index)
{
    *index = 0;
    enum drop drop = make(t, spec, now_ms, index);
    fetch_add_relaxed(drop == DROP_NONE ? &t->stats.opened : &t->stats.refused, 1);
    return drop;
}
