// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/netlink.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

bool netlink_open(struct netlink *n)
{
    n->seq = (uint32_t)time(NULL);
    n->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!n->socket)
        return false;
    if (mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) == 0)
        return true;
    netlink_close(n);
    return false;
}

void netlink_close(struct netlink *n)
{
    if (n->socket)
        mnl_socket_close(n->socket);
    n->socket = NULL;
}

struct nlmsghdr *netlink_message(void *buffer, uint16_t type, uint16_t flags, size_t extra)
{
    struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);
    h->nlmsg_type = type;
    h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    mnl_nlmsg_put_extra_header(h, extra);
    return h;
}

int netlink_request(struct netlink *n, struct nlmsghdr *h, mnl_cb_t cb, void *data)
{
    char answer[8192]; // MNL_SOCKET_BUFFER_SIZE is not a constant
    h->nlmsg_seq = ++n->seq;
    if (mnl_socket_sendto(n->socket, h, h->nlmsg_len) < 0)
        return -errno;
    for (;;) {
        ssize_t length = mnl_socket_recvfrom(n->socket, answer, sizeof(answer));
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return -errno;
        int more = mnl_cb_run(answer, (size_t)length, n->seq, mnl_socket_get_portid(n->socket), cb, data);
        if (more < 0 && errno != EPROTO) // EPROTO: an old answer with another sequence number
            return -errno;
        if (more == 0)
            return 0;
    }
}

int netlink_link_set(struct netlink *n, int ifindex, const struct mac_addr *mac, uint32_t mtu, unsigned flags_set)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWLINK, 0, sizeof(struct ifinfomsg));
    struct ifinfomsg *link = mnl_nlmsg_get_payload(h);
    link->ifi_family = AF_UNSPEC;
    link->ifi_index = ifindex;
    link->ifi_flags = link->ifi_change = flags_set;
    if (mac)
        mnl_attr_put(h, IFLA_ADDRESS, sizeof(mac->b), mac->b);
    if (mtu)
        mnl_attr_put_u32(h, IFLA_MTU, mtu);
    return netlink_request(n, h, NULL, NULL);
}

int netlink_address_add(struct netlink *n, int ifindex, int family, const void *addr, uint8_t prefix_len)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, sizeof(struct ifaddrmsg));
    struct ifaddrmsg *a = mnl_nlmsg_get_payload(h);
    a->ifa_family = (uint8_t)family;
    a->ifa_prefixlen = prefix_len;
    a->ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD;
    a->ifa_index = (unsigned)ifindex;
    size_t size = family == AF_INET ? 4 : 16;
    mnl_attr_put(h, IFA_LOCAL, size, addr);
    mnl_attr_put(h, IFA_ADDRESS, size, addr);
    return netlink_request(n, h, NULL, NULL);
}

int netlink_route_add(struct netlink *n, int ifindex, int family, const void *addr, uint8_t prefix_len)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(struct rtmsg));
    struct rtmsg *r = mnl_nlmsg_get_payload(h);
    r->rtm_family = (uint8_t)family;
    r->rtm_dst_len = prefix_len;
    r->rtm_table = RT_TABLE_MAIN;
    r->rtm_protocol = RTPROT_STATIC;
    r->rtm_scope = family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
    r->rtm_type = RTN_UNICAST;
    mnl_attr_put(h, RTA_DST, family == AF_INET ? 4 : 16, addr);
    mnl_attr_put_u32(h, RTA_OIF, (uint32_t)ifindex);
    return netlink_request(n, h, NULL, NULL);
}
