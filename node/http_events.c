// SPDX-License-Identifier: MPL-2.0
// GET /v1/events: the last events as a list; with ?watch=1 as lines, those that are kept first, then each as it comes,
// until the client hangs up.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "api/json/text.h"
#include "node/handlers.h"
#include "node/http_load.h"
#include "node/problem.h"
#include "node/stream.h"

#define WATCHERS 32
#define LOOK_S 1 // for clients that hung up

struct event_watcher {
    struct event_watcher *next;
    struct daemon *d;
    struct MHD_Connection *connection;
    uint64_t sent; // sequence
    uint32_t port; // 0: all
    struct blob line;
    size_t taken;
    bool suspended, hung_up;
};

static json_t *view_event(const struct event *e)
{
    return json_pack("{sI,sI,ss,ss,ss,sI,ss}", "id", (json_int_t)e->sequence, "time_ms", (json_int_t)e->time, "kind",
                     e->kind, "port", e->port, "name", e->name, "count", (json_int_t)e->count, "text", e->text);
}

static void name_port(void *daemon, struct event *e)
{
    struct daemon *d = daemon;
    struct node_port_status s;
    if (!node_port_status(d->node, e->index, &s))
        return;
    uuid_to_text(&s.id, e->port);
    snprintf(e->name, sizeof(e->name), "%s", s.name ? s.name : "");
}

static const struct event *next_event(const struct daemon *d, uint32_t port, uint64_t after)
{
    const struct event *e = events_after(d->events, after);
    while (e && port && e->index != port)
        e = events_after(d->events, e->sequence);
    return e;
}

// ---- Streams

static void resume(struct event_watcher *w)
{
    if (w->suspended) {
        w->suspended = false;
        MHD_resume_connection(w->connection);
    }
}

static void on_event(void *ctx)
{
    struct daemon *d = ctx;
    events_collect(d->events);
    for (struct event_watcher *w = d->event_watchers; w; w = w->next)
        if (next_event(d, w->port, w->sent))
            resume(w);
}

// libmicrohttpd does not look at a suspended connection: a client that went away must be noticed here.
static bool hung_up(const struct event_watcher *w)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(w->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd p = {.fd = info ? info->connect_fd : -1};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void on_timer(void *ctx)
{
    struct daemon *d = ctx;
    uint64_t ticks;
    if (read(d->event_timer.fd, &ticks, sizeof(ticks)) < 0)
        return;
    for (struct event_watcher *w = d->event_watchers; w; w = w->next) {
        w->hung_up = hung_up(w);
        if (w->hung_up)
            resume(w);
    }
}

static void set_timer(struct daemon *d)
{
    const struct itimerspec on = {{LOOK_S, 0}, {LOOK_S, 0}}, off = {0};
    timerfd_settime(d->event_timer.fd, 0, d->event_watchers ? &on : &off, NULL);
}

static void next_line(struct event_watcher *w)
{
    const struct event *e = next_event(w->d, w->port, w->sent);
    blob_free(&w->line);
    w->taken = 0;
    if (!e)
        return;
    json_t *json = view_event(e);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    blob_puts(&w->line, text ? text : "{}");
    blob_puts(&w->line, "\n");
    free(text);
    json_decref(json);
    w->sent = e->sequence;
}

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t size)
{
    struct event_watcher *w = ctx;
    if (w->hung_up)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (w->taken == w->line.len)
        next_line(w);
    size_t n = MIN(size, w->line.len - w->taken);
    if (n) {
        memcpy(out, w->line.s + w->taken, n);
        w->taken += n;
        return (ssize_t)n;
    }
    if (w->d->stopping)
        return MHD_CONTENT_READER_END_OF_STREAM;
    w->suspended = true;
    MHD_suspend_connection(w->connection);
    return 0;
}

static void end_stream(void *ctx)
{
    struct event_watcher *w = ctx;
    struct event_watcher **link = &w->d->event_watchers;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    set_timer(w->d);
    blob_free(&w->line);
    free(w);
}

static void watch(struct request *r, uint32_t port, uint64_t since)
{
    unsigned n = 0;
    for (struct event_watcher *w = r->d->event_watchers; w; w = w->next)
        n++;
    struct event_watcher *w = n < WATCHERS ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        problem(r, 503, "busy", "%u clients watch events already, or memory is out", WATCHERS);
        return;
    }
    *w = (struct event_watcher){
        .next = r->d->event_watchers, .d = r->d, .connection = r->connection, .sent = since, .port = port};
    r->d->event_watchers = w;
    r->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, w, end_stream);
    if (!r->response) {
        end_stream(w);
        return;
    }
    MHD_add_response_header(r->response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/x-ndjson");
    r->status = 200;
    set_timer(r->d);
}

void get_events(struct request *r)
{
    const char *since_text = request_query(r, "since");
    uint64_t since = 0;
    uint32_t port;
    struct page page;
    if (!request_query_port(r, &port))
        return;
    if (since_text && !parse_number(since_text, UINT64_MAX / 2, &since)) {
        problem(r, 400, "bad-query", "since is the id of an event");
        return;
    }
    events_collect(r->d->events);
    if (request_flag(r, "watch")) {
        watch(r, port, since);
        return;
    }
    if (!page_begin(r, &page))
        return;
    if (page.token[0] && !parse_number(page.token, UINT64_MAX / 2, &since)) {
        problem(r, 400, "bad-query", "page_token is none that this node gave");
        blob_free(&page.out);
        return;
    }
    const struct event *e = next_event(r->d, port, since);
    for (; e && !page_full(&page); e = next_event(r->d, port, e->sequence)) {
        page_add_json(&page, view_event(e));
        since = e->sequence;
    }
    snprintf(page.next, sizeof(page.next), "%llu", (unsigned long long)since);
    page_answer(r, &page, e ? page.next : "");
}

// ---- Life

bool events_open(struct daemon *d)
{
    d->events = events_create(name_port, d);
    if (!d->events)
        return false;
    d->event_source = (struct loop_source){events_fd(d->events), on_event, d};
    d->event_timer = (struct loop_source){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), on_timer, d};
    return d->event_timer.fd >= 0 && loop_add(&d->loop, &d->event_source) && loop_add(&d->loop, &d->event_timer);
}

void events_end(struct daemon *d)
{
    for (struct event_watcher *w = d->event_watchers; w; w = w->next)
        resume(w);
}

void events_close(struct daemon *d)
{
    if (d->events && d->event_timer.fd > 0)
        close(d->event_timer.fd);
    events_destroy(d->events);
    d->events = NULL;
}
