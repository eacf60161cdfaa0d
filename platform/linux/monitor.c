// SPDX-License-Identifier: MPL-2.0
// monitor.c: the thread beside the packets: netlink notices, devices that come and go, next hops, deferred calls.
#include <errno.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/linux/internal.h"

#define DEFER_WAIT 5   // ms between looks at a deferred queue that is not empty
#define WORK_WAIT 1000 // ms between looks at next hops and missing taps
#define NOTICE_BUFFER (1 << 20)

static int notice(const struct nlmsghdr *h, void *data)
{
    struct linux_platform *l = data;
    if (h->nlmsg_type == RTM_NEWLINK || h->nlmsg_type == RTM_DELLINK)
        __atomic_store_n(&l->devices_changed, true, __ATOMIC_RELEASE);
    else if (l->underlay_ifindex)
        neighbours_notice(l, h);
    return MNL_CB_OK;
}

static void read_notices(struct linux_platform *l)
{
    char buffer[16384];
    for (;;) {
        ssize_t n = recv(mnl_socket_get_fd(l->monitor_socket), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n > 0) {
            mnl_cb_run(buffer, (size_t)n, 0, 0, notice, l);
        } else if (n < 0 && errno == ENOBUFS) { // notices were lost: look at everything again
            __atomic_store_n(&l->devices_changed, true, __ATOMIC_RELEASE);
            store_relaxed(&l->neighbours.lookup_all, 1);
        } else if (n == 0 || errno != EINTR) {
            return;
        }
    }
}

static void *monitor_run(void *arg)
{
    struct linux_platform *l = arg;
    uint64_t worked = 0;
    while (!__atomic_load_n(&l->monitor_stop, __ATOMIC_ACQUIRE)) {
        bool nothing_deferred = epochs_run(&l->epochs);
        struct pollfd fds[2] = {{.fd = l->monitor_wake, .events = POLLIN},
                                {.fd = mnl_socket_get_fd(l->monitor_socket), .events = POLLIN}};
        bool woken = poll(fds, 2, nothing_deferred ? WORK_WAIT : DEFER_WAIT) > 0;
        uint64_t ignored, now = linux_now();
        if (fds[0].revents & POLLIN && read(l->monitor_wake, &ignored, sizeof(ignored)) < 0)
            continue;
        if (fds[1].revents)
            read_notices(l);
        bool due = now - worked > WORK_WAIT * 1000000ull;
        if (__atomic_exchange_n(&l->devices_changed, false, __ATOMIC_ACQUIRE)) {
            underlay_link_changed(l);
            attachments_check(l);
        } else if (due) {
            attachments_check(l); // an own tap whose namespace went tells nobody
        }
        if ((woken || due) && l->underlay_ifindex)
            neighbours_work(l, now);
        if (due)
            worked = now;
    }
    return NULL;
}

bool monitor_start(struct linux_platform *l)
{
    static const int groups[] = {RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV6_ROUTE};
    l->monitor_socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!l->monitor_socket || mnl_socket_bind(l->monitor_socket, 0, MNL_SOCKET_AUTOPID) != 0)
        return false;
    int size = NOTICE_BUFFER;
    setsockopt(mnl_socket_get_fd(l->monitor_socket), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    for (unsigned i = 0; i < ARRAY_LEN(groups); i++)
        if (mnl_socket_setsockopt(l->monitor_socket, NETLINK_ADD_MEMBERSHIP, (void *)&groups[i], sizeof(groups[i])) !=
            0)
            return false;
    l->monitor_runs = pthread_create(&l->monitor, NULL, monitor_run, l) == 0;
    if (l->monitor_runs)
        pthread_setname_np(l->monitor, "monitor");
    return l->monitor_runs;
}

void monitor_end(struct linux_platform *l)
{
    if (l->monitor_runs) {
        __atomic_store_n(&l->monitor_stop, true, __ATOMIC_RELEASE);
        linux_wake(l->monitor_wake);
        pthread_join(l->monitor, NULL);
    }
    l->monitor_runs = false;
    if (l->monitor_socket)
        mnl_socket_close(l->monitor_socket);
    l->monitor_socket = NULL;
}
