// SPDX-License-Identifier: MPL-2.0
#include "api/json/text.h"
#include "node/frame.h"
#include "node/handlers.h"
#include "node/http_load.h"
#include "node/problem.h"
#include "node/view.h"

static void answer_trace(struct request *r, const struct trace *t)
{
    json_t *steps = json_array();
    for (unsigned i = 0; i < t->log.n; i++)
        json_array_append_new(steps, json_pack("{ss,ss,ss}", "layer", t->log.steps[i].layer, "result",
                                               t->log.steps[i].result, "detail", t->log.steps[i].detail));
    json_t *xp = view_transposition(r->d, &t->xp);
    json_t *out = json_pack("{ss,ss,sb,so,so,sO}", "verdict", t->verdict, "reason", drop_name(t->reason), "hit", t->hit,
                            "steps", steps, "transposition", xp, "to", json_object_get(xp, "to"));
    if (out && t->xp.to == XP_TO_TUNNEL) {
        char node[IP_TEXT];
        ip_to_text(&t->tunnel, node);
        json_object_set_new(out, "node", json_string(node));
    }
    answer_json(r, 200, out);
}

static void trace(struct request *r, const struct trace_request *t)
{
    uint8_t frame[FRAME_MAX];
    const uint8_t *bytes = t->frame;
    uint32_t len = t->n_frame, port = node_port_find(r->d->node, &t->port);
    bool out = t->dir == BLUEPRINT_OUT;
    const char *why;
    char id[UUID_TEXT];
    uuid_to_text(&t->port, id);
    if (!port) {
        problem(r, 404, "not-found", "no port %s on this node", id);
        return;
    }
    if (t->has_packet) {
        len = frame_make(node_blueprint(r->d->node, port), &t->packet, out, frame, &why);
        bytes = frame;
        if (!len) {
            json_t *error = json_pack("[{ss,ss,ss}]", "pointer", "/packet", "code", "invalid", "detail", why);
            problem_errors(r, 422, "invalid", why, error);
            return;
        }
    }
    static struct trace result; // 4 KiB; the control thread is the only one here
    struct node_error e = {0};
    if (node_trace(r->d->node, port, out ? FLOW_OUT : FLOW_IN, &t->from, bytes, len, daemon_now(), &result, &e))
        answer_trace(r, &result);
    else
        problem_node(r, &e);
}

void post_trace(struct request *r)
{
    struct api_document *document = request_load(r, API_TRACE_REQUEST);
    if (document)
        trace(r, document->trace_request);
    api_document_free(document);
}
