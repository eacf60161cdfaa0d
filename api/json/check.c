// SPDX-License-Identifier: MPL-2.0
// What takes more than one field of a document to see. Each runs on values that are right one by one.
#include "api/json/fields.h"
#include "api/json/text.h"
#include <stdlib.h>
#include <string.h>

enum { ICMP = 1, TCP = 6, UDP = 17, ICMP6 = 58, SCTP = 132 };

static const char *family_name(bool v4)
{
    return v4 ? "IPv4" : "IPv6";
}

static int compare_ip(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct ip_addr));
}

// ---- Lists without repetition. Sorted copies, because lists may be long and come from outside.
struct entry {
    const void *key;
    size_t index;
};

static int compare_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_route(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const struct blueprint_route *r = x->key, *s = y->key;
    int order = compare_ip(&r->prefix.addr, &s->prefix.addr);
    order = order ? order : r->prefix.len - s->prefix.len;
    order = order ? order : r->custom - s->custom;
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static bool same_route(const void *a, const void *b)
{
    const struct blueprint_route *r = a, *s = b;
    return compare_ip(&r->prefix.addr, &s->prefix.addr) == 0 && r->prefix.len == s->prefix.len &&
           r->custom == s->custom;
}

static bool same_text(const void *a, const void *b)
{
    return strcmp(a, b) == 0;
}

static void refuse_repetition(struct loader *l, struct entry *entries, size_t n,
                              int (*compare)(const void *, const void *), bool (*same)(const void *, const void *),
                              const char *field, const char *what, const struct path *list)
{
    if (n > 1)
        qsort(entries, n, sizeof(*entries), compare);
    for (size_t i = 1; i < n; i++) {
        if (!same(entries[i - 1].key, entries[i].key))
            continue;
        struct path element = {.up = list, .index = entries[i].index};
        struct path here = {.up = &element, .key = field};
        api_fail(l, &here, "duplicate", "%s is that of element %zu too", what, entries[i - 1].index);
    }
}

static struct entry *entries_for(struct loader *l, size_t n)
{
    struct entry *entries = arena_zeroed(l->arena, MAX(n, 1) * sizeof(*entries));
    if (!entries)
        api_fail(l, NULL, "no-memory", "out of memory");
    return entries;
}

// ---- Rules
static void check_rule(struct loader *l, const struct blueprint_rule *r, const struct path *list, size_t index)
{
    struct path element = {.up = list, .index = index, .label = "rule", .id = r->id};
    struct path here = {.up = &element};
    if (r->n_ports > 0 && r->proto != TCP && r->proto != UDP && r->proto != SCTP) {
        here.key = "ports";
        api_fail(l, &here, "not-applicable", "ports go with proto tcp, udp or sctp only");
    }
    if (r->n_icmp > 0 && r->proto != ICMP && r->proto != ICMP6) {
        here.key = "icmp";
        api_fail(l, &here, "not-applicable", "icmp goes with proto icmp or icmp6 only");
    }
    if (strcmp(r->id, "default-in") == 0 || strcmp(r->id, "default-out") == 0) {
        here.key = "id";
        api_fail(l, &here, "conflict", "this id names the default rule");
    }
}

static void check_rules(struct loader *l, const struct blueprint_rule *rules, uint32_t n, const char *object,
                        const char *field)
{
    struct path up = {.key = object};
    struct path list = {.up = &up, .key = field};
    struct entry *entries = entries_for(l, n);
    if (!entries)
        return;
    for (uint32_t i = 0; i < n; i++) {
        check_rule(l, &rules[i], &list, i);
        entries[i] = (struct entry){rules[i].id, i};
    }
    refuse_repetition(l, entries, n, compare_text, same_text, "id", "the id", &list);
}

static void check_posture_direction(struct loader *l, const struct blueprint_rule *rules, uint32_t n, const char *field,
                                    uint8_t dir)
{
    struct path up = {.key = "posture"};
    struct path list = {.up = &up, .key = field};
    for (uint32_t i = 0; i < n; i++) {
        struct path element = {.up = &list, .index = i, .label = "rule", .id = rules[i].id};
        struct path here = {.up = &element, .key = "dir"};
        if (rules[i].dir != dir)
            api_fail(l, &here, "conflict", "a rule in posture/%s has dir \"%s\"", field, field);
    }
}

// ---- Addresses
static bool has_address(const struct blueprint *b, const struct ip_addr *a)
{
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        if (ip_equal(&b->l2.addresses[i], a))
            return true;
    }
    return false;
}

static void check_addresses(struct loader *l, const struct blueprint *b)
{
    struct path l2 = {.key = "l2"};
    struct path list = {.up = &l2, .key = "addresses"};
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        struct path here = {.up = &list, .index = i};
        const struct ip_addr *a = &b->l2.addresses[i];
        if (ip_is_link_local(a))
            api_fail(l, &here, "range", "a link-local address is not given to a port");
        if (b->gateway.has_v4 && ip_equal(a, &b->gateway.v4))
            api_fail(l, &here, "conflict", "this is the gateway's address");
        if (b->gateway.has_v6 && ip_equal(a, &b->gateway.v6))
            api_fail(l, &here, "conflict", "this is the gateway's address");
        for (uint32_t j = 0; j < i; j++) {
            if (ip_equal(a, &b->l2.addresses[j]))
                api_fail(l, &here, "duplicate", "the address is that of element %u too", j);
        }
    }
    if (mac_equal(&b->l2.mac, &b->gateway.mac)) {
        struct path here = {.up = &l2, .key = "mac"};
        api_fail(l, &here, "conflict", "this is the gateway's MAC address");
    }
}

// ---- Routes
static void check_routes(struct loader *l, const struct blueprint *b)
{
    struct path list = {.key = "routes"};
    struct entry *entries = entries_for(l, b->n_routes);
    if (!entries)
        return;
    for (uint32_t i = 0; i < b->n_routes; i++) {
        const struct blueprint_route *r = &b->routes[i];
        struct path element = {.up = &list, .index = i};
        struct path target = {.up = &element, .key = "target"};
        struct path here = {.up = &target, .key = "ip"};
        bool next_hop = r->target.kind == BLUEPRINT_TARGET_IP || r->target.kind == BLUEPRINT_TARGET_PORT;
        bool v4 = prefix_is_v4(&r->prefix);
        if (next_hop && ip_is_v4(&r->target.ip) != v4)
            api_fail(l, &here, "family", "an %s prefix has an %s next hop", family_name(v4), family_name(!v4));
        here.key = "vni";
        if (r->target.kind == BLUEPRINT_TARGET_PEERING && r->target.vni == b->vpc.vni)
            api_fail(l, &here, "conflict", "a VPC is no peer of itself");
        entries[i] = (struct entry){r, i};
    }
    refuse_repetition(l, entries, b->n_routes, compare_route, same_route, "prefix", "the prefix, of the same origin,",
                      &list);
}

// ---- NAT
static void check_floating(struct loader *l, const struct blueprint *b, const struct path *nat)
{
    struct path list = {.up = nat, .key = "floating"};
    for (uint32_t i = 0; i < b->nat.n_floating; i++) {
        const struct blueprint_floating *f = &b->nat.floating[i];
        struct path element = {.up = &list, .index = i};
        struct path here = {.up = &element, .key = "internal"};
        if (ip_is_v4(&f->external) != ip_is_v4(&f->internal))
            api_fail(l, &here, "family", "an %s address stands for an %s one", family_name(ip_is_v4(&f->external)),
                     family_name(ip_is_v4(&f->internal)));
        else if (!has_address(b, &f->internal))
            api_fail(l, &here, "conflict", "it is none of the port's addresses");
        here.key = "external";
        for (uint32_t j = 0; j < i; j++) {
            if (ip_equal(&f->external, &b->nat.floating[j].external))
                api_fail(l, &here, "duplicate", "the address is that of element %u too", j);
        }
    }
}

static void check_snat(struct loader *l, const struct blueprint *b, const struct path *nat)
{
    struct path list = {.up = nat, .key = "snat"};
    for (uint32_t i = 0; i < b->nat.n_snat; i++) {
        const struct blueprint_snat *s = &b->nat.snat[i];
        struct path element = {.up = &list, .index = i};
        struct path here = {.up = &element, .key = "ports"};
        if (s->ports.first == 0)
            api_fail(l, &here, "range", "port 0 cannot be given to a connection");
        for (uint32_t j = 0; j < i; j++) {
            const struct blueprint_snat *other = &b->nat.snat[j];
            if (ip_equal(&s->address, &other->address) && s->ports.first <= other->ports.last &&
                other->ports.first <= s->ports.last)
                api_fail(l, &here, "duplicate", "the ports overlap those of element %u", j);
        }
        here.key = "address";
        for (uint32_t j = 0; j < b->nat.n_floating; j++) {
            if (ip_equal(&s->address, &b->nat.floating[j].external))
                api_fail(l, &here, "conflict", "it is the floating address of element %u", j);
        }
    }
}

// How long a prefix of external addresses may be: lookups try each length.
bool check_external_prefix(struct loader *l, const struct ip_prefix *p, const struct path *path)
{
    bool v4 = prefix_is_v4(p);
    bool fits = v4 ? p->len >= 96 + 24 : (p->len >= 48 && p->len <= 64) || p->len == 128;
    if (!fits)
        api_fail(l, path, "range",
                 v4 ? "an external IPv4 prefix is a /24 to /32" : "an external IPv6 prefix is a /48 to /64, or a /128");
    return fits;
}

static bool overlap(const struct ip_prefix *a, const struct ip_prefix *b)
{
    return prefix_is_v4(a) == prefix_is_v4(b) && (ip_in_prefix(&a->addr, b) || ip_in_prefix(&b->addr, a));
}

static void check_attached(struct loader *l, const struct blueprint *b, const struct path *nat)
{
    struct path list = {.up = nat, .key = "attached"};
    for (uint32_t i = 0; i < b->nat.n_attached; i++) {
        const struct ip_prefix *p = &b->nat.attached[i];
        struct path here = {.up = &list, .index = i};
        if (ip_is_link_local(&p->addr) || ip_is_multicast(&p->addr))
            api_fail(l, &here, "range", "not a prefix of unicast addresses");
        if (!check_external_prefix(l, p, &here))
            continue;
        for (uint32_t j = 0; j < i; j++) {
            if (overlap(p, &b->nat.attached[j]))
                api_fail(l, &here, "duplicate", "it overlaps element %u", j);
        }
        for (uint32_t j = 0; j < b->gateway.n_subnets; j++) {
            if (overlap(p, &b->gateway.subnets[j]))
                api_fail(l, &here, "conflict", "it overlaps the port's subnet %u", j);
        }
        for (uint32_t j = 0; j < b->l2.n_addresses; j++) {
            if (ip_in_prefix(&b->l2.addresses[j], p))
                api_fail(l, &here, "conflict", "the port's address %u is in it", j);
        }
        for (uint32_t j = 0; j < b->nat.n_floating; j++) {
            if (ip_in_prefix(&b->nat.floating[j].external, p))
                api_fail(l, &here, "conflict", "the floating address of element %u is in it", j);
        }
        for (uint32_t j = 0; j < b->nat.n_snat; j++) {
            if (ip_in_prefix(&b->nat.snat[j].address, p))
                api_fail(l, &here, "conflict", "the SNAT address of element %u is in it", j);
        }
    }
}

void check_blueprint(struct loader *l, const void *value, const struct path *path)
{
    const struct blueprint *b = value;
    struct path nat = {.key = "nat"};
    struct path limits = {.key = "limits"};
    struct path flows_min = {.up = &limits, .key = "flows_min"};
    check_addresses(l, b);
    check_rules(l, b->firewall.rules, b->firewall.n_rules, "firewall", "rules");
    check_rules(l, b->posture.out, b->posture.n_out, "posture", "out");
    check_rules(l, b->posture.in, b->posture.n_in, "posture", "in");
    check_posture_direction(l, b->posture.out, b->posture.n_out, "out", BLUEPRINT_OUT);
    check_posture_direction(l, b->posture.in, b->posture.n_in, "in", BLUEPRINT_IN);
    check_routes(l, b);
    check_floating(l, b, &nat);
    check_snat(l, b, &nat);
    check_attached(l, b, &nat);
    check_load_balancers(l, b);
    if (b->limits.flows_min > b->limits.flows_max)
        api_fail(l, &flows_min, "conflict", "%u is above flows_max, %u", b->limits.flows_min, b->limits.flows_max);
}

// ---- Others
void check_external_mapping(struct loader *l, const void *value, const struct path *path)
{
    const struct external_mapping *m = value;
    struct path length = {.up = path, .key = "prefix_len"}, address = {.up = path, .key = "address"};
    bool v4 = ip_is_v4(&m->address);
    if (m->prefix_len == 0)
        return;
    struct ip_prefix p = {.addr = m->address, .len = (uint8_t)MIN(m->prefix_len + (v4 ? 96 : 0), 255)};
    if (p.len >= 128) { // one address has one key
        api_fail(l, &length, "range", "one address alone has no prefix_len, and a prefix at most its family's bits");
        return;
    }
    if (!check_external_prefix(l, &p, &length))
        return;
    for (unsigned bit = p.len; bit < 128; bit++) {
        if (m->address.b[bit / 8] >> (7 - bit % 8) & 1) {
            api_fail(l, &address, "host-bits", "the address has bits beyond the prefix");
            return;
        }
    }
}

void check_edge_set(struct loader *l, const void *value, const struct path *path)
{
    const struct edge_set *s = value;
    struct path list = {.up = path, .key = "nodes"};
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        struct path here = {.up = &list, .index = i};
        for (uint32_t j = 0; j < i; j++) {
            if (ip_equal(&s->nodes[i], &s->nodes[j]))
                api_fail(l, &here, "duplicate", "the node is that of element %u too", j);
        }
    }
}

void check_external(struct loader *l, const void *value, const struct path *path)
{
    const struct config_external *e = value;
    struct path gateway4 = {.up = path, .key = "gateway4"}, gateway6 = {.up = path, .key = "gateway6"};
    if (e->prefix4.len == 0 && e->prefix6.len == 0)
        api_fail(l, path, "missing", "prefix4, prefix6 or both are needed");
    if (!ip_is_unspecified(&e->gateway4) && (e->prefix4.len == 0 || !ip_in_prefix(&e->gateway4, &e->prefix4)))
        api_fail(l, &gateway4, "conflict", "the gateway is not in prefix4");
    bool in_prefix6 = ip_is_link_local(&e->gateway6) || ip_in_prefix(&e->gateway6, &e->prefix6);
    if (!ip_is_unspecified(&e->gateway6) && (e->prefix6.len == 0 || !in_prefix6))
        api_fail(l, &gateway6, "conflict", "the gateway is not in prefix6");
}

void check_trace(struct loader *l, const void *value, const struct path *path)
{
    const struct trace_request *t = value;
    struct path from = {.up = path, .key = "from"};
    struct path packet = {.up = path, .key = "packet"};
    struct path src = {.up = &packet, .key = "src"};
    struct path port = {.up = path, .key = "port"}, dir = {.up = path, .key = "dir"};
    if (!t->has_port && !t->has_flow && !t->has_blueprint)
        api_fail(l, &port, "missing", "the field port is missing");
    if (t->has_port && (t->has_flow || t->has_blueprint))
        api_fail(l, &port, "not-applicable", "flow and blueprint name the port");
    if (!t->has_dir && !t->has_flow)
        api_fail(l, &dir, "missing", "the field dir is missing");
    if (t->has_from && t->dir != BLUEPRINT_IN)
        api_fail(l, &from, "not-applicable", "only a packet to the port comes from a node");
    if (t->has_packet && t->dir == BLUEPRINT_IN && !t->packet.has_src)
        api_fail(l, &src, "missing", "dir \"in\" needs the field src");
}

void check_trace_packet(struct loader *l, const void *value, const struct path *path)
{
    const struct trace_packet *p = value;
    struct path src = {.up = path, .key = "src"}, proto = {.up = path, .key = "proto"};
    if (p->has_src && ip_is_v4(&p->src) != ip_is_v4(&p->dst))
        api_fail(l, &src, "family", "src and dst are of different families");
    if (p->proto == PROTOCOL_ANY)
        api_fail(l, &proto, "word", "a packet has one protocol, not any");
}
