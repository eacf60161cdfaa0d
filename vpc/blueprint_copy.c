// SPDX-License-Identifier: MPL-2.0
#include "vpc/blueprint_copy.h"

// Two passes over the same code: without memory it only measures.
struct arena {
    uint8_t *memory;
    size_t used;
};

static const void *copy(struct arena *a, const void *from, size_t bytes)
{
    size_t at = (a->used + 15) & ~(size_t)15;
    a->used = at + bytes;
    if (!a->memory || bytes == 0)
        return NULL;
    memcpy(a->memory + at, from, bytes);
    return a->memory + at;
}

static const char *copy_text(struct arena *a, const char *text)
{
    size_t n = 0;
    while (text && text[n])
        n++;
    return copy(a, text ? text : "", n + 1);
}

#define COPY_ARRAY(a, field, n) ((field) = copy((a), (field), (size_t)(n) * sizeof(*(field))))

static void copy_rules(struct arena *a, const struct blueprint_rule **rules, uint32_t n)
{
    const struct blueprint_rule *from = *rules;
    struct blueprint_rule *to = (struct blueprint_rule *)copy(a, from, (size_t)n * sizeof(*from));
    for (uint32_t i = 0; i < n; i++) {
        struct blueprint_rule r = from[i];
        r.id = copy_text(a, r.id);
        COPY_ARRAY(a, r.ports, r.n_ports);
        COPY_ARRAY(a, r.icmp, r.n_icmp);
        COPY_ARRAY(a, r.remote.cidrs, r.remote.n_cidrs);
        if (to)
            to[i] = r;
    }
    *rules = to;
}

static void copy_gateway(struct arena *a, struct blueprint_gateway *g)
{
    COPY_ARRAY(a, g->subnets, g->n_subnets);
    COPY_ARRAY(a, g->dhcp4.dns, g->dhcp4.n_dns);
    COPY_ARRAY(a, g->dhcp4.routes, g->dhcp4.n_routes);
    COPY_ARRAY(a, g->dhcp6.dns, g->dhcp6.n_dns);
    g->dhcp4.domain = copy_text(a, g->dhcp4.domain);
    g->dhcp4.hostname = copy_text(a, g->dhcp4.hostname);
    g->dhcp6.domain = copy_text(a, g->dhcp6.domain);
    g->metadata.document = copy_text(a, g->metadata.document);
}

static void copy_vips(struct arena *a, const struct blueprint_vip **vips, uint32_t n)
{
    const struct blueprint_vip *from = *vips;
    struct blueprint_vip *to = (struct blueprint_vip *)copy(a, from, (size_t)n * sizeof(*from));
    for (uint32_t i = 0; i < n; i++) {
        struct blueprint_vip v = from[i];
        v.id = copy_text(a, v.id);
        COPY_ARRAY(a, v.targets, v.n_targets);
        if (to)
            to[i] = v;
    }
    *vips = to;
}

static struct blueprint *copy_all(struct arena *a, const struct blueprint *from)
{
    struct blueprint b = *from;
    struct blueprint *to = (struct blueprint *)copy(a, from, sizeof(*from));
    b.name = copy_text(a, b.name);
    b.device.ifname = copy_text(a, b.device.ifname);
    b.device.socket = copy_text(a, b.device.socket);
    COPY_ARRAY(a, b.l2.addresses, b.l2.n_addresses);
    COPY_ARRAY(a, b.l2.allowed, b.l2.n_allowed);
    copy_gateway(a, &b.gateway);
    copy_rules(a, &b.posture.out, b.posture.n_out);
    copy_rules(a, &b.posture.in, b.posture.n_in);
    copy_rules(a, &b.firewall.rules, b.firewall.n_rules);
    COPY_ARRAY(a, b.routes, b.n_routes);
    COPY_ARRAY(a, b.nat.floating, b.nat.n_floating);
    COPY_ARRAY(a, b.nat.snat, b.nat.n_snat);
    COPY_ARRAY(a, b.nat.attached, b.nat.n_attached);
    copy_vips(a, &b.lb, b.n_lb);
    if (to)
        *to = b;
    return to;
}

struct blueprint *blueprint_copy(const struct env *env, const struct blueprint *b)
{
    struct arena measure = {0};
    copy_all(&measure, b);
    struct arena a = {env->alloc(env->ctx, measure.used), 0};
    return a.memory ? copy_all(&a, b) : NULL;
}
