// SPDX-License-Identifier: MPL-2.0
#include "node/view.h"

#include <stdio.h>

#include "api/json/json.h"
#include "api/json/text.h"
#include "platform/linux/linux.h"

static void set_number(json_t *object, const char *key, uint64_t n)
{
    json_object_set_new(object, key, json_integer((json_int_t)n));
}

static void set_ip(json_t *object, const char *key, const struct ip_addr *a)
{
    char text[IP_TEXT];
    ip_to_text(a, text);
    json_object_set_new(object, key, json_string(text));
}

json_t *view_drops(const uint64_t drops[DROP_COUNT])
{
    json_t *out = json_object();
    for (int i = DROP_NONE + 1; i < DROP_COUNT; i++)
        if (drops[i])
            set_number(out, drop_name(i), drops[i]);
    return out;
}

static json_t *direction_counters(const struct port_counters *c, int dir)
{
    json_t *out = json_object();
    set_number(out, "received", c->received[dir]);
    set_number(out, "received_bytes", c->received_bytes[dir]);
    set_number(out, "sent", c->sent[dir]);
    set_number(out, "sent_bytes", c->sent_bytes[dir]);
    set_number(out, "answered", c->answered[dir]);
    set_number(out, "consumed", c->consumed[dir]);
    set_number(out, "generated", c->generated[dir]);
    set_number(out, "hits", c->hits[dir]);
    set_number(out, "misses", c->misses[dir]);
    json_object_set_new(out, "drops", view_drops(c->drops[dir]));
    return out;
}

json_t *view_port_counters(const struct port_counters *c)
{
    return json_pack("{so,so}", "out", direction_counters(c, COUNT_OUT), "in", direction_counters(c, COUNT_IN));
}

json_t *view_node_counters(const struct node_counters *c)
{
    json_t *underlay = json_object(), *external = json_object(), *service = json_object();
    set_number(underlay, "received", c->underlay_received);
    set_number(underlay, "to_port", c->underlay_to_port);
    set_number(underlay, "forwarded", c->underlay_forwarded);
    json_object_set_new(underlay, "drops", view_drops(c->underlay_drops));
    set_number(external, "received", c->external_received);
    set_number(external, "to_port", c->external_to_port);
    set_number(external, "forwarded", c->external_forwarded);
    set_number(external, "answered", c->external_answered);
    set_number(external, "sent", c->external_sent);
    json_object_set_new(external, "drops", view_drops(c->external_drops));
    set_number(service, "received", c->service_received);
    set_number(service, "to_port", c->service_to_port);
    json_object_set_new(service, "drops", view_drops(c->service_drops));
    return json_pack("{so,so,so}", "underlay", underlay, "external", external, "service", service);
}

// ---- Ports

bool view_attached(struct daemon *d, const struct node_port_status *s)
{
    return linux_port_ready(d->platform, s->index);
}

void view_port_name(void *daemon, uint32_t port, char *out, size_t size)
{
    struct daemon *d = daemon;
    struct node_port_status s;
    char id[UUID_TEXT] = "gone";
    if (node_port_status(d->node, port, &s)) {
        uuid_to_text(&s.id, id);
        snprintf(out, size, "%s", s.name && s.name[0] ? s.name : id);
    } else {
        snprintf(out, size, "port %u", port);
    }
}

static json_t *view_device(const struct blueprint_device *device)
{
    static const char *const kinds[] = {
        [BLUEPRINT_DEVICE_VETH] = "veth",           [BLUEPRINT_DEVICE_TAP] = "tap",
        [BLUEPRINT_DEVICE_TAP_ADOPT] = "tap-adopt", [BLUEPRINT_DEVICE_VHOST_USER] = "vhost-user",
        [BLUEPRINT_DEVICE_NETDEV] = "netdev",       [BLUEPRINT_DEVICE_NONE] = "none",
    };
    json_t *out = json_object();
    json_object_set_new(out, "kind", json_string(device->kind < ARRAY_LEN(kinds) ? kinds[device->kind] : "none"));
    if (device->ifname && device->ifname[0])
        json_object_set_new(out, "ifname", json_string(device->ifname));
    if (device->socket && device->socket[0])
        json_object_set_new(out, "socket", json_string(device->socket));
    return out;
}

static const char *device_error(const struct node_port_status *s, const struct blueprint *b)
{
    if (s->device_error[0] || !b || b->device.kind == BLUEPRINT_DEVICE_NONE)
        return s->device_error;
    return "the device is not there; it is attached when it appears";
}

static void add_blueprint_fields(json_t *out, const struct blueprint *b)
{
    char mac[MAC_TEXT], ip[IP_TEXT], vpc[UUID_TEXT];
    json_t *addresses = json_array();
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        ip_to_text(&b->l2.addresses[i], ip);
        json_array_append_new(addresses, json_string(ip));
    }
    mac_to_text(&b->l2.mac, mac);
    uuid_to_text(&b->vpc.id, vpc);
    json_object_set_new(out, "vpc", json_string(vpc));
    json_object_set_new(out, "mac", json_string(mac));
    json_object_set_new(out, "addresses", addresses);
    json_object_set_new(out, "device", view_device(&b->device));
}

json_t *view_port(struct daemon *d, uint32_t port)
{
    struct node_port_status s;
    struct port_counters counters;
    char id[UUID_TEXT], hash[API_HASH_TEXT];
    if (!node_port_status(d->node, port, &s))
        return NULL;
    uuid_to_text(&s.id, id);
    api_hash_text(s.hash, hash);
    const struct blueprint *b = node_blueprint(d->node, port);
    bool attached = view_attached(d, &s);
    json_t *out = json_pack("{ss,ss,si,si,sI,ss,sI,sb,sb,ss,si,si}", "id", id, "name", s.name ? s.name : "", "index",
                            (int)s.index, "vni", (int)s.vni, "generation", (json_int_t)s.generation, "hash", hash,
                            "applied_at", (json_int_t)s.applied_at, "paused", s.paused, "attached", attached,
                            "device_error", attached ? "" : device_error(&s, b), "connections", (int)s.connections,
                            "connections_max", (int)s.connections_max);
    if (out && b)
        add_blueprint_fields(out, b);
    node_port_counters(d->node, port, &counters);
    json_object_set_new(out, "counters", view_port_counters(&counters));
    return out;
}

json_t *view_rule(const struct rule_counter *c)
{
    static const char *const actions[] = {"allow", "deny", "reject"};
    return json_pack("{ss,ss,ss,ss,sI}", "id", c->id, "layer", c->layer, "dir", c->dir == COUNT_OUT ? "out" : "in",
                     "action", c->action < ARRAY_LEN(actions) ? actions[c->action] : "deny", "hits",
                     (json_int_t)c->hits);
}

// ---- Flows

static void describe_destination(struct daemon *d, const struct transposition *xp, char *out, size_t size)
{
    char name[128];
    switch (xp->to) {
    case XP_TO_GUEST:
        snprintf(out, size, "guest");
        break;
    case XP_TO_PORT:
    case XP_TO_LOCAL_EXTERNAL:
        view_port_name(d, xp->dest, name, sizeof(name));
        snprintf(out, size, xp->to == XP_TO_PORT ? "port %s" : "port %s, as from outside", name);
        break;
    case XP_TO_TUNNEL:
        snprintf(out, size, "tunnel %u, VNI %u", xp->dest, xp->vni);
        break;
    case XP_TO_EXTERNAL:
        snprintf(out, size, "external link %u", xp->dest);
        break;
    case XP_TO_SELF:
        snprintf(out, size, "itself");
        break;
    case XP_TO_SERVICE:
        snprintf(out, size, "metadata service");
        break;
    default:
        snprintf(out, size, "nowhere");
    }
}

json_t *view_transposition(struct daemon *d, const struct transposition *xp)
{
    json_t *out = json_object();
    char mac[MAC_TEXT], to[192];
    if (xp->flags & XP_SRC_MAC) {
        mac_to_text(&xp->src_mac, mac);
        json_object_set_new(out, "src_mac", json_string(mac));
    }
    if (xp->flags & XP_DST_MAC) {
        mac_to_text(&xp->dst_mac, mac);
        json_object_set_new(out, "dst_mac", json_string(mac));
    }
    if (xp->flags & XP_SRC_IP)
        set_ip(out, "src", &xp->src_ip);
    if (xp->flags & XP_DST_IP)
        set_ip(out, "dst", &xp->dst_ip);
    if (xp->flags & XP_SRC_PORT)
        set_number(out, "sport", load_be16(&xp->src_port));
    if (xp->flags & XP_DST_PORT)
        set_number(out, "dport", load_be16(&xp->dst_port));
    if (xp->flags & XP_DEC_TTL)
        json_object_set_new(out, "decrement_ttl", json_true());
    if (xp->flags & XP_CLAMP_MSS)
        json_object_set_new(out, "clamp_mss", json_true());
    describe_destination(d, xp, to, sizeof(to));
    json_object_set_new(out, "to", json_string(to));
    return out;
}

static json_t *view_key(const struct flow_key *k, bool present)
{
    if (!present)
        return json_null();
    json_t *out = json_object();
    set_ip(out, "src", &k->src);
    set_number(out, "sport", load_be16(&k->sport));
    set_ip(out, "dst", &k->dst);
    set_number(out, "dport", load_be16(&k->dport));
    return out;
}

static json_t *view_binding(const struct conn_binding *nat)
{
    static const char *const kinds[] = {
        [CONN_NAT_NONE] = "none",         [CONN_NAT_FLOATING] = "floating", [CONN_NAT_SNAT] = "snat",
        [CONN_NAT_SERVICE] = "service",   [CONN_NAT_HAIRPIN] = "hairpin",   [CONN_NAT_VIP] = "vip",
        [CONN_NAT_ATTACHED] = "attached",
    };
    if (nat->kind == CONN_NAT_NONE)
        return json_null();
    json_t *out = json_object();
    json_object_set_new(out, "kind", json_string(nat->kind < ARRAY_LEN(kinds) ? kinds[nat->kind] : "none"));
    set_ip(out, "external", &nat->external);
    set_number(out, "external_port", load_be16(&nat->external_port));
    return out;
}

static json_t *view_pair(const uint64_t v[2])
{
    return json_pack("{sI,sI}", "out", (json_int_t)v[FLOW_OUT], "in", (json_int_t)v[FLOW_IN]);
}

json_t *view_meter(const struct meter_counter *c)
{
    return json_pack("{sI,so,so}", "class", (json_int_t)c->class_, "packets", view_pair(c->packets), "bytes",
                     view_pair(c->bytes));
}

json_t *view_flow(struct daemon *d, const struct flow_info *f)
{
    struct node_port_status s = {0};
    char id[UUID_TEXT], protocol[PROTOCOL_TEXT], to[192];
    unsigned dir = f->has[FLOW_OUT] ? FLOW_OUT : FLOW_IN;
    node_port_status(d->node, f->port, &s);
    uuid_to_text(&s.id, id);
    protocol_to_text(f->key[dir].protocol, protocol);
    describe_destination(d, &f->xp[dir], to, sizeof(to));
    bool tcp = f->key[dir].protocol == 6;
    return json_pack("{si,ss,ss,so,so,ss,ss,ss,so,ss,so,so,si,si,si,ss}", "id", (int)f->index, "port", id, "protocol",
                     protocol, "out", view_key(&f->key[FLOW_OUT], f->has[FLOW_OUT]), "in",
                     view_key(&f->key[FLOW_IN], f->has[FLOW_IN]), "opener", f->opener == FLOW_OUT ? "out" : "in",
                     "state", tcp ? tcp_state_name(f->state) : "none", "class", conn_class_name(f->class_), "nat",
                     view_binding(&f->nat), "rule", f->rule ? f->rule : "", "packets", view_pair(f->packets), "bytes",
                     view_pair(f->bytes), "age_ms", (int)f->age_ms, "idle_ms", (int)f->idle_ms, "timeout_s",
                     (int)f->timeout_s, "to", to);
}
