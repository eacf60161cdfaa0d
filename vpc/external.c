// SPDX-License-Identifier: MPL-2.0
// External addresses: where a packet from outside goes. Entries of local ports come from their blueprints,
// entries of other nodes' ports from the external mapping stream (on edges).
#include "vpc/tables.h"

static uint32_t hash_address(const struct ip_addr *address)
{
    return slot_map_hash(2, address->b, 16);
}

static bool covers(const struct external_slot *s, const struct ip_addr *address, uint8_t protocol, uint16_t port)
{
    return ip_equal(&s->m.address, address) && s->m.state != MAPPING_TOMBSTONE &&
           (s->m.protocol == PROTOCOL_ANY || s->m.protocol == protocol) && port >= s->m.ports.first &&
           port <= s->m.ports.last;
}

uint32_t external_lookup(const struct vpc_tables *t, const struct ip_addr *address, uint8_t protocol, uint16_t port)
{
    uint32_t found = 0;
    for (uint32_t s = slot_map_first(&t->external_map, hash_address(address)); s;
         s = slot_map_next(&t->external_map, s)) {
        if (!covers(&t->externals[s], address, protocol, port))
            continue;
        if (t->externals[s].from_policy) // the port itself is here: it knows better than the stream
            return s;
        if (!found || t->externals[s].m.epoch > t->externals[found].m.epoch)
            found = s;
    }
    // A stream entry that names this node while no port here has the address leads nowhere.
    return found && t->externals[found].tunnel ? found : 0;
}

bool external_owned(const struct vpc_tables *t, const struct ip_addr *address)
{
    for (uint32_t s = slot_map_first(&t->external_map, hash_address(address)); s;
         s = slot_map_next(&t->external_map, s))
        if (ip_equal(&t->externals[s].m.address, address) && t->externals[s].m.state != MAPPING_TOMBSTONE)
            return true;
    return false;
}

bool external_is_shared(const struct vpc_tables *t, const struct ip_addr *address)
{
    for (uint32_t s = slot_map_first(&t->external_map, hash_address(address)); s;
         s = slot_map_next(&t->external_map, s)) {
        const struct external_mapping *m = &t->externals[s].m;
        bool whole = m->protocol == PROTOCOL_ANY && m->ports.first == 0 && m->ports.last == 65535;
        if (ip_equal(&m->address, address) && m->state != MAPPING_TOMBSTONE && !whole)
            return true;
    }
    return false;
}

static bool same_key(const struct external_mapping *a, const struct external_mapping *b)
{
    return ip_equal(&a->address, &b->address) && a->protocol == b->protocol && a->ports.first == b->ports.first &&
           a->ports.last == b->ports.last;
}

static void moved(struct vpc_tables *t)
{
    store_release(&t->outside_version, t->outside_version + 1);
}

enum put_result external_put(struct vpc_tables *t, const struct external_mapping *m)
{
    uint32_t hash = hash_address(&m->address);
    uint32_t old = slot_map_first(&t->external_map, hash);
    while (old && (t->externals[old].from_policy || !same_key(&t->externals[old].m, m)))
        old = slot_map_next(&t->external_map, old);
    if (old) {
        const struct external_mapping *had = &t->externals[old].m;
        if (m->epoch < had->epoch)
            return PUT_STALE;
        if (m->epoch == had->epoch) {
            bool same = had->state == m->state && ip_equal(&had->node, &m->node) && uuid_equal(&had->port, &m->port);
            return same ? PUT_UNCHANGED : PUT_CONFLICT;
        }
    }
    uint32_t tunnel = m->state == MAPPING_TOMBSTONE ? 0 : tunnel_use(t, &m->node);
    uint32_t s = tunnel == UINT32_MAX ? 0 : slot_map_alloc(&t->external_map);
    if (!s) {
        if (tunnel != UINT32_MAX)
            tunnel_release(t, tunnel);
        return PUT_FULL;
    }
    t->externals[s] = (struct external_slot){.m = *m, .tunnel = tunnel};
    uint32_t was = old ? t->externals[old].tunnel : 0;
    if (old)
        slot_map_replace(&t->external_map, old, s, hash);
    else
        slot_map_link(&t->external_map, s, hash);
    tunnel_release(t, was);
    moved(t);
    return PUT_OK;
}

static void forget_port(struct vpc_tables *t, uint32_t port, uint32_t keep_from)
{
    for (uint32_t s = slot_map_iterate(&t->external_map, 0); s; s = slot_map_iterate(&t->external_map, s))
        if (t->externals[s].from_policy && t->externals[s].port == port && t->externals[s].m.epoch != keep_from)
            slot_map_unlink(&t->external_map, s);
}

// Other ports' flows depend on the table's version: it moves only when there is a change.
static bool has_already(const struct vpc_tables *t, uint32_t port, const struct external_mapping *m, uint32_t n)
{
    uint32_t had = 0;
    for (uint32_t s = slot_map_iterate(&t->external_map, 0); s; s = slot_map_iterate(&t->external_map, s)) {
        if (!t->externals[s].from_policy || t->externals[s].port != port)
            continue;
        bool wanted = false;
        for (uint32_t i = 0; i < n && !wanted; i++)
            wanted = same_key(&t->externals[s].m, &m[i]);
        if (!wanted)
            return false;
        had++;
    }
    return had == n;
}

enum put_result external_set_port(struct vpc_tables *t, uint32_t port, const struct external_mapping *m, uint32_t n)
{
    if (has_already(t, port, m, n))
        return PUT_UNCHANGED;
    uint64_t round = (uint64_t)t->outside_version + 1; // marks this call's entries
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = slot_map_alloc(&t->external_map);
        if (!s) { // take back what this call linked
            for (s = slot_map_iterate(&t->external_map, 0); s; s = slot_map_iterate(&t->external_map, s))
                if (t->externals[s].from_policy && t->externals[s].port == port && t->externals[s].m.epoch == round)
                    slot_map_unlink(&t->external_map, s);
            return PUT_FULL;
        }
        t->externals[s] = (struct external_slot){.m = m[i], .port = port, .from_policy = true};
        t->externals[s].m.epoch = round;
        slot_map_link(&t->external_map, s, hash_address(&m[i].address));
    }
    forget_port(t, port, round);
    moved(t);
    return PUT_OK;
}
