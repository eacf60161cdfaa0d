// SPDX-License-Identifier: MPL-2.0
// underlay.c: Geneve in and out of the underlay's interface by AF_PACKET. All other traffic stays the host's.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/geneve.h"
#include "platform/linux/internal.h"
#include "platform/linux/packet_socket.h"
#include "platform/linux/tc.h"
#include "platform/linux/vnet.h"

#define MAC_MASK 0xffffffffffffull

// Where tc is not possible: a bound socket that hears nothing, so that the stack sends no port-unreachable.
static int open_guard(const struct ip_addr *address)
{
    static const struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = __builtin_bswap16(GENEVE_UDP_PORT)};
    memcpy(&a.sin6_addr, address->b, 16);
    if (fd < 0)
        return -1;
    if (packet_socket_filter(fd, drop_all, 1) == 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0 &&
        setsockopt(fd, IPPROTO_IPV6, 78 /* IPV6_FREEBIND */, &on, sizeof(on)) == 0 &&
        bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool keep_host_quiet(struct linux_platform *l, char *error, size_t error_size)
{
    pthread_mutex_lock(&l->control);
    int rc = tc_drop_geneve(&l->netlink, l->underlay_ifindex, &l->config.underlay);
    pthread_mutex_unlock(&l->control);
    if (rc == 0)
        return true;
    linux_event(l, "underlay-no-tc", 0, "%s: no tc filter (%s): a deaf UDP socket keeps the host quiet",
                l->underlay_ifname, strerror(-rc));
    if (l->underlay_guard < 0)
        l->underlay_guard = open_guard(&l->config.underlay);
    if (l->underlay_guard >= 0)
        return true;
    snprintf(error, error_size, "%s: cannot keep the host from answering Geneve: %s", l->underlay_ifname,
             strerror(errno));
    return false;
}

// Opens the worker's socket, in the place of its old one if there is one: workers keep using the same number.
static bool open_socket(struct linux_platform *l, struct worker *w)
{
    struct sock_filter filter[GENEVE_FILTER_MAX];
    unsigned n = packet_socket_geneve_filter(filter, &l->config.underlay);
    int fd = packet_socket_open();
    if (fd < 0)
        return false;
    // ETH_P_ALL: sockets of one protocol come after the tc filter, and would see nothing.
    if (packet_socket_filter(fd, filter, n) != 0 || packet_socket_bind(fd, l->underlay_ifindex, ETH_P_ALL) != 0 ||
        (l->config.workers > 1 && packet_socket_fanout(fd, (uint16_t)l->underlay_ifindex) != 0)) {
        close(fd);
        return false;
    }
    if (w->underlay < 0) {
        w->underlay = fd;
    } else {
        dup3(fd, w->underlay, O_CLOEXEC);
        close(fd);
    }
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = source_pack(SOURCE_UNDERLAY, 0, 0)};
    return epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->underlay, &e) == 0;
}

static void close_sockets(struct linux_platform *l)
{
    for (unsigned i = 0; i < l->config.workers; i++) {
        if (l->workers[i].underlay >= 0)
            close(l->workers[i].underlay);
        l->workers[i].underlay = -1;
    }
}

static void read_mac(struct linux_platform *l)
{
    struct mac_addr mac;
    uint32_t mtu;
    uint64_t word = 0;
    if (!linux_interface(l->underlay_ifname, &mac, &mtu))
        return;
    memcpy(&word, mac.b, 6);
    store_relaxed(&l->underlay_mac, word);
}

bool underlay_open(struct linux_platform *l, char *error, size_t error_size)
{
    struct mac_addr mac;
    uint32_t mtu;
    l->underlay_ifindex = (int)if_nametoindex(l->underlay_ifname);
    if (!l->underlay_ifindex || !linux_interface(l->underlay_ifname, &mac, &mtu)) {
        snprintf(error, error_size, "underlay interface %s: no such interface", l->underlay_ifname);
        return false;
    }
    if (mtu < l->config.underlay_mtu) {
        snprintf(error, error_size, "underlay interface %s: its MTU %u is below the configured %u", l->underlay_ifname,
                 mtu, l->config.underlay_mtu);
        return false;
    }
    read_mac(l);
    if (!keep_host_quiet(l, error, error_size))
        return false;
    for (unsigned i = 0; i < l->config.workers; i++) {
        if (open_socket(l, &l->workers[i]))
            continue;
        snprintf(error, error_size, "underlay interface %s: packet socket: %s", l->underlay_ifname, strerror(errno));
        close_sockets(l);
        return false;
    }
    return true;
}

// The interface may get another address, or go and come back as another device of the same name.
void underlay_link_changed(struct linux_platform *l)
{
    char error[160];
    int ifindex = l->underlay_ifindex ? (int)if_nametoindex(l->underlay_ifname) : 0;
    if (l->underlay_ifindex && ifindex == 0 && !l->underlay_lost) {
        l->underlay_lost = true;
        linux_event(l, "underlay-gone", 0, "interface %s went away", l->underlay_ifname);
    }
    if (ifindex == 0)
        return;
    read_mac(l);
    if (ifindex == l->underlay_ifindex)
        return;
    l->underlay_ifindex = ifindex;
    bool good = keep_host_quiet(l, error, sizeof(error));
    for (unsigned i = 0; good && i < l->config.workers; i++)
        good = open_socket(l, &l->workers[i]);
    linux_event(l, good ? "underlay-attached" : "underlay-error", 0, "interface %s", l->underlay_ifname);
    l->underlay_lost = false;
    store_relaxed(&l->neighbours.lookup_all, 1);
}

void underlay_close(struct linux_platform *l)
{
    close_sockets(l);
    if (l->underlay_guard >= 0)
        close(l->underlay_guard);
    l->underlay_guard = -1;
}

// ---- Receive

unsigned underlay_receive(struct worker *w)
{
    struct virtio_net_hdr headers[PLATFORM_BATCH];
    unsigned n = worker_ready(w), bad = 0;
    int got = packet_socket_receive_raw(w->underlay, w->ready, headers, n, &bad);
    counter_add(&w->counters.receive_bad, bad);
    if (got < 0)
        return 0;
    for (int i = 0; i < got; i++) {
        struct packet *p = w->ready[i];
        w->ready[i] = NULL;
        gro_receive(&w->gro, p, &headers[i]);
    }
    gro_flush(&w->gro);
    return (unsigned)got;
}

// ---- Transmit

static void fill_ethernet(struct linux_platform *l, struct packet *p, uint64_t mac)
{
    uint64_t own = load_relaxed(&l->underlay_mac);
    memcpy(p->data, &mac, 6);
    memcpy(p->data + 6, &own, 6);
}

enum send_result { SENT, SEND_FULL, SEND_TOO_BIG, SEND_REFUSED };

static enum send_result send_result_of(int error)
{
    if (error == EMSGSIZE)
        return SEND_TOO_BIG;
    return error == EINVAL ? SEND_REFUSED : SEND_FULL;
}

static enum send_result send_super_frame(struct linux_platform *l, int fd, struct gso_writer *writer, struct packet *p)
{
    struct gso_plan plan;
    if (!gso_plan_init(&plan, p))
        return SEND_REFUSED;
    if (gso_plan_mtu(&plan) > l->config.underlay_mtu)
        return SEND_TOO_BIG;
    for (unsigned first = 0; first < plan.segments;) {
        first += gso_build(writer, &plan, first);
        struct msghdr m = {.msg_iov = writer->iov, .msg_iovlen = writer->n_iov};
        if (sendmsg(fd, &m, MSG_DONTWAIT) < 0)
            return send_result_of(errno); // what was sent before is a loss like any other
    }
    return SENT;
}

// A run of plain frames in one call. Returns how many were sent; *result says why it stopped.
static unsigned send_plain(struct linux_platform *l, int fd, struct packet **packets, unsigned n,
                           enum send_result *result)
{
    struct mmsghdr messages[PLATFORM_BATCH];
    struct iovec iov[PLATFORM_BATCH][2];
    struct virtio_net_hdr headers[PLATFORM_BATCH];
    unsigned count = 0;
    *result = SENT;
    for (; count < n && packets[count]->gso_type == GSO_NONE; count++) {
        struct packet *p = packets[count];
        if (p->len < OUTER_LEN || p->len - ETHERNET_LEN > l->config.underlay_mtu) {
            *result = p->len < OUTER_LEN ? SEND_REFUSED : SEND_TOO_BIG;
            break;
        }
        vnet_complete_checksum(p); // one checksum can be left to the device: the outer one, which covers it
        headers[count] = (struct virtio_net_hdr){.hdr_len = OUTER_LEN};
        underlay_outer_partial(p->data, &headers[count]);
        iov[count][0] = (struct iovec){&headers[count], VNET_HDR_LEN};
        iov[count][1] = (struct iovec){p->data, p->len};
        messages[count].msg_hdr = (struct msghdr){.msg_iov = iov[count], .msg_iovlen = 2};
    }
    if (count == 0)
        return 0;
    int sent = sendmmsg(fd, messages, count, MSG_DONTWAIT);
    if (sent == (int)count)
        return count;
    *result = sent < 0 ? send_result_of(errno) : SENT; // a short count: the next call tells why
    return sent < 0 ? 0 : (unsigned)sent;
}

static struct gso_writer *writer_for(struct linux_platform *l, unsigned worker)
{
    return worker < l->config.workers ? &l->workers[worker].gso : l->monitor_gso;
}

unsigned underlay_send(struct linux_platform *l, unsigned worker, uint64_t mac, struct packet **packets, unsigned n,
                       enum drop *why)
{
    struct worker *w = &l->workers[worker < l->config.workers ? worker : 0];
    unsigned done = 0, dropped = 0;
    for (unsigned i = 0; i < n; i++)
        fill_ethernet(l, packets[i], mac & MAC_MASK);
    while (done < n) {
        enum send_result result;
        if (packets[done]->gso_type == GSO_NONE) {
            done += send_plain(l, w->underlay, packets + done, n - done, &result);
        } else {
            result = send_super_frame(l, w->underlay, writer_for(l, worker), packets[done]);
            done += result == SENT;
        }
        if (result == SENT)
            continue;
        *why = result == SEND_FULL ? DROP_UNDERLAY_FULL : result == SEND_TOO_BIG ? DROP_TOO_BIG : DROP_BAD_GSO;
        if (result == SEND_FULL)
            break;
        // One frame does not fit; those behind it have done nothing wrong. It moves to the end.
        struct packet *odd = packets[done];
        memmove(packets + done, packets + done + 1, sizeof(*packets) * (n - done - 1));
        packets[--n] = odd;
        dropped++;
    }
    for (unsigned i = 0; i < n + dropped; i++)
        buffers_free(&l->buffers, worker, packets[i]);
    return done;
}

unsigned underlay_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                           enum drop *why)
{
    struct linux_platform *l = ctx;
    for (;;) {
        uint64_t hop = neighbours_hop(l, tunnel);
        switch (hop_state(hop)) {
        case HOP_READY:
            return underlay_send(l, worker, hop, packets, n, why);
        case HOP_PENDING:
            if (neighbours_wait(l, worker, tunnel, packets, n))
                return n;
            break; // it changed just now
        default:
            *why = DROP_NEXT_HOP_FAILED;
            for (unsigned i = 0; i < n; i++)
                buffers_free(&l->buffers, worker, packets[i]);
            return 0;
        }
    }
}
