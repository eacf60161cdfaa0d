// SPDX-License-Identifier: MPL-2.0
// capture.h: frames from the workers to whoever watches. Each worker writes into a ring of its own, without a lock; the
// control thread drains the rings and writes pcapng for each watcher. A ring or watcher that is full loses the newest
// frames and counts them (option epb_dropcount of the next frame).
//
// Memory is bounded: a ring per worker while anyone watches or ever did, and CAPTURE_BACKLOG per watcher.
#ifndef NEREUS_NODE_CAPTURE_H
#define NEREUS_NODE_CAPTURE_H

#include "core/node.h"
#include "node/blob.h"
#include "node/capture_filter.h"

#define CAPTURE_WORKERS 16
#define CAPTURE_RING (1u << 20)
#define CAPTURE_SNAP 9216 // bytes kept of a frame, and never more than its contiguous part
#define CAPTURE_BACKLOG (4u << 20)
#define CAPTURE_WATCHERS 8
#define CAPTURE_POINTS 31

struct capture;
struct capture_watcher;

// name: what to call a port (index > 0), for the interface blocks.
struct capture *capture_create(void (*name)(void *ctx, uint32_t port, char *out, size_t size), void *ctx);
void capture_destroy(struct capture *c);

// [worker] The platform's capture hook.
void capture_put(struct capture *c, unsigned worker, uint32_t port, unsigned point, enum drop reason,
                 const struct packet *p);

// [control] ports: indexes whose interface blocks come first, whether or not they send anything. port 0 = all.
// NULL: out of memory, or CAPTURE_WATCHERS are there already.
struct capture_watcher *capture_watch(struct capture *c, uint32_t port, unsigned points, uint64_t count,
                                      const uint32_t *ports, unsigned n_ports);
// Only frames that match, from now on; the watcher takes it over.
void capture_set_filter(struct capture_watcher *w, struct capture_filter *filter);
void capture_unwatch(struct capture *c, struct capture_watcher *w);
// What node_capture_set must be told for all watchers; false: nobody watches.
bool capture_wanted(const struct capture *c, uint32_t *port, unsigned *points);
// Moves frames from the rings to the watchers.
void capture_drain(struct capture *c);
// Takes up to `size` bytes of the watcher's pcapng. 0: nothing now.
size_t capture_read(struct capture_watcher *w, char *out, size_t size);
bool capture_pending(const struct capture_watcher *w);
bool capture_done(const struct capture_watcher *w); // `count` frames were written

#endif
