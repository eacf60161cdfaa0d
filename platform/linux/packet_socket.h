// SPDX-License-Identifier: MPL-2.0
// packet_socket.h: AF_PACKET with a virtio_net_hdr in front of each frame, in batches.
#ifndef NEREUS_PLATFORM_LINUX_PACKET_SOCKET_H
#define NEREUS_PLATFORM_LINUX_PACKET_SOCKET_H

#include <linux/filter.h>

#include "engine/ip.h"
#include "engine/packet.h"

// A socket that receives nothing yet: -1 and errno. Non-blocking.
int packet_socket_open(void);
int packet_socket_filter(int fd, const struct sock_filter *program, unsigned n);
// From now on it receives every frame that comes in on the device (filters in place before).
int packet_socket_bind(int fd, int ifindex, uint16_t ethertype);
int packet_socket_promiscuous(int fd, int ifindex);
// Spreads frames of equal flows over the group's sockets.
int packet_socket_fanout(int fd, uint16_t group);

// Geneve (IPv6, UDP port 6081) to `address`, addressed to this host and untagged. Returns the length.
#define GENEVE_FILTER_MAX 32
unsigned packet_socket_geneve_filter(struct sock_filter *out, const struct ip_addr *address);

// Reads up to n frames into the given empty packets, metadata filled; impossible ones are counted in *bad, and
// the good ones come first in `packets`. Returns the number of good ones, or -1 and errno: nothing was there.
int packet_socket_receive(int fd, struct packet **packets, unsigned n, unsigned *bad);
// The same, metadata left as the kernel gave it.
struct virtio_net_hdr;
int packet_socket_receive_raw(int fd, struct packet **packets, struct virtio_net_hdr *headers, unsigned n,
                              unsigned *bad);
// Sends n frames in order, frames that the kernel calls invalid left out and counted in *refused. Returns how many were
// dealt with; less than n: the device is full or gone. Frees nothing.
unsigned packet_socket_send(int fd, struct packet **packets, unsigned n, unsigned *refused);

#endif
