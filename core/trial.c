// SPDX-License-Identifier: MPL-2.0
// A port as it would be with another blueprint, for trace: built beside the running one, seen by no packet.
#include "core/internal.h"

static bool make_snat(struct node *n, struct port *p, const struct blueprint *b)
{
    struct snat_slice *slices[SNAT_SLICES];
    p->snat = (struct snat){.quarantine_ms = n->config.tcp_port_quarantine_s * 1000};
    if (!snat_prepare(n->env, &p->snat, &b->nat, slices))
        return false;
    snat_commit(&p->snat, &b->nat, slices);
    snat_discard(n->env, slices);
    return true;
}

static void describe(struct node *n, struct port *p, const struct port *real, const struct blueprint *b)
{
    p->index = real ? real->index : 0;
    p->paused = real ? load_relaxed(&real->paused) : 0;
    p->id = b->port;
    p->vni = b->vpc.vni;
    p->mtu = b->vpc.mtu;
    p->mac = mac_word(b->l2.mac.b);
    p->any_mac = policy_any_mac(b);
    p->generation = n->last_generation + 1; // what runs was judged under another
}

struct port *trial_make(struct node *n, const struct blueprint *b, struct node_error *e)
{
    struct policy_error why;
    if (!node_blueprint_check(n, b, e))
        return NULL;
    struct port *p = n->env->alloc(n->env->ctx, sizeof(*p));
    if (p)
        p->policy = policy_build(&n->tables, b, &why);
    if (p && p->policy && make_snat(n, p, b)) {
        describe(n, p, port_at(n, node_port_find(n, &b->port)), b);
        p->policy->generation = p->generation;
        return p;
    }
    trial_free(n, p);
    node_refuse(e, NODE_LIMIT, "", "not enough memory");
    return NULL;
}

void trial_free(struct node *n, struct port *p)
{
    if (!p)
        return;
    policy_free(&n->tables, p->policy);
    snat_fini(n->env, &p->snat);
    n->env->free(n->env->ctx, p);
}
