// SPDX-License-Identifier: MPL-2.0
// External addresses: where a packet from outside goes. Entries of local ports come from their blueprints,
// entries of other nodes' ports from the external mapping stream (on edges).
#include "vpc/tables.h"

uint8_t external_length(const struct external_mapping *m)
{
    if (m->prefix_len == 0)
        return 128;
    return (uint8_t)(m->prefix_len + (ip_is_v4(&m->address) ? 96 : 0));
}

static uint32_t hash_address(const struct ip_addr *address)
{
    return slot_map_hash(2, address->b, 16);
}

static struct ip_addr first_of(const struct ip_addr *address, unsigned len)
{
    struct ip_addr a = *address;
    uint64_t high = len >= 64 ? ~0ull : ~(~0ull >> len), low = len <= 64 ? 0 : ~0ull << (128 - len);
    store_be64(a.b, load_be64(a.b) & high);
    store_be64(a.b + 8, load_be64(a.b + 8) & low);
    return a;
}

bool external_prefix_ok(const struct ip_addr *address, unsigned len)
{
    bool fits = ip_is_v4(address) ? len >= 96 + 24 && len <= 128 : (len >= 48 && len <= 64) || len == 128;
    if (!fits)
        return false;
    struct ip_addr first = first_of(address, len);
    return ip_equal(&first, address);
}

// The next shorter length in use that may hold the address; 0: none.
static unsigned next_length(const struct vpc_tables *t, const struct ip_addr *address, unsigned len)
{
    unsigned floor = ip_is_v4(address) ? 96 : 1, ceiling = ip_is_v4(address) ? 128 : 96;
    for (len = MIN(len, ceiling); len > floor;) {
        uint64_t word = load_relaxed(&t->external_lengths[(len - 1) / 64]);
        word &= ~0ull >> (63 - (len - 1) % 64);
        if (word) {
            len = (len - 1) / 64 * 64 + 63 - (unsigned)__builtin_clzll(word);
            return len >= floor ? len : 0;
        }
        len = (len - 1) / 64 * 64;
    }
    return 0;
}

static bool covers(const struct external_slot *s, uint8_t protocol, uint16_t port)
{
    return s->m.state != MAPPING_TOMBSTONE && (s->m.protocol == PROTOCOL_ANY || s->m.protocol == protocol) &&
           port >= s->m.ports.first && port <= s->m.ports.last;
}

static bool begins(const struct external_slot *s, const struct ip_addr *first, unsigned len)
{
    return ip_equal(&s->m.address, first) && external_length(&s->m) == len;
}

static uint32_t lookup(const struct vpc_tables *t, const struct ip_addr *first, unsigned len, uint8_t protocol,
                       uint16_t port)
{
    uint32_t found = 0;
    for (uint32_t s = slot_map_first(&t->external_map, hash_address(first)); s;
         s = slot_map_next(&t->external_map, s)) {
        if (!begins(&t->externals[s], first, len) || !covers(&t->externals[s], protocol, port))
            continue;
        if (t->externals[s].from_policy) // the port itself is here: it knows better than the stream
            return s;
        if (!found || t->externals[s].m.epoch > t->externals[found].m.epoch)
            found = s;
    }
    // A stream entry that names this node while no port here has the address leads nowhere.
    return found && t->externals[found].tunnel ? found : 0;
}

uint32_t external_lookup(const struct vpc_tables *t, const struct ip_addr *address, uint8_t protocol, uint16_t port)
{
    uint32_t found = lookup(t, address, 128, protocol, port);
    for (unsigned len = 128; !found && (len = next_length(t, address, len)) != 0;) {
        struct ip_addr first = first_of(address, len);
        found = lookup(t, &first, len, protocol, port);
    }
    return found;
}

static bool owned(const struct vpc_tables *t, const struct ip_addr *first, unsigned len)
{
    for (uint32_t s = slot_map_first(&t->external_map, hash_address(first)); s; s = slot_map_next(&t->external_map, s))
        if (begins(&t->externals[s], first, len) && t->externals[s].m.state != MAPPING_TOMBSTONE)
            return true;
    return false;
}

bool external_owned(const struct vpc_tables *t, const struct ip_addr *address)
{
    bool found = owned(t, address, 128);
    for (unsigned len = 128; !found && (len = next_length(t, address, len)) != 0;) {
        struct ip_addr first = first_of(address, len);
        found = owned(t, &first, len);
    }
    return found;
}

// Lengths are told to readers before the first entry that has them, and forgotten after the last.
static void set_length(struct vpc_tables *t, unsigned len, bool used)
{
    if (len == 128)
        return;
    uint64_t bit = 1ull << (len % 64), had = t->external_lengths[len / 64];
    store_release(&t->external_lengths[len / 64], used ? had | bit : had & ~bit);
}

static void link_slot(struct vpc_tables *t, uint32_t slot)
{
    unsigned len = external_length(&t->externals[slot].m);
    if (t->external_count[len]++ == 0)
        set_length(t, len, true);
    slot_map_link(&t->external_map, slot, hash_address(&t->externals[slot].m.address));
}

static void unlink_slot(struct vpc_tables *t, uint32_t slot)
{
    unsigned len = external_length(&t->externals[slot].m);
    slot_map_unlink(&t->external_map, slot);
    if (--t->external_count[len] == 0)
        set_length(t, len, false);
}

static bool same_key(const struct external_mapping *a, const struct external_mapping *b)
{
    return ip_equal(&a->address, &b->address) && external_length(a) == external_length(b) &&
           a->protocol == b->protocol && a->ports.first == b->ports.first && a->ports.last == b->ports.last;
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
        slot_map_replace(&t->external_map, old, s);
    else
        link_slot(t, s);
    moved(t); // before the tunnel goes: who still holds the old version keeps it alive
    tunnel_release(t, was);
    return PUT_OK;
}

static bool is_of_port(const struct vpc_tables *t, uint32_t slot, uint32_t port)
{
    return t->externals[slot].from_policy && t->externals[slot].port == port;
}

static bool is_among(const struct external_mapping *key, const struct external_mapping *m, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && !same_key(key, &m[i]))
        i++;
    return i < n;
}

// Unlinks the port's entries that are not among m; how many there were.
static uint32_t forget_others(struct vpc_tables *t, uint32_t port, const struct external_mapping *m, uint32_t n)
{
    uint32_t forgotten = 0;
    for (uint32_t s = slot_map_iterate(&t->external_map, 0); s; s = slot_map_iterate(&t->external_map, s)) {
        if (!is_of_port(t, s, port) || is_among(&t->externals[s].m, m, n))
            continue;
        unlink_slot(t, s);
        forgotten++;
    }
    return forgotten;
}

static bool has(const struct vpc_tables *t, uint32_t port, const struct external_mapping *m)
{
    uint32_t s = slot_map_first(&t->external_map, hash_address(&m->address));
    while (s && !(is_of_port(t, s, port) && same_key(&t->externals[s].m, m)))
        s = slot_map_next(&t->external_map, s);
    return s != 0;
}

static enum put_result take_back(struct vpc_tables *t, uint32_t port, uint64_t round)
{
    for (uint32_t s = slot_map_iterate(&t->external_map, 0); s; s = slot_map_iterate(&t->external_map, s))
        if (is_of_port(t, s, port) && t->externals[s].m.epoch == round)
            unlink_slot(t, s);
    return PUT_FULL;
}

// What the port keeps is left alone: workers look it up meanwhile. The table's version, on which other ports' flows
// depend, moves only when there is a change.
enum put_result external_set_port(struct vpc_tables *t, uint32_t port, const struct external_mapping *m, uint32_t n)
{
    uint64_t round = (uint64_t)t->outside_version + 1; // marks this call's entries
    uint32_t made = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (has(t, port, &m[i]))
            continue;
        uint32_t s = slot_map_alloc(&t->external_map);
        if (!s)
            return take_back(t, port, round);
        t->externals[s] = (struct external_slot){.m = m[i], .port = port, .from_policy = true};
        t->externals[s].m.epoch = round;
        link_slot(t, s);
        made++;
    }
    if (forget_others(t, port, m, n) + made == 0)
        return PUT_UNCHANGED;
    moved(t);
    return PUT_OK;
}
