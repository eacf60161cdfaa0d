// SPDX-License-Identifier: MPL-2.0
#include "vpc/policy.h"

#include "vpc/blueprint_copy.h"
#include "vpc/policy_check.h"

// Rules are turned into the compiler's form in scratch memory that lives for one build.
struct scratch {
    struct rule *rules;
    struct rule_icmp *icmp;
    uint32_t *sets;
    uint32_t n_rules, n_icmp;
};

static void *get(struct vpc_tables *t, size_t count, size_t size)
{
    return t->env->alloc(t->env->ctx, (count ? count : 1) * size);
}

static void put(struct vpc_tables *t, void *memory)
{
    t->env->free(t->env->ctx, memory);
}

// The set slot behind an id, referenced once per policy.
static uint32_t use_set(struct vpc_tables *t, struct policy *p, const struct uuid *id)
{
    uint32_t slot = address_set_use(t, id);
    if (!slot)
        return 0;
    for (uint32_t i = 0; i < p->n_sets; i++) {
        if (p->sets[i] == slot) {
            address_set_release(t, slot);
            return slot;
        }
    }
    p->sets[p->n_sets++] = slot;
    return slot;
}

static bool convert(struct vpc_tables *t, struct policy *p, struct scratch *s, const struct blueprint_rule *from)
{
    struct rule *r = &s->rules[s->n_rules];
    *r = (struct rule){.priority = from->prio,
                       .action = from->action,
                       .protocol = from->proto,
                       .ports = (const struct rule_port_range *)from->ports,
                       .n_ports = from->n_ports,
                       .icmp = &s->icmp[s->n_icmp],
                       .n_icmp = from->n_icmp,
                       .remote_any = from->remote.kind == BLUEPRINT_REMOTE_ANY,
                       .remote_vpc = from->remote.kind == BLUEPRINT_REMOTE_VPC,
                       .remotes = from->remote.cidrs,
                       .n_remotes = from->remote.n_cidrs};
    for (uint32_t i = 0; i < from->n_icmp; i++)
        s->icmp[s->n_icmp++] = (struct rule_icmp){(int16_t)from->icmp[i].type, (int16_t)from->icmp[i].code};
    if (from->remote.kind == BLUEPRINT_REMOTE_SET) {
        s->sets[s->n_rules] = use_set(t, p, &from->remote.set);
        if (!s->sets[s->n_rules])
            return false;
        r->sets = &s->sets[s->n_rules];
        r->n_sets = 1;
    }
    s->n_rules++;
    return true;
}

_Static_assert(sizeof(struct rule_port_range) == sizeof(struct port_range), "same layout");
_Static_assert((int)BLUEPRINT_ALLOW == RULE_ALLOW && (int)BLUEPRINT_DENY == RULE_DENY &&
                   (int)BLUEPRINT_REJECT == RULE_REJECT && PROTOCOL_ANY == RULE_PROTO_ANY,
               "same words");

static bool compile_rules(struct vpc_tables *t, struct policy *p, struct policy_rules *out,
                          const struct blueprint_rule *rules, uint32_t n, unsigned direction, bool default_allow)
{
    uint32_t icmp = 0;
    for (uint32_t i = 0; i < n; i++)
        icmp += rules[i].n_icmp;
    struct scratch s = {get(t, n, sizeof(*s.rules)), get(t, icmp, sizeof(*s.icmp)), get(t, n, sizeof(*s.sets)), 0, 0};
    *out = (struct policy_rules){.rules = rules, .default_allow = default_allow};
    out->index = get(t, n, sizeof(*out->index));
    out->hits = get(t, (size_t)n + 1, sizeof(*out->hits));
    bool ok = s.rules && s.icmp && s.sets && out->index && out->hits;
    for (uint32_t i = 0; ok && i < n; i++) {
        if (direction != BLUEPRINT_BOTH && !(rules[i].dir & direction))
            continue;
        out->index[s.n_rules] = i;
        ok = convert(t, p, &s, &rules[i]);
    }
    if (ok) {
        out->n = s.n_rules;
        out->table = rule_table_build(t->env, s.rules, s.n_rules);
    }
    put(t, s.rules);
    put(t, s.icmp);
    put(t, s.sets);
    return out->table != NULL;
}

// Custom routes come first, so that they win over system routes of an equal prefix.
static bool compile_routes(struct vpc_tables *t, struct policy *p)
{
    const struct blueprint *b = p->blueprint;
    struct lpm_route *routes = get(t, b->n_routes, sizeof(*routes));
    uint32_t n = 0;
    for (int custom = 1; routes && custom >= 0; custom--)
        for (uint32_t i = 0; i < b->n_routes; i++)
            if (b->routes[i].custom == (bool)custom)
                routes[n++] = (struct lpm_route){b->routes[i].prefix, i};
    if (routes)
        p->routes = lpm_build(t->env, routes, n);
    put(t, routes);
    return p->routes != NULL;
}

static bool compile(struct vpc_tables *t, struct policy *p)
{
    const struct blueprint *b = p->blueprint;
    const struct blueprint_firewall *f = &b->firewall;
    p->sets = get(t, (size_t)f->n_rules + b->posture.n_in + b->posture.n_out, sizeof(*p->sets));
    // The posture arrays say the direction themselves; whatever a rule in them says is not looked at.
    return p->sets &&
           compile_rules(t, p, &p->firewall[FLOW_OUT], f->rules, f->n_rules, BLUEPRINT_OUT, f->default_out_allow) &&
           compile_rules(t, p, &p->firewall[FLOW_IN], f->rules, f->n_rules, BLUEPRINT_IN, f->default_in_allow) &&
           compile_rules(t, p, &p->posture[FLOW_OUT], b->posture.out, b->posture.n_out, BLUEPRINT_BOTH, true) &&
           compile_rules(t, p, &p->posture[FLOW_IN], b->posture.in, b->posture.n_in, BLUEPRINT_BOTH, true) &&
           compile_routes(t, p) && vips_build(t->env, &p->vips, b);
}

struct policy *policy_build(struct vpc_tables *t, const struct blueprint *b, struct policy_error *error)
{
    if (!policy_check(b, error))
        return NULL;
    struct policy *p = get(t, 1, sizeof(*p));
    if (p)
        p->blueprint = blueprint_copy(t->env, b);
    if (p && p->blueprint && compile(t, p)) {
        gateway_init(&p->gateway, p->blueprint);
        return p;
    }
    policy_free(t, p);
    policy_refuse(error, "", -1, "", "not enough memory, or too many address sets on this node");
    return NULL;
}

static void free_rules(struct vpc_tables *t, struct policy_rules *r)
{
    rule_table_free(t->env, r->table);
    put(t, r->index);
    put(t, r->hits);
}

void policy_free(struct vpc_tables *t, struct policy *p)
{
    if (!p)
        return;
    for (unsigned dir = 0; dir < 2; dir++) {
        free_rules(t, &p->firewall[dir]);
        free_rules(t, &p->posture[dir]);
    }
    for (uint32_t i = 0; i < p->n_sets; i++)
        address_set_release(t, p->sets[i]);
    lpm_free(t->env, p->routes);
    vips_free(t->env, &p->vips);
    put(t, p->sets);
    put(t, p->blueprint);
    put(t, p);
}

bool policy_same_subnet(const struct policy *p, const struct ip_addr *a, const struct ip_addr *b)
{
    const struct blueprint_gateway *g = &p->blueprint->gateway;
    for (uint32_t i = 0; i < g->n_subnets; i++)
        if (ip_in_prefix(a, &g->subnets[i]) && ip_in_prefix(b, &g->subnets[i]))
            return true;
    return false;
}

bool policy_owns(const struct policy *p, const struct ip_addr *a)
{
    for (uint32_t i = 0; i < p->blueprint->l2.n_addresses; i++)
        if (ip_equal(a, &p->blueprint->l2.addresses[i]))
            return true;
    return false;
}

bool policy_attached(const struct policy *p, const struct ip_addr *a)
{
    const struct blueprint_nat *nat = &p->blueprint->nat;
    for (uint32_t i = 0; i < nat->n_attached; i++)
        if (ip_in_prefix(a, &nat->attached[i]))
            return true;
    return false;
}

const char *policy_rule_name(const struct policy_rules *r, uint32_t rule, enum flow_dir dir)
{
    if (rule < r->n)
        return r->rules[r->index[rule]].id;
    return dir == FLOW_OUT ? "default-out" : "default-in";
}
