// SPDX-License-Identifier: MPL-2.0
// NAT: floating IPs (1:1) and SNAT with port slices. The binding is taken once, by the opening packet, on the
// guest's node; edges translate nothing. Virtual IPs: layer_nat_vip.c.
#include "vpc/walk.h"

static void set_src(struct walk *w, const struct ip_addr *a)
{
    w->xp.flags |= XP_SRC_IP;
    w->xp.src_ip = w->now.src = *a;
}

static void set_dst(struct walk *w, const struct ip_addr *a)
{
    w->xp.flags |= XP_DST_IP;
    w->xp.dst_ip = w->now.dst = *a;
}

static bool is_icmp(const struct walk *w)
{
    return w->now.protocol == IPPROTO_ICMP4 || w->now.protocol == IPPROTO_ICMP6;
}

static void set_src_port(struct walk *w, uint16_t port)
{
    w->xp.flags |= XP_SRC_PORT;
    w->xp.src_port = w->now.sport = port;
}

// The guest's side of the reply: for ICMP the identifier, which stands in the source port's place both ways.
static void set_dst_port(struct walk *w, uint16_t port)
{
    if (is_icmp(w)) {
        set_src_port(w, port);
        return;
    }
    w->xp.flags |= XP_DST_PORT;
    w->xp.dst_port = w->now.dport = port;
}

static bool network_matches(const struct blueprint_floating *f, const struct blueprint_target *t)
{
    return !t->has_network || (f->has_network && uuid_equal(&f->network, &t->network));
}

// One of the guest address's floating IPs, the same for all packets of a flow, spread over flows.
static const struct blueprint_floating *choose_floating(const struct walk *w)
{
    const struct blueprint_nat *nat = &w->policy->blueprint->nat;
    const struct blueprint_floating *usable[8];
    unsigned n = 0;
    for (uint32_t i = 0; i < nat->n_floating && n < ARRAY_LEN(usable); i++)
        if (ip_equal(&nat->floating[i].internal, &w->now.src) && network_matches(&nat->floating[i], w->target))
            usable[n++] = &nat->floating[i];
    return n ? usable[(flow_hash(w->env->secret, &w->key) >> 16) % n] : NULL;
}

static const struct blueprint_floating *find_floating(const struct policy *p, const struct ip_addr *external)
{
    const struct blueprint_nat *nat = &p->blueprint->nat;
    for (uint32_t i = 0; i < nat->n_floating; i++)
        if (ip_equal(&nat->floating[i].external, external))
            return &nat->floating[i];
    return NULL;
}

static const char *word_of(const struct conn_binding *b)
{
    return b->kind == CONN_NAT_SNAT ? "SNAT to " : b->kind == CONN_NAT_ATTACHED ? "untranslated, as " : "floating IP ";
}

static void note_binding(struct walk *w)
{
    struct text t = walk_note(w, "nat", "pass");
    text_add(&t, word_of(&w->binding));
    text_ip(&t, &w->binding.external);
    if (w->binding.external_port) {
        text_add(&t, " port ");
        text_number(&t, load_be16(&w->binding.external_port));
    }
}

static enum drop take_binding(struct walk *w)
{
    if (policy_attached(w->policy, &w->now.src)) {
        w->binding = (struct conn_binding){.kind = CONN_NAT_ATTACHED, .external = w->now.src};
        return DROP_NONE;
    }
    const struct blueprint_floating *f = choose_floating(w);
    if (f) {
        w->binding = (struct conn_binding){.kind = CONN_NAT_FLOATING, .external = f->external};
        return DROP_NONE;
    }
    if (w->target->kind == BLUEPRINT_TARGET_EXTERNAL)
        return DROP_NO_EXTERNAL_IP;
    const struct blueprint_nat *nat = &w->policy->blueprint->nat;
    enum drop reason = snat_take(w->snat, nat, w->target, w->now.ip_version == 4, w->now.protocol, w->now_ms,
                                 w->env->random(w->env->ctx), &w->binding);
    w->took_snat = reason == DROP_NONE;
    return reason;
}

// A held binding must still be the policy's.
static bool binding_stands(const struct walk *w)
{
    if (w->binding.kind == CONN_NAT_FLOATING) {
        const struct blueprint_floating *f = find_floating(w->policy, &w->binding.external);
        return f && ip_equal(&f->internal, &w->now.src);
    }
    if (w->binding.kind == CONN_NAT_ATTACHED)
        return policy_attached(w->policy, &w->now.src);
    return w->binding.kind == CONN_NAT_SNAT && snat_valid(w->snat, &w->binding);
}

static enum drop nat_out(struct walk *w)
{
    if (w->reply) { // of a connection from outside: the guest's address becomes the external one again
        if (w->binding.kind == CONN_NAT_VIP)
            vip_reply(w);
        else if (w->binding.kind == CONN_NAT_HAIRPIN)
            walk_to_self(w);
        else if (walk_from_outside(w))
            set_src(w, &w->binding.external);
        return DROP_NONE;
    }
    if (w->binding.kind == CONN_NAT_VIP || (!w->rewalk && walk_to_vip(w)))
        return vip_out(w);
    if (!walk_leads_outside(w)) {
        if (w->rewalk && w->binding.kind != CONN_NAT_NONE)
            return DROP_NAT_REVOKED;
        return DROP_NONE;
    }
    enum drop reason = DROP_NONE;
    if (!w->rewalk)
        reason = take_binding(w);
    else if (!binding_stands(w))
        reason = DROP_NAT_REVOKED;
    if (reason != DROP_NONE) {
        walk_note(w, "nat", "drop");
        return reason;
    }
    set_src(w, &w->binding.external);
    if (w->binding.kind == CONN_NAT_SNAT)
        set_src_port(w, w->binding.external_port);
    note_binding(w);
    return DROP_NONE;
}

static enum drop nat_in(struct walk *w)
{
    if (w->reply) {
        if (w->binding.kind == CONN_NAT_VIP)
            vip_reply(w);
        if (w->binding.kind == CONN_NAT_NONE || w->binding.kind == CONN_NAT_VIP)
            return DROP_NONE;
        set_dst(w, &w->key.src);
        if (w->binding.kind == CONN_NAT_SNAT)
            set_dst_port(w, w->key.sport);
        return DROP_NONE;
    }
    if (w->key.realm == REALM_SELF) { // what came round by a virtual IP: answers go round too
        if (!vip_has_address(&w->policy->vips, &w->now.src))
            return w->rewalk ? DROP_VIP_TARGET_GONE : DROP_LOOP;
        w->binding = (struct conn_binding){.kind = CONN_NAT_HAIRPIN, .external = w->now.src};
        return DROP_NONE;
    }
    if (!walk_from_outside(w))
        return DROP_NONE;
    const struct blueprint_floating *f = find_floating(w->policy, &w->now.dst);
    if (!f && (w->rewalk ? w->binding.kind == CONN_NAT_VIP : walk_to_vip(w)))
        return vip_in(w);
    if (!f && policy_attached(w->policy, &w->now.dst)) {
        w->binding = (struct conn_binding){.kind = CONN_NAT_ATTACHED, .external = w->now.dst};
        note_binding(w);
        return DROP_NONE;
    }
    if (!f) {
        walk_note(w, "nat", "drop");
        return w->rewalk ? DROP_NAT_REVOKED : DROP_NO_NAT_STATE;
    }
    w->binding = (struct conn_binding){.kind = CONN_NAT_FLOATING, .external = f->external};
    set_dst(w, &f->internal);
    note_binding(w);
    return DROP_NONE;
}

const struct layer layer_nat = {"nat", nat_out, nat_in};
