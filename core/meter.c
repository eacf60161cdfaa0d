// SPDX-License-Identifier: MPL-2.0
// Metering: packets and bytes by the class that rules give a connection. Hits count in the flow's own counters and
// nothing else; those are folded into the port's totals when a connection ends, changes its class, or somebody asks.
// What was folded already is remembered per connection, only where a policy has classes at all.
#include "core/internal.h"

static bool names_class(const struct port_meters *m, uint32_t n, uint32_t class_)
{
    for (uint32_t i = 0; i < n; i++)
        if (m->total[i].class_ == class_)
            return true;
    return false;
}

static struct port_meters *make(struct node *n, uint32_t room)
{
    struct port_meters *m = n->env->alloc(n->env->ctx, sizeof(*m) + room * sizeof(m->total[0]));
    if (m)
        m->room = room;
    return m;
}

static void add_classes(struct port_meters *m, const struct blueprint_rule *rules, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (rules[i].meter && m->n < m->room && !names_class(m, m->n, rules[i].meter))
            m->total[m->n++] = (struct meter_counter){.class_ = rules[i].meter};
}

static void add_all(struct port_meters *m, const struct blueprint *b)
{
    add_classes(m, b->firewall.rules, b->firewall.n_rules);
    add_classes(m, b->posture.out, b->posture.n_out);
    add_classes(m, b->posture.in, b->posture.n_in);
}

// Beside the running one, with what that has now; the numbers follow in meters_commit.
bool meters_prepare(struct node *n, const struct port *port, const struct blueprint *b, struct port_meters **fresh,
                    bool *too_many)
{
    const struct port_meters *had = port->meters;
    struct port_meters *all = make(n, METER_CLASSES + 1);
    *fresh = NULL;
    *too_many = false;
    if (!all)
        return false;
    for (uint32_t i = 0; had && i < had->n; i++)
        all->total[all->n++] = (struct meter_counter){.class_ = had->total[i].class_};
    uint32_t before = all->n;
    add_all(all, b);
    *too_many = all->n > METER_CLASSES;
    bool ok = !*too_many;
    if (ok && all->n && !n->meter_bases) {
        size_t bytes = ((size_t)conn_last(n->connections) + 1) * sizeof(*n->meter_bases);
        struct meter_base *bases = n->env->alloc(n->env->ctx, bytes);
        store_release(&n->meter_bases, bases);
        ok = bases != NULL;
    }
    if (ok && all->n > before && (*fresh = make(n, all->n))) {
        (*fresh)->n = all->n;
        memcpy((*fresh)->total, all->total, all->n * sizeof(all->total[0]));
    }
    ok = ok && (all->n == before || *fresh);
    n->env->free(n->env->ctx, all);
    return ok;
}

void meters_commit(struct node *n, struct port *port, struct port_meters *fresh)
{
    if (!fresh)
        return;
    struct port_meters *had = port->meters;
    conn_port_lock(n->connections, port->index);
    if (had)
        memcpy(fresh->total, had->total, had->n * sizeof(had->total[0]));
    port->meters = fresh;
    conn_port_unlock(n->connections, port->index);
    n->env->free(n->env->ctx, had);
}

void meters_discard(struct node *n, struct port_meters *m)
{
    n->env->free(n->env->ctx, m);
}

// The port is gone, and its connections too.
void meters_close(struct node *n, struct port *port)
{
    struct port_meters *had = port->meters;
    conn_port_lock(n->connections, port->index);
    port->meters = NULL;
    conn_port_unlock(n->connections, port->index);
    n->env->free(n->env->ctx, had);
}

static struct meter_counter *total_of(struct port_meters *m, uint32_t class_)
{
    for (uint32_t i = 0; class_ && m && i < m->n; i++)
        if (m->total[i].class_ == class_)
            return &m->total[i];
    return NULL;
}

void meter_begin(struct node *n, uint32_t index)
{
    struct meter_base *bases = load_acquire(&n->meter_bases);
    if (bases)
        bases[index] = (struct meter_base){0};
}

void meter_fold(struct node *n, const struct conn *k, uint32_t index)
{
    struct meter_base *base = load_acquire(&n->meter_bases);
    if (!base)
        return;
    struct meter_counter *t = total_of(n->ports[k->port].meters, k->meter);
    base += index;
    for (unsigned dir = 0; dir < 2; dir++) {
        if (k->entry[dir] == FLOW_NONE)
            continue;
        const struct flow_hot *hot = flow_table_hot(n->flows, k->entry[dir]);
        uint64_t packets = load_relaxed(&hot->packets), bytes = load_relaxed(&hot->bytes);
        if (t) {
            t->packets[dir] += packets - base->packets[dir];
            t->bytes[dir] += bytes - base->bytes[dir];
        }
        base->packets[dir] = packets;
        base->bytes[dir] = bytes;
    }
}

void node_meters_update(struct node *n, uint32_t port)
{
    if (!n->meter_bases)
        return;
    for (uint32_t i = conn_next(n->connections, port, 0); i; i = conn_next(n->connections, port, i)) {
        const struct conn *k = conn_get(n->connections, i);
        uint32_t owner = load_relaxed(&k->port);
        if (!n->ports[owner].meters)
            continue;
        conn_port_lock(n->connections, owner);
        if (k->live && k->port == owner && k->meter)
            meter_fold(n, k, i);
        conn_port_unlock(n->connections, owner);
    }
}

unsigned node_meters(struct node *n, uint32_t index, struct meter_counter *out, unsigned max)
{
    const struct port *port = port_at(n, index);
    if (!port || !port->meters)
        return 0;
    conn_port_lock(n->connections, index);
    unsigned count = MIN(port->meters->n, max);
    memcpy(out, port->meters->total, count * sizeof(*out));
    conn_port_unlock(n->connections, index);
    return count;
}
