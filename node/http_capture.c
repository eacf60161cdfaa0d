// SPDX-License-Identifier: MPL-2.0
// GET /v1/capture: pcapng, streamed until the client hangs up, `count` frames were sent or `seconds` are over. While
// any client watches, a timer of the control loop drains the workers' rings; a client with nothing to read is
// suspended.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "node/handlers.h"
#include "node/http_load.h"
#include "node/log.h"
#include "node/problem.h"
#include "node/stream.h"

#define DRAIN_MS 20
#define SECONDS_MAX 86400

struct stream {
    struct stream *next;
    struct daemon *d;
    struct capture_watcher *watcher;
    struct MHD_Connection *connection;
    uint64_t deadline; // ns; 0 = none
    bool suspended, hung_up;
};

static void set_timer(struct daemon *d)
{
    const struct itimerspec on = {{0, DRAIN_MS * 1000000}, {0, DRAIN_MS * 1000000}}, off = {0};
    timerfd_settime(d->capture_timer.fd, 0, d->streams ? &on : &off, NULL);
}

static void tell_node(struct daemon *d)
{
    uint32_t port;
    unsigned points;
    bool wanted = capture_wanted(d->capture, &port, &points);
    node_capture_set(d->node, wanted ? port : 0, wanted ? points : 0);
}

static bool over(const struct stream *s)
{
    return s->d->stopping || capture_done(s->watcher) || (s->deadline && daemon_now() >= s->deadline);
}

static void resume(struct stream *s)
{
    if (s->suspended) {
        s->suspended = false;
        MHD_resume_connection(s->connection);
    }
}

// libmicrohttpd does not look at a suspended connection: a client that went away must be noticed here.
static bool hung_up(const struct stream *s)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(s->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd p = {.fd = info ? info->connect_fd : -1};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void on_timer(void *ctx)
{
    struct daemon *d = ctx;
    uint64_t ticks;
    if (read(d->capture_timer.fd, &ticks, sizeof(ticks)) < 0)
        return;
    capture_drain(d->capture);
    for (struct stream *s = d->streams; s; s = s->next) {
        s->hung_up = hung_up(s);
        if (capture_pending(s->watcher) || over(s) || s->hung_up)
            resume(s);
    }
}

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t size)
{
    struct stream *s = ctx;
    if (s->hung_up)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = capture_read(s->watcher, out, size);
    if (n)
        return (ssize_t)n;
    if (over(s))
        return MHD_CONTENT_READER_END_OF_STREAM;
    s->suspended = true;
    MHD_suspend_connection(s->connection);
    return 0;
}

static void end_stream(void *ctx)
{
    struct stream *s = ctx;
    struct daemon *d = s->d;
    struct stream **link = &d->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    capture_unwatch(d->capture, s->watcher);
    tell_node(d);
    set_timer(d);
    free(s);
    log_info("capture ended", "%s", "");
}

bool streams_open(struct daemon *d)
{
    d->capture_timer = (struct loop_source){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), on_timer, d};
    return d->capture_timer.fd >= 0 && loop_add(&d->loop, &d->capture_timer);
}

void streams_end(struct daemon *d)
{
    for (struct stream *s = d->streams; s; s = s->next)
        resume(s);
}

// "from-guest,drop" -> bits. False: a word is none.
static bool parse_points(const char *text, unsigned *points)
{
    static const struct {
        const char *word;
        unsigned bit;
    } words[] = {
        {"from-guest", CAPTURE_FROM_GUEST},   {"to-guest", CAPTURE_TO_GUEST},           {"drop", CAPTURE_DROP},
        {"to-underlay", CAPTURE_TO_UNDERLAY}, {"from-underlay", CAPTURE_FROM_UNDERLAY}, {"all", CAPTURE_POINTS}};
    *points = 0;
    while (*text) {
        size_t len = strcspn(text, ","), i = 0;
        while (i < ARRAY_LEN(words) && !(strlen(words[i].word) == len && memcmp(words[i].word, text, len) == 0))
            i++;
        if (i == ARRAY_LEN(words))
            return false;
        *points |= words[i].bit;
        text += len + (text[len] == ',');
    }
    return *points != 0;
}

struct query {
    uint32_t port;
    unsigned points;
    uint64_t count, seconds;
    struct capture_filter *filter;
};

static bool parse_filter(struct request *r, struct query *q)
{
    const char *filter = request_query(r, "filter");
    char why[256];
    if (!filter || !*filter)
        return true;
    q->filter = capture_filter_compile(filter, why, sizeof(why));
    if (!q->filter)
        problem(r, 422, "invalid-filter", "filter: %s", why);
    return q->filter != NULL;
}

static bool parse_query(struct request *r, struct query *q)
{
    const char *points = request_query(r, "points"), *count = request_query(r, "count");
    const char *seconds = request_query(r, "seconds");
    *q = (struct query){.points = CAPTURE_FROM_GUEST | CAPTURE_TO_GUEST | CAPTURE_DROP, .count = UINT64_MAX};
    if (!request_query_port(r, &q->port))
        return false;
    if (points && !parse_points(points, &q->points)) {
        problem(r, 400, "bad-query", "points are some of from-guest, to-guest, drop, to-underlay, from-underlay, all");
        return false;
    }
    if ((count && (!parse_number(count, UINT64_MAX, &q->count) || q->count == 0)) ||
        (seconds && (!parse_number(seconds, SECONDS_MAX, &q->seconds) || q->seconds == 0))) {
        problem(r, 400, "bad-query", "count and seconds are numbers above 0; seconds at most %u", SECONDS_MAX);
        return false;
    }
    return parse_filter(r, q);
}

static struct capture_watcher *watch(struct request *r, const struct query *q)
{
    uint32_t ports[256];
    unsigned n = 0;
    if (q->points & (CAPTURE_TO_UNDERLAY | CAPTURE_FROM_UNDERLAY))
        ports[n++] = 0;
    if (q->port)
        ports[n++] = q->port;
    for (uint32_t p = q->port ? 0 : node_port_next(r->d->node, 0); p && n < ARRAY_LEN(ports);
         p = node_port_next(r->d->node, p))
        ports[n++] = p;
    return capture_watch(r->d->capture, q->port, q->points, q->count, ports, n);
}

void get_capture(struct request *r)
{
    struct query q;
    if (!parse_query(r, &q))
        return;
    struct stream *s = calloc(1, sizeof(*s));
    struct capture_watcher *watcher = s ? watch(r, &q) : NULL;
    if (!watcher) {
        problem(r, 503, "busy", "%u captures run already, or memory is out", CAPTURE_WATCHERS);
        capture_filter_free(q.filter);
        free(s);
        return;
    }
    capture_set_filter(watcher, q.filter);
    *s = (struct stream){
        .next = r->d->streams,
        .d = r->d,
        .watcher = watcher,
        .connection = r->connection,
        .deadline = q.seconds ? daemon_now() + q.seconds * 1000000000u : 0,
    };
    r->d->streams = s;
    r->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, read_stream, s, end_stream);
    if (!r->response) {
        end_stream(s);
        return;
    }
    MHD_add_response_header(r->response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/x-pcapng");
    r->status = 200;
    tell_node(r->d);
    set_timer(r->d);
    log_info("capture started", "port=%u points=%u", q.port, q.points);
}
