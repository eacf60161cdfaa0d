// SPDX-License-Identifier: MPL-2.0
// netlink.h: rtnetlink requests that wait for their answer, over libmnl. One socket serves one thread.
#ifndef NEREUS_PLATFORM_LINUX_NETLINK_H
#define NEREUS_PLATFORM_LINUX_NETLINK_H

#include <libmnl/libmnl.h>

#include "engine/ip.h"

#define NETLINK_REQUEST_BYTES 1024

struct netlink {
    struct mnl_socket *socket;
    uint32_t seq;
};

bool netlink_open(struct netlink *n); // of the calling thread's network namespace
void netlink_close(struct netlink *n);

// Starts a message in `buffer` (NETLINK_REQUEST_BYTES); `extra` bytes of family header follow the nlmsghdr, zeroed.
struct nlmsghdr *netlink_message(void *buffer, uint16_t type, uint16_t flags, size_t extra);
// Sends it and waits: 0, or a negative errno. `cb` sees each answer that is not an acknowledgement.
int netlink_request(struct netlink *n, struct nlmsghdr *h, mnl_cb_t cb, void *data);

// Links. mac NULL and mtu 0 leave it as it is.
int netlink_link_set(struct netlink *n, int ifindex, const struct mac_addr *mac, uint32_t mtu, unsigned flags_set);
// addr is 4 or 16 bytes; no duplicate address detection.
int netlink_address_add(struct netlink *n, int ifindex, int family, const void *addr, uint8_t prefix_len);
int netlink_route_add(struct netlink *n, int ifindex, int family, const void *addr, uint8_t prefix_len);

#endif
