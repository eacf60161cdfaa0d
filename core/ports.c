// SPDX-License-Identifier: MPL-2.0
// Ports: made, changed and removed by blueprints. A policy is built beside the running one and swapped in; the
// old one is freed when no worker can be reading it.
#include "core/internal.h"

#include "vpc/text.h"

bool node_refuse(struct node_error *e, int code, const char *pointer, const char *text)
{
    e->code = code;
    struct text t = text_into(e->pointer, sizeof(e->pointer));
    text_add(&t, pointer);
    t = text_into(e->text, sizeof(e->text));
    text_add(&t, text);
    return false;
}

struct port *port_at(struct node *n, uint32_t index)
{
    if (index == 0 || index >= n->config.max_ports || !load_acquire(&n->ports[index].policy))
        return NULL;
    return &n->ports[index];
}

static uint32_t hash_mac(uint32_t vni, const struct mac_addr *mac)
{
    uint64_t word = 0;
    memcpy(&word, mac->b, sizeof(mac->b));
    return slot_map_hash(vni, &word, sizeof(word));
}

uint32_t port_by_mac(void *node, uint32_t vni, const struct mac_addr *mac)
{
    struct node *n = node;
    uint32_t s = slot_map_first(&n->mac_map, hash_mac(vni, mac));
    while (s && !(n->macs[s].vni == vni && mac_equal(&n->macs[s].mac, mac)))
        s = slot_map_next(&n->mac_map, s);
    return s ? n->macs[s].port : 0;
}

uint32_t node_port_find(struct node *n, const struct uuid *id)
{
    for (uint32_t i = 1; i < n->config.max_ports; i++)
        if (n->ports[i].policy && uuid_equal(&n->ports[i].id, id))
            return i;
    return 0;
}

// Policies wait in a list until the control thread comes by: freeing one touches control-only tables.
static void retire(void *arg, uint64_t policy)
{
    struct node *n = arg;
    struct policy *p = (struct policy *)(uintptr_t)policy;
    struct policy *head = load_relaxed(&n->retired);
    do
        p->next_retired = head;
    while (!__atomic_compare_exchange_n(&n->retired, &head, p, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

void drain_retired(struct node *n)
{
    struct policy *p = __atomic_exchange_n(&n->retired, NULL, __ATOMIC_ACQUIRE);
    while (p) {
        struct policy *next = p->next_retired;
        policy_free(&n->tables, p);
        p = next;
    }
}

static void install(struct node *n, struct port *port, struct policy *fresh)
{
    struct policy *old = port->policy;
    if (fresh)
        fresh->generation = ++n->last_generation;
    store_release(&port->policy, fresh);
    store_release(&port->generation, fresh ? fresh->generation : ++n->last_generation);
    if (old)
        n->env->defer(n->env->ctx, retire, n, (uint64_t)(uintptr_t)old);
}

// The index that this port had in a former process, else one that nobody had, else any free one.
static uint32_t choose_index(struct node *n, const struct uuid *id)
{
    uint32_t fresh = 0, used = 0;
    for (uint32_t i = 1; i < n->config.max_ports; i++) {
        if (n->kept[i].used && uuid_equal(&n->kept[i].id, id))
            return i;
        if (n->ports[i].policy || load_acquire(&n->ports[i].leaving))
            continue;
        if (n->kept[i].used)
            used = i;
        else if (!fresh)
            fresh = i;
    }
    return fresh ? fresh : used;
}

static bool make_memory(struct node *n, struct port *port)
{
    if (!port->fragments)
        store_release(&port->fragments, n->env->alloc(n->env->ctx, sizeof(*port->fragments)));
    if (!port->fragments)
        return false;
    for (unsigned w = 0; w < n->config.workers; w++) {
        if (!port->counters[w])
            port->counters[w] = n->env->alloc(n->env->ctx, sizeof(struct port_counters));
        if (!port->counters[w])
            return false;
        memset(port->counters[w], 0, sizeof(struct port_counters));
    }
    return true;
}

static uint32_t external_addresses(const struct blueprint *b, struct external_mapping *out)
{
    const struct external_mapping all = {.protocol = PROTOCOL_ANY, .ports = {0, 65535}, .port = b->port};
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->nat.n_floating; i++) {
        out[n] = all;
        out[n++].address = b->nat.floating[i].external;
    }
    for (uint32_t i = 0; i < b->nat.n_snat; i++) {
        out[n] = all;
        out[n].ports = b->nat.snat[i].ports;
        out[n++].address = b->nat.snat[i].address;
    }
    for (uint32_t i = 0; i < b->nat.n_attached; i++) {
        const struct ip_prefix *p = &b->nat.attached[i];
        out[n] = all;
        out[n].prefix_len = p->len == 128 ? 0 : (uint8_t)(p->len - (ip_is_v4(&p->addr) ? 96 : 0));
        out[n++].address = p->addr;
    }
    for (uint32_t i = 0; i < b->n_lb; i++) {
        const struct blueprint_vip *v = &b->lb[i];
        if (!v->external)
            continue;
        out[n] = all;
        out[n].protocol = v->protocol;
        if (v->port)
            out[n].ports = (struct port_range){v->port, v->port};
        out[n++].address = v->address;
    }
    return n;
}

static bool set_external(struct node *n, uint32_t index, const struct blueprint *b)
{
    uint32_t count = b->nat.n_floating + b->nat.n_snat + b->nat.n_attached + b->n_lb;
    struct external_mapping *list = n->env->alloc(n->env->ctx, (count + 1) * sizeof(*list));
    if (!list)
        return false;
    bool ok = external_set_port(&n->tables, index, list, external_addresses(b, list)) != PUT_FULL;
    n->env->free(n->env->ctx, list);
    return ok;
}

bool policy_any_mac(const struct blueprint *b)
{
    bool any = !b->l2.anti_spoof;
    for (uint32_t i = 0; i < b->l2.n_allowed; i++)
        any |= b->l2.allowed[i].has_mac;
    return any;
}

// Bindings of adopted connections must be taken again before anyone else gets them.
static void claim_bindings(struct node *n, struct port *port)
{
    for (uint32_t i = conn_next(n->connections, port->index, 0); i; i = conn_next(n->connections, port->index, i)) {
        conn_port_lock(n->connections, port->index);
        struct conn *k = conn_get(n->connections, i);
        if (conn_stands(k, port->index) && k->nat.kind == CONN_NAT_SNAT &&
            !snat_claim(&port->snat, &k->nat, k->protocol)) {
            k->nat.kind = CONN_NAT_NONE; // its end frees nothing: the port is another's
            conn_close(n->connections, i);
        }
        conn_port_unlock(n->connections, port->index);
    }
}

// An index for a port that is not there yet, and its memory. Nothing that another port left there is touched yet.
static struct port *find_place(struct node *n, const struct blueprint *b, struct node_error *e)
{
    uint32_t index = choose_index(n, &b->port);
    if (!index) {
        event_refused(n, &n->full, "table-full", 0, "no room for another port");
        node_refuse(e, NODE_LIMIT, "", "this node has no room for another port");
        return NULL;
    }
    if (make_memory(n, &n->ports[index]))
        return &n->ports[index];
    node_refuse(e, NODE_LIMIT, "", "not enough memory for the port");
    return NULL;
}

// The index becomes this port's: connections that a former process left are its own, or end.
static void move_in(struct node *n, struct port *port, const struct blueprint *b)
{
    struct kept_port *kept = &n->kept[port->index];
    if (!kept->used || !uuid_equal(&kept->id, &b->port))
        conn_port_flush(n->connections, port->index);
    *kept = (struct kept_port){.id = b->port, .used = 1};
    fragment_forget(n, port);
    port->id = b->port;
    store_relaxed(&port->paused, 0);
    port->next_ra = 0;
    port->stale = (struct watched){0};
    port->attached = false;
}

static bool same_identity(const struct port *port, const struct blueprint *b)
{
    return port->mac_slot && port->vni == b->vpc.vni && port->mac == mac_word(&b->l2.mac);
}

// The VNI is in every key and the MAC in every frame: nothing of an old identity may live on.
static void set_identity(struct node *n, struct port *port, const struct blueprint *b)
{
    if (same_identity(port, b))
        return;
    uint32_t slot = slot_map_alloc(&n->mac_map);
    n->macs[slot] = (struct mac_slot){b->vpc.vni, b->l2.mac, port->index};
    slot_map_link(&n->mac_map, slot, hash_mac(b->vpc.vni, &b->l2.mac));
    // Before the flush: who takes the port's lock after it sees them, and opens nothing under a key of old.
    store_relaxed(&port->vni, b->vpc.vni);
    store_relaxed(&port->mac, mac_word(&b->l2.mac));
    if (port->mac_slot) {
        slot_map_unlink(&n->mac_map, port->mac_slot);
        conn_port_flush(n->connections, port->index);
    }
    port->mac_slot = slot;
}

static bool mac_is_free(struct node *n, const struct blueprint *b, uint32_t self, struct node_error *e)
{
    uint32_t other = port_by_mac(n, b->vpc.vni, &b->l2.mac);
    if (other == 0 || other == self)
        return true;
    return node_refuse(e, NODE_INVALID, "/l2/mac", "another port of this VPC on this node has the MAC address");
}

// Packets that were under way when the port was removed are gone: its index may serve another.
static void has_left(void *arg, uint64_t unused)
{
    struct port *port = arg;
    store_release(&port->leaving, 0);
}

static void close_port(struct node *n, struct port *port)
{
    conn_port_flush(n->connections, port->index);
    conn_port_open(n->connections, port->index, 0, 0);
    denials_flush(n, port, 0, true);
    meters_close(n, port);
    external_set_port(&n->tables, port->index, NULL, 0);
    n->kept[port->index] = (struct kept_port){0};
    if (port->mac_slot)
        slot_map_unlink(&n->mac_map, port->mac_slot);
    port->mac_slot = 0;
    port->id = (struct uuid){0};
    store_release(&port->leaving, 1);
    n->env->defer(n->env->ctx, has_left, port, 0);
}

static void attach(struct node *n, struct port *port, const struct blueprint *b)
{
    port->device_error[0] = '\0';
    port->attached = n->platform.port_attach(n->platform.ctx, port->index, &b->device, &b->l2.mac, b->vpc.mtu,
                                             port->device_error, sizeof(port->device_error)) == 0;
}

// All that can fail; nothing has changed when it did.
static bool reserve_meters(struct node *n, struct port *port, const struct blueprint *b, struct port_meters **meters,
                           struct node_error *e)
{
    bool too_many;
    if (!denials_make(n, port))
        return node_refuse(e, NODE_LIMIT, "", "not enough memory for the port's log");
    if (meters_prepare(n, port, b, meters, &too_many))
        return true;
    return node_refuse(e, NODE_LIMIT, "/firewall/rules",
                       too_many ? "more than 256 meter classes in the life of the port"
                                : "not enough memory for meters");
}

static bool reserve(struct node *n, struct port *port, const struct blueprint *b, struct snat_slice **slices,
                    struct node_error *e)
{
    if (!same_identity(port, b) && slot_map_full(&n->mac_map))
        return node_refuse(e, NODE_LIMIT, "/l2/mac", "too many changes of MAC addresses at once");
    if (!snat_prepare(n->env, &port->snat, &b->nat, slices))
        return node_refuse(e, NODE_LIMIT, "/nat/snat", "not enough memory, or more than 16 slices");
    if (!conn_port_open(n->connections, port->index, b->limits.flows_min, b->limits.flows_max)) {
        snat_discard(n->env, slices);
        return node_refuse(e, NODE_LIMIT, "/limits/flows_min", "the guarantees of all ports would exceed the table");
    }
    if (set_external(n, port->index, b))
        return true;
    struct blueprint_limits had =
        port->policy ? port->policy->blueprint->limits : (struct blueprint_limits){.flows_max = UINT32_MAX};
    conn_port_open(n->connections, port->index, had.flows_min, had.flows_max);
    snat_discard(n->env, slices);
    return node_refuse(e, NODE_LIMIT, "/nat", "not enough memory, or too many external addresses on this node");
}

// What the old policy had and the new one has not ends with the swap; the rest is judged again by its next packet.
static bool commit(struct node *n, struct port *port, struct policy *fresh, struct node_error *e)
{
    const struct blueprint *b = fresh->blueprint;
    bool is_new = port->policy == NULL;
    struct snat_slice *slices[SNAT_SLICES];
    struct port_meters *meters;
    if (!reserve_meters(n, port, b, &meters, e))
        return false;
    if (!reserve(n, port, b, slices, e)) {
        meters_discard(n, meters);
        return false;
    }
    if (is_new)
        move_in(n, port, b);
    set_identity(n, port, b);
    conn_port_lock(n->connections, port->index);
    snat_commit(&port->snat, &b->nat, slices);
    conn_port_unlock(n->connections, port->index);
    snat_discard(n->env, slices);
    store_relaxed(&port->mtu, b->vpc.mtu);
    store_relaxed(&port->any_mac, policy_any_mac(b));
    limits_set(port, &b->qos);
    meters_commit(n, port, meters);
    if (is_new)
        claim_bindings(n, port);
    install(n, port, fresh);
    return true;
}

static bool same_document(const struct blueprint *a, const struct blueprint *b)
{
    return memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

// Only a lack of memory has no field to point to.
static bool refuse_policy(struct node_error *e, const struct policy_error *why)
{
    return node_refuse(e, why->pointer[0] ? NODE_INVALID : NODE_LIMIT, why->pointer, why->text);
}

bool node_blueprint_check(struct node *n, const struct blueprint *b, struct node_error *e)
{
    struct policy_error why;
    *e = (struct node_error){0};
    drain_retired(n);
    struct policy *p = policy_build(&n->tables, b, &why);
    if (!p)
        return refuse_policy(e, &why);
    policy_free(&n->tables, p);
    return mac_is_free(n, b, node_port_find(n, &b->port), e);
}

bool node_blueprint_put(struct node *n, const struct blueprint *b, uint64_t now, uint64_t wall, struct node_error *e)
{
    struct policy_error why;
    *e = (struct node_error){0};
    drain_retired(n);
    uint32_t index = node_port_find(n, &b->port);
    if (index) {
        const struct blueprint *had = n->ports[index].policy->blueprint;
        if (b->generation < had->generation) {
            event_refused(n, &n->ports[index].stale, "stale-generation", index,
                          "a blueprint is older than the one in force");
            return node_refuse(e, NODE_STALE, "/generation", "older than the generation in force");
        }
        if (b->generation == had->generation)
            return same_document(b, had) ||
                   node_refuse(e, NODE_CONFLICT, "/hash", "the generation in force has another content");
    }
    if (!mac_is_free(n, b, index, e))
        return false;
    struct policy *fresh = policy_build(&n->tables, b, &why);
    if (!fresh)
        return refuse_policy(e, &why);
    struct port *port = index ? &n->ports[index] : find_place(n, b, e);
    if (!port || !commit(n, port, fresh, e)) {
        policy_free(&n->tables, fresh);
        return false;
    }
    port->applied_at = wall;
    attach(n, port, fresh->blueprint);
    return true;
}

bool node_blueprint_delete(struct node *n, const struct uuid *id, struct node_error *e)
{
    *e = (struct node_error){0};
    drain_retired(n);
    uint32_t index = node_port_find(n, id);
    if (!index)
        return node_refuse(e, NODE_NOT_FOUND, "", "no such port on this node");
    n->platform.port_detach(n->platform.ctx, index);
    install(n, &n->ports[index], NULL);
    close_port(n, &n->ports[index]);
    return true;
}

bool node_port_act(struct node *n, const struct uuid *id, enum node_port_action action, struct node_error *e)
{
    uint32_t index = node_port_find(n, id);
    if (!index)
        return node_refuse(e, NODE_NOT_FOUND, "", "no such port on this node");
    struct port *port = &n->ports[index];
    switch (action) {
    case NODE_PORT_PAUSE:
        store_relaxed(&port->paused, 1);
        break;
    case NODE_PORT_RESUME:
        store_relaxed(&port->paused, 0);
        break;
    case NODE_PORT_RESET:
        conn_port_flush(n->connections, index);
        break;
    }
    return true;
}
