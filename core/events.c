// SPDX-License-Identifier: MPL-2.0
// Events: what an operator should hear about. Packets only count; a tick compares counters with what was told, so that
// an event costs the packet path nothing. The first packet of a trouble is told with the next look; while the trouble
// lasts, each kind is told once in ten seconds for each port, with the number of packets since.
#include "core/internal.h"

#include "vpc/text.h"

#define QUIET_NS (10ull * 1000000000)
#define LOOKS 256u // ports that one tick looks at

static const struct {
    const char *kind;
    enum drop reasons[6]; // up to DROP_NONE
} kinds[PORT_EVENTS] = {
    [EVENT_SNAT_EXHAUSTED] = {"snat-exhausted", {DROP_SNAT_EXHAUSTED}},
    [EVENT_FLOW_LIMIT] = {"flow-limit", {DROP_FLOW_LIMIT}},
    [EVENT_SPOOFING] = {"spoofing", {DROP_SPOOF_MAC, DROP_SPOOF_IP, DROP_SPOOF_ARP, DROP_SPOOF_ND}},
    [EVENT_RATE_LIMITED] = {"rate-limited", {DROP_RATE_LIMITED, DROP_RATE_NEW}},
    [EVENT_NO_MEMORY] = {"no-memory", {DROP_NO_MEMORY}},
};

static uint64_t dropped(const struct node *n, const struct port *port, enum drop reason)
{
    uint64_t sum = 0;
    for (unsigned w = 0; w < n->config.workers; w++)
        for (unsigned dir = 0; dir < 2; dir++)
            sum += load_relaxed(&port->counters[w]->drops[dir][reason]);
    return sum;
}

static void tell(struct node *n, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    n->platform.event(n->platform.ctx, kind, port, count, text);
}

// "12 packets dropped: no free port in the SNAT slice"
static void tell_drops(struct node *n, const char *kind, const struct port *port, uint64_t count, const char *why)
{
    char line[160];
    struct text t = text_into(line, sizeof(line));
    text_number(&t, count);
    text_add(&t, count == 1 ? " packet dropped: " : " packets dropped: ");
    text_add(&t, why);
    tell(n, kind, port->index, count, line);
}

// A port below its own cap met the node's limit.
static bool table_is_full(const struct node *n, const struct port *port)
{
    const struct policy *p = load_acquire(&port->policy);
    return p && conn_port_count(n->connections, port->index) < p->blueprint->limits.flows_max;
}

static void look(struct context *c, struct port *port, enum port_event e)
{
    struct node *n = c->n;
    struct watched *w = &port->watched[e];
    enum drop first = DROP_NONE;
    uint64_t total = 0, most = 0;
    for (unsigned i = 0; i < ARRAY_LEN(kinds[e].reasons) && kinds[e].reasons[i]; i++) {
        uint64_t some = dropped(n, port, kinds[e].reasons[i]);
        total += some;
        if (some > most) {
            most = some;
            first = kinds[e].reasons[i];
        }
    }
    if (total < w->told) // another port has the index
        *w = (struct watched){0};
    if (total == w->told || (w->at && c->now - w->at < QUIET_NS))
        return;
    bool full = e == EVENT_FLOW_LIMIT && table_is_full(n, port);
    tell_drops(n, full ? "table-full" : kinds[e].kind, port, total - w->told,
               full ? "the node's table has no room for a connection" : drop_help(first));
    *w = (struct watched){.at = c->now, .told = total};
}

void events_look(struct context *c)
{
    struct node *n = c->n;
    for (unsigned i = 0; i < MIN(LOOKS, n->config.max_ports - 1); i++) {
        n->event_port = n->event_port + 1 < n->config.max_ports ? n->event_port + 1 : 1;
        if (!port_at(n, n->event_port))
            continue;
        for (unsigned e = 0; e < PORT_EVENTS; e++)
            look(c, &n->ports[n->event_port], e);
    }
}

void event_refused(struct node *n, struct watched *w, const char *kind, uint32_t port, const char *text)
{
    uint64_t now = load_relaxed(&n->workers[0].now);
    w->told++;
    if (w->at && now - w->at < QUIET_NS)
        return;
    tell(n, kind, port, w->told, text);
    *w = (struct watched){.at = now};
}
