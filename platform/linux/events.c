// SPDX-License-Identifier: MPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "platform/linux/internal.h"

#define EVENTS_PER_SECOND 20
#define SECOND 1000000000ull

uint64_t linux_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

void linux_wake(int eventfd)
{
    uint64_t one = 1;
    ssize_t ignored = write(eventfd, &one, sizeof(one));
    (void)ignored; // a full counter wakes as well
}

static bool event_allowed(struct linux_platform *l, unsigned *suppressed)
{
    pthread_mutex_lock(&l->event_lock);
    uint64_t second = linux_now() / SECOND;
    *suppressed = 0;
    if (second != l->event_second) {
        *suppressed = l->event_suppressed;
        l->event_second = second;
        l->event_count = l->event_suppressed = 0;
    }
    bool allowed = l->event_count < EVENTS_PER_SECOND;
    l->event_count += allowed;
    l->event_suppressed += !allowed;
    pthread_mutex_unlock(&l->event_lock);
    return allowed;
}

void linux_event_count(struct linux_platform *l, const char *kind, uint32_t port, uint64_t count, const char *format,
                       ...)
{
    unsigned suppressed;
    if (!l->config.event || !event_allowed(l, &suppressed))
        return;
    char text[256];
    if (suppressed) {
        snprintf(text, sizeof(text), "%u events were left out", suppressed);
        l->config.event(l->config.ctx, "events-suppressed", 0, suppressed, text);
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    l->config.event(l->config.ctx, kind, port, count, text);
}
