// SPDX-License-Identifier: MPL-2.0
// devices.c: ports and external links: own taps by fd, everything else by AF_PACKET. A device that is missing is
// opened when it appears; one that goes is closed and waited for.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "platform/linux/internal.h"
#include "platform/linux/packet_socket.h"
#include "platform/linux/tc.h"

#define BUSY_TRIES 400 // closing a packet socket or a tap waits for the kernel, longer on a busy machine
#define BUSY_WAIT_US 5000

static unsigned device_worker(const struct linux_platform *l, const struct device *d, unsigned queue)
{
    return (d->index + queue) % l->config.workers;
}

bool device_start(struct linux_platform *l, struct device *d)
{
    for (unsigned q = 0; q < d->n_fds; q++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = source_pack(d->kind, q, d->index)};
        if (epoll_ctl(l->workers[device_worker(l, d, q)].epoll, EPOLL_CTL_ADD, d->fds[q], &e) != 0)
            return false;
    }
    return true;
}

static void device_free(void *arg, uint64_t value)
{
    struct device *d = arg;
    for (unsigned q = 0; q < d->n_fds; q++)
        close(d->fds[q]);
    free(d);
}

unsigned device_deliver(struct linux_platform *l, unsigned worker, struct device *d, struct packet **packets,
                        unsigned n)
{
    unsigned refused = 0, taken = 0;
    if (d && !load_relaxed(&d->dead)) {
        int fd = d->fds[worker % d->n_fds];
        taken = d->is_tap ? tap_send(fd, packets, n, &refused) : packet_socket_send(fd, packets, n, &refused);
    }
    if (refused && worker < l->config.workers)
        counter_add(&l->workers[worker].counters.transmit_refused, refused);
    for (unsigned i = 0; i < n; i++)
        buffers_free(&l->buffers, worker, packets[i]);
    return taken;
}

// ---- Opening

void linux_ipv6_sysctl(const char *ifname, const char *key, const char *value)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", ifname, key);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; // a kernel without IPv6 needs no such thing
    ssize_t ignored = write(fd, value, strlen(value));
    (void)ignored;
    close(fd);
}

static struct device *device_new(const struct attachment *a, int ifindex, bool is_tap)
{
    struct device *d = calloc(1, sizeof(*d));
    if (d)
        *d = (struct device){.kind = a->source, .index = a->index, .is_tap = is_tap, .ifindex = ifindex};
    return d;
}

// Our tap where it was left, else a new one here.
static int open_tap_fds(struct linux_platform *l, struct attachment *a, int *fds, bool *made, bool *away)
{
    struct tap_options o = {.ifname = a->ifname,
                            .queues = MIN(a->queues, l->config.workers),
                            .persist = true,
                            .offloads = a->offloads,
                            .netns = -1};
    *away = false;
    if (tap_home_load(l->config.run_dir, a->ifname, &a->home)) {
        struct tap_options there = o;
        there.ifname = a->home.ifname;
        there.existing = true;
        there.netns = tap_home_open(&a->home);
        int n = there.netns < 0 ? -1 : tap_open(&there, fds, made);
        int cause = errno;
        if (there.netns >= 0)
            close(there.netns);
        *away = n > 0;
        errno = cause;
        if (n > 0 || (there.netns >= 0 && cause == EBUSY))
            return n;
    }
    return tap_open(&o, fds, made);
}

static struct device *open_tap(struct linux_platform *l, struct attachment *a, char *error, size_t error_size)
{
    int fds[TAP_MAX_QUEUES], rc = 0;
    bool made, away;
    int n = open_tap_fds(l, a, fds, &made, &away);
    if (n < 0) {
        int cause = errno;
        snprintf(error, error_size, "tap %s: %s", a->ifname, strerror(cause));
        errno = cause;
        return NULL;
    }
    int ifindex = away ? 0 : (int)if_nametoindex(a->ifname);
    // The netdev is the guest's NIC. Its address is set once: a guest that uses it may have changed more.
    if (!away)
        rc = netlink_link_set(&l->netlink, ifindex, made ? &a->mac : NULL, a->mtu, IFF_UP);
    struct device *d = device_new(a, ifindex, true);
    if (rc != 0 || !d) {
        snprintf(error, error_size, "tap %s: %s", a->ifname, strerror(rc ? -rc : ENOMEM));
        while (n-- > 0)
            close(fds[n]);
        free(d);
        return NULL;
    }
    d->n_fds = (unsigned)n;
    memcpy(d->fds, fds, sizeof(fds[0]) * d->n_fds);
    return d;
}

// The order matters: nothing of the guest's may reach the host's stack, not even the first frame.
static const char *take_over(struct linux_platform *l, const struct attachment *a, int ifindex, int fd, int *cause)
{
    struct mac_addr mac;
    uint32_t mtu = 0;
    *cause = -tc_drop_all(&l->netlink, ifindex);
    if (*cause)
        return "filter that keeps the host away";
    linux_ipv6_sysctl(a->ifname, "disable_ipv6", "1");
    if (!linux_interface(a->ifname, &mac, &mtu)) {
        *cause = ENODEV;
        return "interface";
    }
    *cause = -netlink_link_set(&l->netlink, ifindex, NULL, a->mtu > mtu ? a->mtu : 0, IFF_UP);
    if (*cause)
        return "MTU and link state";
    if (packet_socket_promiscuous(fd, ifindex) != 0 || packet_socket_bind(fd, ifindex, ETH_P_ALL) != 0) {
        *cause = errno;
        return "packet socket";
    }
    return NULL;
}

static struct device *open_netdev(struct linux_platform *l, struct attachment *a, char *error, size_t error_size)
{
    int ifindex = (int)if_nametoindex(a->ifname), cause = 0;
    int fd = packet_socket_open();
    struct device *d = device_new(a, ifindex, false);
    const char *failed = "packet socket";
    if (fd < 0)
        cause = errno;
    else if (!d)
        cause = ENOMEM;
    else
        failed = take_over(l, a, ifindex, fd, &cause);
    if (!failed) {
        d->fds[0] = fd;
        d->n_fds = 1;
        return d;
    }
    snprintf(error, error_size, "interface %s: %s: %s", a->ifname, failed, strerror(cause));
    if (fd >= 0)
        close(fd);
    free(d);
    return NULL;
}

static bool is_own_tap(const struct attachment *a)
{
    return a->source == SOURCE_PORT && a->kind == BLUEPRINT_DEVICE_TAP;
}

bool attachment_open(struct linux_platform *l, struct attachment *a, char *error, size_t error_size)
{
    if (a->device)
        return true;
    if (!is_own_tap(a) && if_nametoindex(a->ifname) == 0) {
        if (!a->reported)
            linux_event(l, "device-missing", a->source == SOURCE_PORT ? a->index : 0,
                        "interface %s does not exist; it is attached when it appears", a->ifname);
        a->reported = true;
        return true;
    }
    struct device *d = is_own_tap(a) ? open_tap(l, a, error, error_size) : open_netdev(l, a, error, error_size);
    if (!d)
        return false;
    store_release(&a->device, d);
    if (!device_start(l, d)) {
        snprintf(error, error_size, "interface %s: epoll: %s", a->ifname, strerror(errno));
        attachment_close(l, a);
        return false;
    }
    linux_event(l, "device-attached", a->source == SOURCE_PORT ? a->index : 0, "interface %s", a->ifname);
    a->reported = false;
    return true;
}

void attachment_close(struct linux_platform *l, struct attachment *a)
{
    struct device *d = a->device;
    if (!d)
        return;
    for (unsigned q = 0; q < d->n_fds; q++)
        epoll_ctl(l->workers[device_worker(l, d, q)].epoll, EPOLL_CTL_DEL, d->fds[q], NULL);
    store_release(&a->device, NULL);
    epochs_defer(&l->epochs, device_free, d, 0);
}

// ---- Changes seen by the monitor

static bool device_is_there(const struct attachment *a)
{
    const struct device *d = a->device;
    if (d->is_tap)
        return tap_alive(d->fds[0]); // it may have moved to a guest's namespace
    return (int)if_nametoindex(a->ifname) == d->ifindex;
}

// Keeps the note about an own tap's place: after a crash nobody else knows.
static void note_home(struct linux_platform *l, struct attachment *a)
{
    struct tap_home home;
    if (!tap_home_read(a->device->fds[0], &home))
        return;
    if (home.netns == a->home.netns && strcmp(home.ifname, a->home.ifname) == 0)
        return;
    a->home = home;
    tap_home_save(l->config.run_dir, a->ifname, &home);
}

static void attachment_check(struct linux_platform *l, struct attachment *a)
{
    char error[160];
    if (!a->wanted)
        return;
    if (a->device && !device_is_there(a)) {
        linux_event(l, "device-gone", a->source == SOURCE_PORT ? a->index : 0, "interface %s went away", a->ifname);
        attachment_close(l, a);
        a->reported = true;
    }
    if (a->device && is_own_tap(a))
        note_home(l, a);
    if (!a->device && !attachment_open(l, a, error, sizeof(error)) && !a->reported) {
        a->reported = true;
        linux_event(l, "device-error", a->source == SOURCE_PORT ? a->index : 0, "%s", error);
    }
}

void attachments_check(struct linux_platform *l)
{
    pthread_mutex_lock(&l->control);
    for (uint32_t i = 1; i <= l->config.max_ports; i++)
        attachment_check(l, &l->ports[i]);
    for (uint32_t i = 0; i < l->config.n_external; i++)
        attachment_check(l, &l->external[i]);
    pthread_mutex_unlock(&l->control);
}

// ---- Ports [control]

static bool ifname_is_valid(const char *name)
{
    return name && name[0] && strlen(name) < IF_NAMESIZE && !strchr(name, '/') && !strchr(name, '%') &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool check_request(struct linux_platform *l, uint32_t port, const struct blueprint_device *device, char *error,
                          size_t error_size)
{
    if (port == 0 || port > l->config.max_ports) {
        snprintf(error, error_size, "port number %u is out of range", port);
        return false;
    }
    if (device->kind == BLUEPRINT_DEVICE_VHOST_USER || device->kind > BLUEPRINT_DEVICE_NONE) {
        snprintf(error, error_size, "this driver has no such kind of device");
        return false;
    }
    if (device->kind == BLUEPRINT_DEVICE_NONE)
        return true;
    if (!ifname_is_valid(device->ifname)) {
        snprintf(error, error_size, "not an interface name");
        return false;
    }
    if (strcmp(device->ifname, l->underlay_ifname) == 0) {
        snprintf(error, error_size, "interface %s is the underlay", device->ifname);
        return false;
    }
    for (uint32_t i = 1; i <= l->config.max_ports; i++) {
        if (i == port || !l->ports[i].wanted || strcmp(l->ports[i].ifname, device->ifname) != 0)
            continue;
        snprintf(error, error_size, "interface %s already belongs to another port", device->ifname);
        return false;
    }
    for (uint32_t i = 0; i < l->config.n_external; i++) {
        if (strcmp(l->external[i].ifname, device->ifname) != 0)
            continue;
        snprintf(error, error_size, "interface %s is an external link", device->ifname);
        return false;
    }
    return true;
}

static bool same_device(const struct attachment *a, const struct blueprint_device *device)
{
    return a->wanted && a->kind == device->kind && strcmp(a->ifname, device->ifname) == 0 &&
           a->queues == device->queues && a->offloads == device->offloads;
}

// The port goes, or leaves the device for another: a tap of ours goes with it. Other devices were not made by us.
static void abandon(struct linux_platform *l, struct attachment *a)
{
    if (a->wanted && a->device && is_own_tap(a)) {
        tap_let_go(a->device->fds[0]);
        a->home = (struct tap_home){.netns = 0};
        memcpy(a->home.ifname, a->ifname, sizeof(a->home.ifname));
        tap_home_save(l->config.run_dir, a->ifname, &a->home); // no note
    }
    attachment_close(l, a);
    a->wanted = false;
    a->ifname[0] = 0;
}

static bool attach(struct linux_platform *l, uint32_t port, const struct blueprint_device *device,
                   const struct mac_addr *mac, uint32_t mtu, char *error, size_t error_size)
{
    struct attachment *a = &l->ports[port];
    if (a->device && !device_is_there(a))
        attachment_close(l, a); // the monitor has not seen it yet
    if (a->device && same_device(a, device)) {
        if (a->mtu != mtu)
            netlink_link_set(&l->netlink, a->device->ifindex, NULL, mtu, 0);
        a->mtu = mtu;
        return true;
    }
    if (a->kind == device->kind && strcmp(a->ifname, device->ifname) == 0)
        attachment_close(l, a); // opened again, with other options
    else
        abandon(l, a);
    a->wanted = true;
    a->reported = false;
    a->home = (struct tap_home){.netns = 0};
    a->kind = device->kind;
    a->offloads = device->offloads;
    a->source = SOURCE_PORT;
    a->index = port;
    a->queues = device->queues;
    a->mtu = mtu;
    a->mac = *mac;
    snprintf(a->ifname, sizeof(a->ifname), "%s", device->ifname);
    if (attachment_open(l, a, error, error_size))
        return true;
    a->wanted = false;
    return false;
}

static int attach_once(struct linux_platform *l, uint32_t port, const struct blueprint_device *device,
                       const struct mac_addr *mac, uint32_t mtu, char *error, size_t error_size)
{
    pthread_mutex_lock(&l->control);
    errno = 0;
    bool good = check_request(l, port, device, error, error_size);
    if (good && device->kind == BLUEPRINT_DEVICE_NONE) {
        abandon(l, &l->ports[port]);
    } else if (good) {
        good = attach(l, port, device, mac, mtu, error, error_size);
    }
    int cause = good ? 0 : errno;
    pthread_mutex_unlock(&l->control);
    return good ? 0 : cause == EBUSY ? -EBUSY : -1;
}

int linux_port_attach(void *ctx, uint32_t port, const struct blueprint_device *device, const struct mac_addr *mac,
                      uint32_t mtu, char *error, size_t error_size)
{
    // A tap detached just now is held until every worker has let go of it.
    for (int tries = 0; tries < BUSY_TRIES; tries++) {
        int rc = attach_once(ctx, port, device, mac, mtu, error, error_size);
        if (rc == 0 && error_size)
            error[0] = 0; // of a try before
        if (rc != -EBUSY)
            return rc;
        usleep(BUSY_WAIT_US);
    }
    return -1;
}

void linux_port_detach(void *ctx, uint32_t port)
{
    struct linux_platform *l = ctx;
    if (port == 0 || port > l->config.max_ports)
        return;
    pthread_mutex_lock(&l->control);
    abandon(l, &l->ports[port]);
    pthread_mutex_unlock(&l->control);
}

bool linux_port_ready(struct linux_platform *l, uint32_t port)
{
    if (port == 0 || port > l->config.max_ports)
        return false;
    pthread_mutex_lock(&l->control);
    bool ready = l->ports[port].device != NULL;
    pthread_mutex_unlock(&l->control);
    return ready;
}
