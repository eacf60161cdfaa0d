// SPDX-License-Identifier: MPL-2.0
// underlay_gso.h: sends a guest's super-frame as few writes. One write is a UDP super-frame (virtio type UDP_L4):
// outer Ethernet, IPv6 and UDP once, then datagrams of equal size (the last may be shorter), each with its own Geneve
// and inner headers. The kernel or the NIC cuts it between datagrams; a veth passes it whole.
#ifndef NEREUS_PLATFORM_LINUX_UNDERLAY_GSO_H
#define NEREUS_PLATFORM_LINUX_UNDERLAY_GSO_H

#include <sys/uio.h>

#include "platform/linux/vnet.h"

#define OUTER_LEN 62 // Ethernet, IPv6, UDP
#define OUTER_UDP 54 // offset of the outer UDP header
#define GENEVE_HEADER_LEN 8
#define GSO_MAX_SEGMENTS 128 // per write
#define GSO_MAX_FRAME 65535  // bytes per write
#define GSO_MAX_HEADERS 176  // Geneve, inner Ethernet, IP and TCP of one segment

struct gso_plan { // how a super-frame is cut
    const uint8_t *frame;
    struct vnet_headers at; // inner headers, from frame
    uint32_t header_len;    // Geneve header to the payload
    uint32_t payload_len;   // of the whole super-frame
    uint32_t mss;
    unsigned segments, per_write;
    uint64_t pseudo_sum; // of the inner pseudo-header without its length
};

struct gso_writer { // scratch for one write
    struct virtio_net_hdr vnet;
    uint8_t outer[OUTER_LEN];
    unsigned n_iov;
    uint32_t bytes;                             // of the frame, without vnet
    struct iovec iov[2 + 2 * GSO_MAX_SEGMENTS]; // vnet, outer, then headers and payload of each segment
    uint8_t headers[GSO_MAX_SEGMENTS][GSO_MAX_HEADERS];
};

// p is encapsulated and has gso_type set. False: the metadata does not fit the frame.
bool gso_plan_init(struct gso_plan *plan, const struct packet *p);
// Largest datagram (IP packet) that the plan puts on the wire.
uint32_t gso_plan_mtu(const struct gso_plan *plan);
// Prepares a write of the segments from `first` on; returns how many it holds.
unsigned gso_build(struct gso_writer *w, const struct gso_plan *plan, unsigned first);

// The outer UDP checksum of a frame, to be completed by the kernel or the device.
void underlay_outer_partial(uint8_t *frame, struct virtio_net_hdr *vnet);

#endif
