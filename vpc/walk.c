// SPDX-License-Identifier: MPL-2.0
#include "vpc/walk.h"

static const struct layer *const layers[] = {&layer_gateway, &layer_posture, &layer_firewall,
                                             &layer_router,  &layer_nat,     &layer_overlay};

// One packet through the layers in its direction's order, from tuple `key`.
static enum drop pass(struct walk *w, enum flow_dir dir, const struct flow_key *key)
{
    w->dir = (uint8_t)dir;
    w->now = *key;
    w->xp = (struct transposition){0};
    w->target = NULL;
    w->same_subnet = w->finished = false;
    w->dependency = w->dependency_version = 0;
    for (unsigned i = 0; i < ARRAY_LEN(layers) && !w->finished; i++) {
        const struct layer *l = layers[dir == FLOW_OUT ? i : ARRAY_LEN(layers) - 1 - i];
        enum drop reason = dir == FLOW_OUT ? l->out(w) : l->in(w);
        if (reason != DROP_NONE)
            return reason;
    }
    return DROP_NONE;
}

static uint16_t largest_segment(const struct policy *p, bool v4)
{
    return (uint16_t)(MIN(p->blueprint->vpc.mtu, 65535u) - (v4 ? 40 : 60));
}

static void keep(struct walk *w, enum flow_dir dir, const struct flow_key *key)
{
    struct conn_flow *f = &w->flow[dir];
    *f = (struct conn_flow){
        .key = *key, .xp = w->xp, .dependency = w->dependency, .dependency_version = w->dependency_version};
    if (key->protocol == IPPROTO_TCP4) {
        f->xp.flags |= XP_CLAMP_MSS;
        f->mss = largest_segment(w->policy, key->ip_version == 4);
    }
    transposition_finish(&f->xp, key);
}

static uint8_t answer_realm(const struct walk *w, enum flow_dir dir)
{
    if (dir == FLOW_OUT)
        return REALM_VPC;
    switch ((enum conn_nat)w->binding.kind) {
    case CONN_NAT_NONE:
        break;
    case CONN_NAT_VIP:
        return w->flow[FLOW_OUT].xp.to == XP_TO_SELF ? REALM_SELF : REALM_VPC;
    case CONN_NAT_SERVICE:
        return REALM_SERVICE;
    default:
        return REALM_OUTSIDE;
    }
    return REALM_VPC;
}

enum drop walk_flow(struct walk *w)
{
    enum flow_dir opener = w->opener, other = opener == FLOW_OUT ? FLOW_IN : FLOW_OUT;
    w->rule = w->posture_rule = RULE_NONE;
    w->reply = false;
    w->flow[0] = w->flow[1] = (struct conn_flow){0};
    enum drop reason = pass(w, opener, &w->key);
    if (reason != DROP_NONE)
        return reason;
    keep(w, opener, &w->key);

    struct flow_key answer;
    if (!flow_key_reply(&w->now, &answer))
        return DROP_NONE;
    answer.realm = answer_realm(w, other);
    struct trace_log *log = w->log;
    w->log = NULL; // the trace is about the packet, not about its answer
    w->reply = true;
    if (pass(w, other, &answer) != DROP_NONE) {
        w->xp = (struct transposition){0};
        w->dependency = 0;
    }
    w->log = log;
    keep(w, other, &answer);
    return DROP_NONE;
}
