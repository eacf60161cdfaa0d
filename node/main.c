// SPDX-License-Identifier: MPL-2.0
// nereusd: brings the parts up in order, waits for events, takes them down.
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "api/json/text.h"
#include "node/config.h"
#include "node/documents.h"
#include "node/flow_drain.h"
#include "node/http.h"
#include "node/log.h"
#include "node/metadata_http.h"
#include "node/node_sum.h"
#include "node/notify.h"
#include "node/stream.h"
#include "node/view.h"
#include "platform/linux/linux.h"

#define EXIT_CONFIG 78 // EX_CONFIG: a restart would not help

uint64_t daemon_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t daemon_wall(void)
{
    return (uint64_t)time(NULL);
}

// ---- What the driver tells

static void on_event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    struct daemon *d = ctx;
    log_info("event", "kind=%s port=%u count=%" PRIu64 " detail=%s", kind, port, count, log_quote(text).s);
    events_put(d->events, kind, port, count, text);
}

static void on_capture(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason,
                       const struct packet *p)
{
    struct daemon *d = ctx;
    capture_put(d->capture, worker, port, point, reason, p);
}

// ---- Start

static bool start_platform(struct daemon *d, char *error, size_t size)
{
    const struct nereusd_config *c = d->config;
    struct linux_config config = {
        .run_dir = c->run_dir,
        .workers = c->workers,
        .max_ports = c->limits.ports,
        .underlay_ifname = c->underlay.ifname,
        .underlay = c->underlay.address,
        .underlay_mtu = c->underlay.mtu,
        .n_external = c->n_external,
        .service = c->metadata.enabled,
        .service_netns = -1,
        .ctx = d,
        .event = on_event,
        .capture = on_capture,
    };
    if (c->n_external > LINUX_MAX_EXTERNAL) {
        snprintf(error, size, "more than %d external links", LINUX_MAX_EXTERNAL);
        return false;
    }
    for (uint32_t i = 0; i < c->n_external; i++)
        config.external[i] = c->external[i].ifname;
    d->platform = linux_create(&config, error, size);
    return d->platform != NULL;
}

static bool start_node(struct daemon *d, char *error, size_t size)
{
    const struct nereusd_config *c = d->config;
    struct node_external_link links[LINUX_MAX_EXTERNAL] = {0};
    struct node_config config;
    config_node(c, links, &config);
    for (uint32_t i = 0; i < c->n_external; i++) {
        if (!linux_interface(c->external[i].ifname, &links[i].mac, &links[i].mtu)) {
            snprintf(error, size, "external link %s: %s", c->external[i].ifname, strerror(errno));
            return false;
        }
    }
    if (c->metadata.enabled)
        config.service_mac = linux_service_mac(d->platform);
    d->node = node_create(linux_platform(d->platform), &config, daemon_now());
    if (!d->node)
        snprintf(error, size, "not enough memory for the tables: lower limits, or too many external links");
    return d->node != NULL;
}

static bool start_servers(struct daemon *d, char *error, size_t size)
{
    int netns = d->config->metadata.enabled ? linux_service_netns(d->platform) : -1;
    if (netns >= 0 && !(d->metadata = metadata_start(d, netns, error, size)))
        return false;
    if (!linux_start(d->platform, d->node, error, size))
        return false;
    d->http = http_start(d, error, size);
    return d->http != NULL;
}

// Everything that was accepted is in force before a packet flows or a question is answered.
static bool start(struct daemon *d, char *error, size_t size)
{
    d->started = daemon_now();
    if (!store_open(&d->store, d->config->state_dir, error, size))
        return false;
    d->capture = capture_create(view_port_name, d);
    if (!d->capture || !loop_open(&d->loop) || !streams_open(d) || !events_open(d)) {
        snprintf(error, size, "%s", strerror(errno));
        return false;
    }
    if (!start_platform(d, error, size) || !start_node(d, error, size))
        return false;
    if (!flow_drain_open(d, error, size))
        return false;
    documents_restore(d);
    d->adopted = node_sum(d->node).connections;
    return start_servers(d, error, size);
}

static void stop(struct daemon *d)
{
    http_stop(d->http);
    metadata_stop(d->metadata);
    if (d->node && d->platform)
        linux_stop(d->platform);
    if (d->node)
        flow_drain(d);
    flow_drain_close(d);
    node_destroy(d->node);
    if (d->platform)
        linux_destroy(d->platform);
    if (d->capture_timer.fd > 0)
        close(d->capture_timer.fd);
    capture_destroy(d->capture);
    events_close(d);
    store_close(&d->store);
    loop_close(&d->loop);
}

// ---- Signals

struct signals {
    struct loop_source source;
    struct daemon *d;
    const struct options *options;
};

// SIGHUP: the file is checked and compared; what it says comes into force with the next start.
static void reload(struct signals *s)
{
    struct nereusd_config config;
    struct api_document *document;
    char error[512], state[64];
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, daemon_now() / 1000);
    notify_send(state);
    if (!config_load(s->options, &config, &document, error, sizeof(error)))
        log_error("configuration refused", "detail=%s", log_quote(error).s);
    else if (document->text_len != s->d->document->text_len ||
             memcmp(document->text, s->d->document->text, document->text_len) != 0)
        log_warn("configuration changed: restart nereusd to apply it", "path=%s", s->options->config);
    else
        log_info("configuration unchanged", "path=%s", s->options->config);
    api_document_free(document);
    notify_send("READY=1");
}

static void on_signal(void *ctx)
{
    struct signals *s = ctx;
    struct signalfd_siginfo info;
    if (read(s->source.fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP)
        reload(s);
    else
        s->d->stopping = true;
}

static bool open_signals(struct signals *s)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) // before any thread is made: all inherit it
        return false;
    s->source = (struct loop_source){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), on_signal, s};
    return s->source.fd >= 0;
}

// ---- Run

static int shorter(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : MIN(a, b);
}

static void run(struct daemon *d)
{
    while (!d->stopping) {
        int timeout = http_run(d->http);
        if (d->metadata)
            timeout = shorter(timeout, metadata_run(d->metadata));
        loop_wait(&d->loop, timeout);
    }
    streams_end(d);
    events_end(d);
    http_run(d->http); // lets streams send their end
}

static int serve(struct daemon *d, struct signals *signals)
{
    char error[512] = "", address[IP_TEXT];
    ip_to_text(&d->config->underlay.address, address);
    bool ok = start(d, error, sizeof(error)) && loop_add(&d->loop, &signals->source);
    if (!ok) {
        log_error("cannot start", "detail=%s", log_quote(error).s);
        stop(d);
        return 1;
    }
    log_info("ready", "version=" NEREUS_VERSION " node=%s underlay=%s socket=%s ports=%zu adopted=%" PRIu64,
             d->config->node, address, d->config->socket, d->store.docs[STORE_BLUEPRINTS].n, d->adopted);
    notify_send("READY=1\nSTATUS=forwarding");
    run(d);
    notify_send("STOPPING=1");
    log_info("stopping", "node=%s", d->config->node);
    stop(d);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct nereusd_config config;
    struct daemon d = {.config = &config, .loop.epoll = -1, .capture_timer.fd = -1};
    struct signals signals = {.d = &d, .options = &options};
    char error[512];
    if (!options_parse(&options, argc, argv, error, sizeof(error))) {
        fprintf(stderr, "nereusd: %s\n%s", error, options_usage);
        return 64;
    }
    if (options.help || options.version) {
        fputs(options.help ? options_usage : "nereusd " NEREUS_VERSION "\n", stdout);
        return 0;
    }
    log_set_level(options.log_level);
    if (!config_load(&options, &config, &d.document, error, sizeof(error))) {
        fprintf(stderr, "nereusd: %s\n", error);
        return EXIT_CONFIG;
    }
    int status = options.check ? 0 : open_signals(&signals) ? serve(&d, &signals) : 1;
    api_document_free(d.document);
    return status;
}
