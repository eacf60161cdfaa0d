// SPDX-License-Identifier: MPL-2.0
// An ICMP error belongs to the connection of the packet inside it, which travelled the other way.
#include "core/internal.h"

enum drop find_related(const struct port *port, enum origin origin, const struct packet *p, const struct parsed *pp,
                       struct parsed_embedded *inner, struct flow_key *key)
{
    enum drop reason = parse_embedded(p, pp, inner);
    struct flow_key sent = {.src = inner->src,
                            .dst = inner->dst,
                            .sport = inner->sport,
                            .dport = inner->dport,
                            .port = port->index,
                            .vni = load_relaxed(&port->vni),
                            .ip_version = inner->ip_version,
                            .protocol = inner->protocol,
                            .dir = dir_of[origin] == FLOW_OUT ? FLOW_IN : FLOW_OUT};
    *key = sent;
    if (reason != DROP_NONE)
        return reason;
    // Errors go to who sent the quoted packet, nobody else.
    if (!ip_equal(&pp->dst, &inner->src) || !flow_key_reply(&sent, key))
        return DROP_ICMP_UNRELATED;
    key->realm = realm_of[origin];
    return DROP_NONE;
}

struct next_pass related(struct context *c, struct port *port, enum origin origin, struct packet *p,
                         const struct parsed *pp)
{
    struct node *n = c->n;
    uint8_t dir = dir_of[origin];
    struct parsed_embedded inner;
    struct flow_key key;
    enum drop reason = find_related(port, origin, p, pp, &inner, &key);
    uint64_t hash = flow_hash(n->secret, &key);
    uint32_t entry = reason == DROP_NONE ? flow_table_lookup(n->flows, &key, hash) : FLOW_NONE;
    if (entry != FLOW_NONE &&
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
    if (over_limit(c, port, dir, p))
        return (struct next_pass){.reason = DROP_RATE_LIMITED};
    transposition_apply_icmp_error(&e->xp, &key, p, pp, &inner);
    return forward(c, port, &key, &e->xp, hash, pp->tos, p);
}
