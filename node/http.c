// SPDX-License-Identifier: MPL-2.0
#include "node/http.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/log.h"
#include "node/problem.h"

#define IDLE_S 60
#define MAX_CLIENTS 256

struct http_server {
    struct daemon *d;
    struct MHD_Daemon *mhd;
    struct loop_source source;
    int listener;
    char path[108];
};

// ---- Routing

// Does the path fit the pattern? Fills in what stands for each {name}.
static bool pattern_match(const char *pattern, const char *path, char parameters[HTTP_PARAMETERS][128])
{
    unsigned n = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t len = strcspn(path, "/");
        if (len == 0 || len >= 128 || n == HTTP_PARAMETERS)
            return false;
        memcpy(parameters[n], path, len);
        parameters[n++][len] = 0;
        path += len;
        pattern = strchr(pattern, '}') + 1;
    }
    return *path == 0;
}

// The route, or NULL; *other_method: the path exists with another method.
static const struct route *find_route(struct request *r, const char *method, const char *path, bool *other_method)
{
    if (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        method = MHD_HTTP_METHOD_GET;
    *other_method = false;
    for (size_t i = 0; i < http_n_routes; i++) {
        if (!pattern_match(http_routes[i].pattern, path, r->parameters))
            continue;
        if (strcmp(http_routes[i].method, method) == 0)
            return &http_routes[i];
        *other_method = true;
    }
    return NULL;
}

static void no_route(struct request *r, const char *method, const char *path, bool other_method)
{
    if (!other_method) {
        problem(r, 404, "no-such-call", "no such call: %s %.200s", method, path);
        return;
    }
    problem(r, 405, "method", "%s is not possible on %.200s", method, path);
    char allow[64] = "";
    char ignored[HTTP_PARAMETERS][128];
    for (size_t i = 0; i < http_n_routes; i++) {
        if (!pattern_match(http_routes[i].pattern, path, ignored))
            continue;
        size_t n = strlen(allow);
        snprintf(allow + n, sizeof(allow) - n, "%s%s", n ? ", " : "", http_routes[i].method);
    }
    MHD_add_response_header(r->response, MHD_HTTP_HEADER_ALLOW, allow);
}

// ---- One request, as libmicrohttpd hands it over

static enum MHD_Result send_answer(struct request *r)
{
    if (!r->response)
        problem(r, 500, "internal", "the request could not be handled");
    enum MHD_Result result = r->response ? MHD_queue_response(r->connection, r->status, r->response) : MHD_NO;
    if (r->response)
        MHD_destroy_response(r->response);
    r->response = NULL;
    return result;
}

static struct request *request_begin(struct http_server *s, struct MHD_Connection *connection)
{
    struct request *r = calloc(1, sizeof(*r));
    if (r) {
        r->d = s->d;
        r->connection = connection;
    }
    return r;
}

static void take_body(struct request *r, const char *data, size_t len)
{
    if (!r->route || !r->route->body)
        return;
    if (len > HTTP_BODY_MAX - r->body.len) {
        r->body_too_large = true;
        blob_free(&r->body);
        return;
    }
    if (!r->body_too_large)
        blob_add(&r->body, data, len);
}

// A client that waits for "100 Continue" hears at once that its body is too large. Others are sending already: theirs
// is read and thrown away, for many clients do not read an answer before they have sent everything.
static bool refuse_early(struct request *r)
{
    if (!MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT))
        return false;
    const char *length = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n;
    return length && (!parse_number(length, UINT64_MAX, &n) || n > HTTP_BODY_MAX);
}

static void too_large(struct request *r)
{
    problem(r, 413, "too-large", "a document is at most %u bytes", HTTP_BODY_MAX);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    struct request *r = *state;
    bool other_method;
    if (!r) { // the headers are here, the body is to come
        *state = r = request_begin(ctx, connection);
        if (!r)
            return MHD_NO;
        r->route = find_route(r, method, url, &other_method);
        if (!refuse_early(r))
            return MHD_YES;
        too_large(r);
        return send_answer(r);
    }
    if (*size) {
        take_body(r, data, *size);
        *size = 0;
        return MHD_YES;
    }
    log_debug("request", "method=%s path=%s", method, log_quote(url).s);
    if (!r->route) {
        find_route(r, method, url, &other_method);
        no_route(r, method, url, other_method);
    } else if (r->body_too_large) {
        too_large(r);
    } else {
        r->route->handle(r);
    }
    return send_answer(r);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct request *r = *state;
    if (!r)
        return;
    blob_free(&r->body);
    free(r);
    *state = NULL;
}

static void on_log(void *ctx, const char *format, va_list args)
{
    char text[256];
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = 0;
    log_debug("http", "detail=%s", log_quote(text).s);
}

// ---- The server

// Is someone listening there already?
static bool socket_in_use(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool used = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    close(fd);
    return used;
}

static void make_parent(const char *path)
{
    char parent[108];
    snprintf(parent, sizeof(parent), "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = 0;
        mkdir(parent, 0755);
    }
}

// A listening UNIX socket that only root and the group `nereus` (if there is one) may use.
static int listen_unix(const char *path, char *error, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(error, size, "%s: path is too long for a socket", path);
        return -1;
    }
    strcpy(address.sun_path, path);
    make_parent(path);
    if (socket_in_use(&address)) {
        snprintf(error, size, "%s: another nereusd answers there", path);
        return -1;
    }
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0117);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    umask(mask);
    const struct group *group = ok ? getgrnam("nereus") : NULL;
    if (group && chown(path, (uid_t)-1, group->gr_gid) < 0)
        log_warn("socket keeps its group", "path=%s error=%s", path, log_quote(strerror(errno)).s);
    if (ok && listen(fd, 128) == 0)
        return fd;
    snprintf(error, size, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static void on_ready(void *ctx)
{
    struct http_server *s = ctx;
    MHD_run(s->mhd);
}

struct http_server *http_start(struct daemon *d, char *error, size_t size)
{
    struct http_server *s = calloc(1, sizeof(*s));
    int fd = s ? listen_unix(d->config->socket, error, size) : -1;
    if (fd < 0) {
        free(s);
        return NULL;
    }
    s->d = d;
    s->listener = fd;
    snprintf(s->path, sizeof(s->path), "%s", d->config->socket);
    s->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
                              s, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
                              MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
                              MHD_OPTION_CONNECTION_LIMIT, MAX_CLIENTS, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    s->source = (struct loop_source){.fd = info ? info->epoll_fd : -1, .ready = on_ready, .ctx = s};
    if (info && loop_add(&d->loop, &s->source))
        return s;
    snprintf(error, size, "%s: the HTTP server does not start", s->path);
    http_stop(s);
    return NULL;
}

int http_run(struct http_server *s)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    MHD_run(s->mhd);
    return MHD_get_timeout(s->mhd, &timeout) == MHD_YES ? (int)MIN(timeout, 60000u) : -1;
}

void http_stop(struct http_server *s)
{
    if (!s)
        return;
    if (s->source.fd >= 0)
        loop_remove(&s->d->loop, &s->source);
    if (s->mhd)
        MHD_stop_daemon(s->mhd); // closes the listener
    else
        close(s->listener);
    unlink(s->path);
    free(s);
}
