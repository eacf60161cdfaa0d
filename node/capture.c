// SPDX-License-Identifier: MPL-2.0
#include "node/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/atomic.h"
#include "node/pcapng.h"

#define MAX_INTERFACES 1024

struct record {
    uint32_t size; // of the whole record, a multiple of 8; the rest of the ring when `skip`
    uint32_t captured, length, port;
    uint16_t point, reason;
    uint32_t skip;
    uint64_t time;
    uint8_t data[];
};

struct ring {                    // one producer, one consumer; head and tail run free
    CACHE_ALIGNED uint64_t head; // written by the worker
    uint64_t lost;               // written by the worker
    CACHE_ALIGNED uint64_t tail; // written by the control thread
    uint64_t lost_seen;
    CACHE_ALIGNED uint8_t data[CAPTURE_RING];
};

struct capture_watcher {
    struct capture_watcher *next;
    struct capture *capture;
    uint32_t port;
    unsigned points;
    struct capture_filter *filter; // NULL: all frames
    uint64_t left;                 // frames still to be written
    uint64_t lost;
    struct blob out;
    size_t taken;                        // of `out`
    uint32_t interfaces[MAX_INTERFACES]; // port of each interface block written
    unsigned n_interfaces;
};

struct capture {
    bool active;
    struct ring *rings[CAPTURE_WORKERS];
    struct capture_watcher *watchers;
    void (*name)(void *ctx, uint32_t port, char *out, size_t size);
    void *ctx;
};

struct capture *capture_create(void (*name)(void *ctx, uint32_t port, char *out, size_t size), void *ctx)
{
    struct capture *c = calloc(1, sizeof(*c));
    if (c) {
        c->name = name;
        c->ctx = ctx;
    }
    return c;
}

void capture_destroy(struct capture *c)
{
    if (!c)
        return;
    while (c->watchers)
        capture_unwatch(c, c->watchers);
    for (unsigned i = 0; i < CAPTURE_WORKERS; i++)
        free(c->rings[i]);
    free(c);
}

// ---- Worker's side

// Room for `size` bytes in one piece, NULL when the ring is full. *head moves past skipped bytes.
static struct record *ring_reserve(struct ring *r, uint32_t size, uint64_t *head)
{
    uint64_t at = r->head;
    uint32_t offset = (uint32_t)(at % CAPTURE_RING), to_end = CAPTURE_RING - offset;
    uint32_t need = size <= to_end ? size : to_end + size;
    if (at + need - load_acquire(&r->tail) > CAPTURE_RING)
        return NULL;
    if (size > to_end) {
        struct record skip = {.size = to_end, .skip = 1};
        memcpy(r->data + offset, &skip, MIN(to_end, sizeof(skip)));
        at += to_end;
        offset = 0;
    }
    *head = at + size;
    return (struct record *)(r->data + offset);
}

void capture_put(struct capture *c, unsigned worker, uint32_t port, unsigned point, enum drop reason,
                 const struct packet *p)
{
    struct ring *r = worker < CAPTURE_WORKERS && load_acquire(&c->active) ? load_acquire(&c->rings[worker]) : NULL;
    if (!r)
        return;
    uint32_t captured = MIN(MIN(p->head, p->len), CAPTURE_SNAP);
    uint32_t size = (uint32_t)(sizeof(struct record) + captured + 7) & ~7u;
    uint64_t head;
    struct record *record = ring_reserve(r, size, &head);
    if (!record) {
        counter_add(&r->lost, 1);
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *record = (struct record){size,
                              captured,
                              p->len,
                              port,
                              (uint16_t)point,
                              (uint16_t)reason,
                              0,
                              (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    memcpy(record->data, p->data, captured);
    store_release(&r->head, head);
}

// ---- Control thread's side

static uint32_t interface_of(const struct record *r)
{
    return r->point & (CAPTURE_TO_UNDERLAY | CAPTURE_FROM_UNDERLAY) ? 0 : r->port;
}

// Number of the port's interface block in this stream, written first if it is new.
static uint32_t interface_number(struct capture_watcher *w, uint32_t port)
{
    for (unsigned i = 0; i < w->n_interfaces; i++)
        if (w->interfaces[i] == port)
            return i;
    if (w->n_interfaces == MAX_INTERFACES)
        return MAX_INTERFACES - 1;
    char name[128] = "underlay";
    if (port)
        w->capture->name(w->capture->ctx, port, name, sizeof(name));
    pcapng_interface(&w->out, name, CAPTURE_SNAP);
    w->interfaces[w->n_interfaces] = port;
    return w->n_interfaces++;
}

static enum pcapng_direction direction_of(unsigned point)
{
    if (point & (CAPTURE_FROM_GUEST | CAPTURE_FROM_UNDERLAY))
        return PCAPNG_INBOUND;
    return point & (CAPTURE_TO_GUEST | CAPTURE_TO_UNDERLAY) ? PCAPNG_OUTBOUND : PCAPNG_UNKNOWN;
}

static void watcher_write(struct capture_watcher *w, const struct record *r)
{
    if (w->left == 0 || !(w->points & r->point) || (w->port && w->port != r->port))
        return;
    if (w->filter && !capture_filter_matches(w->filter, r->data, r->captured, r->length))
        return;
    if (w->out.len - w->taken > CAPTURE_BACKLOG) {
        w->lost++;
        return;
    }
    char comment[96];
    snprintf(comment, sizeof(comment), "drop: %s", drop_name(r->reason));
    struct pcapng_frame f = {
        .interface = interface_number(w, interface_of(r)),
        .time = r->time,
        .data = r->data,
        .captured = r->captured,
        .length = r->length,
        .direction = direction_of(r->point),
        .lost = w->lost,
        .comment = r->reason ? comment : NULL,
    };
    pcapng_frame(&w->out, &f);
    w->lost = 0;
    w->left--;
}

static void ring_skip(struct ring *r, const struct record *record)
{
    store_release(&r->tail, r->tail + record->size);
}

// The ring's oldest record, NULL when it is empty.
static const struct record *ring_first(struct ring *r)
{
    while (r && r->tail != load_acquire(&r->head)) {
        uint32_t offset = (uint32_t)(r->tail % CAPTURE_RING);
        const struct record *record = (const struct record *)(r->data + offset);
        if (CAPTURE_RING - offset >= sizeof(*record) && !record->skip)
            return record;
        store_release(&r->tail, r->tail + (CAPTURE_RING - offset));
    }
    return NULL;
}

void capture_drain(struct capture *c)
{
    for (unsigned budget = 65536; budget; budget--) { // workers may write as fast as this reads
        struct ring *oldest = NULL;
        const struct record *record = NULL;
        for (unsigned i = 0; i < CAPTURE_WORKERS; i++) {
            const struct record *r = ring_first(c->rings[i]);
            if (r && (!record || r->time < record->time)) {
                record = r;
                oldest = c->rings[i];
            }
        }
        if (!record)
            break;
        for (struct capture_watcher *w = c->watchers; w; w = w->next)
            watcher_write(w, record);
        ring_skip(oldest, record);
    }
    for (unsigned i = 0; i < CAPTURE_WORKERS; i++) {
        struct ring *r = c->rings[i];
        uint64_t lost = r ? load_relaxed(&r->lost) : 0;
        for (struct capture_watcher *w = r && lost != r->lost_seen ? c->watchers : NULL; w; w = w->next)
            w->lost += lost - r->lost_seen;
        if (r)
            r->lost_seen = lost;
    }
}

static bool make_rings(struct capture *c)
{
    for (unsigned i = 0; i < CAPTURE_WORKERS; i++) {
        if (c->rings[i])
            continue;
        struct ring *r = aligned_alloc(CACHE_LINE, sizeof(*r));
        if (!r)
            return false;
        r->head = r->tail = r->lost = r->lost_seen = 0;
        store_release(&c->rings[i], r);
    }
    return true;
}

struct capture_watcher *capture_watch(struct capture *c, uint32_t port, unsigned points, uint64_t count,
                                      const uint32_t *ports, unsigned n_ports)
{
    unsigned watchers = 0;
    for (struct capture_watcher *w = c->watchers; w; w = w->next)
        watchers++;
    struct capture_watcher *w = watchers < CAPTURE_WATCHERS && make_rings(c) ? calloc(1, sizeof(*w)) : NULL;
    if (!w)
        return NULL;
    capture_drain(c); // what former watchers left behind is not for this one
    w->capture = c;
    w->port = port;
    w->points = points;
    w->left = count;
    pcapng_section(&w->out, "nereusd");
    for (unsigned i = 0; i < n_ports; i++)
        interface_number(w, ports[i]);
    w->next = c->watchers;
    c->watchers = w;
    store_release(&c->active, true);
    return w;
}

void capture_set_filter(struct capture_watcher *w, struct capture_filter *filter)
{
    capture_filter_free(w->filter);
    w->filter = filter;
}

void capture_unwatch(struct capture *c, struct capture_watcher *w)
{
    struct capture_watcher **link = &c->watchers;
    while (*link && *link != w)
        link = &(*link)->next;
    if (*link)
        *link = w->next;
    blob_free(&w->out);
    capture_filter_free(w->filter);
    free(w);
    store_release(&c->active, c->watchers != NULL);
}

bool capture_wanted(const struct capture *c, uint32_t *port, unsigned *points)
{
    *points = 0;
    *port = c->watchers ? c->watchers->port : 0;
    for (const struct capture_watcher *w = c->watchers; w; w = w->next) {
        *points |= w->points;
        if (w->port != *port)
            *port = 0;
    }
    return c->watchers != NULL;
}

size_t capture_read(struct capture_watcher *w, char *out, size_t size)
{
    size_t n = MIN(size, w->out.len - w->taken);
    if (n)
        memcpy(out, w->out.s + w->taken, n);
    w->taken += n;
    if (w->taken == w->out.len) {
        w->out.len = w->taken = 0;
    } else if (w->taken > CAPTURE_BACKLOG / 4) { // a slow reader: give back what it has taken
        memmove(w->out.s, w->out.s + w->taken, w->out.len - w->taken);
        w->out.len -= w->taken;
        w->taken = 0;
    }
    return n;
}

bool capture_pending(const struct capture_watcher *w)
{
    return w->out.len > w->taken;
}

bool capture_done(const struct capture_watcher *w)
{
    return w->left == 0 || w->out.failed;
}
