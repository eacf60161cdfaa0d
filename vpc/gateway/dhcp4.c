// SPDX-License-Identifier: MPL-2.0
// The DHCPv4 server (RFC 2131, 2132, 3396, 3442, 6842). It has one lease for one client and keeps no state: the
// address is the blueprint's, so every valid question has one answer.
#include "vpc/gateway/dhcp4.h"

#define BOOTP_LEN 236
#define BOOTP_MIN 300 // RFC 951; some clients refuse less
#define DATAGRAM_MIN 576
#define DATAGRAM_MAX 1500
#define COOKIE 0x63825363u

enum {
    AT_OP = 0,
    AT_HTYPE = 1,
    AT_HLEN = 2,
    AT_XID = 4,
    AT_FLAGS = 10,
    AT_CIADDR = 12,
    AT_YIADDR = 16,
    AT_GIADDR = 24,
    AT_CHADDR = 28,
    AT_SNAME = 44,
    AT_FILE = 108
};

static bool read_option(struct dhcp4_question *q, uint8_t code, const uint8_t *v, uint32_t n)
{
    switch (code) {
    case DHCP4_MESSAGE_TYPE:
        q->type = v[0];
        return n == 1;
    case DHCP4_REQUESTED:
        q->has_requested = true;
        return n == 4 && (memcpy(q->requested, v, 4), true);
    case DHCP4_SERVER_ID:
        q->has_server = true;
        return n == 4 && (memcpy(q->server, v, 4), true);
    case DHCP4_MAX_SIZE:
        q->max_size = n == 2 ? load_be16(v) : 0;
        return n == 2;
    case DHCP4_OVERLOAD:
        q->overload = v[0];
        return n == 1;
    case DHCP4_PARAMETERS:
        for (uint32_t i = 0; i < n; i++) {
            q->wants_mtu |= v[i] == DHCP4_MTU;
            q->wants_ms_routes |= v[i] == DHCP4_MS_ROUTES;
        }
        return true;
    case DHCP4_CLIENT_ID: // may come in parts (RFC 3396)
        if (q->client_id_len + n > sizeof(q->client_id))
            return false;
        memcpy(q->client_id + q->client_id_len, v, n);
        q->client_id_len = (uint8_t)(q->client_id_len + n);
        return true;
    default:
        return true;
    }
}

static bool read_options(struct dhcp4_question *q, const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at != DHCP4_END) {
        if (*at == DHCP4_PAD) {
            at++;
            continue;
        }
        if (end - at < 2 || end - at - 2 < at[1])
            return false;
        if (at[1] && !read_option(q, at[0], at + 2, at[1]))
            return false;
        at += 2 + at[1];
    }
    return true;
}

static bool read_question(struct dhcp4_question *q, const uint8_t *m, uint32_t n)
{
    *q = (struct dhcp4_question){0};
    if (n < BOOTP_LEN + 4 || m[AT_HTYPE] != 1 || m[AT_HLEN] != 6 || load_be32(m + BOOTP_LEN) != COOKIE)
        return false;
    q->op = m[AT_OP];
    memcpy(q->xid, m + AT_XID, 4);
    memcpy(q->flags, m + AT_FLAGS, 2);
    memcpy(q->ciaddr, m + AT_CIADDR, 4);
    memcpy(q->giaddr, m + AT_GIADDR, 4);
    memcpy(q->chaddr.b, m + AT_CHADDR, 6);
    if (!read_options(q, m + BOOTP_LEN + 4, m + n))
        return false;
    uint8_t overload = q->overload; // options may lie in `file` and `sname` too
    if ((overload & 1) && !read_options(q, m + AT_FILE, m + BOOTP_LEN))
        return false;
    return !(overload & 2) || read_options(q, m + AT_SNAME, m + AT_FILE);
}

static bool is_zero4(const uint8_t *address)
{
    return load_be32(address) == 0;
}

// Where the client wants its address confirmed: both ways to name it must name ours (RFC 2131 section 4.3.2).
static bool names_lease(const struct dhcp4_question *q, const struct ip_addr *lease)
{
    if (!is_zero4(q->ciaddr) && memcmp(q->ciaddr, lease->b + 12, 4) != 0)
        return false;
    return !q->has_requested || memcmp(q->requested, lease->b + 12, 4) == 0;
}

// RFC 2131 section 4.1, last paragraphs. A ciaddr counts in an ACK only, where it has been found to be the guest's own.
static void choose_destination(const struct dhcp4_question *q, uint8_t type, const struct ip_addr *lease,
                               struct reply *r)
{
    bool has_address = type == DHCP4_ACK && !is_zero4(q->ciaddr);
    r->to_mac = q->chaddr;
    if (type == DHCP4_NAK || (!has_address && ((q->flags[0] & 0x80) || q->type == DHCP4_INFORM))) {
        r->to = gateway_ip4_broadcast;
        r->to_mac = gateway_mac_broadcast;
    } else if (has_address) {
        r->to = ip_from_v4(q->ciaddr);
    } else {
        r->to = *lease;
    }
}

static void write_answer(struct ask *a, const struct dhcp4_question *q, uint8_t type)
{
    const struct gateway *g = a->g;
    struct packet *p = a->p;
    uint8_t *udp = reply_l4(p, false), *m = udp + UDP_LEN;
    uint32_t datagram = MAX(q->max_size, DATAGRAM_MIN);
    datagram = MIN(MIN(datagram, DATAGRAM_MAX), MAX(g->b->vpc.mtu, DATAGRAM_MIN));

    memset(m, 0, BOOTP_MIN);
    m[AT_OP] = 2;
    m[AT_HTYPE] = 1;
    m[AT_HLEN] = 6;
    memcpy(m + AT_XID, q->xid, 4);
    memcpy(m + AT_FLAGS, q->flags, 2);
    memcpy(m + AT_CHADDR, q->chaddr.b, 6);
    if (type == DHCP4_ACK)
        memcpy(m + AT_CIADDR, q->ciaddr, 4);
    if (type != DHCP4_NAK && q->type != DHCP4_INFORM)
        memcpy(m + AT_YIADDR, g->guest4.b + 12, 4);
    store_be32(m + BOOTP_LEN, COOKIE);

    struct writer w = {m + BOOTP_LEN + 4, p->data + ETHERNET_LEN + datagram - 1}; // the last byte is END's
    dhcp4_write_options(&w, g, q, type);
    *w.at++ = DHCP4_END;
    uint32_t n = MAX((uint32_t)(w.at - m), BOOTP_MIN);

    struct reply r = {
        .from_mac = g->b->gateway.mac, .from = g->b->gateway.v4, .protocol = IPPROTO_UDP4, .ttl = REPLY_TTL};
    choose_destination(q, type, &g->guest4, &r);
    gateway_reply_udp(udp, DHCP4_SERVER_PORT, DHCP4_CLIENT_PORT, n);
    gateway_reply_finish(p, &r, UDP_LEN + n);
}

static enum gateway_verdict answer(struct ask *a, const struct dhcp4_question *q, uint8_t type)
{
    write_answer(a, q, type);
    if (type == DHCP4_OFFER)
        return gateway_answered(a, "DHCPDISCOVER with DHCPOFFER", &a->g->guest4);
    if (type == DHCP4_NAK)
        return gateway_answered(a, "DHCPREQUEST for another address with DHCPNAK", NULL);
    return gateway_answered(a, q->type == DHCP4_INFORM ? "DHCPINFORM with DHCPACK" : "DHCPREQUEST with DHCPACK",
                            &a->g->guest4);
}

static enum gateway_verdict answer_request(struct ask *a, const struct dhcp4_question *q)
{
    if (q->has_server && memcmp(q->server, a->g->b->gateway.v4.b + 12, 4) != 0)
        return refused(a, DROP_DHCP_IGNORED); // the client chose another server
    if (!q->has_requested && is_zero4(q->ciaddr))
        return refused(a, DROP_DHCP_INVALID);
    return answer(a, q, names_lease(q, &a->g->guest4) ? DHCP4_ACK : DHCP4_NAK);
}

// The address that asks for settings must be one that the guest may have, whatever anti-spoof is set to.
static enum gateway_verdict answer_inform(struct ask *a, const struct dhcp4_question *q)
{
    struct ip_addr own = ip_from_v4(q->ciaddr);
    if (!is_zero4(q->ciaddr) && !gateway_address_allowed(a->g, &own, NULL, BLUEPRINT_OUT))
        return refused(a, DROP_DHCP_INVALID);
    return answer(a, q, DHCP4_ACK);
}

enum gateway_verdict gateway_dhcp4_out(struct ask *a)
{
    const struct blueprint *b = a->g->b;
    struct dhcp4_question q;
    uint32_t n;
    if (!b->gateway.dhcp4.enabled || !b->gateway.has_v4 || ip_is_unspecified(&a->g->guest4))
        return refused(a, DROP_DHCP_OFF);
    if (a->pp->flags & (PARSE_FRAG_FIRST | PARSE_FRAG_LATER))
        return refused(a, DROP_FRAGMENT);
    const uint8_t *message = gateway_udp_payload(a->p, a->pp, &n);
    if (!message || !read_question(&q, message, n))
        return refused(a, DROP_DHCP_INVALID);
    if (q.op != 1)
        return refused(a, q.op == 2 ? DROP_DHCP_SERVER : DROP_DHCP_INVALID);
    if (b->l2.anti_spoof && !mac_equal(&q.chaddr, &b->l2.mac)) // somebody behind the guest: the lease is not theirs
        return refused(a, DROP_DHCP_IGNORED);
    if (!is_zero4(q.giaddr))
        return refused(a, DROP_DHCP_IGNORED);

    switch (q.type) {
    case DHCP4_DISCOVER:
        return answer(a, &q, DHCP4_OFFER);
    case DHCP4_REQUEST:
        return answer_request(a, &q);
    case DHCP4_INFORM:
        return answer_inform(a, &q);
    case DHCP4_OFFER:
    case DHCP4_ACK:
    case DHCP4_NAK:
        return refused(a, DROP_DHCP_SERVER);
    default: // DECLINE, RELEASE, plain BOOTP, and what later RFCs added
        return refused(a, DROP_DHCP_IGNORED);
    }
}
