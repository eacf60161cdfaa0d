// SPDX-License-Identifier: MPL-2.0
// dhcp6.h: between the DHCPv6 server (dhcp6.c) and its reader (dhcp6_read.c). Private to the gateway.
#ifndef NEREUS_VPC_GATEWAY_DHCP6_H
#define NEREUS_VPC_GATEWAY_DHCP6_H

#include "vpc/gateway/gateway_private.h"

enum dhcp6_type {
    DHCP6_SOLICIT = 1,
    DHCP6_ADVERTISE,
    DHCP6_REQUEST,
    DHCP6_CONFIRM,
    DHCP6_RENEW,
    DHCP6_REBIND,
    DHCP6_REPLY,
    DHCP6_RELEASE,
    DHCP6_DECLINE,
    DHCP6_RECONFIGURE,
    DHCP6_INFORMATION_REQUEST,
    DHCP6_RELAY_FORWARD,
    DHCP6_RELAY_REPLY
};

enum dhcp6_option {
    DHCP6_CLIENT_ID = 1,
    DHCP6_SERVER_ID = 2,
    DHCP6_IA_NA = 3,
    DHCP6_IA_TA = 4,
    DHCP6_IA_ADDR = 5,
    DHCP6_ORO = 6,
    DHCP6_PREFERENCE = 7,
    DHCP6_RELAY_MESSAGE = 9,
    DHCP6_STATUS = 13,
    DHCP6_RAPID_COMMIT = 14,
    DHCP6_DNS = 23,
    DHCP6_DOMAINS = 24,
    DHCP6_IA_PD = 25,
    DHCP6_IA_PREFIX = 26
};

enum dhcp6_status {
    DHCP6_SUCCESS = 0,
    DHCP6_NO_ADDRS = 2,
    DHCP6_NOT_ON_LINK = 4,
    DHCP6_USE_MULTICAST = 5,
    DHCP6_NO_PREFIX = 6
};

#define DHCP6_DUID_MAX 130 // with its type, RFC 8415 section 11.1
#define DHCP6_IAS_MAX 8
#define DHCP6_FOREIGN_MAX 8

struct dhcp6_ia {
    uint16_t kind; // DHCP6_IA_NA, IA_TA, IA_PD
    uint8_t id[4];
};

struct dhcp6_question {
    uint8_t type, xid[3];
    uint8_t duid_len, duid[DHCP6_DUID_MAX]; // of the client; length 0: none
    bool has_server, server_is_us;
    bool rapid_commit, wants_dns, wants_domains;
    uint8_t n_ias;
    struct dhcp6_ia ias[DHCP6_IAS_MAX];
    uint32_t n_addresses; // named in all IA_NA, ours included
    uint32_t n_wrong;     // those that are not the port's
    uint8_t n_foreign;    // the first few of these, to be taken back from the client
    struct {
        uint8_t ia; // index
        struct ip_addr addr;
    } foreign[DHCP6_FOREIGN_MAX];
};

#define DHCP6_SERVER_DUID_LEN 10
void dhcp6_server_duid(const struct gateway *g, uint8_t duid[DHCP6_SERVER_DUID_LEN]);

// False: malformed. Options nest at most message > IA > address > status; what nests otherwise is malformed, so the
// reader has three loops and no recursion.
bool dhcp6_read(struct dhcp6_question *q, const struct gateway *g, const uint8_t *message, uint32_t len);

#endif
