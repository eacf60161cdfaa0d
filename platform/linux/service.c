// SPDX-License-Identifier: MPL-2.0
// service.c: the metadata service's link: a tap in a network namespace of its own, where the kernel's TCP ends
// what guests open. Guests appear there as addresses of 100.64.0.0/10 and fd00:ec2:0:1::/64. The tap needs no
// neighbours (NOARP): the kernel sends to the tap's own address.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/linux/internal.h"

#define SERVICE_IFNAME "nereus-md"
#define SERVICE_MTU 1500

static const struct mac_addr service_mac = {{0x02, 0, 0, 0, 0, 0x02}};

struct service_work { // for the thread that visits the namespace
    int netns;        // in: -1 = make one; out
    int fd;           // out: the tap
    const char *failed;
    int cause;
};

static int configure(struct netlink *n, int ifindex)
{
    static const uint8_t service4[4] = {169, 254, 169, 254}, clients4[4] = {100, 64, 0, 0};
    static const uint8_t service6[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};
    static const uint8_t clients6[16] = {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 1};
    int rc = netlink_link_set(n, (int)if_nametoindex("lo"), NULL, 0, IFF_UP);
    if (rc == 0)
        rc = netlink_link_set(n, ifindex, &service_mac, SERVICE_MTU, IFF_NOARP);
    if (rc == 0)
        rc = netlink_link_set(n, ifindex, NULL, 0, IFF_UP);
    if (rc == 0)
        rc = netlink_address_add(n, ifindex, AF_INET, service4, 32);
    if (rc == 0)
        rc = netlink_address_add(n, ifindex, AF_INET6, service6, 128);
    if (rc == 0)
        rc = netlink_route_add(n, ifindex, AF_INET, clients4, 10);
    return rc ? rc : netlink_route_add(n, ifindex, AF_INET6, clients6, 64);
}

static void make_tap(struct service_work *s)
{
    bool made;
    struct tap_options o = {.ifname = SERVICE_IFNAME, .queues = 1, .netns = -1};
    struct netlink n;
    s->failed = "tap " SERVICE_IFNAME;
    if (tap_open(&o, &s->fd, &made) < 0) {
        s->fd = -1;
        s->cause = errno;
        return;
    }
    linux_ipv6_sysctl(SERVICE_IFNAME, "accept_ra", "0");
    linux_ipv6_sysctl(SERVICE_IFNAME, "router_solicitations", "0");
    linux_ipv6_sysctl(SERVICE_IFNAME, "addr_gen_mode", "1"); // no link-local address
    s->failed = "addresses of tap " SERVICE_IFNAME;
    s->cause = ENOMEM;
    if (netlink_open(&n)) {
        s->cause = -configure(&n, (int)if_nametoindex(SERVICE_IFNAME));
        netlink_close(&n);
    }
    if (s->cause == 0)
        s->failed = NULL;
}

static void *visit(void *arg)
{
    struct service_work *s = arg;
    s->failed = "network namespace of the metadata service";
    int rc = s->netns >= 0 ? setns(s->netns, CLONE_NEWNET) : unshare(CLONE_NEWNET);
    if (rc == 0 && s->netns < 0)
        s->netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    s->cause = errno;
    if (rc == 0 && s->netns >= 0)
        make_tap(s);
    return NULL;
}

bool service_open(struct linux_platform *l, char *error, size_t error_size)
{
    struct service_work s = {.netns = l->config.service_netns, .fd = -1};
    pthread_t thread;
    struct device *d = calloc(1, sizeof(*d));
    l->own_service_netns = s.netns < 0;
    int rc = d ? pthread_create(&thread, NULL, visit, &s) : ENOMEM;
    if (rc == 0)
        pthread_join(thread, NULL);
    l->service_netns = s.netns;
    if (rc != 0 || s.failed) {
        snprintf(error, error_size, "%s: %s", rc ? "service thread" : s.failed, strerror(rc ? rc : s.cause));
        if (s.fd >= 0)
            close(s.fd);
        free(d);
        return false;
    }
    l->service_mac = service_mac;
    *d = (struct device){.kind = SOURCE_SERVICE, .is_tap = true, .n_fds = 1, .fds = {s.fd}};
    store_release(&l->service.device, d);
    if (device_start(l, d))
        return true;
    snprintf(error, error_size, "tap %s: epoll: %s", SERVICE_IFNAME, strerror(errno));
    return false;
}
