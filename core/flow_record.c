// SPDX-License-Identifier: MPL-2.0
// What the flow log is told: connections that begin and end, and refusals, summed up for each rule and second so that a
// flood writes no more than a trickle.
#include "core/internal.h"

#include "vpc/text.h"

#define SECOND_NS 1000000000ull

struct denials { // of one port and second; under the port's connection lock
    uint64_t second;
    uint32_t n;
    struct denial {
        const struct policy_rules *rules; // compared, never followed
        uint32_t rule, generation;
        struct flow_record record;
    } denial[DENIALS];
};

static const struct blueprint_rule *rule_at(const struct policy_rules *r, uint32_t rule)
{
    return rule < r->n ? &r->rules[r->index[rule]] : NULL;
}

void marks_of(const struct node *n, const struct walk *w, uint32_t *meter, uint8_t *log)
{
    const struct blueprint_rule *f = rule_at(&w->policy->firewall[w->opener], w->rule);
    const struct blueprint_rule *p = rule_at(&w->policy->posture[w->opener], w->posture_rule);
    *meter = f && f->meter ? f->meter : p ? p->meter : 0;
    *log = n->config.flow_log_all || (f && f->log) || (p && p->log);
}

static struct flow_record begin_record(const struct port *port, enum flow_record_kind kind, uint64_t now)
{
    return (struct flow_record){
        .kind = (uint8_t)kind, .time = now, .port = port->id, .index = port->index, .vni = port->vni};
}

static void name_rule(struct flow_record *r, const char *name)
{
    struct text t = text_into(r->rule, sizeof(r->rule));
    text_add(&t, name);
}

static struct flow_record of_connection(const struct node *n, const struct conn *k, uint32_t index,
                                        enum flow_record_kind kind, uint64_t now)
{
    const struct port *port = &n->ports[k->port];
    const struct policy *policy = load_acquire(&port->policy);
    struct flow_record r = begin_record(port, kind, now);
    r.connection = index;
    r.opener = k->opener;
    r.nat = k->nat.kind;
    r.age_ms = (uint32_t)(now / 1000000) - k->opened;
    r.layer = "firewall";
    uint32_t generation = 0;
    for (unsigned dir = 0; dir < 2; dir++) {
        if (k->entry[dir] == FLOW_NONE)
            continue;
        const struct flow_hot *hot = flow_table_hot(n->flows, k->entry[dir]);
        memcpy(&r.key[dir], flow_table_entry(n->flows, k->entry[dir])->key, sizeof(r.key[dir]));
        r.has[dir] = 1;
        r.packets[dir] = load_relaxed(&hot->packets);
        r.bytes[dir] = load_relaxed(&hot->bytes);
        uint32_t judged = load_relaxed(&hot->generation);
        generation = MAX(generation, judged);
    }
    // The rule's number means something only in the policy that gave it.
    if (policy && generation >= policy->generation)
        name_rule(&r, policy_rule_name(&policy->firewall[k->opener], k->rule, k->opener));
    return r;
}

void log_start(const struct context *c, const struct conn *k, uint32_t index)
{
    if (!c->n->flow_log || !k->log)
        return;
    struct flow_record r = of_connection(c->n, k, index, FLOW_RECORD_START, c->now);
    flow_log_put(c->n->flow_log, &r);
}

void log_end(struct node *n, const struct conn *k, uint32_t index, enum conn_end why)
{
    if (!n->flow_log || !k->log)
        return;
    struct flow_record r = of_connection(n, k, index, FLOW_RECORD_END, load_relaxed(&n->workers[0].now));
    r.why = (uint8_t)why;
    flow_log_put(n->flow_log, &r);
}

// ---- Refusals

static void flush(struct node *n, struct denials *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        flow_log_put(n->flow_log, &d->denial[i].record);
    store_relaxed(&d->n, 0);
}

static struct denial *find(struct denials *d, const struct policy_rules *rules, uint32_t rule, uint32_t generation)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->denial[i].rules == rules && d->denial[i].rule == rule && d->denial[i].generation == generation)
            return &d->denial[i];
    return NULL;
}

static struct flow_record new_denial(const struct context *c, const struct port *port, const struct walk *w,
                                     const struct policy_rules *rules, uint32_t rule, enum drop reason)
{
    struct flow_record r = begin_record(port, FLOW_RECORD_DENIED, c->now);
    r.opener = w->opener;
    r.key[w->opener] = w->key;
    r.has[w->opener] = 1;
    r.drop = (uint16_t)reason;
    r.layer = reason == DROP_POSTURE_DENY ? "posture" : "firewall";
    r.action = reason == DROP_FIREWALL_REJECT ? RULE_REJECT : RULE_DENY;
    name_rule(&r, policy_rule_name(rules, rule, w->opener));
    return r;
}

void log_denied(const struct context *c, struct port *port, const struct walk *w, enum drop reason, uint32_t bytes)
{
    struct denials *d = load_acquire(&port->denials);
    bool by_posture = reason == DROP_POSTURE_DENY;
    if (!d || (!by_posture && reason != DROP_FIREWALL_DENY && reason != DROP_FIREWALL_REJECT))
        return;
    const struct policy_rules *rules = by_posture ? &w->policy->posture[w->opener] : &w->policy->firewall[w->opener];
    uint32_t rule = by_posture ? w->posture_rule : w->rule;
    const struct blueprint_rule *r = rule_at(rules, rule);
    if (!c->n->config.flow_log_all && !(r && r->log))
        return;
    if (d->second != c->now / SECOND_NS) {
        flush(c->n, d);
        d->second = c->now / SECOND_NS;
    }
    struct denial *e = find(d, rules, rule, w->policy->generation);
    if (!e && d->n == DENIALS) {
        fetch_add_relaxed(&c->n->denials_beyond, 1);
        return;
    }
    if (!e) {
        e = &d->denial[d->n];
        *e = (struct denial){rules, rule, w->policy->generation, new_denial(c, port, w, rules, rule, reason)};
        store_relaxed(&d->n, d->n + 1);
    }
    e->record.packets[w->opener]++;
    e->record.bytes[w->opener] += bytes;
}

bool denials_make(struct node *n, struct port *port)
{
    if (n->flow_log && !port->denials)
        store_release(&port->denials, n->env->alloc(n->env->ctx, sizeof(struct denials)));
    return !n->flow_log || port->denials;
}

// What a second that is over has summed up. all: this second's too.
void denials_flush(struct node *n, struct port *port, uint64_t now, bool all)
{
    struct denials *d = load_acquire(&port->denials);
    if (!d || load_relaxed(&d->n) == 0)
        return;
    conn_port_lock(n->connections, port->index);
    if (all || d->second != now / SECOND_NS)
        flush(n, d);
    conn_port_unlock(n->connections, port->index);
}

bool node_flow_log_take(struct node *n, struct flow_record *out)
{
    return n->flow_log && flow_log_take(n->flow_log, out);
}

uint64_t node_flow_log_lost(const struct node *n)
{
    return n->flow_log ? flow_log_lost(n->flow_log) + load_relaxed(&n->denials_beyond) : 0;
}
