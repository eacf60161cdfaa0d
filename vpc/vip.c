// SPDX-License-Identifier: MPL-2.0
#include "vpc/vip.h"

#include "engine/parse.h"
#include "engine/sort.h"

static uint64_t mix(uint64_t h, uint64_t word)
{
    return flow_fold(h ^ word ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull);
}

static uint64_t hash_address(const struct ip_addr *a, uint64_t seed)
{
    return mix(mix(mix(seed, load_be64(a->b)), load_be64(a->b + 8)), 0xa0761d6478bd642full);
}

uint64_t vip_hash_client(const struct ip_addr *client)
{
    return hash_address(client, 1);
}

static int compare(const void *a, const void *b)
{
    const struct blueprint_vip *x = ((const struct vip *)a)->b, *y = ((const struct vip *)b)->b;
    int order = memcmp(x->address.b, y->address.b, 16);
    order = order ? order : x->protocol - y->protocol;
    return order ? order : x->port - y->port;
}

static uint32_t active_weight(const struct blueprint_vip_target *t)
{
    return t->state == BLUEPRINT_VIP_TARGET_ACTIVE ? t->weight : 0;
}

static bool fill(const struct env *env, struct vip *v, struct maglev_target *scratch)
{
    uint32_t unit = 1;
    for (uint32_t i = 0; i < v->b->n_targets; i++) {
        const struct blueprint_vip_target *t = &v->b->targets[i];
        scratch[i] = (struct maglev_target){.name = hash_address(&t->address, 2 + (uint64_t)t->port),
                                            .weight = active_weight(t)};
        unit = MAX(unit, t->weight);
        v->total_weight += active_weight(t);
    }
    if (v->b->hash)
        return true;
    v->table = env->alloc(env->ctx, MAGLEV_SLOTS);
    if (v->table)
        maglev_fill(v->table, scratch, v->b->n_targets, unit);
    return v->table != NULL;
}

bool vips_build(const struct env *env, struct vips *v, const struct blueprint *b)
{
    *v = (struct vips){0};
    if (b->n_lb == 0)
        return true;
    struct maglev_target *scratch = env->alloc(env->ctx, MAGLEV_TARGETS * sizeof(*scratch));
    v->list = env->alloc(env->ctx, b->n_lb * sizeof(*v->list));
    bool ok = scratch && v->list;
    for (uint32_t i = 0; ok && i < b->n_lb; i++) {
        v->list[i] = (struct vip){.b = &b->lb[i]};
        v->n++;
        ok = fill(env, &v->list[i], scratch);
    }
    env->free(env->ctx, scratch);
    if (ok)
        sort(v->list, v->n, sizeof(*v->list), compare);
    return ok;
}

void vips_free(const struct env *env, struct vips *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        env->free(env->ctx, v->list[i].table);
    env->free(env->ctx, v->list);
    *v = (struct vips){0};
}

// Where a virtual IP with this key stands or would stand.
static uint32_t lower_bound(const struct vips *v, const struct blueprint_vip *key)
{
    const struct vip wanted = {.b = key};
    uint32_t low = 0, high = v->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(&v->list[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct vip *find_exact(const struct vips *v, const struct ip_addr *address, uint16_t protocol,
                                    uint16_t port)
{
    const struct blueprint_vip key = {.address = *address, .protocol = protocol, .port = port};
    const struct vip wanted = {.b = &key};
    uint32_t at = lower_bound(v, &key);
    return at < v->n && compare(&v->list[at], &wanted) == 0 ? &v->list[at] : NULL;
}

bool vip_protocol_has_ports(uint16_t protocol)
{
    return protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4 || protocol == IPPROTO_SCTP4;
}

const struct vip *vip_find(const struct vips *v, const struct ip_addr *address, uint8_t protocol, uint16_t port)
{
    if (!vip_has_address(v, address))
        return NULL;
    const struct vip *found = NULL;
    if (vip_protocol_has_ports(protocol) && port)
        found = find_exact(v, address, protocol, port);
    if (!found)
        found = find_exact(v, address, protocol, 0);
    return found ? found : find_exact(v, address, PROTOCOL_ANY, 0);
}

bool vip_has_address(const struct vips *v, const struct ip_addr *address)
{
    if (v->n == 0)
        return false;
    uint32_t at = lower_bound(v, &(struct blueprint_vip){.address = *address});
    return at < v->n && ip_equal(&v->list[at].b->address, address);
}

const struct blueprint_vip_target *vip_choose(const struct vip *v, uint64_t hash)
{
    if (v->total_weight == 0)
        return NULL;
    if (v->table)
        return &v->b->targets[maglev_lookup(v->table, hash)];
    uint32_t at = 0, share = (uint32_t)(hash % v->total_weight);
    while (share >= active_weight(&v->b->targets[at]))
        share -= active_weight(&v->b->targets[at++]);
    return &v->b->targets[at];
}

uint16_t vip_target_port(const struct vip *v, const struct blueprint_vip_target *t, uint16_t port)
{
    return v->b->port && t->port ? t->port : port;
}

bool vip_keeps(const struct vip *v, const struct ip_addr *address, uint16_t port)
{
    for (uint32_t i = 0; i < v->b->n_targets; i++) {
        const struct blueprint_vip_target *t = &v->b->targets[i];
        bool same_port = v->b->port == 0 || vip_target_port(v, t, v->b->port) == port;
        if (t->state != BLUEPRINT_VIP_TARGET_DOWN && same_port && ip_equal(&t->address, address))
            return true;
    }
    return false;
}
