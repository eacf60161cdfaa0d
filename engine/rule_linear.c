// SPDX-License-Identifier: MPL-2.0
// The reference semantics of a rule: every condition it states must hold.
#include "engine/rule_table_internal.h"

static bool protocol_matches(const struct rule *r, const struct rule_query *q)
{
    return (r->ip_version == 0 || r->ip_version == q->ip_version) &&
           (r->protocol == RULE_PROTO_ANY || r->protocol == q->protocol);
}

static bool ports_match(const struct rule *r, const struct rule_query *q)
{
    if (r->n_ports == 0)
        return true;
    if (!query_has_ports(q))
        return false;
    for (uint32_t i = 0; i < r->n_ports; i++) {
        if (q->dport >= r->ports[i].first && q->dport <= r->ports[i].last)
            return true;
    }
    return false;
}

static bool icmp_matches(const struct rule *r, const struct rule_query *q)
{
    if (r->n_icmp == 0)
        return true;
    if (!query_is_icmp(q))
        return false;
    for (uint32_t i = 0; i < r->n_icmp; i++) {
        const struct rule_icmp *c = &r->icmp[i];
        if ((c->type < 0 || c->type == q->icmp_type) && (c->code < 0 || c->code == q->icmp_code))
            return true;
    }
    return false;
}

static bool remote_matches(const struct rule *r, const struct rule_query *q, rule_set_member member, void *ctx)
{
    if (rule_is_everywhere(r) || (r->remote_vpc && q->overlay))
        return true;
    for (uint32_t i = 0; i < r->n_remotes; i++) {
        if (ip_in_prefix(&q->remote, &r->remotes[i]))
            return true;
    }
    for (uint32_t i = 0; q->overlay && i < r->n_sets; i++) {
        if (member(ctx, r->sets[i], &q->remote))
            return true;
    }
    return false;
}

uint32_t rule_match_linear(const struct rule *rules, uint32_t n, const struct rule_query *q, rule_set_member member,
                           void *ctx)
{
    uint32_t best = RULE_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const struct rule *r = &rules[i];
        if (best != RULE_NONE && !rule_precedes(r, i, &rules[best], best))
            continue;
        if (protocol_matches(r, q) && ports_match(r, q) && icmp_matches(r, q) && remote_matches(r, q, member, ctx))
            best = i;
    }
    return best;
}
