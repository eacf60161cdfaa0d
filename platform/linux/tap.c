// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "platform/linux/vnet.h"

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20 // Linux 6.2
#define TUN_F_USO6 0x40
#endif

static int open_queue(const struct tap_options *o, bool multi_queue)
{
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct ifreq r;
    memset(&r, 0, sizeof(r));
    strncpy(r.ifr_name, o->ifname, sizeof(r.ifr_name) - 1);
    r.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (multi_queue ? IFF_MULTI_QUEUE : 0));
    int header = VNET_HDR_LEN;
    if (ioctl(fd, TUNSETIFF, &r) == 0 && ioctl(fd, TUNSETVNETHDRSZ, &header) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool set_options(int fd, const struct tap_options *o)
{
    unsigned long offloads = o->offloads ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : 0;
    if (o->offloads && ioctl(fd, TUNSETOFFLOAD, offloads | TUN_F_USO4 | TUN_F_USO6) == 0)
        return ioctl(fd, TUNSETPERSIST, (unsigned long)o->persist) == 0;
    return ioctl(fd, TUNSETOFFLOAD, offloads) == 0 && ioctl(fd, TUNSETPERSIST, (unsigned long)o->persist) == 0;
}

static int open_here(const struct tap_options *o, int *fds, bool *made)
{
    unsigned wanted = o->queues < 1 ? 1 : MIN(o->queues, TAP_MAX_QUEUES), n = 0;
    *made = if_nametoindex(o->ifname) == 0;
    if (*made && o->existing) {
        errno = ENODEV;
        return -1;
    }
    bool multi_queue = wanted > 1;
    fds[0] = open_queue(o, multi_queue);
    if (fds[0] < 0 && errno == EINVAL && !*made) { // it exists, made with the other kind of queues
        multi_queue = !multi_queue;
        fds[0] = open_queue(o, multi_queue);
    }
    if (fds[0] < 0)
        return -1;
    for (n = 1; multi_queue && n < wanted; n++) {
        fds[n] = open_queue(o, true);
        if (fds[n] < 0)
            break; // fewer queues serve as well
    }
    if (set_options(fds[0], o))
        return (int)n;
    int saved = errno;
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    errno = saved;
    return -1;
}

struct visit { // of another namespace, by a thread that ends there
    const struct tap_options *options;
    int *fds;
    bool *made;
    int result, cause;
};

static void *visit(void *arg)
{
    struct visit *v = arg;
    v->result = setns(v->options->netns, CLONE_NEWNET) == 0 ? open_here(v->options, v->fds, v->made) : -1;
    v->cause = errno;
    return NULL;
}

int tap_open(const struct tap_options *o, int *fds, bool *made)
{
    struct visit v = {o, fds, made, -1, 0};
    pthread_t thread;
    if (o->netns < 0)
        return open_here(o, fds, made);
    v.cause = pthread_create(&thread, NULL, visit, &v);
    if (v.cause == 0)
        pthread_join(thread, NULL);
    errno = v.cause;
    return v.result;
}

void tap_let_go(int fd)
{
    ioctl(fd, TUNSETPERSIST, 0ul); // it may be gone already
}

bool tap_alive(int fd)
{
    struct ifreq r;
    memset(&r, 0, sizeof(r));
    return ioctl(fd, TUNGETIFF, &r) == 0;
}

int tap_receive(int fd, struct packet *p, unsigned *bad)
{
    struct virtio_net_hdr h;
    struct iovec iov[2] = {{&h, VNET_HDR_LEN}, {p->data, p->room}};
    ssize_t got = readv(fd, iov, 2);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    p->len = p->head = got > VNET_HDR_LEN ? (uint32_t)got - VNET_HDR_LEN : 0;
    if (p->len == 0 || !vnet_to_packet(&h, p)) {
        (*bad)++;
        p->len = p->head = 0;
    }
    return 1;
}

unsigned tap_send(int fd, struct packet **packets, unsigned n, unsigned *refused)
{
    for (unsigned i = 0; i < n; i++) {
        struct virtio_net_hdr h;
        struct iovec iov[2] = {{&h, VNET_HDR_LEN}, {packets[i]->data, packets[i]->len}};
        if (!vnet_from_packet(packets[i], &h)) {
            (*refused)++;
            continue;
        }
        ssize_t rc;
        do
            rc = writev(fd, iov, 2);
        while (rc < 0 && errno == EINTR);
        if (rc >= 0)
            continue;
        if (errno != EINVAL && errno != EMSGSIZE)
            return i; // full, down or gone
        (*refused)++;
    }
    return n;
}
