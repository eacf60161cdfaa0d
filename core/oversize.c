// SPDX-License-Identifier: MPL-2.0
// Packets that do not fit a port's MTU: cut (RFC 791) where IPv4 allows it, else their sender is told.
#include "core/internal.h"

#include "engine/checksum.h"

#define MAX_PIECES 16
#define MAX_PIECE 2000 // bytes with the IP header: fits a fresh packet (PACKET_MIN_ROOM) whatever the MTU
#define IP4_HEADER 20u
enum { IP4_MF = 0x2000, IP4_OFFSET = 0x1fff };

bool is_too_big(const struct port *port, const struct packet *p, const struct parsed *pp)
{
    uint32_t mtu = load_relaxed(&port->mtu);
    if (p->gso_type == GSO_NONE)
        return pp->ip_len > mtu;
    return (uint32_t)(pp->payload - pp->l3) + p->gso_size > mtu;
}

// Data bytes of each piece but the last; a multiple of 8.
static uint32_t piece_bytes(const struct port *port)
{
    uint32_t mtu = load_relaxed(&port->mtu);
    return (MIN(mtu, (uint32_t)MAX_PIECE) - IP4_HEADER) & ~7u;
}

// IP options would have to be copied or not, each by its kind: such packets are not cut.
bool can_be_cut(const struct port *port, const struct packet *p, const struct parsed *pp)
{
    return pp->ip_version == 4 && !(pp->flags & (PARSE_DF | PARSE_IP_OPTIONS)) && p->gso_type == GSO_NONE &&
           pp->l3 + pp->ip_len <= p->head && pp->ip_len - IP4_HEADER <= MAX_PIECES * piece_bytes(port);
}

// What the guest left to its device must be done while the packet is whole.
static void complete_checksum(struct packet *p, const struct parsed *pp)
{
    if (p->csum == CSUM_PARTIAL) {
        uint32_t end = pp->l3 + pp->ip_len;
        uint16_t sum = (uint16_t)~checksum_fold(checksum_add(0, p->data + p->csum_start, end - p->csum_start));
        if (sum == 0)
            sum = 0xffff;
        memcpy(p->data + p->csum_start + p->csum_offset, &sum, 2);
    }
    p->csum = CSUM_FULL;
}

static void finish_piece(struct packet *p, uint32_t l3, uint32_t bytes, uint16_t word)
{
    uint8_t *ip = p->data + l3;
    p->len = p->head = l3 + IP4_HEADER + bytes;
    store_be16(ip + 2, (uint16_t)(IP4_HEADER + bytes));
    store_be16(ip + 6, word);
    checksum_write_ip4(ip);
}

static void free_pieces(struct context *c, struct packet **pieces, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        packet_free(c, pieces[i]);
}

// pieces[0] is p itself. 0: no memory, and p is whole.
static unsigned cut(struct context *c, struct port *port, struct packet *p, const struct parsed *pp,
                    struct packet **pieces)
{
    const struct platform *pf = &c->n->platform;
    uint32_t each = piece_bytes(port), data = pp->ip_len - IP4_HEADER, headers = pp->l3 + IP4_HEADER;
    unsigned n = 1;
    for (; n * each < data; n++) {
        pieces[n] = pf->packet_alloc(pf->ctx, c->worker, headers + each);
        if (!pieces[n]) {
            free_pieces(c, pieces, n);
            return 0;
        }
    }
    complete_checksum(p, pp);
    uint16_t word = load_be16(p->data + pp->l3 + 6); // of a fragment perhaps
    for (unsigned i = n - 1; i > 0; i--) {
        uint32_t at = i * each, bytes = MIN(each, data - at);
        bool more = i < n - 1 || (word & IP4_MF);
        memcpy(pieces[i]->data, p->data, headers);
        memcpy(pieces[i]->data + headers, p->data + headers + at, bytes);
        finish_piece(pieces[i], pp->l3, bytes, (uint16_t)(((word & IP4_OFFSET) + at / 8) | (more ? IP4_MF : 0)));
    }
    finish_piece(p, pp->l3, each, word | IP4_MF);
    pieces[0] = p;
    return n;
}

// The first piece stands for the packet in all counts; the others count as made here.
static struct next_pass send_in_pieces(struct context *c, struct port *port, const struct flow_key *key,
                                       const struct transposition *xp, uint64_t hash, struct packet *p,
                                       const struct parsed *pp)
{
    struct worker *w = worker_of(c);
    struct packet *pieces[MAX_PIECES];
    unsigned n = cut(c, port, p, pp, pieces);
    if (n == 0 || w->n_waiting + n > WAITING_MAX) {
        free_pieces(c, pieces, n);
        drop_packet(c, port, key->dir, p, DROP_NO_MEMORY);
        return (struct next_pass){.reason = DROP_NO_MEMORY};
    }
    transposition_apply(xp, p, pp, 0);
    struct next_pass first = forward(c, port, key, xp, hash, pp->tos, p);
    struct parsed later = *pp;
    later.l4 = 0;
    for (unsigned i = 1; i < n; i++) {
        transposition_apply(xp, pieces[i], &later, 0);
        c->made_here = true;
        struct next_pass next = forward(c, port, key, xp, hash, pp->tos, pieces[i]);
        c->made_here = false;
        if (next.port)
            w->waiting[w->n_waiting++] = (struct waiting){.p = pieces[i], .port = next.port, .origin = next.origin};
    }
    return first;
}

// How the connection's answers leave: nothing of `to` if there are none.
static struct transposition way_back(struct context *c, struct port *port, const struct flow_key *key, uint64_t hash)
{
    struct node *n = c->n;
    struct transposition back = {.to = XP_NOWHERE};
    conn_port_lock(n->connections, port->index);
    uint32_t entry = flow_table_lookup(n->flows, key, hash);
    const struct conn *k = entry ? conn_get(n->connections, flow_table_entry(n->flows, entry)->owner) : NULL;
    if (k && k->live && k->entry[FLOW_OUT]) {
        const struct transposition *xp = &flow_table_entry(n->flows, k->entry[FLOW_OUT])->xp;
        back = (struct transposition){.to = xp->to, .dest = xp->dest, .vni = xp->vni};
    }
    conn_port_unlock(n->connections, port->index);
    return back;
}

// The sender outside is told in the name of the external address that it wrote to, on the way that answers take.
static struct next_pass tell_outside(struct context *c, struct port *port, const struct flow_key *key, uint64_t hash,
                                     struct packet *p, const struct parsed *pp)
{
    struct transposition back = way_back(c, port, key, hash);
    const struct policy *policy = load_acquire(&port->policy);
    counter_add(&counters_of(c, port)->drops[FLOW_IN][DROP_TOO_BIG], 1);
    capture(c, port->index, CAPTURE_DROP, DROP_TOO_BIG, p);
    const struct mac_addr *mac = policy ? &policy->blueprint->gateway.mac : NULL;
    struct next_pass next = {.reason = DROP_TOO_BIG};
    if (!mac || back.to == XP_NOWHERE || !icmp_allowed(c, port) ||
        !icmp_make_error(p, pp, ICMP_TOO_BIG, load_relaxed(&port->mtu), &pp->dst, mac, mac)) {
        packet_free(c, p);
        return next;
    }
    struct flow_key error = {.src = pp->dst, .dst = pp->src, .port = port->index, .vni = port->vni};
    error.dir = FLOW_OUT;
    c->made_here = true;
    next = forward(c, port, &error, &back, hash, 0, p);
    c->made_here = false;
    next.reason = DROP_TOO_BIG;
    return next;
}

struct next_pass oversize(struct context *c, struct port *port, const struct flow_key *key,
                          const struct transposition *xp, uint64_t hash, struct packet *p, const struct parsed *pp)
{
    if (can_be_cut(port, p, pp))
        return send_in_pieces(c, port, key, xp, hash, p, pp);
    bool fixed = pp->ip_version == 6 || (pp->flags & PARSE_DF) || p->gso_type != GSO_NONE;
    if (fixed && key->dir == FLOW_IN && key->realm == REALM_OUTSIDE)
        return tell_outside(c, port, key, hash, p, pp);
    if (fixed && key->dir == FLOW_OUT)
        answer_error(c, port, p, pp, ICMP_TOO_BIG, DROP_TOO_BIG);
    else // O2: never into the tunnel it came from
        drop_packet(c, port, key->dir, p, DROP_TOO_BIG);
    return (struct next_pass){.reason = DROP_TOO_BIG};
}
