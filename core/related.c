// SPDX-License-Identifier: MPL-2.0
// An ICMP error belongs to the connection of the packet inside it, which travelled the other way.
#include "core/internal.h"

struct next_pass related(struct context *c, struct port *port, enum origin origin, struct packet *p,
                         const struct parsed *pp)
{
    struct node *n = c->n;
    uint8_t dir = dir_of[origin];
    struct parsed_embedded inner;
    enum drop reason = parse_embedded(p, pp, &inner);
    if (reason == DROP_NONE && !ip_equal(&pp->dst, &inner.src)) // errors go to who sent the quoted packet, nobody else
        reason = DROP_ICMP_UNRELATED;
    struct flow_key sent = {.src = inner.src,
                            .dst = inner.dst,
                            .sport = inner.sport,
                            .dport = inner.dport,
                            .port = port->index,
                            .vni = port->vni,
                            .ip_version = inner.ip_version,
                            .protocol = inner.protocol,
                            .dir = dir == FLOW_OUT ? FLOW_IN : FLOW_OUT};
    struct flow_key key;
    if (reason == DROP_NONE && !flow_key_reply(&sent, &key))
        reason = DROP_ICMP_UNRELATED;
    uint32_t entry = FLOW_NONE;
    uint64_t hash = 0;
    if (reason == DROP_NONE) {
        key.realm = realm_of[origin];
        hash = flow_hash(n->secret, &key);
        entry = flow_table_lookup(n->flows, &key, hash);
        if (entry == FLOW_NONE)
            reason = DROP_ICMP_UNRELATED;
    }
    if (reason == DROP_NONE &&
        !flow_is_current(n, port, flow_table_entry(n->flows, entry), flow_table_hot(n->flows, entry))) {
        struct miss m;
        flow_revalidate(c, port, &key, hash, entry, &m);
        reason = m.reason;
        entry = m.entry;
    }
    if (reason == DROP_NONE && entry == FLOW_NONE)
        reason = DROP_ICMP_UNRELATED;
    const struct flow_entry *e = flow_table_entry(n->flows, entry);
    if (reason == DROP_NONE && (e->xp.flags & XP_DEC_TTL) && pp->ttl <= 1)
        reason = DROP_TTL_EXPIRED;
    if (reason == DROP_NONE && is_too_big(port, p, pp))
        reason = DROP_TOO_BIG;
    if (reason != DROP_NONE)
        return ended(c, port, dir, p, reason); // without an answer: no error about an error
    transposition_apply_icmp_error(&e->xp, &key, p, pp, &inner);
    return forward(c, port, &key, &e->xp, hash, pp->tos, p);
}
