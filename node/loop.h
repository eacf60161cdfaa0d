// SPDX-License-Identifier: MPL-2.0
// loop.h: waits on file descriptors with epoll, on one thread.
#ifndef NEREUS_NODE_LOOP_H
#define NEREUS_NODE_LOOP_H

#include <stdbool.h>

struct loop_source { // lives as long as it is in the loop
    int fd;
    void (*ready)(void *ctx);
    void *ctx;
};

struct loop {
    int epoll;
};

bool loop_open(struct loop *l);
void loop_close(struct loop *l);
bool loop_add(struct loop *l, struct loop_source *s);
void loop_remove(struct loop *l, struct loop_source *s);
// Waits once, at most timeout_ms (-1: forever), and calls what is ready.
void loop_wait(struct loop *l, int timeout_ms);

#endif
