// SPDX-License-Identifier: MPL-2.0
// vnet.h: offload metadata between struct virtio_net_hdr, as tap and AF_PACKET speak it, and struct packet.
#ifndef NEREUS_PLATFORM_LINUX_VNET_H
#define NEREUS_PLATFORM_LINUX_VNET_H

#include <linux/virtio_net.h>

#include "engine/packet.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 // Linux 6.2
#endif

#define VNET_HDR_LEN 10 // struct virtio_net_hdr without num_buffers

#define ETHERNET_LEN 14
#define TCP_CSUM_OFFSET 16
#define UDP_CSUM_OFFSET 6

// Fills p's metadata from what the kernel says of the frame at p->data. False: it does not fit the frame.
bool vnet_to_packet(const struct virtio_net_hdr *h, struct packet *p);

// The header for a frame that is handed to the kernel. A super-frame always goes out as CSUM_PARTIAL, which
// the kernel needs to segment it: its checksum field is rewritten. False: the metadata does not fit the frame.
bool vnet_from_packet(struct packet *p, struct virtio_net_hdr *h);

// Makes a super-frame's checksum partial, whatever it was. False when no TCP or UDP header is found.
bool vnet_make_partial(struct packet *p);

// Completes a partial checksum in software.
void vnet_complete_checksum(struct packet *p);

// Offsets of the innermost headers of a frame that carries TCP or UDP over IP without extension headers.
struct vnet_headers {
    uint16_t l3, l4;
    uint8_t ip_version, protocol;
    uint16_t payload; // behind the L4 header
};
bool vnet_find_headers(const uint8_t *frame, uint32_t len, uint16_t l2, struct vnet_headers *out);

#endif
