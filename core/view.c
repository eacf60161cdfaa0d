// SPDX-License-Identifier: MPL-2.0
// What the control thread can see: status, counters, rules, connections.
#include "core/internal.h"

#include "vpc/text.h"

uint32_t node_port_next(struct node *n, uint32_t after)
{
    for (uint32_t i = after + 1; i < n->config.max_ports; i++)
        if (n->ports[i].policy)
            return i;
    return 0;
}

bool node_port_status(struct node *n, uint32_t index, struct node_port_status *out)
{
    struct port *port = port_at(n, index);
    if (!port)
        return false;
    const struct blueprint *b = port->policy->blueprint;
    *out = (struct node_port_status){.id = port->id,
                                     .index = index,
                                     .vni = port->vni,
                                     .name = b->name,
                                     .generation = b->generation,
                                     .applied_at = port->applied_at,
                                     .paused = load_relaxed(&port->paused),
                                     .attached = port->attached,
                                     .connections = conn_port_count(n->connections, index),
                                     .connections_max = b->limits.flows_max};
    memcpy(out->hash, b->hash, sizeof(out->hash));
    memcpy(out->device_error, port->device_error, sizeof(out->device_error));
    return true;
}

// Counters are arrays of 64-bit words with one writer each: a sum needs no lock.
static void add_words(void *sum, const void *part, size_t bytes)
{
    uint64_t *to = sum;
    const uint64_t *from = part;
    for (size_t i = 0; i < bytes / 8; i++)
        to[i] += load_relaxed(&from[i]);
}

void node_port_counters(struct node *n, uint32_t index, struct port_counters *out)
{
    *out = (struct port_counters){0};
    const struct port *port = port_at(n, index);
    for (unsigned w = 0; port && w < n->config.workers; w++)
        add_words(out, port->counters[w], sizeof(*out));
}

void node_counters(struct node *n, struct node_counters *out)
{
    *out = (struct node_counters){0};
    for (unsigned w = 0; w < n->config.workers; w++)
        add_words(out, &n->workers[w].counters, sizeof(*out));
}

const struct blueprint *node_blueprint(struct node *n, uint32_t index)
{
    const struct port *port = port_at(n, index);
    return port ? port->policy->blueprint : NULL;
}

static unsigned add_rules(struct rule_counter *out, unsigned n, unsigned max, const struct policy_rules *r,
                          const char *layer, uint8_t dir)
{
    for (uint32_t i = 0; i <= r->n && n < max; i++) {
        uint8_t action = r->default_allow ? RULE_ALLOW : RULE_DENY;
        out[n++] = (struct rule_counter){.id = policy_rule_name(r, i, dir),
                                         .layer = layer,
                                         .dir = dir,
                                         .action = i < r->n ? r->rules[r->index[i]].action : action,
                                         .hits = load_relaxed(&r->hits[i])};
    }
    return n;
}

unsigned node_rule_counters(struct node *n, uint32_t index, struct rule_counter *out, unsigned max)
{
    const struct port *port = port_at(n, index);
    if (!port)
        return 0;
    const struct policy *p = port->policy;
    unsigned count = 0;
    for (uint8_t dir = 0; dir < 2; dir++)
        if (p->posture[dir].n)
            count = add_rules(out, count, max, &p->posture[dir], "posture", dir);
    for (uint8_t dir = 0; dir < 2; dir++)
        count = add_rules(out, count, max, &p->firewall[dir], "firewall", dir);
    return count;
}

static void describe(struct node *n, const struct conn *k, uint32_t index, uint32_t now, struct flow_info *out)
{
    const struct port *port = port_at(n, k->port);
    uint32_t seen = k->opened;
    *out = (struct flow_info){.index = index,
                              .port = k->port,
                              .opener = k->opener,
                              .state = k->tcp.state,
                              .nat = k->nat,
                              .class_ = (uint8_t)conn_classify(n->connections, k, now),
                              .age_ms = now - k->opened,
                              .timeout_s = conn_timeout(n->connections, k)};
    for (unsigned dir = 0; dir < 2; dir++) {
        if (k->entry[dir] == FLOW_NONE)
            continue;
        const struct flow_entry *e = flow_table_entry(n->flows, k->entry[dir]);
        const struct flow_hot *hot = flow_table_hot(n->flows, k->entry[dir]);
        memcpy(&out->key[dir], e->key, sizeof(out->key[dir]));
        out->has[dir] = 1;
        out->xp[dir] = e->xp;
        out->packets[dir] = load_relaxed(&hot->packets);
        out->bytes[dir] = load_relaxed(&hot->bytes);
        uint32_t last = load_relaxed(&hot->last_seen);
        if ((int32_t)(last - seen) > 0)
            seen = last;
    }
    out->idle_ms = (int32_t)(now - seen) > 0 ? now - seen : 0;
    out->rule = port ? policy_rule_name(&port->policy->firewall[k->opener], k->rule, k->opener) : "";
}

uint32_t node_flow_next(struct node *n, uint32_t port, uint32_t after, uint64_t now, struct flow_info *out)
{
    for (uint32_t i = conn_next(n->connections, port, after); i; i = conn_next(n->connections, port, i)) {
        const struct conn *k = conn_get(n->connections, i);
        uint32_t owner = load_relaxed(&k->port);
        if (!port_at(n, owner))
            continue;
        conn_port_lock(n->connections, owner);
        bool stands = conn_stands(k, owner); // it may have ended, and another taken its place
        if (stands)
            describe(n, k, i, (uint32_t)(now / 1000000), out);
        conn_port_unlock(n->connections, owner);
        if (stands)
            return i;
    }
    return 0;
}

void node_capture_set(struct node *n, uint32_t port, unsigned points)
{
    store_relaxed(&n->capture_port, port);
    store_release(&n->capture_points, points);
}

const struct blueprint *node_metadata_port(struct node *n, const struct ip_addr *client)
{
    const struct blueprint *b = node_blueprint(n, service_port(client));
    return b && b->gateway.metadata.enabled ? b : NULL;
}
