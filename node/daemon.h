// SPDX-License-Identifier: MPL-2.0
// daemon.h: everything one nereusd holds. All of it belongs to the control thread, which is the main thread: it
// runs both HTTP servers' events and makes every [control] call of core/node.h. Workers belong to the driver.
//
// Documents are parsed on the control thread too: the largest accepted (16 MiB) keeps it for some tens of
// milliseconds, in which packets flow on and only other API calls wait.
#ifndef NEREUS_NODE_DAEMON_H
#define NEREUS_NODE_DAEMON_H

#include "api/types/config.h"
#include "core/node.h"
#include "node/capture.h"
#include "node/events.h"
#include "node/loop.h"
#include "node/store.h"

struct api_document;
struct http_server;
struct metadata_server;
struct event_watcher;
struct flow_writer;
struct linux_platform;
struct stream;

struct daemon {
    const struct nereusd_config *config;
    struct api_document *document; // what config points into
    struct node *node;
    struct linux_platform *platform;
    struct store store;
    struct capture *capture;
    struct loop_source capture_timer;
    struct stream *streams; // http_capture.c
    struct events *events;
    struct event_watcher *event_watchers; // http_events.c
    struct loop_source event_source, event_timer;
    struct flow_writer *flow_writer; // NULL: no flow log
    struct loop_source flow_timer;
    struct loop loop;
    struct http_server *http;
    struct metadata_server *metadata;
    uint64_t started; // monotonic, ns
    uint64_t adopted; // connections taken over from the process before
    bool stopping;
};

uint64_t daemon_now(void);  // monotonic, ns
uint64_t daemon_wall(void); // seconds since 1970

#endif
