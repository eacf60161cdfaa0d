// SPDX-License-Identifier: MPL-2.0
// dhcp4.h: between the DHCPv4 server (dhcp4.c) and its option encoder (dhcp4_options.c). Private to the gateway.
#ifndef NEREUS_VPC_GATEWAY_DHCP4_H
#define NEREUS_VPC_GATEWAY_DHCP4_H

#include "vpc/gateway/gateway_private.h"

enum dhcp4_type {
    DHCP4_DISCOVER = 1,
    DHCP4_OFFER,
    DHCP4_REQUEST,
    DHCP4_DECLINE,
    DHCP4_ACK,
    DHCP4_NAK,
    DHCP4_RELEASE,
    DHCP4_INFORM
};

enum dhcp4_option {
    DHCP4_PAD = 0,
    DHCP4_MASK = 1,
    DHCP4_ROUTER = 3,
    DHCP4_DNS = 6,
    DHCP4_HOSTNAME = 12,
    DHCP4_DOMAIN = 15,
    DHCP4_MTU = 26,
    DHCP4_REQUESTED = 50,
    DHCP4_LEASE = 51,
    DHCP4_OVERLOAD = 52,
    DHCP4_MESSAGE_TYPE = 53,
    DHCP4_SERVER_ID = 54,
    DHCP4_PARAMETERS = 55,
    DHCP4_MAX_SIZE = 57,
    DHCP4_T1 = 58,
    DHCP4_T2 = 59,
    DHCP4_CLIENT_ID = 61,
    DHCP4_ROUTES = 121,    // RFC 3442
    DHCP4_MS_ROUTES = 249, // the same, as Microsoft's older clients ask for it
    DHCP4_END = 255
};

struct dhcp4_question { // addresses as in the packet
    uint8_t op, type;   // type 0: none, plain BOOTP
    uint8_t overload;
    uint8_t xid[4], flags[2], ciaddr[4], giaddr[4];
    struct mac_addr chaddr;
    bool has_requested, has_server;
    uint8_t requested[4], server[4];
    uint16_t max_size; // of the datagram the client can take; 0: it did not say
    bool wants_mtu, wants_ms_routes;
    uint8_t client_id_len;
    uint8_t client_id[255];
};

// All options of an answer of `type`, END excepted. What does not fit is left out whole, least important last.
void dhcp4_write_options(struct writer *w, const struct gateway *g, const struct dhcp4_question *q, uint8_t type);

#endif
