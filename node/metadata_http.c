// SPDX-License-Identifier: MPL-2.0
#define _GNU_SOURCE // setns
#include "node/metadata_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/log.h"
#include "node/metadata.h"

#define IDLE_S 10
#define MAX_CLIENTS 1024
#define MAX_CLIENTS_PER_PORT 32
#define MAX_HEADERS 8192
#define NS 1000000000u

struct metadata_server {
    struct daemon *d;
    struct MHD_Daemon *mhd;
    struct loop_source source;
    struct metadata_secret secret;
};

struct reply {
    unsigned status;
    const char *content_type;
    struct blob body;
    char token_ttl[24]; // "" = none
};

static void refuse(struct reply *a, unsigned status, const char *why)
{
    blob_free(&a->body);
    a->status = status;
    a->content_type = "text/plain";
    blob_printf(&a->body, "%s\n", why);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

// ---- Answers

static const struct blueprint *asking_port(struct metadata_server *s, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || !info->client_addr || info->client_addr->sa_family != AF_INET6)
        return NULL;
    const struct sockaddr_in6 *peer = (const struct sockaddr_in6 *)info->client_addr;
    struct ip_addr address = ip_from_v6(&peer->sin6_addr); // IPv4 peers are v4-mapped, as everywhere here
    const struct blueprint *b = node_metadata_port(s->d->node, &address);
    return b && b->gateway.metadata.enabled ? b : NULL;
}

static void give_token(struct metadata_server *s, struct MHD_Connection *c, const struct blueprint *b, struct reply *a)
{
    const char *text = header(c, "X-aws-ec2-metadata-token-ttl-seconds");
    char token[METADATA_TOKEN_LEN + 1];
    char *end;
    unsigned long ttl = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    uint64_t nonce;
    if (ttl < 1 || ttl > METADATA_TOKEN_MAX_S || *end) {
        refuse(a, 400, "X-aws-ec2-metadata-token-ttl-seconds must be 1 to 21600");
        return;
    }
    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce)) {
        refuse(a, 503, "no random numbers");
        return;
    }
    metadata_token_make(&s->secret, &b->port, daemon_now() / NS + ttl, nonce, token);
    blob_puts(&a->body, token);
    snprintf(a->token_ttl, sizeof(a->token_ttl), "%lu", ttl);
}

static bool token_accepted(struct metadata_server *s, struct MHD_Connection *c, const struct blueprint *b)
{
    const char *token = header(c, "X-aws-ec2-metadata-token");
    if (!token)
        return !b->gateway.metadata.token_required;
    return metadata_token_good(&s->secret, &b->port, daemon_now() / NS, token);
}

static void answer(struct metadata_server *s, struct MHD_Connection *c, const char *method, const char *path,
                   struct reply *a)
{
    const struct blueprint *b = asking_port(s, c);
    *a = (struct reply){.status = 200, .content_type = "text/plain"};
    bool put = strcmp(method, "PUT") == 0, get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (!b)
        refuse(a, 403, "this address is no port's");
    else if (header(c, "X-Forwarded-For"))
        refuse(a, 403, "forwarded requests are refused");
    else if (put && strcmp(path, "/latest/api/token") == 0)
        give_token(s, c, b, a);
    else if (!get)
        refuse(a, 405, "only GET and HEAD");
    else if (!token_accepted(s, c, b))
        refuse(a, 401, "a session token is needed: PUT /latest/api/token");
    else if (!metadata_get(b, path, &a->body, &a->content_type))
        refuse(a, 404, "not found");
}

static enum MHD_Result send_reply(struct MHD_Connection *c, struct reply *a)
{
    if (a->body.failed) {
        blob_free(&a->body);
        return MHD_NO;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(a->body.len, a->body.s, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        blob_free(&a->body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_SERVER, "EC2ws"); // some clients look for it
    if (a->token_ttl[0])
        MHD_add_response_header(response, "X-aws-ec2-metadata-token-ttl-seconds", a->token_ttl);
    enum MHD_Result result = MHD_queue_response(c, a->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    static char seen;
    struct reply a;
    if (!*state) { // headers only; the body, if any, is still to come
        *state = &seen;
        return MHD_YES;
    }
    if (*size) {
        *size = 0;
        return MHD_YES;
    }
    answer(ctx, c, method, url, &a);
    return send_reply(c, &a);
}

static void on_log(void *ctx, const char *format, va_list args)
{
    char text[256];
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = 0;
    log_debug("metadata http", "detail=%s", log_quote(text).s);
}

// ---- The socket inside the namespace. A thread of its own enters it: the namespace is a property of threads.

struct listen_job {
    int netns, fd, error;
};

static void *listen_in_namespace(void *argument)
{
    struct listen_job *job = argument;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    int on = 1, off = 0;
    job->fd = -1;
    if (setns(job->netns, CLONE_NEWNET) == 0)
        job->fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (job->fd >= 0 && setsockopt(job->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
        setsockopt(job->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(job->fd, (struct sockaddr *)&any, sizeof(any)) == 0 && listen(job->fd, 256) == 0)
        return NULL;
    job->error = errno;
    if (job->fd >= 0)
        close(job->fd);
    job->fd = -1;
    return NULL;
}

static int open_listener(int netns, char *error, size_t size)
{
    struct listen_job job = {.netns = netns, .fd = -1};
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, listen_in_namespace, &job);
    if (!failed)
        pthread_join(thread, NULL);
    if (job.fd < 0)
        snprintf(error, size, "metadata service: %s", strerror(failed ? failed : job.error));
    return job.fd;
}

static void on_ready(void *ctx)
{
    struct metadata_server *s = ctx;
    MHD_run(s->mhd);
}

struct metadata_server *metadata_start(struct daemon *d, int netns, char *error, size_t size)
{
    struct metadata_server *s = calloc(1, sizeof(*s));
    int fd = s ? open_listener(netns, error, size) : -1;
    if (fd < 0) {
        free(s);
        return NULL;
    }
    s->d = d;
    s->source.fd = -1;
    if (getrandom(&s->secret, sizeof(s->secret), 0) == sizeof(s->secret))
        s->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s,
                                  MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
                                  MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_CONNECTION_LIMIT, MAX_CLIENTS,
                                  MHD_OPTION_PER_IP_CONNECTION_LIMIT, MAX_CLIENTS_PER_PORT,
                                  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_HEADERS, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    s->source = (struct loop_source){.fd = info ? info->epoll_fd : -1, .ready = on_ready, .ctx = s};
    if (info && loop_add(&d->loop, &s->source))
        return s;
    snprintf(error, size, "metadata service: the HTTP server does not start");
    if (!s->mhd)
        close(fd);
    metadata_stop(s);
    return NULL;
}

int metadata_run(struct metadata_server *s)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    MHD_run(s->mhd);
    return MHD_get_timeout(s->mhd, &timeout) == MHD_YES ? (int)MIN(timeout, 60000u) : -1;
}

void metadata_stop(struct metadata_server *s)
{
    if (!s)
        return;
    if (s->source.fd >= 0)
        loop_remove(&s->d->loop, &s->source);
    if (s->mhd)
        MHD_stop_daemon(s->mhd);
    free(s);
}
