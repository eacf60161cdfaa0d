// SPDX-License-Identifier: MPL-2.0
#include "node/flow_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/json/text.h"
#include "node/blob.h"
#include "node/ipfix.h"
#include "node/log.h"

struct flow_writer {
    const struct config_flow_log *config;
    int fd; // file or socket; -1: could not be opened again after a rotation
    uint64_t size, written, failed;
    unsigned waiting; // records in `lines`
    struct blob lines;
    struct ipfix ipfix;
    bool failing; // told already
};

// ---- The file

static bool open_file(struct flow_writer *w)
{
    struct stat s;
    w->fd = open(w->config->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (w->fd < 0 || fstat(w->fd, &s) < 0)
        return false;
    w->size = (uint64_t)s.st_size;
    return true;
}

// path -> path.1 -> path.2 ...; the oldest goes.
static void rotate(struct flow_writer *w)
{
    char from[300], to[300];
    close(w->fd);
    for (uint32_t i = w->config->files; i > 0; i--) {
        snprintf(to, sizeof(to), "%s.%u", w->config->path, i);
        snprintf(from, sizeof(from), i > 1 ? "%s.%u" : "%s", w->config->path, i - 1);
        if (rename(from, to) < 0 && errno != ENOENT)
            log_error("flow log cannot be rotated", "path=%s detail=%s", from, log_quote(strerror(errno)).s);
    }
    open_file(w);
}

static void fail(struct flow_writer *w, uint64_t records)
{
    w->failed += records;
    if (!w->failing)
        log_error("flow log records are lost", "detail=%s", log_quote(strerror(errno)).s);
    w->failing = true;
}

static void write_lines(struct flow_writer *w)
{
    if (w->lines.len == 0 && !w->lines.failed)
        return;
    if (w->fd < 0)
        open_file(w);
    ssize_t n = w->lines.failed ? -1 : write(w->fd, w->lines.s, w->lines.len);
    if (n == (ssize_t)w->lines.len) {
        w->written += w->waiting;
        w->failing = false;
    } else {
        fail(w, w->waiting);
    }
    w->size += n > 0 ? (uint64_t)n : 0;
    w->waiting = 0;
    blob_free(&w->lines);
    if (w->fd >= 0 && w->size >= w->config->max_bytes)
        rotate(w);
}

static void add_time(struct blob *out, uint64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm t;
    char text[32];
    gmtime_r(&s, &t);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &t);
    blob_printf(out, "{\"time\":\"%s.%03uZ\"", text, (unsigned)(ms % 1000));
}

static void add_text(struct blob *out, const char *name, const char *value)
{
    blob_printf(out, ",\"%s\":\"", name);
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if (*c == '"' || *c == '\\')
            blob_add(out, "\\", 1);
        if (*c < 0x20)
            blob_printf(out, "\\u%04x", *c);
        else
            blob_add(out, c, 1);
    }
    blob_add(out, "\"", 1);
}

static void add_tuple(struct blob *out, const char *name, const struct flow_key *k)
{
    char src[IP_TEXT], dst[IP_TEXT];
    ip_to_text(&k->src, src);
    ip_to_text(&k->dst, dst);
    blob_printf(out, ",\"%s\":{\"src\":\"%s\",\"sport\":%u,\"dst\":\"%s\",\"dport\":%u}", name, src,
                load_be16(&k->sport), dst, load_be16(&k->dport));
}

static void add_pair(struct blob *out, const char *name, const uint64_t v[2])
{
    blob_printf(out, ",\"%s\":{\"out\":%" PRIu64 ",\"in\":%" PRIu64 "}", name, v[FLOW_OUT], v[FLOW_IN]);
}

static void add_line(struct blob *out, const struct flow_record *r, uint64_t at_ms)
{
    static const char *const events[] = {"start", "end", "denied"}, *const actions[] = {"allow", "deny", "reject"};
    char port[UUID_TEXT], protocol[PROTOCOL_TEXT];
    uuid_to_text(&r->port, port);
    protocol_to_text(r->key[r->opener & 1].protocol, protocol);
    add_time(out, at_ms);
    blob_printf(out, ",\"event\":\"%s\",\"port\":\"%s\",\"vni\":%u,\"direction\":\"%s\",\"protocol\":\"%s\"",
                events[r->kind % 3], port, r->vni, r->opener == FLOW_OUT ? "out" : "in", protocol);
    if (r->kind != FLOW_RECORD_DENIED)
        blob_printf(out, ",\"id\":%u", r->connection);
    if (r->has[FLOW_OUT])
        add_tuple(out, "out", &r->key[FLOW_OUT]);
    if (r->has[FLOW_IN])
        add_tuple(out, "in", &r->key[FLOW_IN]);
    add_text(out, "rule", r->rule);
    add_text(out, "layer", r->layer);
    add_text(out, "action", actions[r->action % 3]);
    add_pair(out, "packets", r->packets);
    add_pair(out, "bytes", r->bytes);
    if (r->kind == FLOW_RECORD_END)
        blob_printf(out, ",\"age_ms\":%u,\"reason\":\"%s\"", r->age_ms, conn_end_name(r->why));
    if (r->kind == FLOW_RECORD_DENIED)
        blob_printf(out, ",\"reason\":\"%s\"", drop_name(r->drop));
    blob_puts(out, "}\n");
}

// ---- The collector

static void send_message(void *ctx, const void *message, size_t len)
{
    struct flow_writer *w = ctx;
    if (send(w->fd, message, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len) {
        w->written += w->ipfix.records;
        w->failing = false;
    } else {
        fail(w, w->ipfix.records);
    }
}

static bool open_collector(struct flow_writer *w)
{
    const struct config_collector *c = &w->config->collector;
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(c->port)};
    struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(c->port)};
    bool v4 = ip_is_v4(&c->address);
    memcpy(&to6.sin6_addr, c->address.b, 16);
    memcpy(&to4.sin_addr, c->address.b + 12, 4);
    ipfix_init(&w->ipfix, send_message, w);
    w->fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0)
        return false;
    return v4 ? connect(w->fd, (struct sockaddr *)&to4, sizeof(to4)) == 0
              : connect(w->fd, (struct sockaddr *)&to6, sizeof(to6)) == 0;
}

// ---- Both

static bool is_file(const struct flow_writer *w)
{
    return w->config->format == CONFIG_FLOW_LOG_JSON;
}

struct flow_writer *flow_writer_open(const struct config_flow_log *config, char *error, size_t size)
{
    struct flow_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->config = config;
    w->fd = -1;
    if (is_file(w) ? open_file(w) : open_collector(w))
        return w;
    snprintf(error, size, "flow log %s: %s", is_file(w) ? config->path : "collector", strerror(errno));
    flow_writer_close(w);
    return NULL;
}

void flow_writer_close(struct flow_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    blob_free(&w->lines);
    free(w);
}

void flow_writer_add(struct flow_writer *w, const struct flow_record *r, uint64_t at_ms, uint64_t now_ms)
{
    if (!is_file(w)) {
        ipfix_add(&w->ipfix, r, at_ms, now_ms);
        return;
    }
    add_line(&w->lines, r, at_ms);
    w->waiting++;
    if (w->lines.len >= 65536)
        write_lines(w);
}

void flow_writer_flush(struct flow_writer *w, uint64_t now_ms)
{
    if (is_file(w))
        write_lines(w);
    else
        ipfix_flush(&w->ipfix, now_ms);
}

uint64_t flow_writer_written(const struct flow_writer *w)
{
    return w->written;
}

uint64_t flow_writer_failed(const struct flow_writer *w)
{
    return w->failed;
}
