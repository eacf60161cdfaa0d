// SPDX-License-Identifier: MPL-2.0
// Carries flow records from the dataplane's ring to their writer, ten times a second.
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "node/flow_drain.h"

#define BUDGET (4 * FLOW_LOG_RECORDS) // of one go: workers may write as fast as this reads

static uint64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void flow_drain(struct daemon *d)
{
    struct flow_record r;
    if (!d->flow_writer)
        return;
    uint64_t now = daemon_now(), wall = wall_ms();
    for (unsigned i = 0; i < BUDGET && node_flow_log_take(d->node, &r); i++) {
        uint64_t ago = now > r.time ? (now - r.time) / 1000000 : 0;
        flow_writer_add(d->flow_writer, &r, wall - ago, wall);
    }
    flow_writer_flush(d->flow_writer, wall);
}

static void on_timer(void *ctx)
{
    struct daemon *d = ctx;
    uint64_t ticks;
    if (read(d->flow_timer.fd, &ticks, sizeof(ticks)) > 0)
        flow_drain(d);
}

bool flow_drain_open(struct daemon *d, char *error, size_t size)
{
    const struct itimerspec often = {{0, FLOW_LOG_DRAIN_MS * 1000000}, {0, FLOW_LOG_DRAIN_MS * 1000000}};
    if (!d->config->has_flow_log)
        return true;
    d->flow_writer = flow_writer_open(&d->config->flow_log, error, size);
    d->flow_timer = (struct loop_source){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), on_timer, d};
    return d->flow_writer && d->flow_timer.fd >= 0 && timerfd_settime(d->flow_timer.fd, 0, &often, NULL) == 0 &&
           loop_add(&d->loop, &d->flow_timer);
}

void flow_drain_close(struct daemon *d)
{
    if (d->flow_writer)
        close(d->flow_timer.fd);
    flow_writer_close(d->flow_writer);
    d->flow_writer = NULL;
}
