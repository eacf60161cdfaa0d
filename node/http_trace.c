// SPDX-License-Identifier: MPL-2.0
#include <stdio.h>
#include <string.h>

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

static void refuse_packet(struct request *r, const char *pointer, const char *why)
{
    json_t *error = json_pack("[{ss,ss,ss}]", "pointer", pointer, "code", "invalid", "detail", why);
    problem_errors(r, 422, "invalid", why, error);
}

// The blueprint of the request, NULL after a problem. What is wrong with it is at /blueprint/...
static struct api_document *load_blueprint(struct request *r, const char *text)
{
    struct api_error_list errors;
    struct api_document *document = api_load(API_BLUEPRINT, text, strlen(text), &errors);
    if (document)
        return document;
    for (unsigned i = 0; i < errors.n; i++) {
        char pointer[sizeof(errors.e[i].pointer)];
        snprintf(pointer, sizeof(pointer), "/blueprint%.*s", (int)sizeof(pointer) - 11, errors.e[i].pointer);
        memcpy(errors.e[i].pointer, pointer, sizeof(pointer));
    }
    problem_errors(r, 422, "invalid", errors.e[0].detail, api_errors_json(&errors));
    return NULL;
}

// A connection's next packet in direction `dir`, in words.
static struct trace_packet next_packet(const struct flow_info *f, uint8_t dir)
{
    enum { ICMP = 1, TCP = 6, ICMP6 = 58 };
    const struct flow_key *k = &f->key[dir];
    struct trace_packet p = {.has_src = true,
                             .src = k->src,
                             .dst = k->dst,
                             .proto = k->protocol,
                             .sport = load_be16(&k->sport),
                             .dport = load_be16(&k->dport)};
    if (k->protocol == TCP)
        p.flags = 0x10; // ACK
    if (k->protocol == ICMP || k->protocol == ICMP6) {
        bool answer = dir != f->opener;
        p.has_icmp_type = true;
        p.icmp_type = (uint8_t)(k->protocol == ICMP ? (answer ? 0 : 8) : (answer ? 129 : 128));
    }
    return p;
}

struct asking {
    struct trace_question q;
    struct trace_packet packet;
    bool has_packet;
    struct api_document *document; // of the blueprint
    uint8_t frame[FRAME_MAX];
};

static bool ask_about_flow(struct request *r, const struct trace_request *t, struct asking *a)
{
    struct flow_info f;
    if (node_flow_next(r->d->node, 0, t->flow - 1, daemon_now(), &f) != t->flow) {
        problem(r, 404, "not-found", "no connection %u on this node", t->flow);
        return false;
    }
    a->q.port = f.port;
    a->q.dir = t->has_dir ? (t->dir == BLUEPRINT_OUT ? FLOW_OUT : FLOW_IN) : f.opener;
    if (!f.has[a->q.dir]) {
        refuse_packet(r, "/dir", "the connection has no packets of that direction");
        return false;
    }
    if (f.key[a->q.dir].realm == REALM_SERVICE) {
        refuse_packet(r, "/dir", "the metadata service answers by itself");
        return false;
    }
    a->q.outside = f.key[a->q.dir].realm == REALM_OUTSIDE;
    a->packet = next_packet(&f, a->q.dir);
    a->has_packet = true;
    return true;
}

static bool ask_about_packet(struct request *r, const struct trace_request *t, struct asking *a)
{
    a->q.port = t->has_port ? node_port_find(r->d->node, &t->port) : 0;
    a->q.dir = t->dir == BLUEPRINT_OUT ? FLOW_OUT : FLOW_IN;
    a->q.from = t->from;
    a->q.frame = t->frame;
    a->q.len = t->n_frame;
    a->packet = t->packet;
    a->has_packet = t->has_packet;
    if (!t->has_port || a->q.port)
        return true;
    char id[UUID_TEXT];
    uuid_to_text(&t->port, id);
    problem(r, 404, "not-found", "no port %s on this node", id);
    return false;
}

static bool make_frame(struct request *r, struct asking *a, bool of_flow)
{
    const struct blueprint *b = a->q.blueprint ? a->q.blueprint : node_blueprint(r->d->node, a->q.port);
    const char *why;
    if (!a->has_packet)
        return true;
    a->q.len = frame_make(b, &a->packet, a->q.dir == FLOW_OUT, a->frame, &why);
    a->q.frame = a->frame;
    if (!a->q.len)
        refuse_packet(r, of_flow ? "/flow" : "/packet", why);
    return a->q.len != 0;
}

static bool same_port(struct request *r, const struct asking *a)
{
    if (node_port_find(r->d->node, &a->q.blueprint->port) == a->q.port)
        return true;
    refuse_packet(r, "/blueprint/port", "the connection is another port's");
    return false;
}

static bool prepare(struct request *r, const struct trace_request *t, struct asking *a)
{
    if (!(t->has_flow ? ask_about_flow(r, t, a) : ask_about_packet(r, t, a)))
        return false;
    if (t->has_blueprint) {
        a->document = load_blueprint(r, t->blueprint);
        if (!a->document)
            return false;
        a->q.blueprint = a->document->blueprint;
        if (t->has_flow && !same_port(r, a))
            return false;
    }
    return make_frame(r, a, t->has_flow);
}

static void refuse(struct request *r, struct node_error *e, bool blueprint)
{
    if (blueprint && e->pointer[0] && strcmp(e->pointer, "/frame") != 0) {
        char pointer[sizeof(e->pointer)];
        snprintf(pointer, sizeof(pointer), "/blueprint%.*s", (int)sizeof(pointer) - 11, e->pointer);
        memcpy(e->pointer, pointer, sizeof(pointer));
    }
    problem_node(r, e);
}

void post_trace(struct request *r)
{
    static struct trace result; // 4 KiB; the control thread is the only one here
    static struct asking a;
    struct node_error e = {0};
    struct api_document *document = request_load(r, API_TRACE_REQUEST);
    if (!document)
        return;
    memset(&a, 0, sizeof(a));
    if (prepare(r, document->trace_request, &a)) {
        if (node_trace_ask(r->d->node, &a.q, daemon_now(), &result, &e))
            answer_trace(r, &result);
        else
            refuse(r, &e, a.document != NULL);
    }
    api_document_free(a.document);
    api_document_free(document);
}
