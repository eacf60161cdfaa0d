// SPDX-License-Identifier: MPL-2.0
// The DHCPv6 server (RFC 8415). Like DHCPv4's: one address for one client, no state, one answer to each valid
// question. The first IA_NA gets the address; IA_TA, IA_PD and further IA_NAs are told that there is none.
#include "vpc/gateway/dhcp6.h"

#define MESSAGE_MAX (1280 - IP6_LEN - UDP_LEN) // passes every link
#define LEASE_DEFAULT_S 3600
#define LEASE_INFINITE 0xffffffffu
#define DNS_MAX 8

void dhcp6_server_duid(const struct gateway *g, uint8_t duid[DHCP6_SERVER_DUID_LEN]) // DUID-LL, section 11.4
{
    store_be16(duid, 3);
    store_be16(duid + 2, 1);
    memcpy(duid + 4, g->b->gateway.mac.b, 6);
}

// Room for an option's value, NULL when it does not fit.
static uint8_t *put(struct writer *w, uint16_t code, uint32_t n)
{
    uint8_t *o = writer_take(w, 4 + n);
    if (!o)
        return NULL;
    store_be16(o, code);
    store_be16(o + 2, (uint16_t)n);
    return o + 4;
}

static void put_bytes(struct writer *w, uint16_t code, const uint8_t *value, uint32_t n)
{
    uint8_t *o = put(w, code, n);
    if (o)
        memcpy(o, value, n);
}

static void put_status(struct writer *w, enum dhcp6_status status)
{
    uint8_t *o = put(w, DHCP6_STATUS, 2);
    if (o)
        store_be16(o, (uint16_t)status);
}

static void put_dns(struct writer *w, const struct blueprint_dhcp6 *dhcp)
{
    uint8_t servers[16 * DNS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < dhcp->n_dns && n < sizeof(servers); i++) {
        if (ip_is_v4(&dhcp->dns[i]))
            continue;
        memcpy(servers + n, dhcp->dns[i].b, 16);
        n += 16;
    }
    if (n)
        put_bytes(w, DHCP6_DNS, servers, n);
}

// A domain name as labels (RFC 1035 section 3.1). Left out when it is not a name.
static void put_domain(struct writer *w, const char *name)
{
    uint8_t labels[256];
    uint32_t n = 0, length_at = 0;
    if (!name || !*name)
        return;
    for (labels[n++] = 0; *name; name++) {
        if (*name == '.' && name[1] == 0)
            break;
        if (n == sizeof(labels) - 1)
            return;
        if (*name == '.') {
            if (labels[length_at] == 0)
                return;
            length_at = n;
            labels[n++] = 0;
        } else {
            labels[n++] = (uint8_t)*name;
            if (++labels[length_at] > 63)
                return;
        }
    }
    if (labels[length_at] == 0)
        return;
    labels[n++] = 0;
    put_bytes(w, DHCP6_DOMAINS, labels, n);
}

static void write_address(uint8_t *o, const struct ip_addr *addr, uint32_t preferred, uint32_t valid)
{
    memcpy(o, addr->b, 16);
    store_be32(o + 16, preferred);
    store_be32(o + 20, valid);
}

// The addresses that the client holds in this IA and must let go: lifetimes of zero (section 18.3.4).
static void put_foreign(struct writer *w, const struct dhcp6_question *q, uint8_t ia)
{
    if (q->type != DHCP6_RENEW && q->type != DHCP6_REBIND)
        return;
    for (uint8_t i = 0; i < q->n_foreign; i++) {
        uint8_t *o = q->foreign[i].ia == ia ? put(w, DHCP6_IA_ADDR, 24) : NULL;
        if (o)
            write_address(o, &q->foreign[i].addr, 0, 0);
    }
}

static void put_ia(struct writer *w, const struct gateway *g, const struct dhcp6_question *q, uint8_t index, bool first)
{
    const struct dhcp6_ia *ia = &q->ias[index];
    uint32_t lease = g->b->gateway.dhcp6.lease_s ? g->b->gateway.dhcp6.lease_s : LEASE_DEFAULT_S;
    uint8_t *o = put(w, ia->kind, ia->kind == DHCP6_IA_TA ? 4 : 12);
    if (!o)
        return;
    memcpy(o, ia->id, 4);
    uint8_t *address = NULL;
    if (ia->kind == DHCP6_IA_NA && first && !ip_is_unspecified(&g->guest6))
        address = put(w, DHCP6_IA_ADDR, 24);
    if (address) {
        bool forever = lease == LEASE_INFINITE;
        store_be32(o + 4, forever ? lease : lease / 2);
        store_be32(o + 8, forever ? lease : (uint32_t)((uint64_t)lease * 4 / 5));
        write_address(address, &g->guest6, lease, lease);
    } else {
        put_status(w, ia->kind == DHCP6_IA_PD ? DHCP6_NO_PREFIX : DHCP6_NO_ADDRS);
    }
    if (ia->kind == DHCP6_IA_NA)
        put_foreign(w, q, index);
    store_be16(o - 2, (uint16_t)(w->at - o));
}

static void put_ias(struct writer *w, const struct gateway *g, const struct dhcp6_question *q)
{
    bool first = true;
    for (uint8_t i = 0; i < q->n_ias; i++) {
        put_ia(w, g, q, i, first);
        first = first && q->ias[i].kind != DHCP6_IA_NA;
    }
}

static void put_configuration(struct writer *w, const struct gateway *g, const struct dhcp6_question *q)
{
    if (q->wants_dns)
        put_dns(w, &g->b->gateway.dhcp6);
    if (q->wants_domains)
        put_domain(w, g->b->gateway.dhcp6.domain);
}

static struct writer begin(struct ask *a, const struct dhcp6_question *q, uint8_t type)
{
    uint8_t *m = reply_l4(a->p, true) + UDP_LEN, duid[DHCP6_SERVER_DUID_LEN];
    struct writer w = {m + 4, m + MESSAGE_MAX};
    m[0] = type;
    memcpy(m + 1, q->xid, 3);
    if (q->duid_len)
        put_bytes(&w, DHCP6_CLIENT_ID, q->duid, q->duid_len);
    dhcp6_server_duid(a->g, duid);
    put_bytes(&w, DHCP6_SERVER_ID, duid, sizeof(duid));
    return w;
}

static enum gateway_verdict finish(struct ask *a, const struct writer *w, const char *what)
{
    uint8_t *udp = reply_l4(a->p, true);
    uint32_t len = (uint32_t)(w->at - udp) - UDP_LEN;
    gateway_reply_udp(udp, DHCP6_SERVER_PORT, DHCP6_CLIENT_PORT, len);
    struct reply r = {a->g->b->gateway.mac, a->pp->src_mac, a->g->link_local, a->pp->src, IPPROTO_UDP4, REPLY_TTL};
    gateway_reply_finish(a->p, &r, UDP_LEN + len);
    return gateway_answered(a, what, &a->g->guest6);
}

static enum gateway_verdict answer_status(struct ask *a, const struct dhcp6_question *q, enum dhcp6_status status,
                                          const char *what)
{
    struct writer w = begin(a, q, DHCP6_REPLY);
    put_status(&w, status);
    return finish(a, &w, what);
}

static enum gateway_verdict answer_solicit(struct ask *a, const struct dhcp6_question *q)
{
    struct writer w = begin(a, q, q->rapid_commit ? DHCP6_REPLY : DHCP6_ADVERTISE);
    if (q->rapid_commit) {
        put(&w, DHCP6_RAPID_COMMIT, 0);
    } else {
        uint8_t *preference = put(&w, DHCP6_PREFERENCE, 1); // no use to wait for other servers
        if (preference)
            *preference = 255;
    }
    put_ias(&w, a->g, q);
    put_configuration(&w, a->g, q);
    return finish(a, &w, q->rapid_commit ? "DHCPv6 Solicit with Reply" : "DHCPv6 Solicit with Advertise");
}

static enum gateway_verdict answer_reply(struct ask *a, const struct dhcp6_question *q, const char *what)
{
    struct writer w = begin(a, q, DHCP6_REPLY);
    if (q->type != DHCP6_INFORMATION_REQUEST)
        put_ias(&w, a->g, q);
    put_configuration(&w, a->g, q);
    return finish(a, &w, what);
}

// Section 16: which messages carry which identifiers.
static enum drop why_refused(const struct dhcp6_question *q)
{
    switch (q->type) {
    case DHCP6_ADVERTISE:
    case DHCP6_REPLY:
    case DHCP6_RECONFIGURE:
    case DHCP6_RELAY_REPLY:
        return DROP_DHCP_SERVER;
    case DHCP6_SOLICIT:
    case DHCP6_CONFIRM:
    case DHCP6_REBIND:
        return q->duid_len && !q->has_server ? DROP_NONE : DROP_DHCP_INVALID;
    case DHCP6_REQUEST:
    case DHCP6_RENEW:
    case DHCP6_RELEASE:
    case DHCP6_DECLINE:
        if (!q->duid_len || !q->has_server)
            return DROP_DHCP_INVALID;
        return q->server_is_us ? DROP_NONE : DROP_DHCP_IGNORED;
    case DHCP6_INFORMATION_REQUEST:
        if (q->n_ias)
            return DROP_DHCP_INVALID;
        return q->has_server && !q->server_is_us ? DROP_DHCP_IGNORED : DROP_NONE;
    default:
        return DROP_DHCP_IGNORED; // relays, and what later RFCs added
    }
}

static enum gateway_verdict answer(struct ask *a, const struct dhcp6_question *q)
{
    switch (q->type) {
    case DHCP6_SOLICIT:
        return answer_solicit(a, q);
    case DHCP6_CONFIRM:
        if (q->n_addresses == 0) // section 18.3.3
            return refused(a, DROP_DHCP_IGNORED);
        return answer_status(a, q, q->n_wrong ? DHCP6_NOT_ON_LINK : DHCP6_SUCCESS, "DHCPv6 Confirm with Reply");
    case DHCP6_RELEASE:
    case DHCP6_DECLINE:
        return answer_status(a, q, DHCP6_SUCCESS, "DHCPv6 Release or Decline with Reply");
    case DHCP6_INFORMATION_REQUEST:
        return answer_reply(a, q, "DHCPv6 Information-request with Reply");
    case DHCP6_REQUEST:
        return answer_reply(a, q, "DHCPv6 Request with Reply");
    default:
        return answer_reply(a, q, "DHCPv6 Renew or Rebind with Reply");
    }
}

// A client may only use unicast when told so, which this server never does (section 16, 18.4).
static enum gateway_verdict answer_unicast(struct ask *a, const struct dhcp6_question *q)
{
    if (!q->has_server)
        return refused(a, DROP_DHCP_IGNORED);
    return answer_status(a, q, DHCP6_USE_MULTICAST, "unicast DHCPv6 with UseMulticast");
}

enum gateway_verdict gateway_dhcp6_out(struct ask *a)
{
    struct dhcp6_question q;
    uint32_t n;
    if (!a->g->b->gateway.dhcp6.enabled)
        return refused(a, DROP_DHCP_OFF);
    if (a->pp->flags & (PARSE_FRAG_FIRST | PARSE_FRAG_LATER))
        return refused(a, DROP_FRAGMENT);
    const uint8_t *message = gateway_udp_payload(a->p, a->pp, &n);
    if (!message || ip_is_unspecified(&a->pp->src) || !dhcp6_read(&q, a->g, message, n))
        return refused(a, DROP_DHCP_INVALID);
    enum drop why = why_refused(&q);
    if (why)
        return refused(a, why);
    return ip_is_multicast(&a->pp->dst) ? answer(a, &q) : answer_unicast(a, &q);
}
