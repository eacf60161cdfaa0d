// SPDX-License-Identifier: MPL-2.0
#include "engine/flow_key.h"

#include "engine/parse.h"

// Type of the answer to an ICMP query, or -1.
static int answering_type(uint8_t protocol, uint8_t type)
{
    if (protocol == IPPROTO_ICMP6)
        return type == 128 ? 129 : -1;
    if (type == 8)
        return 0;
    return type == 13 ? 14 : -1;
}

bool flow_key_reply(const struct flow_key *k, struct flow_key *out)
{
    struct flow_key reply = *k;
    reply.src = k->dst;
    reply.dst = k->src;
    reply.dir = !k->dir;
    bool icmp = k->ip_version == 4 ? k->protocol == IPPROTO_ICMP4 : k->protocol == IPPROTO_ICMP6;
    if (icmp) {
        uint8_t type = (uint8_t)(k->dport & 0xff), code = (uint8_t)(k->dport >> 8); // network order
        int answer = answering_type(k->protocol, type);
        if (answer < 0)
            return false;
        reply.dport = (uint16_t)(answer | code << 8);
    } else {
        reply.sport = k->dport;
        reply.dport = k->sport;
    }
    *out = reply;
    return true;
}
