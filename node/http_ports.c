// SPDX-License-Identifier: MPL-2.0
#include <stdio.h>
#include <stdlib.h>

#include "node/handlers.h"
#include "node/http_load.h"
#include "node/log.h"
#include "node/problem.h"
#include "node/view.h"

static bool page_number(struct request *r, const struct page *p, uint32_t *after)
{
    uint64_t n = 0;
    if (p->token[0] && !parse_number(p->token, UINT32_MAX, &n)) {
        problem(r, 400, "bad-query", "page_token is none that this node gave");
        return false;
    }
    *after = (uint32_t)n;
    return true;
}

void list_ports(struct request *r)
{
    struct page page;
    uint32_t at, last = 0;
    if (!page_begin(r, &page))
        return;
    if (!page_number(r, &page, &at)) {
        blob_free(&page.out);
        return;
    }
    while (!page_full(&page) && (at = node_port_next(r->d->node, at)))
        page_add_json(&page, view_port(r->d, last = at));
    bool more = page_full(&page) && node_port_next(r->d->node, last);
    snprintf(page.next, sizeof(page.next), "%u", last);
    page_answer(r, &page, more ? page.next : "");
}

void get_port(struct request *r)
{
    uint32_t port = request_port(r, 0);
    if (port)
        answer_json(r, 200, view_port(r->d, port));
}

void get_port_rules(struct request *r)
{
    uint32_t port = request_port(r, 0);
    const struct blueprint *b = port ? node_blueprint(r->d->node, port) : NULL;
    struct page page;
    if (!b || !page_begin(r, &page))
        return;
    unsigned max = b->firewall.n_rules + b->posture.n_in + b->posture.n_out + 4; // defaults included
    struct rule_counter *counters = calloc(max, sizeof(*counters));
    unsigned n = counters ? node_rule_counters(r->d->node, port, counters, max) : 0;
    for (unsigned i = 0; i < MIN(n, max); i++)
        page_add_json(&page, view_rule(&counters[i]));
    if (!counters)
        page.out.failed = true;
    free(counters);
    page_answer(r, &page, "");
}

void get_port_meters(struct request *r)
{
    uint32_t port = request_port(r, 0);
    struct page page;
    if (!port || !page_begin(r, &page))
        return;
    static struct meter_counter meters[METER_CLASSES]; // the control thread is the only one here
    node_meters_update(r->d->node, port);
    unsigned n = node_meters(r->d->node, port, meters, METER_CLASSES);
    for (unsigned i = 0; i < n; i++)
        page_add_json(&page, view_meter(&meters[i]));
    page_answer(r, &page, "");
}

static void act(struct request *r, enum node_port_action action, const char *what)
{
    struct uuid id;
    struct node_error e = {0};
    if (!request_port(r, 0) || !request_uuid(r, 0, &id))
        return;
    if (!node_port_act(r->d->node, &id, action, &e)) {
        problem_node(r, &e);
        return;
    }
    log_info("port action", "port=%s action=%s", r->parameters[0], what);
    answer_json(r, 200, view_port(r->d, node_port_find(r->d->node, &id)));
}

void pause_port(struct request *r)
{
    act(r, NODE_PORT_PAUSE, "pause");
}

void resume_port(struct request *r)
{
    act(r, NODE_PORT_RESUME, "resume");
}

void reset_port(struct request *r)
{
    act(r, NODE_PORT_RESET, "reset");
}

void list_flows(struct request *r)
{
    struct page page;
    struct flow_info flow;
    uint32_t port, at, last = 0;
    uint64_t now = daemon_now();
    if (!request_query_port(r, &port) || !page_begin(r, &page))
        return;
    if (!page_number(r, &page, &at)) {
        blob_free(&page.out);
        return;
    }
    while (!page_full(&page) && (at = node_flow_next(r->d->node, port, at, now, &flow))) {
        last = at;
        page_add_json(&page, view_flow(r->d, &flow));
    }
    bool more = page_full(&page) && node_flow_next(r->d->node, port, last, now, &flow);
    snprintf(page.next, sizeof(page.next), "%u", last);
    page_answer(r, &page, more ? page.next : "");
}
