// SPDX-License-Identifier: MPL-2.0
#include <string.h>

#include "node/handlers.h"
#include "node/metrics.h"
#include "node/node_sum.h"
#include "node/view.h"

static json_t *problems_of(const struct daemon *d)
{
    json_t *out = json_array();
    for (unsigned i = 0; i < MIN(d->store.n_problems, STORE_PROBLEMS); i++)
        json_array_append_new(out, json_string(d->store.problems[i]));
    if (d->store.write_failing)
        json_array_append_new(out, json_string("the state directory cannot be written"));
    return out;
}

void get_health(struct request *r)
{
    struct daemon *d = r->d;
    struct node_sum sum = node_sum(d->node);
    json_t *problems = problems_of(d);
    const char *status = d->stopping ? "stopping" : json_array_size(problems) ? "degraded" : "ok";
    answer_json(r, 200,
                json_pack("{ss,ss,ss,sI,sI,sI,sI,sI,so}", "status", status, "version", NEREUS_VERSION, "node",
                          d->config->node, "uptime_s", (json_int_t)((daemon_now() - d->started) / 1000000000u), "ports",
                          (json_int_t)sum.ports, "connections", (json_int_t)sum.connections, "mappings",
                          (json_int_t)node_mapping_count(d->node), "adopted", (json_int_t)d->adopted, "problems",
                          problems));
}

static void answer_word(struct request *r, bool good)
{
    struct blob word = {0};
    blob_puts(&word, good ? "ok\n" : "not ready\n");
    answer_bytes(r, good ? 200 : 503, "text/plain", &word);
}

// The process answers: that is all a restart could mend.
void get_healthz(struct request *r)
{
    answer_word(r, true);
}

// The node takes documents and keeps them.
void get_readyz(struct request *r)
{
    answer_word(r, !r->d->stopping && !r->d->store.write_failing);
}

void get_version(struct request *r)
{
    answer_json(r, 200,
                json_pack("{ss,si,si,s[ssssss]}", "version", NEREUS_VERSION, "api", 1, "schema", STATE_SCHEMA,
                          "capabilities", "vpc", "metadata", "trace", "capture", "external", "flows"));
}

void get_counters(struct request *r)
{
    struct node_counters node;
    struct node_sum sum = node_sum(r->d->node);
    node_counters(r->d->node, &node);
    answer_json(r, 200,
                json_pack("{so,so}", "node", view_node_counters(&node), "ports", view_port_counters(&sum.counters)));
}

void get_drop_reasons(struct request *r)
{
    struct page page;
    if (!page_begin(r, &page))
        return;
    for (int i = DROP_NONE + 1; i < DROP_COUNT; i++)
        page_add_json(&page, json_pack("{ss,ss}", "name", drop_name(i), "help", drop_help(i)));
    page_answer(r, &page, "");
}

void get_metrics(struct request *r)
{
    struct blob out = {0};
    metrics_write(r->d, &out);
    answer_bytes(r, 200, METRICS_CONTENT_TYPE, &out);
}
