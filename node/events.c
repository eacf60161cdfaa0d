// SPDX-License-Identifier: MPL-2.0
#include "node/events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct events {
    void (*name)(void *ctx, struct event *e);
    void *ctx;
    int fd;
    pthread_mutex_t lock; // of what waits
    struct event pending[EVENTS_PENDING];
    unsigned n_pending;
    uint64_t lost;
    // Control thread.
    struct event kept[EVENTS_KEPT]; // sequence s is at s % EVENTS_KEPT
    uint64_t last;                  // sequence; 0 = none yet
};

struct events *events_create(void (*name)(void *ctx, struct event *e), void *ctx)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->name = name;
    e->ctx = ctx;
    e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&e->lock, NULL);
    if (e->fd >= 0)
        return e;
    free(e);
    return NULL;
}

void events_destroy(struct events *e)
{
    if (!e)
        return;
    close(e->fd);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

int events_fd(const struct events *e)
{
    return e->fd;
}

static struct event make(const char *kind, uint32_t port, uint64_t count, const char *text)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct event new = {
        .time = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, .count = count, .index = port};
    snprintf(new.kind, sizeof(new.kind), "%s", kind);
    snprintf(new.text, sizeof(new.text), "%s", text);
    return new;
}

void events_put(struct events *e, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    struct event new = make(kind, port, count, text);
    uint64_t one = 1;
    pthread_mutex_lock(&e->lock);
    if (e->n_pending < EVENTS_PENDING)
        e->pending[e->n_pending++] = new;
    else
        e->lost++;
    pthread_mutex_unlock(&e->lock);
    ssize_t ignored = write(e->fd, &one, sizeof(one)); // a full counter wakes as well
    (void)ignored;
}

static void keep(struct events *e, struct event new)
{
    if (new.index)
        e->name(e->ctx, &new);
    new.sequence = ++e->last;
    e->kept[new.sequence % EVENTS_KEPT] = new;
}

void events_collect(struct events *e)
{
    static struct event taken[EVENTS_PENDING]; // the control thread is the only one here
    uint64_t ignored;
    ssize_t n_read = read(e->fd, &ignored, sizeof(ignored));
    (void)n_read;
    pthread_mutex_lock(&e->lock);
    unsigned n = e->n_pending;
    uint64_t lost = e->lost;
    for (unsigned i = 0; i < n; i++)
        taken[i] = e->pending[i];
    e->n_pending = 0;
    e->lost = 0;
    pthread_mutex_unlock(&e->lock);
    for (unsigned i = 0; i < n; i++)
        keep(e, taken[i]);
    if (lost)
        keep(e, make("events-lost", 0, lost, "more events at once than could be kept"));
}

const struct event *events_after(const struct events *e, uint64_t sequence)
{
    uint64_t oldest = e->last >= EVENTS_KEPT ? e->last - EVENTS_KEPT + 1 : 1;
    uint64_t next = sequence + 1 > oldest ? sequence + 1 : oldest;
    return sequence < e->last ? &e->kept[next % EVENTS_KEPT] : NULL;
}
