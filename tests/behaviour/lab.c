// SPDX-License-Identifier: MPL-2.0
#include "tests/behaviour/lab.h"

#include <arpa/inet.h>
#include <stdio.h>

const struct ip_addr NODE_A = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0xa}};
const struct ip_addr NODE_B = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0xb}};
const struct ip_addr NODE_C = {.b = {0xfd, 0, 0xca, 0xbe, [15] = 0xc}};
const struct mac_addr GUEST_MAC = {{2, 0, 0, 0, 0, 3}};
const struct mac_addr PEER_MAC = {{2, 0, 0, 0, 0, 4}};
const struct mac_addr GATEWAY_MAC = {{2, 0, 0, 0, 0, 1}};

const struct end G = {MAC_OF(3), "10.0.0.3", "fd00::3"};
const struct end P = {MAC_OF(4), "10.0.0.4", "fd00::4"};
const struct end OUTSIDE = {MAC_OF(1), "203.0.113.9", "2001:db8:9::9"};

struct ip_addr ip(const char *text)
{
    uint8_t b[16];
    if (inet_pton(AF_INET, text, b) == 1)
        return ip_from_v4(b);
    assert_int_equal(inet_pton(AF_INET6, text, b), 1);
    return ip_from_v6(b);
}

struct ip_prefix prefix(const char *text)
{
    char address[64];
    strncpy(address, text, sizeof(address) - 1);
    char *slash = strchr(address, '/');
    assert_non_null(slash);
    *slash = '\0';
    struct ip_prefix p = {.addr = ip(address), .len = (uint8_t)atoi(slash + 1)};
    if (ip_is_v4(&p.addr))
        p.len = (uint8_t)(p.len + 96);
    return p;
}

struct mac_addr mac(const char *text)
{
    struct mac_addr m;
    assert_int_equal(
        sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &m.b[0], &m.b[1], &m.b[2], &m.b[3], &m.b[4], &m.b[5]), 6);
    return m;
}

// ---- blueprints

void draft_route(struct draft *d, const char *destination, uint8_t kind, const char *target)
{
    struct blueprint_route *r = &d->routes[d->b.n_routes++];
    *r = (struct blueprint_route){.prefix = prefix(destination), .target = {.kind = kind}};
    if (target)
        r->target.ip = ip(target);
}

void draft_init(struct draft *d, uint8_t id, uint32_t vni, const char *v4, const char *v6, struct mac_addr own)
{
    memset(d, 0, sizeof(*d));
    struct blueprint *b = &d->b;
    *b = (struct blueprint){.schema = 1, .port = {.b = {[15] = id}}, .name = "guest", .vpc = {.vni = vni, .mtu = 1430}};
    b->device = (struct blueprint_device){.kind = BLUEPRINT_DEVICE_NONE, .ifname = "", .socket = "", .queues = 1};
    b->l2 = (struct blueprint_l2){
        .mac = own, .addresses = d->addresses, .n_addresses = 2, .anti_spoof = true, .allowed = d->allowed};
    d->addresses[0] = ip(v4);
    d->addresses[1] = ip(v6);
    d->subnets[0] = prefix("10.0.0.0/24");
    d->subnets[1] = prefix("fd00::/64");
    d->dns[0] = ip("10.0.0.2");
    b->gateway = (struct blueprint_gateway){
        .mac = GATEWAY_MAC,
        .has_v4 = true,
        .has_v6 = true,
        .v4 = ip("10.0.0.1"),
        .v6 = ip("fd00::1"),
        .subnets = d->subnets,
        .n_subnets = 2,
        .dhcp4 = {.enabled = true, .lease_s = 3600, .dns = d->dns, .n_dns = 1, .domain = "", .hostname = "guest"},
        .dhcp6 = {.enabled = true, .lease_s = 3600, .domain = ""},
        .ra = {.enabled = true},
        .metadata = {.enabled = true, .document = "{}"}};
    b->posture = (struct blueprint_posture){.out = d->posture_out, .in = d->posture_in};
    b->firewall = (struct blueprint_firewall){.default_out_allow = true, .rules = d->rules};
    b->routes = d->routes;
    b->nat = (struct blueprint_nat){.floating = d->floating, .snat = d->snat, .attached = d->attached};
    b->lb = d->vips;
    b->limits = (struct blueprint_limits){.flows_max = 1024};
    draft_route(d, "10.0.0.0/16", BLUEPRINT_TARGET_LOCAL, NULL);
    draft_route(d, "fd00::/48", BLUEPRINT_TARGET_LOCAL, NULL);
    draft_route(d, "0.0.0.0/0", BLUEPRINT_TARGET_NAT, NULL);
    draft_route(d, "::/0", BLUEPRINT_TARGET_NAT, NULL);
}

void draft_guest(struct draft *d)
{
    draft_init(d, 3, 100, G.v4, G.v6, GUEST_MAC);
}

struct blueprint_rule *draft_rule(struct draft *d, const char *id, uint32_t prio, uint8_t dir, uint8_t action,
                                  uint16_t proto)
{
    struct blueprint_rule *r = &d->rules[d->b.firewall.n_rules++];
    *r =
        (struct blueprint_rule){.id = id, .prio = prio, .dir = dir, .action = action, .proto = proto, .stateful = true};
    return r;
}

void rule_ports(struct draft *d, struct blueprint_rule *r, uint16_t first, uint16_t last)
{
    struct port_range *list = d->ranges[r - d->rules];
    list[r->n_ports++] = (struct port_range){first, last};
    r->ports = list;
}

void rule_icmp(struct draft *d, struct blueprint_rule *r, int type, int code)
{
    struct blueprint_icmp *one = &d->icmp[r - d->rules];
    *one = (struct blueprint_icmp){type, code};
    r->icmp = one;
    r->n_icmp = 1;
}

void rule_cidr(struct draft *d, struct blueprint_rule *r, const char *cidr)
{
    struct ip_prefix *list = d->cidrs[r - d->rules];
    list[r->remote.n_cidrs++] = prefix(cidr);
    r->remote.kind = BLUEPRINT_REMOTE_CIDRS;
    r->remote.cidrs = list;
}

void draft_floating(struct draft *d, const char *external, const char *internal)
{
    d->floating[d->b.nat.n_floating++] =
        (struct blueprint_floating){.external = ip(external), .internal = ip(internal)};
}

void draft_snat(struct draft *d, const char *address, uint16_t first, uint16_t last)
{
    d->snat[d->b.nat.n_snat++] = (struct blueprint_snat){.address = ip(address), .ports = {first, last}};
}

struct blueprint_vip *draft_vip(struct draft *d, const char *address, uint16_t protocol, uint16_t port)
{
    struct blueprint_vip *v = &d->vips[d->b.n_lb];
    *v = (struct blueprint_vip){
        .id = "vip", .address = ip(address), .protocol = protocol, .port = port, .targets = d->targets[d->b.n_lb++]};
    return v;
}

struct blueprint_vip_target *vip_target(struct draft *d, struct blueprint_vip *v, const char *address, uint16_t port)
{
    struct blueprint_vip_target *t = &d->targets[v - d->vips][v->n_targets++];
    *t = (struct blueprint_vip_target){.address = ip(address), .port = port, .weight = 1};
    return t;
}

// The hash stands for the content: any number that no other document has will do.
bool try_put(struct fake *f, struct draft *d, struct node_error *e)
{
    static uint64_t serial;
    d->b.generation++;
    serial++;
    memcpy(d->b.hash, &serial, sizeof(serial));
    bool ok = node_blueprint_put(f->node, &d->b, f->now, f->wall, e);
    fake_quiesce(f);
    return ok;
}

uint32_t put(struct fake *f, struct draft *d)
{
    struct node_error e;
    if (!try_put(f, d, &e))
        fail_msg("blueprint refused at %s: %s", e.pointer, e.text);
    return node_port_find(f->node, &d->b.port);
}

void map(struct fake *f, uint32_t vni, const char *address, struct mac_addr to, struct ip_addr node, uint64_t epoch)
{
    struct mapping m = {.vni = vni, .ip = ip(address), .mac = to, .node = node, .epoch = epoch};
    struct node_error e;
    if (!node_mapping_put(f->node, &m, f->now, &e))
        fail_msg("mapping refused at %s: %s", e.pointer, e.text);
    fake_quiesce(f);
}

void unmap(struct fake *f, uint32_t vni, const char *address, uint64_t epoch)
{
    struct mapping m = {.vni = vni, .ip = ip(address), .epoch = epoch, .state = MAPPING_TOMBSTONE};
    struct node_error e;
    assert_true(node_mapping_put(f->node, &m, f->now, &e));
    fake_quiesce(f);
}

// ---- the lab

struct node_config lab_config(struct ip_addr self)
{
    struct node_config c;
    node_config_default(&c);
    c.underlay = self;
    c.max_ports = 16;
    c.max_connections = 4096;
    c.max_mappings = 256;
    c.service_mac = mac("02:00:00:00:ee:01");
    c.keep_state = true;
    return c;
}

int lab_setup(void **state)
{
    struct lab *l = calloc(1, sizeof(*l));
    struct node_config c = lab_config(NODE_A);
    l->a = fake_create();
    assert_true(fake_start(l->a, &c));
    draft_guest(&l->guest);
    l->g = put(l->a, &l->guest);
    map(l->a, 100, P.v4, PEER_MAC, NODE_B, 1);
    map(l->a, 100, P.v6, PEER_MAC, NODE_B, 1);
    fake_forget(l->a);
    *state = l;
    return 0;
}

int lab_teardown(void **state)
{
    struct lab *l = *state;
    if (l->a->node)
        check_conservation(l->a);
    fake_destroy(l->a);
    free(l);
    return 0;
}

// ---- packets

struct end via(struct end e, struct mac_addr m)
{
    e.mac = m;
    return e;
}

void frame_set_mac(struct frame *f, struct mac_addr dst, struct mac_addr src)
{
    memcpy(f->bytes, dst.b, 6);
    memcpy(f->bytes + 6, src.b, 6);
}

static struct frame ip_packet(int family, struct end src, struct end dst, uint8_t protocol, uint32_t l4_len)
{
    struct frame f = {0};
    uint8_t *l3 = f.bytes + 14;
    frame_set_mac(&f, dst.mac, src.mac);
    if (family == 4) {
        store_be16(f.bytes + 12, ETHERTYPE_IPV4);
        l3[0] = 0x45;
        store_be16(l3 + 2, (uint16_t)(20 + l4_len));
        store_be16(l3 + 4, 0x1234);
        l3[8] = 64;
        l3[9] = protocol;
        memcpy(l3 + 12, ip(src.v4).b + 12, 4);
        memcpy(l3 + 16, ip(dst.v4).b + 12, 4);
        f.len = 14 + 20 + l4_len;
    } else {
        store_be16(f.bytes + 12, ETHERTYPE_IPV6);
        l3[0] = 0x60;
        store_be16(l3 + 4, (uint16_t)l4_len);
        l3[6] = protocol;
        l3[7] = 64;
        memcpy(l3 + 8, ip(src.v6).b, 16);
        memcpy(l3 + 24, ip(dst.v6).b, 16);
        f.len = 14 + 40 + l4_len;
    }
    assert_true(f.len <= sizeof(f.bytes));
    for (uint32_t i = 0; i < l4_len; i++)
        f.bytes[f.len - l4_len + i] = (uint8_t)(i * 7 + 1);
    return f;
}

static uint8_t *l4_of(struct frame *f)
{
    return f->bytes + 14 + (f->bytes[14] >> 4 == 4 ? 20 : 40);
}

static void addresses(const uint8_t *l3, struct ip_addr *src, struct ip_addr *dst, uint8_t *protocol)
{
    bool v4 = l3[0] >> 4 == 4;
    *src = v4 ? ip_from_v4(l3 + 12) : ip_from_v6(l3 + 8);
    *dst = v4 ? ip_from_v4(l3 + 16) : ip_from_v6(l3 + 24);
    *protocol = v4 ? l3[9] : l3[6];
}

void frame_fix(struct frame *f)
{
    struct ip_addr src, dst;
    uint8_t protocol, *l4 = l4_of(f);
    addresses(f->bytes + 14, &src, &dst, &protocol);
    if (f->bytes[14] >> 4 == 4)
        checksum_write_ip4(f->bytes + 14);
    if (protocol == IPPROTO_TCP4 || protocol == IPPROTO_UDP4 || protocol == IPPROTO_ICMP4 || protocol == IPPROTO_ICMP6)
        checksum_write_l4(l4, (uint32_t)(f->bytes + f->len - l4), &src, &dst, protocol);
}

bool frame_checksums_right(const uint8_t *frame, uint32_t len)
{
    struct frame f = {.len = len};
    memcpy(f.bytes, frame, len);
    frame_fix(&f);
    return memcmp(f.bytes, frame, len) == 0;
}

struct frame tcp(int family, struct end src, uint16_t sport, struct end dst, uint16_t dport, uint8_t flags,
                 uint32_t seq, uint32_t ack, uint32_t payload)
{
    struct frame f = ip_packet(family, src, dst, IPPROTO_TCP4, 20 + payload);
    uint8_t *l4 = l4_of(&f);
    memset(l4, 0, 20);
    store_be16(l4, sport);
    store_be16(l4 + 2, dport);
    store_be32(l4 + 4, seq);
    store_be32(l4 + 8, ack);
    l4[12] = 0x50;
    l4[13] = flags;
    store_be16(l4 + 14, 0xfaf0);
    frame_fix(&f);
    return f;
}

struct frame udp(int family, struct end src, uint16_t sport, struct end dst, uint16_t dport, uint32_t payload)
{
    struct frame f = ip_packet(family, src, dst, IPPROTO_UDP4, 8 + payload);
    uint8_t *l4 = l4_of(&f);
    store_be16(l4, sport);
    store_be16(l4 + 2, dport);
    store_be16(l4 + 4, (uint16_t)(8 + payload));
    frame_fix(&f);
    return f;
}

struct frame icmp(int family, struct end src, struct end dst, uint8_t type, uint8_t code)
{
    struct frame f = ip_packet(family, src, dst, family == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6, 8 + 32);
    uint8_t *l4 = l4_of(&f);
    memset(l4, 0, 8);
    l4[0] = type;
    l4[1] = code;
    frame_fix(&f);
    return f;
}

struct frame icmp_echo(int family, struct end src, struct end dst, bool reply, uint16_t id, uint16_t seq,
                       uint32_t payload)
{
    struct frame f = ip_packet(family, src, dst, family == 4 ? IPPROTO_ICMP4 : IPPROTO_ICMP6, 8 + payload);
    uint8_t *l4 = l4_of(&f);
    l4[0] = family == 4 ? (reply ? 0 : 8) : (reply ? 129 : 128);
    l4[1] = 0;
    store_be16(l4 + 4, id);
    store_be16(l4 + 6, seq);
    frame_fix(&f);
    return f;
}

struct frame other(int family, struct end src, struct end dst, uint8_t protocol, uint32_t payload)
{
    struct frame f = ip_packet(family, src, dst, protocol, payload);
    frame_fix(&f);
    return f;
}

struct frame arp_request(struct mac_addr sender_mac, const char *sender, const char *target)
{
    struct frame f = {.len = 42};
    frame_set_mac(&f, mac("ff:ff:ff:ff:ff:ff"), sender_mac);
    store_be16(f.bytes + 12, ETHERTYPE_ARP);
    memcpy(f.bytes + 14, (uint8_t[]){0, 1, 8, 0, 6, 4, 0, 1}, 8);
    memcpy(f.bytes + 22, sender_mac.b, 6);
    memcpy(f.bytes + 28, ip(sender).b + 12, 4);
    memcpy(f.bytes + 38, ip(target).b + 12, 4);
    return f;
}

struct frame in_geneve(const struct frame *inner, uint32_t vni, struct ip_addr from, struct ip_addr to)
{
    struct geneve_template t;
    struct frame f = {.len = inner->len + GENEVE_ENCAP_LEN};
    memcpy(f.bytes + GENEVE_ENCAP_LEN, inner->bytes, inner->len);
    struct packet p = {.data = f.bytes + GENEVE_ENCAP_LEN,
                       .len = inner->len,
                       .head = inner->len,
                       .room = inner->len,
                       .headroom = GENEVE_ENCAP_LEN};
    geneve_template_init(&t, &from, &to, 64);
    geneve_encap(&p, &t, vni, 0x123456789abcdefull, 0);
    return f;
}

// ---- what came of it

void send_guest(struct lab *l, const struct frame *f)
{
    fake_guest(l->a, l->g, f->bytes, f->len);
}

void receive_vpc(struct lab *l, const struct frame *inner)
{
    struct frame f = in_geneve(inner, 100, NODE_B, NODE_A);
    fake_underlay(l->a, f.bytes, f.len);
}

static const char *const kinds[] = {"delivered", "sent on the underlay", "sent outside", "given to the service"};

static const struct fake_call *expect(struct fake *f, enum fake_kind kind)
{
    const struct fake_call *c = fake_next(f);
    if (!c) {
        for (uint32_t i = node_port_next(f->node, 0); i; i = node_port_next(f->node, i))
            for (int dir = 0; dir < 2; dir++)
                for (int r = 1; r < DROP_COUNT; r++)
                    if (drops(f, i, dir, r))
                        print_message("port %u dir %d: %s %lu\n", i, dir, drop_name(r), drops(f, i, dir, r));
        fail_msg("nothing came, expected a packet to be %s", kinds[kind]);
    }
    if (c->kind != kind)
        fail_msg("a packet was %s, expected it to be %s", kinds[c->kind], kinds[kind]);
    unsigned at = f->next;
    assert_null(fake_next(f));
    f->next = at;
    return c;
}

const struct fake_call *expect_underlay(struct fake *f, struct ip_addr node)
{
    const struct fake_call *c = expect(f, FAKE_UNDERLAY);
    assert_memory_equal(c->node.b, node.b, 16);
    return c;
}

const struct fake_call *expect_deliver(struct fake *f, uint32_t port)
{
    const struct fake_call *c = expect(f, FAKE_DELIVER);
    assert_int_equal(c->where, port);
    return c;
}

void expect_nothing(struct fake *f)
{
    const struct fake_call *c = fake_next(f);
    if (c)
        fail_msg("a packet was %s, expected nothing", kinds[c->kind]);
}

uint64_t drops(struct fake *f, uint32_t port, int dir, enum drop reason)
{
    if (port == 0) {
        struct node_counters n;
        node_counters(f->node, &n);
        return n.underlay_drops[reason];
    }
    struct port_counters c;
    node_port_counters(f->node, port, &c);
    return c.drops[dir][reason];
}

// Each drop is spent by the expectation that names it, so that none goes unnoticed.
void expect_drop(struct fake *f, uint32_t port, int dir, enum drop reason)
{
    expect_nothing(f);
    uint64_t *spent = &f->spent_drops[port][dir][reason];
    uint64_t now = drops(f, port, dir, reason);
    if (now != *spent + 1) {
        for (int r = 1; r < DROP_COUNT; r++)
            if (drops(f, port, dir, r) != f->spent_drops[port][dir][r])
                print_message("dropped as %s\n", drop_name(r));
        fail_msg("not dropped as %s", drop_name(reason));
    }
    *spent = now;
}

uint32_t flows(struct fake *f, uint32_t port)
{
    struct node_port_status s;
    assert_true(node_port_status(f->node, port, &s));
    return s.connections;
}

void check_conservation(struct fake *f)
{
    struct node_counters node;
    node_counters(f->node, &node);
    uint64_t ended = node.underlay_to_port + node.underlay_forwarded;
    for (int r = 0; r < DROP_COUNT; r++)
        ended += node.underlay_drops[r];
    assert_int_equal(node.underlay_received, ended);
    ended = node.service_to_port;
    for (int r = 0; r < DROP_COUNT; r++)
        ended += node.service_drops[r];
    assert_int_equal(node.service_received, ended);
    ended = node.external_to_port + node.external_forwarded + node.external_answered;
    for (int r = 0; r < DROP_COUNT; r++) // a packet that waited in vain for a next hop had been counted as sent
        ended += r == DROP_NEXT_HOP_FAILED ? 0 : node.external_drops[r];
    assert_int_equal(node.external_received, ended);
    for (uint32_t i = node_port_next(f->node, 0); i; i = node_port_next(f->node, i)) {
        struct port_counters c;
        node_port_counters(f->node, i, &c);
        for (int dir = 0; dir < 2; dir++) {
            uint64_t sum = c.sent[dir] + c.answered[dir] + c.consumed[dir];
            for (int r = 0; r < DROP_COUNT; r++)
                sum += c.drops[dir][r];
            assert_int_equal(c.received[dir], sum);
        }
        uint32_t listed = 0;
        struct flow_info info;
        for (uint32_t k = node_flow_next(f->node, i, 0, f->now, &info); k;
             k = node_flow_next(f->node, i, k, f->now, &info))
            listed++;
        assert_int_equal(listed, flows(f, i));
    }
}

const uint8_t *inner_of(const struct fake_call *c, uint32_t *len)
{
    assert_true(c->len > GENEVE_ENCAP_LEN);
    *len = c->len - GENEVE_ENCAP_LEN;
    return c->frame + GENEVE_ENCAP_LEN;
}
