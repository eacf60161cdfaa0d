// SPDX-License-Identifier: MPL-2.0
#include "core/internal.h"

void node_config_default(struct node_config *c)
{
    *c = (struct node_config){.underlay_mtu = 1500,
                              .workers = 1,
                              .max_ports = 256,
                              .max_connections = 262144,
                              .max_mappings = 65536,
                              .outer_hop_limit = 64,
                              .timeouts = conn_timeouts_default,
                              .tcp_port_quarantine_s = 60,
                              .fragment_timeout_s = 30};
}

static void *get(struct node *n, size_t count, size_t size)
{
    return n->env->alloc(n->env->ctx, count * size);
}

static void connection_closed(void *ctx, const struct conn *c, uint32_t index, enum conn_end why)
{
    struct node *n = ctx;
    if (c->meter)
        meter_fold(n, c, index);
    log_end(n, c, index, why);
    if (c->nat.kind == CONN_NAT_SNAT)
        snat_release(&n->ports[c->port].snat, &c->nat, c->protocol,
                     (uint32_t)(load_relaxed(&n->workers[0].now) / 1000000));
}

static uint64_t walk_random(void *ctx)
{
    struct node *n = ctx;
    return n->platform.random(n->platform.ctx);
}

static uint32_t walk_link(void *ctx, const struct ip_addr *external)
{
    return external_link_for(ctx, external);
}

static bool key_taken(void *ctx, const struct flow_key *key)
{
    const struct node *n = ctx; // a trace asks too, whose thread has no quiescent states
    return flow_table_find(n->flows, key, flow_hash(n->secret, key)) != FLOW_NONE;
}

static void open_tunnel(void *ctx, uint32_t tunnel, const struct ip_addr *address)
{
    struct node *n = ctx;
    n->platform.tunnel_open(n->platform.ctx, tunnel, address);
}

static void close_tunnel(void *ctx, uint32_t tunnel)
{
    struct node *n = ctx;
    n->platform.tunnel_close(n->platform.ctx, tunnel);
}

static bool make_connections(struct node *n, uint64_t now)
{
    struct conn_table_config config = {.max_connections = n->config.max_connections,
                                       .max_ports = n->config.max_ports,
                                       .keep = n->config.keep_state,
                                       .timeouts = n->config.timeouts,
                                       .closed = connection_closed,
                                       .ctx = n};
    for (unsigned i = 0; i < ARRAY_LEN(config.fresh_secret.m); i++)
        config.fresh_secret.m[i] = n->platform.random(n->platform.ctx) | 1;
    uint32_t adopted;
    n->connections = conn_table_create(n->env, &config, now / 1000000, &adopted);
    if (!n->connections)
        return false;
    n->flows = conn_table_flows(n->connections);
    n->secret = conn_table_secret(n->connections);
    return true;
}

static bool make_ports(struct node *n)
{
    bool kept = false;
    size_t bytes = n->config.max_ports * sizeof(*n->kept);
    n->ports = get(n, n->config.max_ports, sizeof(*n->ports));
    n->kept = n->env->zone(n->env->ctx, "ports", bytes, n->config.keep_state, &kept);
    if (!n->ports || !n->kept || !slot_map_init(&n->mac_map, n->env, 2 * n->config.max_ports) ||
        !(n->macs = get(n, 2 * n->config.max_ports + 1, sizeof(*n->macs))))
        return false;
    for (uint32_t i = 1; i < n->config.max_ports; i++) {
        n->ports[i].index = i;
        n->ports[i].snat.quarantine_ms = n->config.tcp_port_quarantine_s * 1000;
    }
    return true;
}

static bool make_tables(struct node *n)
{
    struct vpc_tables_config config = {.self = n->config.underlay,
                                       .outer_hop_limit = n->config.outer_hop_limit,
                                       .max_mappings = n->config.max_mappings,
                                       .max_tunnels = MIN(n->config.max_mappings, 16384u),
                                       .max_externals = n->config.max_mappings,
                                       .max_sets = 4096,
                                       .max_edges = 64,
                                       .ctx = n,
                                       .tunnel_open = open_tunnel,
                                       .tunnel_close = close_tunnel};
    return vpc_tables_init(&n->tables, n->env, &config);
}

static bool make_log(struct node *n)
{
    if (n->config.flow_log_records)
        n->flow_log = flow_log_create(n->env, n->config.flow_log_records);
    return n->flow_log || !n->config.flow_log_records;
}

static bool make_links(struct node *n)
{
    for (uint32_t i = 0; i < n->config.n_external; i++) {
        n->links[i].config = n->config.external[i];
        n->links[i].neighbours = get(n, NEIGHBOURS, sizeof(struct neighbour));
        if (!n->links[i].neighbours)
            return false;
    }
    return true;
}

struct node *node_create(const struct platform *platform, const struct node_config *config, uint64_t now)
{
    if (config->workers == 0 || config->workers > MAX_WORKERS || config->n_external > MAX_LINKS ||
        config->max_ports < 2 || (config->flow_log_records & (config->flow_log_records - 1)))
        return NULL;
    struct node *n = platform->env.alloc(platform->env.ctx, sizeof(*n));
    if (!n)
        return NULL;
    n->platform = *platform;
    n->env = &n->platform.env;
    n->config = *config;
    n->workers = get(n, config->workers, sizeof(*n->workers));
    n->edge_fragments = get(n, EDGE_FRAGMENT_SETS, sizeof(*n->edge_fragments));
    if (n->workers)
        n->workers[0].now = now;
    if (!n->workers || !n->edge_fragments || !make_tables(n) || !make_ports(n) || !make_connections(n, now) ||
        !make_links(n) || !make_log(n)) {
        node_destroy(n);
        return NULL;
    }
    n->walk_env = (struct walk_env){.tables = &n->tables,
                                    .secret = n->secret,
                                    .service_mac = config->service_mac,
                                    .service_up = config->service_mac.b[0] || config->service_mac.b[5],
                                    .ctx = n,
                                    .local_port = port_by_mac,
                                    .external_link = walk_link,
                                    .random = walk_random,
                                    .key_taken = key_taken};
    return n;
}

// Nobody reads any more: there is no grace to wait for.
static void run_now(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    fn(arg, value);
}

static void free_links(struct node *n)
{
    for (uint32_t i = 0; i < MAX_LINKS; i++) {
        struct neighbour *list = n->links[i].neighbours;
        for (unsigned k = 0; list && k < NEIGHBOURS; k++)
            for (unsigned w = 0; w < list[k].waiting; w++)
                n->platform.packet_free(n->platform.ctx, 0, list[k].queue[w]);
        n->env->free(n->env->ctx, list);
    }
}

void node_destroy(struct node *n)
{
    if (!n)
        return;
    const struct env env = *n->env;
    n->platform.env.defer = run_now;
    drain_retired(n);
    for (uint32_t i = 1; n->ports && i < n->config.max_ports; i++) {
        if (n->ports[i].policy)
            policy_free(&n->tables, n->ports[i].policy);
        snat_fini(&env, &n->ports[i].snat);
        env.free(env.ctx, n->ports[i].meters);
        env.free(env.ctx, n->ports[i].denials);
        for (unsigned w = 0; w < MAX_WORKERS; w++)
            env.free(env.ctx, n->ports[i].counters[w]);
    }
    if (n->connections)
        conn_table_destroy(n->connections);
    slot_map_fini(&n->mac_map);
    env.free(env.ctx, n->macs);
    vpc_tables_fini(&n->tables);
    free_links(n);
    flow_log_destroy(&env, n->flow_log);
    env.free(env.ctx, n->meter_bases);
    fragment_close(n);
    env.free(env.ctx, n->ports);
    env.free(env.ctx, n->workers);
    env.free(env.ctx, n);
}
