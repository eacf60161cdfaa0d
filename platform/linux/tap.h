// SPDX-License-Identifier: MPL-2.0
// tap.h: tap devices of our own, with offload metadata (IFF_VNET_HDR).
#ifndef NEREUS_PLATFORM_LINUX_TAP_H
#define NEREUS_PLATFORM_LINUX_TAP_H

#include "engine/packet.h"

#define TAP_MAX_QUEUES 16

struct tap_options {
    const char *ifname;
    unsigned queues; // fds wanted; an existing single-queue tap gives one
    bool persist, offloads;
    bool existing; // refuse to make one (ENODEV)
    int netns;     // in this namespace; -1: the calling thread's
};

// Opens or makes the tap. Returns the number of fds, or -1 and errno.
// *made: it was not there before.
int tap_open(const struct tap_options *options, int *fds, bool *made);
// Is the device still behind this fd? (It may have moved to another namespace; it may be gone.)
bool tap_alive(int fd);

// When the last fd closes the device goes.
void tap_let_go(int fd);

// One frame each. receive: > 0 a frame was read, 0 nothing there, -1 and errno; a frame with impossible metadata
// is read, dropped and counted in *bad (answer 1, p->len 0).
int tap_receive(int fd, struct packet *p, unsigned *bad);
unsigned tap_send(int fd, struct packet **packets, unsigned n, unsigned *refused); // as packet_socket_send

#endif
