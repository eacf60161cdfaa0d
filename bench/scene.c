// SPDX-License-Identifier: MPL-2.0
#include "bench/scene.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/random.h"
#include "engine/parse.h"

#define SECOND 1000000000ull

const struct mac_addr scene_guest_mac = {{0x02, 0, 0, 0, 0, 0x03}}, scene_gateway_mac = {{0x02, 0, 0, 0, 0, 0x01}};
static const struct mac_addr peer_mac = {{0x02, 0, 0, 0, 0, 0x04}};
const struct ip_addr scene_self = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0x0a}};
const struct ip_addr scene_edge = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0x0e}};
static const struct uuid port_id = {{1}};

static struct ip_addr v4(uint32_t host)
{
    uint8_t b[4];
    store_be32(b, host);
    return ip_from_v4(b);
}

static struct ip_addr v6(uint64_t high, uint64_t low)
{
    struct ip_addr a;
    store_be64(a.b, high);
    store_be64(a.b + 8, low);
    return a;
}

static struct ip_prefix prefix4(uint32_t host, unsigned len)
{
    return (struct ip_prefix){v4(len ? host & ~0u << (32 - len) : 0), (uint8_t)(96 + len)};
}

static struct ip_prefix prefix6(uint64_t high, unsigned len) // len <= 64
{
    return (struct ip_prefix){v6(len ? high & ~0ull << (64 - len) : 0, 0), (uint8_t)len};
}

static bool is_v4(const struct scene *s)
{
    return s->options.family == 4;
}

static struct ip_addr guest_address(bool four)
{
    return four ? v4(0x0a000003) : v6(0xfd00ull << 48, 3);
}

static struct ip_addr peer_address(const struct scene *s, uint32_t peer)
{
    if (s->options.nat != NAT_NONE)
        return is_v4(s) ? v4(0xc6120001 + peer) : v6(0x20010db800010000ull, 1 + peer); // 198.18.0.0, 2001:db8:1::
    return is_v4(s) ? v4(0x0a010001 + peer) : v6(0xfd00000000000001ull, 1 + peer);     // another subnet of the VPC
}

struct ip_addr scene_guest_external(const struct scene *s)
{
    return is_v4(s) ? v4(0xc0000203) : v6(0x20010db8000f0000ull, 3);
}

struct ip_addr scene_node(const struct scene *s, uint32_t i)
{
    struct ip_addr a = scene_edge;
    if (s->options.nat != NAT_NONE)
        return a;
    store_be32(a.b + 12, 0x1000 + i % SCENE_PEERS % s->options.nodes);
    return a;
}

struct scene_flow scene_flow(const struct scene *s, uint32_t i)
{
    return (struct scene_flow){.guest = guest_address(is_v4(s)),
                               .peer = peer_address(s, i % SCENE_PEERS),
                               .guest_port = (uint16_t)(1024 + i / SCENE_PEERS),
                               .peer_port = (uint16_t)(5000 + i % 16)};
}

// ---- The blueprint

struct rule_memory {
    struct blueprint_rule *rules;
    struct port_range *ports;
    struct ip_prefix *remotes;
    char (*ids)[12];
};

// Security-group-like rules that almost match, and last the one that does.
static struct rule_memory make_rules(uint32_t n, bool four)
{
    struct rule_memory m = {calloc(n, sizeof(*m.rules)), calloc(n, sizeof(*m.ports)), calloc(n, sizeof(*m.remotes)),
                            calloc(n, sizeof(*m.ids))};
    uint64_t r = 7;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t first = (uint16_t)(10000 + random_below(&r, 40000));
        m.ports[i] = (struct port_range){first, (uint16_t)(first + 20)};
        m.remotes[i] = four ? prefix4(0x0a000000 | random_below(&r, 1 << 24), 16 + random_below(&r, 17))
                            : prefix6(0xfd00ull << 48 | random_below(&r, 1 << 24), 48 + random_below(&r, 17));
        snprintf(m.ids[i], sizeof(m.ids[i]), "r%u", i);
        m.rules[i] = (struct blueprint_rule){.id = m.ids[i],
                                             .prio = random_below(&r, 1000),
                                             .dir = BLUEPRINT_OUT,
                                             .action = random_below(&r, 4) ? BLUEPRINT_ALLOW : BLUEPRINT_DENY,
                                             .proto = random_below(&r, 3) ? IPPROTO_UDP4 : IPPROTO_TCP4,
                                             .ports = &m.ports[i],
                                             .n_ports = 1,
                                             .stateful = true};
        if (i % 8 > 1)
            m.rules[i].remote =
                (struct blueprint_remote){.kind = BLUEPRINT_REMOTE_CIDRS, .cidrs = &m.remotes[i], .n_cidrs = 1};
    }
    m.ports[n - 1] = (struct port_range){5000, 5999};
    m.rules[n - 1].prio = 2000;
    m.rules[n - 1].action = BLUEPRINT_ALLOW;
    m.rules[n - 1].proto = IPPROTO_UDP4;
    m.rules[n - 1].remote = (struct blueprint_remote){0};
    return m;
}

static void free_rules(struct rule_memory *m)
{
    free(m->rules);
    free(m->ports);
    free(m->remotes);
    free(m->ids);
}

// Local, default, and others of which no packet here has need.
static void make_routes(struct blueprint_route *routes, uint32_t n)
{
    uint64_t r = 9;
    routes[0] = (struct blueprint_route){.prefix = prefix4(0x0a000000, 8)};
    routes[1] = (struct blueprint_route){.prefix = prefix6(0xfd00ull << 48, 48)};
    routes[2] = (struct blueprint_route){.prefix = prefix4(0, 0), .target.kind = BLUEPRINT_TARGET_NAT};
    routes[3] = (struct blueprint_route){.prefix = prefix6(0, 0), .target.kind = BLUEPRINT_TARGET_NAT};
    for (uint32_t i = 4; i < n; i++) {
        unsigned more = random_below(&r, 9);
        struct ip_prefix p = i % 4 ? prefix4(0xa0000000 + (i << 8) + random_below(&r, 256), 24 + more)
                                   : prefix6((0xfd01ull << 48) + ((uint64_t)i << 16), 48 + more);
        routes[i] = (struct blueprint_route){.prefix = p, .target.kind = BLUEPRINT_TARGET_LOCAL};
    }
}

static uint32_t make_snat(struct blueprint_snat slices[16], bool four)
{
    for (uint32_t i = 0; i < 16; i++)
        slices[i] = (struct blueprint_snat){.address = four ? v4(0xc0000210 + i) : v6(0x20010db8000f0000ull, 0x10 + i),
                                            .ports = {1024, 65535}};
    return 16;
}

static void put_port(struct scene *s)
{
    const struct scene_options *o = &s->options;
    struct ip_addr addresses[2] = {guest_address(true), guest_address(false)};
    struct ip_prefix subnets[2] = {prefix4(0x0a000000, 24), prefix6(0xfd00ull << 48, 64)};
    struct rule_memory m = make_rules(o->rules, is_v4(s));
    struct blueprint_route *routes = calloc(o->routes, sizeof(*routes));
    struct blueprint_floating floating = {.external = scene_guest_external(s), .internal = addresses[!is_v4(s)]};
    struct blueprint_snat slices[16];
    make_routes(routes, o->routes);
    struct blueprint b = {
        .schema = 1,
        .port = port_id,
        .generation = 1,
        .hash = {1},
        .name = "guest",
        .vpc = {.vni = SCENE_VNI, .mtu = 1430},
        .device = {.kind = BLUEPRINT_DEVICE_NONE, .ifname = "", .socket = "", .queues = 1},
        .l2 = {.mac = scene_guest_mac, .addresses = addresses, .n_addresses = 2, .anti_spoof = true},
        .gateway = {.mac = scene_gateway_mac,
                    .has_v4 = true,
                    .v4 = v4(0x0a000001),
                    .has_v6 = true,
                    .v6 = v6(0xfd00ull << 48, 1),
                    .subnets = subnets,
                    .n_subnets = 2,
                    .dhcp4 = {.domain = "", .hostname = ""},
                    .dhcp6 = {.domain = ""},
                    .metadata = {.document = "{}"}},
        .firewall = {.rules = m.rules, .n_rules = o->rules},
        .routes = routes,
        .n_routes = o->routes,
        .nat = {.floating = &floating, .n_floating = o->nat == NAT_FLOATING, .snat = slices},
        .limits = {.flows_max = o->connections},
    };
    if (o->nat == NAT_SNAT)
        b.nat.n_snat = make_snat(slices, is_v4(s));
    struct node_error e;
    if (!node_blueprint_put(s->node, &b, s->now, 1, &e))
        errx(1, "blueprint refused at %s: %s", e.pointer, e.text);
    free_rules(&m);
    free(routes);
    s->port = node_port_find(s->node, &port_id);
}

static void put_peers(struct scene *s)
{
    struct node_error e;
    for (uint32_t i = 0; s->options.nat == NAT_NONE && i < SCENE_PEERS; i++) {
        struct mapping m = {
            .vni = SCENE_VNI, .ip = peer_address(s, i), .mac = peer_mac, .node = scene_node(s, i), .epoch = 1};
        if (!node_mapping_put(s->node, &m, s->now, &e))
            errx(1, "mapping refused at %s: %s", e.pointer, e.text);
    }
    struct ip_prefix outside = is_v4(s) ? prefix4(0xc0000200, 24) : prefix6(0x20010db8000f0000ull, 64);
    struct edge_set set = {.prefix = outside, .nodes = &scene_edge, .n_nodes = 1, .epoch = 1};
    if (!node_edge_set_put(s->node, &set, &e))
        errx(1, "edge set refused at %s: %s", e.pointer, e.text);
}

struct scene *scene_create(const struct scene_options *o)
{
    struct scene *s = calloc(1, sizeof(*s));
    if (!s)
        err(1, "scene");
    s->options = *o;
    s->now = 1000 * SECOND;
    null_platform_init(&s->np);
    struct node_config c;
    node_config_default(&c);
    c.underlay = scene_self;
    c.max_connections = o->connections;
    c.tcp_port_quarantine_s = o->rest_s;
    s->node = node_create(&s->np.platform, &c, s->now);
    if (!s->node)
        errx(1, "no memory for %u connections", o->connections);
    put_port(s);
    put_peers(s);
    null_platform_quiesce(&s->np);
    return s;
}

void scene_destroy(struct scene *s)
{
    null_platform_quiesce(&s->np);
    node_destroy(s->node);
    null_platform_fini(&s->np);
    free(s);
}

void scene_reset(struct scene *s)
{
    struct node_error e;
    if (!node_port_act(s->node, &port_id, NODE_PORT_RESET, &e))
        errx(1, "reset: %s", e.text);
    null_platform_quiesce(&s->np);
    s->opened = 0;
}
