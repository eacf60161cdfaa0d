// SPDX-License-Identifier: MPL-2.0
// A whole node against hostile bytes: the input is a list of frames, each with the side it comes from. Whatever they
// are, every packet must end exactly once and every counter must add up.
//
// Frame: side (1), offload bits (1), length (2, big-endian), bytes. Sides: guest, the VPC (wrapped in Geneve from a
// known node), the reserved VNI from an edge, the raw underlay, an external link, the metadata service; time (the
// length in ms, shifted by the low three offload bits).
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/geneve.h"
#include "platform/fake/fake.h"

static const struct ip_addr self = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0xa}};
static const struct ip_addr peer = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0xb}};
static struct fake *f;
static uint32_t port;

static struct ip_addr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    return ip_from_v4((uint8_t[]){a, b, c, d});
}

static void put_port(void)
{
    static const struct mac_addr gateway = {{2, 0, 0, 0, 0, 1}};
    struct ip_addr addresses[] = {v4(10, 0, 0, 3), {.b = {0xfd, [15] = 3}}};
    struct ip_prefix subnets[] = {{v4(10, 0, 0, 0), 120}, {{.b = {0xfd}}, 64}};
    struct blueprint_route routes[] = {{.prefix = {v4(10, 0, 0, 0), 112}},
                                       {.prefix = {{.b = {0xfd}}, 48}},
                                       {.prefix = {v4(0, 0, 0, 0), 96}, .target.kind = BLUEPRINT_TARGET_NAT},
                                       {.prefix = {{{{0}}}, 0}, .target.kind = BLUEPRINT_TARGET_NAT}};
    struct blueprint_rule rules[] = {{.id = "in", .dir = BLUEPRINT_IN, .proto = PROTOCOL_ANY, .stateful = true},
                                     {.id = "no", .dir = BLUEPRINT_OUT, .action = BLUEPRINT_REJECT, .proto = 17}};
    struct blueprint_floating floating[] = {{.external = v4(198, 51, 100, 7), .internal = v4(10, 0, 0, 3)}};
    struct blueprint_snat snat[] = {{.address = {.b = {0x20, 1, 0xd, 0xb8, [15] = 9}}, .ports = {1024, 1087}}};
    struct blueprint b = {
        .schema = 1,
        .port = {.b = {1}},
        .generation = 1,
        .name = "guest",
        .vpc = {.vni = 100, .mtu = 1430},
        .device = {.kind = BLUEPRINT_DEVICE_NONE, .ifname = "", .socket = ""},
        .l2 = {.mac = {{2, 0, 0, 0, 0, 3}}, .addresses = addresses, .n_addresses = 2, .anti_spoof = true},
        .gateway = {.mac = gateway,
                    .has_v4 = true,
                    .has_v6 = true,
                    .v4 = v4(10, 0, 0, 1),
                    .v6 = {.b = {0xfd, [15] = 1}},
                    .subnets = subnets,
                    .n_subnets = 2,
                    .dhcp4 = {.enabled = true, .lease_s = 60, .domain = "example", .hostname = "guest"},
                    .dhcp6 = {.enabled = true, .lease_s = 60, .domain = ""},
                    .ra = {.enabled = true},
                    .metadata = {.enabled = true, .document = "{}"}},
        .firewall = {.default_out_allow = true, .rules = rules, .n_rules = 2},
        .routes = routes,
        .n_routes = 4,
        .nat = {.floating = floating, .n_floating = 1, .snat = snat, .n_snat = 1},
        .limits = {.flows_max = 256}};
    struct node_error e;
    bool ok = node_blueprint_put(f->node, &b, f->now, f->wall, &e);
    assert(ok);
    port = node_port_find(f->node, &b.port);
}

static void start(void)
{
    static struct node_external_link link = {.mac = {{2, 0, 0, 0, 0, 9}}, .mtu = 1500};
    link.prefix4 = (struct ip_prefix){v4(198, 51, 100, 0), 120};
    struct node_config c;
    struct node_error e;
    node_config_default(&c);
    c.underlay = self;
    c.max_ports = 8;
    c.max_connections = 512;
    c.max_mappings = 64;
    c.allow_zero_udp_checksum = true;
    c.service_mac = (struct mac_addr){{2, 0, 0, 0, 0, 8}};
    c.external = &link;
    c.n_external = 1;
    f = fake_create();
    bool ok = fake_start(f, &c);
    assert(ok);
    put_port();
    struct mapping m = {.vni = 100, .ip = v4(10, 0, 0, 4), .mac = {{2, 0, 0, 0, 0, 4}}, .node = peer, .epoch = 1};
    node_mapping_put(f->node, &m, f->now, &e);
    m.ip = (struct ip_addr){.b = {0xfd, [15] = 4}};
    node_mapping_put(f->node, &m, f->now, &e);
    struct edge_set edges = {
        .prefix = {v4(198, 51, 100, 0), 120}, .nodes = (struct ip_addr[]){self, peer}, .n_nodes = 2};
    node_edge_set_put(f->node, &edges, &e);
    struct external_mapping x = {
        .address = v4(198, 51, 100, 8), .protocol = PROTOCOL_ANY, .ports = {0, 65535}, .node = peer, .epoch = 1};
    node_external_mapping_put(f->node, &x, &e);
}

static void offload(struct packet *p, uint8_t bits)
{
    p->csum = bits & 3 & (CSUM_PARTIAL | CSUM_VERIFIED);
    if (p->csum > CSUM_VERIFIED)
        p->csum = CSUM_FULL;
    p->csum_start = bits & 4 ? 34 : 54;
    p->csum_offset = bits & 8 ? 16 : 6;
    p->gso_type = (bits >> 4) & 3;
    p->gso_size = p->gso_type ? 100 : 0;
}

static struct packet *wrapped(const uint8_t *bytes, uint32_t len, uint32_t vni, uint8_t bits)
{
    struct geneve_template t;
    struct packet *p = fake_packet(f, bytes, len);
    offload(p, bits);
    geneve_template_init(&t, &peer, &self, 64);
    geneve_encap(p, &t, vni, 1, bits);
    p->encap_len = 0;
    if (p->csum == CSUM_FULL)
        p->csum = CSUM_VERIFIED;
    return p;
}

static void feed(uint8_t side, uint8_t bits, const uint8_t *bytes, uint32_t len)
{
    struct packet *p;
    switch (side % 7) {
    case 0:
        p = fake_packet(f, bytes, len);
        offload(p, bits);
        node_receive_guest(f->node, 0, port, &p, 1, f->now);
        break;
    case 1:
        p = wrapped(bytes, len, 100, bits);
        node_receive_underlay(f->node, 0, &p, 1, f->now);
        break;
    case 2:
        p = wrapped(bytes, len, GENEVE_VNI_EDGE, bits);
        node_receive_underlay(f->node, 0, &p, 1, f->now);
        break;
    case 3:
        fake_underlay(f, bytes, len);
        break;
    case 4:
        fake_external(f, 0, bytes, len);
        break;
    case 5:
        fake_service(f, bytes, len);
        break;
    default:
        fake_advance(f, (uint64_t)len << (bits & 7));
    }
}

static void check_conservation(void)
{
    struct port_counters c;
    struct node_counters k;
    node_counters(f->node, &k);
    uint64_t ended = k.underlay_to_port + k.underlay_forwarded;
    for (int r = 0; r < DROP_COUNT; r++)
        ended += k.underlay_drops[r];
    if (k.underlay_received != ended)
        abort();
    node_port_counters(f->node, port, &c);
    for (int dir = 0; dir < 2; dir++) {
        uint64_t sum = c.sent[dir] + c.answered[dir] + c.consumed[dir];
        for (int r = 0; r < DROP_COUNT; r++)
            sum += c.drops[dir][r];
        if (c.received[dir] != sum)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    while (size >= 4) {
        uint32_t len = load_be16(data + 2);
        len = MIN(len, (uint32_t)(size - 4));
        len = MIN(len, 4096u);
        feed(data[0], data[1], data + 4, len);
        data += 4 + len;
        size -= 4 + len;
    }
    check_conservation();
    fake_destroy(f);
    return 0;
}
