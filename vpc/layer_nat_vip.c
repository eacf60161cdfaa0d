// SPDX-License-Identifier: MPL-2.0
// Virtual IPs. The client's node chooses a target for each new connection and writes the destination; the target sees
// the client's own address. The choice is the connection's from then on: a re-walk only asks whether the policy still
// lets it keep that target. The layers before nat, rules among them, saw the virtual IP; the way is then looked up for
// the target.
//
// A target that is the guest itself: the source becomes the virtual IP, or the guest would answer itself without us,
// and the packet turns round into the port's inbound side, where it opens a connection of its own (CONN_NAT_HAIRPIN).
#include "vpc/walk.h"

static bool is_icmp(const struct flow_key *k)
{
    return k->protocol == IPPROTO_ICMP4 || k->protocol == IPPROTO_ICMP6;
}

static const struct vip *find(const struct walk *w)
{
    uint16_t port = is_icmp(&w->now) ? 0 : load_be16(&w->now.dport);
    const struct vip *v = vip_find(&w->policy->vips, &w->now.dst, w->now.protocol, port);
    return v && (w->dir == FLOW_OUT || v->b->external) ? v : NULL;
}

bool walk_to_vip(const struct walk *w)
{
    return find(w) != NULL;
}

static void set_addresses(struct walk *w, const struct ip_addr *src, const struct ip_addr *dst)
{
    w->xp.flags |= XP_SRC_IP | XP_DST_IP;
    w->xp.src_ip = w->now.src = *src;
    w->xp.dst_ip = w->now.dst = *dst;
}

// Of ICMP only the identifier can be another, and it stands in the source port's place both ways.
static void set_ports(struct walk *w, uint16_t src, uint16_t dst, bool reply)
{
    if (is_icmp(&w->now)) {
        src = reply ? dst : src;
        dst = w->now.dport;
    }
    w->xp.flags |= XP_SRC_PORT | XP_DST_PORT;
    w->xp.src_port = w->now.sport = src;
    w->xp.dst_port = w->now.dport = dst;
}

static void text_end(struct text *t, const struct ip_addr *a, uint16_t port)
{
    bool brackets = port && !ip_is_v4(a);
    text_add(t, brackets ? "[" : "");
    text_ip(t, a);
    text_add(t, brackets ? "]" : "");
    if (port) {
        text_add(t, ":");
        text_number(t, load_be16(&port));
    }
}

static enum drop refuse(struct walk *w, enum drop reason)
{
    struct text t = walk_note(w, "nat", "drop");
    text_add(&t, "VIP ");
    text_ip(&t, &w->now.dst);
    text_add(&t, reason == DROP_VIP_NO_TARGET ? " has no active target" : ": the connection's target is gone");
    return reason;
}

static void note(struct walk *w)
{
    bool ports = vip_protocol_has_ports(w->key.protocol);
    struct text t = walk_note(w, "nat", "pass");
    text_add(&t, "VIP ");
    text_end(&t, &w->key.dst, ports ? w->key.dport : 0);
    text_add(&t, " to ");
    text_end(&t, &w->vip.target, ports ? w->vip.target_port : 0);
    if (w->vip.client_port != w->key.sport) {
        text_add(&t, ", source port ");
        text_number(&t, load_be16(&w->vip.client_port));
    }
}

// A new connection's target; a held one's leave to stay.
static enum drop decide(struct walk *w)
{
    const struct vip *v = find(w);
    bool ports = vip_protocol_has_ports(w->now.protocol);
    if (w->rewalk) {
        bool keeps = v && vip_keeps(v, &w->vip.target, ports ? load_be16(&w->vip.target_port) : 0);
        return keeps ? DROP_NONE : refuse(w, DROP_VIP_TARGET_GONE);
    }
    uint64_t hash = v->b->client_affinity ? vip_hash_client(&w->now.src) : flow_hash(w->env->secret, &w->key);
    const struct blueprint_vip_target *t = vip_choose(v, hash);
    if (!t)
        return refuse(w, DROP_VIP_NO_TARGET);
    w->vip = (struct vip_binding){t->address, w->now.dport, w->now.sport};
    if (ports)
        store_be16(&w->vip.target_port, vip_target_port(v, t, load_be16(&w->now.dport)));
    w->binding =
        (struct conn_binding){.kind = CONN_NAT_VIP, .external = w->now.dst, .external_port = ports ? w->now.dport : 0};
    return DROP_NONE;
}

static void translate(struct walk *w, bool self)
{
    set_addresses(w, self ? &w->key.dst : &w->key.src, &w->vip.target);
    set_ports(w, w->vip.client_port, w->vip.target_port, false);
}

// Does the answer look like another flow's? Of a packet that turns round the answer comes by twice, first as the guest
// sends it, and from the same port to the same port it would look like the question.
static bool answer_is_known(const struct walk *w, struct flow_key *answer, bool self)
{
    if (self && (memcmp(answer, &w->key, sizeof(*answer)) == 0 || w->env->key_taken(w->env->ctx, answer)))
        return true;
    answer->dir = FLOW_IN;
    answer->realm = self ? REALM_SELF : REALM_VPC;
    return w->env->key_taken(w->env->ctx, answer);
}

// The guest may talk to the target directly too, from the same port, or by another virtual IP: then their answers would
// look alike, and this connection takes another source port.
static void avoid_other_flows(struct walk *w, bool self)
{
    struct flow_key answer;
    bool changeable = vip_protocol_has_ports(w->now.protocol) || is_icmp(&w->now);
    for (unsigned tries = 0; changeable && tries < 16 && flow_key_reply(&w->now, &answer); tries++) {
        answer.dir = FLOW_OUT;
        if (!answer_is_known(w, &answer, self))
            return;
        store_be16(&w->vip.client_port, (uint16_t)(1024 + w->env->random(w->env->ctx) % (65536 - 1024)));
        translate(w, self);
    }
}

void walk_to_self(struct walk *w)
{
    w->xp.flags &= (uint16_t)~XP_DEC_TTL; // it never leaves the guest's place
    w->xp.flags |= XP_SRC_MAC | XP_DST_MAC;
    w->xp.src_mac = w->policy->blueprint->gateway.mac;
    w->xp.dst_mac = w->policy->blueprint->l2.mac;
    w->xp.to = XP_TO_SELF;
    w->xp.dest = w->port;
    w->finished = true;
}

enum drop vip_out(struct walk *w)
{
    enum drop reason = decide(w);
    if (reason != DROP_NONE)
        return reason;
    bool self = policy_owns(w->policy, &w->vip.target);
    translate(w, self);
    if (!w->rewalk)
        avoid_other_flows(w, self);
    note(w);
    if (self) {
        walk_to_self(w);
        return DROP_NONE;
    }
    reason = walk_route(w);
    return reason == DROP_NONE && walk_leads_outside(w) ? DROP_VIP_OUTSIDE : reason;
}

enum drop vip_in(struct walk *w)
{
    enum drop reason = decide(w);
    if (reason != DROP_NONE)
        return reason;
    translate(w, false);
    note(w);
    return DROP_NONE;
}

void vip_reply(struct walk *w)
{
    set_addresses(w, &w->key.dst, &w->key.src);
    set_ports(w, w->key.dport, w->key.sport, true);
}
