// SPDX-License-Identifier: MPL-2.0
// Posture and firewall: the operator's and the tenant's rules. Both judge the opening packet only: replies
// belong to the connection.
#include "vpc/walk.h"

// Is the remote end inside the VPC? Outbound that is what the route says; a virtual IP's targets always are.
static bool remote_in_vpc(const struct walk *w)
{
    if (w->dir == FLOW_IN)
        return !walk_from_outside(w);
    if (walk_to_vip(w))
        return true;
    uint32_t route = lpm_lookup(w->policy->routes, &w->now.dst);
    if (route == LPM_NONE)
        return false;
    uint8_t kind = w->policy->blueprint->routes[route].target.kind;
    return kind != BLUEPRINT_TARGET_EXTERNAL && kind != BLUEPRINT_TARGET_NAT;
}

static struct rule_query query(const struct walk *w)
{
    const struct flow_key *k = &w->now;
    uint16_t dport = load_be16(&k->dport);
    bool ports = k->protocol == IPPROTO_TCP4 || k->protocol == IPPROTO_UDP4 || k->protocol == IPPROTO_SCTP4;
    return (struct rule_query){.remote = w->dir == FLOW_OUT ? k->dst : k->src,
                               .ip_version = k->ip_version,
                               .protocol = k->protocol,
                               .overlay = remote_in_vpc(w),
                               .has_ports = ports,
                               .dport = ports ? dport : 0,
                               .icmp_type = ports ? 0 : (uint8_t)(dport >> 8),
                               .icmp_code = ports ? 0 : (uint8_t)dport};
}

static enum rule_action decide(struct walk *w, const char *layer, const struct policy_rules *rules, uint32_t *decided)
{
    struct rule_query q = query(w);
    uint32_t rule = rule_table_match(rules->table, &q, address_set_member, (void *)(uintptr_t)w->env->tables);
    *decided = rule;
    if (!w->log)
        fetch_add_relaxed(&rules->hits[rule == RULE_NONE ? rules->n : rule], 1);
    uint8_t action = rules->default_allow ? RULE_ALLOW : RULE_DENY;
    if (rule != RULE_NONE)
        action = rules->rules[rules->index[rule]].action;
    struct text t = walk_note(w, layer, action == RULE_ALLOW ? "pass" : action == RULE_DENY ? "drop" : "reject");
    text_add(&t, rule == RULE_NONE ? "by " : "by rule ");
    text_add(&t, policy_rule_name(rules, rule, w->dir));
    return action;
}

static enum drop posture(struct walk *w)
{
    if (w->reply || w->skip_rules)
        return DROP_NONE;
    const struct policy_rules *rules = &w->policy->posture[w->dir];
    if (rules->n == 0) {
        walk_note(w, "posture", "pass");
        return DROP_NONE;
    }
    return decide(w, "posture", rules, &w->posture_rule) == RULE_ALLOW ? DROP_NONE : DROP_POSTURE_DENY;
}

static enum drop firewall(struct walk *w)
{
    if (w->reply || w->skip_rules)
        return DROP_NONE;
    enum rule_action action = decide(w, "firewall", &w->policy->firewall[w->dir], &w->rule);
    if (action == RULE_ALLOW)
        return DROP_NONE;
    w->answer_reject = action == RULE_REJECT;
    return action == RULE_REJECT ? DROP_FIREWALL_REJECT : DROP_FIREWALL_DENY;
}

const struct layer layer_posture = {"posture", posture, posture};
const struct layer layer_firewall = {"firewall", firewall, firewall};
