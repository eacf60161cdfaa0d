// SPDX-License-Identifier: MPL-2.0
// underlay_gro.h: what software GRO does, for encapsulated frames. Splits UDP super-frames into their Geneve datagrams
// and merges consecutive TCP segments of one inner flow into one super-frame under one outer header, so that the
// core makes one lookup and the guest gets one frame. Order within a flow is kept.
//
// A merged frame is CSUM_VERIFIED: every outer and inner checksum in it was checked, and the checksum fields left in
// the frame are stale. gso_type and gso_size describe the inner frame; inner and outer lengths are those of the whole.
#ifndef NEREUS_PLATFORM_LINUX_UNDERLAY_GRO_H
#define NEREUS_PLATFORM_LINUX_UNDERLAY_GRO_H

#include "core/platform.h"
#include "platform/linux/buffers.h"
#include "platform/linux/vnet.h"

#define GRO_FLOWS 8

struct gro_flow { // a frame that may still grow
    struct packet *packet;
    struct vnet_headers at; // inner headers, from data
    uint32_t next_seq;
    uint16_t mss, segments;
    uint16_t ip_id; // of the last segment
    bool fixed_id;  // segments carry equal ids (DF)
};

struct gro {
    struct buffers *buffers;
    unsigned user; // of the buffers
    // Takes the packets, at most PLATFORM_BATCH.
    void (*deliver)(void *ctx, struct packet **packets, unsigned n);
    void *ctx;
    struct packet *out[PLATFORM_BATCH];
    unsigned n;
    struct gro_flow flows[GRO_FLOWS];
    unsigned n_flows, oldest;
    uint64_t merged, bad, no_buffer; // counters
};

// One frame as the kernel gave it, from data. Takes p.
void gro_receive(struct gro *g, struct packet *p, const struct virtio_net_hdr *h);
// End of a batch: everything is delivered.
void gro_flush(struct gro *g);

#endif
