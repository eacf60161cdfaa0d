// SPDX-License-Identifier: MPL-2.0
// linux.h: the user-space driver. It implements core/platform.h over AF_PACKET, tap and netlink and feeds
// core/node.h from its worker threads. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or CAP_SYS_ADMIN).
//
// Order: linux_create, node_create(linux_platform(l), ...), linux_start(l, node), ... linux_stop,
// node_destroy, linux_destroy. Between create and start, platform calls marked [control] work, and nothing is received.
//
// The driver owns every interface it is told of: a filter keeps the host's stack away from ports and external links,
// and it stays when the process ends, so that a guest never meets the host instead. On the underlay's interface it
// takes Geneve to the node's own address and leaves all other traffic to the host.
#ifndef NEREUS_PLATFORM_LINUX_H
#define NEREUS_PLATFORM_LINUX_H

#include "core/platform.h"

#define LINUX_MAX_WORKERS 16
#define LINUX_MAX_EXTERNAL 16

struct node;
struct linux_platform;

struct linux_config {
    const char *run_dir;                      // zones that outlive the process; made if absent. One process at a time
    unsigned workers;                         // 1..LINUX_MAX_WORKERS
    uint32_t max_ports;                       // port numbers are 1..max_ports
    const char *underlay_ifname;              // NULL: no underlay
    struct ip_addr underlay;                  // this node's IPv6 address
    uint32_t underlay_mtu;                    // IP MTU
    const char *external[LINUX_MAX_EXTERNAL]; // interface of each external link
    uint32_t n_external;

    bool service;      // make the metadata service's tap
    int service_netns; // in this network namespace; -1: the driver makes one (linux_service_netns)

    // Both may be NULL. event: any thread, rate limited, `text` is one line; it must not call back into the driver.
    // capture: as in core/platform.h.
    void *ctx;
    void (*event)(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text);
    void (*capture)(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason,
                    const struct packet *p);
};

// NULL with a sentence in `error`.
struct linux_platform *linux_create(const struct linux_config *config, char *error, size_t error_size);
void linux_destroy(struct linux_platform *l);
const struct platform *linux_platform(struct linux_platform *l);

// Starts and ends the workers. No packet enters the node before start or after stop.
bool linux_start(struct linux_platform *l, struct node *n, char *error, size_t error_size);
void linux_stop(struct linux_platform *l);

// Is the port's device there at this moment? A device that is missing is attached when it appears.
bool linux_port_ready(struct linux_platform *l, uint32_t port);

// The service tap's address, and its namespace (for setns by the HTTP server's thread); -1 when there is none.
struct mac_addr linux_service_mac(const struct linux_platform *l);
int linux_service_netns(const struct linux_platform *l);

// Address and MTU of an interface, for struct node_external_link.
bool linux_interface(const char *ifname, struct mac_addr *mac, uint32_t *mtu);

// Packets that the driver lost by itself, summed over workers: the core never saw them, or had already counted
// them as sent (those that waited for a next hop).
struct linux_counters {
    uint64_t receive_bad; // impossible offload metadata, or a frame larger than 64 KB
    uint64_t receive_no_buffer;
    uint64_t transmit_refused; // the kernel called a single frame invalid
    uint64_t next_hop_pending; // oldest of a full wait queue
    uint64_t next_hop_failed;  // waited for a next hop that turned out to be unreachable
    uint64_t merged;           // segments merged into super-frames on receive
};
void linux_counters(const struct linux_platform *l, struct linux_counters *out);

#endif
