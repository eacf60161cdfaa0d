// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/packet_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/platform.h"
#include "engine/geneve.h"
#include "platform/linux/vnet.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define RECEIVE_BUFFER (32 << 20) // a burst of super-frames of 64 KB
#define SEND_BUFFER (8 << 20)

int packet_socket_open(void)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1, receive = RECEIVE_BUFFER, send = SEND_BUFFER;
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive, sizeof(receive)); // as much as we are allowed
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send, sizeof(send));
    return fd;
}

int packet_socket_filter(int fd, const struct sock_filter *program, unsigned n)
{
    struct sock_fprog p = {.len = (unsigned short)n, .filter = (struct sock_filter *)program};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof(p));
}

int packet_socket_bind(int fd, int ifindex, uint16_t ethertype)
{
    struct sockaddr_ll a = {.sll_family = AF_PACKET, .sll_protocol = htons(ethertype), .sll_ifindex = ifindex};
    return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

int packet_socket_promiscuous(int fd, int ifindex)
{
    struct packet_mreq m = {.mr_ifindex = ifindex, .mr_type = PACKET_MR_PROMISC};
    return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &m, sizeof(m));
}

int packet_socket_fanout(int fd, uint16_t group)
{
    int value = group | PACKET_FANOUT_HASH << 16;
    return setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &value, sizeof(value));
}

#define FILTER_LOAD(size, at) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_ABS | (size), (uint32_t)(at)))
#define FILTER_NEED(value) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 0))

unsigned packet_socket_geneve_filter(struct sock_filter *out, const struct ip_addr *address)
{
    unsigned n = 0;
    out[n++] = FILTER_LOAD(BPF_W, SKF_AD_OFF + SKF_AD_PKTTYPE);
    out[n++] = FILTER_NEED(PACKET_HOST);
    out[n++] = FILTER_LOAD(BPF_W, SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
    out[n++] = FILTER_NEED(0);
    out[n++] = FILTER_LOAD(BPF_H, 12);
    out[n++] = FILTER_NEED(ETH_P_IPV6);
    out[n++] = FILTER_LOAD(BPF_B, 20);
    out[n++] = FILTER_NEED(17);
    out[n++] = FILTER_LOAD(BPF_H, 56);
    out[n++] = FILTER_NEED(GENEVE_UDP_PORT);
    for (unsigned i = 0; i < 4; i++) {
        out[n++] = FILTER_LOAD(BPF_W, 38 + 4 * i);
        out[n++] = FILTER_NEED(load_be32(&address->w[i]));
    }
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    for (unsigned i = 0; i < n; i++)
        if (BPF_CLASS(out[i].code) == BPF_JMP)
            out[i].jf = (uint8_t)(n - 2 - i);
    return n;
}

struct ancillary { // of one message
    _Alignas(struct cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

// The kernel takes a VLAN tag out of the frame before we see it: TPID and TCI, 0 = none.
static uint32_t read_tag(struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        struct tpacket_auxdata aux;
        if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA || c->cmsg_len < CMSG_LEN(sizeof(aux)))
            continue;
        memcpy(&aux, CMSG_DATA(c), sizeof(aux));
        uint32_t tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETH_P_8021Q;
        return aux.tp_status & TP_STATUS_VLAN_VALID ? tpid << 16 | aux.tp_vlan_tci : 0;
    }
    return 0;
}

// It goes back where it was: the core decides about tagged frames.
static void restore_tag(struct packet *p, uint32_t tag)
{
    if (p->len < ETHERNET_LEN)
        return;
    packet_push(p, 4);
    memmove(p->data, p->data + 4, 12);
    store_be32(p->data + 12, tag);
}

static int receive(int fd, struct packet **packets, struct virtio_net_hdr *headers, uint32_t *tags, unsigned n,
                   unsigned *bad)
{
    struct mmsghdr messages[PLATFORM_BATCH];
    struct iovec iov[PLATFORM_BATCH][2];
    struct ancillary ancillary[PLATFORM_BATCH];
    n = MIN(n, PLATFORM_BATCH);
    for (unsigned i = 0; i < n; i++) {
        iov[i][0] = (struct iovec){&headers[i], VNET_HDR_LEN};
        iov[i][1] = (struct iovec){packets[i]->data, packets[i]->room};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = iov[i], .msg_iovlen = 2};
        if (tags) {
            messages[i].msg_hdr.msg_control = ancillary[i].bytes;
            messages[i].msg_hdr.msg_controllen = sizeof(ancillary[i].bytes);
        }
    }
    int got = recvmmsg(fd, messages, n, MSG_DONTWAIT, NULL);
    if (got < 0)
        return -1;
    unsigned good = 0;
    for (unsigned i = 0; i < (unsigned)got; i++) {
        if (messages[i].msg_hdr.msg_flags & MSG_TRUNC || messages[i].msg_len < VNET_HDR_LEN) {
            (*bad)++;
            continue;
        }
        struct packet *p = packets[i];
        p->len = p->head = messages[i].msg_len - VNET_HDR_LEN;
        packets[i] = packets[good];
        packets[good] = p;
        if (tags)
            tags[good] = read_tag(&messages[i].msg_hdr);
        headers[good++] = headers[i];
    }
    return (int)good;
}

int packet_socket_receive_raw(int fd, struct packet **packets, struct virtio_net_hdr *headers, unsigned n,
                              unsigned *bad)
{
    return receive(fd, packets, headers, NULL, n, bad);
}

int packet_socket_receive(int fd, struct packet **packets, unsigned n, unsigned *bad)
{
    struct virtio_net_hdr headers[PLATFORM_BATCH];
    uint32_t tags[PLATFORM_BATCH];
    int got = receive(fd, packets, headers, tags, n, bad);
    unsigned good = 0;
    for (int i = 0; i < got; i++) {
        struct packet *p = packets[i];
        if (!vnet_to_packet(&headers[i], p)) {
            (*bad)++;
            continue;
        }
        if (tags[i])
            restore_tag(p, tags[i]);
        packets[i] = packets[good];
        packets[good++] = p;
    }
    return got < 0 ? -1 : (int)good;
}

static bool device_is_full_or_gone(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ENETDOWN || error == ENXIO ||
           error == ENODEV || error == EBADF || error == ENETUNREACH;
}

unsigned packet_socket_send(int fd, struct packet **packets, unsigned n, unsigned *refused)
{
    struct mmsghdr messages[PLATFORM_BATCH];
    struct iovec iov[PLATFORM_BATCH][2];
    struct virtio_net_hdr headers[PLATFORM_BATCH];
    uint8_t source[PLATFORM_BATCH]; // message -> packet
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!vnet_from_packet(packets[i], &headers[count])) {
            (*refused)++;
            continue;
        }
        iov[count][0] = (struct iovec){&headers[count], VNET_HDR_LEN};
        iov[count][1] = (struct iovec){packets[i]->data, packets[i]->len};
        messages[count].msg_hdr = (struct msghdr){.msg_iov = iov[count], .msg_iovlen = 2};
        source[count++] = (uint8_t)i;
    }
    unsigned sent = 0;
    while (sent < count) {
        int rc = sendmmsg(fd, messages + sent, count - sent, MSG_DONTWAIT);
        if (rc > 0) {
            sent += (unsigned)rc;
        } else if (device_is_full_or_gone(errno)) {
            return source[sent];
        } else if (errno != EINTR) {
            (*refused)++; // this one alone; those behind it have done nothing wrong
            sent++;
        }
    }
    return n;
}
