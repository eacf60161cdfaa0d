// SPDX-License-Identifier: MPL-2.0
// workers.c: packet threads. Each waits on its own epoll, reads at most one batch from each source in turn, and calls
// the node's timers. Nothing spins: an idle worker sleeps until the next frame or timer.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "platform/linux/internal.h"
#include "platform/linux/packet_socket.h"

#define EVENTS 64
#define TICK_AT_LEAST 250000000ull // ns
#define MILLISECOND 1000000ull

unsigned worker_ready(struct worker *w)
{
    for (unsigned i = 0; i < PLATFORM_BATCH; i++) {
        if (!w->ready[i])
            w->ready[i] = buffers_alloc(&w->l->buffers, w->index, BUFFER_CLASS_LARGE);
        if (!w->ready[i]) {
            counter_add(&w->counters.receive_no_buffer, 1);
            return i;
        }
    }
    return PLATFORM_BATCH;
}

static void to_node(struct worker *w, const struct device *d, struct packet **packets, unsigned n)
{
    struct node *node = w->l->node;
    if (n == 0)
        return;
    if (d->kind == SOURCE_PORT)
        node_receive_guest(node, w->index, d->index, packets, n, linux_now());
    else if (d->kind == SOURCE_EXTERNAL)
        node_receive_external(node, w->index, d->index, packets, n, linux_now());
    else
        node_receive_service(node, w->index, packets, n, linux_now());
}

// Moves the first n of `ready` out; the empty places are filled with the buffers used last.
static void take_ready(struct worker *w, struct packet **out, unsigned n)
{
    memcpy(out, w->ready, sizeof(*out) * n);
    memset(w->ready, 0, sizeof(*w->ready) * n);
}

static void device_is_dead(struct worker *w, struct device *d, int fd)
{
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL); // or it would be reported for ever
    store_relaxed(&d->dead, 1);
    __atomic_store_n(&w->l->devices_changed, true, __ATOMIC_RELEASE);
    linux_wake(w->l->monitor_wake);
}

static void receive_tap(struct worker *w, struct device *d, int fd)
{
    struct packet *batch[PLATFORM_BATCH];
    unsigned room = worker_ready(w), n = 0, bad = 0;
    while (n < room) {
        struct packet *p = w->ready[n];
        int rc = tap_receive(fd, p, &bad);
        if (rc < 0 && errno == EBADFD)
            device_is_dead(w, d, fd);
        if (rc <= 0 || bad)
            break;
        n++;
    }
    counter_add(&w->counters.receive_bad, bad);
    take_ready(w, batch, n);
    to_node(w, d, batch, n);
}

static void receive_packet_socket(struct worker *w, struct device *d, int fd)
{
    struct packet *batch[PLATFORM_BATCH];
    unsigned bad = 0;
    int n = packet_socket_receive(fd, w->ready, worker_ready(w), &bad);
    counter_add(&w->counters.receive_bad, bad);
    if (n <= 0)
        return; // ENETDOWN is told once; the monitor hears of a device that went
    take_ready(w, batch, (unsigned)n);
    to_node(w, d, batch, (unsigned)n);
}

static struct device *device_of(struct linux_platform *l, enum source_kind kind, uint32_t index)
{
    switch (kind) {
    case SOURCE_PORT:
        return load_acquire(&l->ports[index].device);
    case SOURCE_EXTERNAL:
        return load_acquire(&l->external[index].device);
    case SOURCE_SERVICE:
        return load_acquire(&l->service.device);
    default:
        return NULL;
    }
}

static void serve(struct worker *w, uint64_t source)
{
    enum source_kind kind = (enum source_kind)(source >> 56);
    unsigned queue = source >> 32 & 0xff;
    if (kind == SOURCE_UNDERLAY) {
        underlay_receive(w);
        return;
    }
    if (kind == SOURCE_WAKE) {
        uint64_t ignored;
        ssize_t rc = read(w->wake, &ignored, sizeof(ignored));
        (void)rc;
        return;
    }
    struct device *d = device_of(w->l, kind, (uint32_t)source);
    if (!d || queue >= d->n_fds || load_relaxed(&d->dead))
        return; // it went while the report was on its way
    if (d->is_tap)
        receive_tap(w, d, d->fds[queue]);
    else
        receive_packet_socket(w, d, d->fds[queue]);
}

static void deliver_underlay(void *ctx, struct packet **packets, unsigned n)
{
    struct worker *w = ctx;
    node_receive_underlay(w->l->node, w->index, packets, n, linux_now());
}

// Milliseconds until `at`, rounded up: timers are late, never early.
static int timeout_until(uint64_t at, uint64_t now)
{
    return at <= now ? 0 : (int)((at - now + MILLISECOND - 1) / MILLISECOND);
}

static void *worker_run(void *arg)
{
    struct worker *w = arg;
    struct linux_platform *l = w->l;
    struct epoll_event events[EVENTS];
    uint64_t next_tick = 0;
    while (!__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE)) {
        uint64_t now = linux_now();
        epochs_online(&l->epochs, w->index);
        if (now >= next_tick) {
            next_tick = node_tick(l->node, w->index, now, (uint64_t)time(NULL));
            next_tick = MIN(next_tick, now + TICK_AT_LEAST);
        }
        epochs_offline(&l->epochs, w->index);
        int n = epoll_wait(w->epoll, events, EVENTS, timeout_until(next_tick, now));
        epochs_online(&l->epochs, w->index);
        for (int i = 0; i < n; i++)
            serve(w, events[i].data.u64);
        epochs_offline(&l->epochs, w->index);
    }
    return NULL;
}

bool worker_open(struct linux_platform *l, unsigned index)
{
    struct worker *w = &l->workers[index];
    w->l = l;
    w->index = index;
    w->underlay = -1;
    w->gro = (struct gro){.buffers = &l->buffers, .user = index, .deliver = deliver_underlay, .ctx = w};
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = source_pack(SOURCE_WAKE, 0, 0)};
    return w->epoll >= 0 && w->wake >= 0 && epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &e) == 0;
}

void worker_close(struct worker *w)
{
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->wake >= 0)
        close(w->wake);
}

static void stop_workers(struct linux_platform *l, unsigned n)
{
    __atomic_store_n(&l->stop, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < n; i++)
        linux_wake(l->workers[i].wake);
    for (unsigned i = 0; i < n; i++)
        pthread_join(l->workers[i].thread, NULL);
}

bool linux_start(struct linux_platform *l, struct node *n, char *error, size_t error_size)
{
    if (l->running)
        return true;
    l->node = n;
    l->stop = false;
    for (unsigned i = 0; i < l->config.workers; i++) {
        int rc = pthread_create(&l->workers[i].thread, NULL, worker_run, &l->workers[i]);
        if (rc == 0) {
            char name[16];
            snprintf(name, sizeof(name), "worker-%u", i & 0xff);
            pthread_setname_np(l->workers[i].thread, name);
            continue;
        }
        snprintf(error, error_size, "worker thread: %s", strerror(rc));
        stop_workers(l, i);
        return false;
    }
    l->running = true;
    return true;
}

void linux_stop(struct linux_platform *l)
{
    if (!l->running)
        return;
    stop_workers(l, l->config.workers);
    while (!epochs_run(&l->epochs)) // what waits for workers has nobody left to wait for; the node may go now
        ;
    l->running = false;
}
