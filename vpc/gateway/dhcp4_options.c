// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/dhcp4.h"

#define LEASE_DEFAULT_S 3600
#define LEASE_INFINITE 0xffffffffu
#define ROUTES_MAX 512 // bytes
#define DNS_MAX 8

// One option, in parts of 255 bytes where it is longer (RFC 3396). All of it or nothing.
static bool put(struct writer *w, uint8_t code, const uint8_t *value, uint32_t n)
{
    uint32_t parts = n ? (n + 254) / 255 : 1;
    if ((size_t)(w->end - w->at) < (size_t)n + 2 * parts)
        return false;
    do {
        uint32_t part = MIN(n, 255);
        *w->at++ = code;
        *w->at++ = (uint8_t)part;
        memcpy(w->at, value, part);
        w->at += part;
        value += part;
        n -= part;
    } while (n);
    return true;
}

static void put_be32(struct writer *w, uint8_t code, uint32_t value)
{
    uint8_t bytes[4];
    store_be32(bytes, value);
    put(w, code, bytes, 4);
}

static void put_text(struct writer *w, uint8_t code, const char *text)
{
    uint32_t n = 0;
    while (text && text[n] && n <= 255)
        n++;
    if (n > 0 && n <= 255)
        put(w, code, (const uint8_t *)text, n);
}

static void put_times(struct writer *w, uint32_t lease)
{
    lease = lease ? lease : LEASE_DEFAULT_S;
    bool forever = lease == LEASE_INFINITE;
    put_be32(w, DHCP4_LEASE, lease);
    put_be32(w, DHCP4_T1, forever ? lease : lease / 2);
    put_be32(w, DHCP4_T2, forever ? lease : (uint32_t)((uint64_t)lease * 7 / 8));
}

static void put_dns(struct writer *w, const struct blueprint_dhcp4 *dhcp)
{
    uint8_t servers[4 * DNS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < dhcp->n_dns && n < sizeof(servers); i++) {
        if (!ip_is_v4(&dhcp->dns[i]))
            continue;
        memcpy(servers + n, dhcp->dns[i].b + 12, 4);
        n += 4;
    }
    if (n)
        put(w, DHCP4_DNS, servers, n);
}

static uint32_t mask_of_guest(const struct gateway *g)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    for (uint32_t i = 0; gw->guest_prefix_subnet && i < gw->n_subnets; i++) {
        const struct ip_prefix *subnet = &gw->subnets[i];
        if (subnet->len >= 96 && ip_is_v4(&subnet->addr) && ip_in_prefix(&g->guest4, subnet))
            return (uint32_t)(0xffffffffull << (128 - subnet->len));
    }
    return 0xffffffff;
}

static bool put_route(struct writer *w, const struct ip_prefix *prefix, const struct ip_addr *via)
{
    uint8_t bits = (uint8_t)(prefix->len - 96), bytes = (uint8_t)((bits + 7) / 8);
    uint8_t *at = writer_take(w, 1u + bytes + 4);
    if (!at)
        return false;
    at[0] = bits;
    memcpy(at + 1, prefix->addr.b + 12, bytes);
    if (via)
        memcpy(at + 1 + bytes, via->b + 12, 4);
    return true;
}

// A next hop other than the gateway is reached like the gateway: by a route of its own, once.
static bool put_on_link(struct writer *w, const struct blueprint_dhcp4 *dhcp, uint32_t route)
{
    const struct ip_addr *via = &dhcp->routes[route].via;
    for (uint32_t i = 0; i < route; i++)
        if (ip_equal(&dhcp->routes[i].via, via))
            return true;
    struct ip_prefix host = {*via, 128};
    return put_route(w, &host, NULL);
}

// RFC 3442: a client that takes these ignores option 3, so the default route is here too, and comes before those
// that may not fit. With a host mask the gateway itself is reached by a route without next hop.
static uint32_t routes(const struct gateway *g, uint8_t *bytes, uint32_t size)
{
    static const struct ip_prefix all = {.addr = {.b = {[10] = 0xff, 0xff}}, .len = 96};
    const struct blueprint_gateway *gw = &g->b->gateway;
    struct writer w = {bytes, bytes + size};
    bool host_mask = mask_of_guest(g) == 0xffffffff;
    if (host_mask) {
        struct ip_prefix host = {gw->v4, 128};
        put_route(&w, &host, NULL);
    }
    put_route(&w, &all, &gw->v4);
    for (uint32_t i = 0; i < gw->dhcp4.n_routes; i++) {
        const struct blueprint_dhcp_route *route = &gw->dhcp4.routes[i];
        bool by_gateway = ip_is_unspecified(&route->via) || ip_equal(&route->via, &gw->v4);
        if (route->prefix.len < 96 || !ip_is_v4(&route->prefix.addr) || !(by_gateway || ip_is_v4(&route->via)))
            continue;
        if (host_mask && !by_gateway && !put_on_link(&w, &gw->dhcp4, i))
            break;
        if (!put_route(&w, &route->prefix, by_gateway ? &gw->v4 : &route->via))
            break;
    }
    return (uint32_t)(w.at - bytes);
}

static void put_routes(struct writer *w, const struct gateway *g, bool twice)
{
    uint8_t bytes[ROUTES_MAX];
    uint32_t room = (uint32_t)(w->end - w->at) / (twice ? 2 : 1);
    uint32_t parts = 2 * (room / 257 + 1);
    uint32_t n = routes(g, bytes, room > parts ? MIN(room - parts, ROUTES_MAX) : 0);
    if (n == 0)
        return;
    put(w, DHCP4_ROUTES, bytes, n);
    if (twice)
        put(w, DHCP4_MS_ROUTES, bytes, n);
}

void dhcp4_write_options(struct writer *w, const struct gateway *g, const struct dhcp4_question *q, uint8_t type)
{
    const struct blueprint_gateway *gw = &g->b->gateway;
    put(w, DHCP4_MESSAGE_TYPE, &type, 1);
    put(w, DHCP4_SERVER_ID, gw->v4.b + 12, 4);
    if (type == DHCP4_NAK) {
        if (q->client_id_len)
            put(w, DHCP4_CLIENT_ID, q->client_id, q->client_id_len);
        return;
    }
    if (q->type != DHCP4_INFORM)
        put_times(w, gw->dhcp4.lease_s);
    put_be32(w, DHCP4_MASK, mask_of_guest(g));
    put(w, DHCP4_ROUTER, gw->v4.b + 12, 4);
    put_dns(w, &gw->dhcp4);
    if (q->wants_mtu) {
        uint8_t mtu[2];
        store_be16(mtu, (uint16_t)MIN(g->b->vpc.mtu, 0xffff));
        put(w, DHCP4_MTU, mtu, 2);
    }
    struct writer rest = *w; // the client's id and names must leave room for the first routes
    rest.end -= MIN((size_t)(w->end - w->at), q->wants_ms_routes ? 64 : 32);
    if (q->client_id_len)
        put(&rest, DHCP4_CLIENT_ID, q->client_id, q->client_id_len); // RFC 6842
    put_text(&rest, DHCP4_HOSTNAME, gw->dhcp4.hostname);
    put_text(&rest, DHCP4_DOMAIN, gw->dhcp4.domain);
    w->at = rest.at;
    put_routes(w, g, q->wants_ms_routes);
}
