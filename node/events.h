// SPDX-License-Identifier: MPL-2.0
// events.h: the last events, for whoever asks. Any thread puts; the control thread names ports and hands them on.
#ifndef NEREUS_NODE_EVENTS_H
#define NEREUS_NODE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_KEPT 1000u
#define EVENTS_PENDING 256u // between two rounds of the control thread

struct event {
    uint64_t sequence; // from 1, without gaps
    uint64_t time;     // wall, ms
    uint64_t count;
    uint32_t index; // of the port; 0: the node's
    char port[40];  // UUID; "" for the node, or a port that was gone already
    char name[64];
    char kind[32];
    char text[160];
};

struct events;

// name: fills in port and name of event->index; on the control thread.
struct events *events_create(void (*name)(void *ctx, struct event *e), void *ctx);
void events_destroy(struct events *e);
int events_fd(const struct events *e); // readable: events wait to be collected

void events_put(struct events *e, const char *kind, uint32_t port, uint64_t count, const char *text); // any thread

// [control]
void events_collect(struct events *e);
const struct event *events_after(const struct events *e,
                                 uint64_t sequence); // the oldest kept that is newer; NULL: none

#endif
