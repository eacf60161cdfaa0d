// SPDX-License-Identifier: MPL-2.0
#include "vpc/tables.h"

#define SLOTS(array, count) ((array) = env->alloc(env->ctx, ((size_t)(count) + 1) * sizeof(*(array))))

bool vpc_tables_init(struct vpc_tables *t, const struct env *env, const struct vpc_tables_config *config)
{
    *t = (struct vpc_tables){.env = env, .config = *config, .outside_version = 1};
    bool ok = slot_map_init(&t->mapping_map, env, config->max_mappings) && SLOTS(t->mappings, config->max_mappings) &&
              slot_map_init(&t->vtep_map, env, config->max_mappings) && SLOTS(t->vteps, config->max_mappings) &&
              slot_map_init(&t->tunnel_map, env, config->max_tunnels) && SLOTS(t->tunnels, config->max_tunnels) &&
              slot_map_init(&t->external_map, env, config->max_externals) &&
              SLOTS(t->externals, config->max_externals) && slot_map_init(&t->edge_map, env, config->max_edges) &&
              SLOTS(t->edges, config->max_edges) && slot_map_init(&t->set_map, env, config->max_sets) &&
              SLOTS(t->sets, config->max_sets);
    if (!ok)
        vpc_tables_fini(t);
    return ok;
}

void vpc_tables_fini(struct vpc_tables *t)
{
    const struct env *env = t->env;
    if (!env)
        return;
    for (uint32_t s = t->sets ? slot_map_iterate(&t->set_map, 0) : 0; s; s = slot_map_iterate(&t->set_map, s)) {
        lpm_free(env, t->sets[s].members);
        env->free(env->ctx, t->sets[s].cidrs);
    }
    slot_map_fini(&t->mapping_map);
    slot_map_fini(&t->vtep_map);
    slot_map_fini(&t->tunnel_map);
    slot_map_fini(&t->external_map);
    slot_map_fini(&t->edge_map);
    slot_map_fini(&t->set_map);
    env->free(env->ctx, t->mappings);
    env->free(env->ctx, t->vteps);
    env->free(env->ctx, t->tunnels);
    env->free(env->ctx, t->externals);
    env->free(env->ctx, t->edges);
    env->free(env->ctx, t->sets);
    *t = (struct vpc_tables){0};
}
