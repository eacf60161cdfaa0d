// SPDX-License-Identifier: MPL-2.0
// What packets and new policy change in a connection that exists.
#include "engine/connection_internal.h"

static void set_track(struct conn_table *t, uint32_t entry, bool on)
{
    if (entry)
        store_relaxed(&flow_table_hot(t->flows, entry)->flags, on ? FLOW_TRACK : 0);
}

void conn_set_track_flags(struct conn_table *t, const struct conn *c)
{
    if (c->tcp.state != TCP_STATE_NONE) {
        bool on = tcp_track_wants_all(&c->tcp);
        set_track(t, c->entry[0], on);
        set_track(t, c->entry[1], on);
        return;
    }
    // The opener's further packets say nothing new: only the reply's entry asks to be followed.
    set_track(t, c->entry[c->opener], false);
    set_track(t, c->entry[!c->opener], !c->replied);
}

static void reclass(struct conn_table *t, uint32_t index, uint64_t now_ms)
{
    enum conn_class class_ = conn_classify(t, &t->records[index], now_ms);
    if (class_ == t->records[index].class_)
        return;
    conn_list_remove(t, index);
    conn_list_append(t, index, class_);
}

static enum tcp_verdict track_tcp(const struct conn_table *t, struct conn *c, uint8_t dir, const struct tcp_segment *s)
{
    struct tcp_segment segment = *s;
    segment.side = dir != c->opener;
    if (c->entry[dir]) {
        uint64_t bytes = load_relaxed(&flow_table_hot(t->flows, c->entry[dir])->bytes);
        segment.sent = (uint32_t)MIN(bytes, UINT32_MAX);
    }
    return tcp_track_segment(&c->tcp, &segment);
}

enum tcp_verdict conn_foresee(const struct conn_table *t, uint32_t index, uint8_t dir, const struct tcp_segment *s)
{
    struct conn copy = t->records[index];
    if (!copy.live)
        return TCP_PASS_NEW;
    return copy.tcp.state != TCP_STATE_NONE && s ? track_tcp(t, &copy, dir, s) : TCP_PASS;
}

enum tcp_verdict conn_track(struct conn_table *t, uint32_t index, uint8_t dir, const struct tcp_segment *s,
                            uint64_t now_ms)
{
    struct conn *c = &t->records[index];
    if (!c->live)
        return TCP_PASS_NEW;
    uint8_t state = c->tcp.state;
    uint32_t before = conn_check_state(t, c);
    if (state != TCP_STATE_NONE && s) {
        enum tcp_verdict verdict = track_tcp(t, c, dir, s);
        if (verdict == TCP_PASS_NEW)
            conn_end(t, index, &t->stats.closed, CONN_END_CLOSED);
        if (verdict != TCP_PASS)
            return verdict;
    }
    if (c->entry[dir])
        store_relaxed(&flow_table_hot(t->flows, c->entry[dir])->last_seen, (uint32_t)now_ms);
    if (c->tcp.state == TCP_STATE_CLOSED) {
        conn_end(t, index, &t->stats.closed, CONN_END_CLOSED);
        return TCP_PASS;
    }
    if (dir != c->opener)
        c->replied = 1;
    c->check ^= before ^ conn_check_state(t, c);
    conn_set_track_flags(t, c);
    reclass(t, index, now_ms);
    if (c->tcp.state != state)
        conn_arm(t, index, now_ms); // the new state's time may be shorter
    return TCP_PASS;
}

// ---- A new verdict

static bool differs(const struct flow_entry *e, const struct conn_flow *f)
{
    return e->dependency != f->dependency || e->mss != f->mss || memcmp(&e->xp, &f->xp, sizeof(f->xp)) != 0;
}

static void replace_entry(struct conn_table *t, uint32_t old, uint32_t fresh, const struct conn_flow *f)
{
    const struct flow_entry *from = flow_table_entry(t->flows, old);
    struct flow_entry *to = flow_table_entry(t->flows, fresh);
    memcpy(to->key, from->key, FLOW_KEY_LEN);
    conn_fill_entry(to, f, from->owner, from->dir);
    struct flow_hot *was = flow_table_hot(t->flows, old), *is = flow_table_hot(t->flows, fresh);
    store_relaxed(&is->packets, load_relaxed(&was->packets));
    store_relaxed(&is->bytes, load_relaxed(&was->bytes));
    store_relaxed(&is->last_seen, load_relaxed(&was->last_seen));
    store_relaxed(&is->flags, load_relaxed(&was->flags));
}

enum drop conn_update(struct conn_table *t, uint32_t index, const struct conn_flow flow[2], uint32_t generation,
                      uint32_t rule, uint32_t posture_rule)
{
    struct conn *c = &t->records[index];
    if (!c->live)
        return DROP_NONE;
    uint32_t fresh[2] = {FLOW_NONE, FLOW_NONE};
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!c->entry[dir] || !flow[dir].key.ip_version ||
            !differs(flow_table_entry(t->flows, c->entry[dir]), &flow[dir]))
            continue;
        fresh[dir] = flow_table_entry_alloc(t->flows);
        if (!fresh[dir]) {
            if (fresh[0])
                flow_table_entry_discard(t->flows, fresh[0]);
            return DROP_NO_MEMORY;
        }
    }
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!c->entry[dir])
            continue;
        uint32_t entry = fresh[dir] ? fresh[dir] : c->entry[dir];
        struct flow_hot *hot = flow_table_hot(t->flows, entry);
        if (fresh[dir])
            replace_entry(t, c->entry[dir], entry, &flow[dir]);
        if (flow[dir].key.ip_version)
            store_relaxed(&hot->dependency_version, flow[dir].dependency_version);
        store_relaxed(&hot->generation, generation);
        if (fresh[dir])
            flow_table_replace(t->flows, c->entry[dir], entry, flow_hash(&t->secret, conn_key(t, entry)));
        c->entry[dir] = entry;
    }
    c->rule = rule;
    c->posture_rule = posture_rule;
    c->check = conn_check_body(t, c) ^ conn_check_state(t, c);
    return DROP_NONE;
}

void conn_set_marks(struct conn_table *t, uint32_t index, uint32_t meter, uint8_t log)
{
    struct conn *c = &t->records[index];
    c->meter = meter;
    c->log = log;
    c->check = conn_check_body(t, c) ^ conn_check_state(t, c);
}
