// SPDX-License-Identifier: MPL-2.0
// internal.h: the driver's own state, shared by its files. Threads: workers (packets), the monitor (netlink events,
// next hops, deferred calls) and the control thread that calls linux.h and the [control] calls of core/platform.h.
#ifndef NEREUS_PLATFORM_LINUX_INTERNAL_H
#define NEREUS_PLATFORM_LINUX_INTERNAL_H

#include <net/if.h>
#include <pthread.h>

#include "core/node.h"
#include "engine/atomic.h"
#include "platform/linux/buffers.h"
#include "platform/linux/epochs.h"
#include "platform/linux/linux.h"
#include "platform/linux/neighbours.h"
#include "platform/linux/netlink.h"
#include "platform/linux/tap.h"
#include "platform/linux/tap_home.h"
#include "platform/linux/underlay_gro.h"
#include "platform/linux/underlay_gso.h"
#include "platform/linux/zones.h"

// What a worker's epoll reports: no pointer, so that a source may go while the report is on its way.
enum source_kind { SOURCE_WAKE, SOURCE_UNDERLAY, SOURCE_PORT, SOURCE_EXTERNAL, SOURCE_SERVICE };

static inline uint64_t source_pack(enum source_kind kind, unsigned queue, uint32_t index)
{
    return (uint64_t)kind << 56 | (uint64_t)queue << 32 | index;
}

// An open device. Immutable once published, but for `dead`; freed by epoch.
struct device {
    enum source_kind kind;
    uint32_t index; // port or link number
    bool is_tap;
    int ifindex;
    unsigned n_fds; // tap queues; queue q is read by worker (index + q) % workers
    int fds[TAP_MAX_QUEUES];
    uint8_t dead; // atomic: a worker met the end of it
};

// A wish for a device, which may not be there yet. Control lock, but for `device`.
struct attachment {
    struct device *device; // RCU
    bool wanted;
    bool reported; // its absence
    uint8_t kind;  // enum blueprint_device_kind
    bool offloads;
    enum source_kind source;
    uint32_t index, queues, mtu;
    char ifname[IF_NAMESIZE];
    struct mac_addr mac;
    struct tap_home home; // of an own tap, as last noted
};

struct worker_counters { // written by their worker only
    uint64_t receive_bad, receive_no_buffer, transmit_refused, merged;
};

struct worker {
    struct linux_platform *l;
    unsigned index;
    pthread_t thread;
    int epoll, wake;
    int underlay;                         // packet socket, -1 = none
    struct packet *ready[PLATFORM_BATCH]; // empty large buffers
    struct gro gro;
    struct gso_writer gso;
    struct worker_counters counters;
} CACHE_ALIGNED;

struct linux_platform {
    struct platform platform;
    struct linux_config config;
    char underlay_ifname[IF_NAMESIZE];
    struct node *node;

    struct buffers buffers; // users: workers, then the monitor
    struct epochs epochs;
    struct zones zones;
    struct {
        pthread_mutex_t mutex;
    } CACHE_ALIGNED locks[ENV_LOCKS];

    pthread_mutex_t control;  // attachments, between control thread and monitor
    struct netlink netlink;   // under `control`
    struct attachment *ports; // [max_ports + 1]
    struct attachment external[LINUX_MAX_EXTERNAL];
    struct attachment service;
    struct mac_addr service_mac;
    int service_netns;
    bool own_service_netns;

    int underlay_ifindex; // 0: no underlay; the monitor's after creation
    bool underlay_lost;
    int underlay_guard;    // fallback: a deaf UDP socket that keeps the stack from answering; -1
    uint64_t underlay_mac; // atomic, 48 bits
    struct neighbours neighbours;

    pthread_t monitor;
    struct mnl_socket *monitor_socket;
    int monitor_wake;
    struct gso_writer *monitor_gso;
    bool monitor_runs, monitor_stop /* atomic */, devices_changed /* atomic */;

    struct worker *workers;
    bool running, stop /* atomic */;

    pthread_mutex_t event_lock;
    uint64_t event_second;
    unsigned event_count, event_suppressed;
};

// events.c
#define linux_event(l, kind, port, ...) linux_event_count(l, kind, port, 1, __VA_ARGS__)
void linux_event_count(struct linux_platform *l, const char *kind, uint32_t port, uint64_t count, const char *format,
                       ...) __attribute__((format(printf, 5, 6)));
uint64_t linux_now(void); // monotonic, ns
void linux_wake(int eventfd);

// devices.c
bool attachment_open(struct linux_platform *l, struct attachment *a, char *error, size_t error_size); // control lock
void attachment_close(struct linux_platform *l, struct attachment *a);                                // control lock
void attachments_check(struct linux_platform *l);              // monitor: devices that appeared or went
bool device_start(struct linux_platform *l, struct device *d); // adds it to the workers' epolls
unsigned device_deliver(struct linux_platform *l, unsigned worker, struct device *d, struct packet **packets,
                        unsigned n); // frees all
int linux_port_attach(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                      uint32_t mtu, char *error, size_t error_size);
void linux_port_detach(void *ctx, uint32_t port);

void linux_ipv6_sysctl(const char *ifname, const char *key, const char *value); // calling thread's namespace

// underlay.c
bool underlay_open(struct linux_platform *l, char *error, size_t error_size);
void underlay_close(struct linux_platform *l);
void underlay_link_changed(struct linux_platform *l); // monitor
unsigned underlay_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                           enum drop *why);
// Sends frames to a known next hop: how many were dealt with (freed), the first ones; *why for the rest.
unsigned underlay_send(struct linux_platform *l, unsigned worker, uint64_t mac, struct packet **packets, unsigned n,
                       enum drop *why);
unsigned underlay_receive(struct worker *w); // one batch; how many frames

// monitor.c
bool monitor_start(struct linux_platform *l);
void monitor_end(struct linux_platform *l);

// service.c
bool service_open(struct linux_platform *l, char *error, size_t error_size);

// workers.c
bool worker_open(struct linux_platform *l, unsigned index);
void worker_close(struct worker *w);
// Tops `ready` up; how many buffers stand there.
unsigned worker_ready(struct worker *w);

#endif
