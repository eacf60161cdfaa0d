// SPDX-License-Identifier: MPL-2.0
// platform.h: the only door between a node's dataplane (core) and an operating system.
//
// Packets: the driver allocates every struct packet and lends it to the core with a receive call
// (core/node.h: node_receive_*). From then on the core owns it and ends its life exactly once: with
// port_deliver, underlay_transmit, external_transmit or service_deliver (whatever they return), or
// packet_free. Batches hold at most PLATFORM_BATCH packets.
//
// Threads: `worker` is the caller's worker number; calls for one worker never overlap. Calls marked
// [control] come from the control thread only. No call blocks, except [control] ones, shortly.
#ifndef NEREUS_CORE_PLATFORM_H
#define NEREUS_CORE_PLATFORM_H

#include "api/types/blueprint.h"
#include "engine/drop.h"
#include "engine/env.h"
#include "engine/packet.h"

#define PLATFORM_BATCH 32

struct platform {
    struct env env;
    void *ctx;

    // Ports. [control] attach opens the device that the blueprint names (mac, mtu for a device we make);
    // 0, or -1 with a message. It may be called again with the same device: no effect.
    int (*port_attach)(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                       uint32_t mtu, char *error, size_t error_size);
    void (*port_detach)(void *ctx, uint32_t port);
    // Gives frames to the guest. Returns how many the device took, always the first ones; the rest are freed by the
    // driver and counted by the core (DROP_PORT_FULL, or DROP_PORT_GONE when there is no device).
    unsigned (*port_deliver)(void *ctx, unsigned worker, uint32_t port, struct packet **packets, unsigned n);

    // Underlay. A tunnel is a remote node: [control] open tells the driver the address behind a tunnel number,
    // so that it can look up and keep fresh the next hop; close forgets it.
    void (*tunnel_open)(void *ctx, uint32_t tunnel, const struct ip_addr *node);
    void (*tunnel_close)(void *ctx, uint32_t tunnel);
    // Sends encapsulated frames (encap_len bytes of outer headers are in place; outer Ethernet addresses and the outer
    // UDP checksum are zero, for the driver to fill; a super-frame is split where the wire needs it). Returns how many
    // were taken, the first ones; for the rest the driver frees them and tells why in *why.
    unsigned (*underlay_transmit)(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                                  enum drop *why);

    // External links of an edge: complete Ethernet frames, addresses included (core/external.c resolves next hops).
    unsigned (*external_transmit)(void *ctx, unsigned worker, uint32_t link, struct packet **packets, unsigned n);

    // The metadata service's link (a tap in a network namespace of nereusd's own): IP frames.
    unsigned (*service_deliver)(void *ctx, unsigned worker, struct packet **packets, unsigned n);

    // Packets. alloc: a buffer with full headroom and room for `len` bytes (len <= 2048), NULL when there is none.
    struct packet *(*packet_alloc)(void *ctx, unsigned worker, uint32_t len);
    void (*packet_free)(void *ctx, unsigned worker, struct packet *p);
    // A copy of a whole packet, NULL when there is none. For capture and replication only.
    struct packet *(*packet_clone)(void *ctx, unsigned worker, const struct packet *p);

    uint64_t (*random)(void *ctx); // unpredictable; slow path
    // Something an operator should hear about. `count`: how often since the last event of this kind and port, which is
    // at least ten seconds ago. `kind` lives for ever, `text` is one line.
    void (*event)(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text);
    // A frame for whoever captures: called only while node_capture_set said so. Must copy what it needs.
    void (*capture)(void *ctx, unsigned worker, uint32_t port, unsigned point, enum drop reason,
                    const struct packet *p);
};

#endif
