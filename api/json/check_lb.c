// SPDX-License-Identifier: MPL-2.0
// Virtual IPs: what takes more than one field to see.
#include "api/json/fields.h"
#include <string.h>

enum { TCP = 6, UDP = 17, SCTP = 132 };

static bool owns(const struct blueprint *b, const struct ip_addr *a)
{
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        if (ip_equal(&b->l2.addresses[i], a))
            return true;
    }
    return false;
}

static void check_target(struct loader *l, const struct blueprint *b, const struct blueprint_vip *v, uint32_t index,
                         const struct path *vip)
{
    const struct blueprint_vip_target *t = &v->targets[index];
    struct path list = {.up = vip, .key = "targets"};
    struct path element = {.up = &list, .index = index};
    struct path here = {.up = &element, .key = "address"};
    if (ip_is_v4(&t->address) != ip_is_v4(&v->address))
        api_fail(l, &here, "family", "a target is of the virtual IP's family");
    else if (ip_is_link_local(&t->address))
        api_fail(l, &here, "range", "a link-local address is no target");
    else if (v->external && !owns(b, &t->address))
        api_fail(l, &here, "conflict", "an external virtual IP has targets among the port's own addresses only");
    for (uint32_t j = 0; j < index; j++) {
        if (ip_equal(&t->address, &v->targets[j].address) && t->port == v->targets[j].port)
            api_fail(l, &here, "duplicate", "address and port are those of element %u too", j);
    }
    here.key = "port";
    if (t->port && v->port == 0)
        api_fail(l, &here, "not-applicable", "a virtual IP of all ports keeps the port");
}

static void check_address(struct loader *l, const struct blueprint *b, const struct blueprint_vip *v,
                          const struct path *vip)
{
    struct path here = {.up = vip, .key = "address"};
    const struct blueprint_gateway *g = &b->gateway;
    if (ip_is_link_local(&v->address))
        api_fail(l, &here, "range", "a link-local address is no virtual IP");
    if (owns(b, &v->address))
        api_fail(l, &here, "conflict", "this is one of the port's addresses");
    if ((g->has_v4 && ip_equal(&v->address, &g->v4)) || (g->has_v6 && ip_equal(&v->address, &g->v6)))
        api_fail(l, &here, "conflict", "this is the gateway's address");
    for (uint32_t j = 0; j < b->nat.n_floating; j++) {
        if (ip_equal(&v->address, &b->nat.floating[j].external))
            api_fail(l, &here, "conflict", "it is the floating address of element %u", j);
    }
    here.key = "port";
    for (uint32_t j = 0; j < b->nat.n_snat; j++) {
        const struct blueprint_snat *s = &b->nat.snat[j];
        bool within = v->port == 0 || (v->port >= s->ports.first && v->port <= s->ports.last);
        if (ip_equal(&v->address, &s->address) && within)
            api_fail(l, &here, "conflict", "the port is in the SNAT slice of element %u", j);
    }
}

static void check_vip(struct loader *l, const struct blueprint *b, uint32_t index)
{
    const struct blueprint_vip *v = &b->lb[index];
    struct path list = {.key = "lb"};
    struct path element = {.up = &list, .index = index, .label = "virtual IP", .id = v->id};
    struct path here = {.up = &element, .key = "port"};
    if (v->port && v->protocol != TCP && v->protocol != UDP && v->protocol != SCTP)
        api_fail(l, &here, "not-applicable", "a port goes with protocol tcp, udp or sctp only");
    check_address(l, b, v, &element);
    for (uint32_t i = 0; i < v->n_targets && !l->errors->more; i++)
        check_target(l, b, v, i, &element);
    for (uint32_t j = 0; j < index; j++) {
        const struct blueprint_vip *other = &b->lb[j];
        here.key = "id";
        if (strcmp(v->id, other->id) == 0)
            api_fail(l, &here, "duplicate", "the id is that of element %u too", j);
        here.key = "address";
        if (ip_equal(&v->address, &other->address) && v->protocol == other->protocol && v->port == other->port)
            api_fail(l, &here, "duplicate", "address, protocol and port are those of element %u too", j);
    }
}

void check_load_balancers(struct loader *l, const struct blueprint *b)
{
    for (uint32_t i = 0; i < b->n_lb && !l->errors->more; i++)
        check_vip(l, b, i);
}
