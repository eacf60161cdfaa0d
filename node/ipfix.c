// SPDX-License-Identifier: MPL-2.0
#include "node/ipfix.h"

#include <string.h>

#include "api/json/text.h"

#define HEADER 16u
#define SET_HEADER 4u
#define RECORD_MAX 320u
#define REVERSE_PEN 29305u // RFC 5103: the element, of the way back
#define VARIABLE 0xffffu
#define DOMAIN 1u

enum { TEMPLATE_V4 = 256, TEMPLATE_V6 = 257 };

struct element {
    uint16_t id, length;
    bool reverse;
};

// The order in which ipfix_add writes. Addresses differ by family and stand before the names.
static const struct element common[] = {
    {152, 8, false},                               // flowStartMilliseconds
    {153, 8, false},                               // flowEndMilliseconds
    {4, 1, false},                                 // protocolIdentifier
    {61, 1, false},                                // flowDirection: 0 from the guest
    {233, 1, false},                               // firewallEvent: 1 created, 2 deleted, 3 denied
    {136, 1, false},                               // flowEndReason
    {351, 8, false},                               // layer2SegmentId: the VNI
    {148, 8, false},                               // flowId
    {138, 8, false},                               // observationPointId: the port's index
    {86, 8, false},                                // packetTotalCount
    {85, 8, false},                                // octetTotalCount
    {86, 8, true},   {85, 8, true}, {7, 2, false}, // sourceTransportPort
    {11, 2, false},                                // destinationTransportPort
    {227, 2, false},                               // postNAPTSourceTransportPort
    {228, 2, false},                               // postNAPTDestinationTransportPort
};
static const uint16_t addresses[2][4] = {{8, 12, 225, 226}, {27, 28, 281, 282}}; // source, destination, after NAT
static const uint16_t names[] = {82 /* interfaceName: the port */, 335 /* selectorName: the rule */};

static void put16(struct ipfix *x, uint16_t v)
{
    store_be16(x->message + x->len, v);
    x->len += 2;
}

static void put32(struct ipfix *x, uint32_t v)
{
    store_be32(x->message + x->len, v);
    x->len += 4;
}

static void put64(struct ipfix *x, uint64_t v)
{
    store_be64(x->message + x->len, v);
    x->len += 8;
}

static void put(struct ipfix *x, const void *bytes, size_t n)
{
    memcpy(x->message + x->len, bytes, n);
    x->len += n;
}

static void put_name(struct ipfix *x, const char *name) // RFC 7011 section 7: shorter than 255
{
    size_t n = strlen(name);
    x->message[x->len++] = (uint8_t)n;
    put(x, name, n);
}

void ipfix_init(struct ipfix *x, void (*send)(void *ctx, const void *message, size_t len), void *ctx)
{
    memset(x, 0, sizeof(*x));
    x->len = HEADER;
    x->send = send;
    x->ctx = ctx;
}

static void close_set(struct ipfix *x)
{
    if (x->set)
        store_be16(x->message + x->set_at + 2, (uint16_t)(x->len - x->set_at));
    x->set = 0;
}

static void open_set(struct ipfix *x, uint16_t id)
{
    close_set(x);
    x->set = id;
    x->set_at = x->len;
    put32(x, (uint32_t)id << 16);
}

static void put_element(struct ipfix *x, struct element e)
{
    put16(x, e.reverse ? e.id | 0x8000 : e.id);
    put16(x, e.length);
    if (e.reverse)
        put32(x, REVERSE_PEN);
}

static void put_templates(struct ipfix *x)
{
    open_set(x, 2);
    for (unsigned v6 = 0; v6 < 2; v6++) {
        put16(x, v6 ? TEMPLATE_V6 : TEMPLATE_V4);
        put16(x, ARRAY_LEN(common) + 4 + ARRAY_LEN(names));
        for (unsigned i = 0; i < ARRAY_LEN(common); i++)
            put_element(x, common[i]);
        for (unsigned i = 0; i < 4; i++)
            put_element(x, (struct element){addresses[v6][i], v6 ? 16 : 4, false});
        for (unsigned i = 0; i < ARRAY_LEN(names); i++)
            put_element(x, (struct element){names[i], VARIABLE, false});
    }
    close_set(x);
}

void ipfix_flush(struct ipfix *x, uint64_t now_ms)
{
    close_set(x);
    if (x->len > HEADER) {
        store_be16(x->message, 10);
        store_be16(x->message + 2, (uint16_t)x->len);
        store_be32(x->message + 4, (uint32_t)(now_ms / 1000));
        store_be32(x->message + 8, x->sequence);
        store_be32(x->message + 12, DOMAIN);
        x->send(x->ctx, x->message, x->len);
    }
    x->sequence += x->records;
    x->records = 0;
    x->len = HEADER;
}

static uint8_t end_reason(const struct flow_record *r)
{
    static const uint8_t reasons[CONN_ENDS] = {[CONN_END_CLOSED] = 3,
                                               [CONN_END_EXPIRED] = 1,
                                               [CONN_END_EVICTED] = 5,
                                               [CONN_END_REVOKED] = 4,
                                               [CONN_END_PORT] = 4};
    return r->kind == FLOW_RECORD_END && r->why < CONN_ENDS ? reasons[r->why] : 0;
}

static void put_address(struct ipfix *x, const struct ip_addr *a, bool v6)
{
    put(x, v6 ? a->b : a->b + 12, v6 ? 16 : 4);
}

void ipfix_add(struct ipfix *x, const struct flow_record *r, uint64_t at_ms, uint64_t now_ms)
{
    unsigned there = r->opener & 1, back = !there;
    const struct flow_key *k = &r->key[there], *answer = &r->key[back];
    bool v6 = k->ip_version == 6;
    char port[UUID_TEXT];
    if (x->len + SET_HEADER + RECORD_MAX > IPFIX_MESSAGE)
        ipfix_flush(x, now_ms);
    if (x->templates_at == 0 || now_ms - x->templates_at >= IPFIX_TEMPLATES_MS) {
        ipfix_flush(x, now_ms);
        put_templates(x);
        x->templates_at = now_ms;
    }
    uint16_t template = v6 ? TEMPLATE_V6 : TEMPLATE_V4;
    if (x->set != template)
        open_set(x, template);
    put64(x, at_ms - r->age_ms);
    put64(x, at_ms);
    put(x, (uint8_t[]){k->protocol, (uint8_t)there, (uint8_t)(r->kind + 1), end_reason(r)}, 4);
    put64(x, r->vni);
    put64(x, r->connection);
    put64(x, r->index);
    put64(x, r->packets[there]);
    put64(x, r->bytes[there]);
    put64(x, r->packets[back]);
    put64(x, r->bytes[back]);
    put(x, &k->sport, 2);
    put(x, &k->dport, 2);
    put(x, r->has[back] ? &answer->dport : &k->sport, 2);
    put(x, r->has[back] ? &answer->sport : &k->dport, 2);
    put_address(x, &k->src, v6);
    put_address(x, &k->dst, v6);
    put_address(x, r->has[back] ? &answer->dst : &k->src, v6);
    put_address(x, r->has[back] ? &answer->src : &k->dst, v6);
    uuid_to_text(&r->port, port);
    put_name(x, port);
    put_name(x, r->rule);
    x->records++;
}
