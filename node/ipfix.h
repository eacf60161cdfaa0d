// SPDX-License-Identifier: MPL-2.0
// ipfix.h: flow records as IPFIX (RFC 7011, elements of RFC 7012 and the IANA registry, RFC 5103 for the way back) in
// messages for one UDP collector. Templates go ahead of the first record and again each minute (RFC 7011 section 8.4).
#ifndef NEREUS_NODE_IPFIX_H
#define NEREUS_NODE_IPFIX_H

#include "core/node.h"

#define IPFIX_MESSAGE 1400u // fits every path
#define IPFIX_TEMPLATES_MS 60000u

struct ipfix {
    uint32_t sequence;     // data records in messages before this one
    uint32_t records;      // in this one
    uint64_t templates_at; // wall ms of the last templates; 0 = never
    uint16_t set;          // template of the open data set, 0 = none
    size_t set_at, len;
    uint8_t message[IPFIX_MESSAGE];
    void (*send)(void *ctx, const void *message, size_t len);
    void *ctx;
};

void ipfix_init(struct ipfix *x, void (*send)(void *ctx, const void *message, size_t len), void *ctx);
// at_ms: wall clock of the record; now_ms: of now.
void ipfix_add(struct ipfix *x, const struct flow_record *r, uint64_t at_ms, uint64_t now_ms);
void ipfix_flush(struct ipfix *x, uint64_t now_ms); // sends what waits

#endif
