// SPDX-License-Identifier: MPL-2.0
// The vectors of each dimension: protocol and family, remote address, port or ICMP type, address sets.
#include "engine/rule_table_internal.h"
#include "engine/sort.h"

// ---- Protocol and family

bool rule_build_protocols(struct rule_build *b)
{
    struct rule_table *t = &b->table;
    t->n_classes = 1;
    for (uint32_t p = 0; p < t->n; p++) {
        const struct rule *r = rule_build_at(b, p);
        if (r->protocol < 256 && t->protocol_class[r->protocol] == 0)
            t->protocol_class[r->protocol] = (uint16_t)t->n_classes++;
    }
    b->protocol_vectors = rule_build_alloc(b, (uint64_t)FAMILIES * t->n_classes, sizeof(uint32_t));
    if (!b->protocol_vectors)
        return false;
    static const uint8_t versions[FAMILIES] = {4, 6, 0};
    for (uint32_t i = 0; i < FAMILIES * t->n_classes; i++) {
        uint32_t class = i % t->n_classes;
        rule_build_clear(b);
        for (uint32_t p = 0; p < t->n; p++) {
            const struct rule *r = rule_build_at(b, p);
            bool protocol = r->protocol == RULE_PROTO_ANY ||
                            (r->protocol < 256 && class && t->protocol_class[r->protocol] == class);
            if (protocol && (r->ip_version == 0 || r->ip_version == versions[i / t->n_classes]))
                rule_build_set(b, p);
        }
        if (!rule_build_store(b, &b->protocol_vectors[i]))
            return false;
    }
    return true;
}

// ---- Remote address

struct prefix_ref { // a rule names a prefix
    struct ip_prefix prefix;
    uint32_t position;
};

struct cover { // the prefixes around the one at hand, shortest first, each within the one before
    uint32_t routes[130];
    unsigned n;
};

// By family: ::/0 lies around the IPv4 addresses, but does not cover them.
static int compare_prefixes(const void *pa, const void *pb)
{
    const struct prefix_ref *a = pa, *b = pb;
    bool a_v4 = ip_is_v4(&a->prefix.addr), b_v4 = ip_is_v4(&b->prefix.addr);
    if (a_v4 != b_v4)
        return a_v4 ? -1 : 1;
    int order = memcmp(a->prefix.addr.b, b->prefix.addr.b, 16);
    if (order != 0)
        return order;
    return a->prefix.len != b->prefix.len ? (a->prefix.len < b->prefix.len ? -1 : 1) : 0;
}

static struct prefix_ref *gather_prefixes(struct rule_build *b, uint64_t *n)
{
    *n = 0;
    for (uint32_t p = 0; p < b->table.n; p++)
        *n += rule_build_at(b, p)->n_remotes;
    struct prefix_ref *refs = rule_build_alloc(b, *n, sizeof(*refs));
    uint64_t filled = 0;
    for (uint32_t p = 0; refs && p < b->table.n; p++) {
        const struct rule *r = rule_build_at(b, p);
        for (uint32_t i = 0; i < r->n_remotes; i++)
            refs[filled++] = (struct prefix_ref){r->remotes[i], p};
    }
    if (refs)
        sort(refs, *n, sizeof(*refs), compare_prefixes);
    return refs;
}

static void add_vpc_rules(struct rule_build *b)
{
    for (uint32_t p = 0; p < b->table.n; p++) {
        if (rule_build_at(b, p)->remote_vpc)
            rule_build_set(b, p);
    }
}

// b->bits hold a vector without the overlay's rules: stores it, then it with them.
static bool store_both(struct rule_build *b, uint32_t *outside, uint32_t *overlay)
{
    if (!rule_build_store(b, outside))
        return false;
    add_vpc_rules(b);
    return rule_build_store(b, overlay);
}

// Distinct prefixes in order, a covering one before those it covers: each starts from its parent's vector.
static bool store_prefixes(struct rule_build *b, const struct prefix_ref *refs, uint64_t n, struct lpm_route *routes)
{
    struct cover cover = {.n = 0};
    for (uint64_t i = 0; i < n;) {
        const struct prefix_ref *ref = &refs[i];
        while (cover.n && !(ref->prefix.len > routes[cover.routes[cover.n - 1]].prefix.len &&
                            ip_in_prefix(&ref->prefix.addr, &routes[cover.routes[cover.n - 1]].prefix)))
            cover.n--;
        uint32_t route = b->n_prefixes++;
        rule_build_expand(b, cover.n ? b->prefix_vectors[0][cover.routes[cover.n - 1]] : b->table.elsewhere[0]);
        for (; i < n && compare_prefixes(&refs[i], ref) == 0; i++)
            rule_build_set(b, refs[i].position);
        if (!store_both(b, &b->prefix_vectors[0][route], &b->prefix_vectors[1][route]))
            return false;
        routes[route] = (struct lpm_route){ref->prefix, route};
        cover.routes[cover.n++] = route; // at most one of each length
    }
    return true;
}

bool rule_build_remotes(struct rule_build *b)
{
    rule_build_clear(b);
    for (uint32_t p = 0; p < b->table.n; p++) {
        if (rule_is_everywhere(rule_build_at(b, p)))
            rule_build_set(b, p);
    }
    if (!store_both(b, &b->table.elsewhere[0], &b->table.elsewhere[1]))
        return false;

    uint64_t n;
    struct prefix_ref *refs = gather_prefixes(b, &n);
    struct lpm_route *routes = rule_build_alloc(b, n, sizeof(*routes));
    for (unsigned i = 0; i < 2; i++)
        b->prefix_vectors[i] = rule_build_alloc(b, n, sizeof(uint32_t));
    bool ok = refs && routes && b->prefix_vectors[0] && b->prefix_vectors[1] && n < INT32_MAX &&
              store_prefixes(b, refs, n, routes);
    if (ok)
        b->prefixes = lpm_build(b->env, routes, b->n_prefixes);
    rule_build_release(b, refs);
    rule_build_release(b, routes);
    return b->prefixes;
}

// ---- Port, ICMP type and code

enum l4_kind { L4_PORTS, L4_ICMP, L4_ICMP_CODE };

struct edge {       // a rule's range begins or ends at a value
    uint32_t value; // ends: the value behind the last, up to 65536
    uint32_t position;
    int32_t step;
};

static bool is_portless(const struct rule *r)
{
    return r->n_ports == 0 && r->n_icmp == 0;
}

static uint32_t count_ranges(const struct rule *r, enum l4_kind kind)
{
    if (r->n_ports && r->n_icmp)
        return 0; // no packet has both
    return kind == L4_PORTS ? r->n_ports : r->n_icmp;
}

// Range i of the rule in the value space of `kind`; false when it is of another kind, or empty.
static bool range_at(const struct rule *r, enum l4_kind kind, uint32_t i, uint32_t *first, uint32_t *last)
{
    if (kind == L4_PORTS) {
        *first = r->ports[i].first;
        *last = r->ports[i].last;
        return *first <= *last;
    }
    int type = r->icmp[i].type, code = r->icmp[i].code;
    if (type > 255 || code > 255 || (type < 0 && code >= 0) != (kind == L4_ICMP_CODE))
        return false;
    if (kind == L4_ICMP_CODE) {
        *first = *last = (uint32_t)code;
        return true;
    }
    *first = type < 0 ? 0 : (uint32_t)(type << 8 | MAX(code, 0));
    *last = type < 0 ? 0xffff : code < 0 ? *first | 0xff : *first;
    return true;
}

static int compare_edges(const void *pa, const void *pb)
{
    const struct edge *a = pa, *b = pb;
    return a->value < b->value ? -1 : a->value > b->value;
}

static struct edge *gather_edges(struct rule_build *b, enum l4_kind kind, uint64_t *n)
{
    uint64_t most = 0;
    *n = 0;
    for (uint32_t p = 0; p < b->table.n; p++)
        most += count_ranges(rule_build_at(b, p), kind);
    struct edge *edges = rule_build_alloc(b, most * 2, sizeof(*edges));
    for (uint32_t p = 0; edges && p < b->table.n; p++) {
        const struct rule *r = rule_build_at(b, p);
        uint32_t count = count_ranges(r, kind), first, last;
        for (uint32_t i = 0; i < count; i++) {
            if (!range_at(r, kind, i, &first, &last))
                continue;
            edges[(*n)++] = (struct edge){first, p, 1};
            edges[(*n)++] = (struct edge){last + 1, p, -1};
        }
    }
    if (edges)
        sort(edges, *n, sizeof(*edges), compare_edges);
    return edges;
}

// Walks the values in order, keeping in b->bits the rules whose ranges (`open` of each) hold the value.
static bool sweep(struct rule_build *b, const struct edge *edges, uint64_t n, uint32_t *open,
                  const struct interval_arrays *out, uint32_t *n_out)
{
    uint64_t i = 0;
    for (uint32_t value = 0; value < 65536; value = i < n ? edges[i].value : 65536) {
        for (; i < n && edges[i].value == value; i++) {
            uint32_t p = edges[i].position;
            open[p] += (uint32_t)edges[i].step; // unsigned: an end may come before a beginning at the same value
            if (open[p])
                rule_build_set(b, p);
            else
                rule_build_unset(b, p);
        }
        uint32_t vector;
        if (!rule_build_store(b, &vector))
            return false;
        if (*n_out && out->vectors[*n_out - 1] == vector)
            continue;
        out->first[*n_out] = (uint16_t)value;
        out->vectors[(*n_out)++] = vector;
    }
    return true;
}

static bool store_intervals(struct rule_build *b, enum l4_kind kind, uint32_t base, struct interval_arrays *out,
                            uint32_t *n_out)
{
    uint64_t n;
    struct edge *edges = gather_edges(b, kind, &n);
    uint32_t *open = rule_build_alloc(b, b->table.n, sizeof(*open));
    uint64_t most = MIN(n + 1, 65536);
    out->first = rule_build_alloc(b, most, sizeof(*out->first));
    out->vectors = rule_build_alloc(b, most, sizeof(*out->vectors));
    rule_build_expand(b, base);
    bool ok = edges && open && out->first && out->vectors && sweep(b, edges, n, open, out, n_out);
    rule_build_release(b, edges);
    rule_build_release(b, open);
    return ok;
}

bool rule_build_l4(struct rule_build *b)
{
    struct rule_table *t = &b->table;
    rule_build_clear(b);
    for (uint32_t p = 0; p < t->n; p++) {
        if (is_portless(rule_build_at(b, p)))
            rule_build_set(b, p);
    }
    return rule_build_store(b, &t->portless) && store_intervals(b, L4_PORTS, t->portless, &b->ports, &t->ports.n) &&
           store_intervals(b, L4_ICMP, t->portless, &b->icmp, &t->icmp.n) &&
           store_intervals(b, L4_ICMP_CODE, t->nothing, &b->icmp_code, &t->icmp_code.n);
}

// ---- Address sets

static bool has_sets(const struct rule *r)
{
    return r->n_sets && !rule_is_everywhere(r);
}

static int compare_u32(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

static uint32_t index_of_set(const struct rule_build *b, uint32_t set)
{
    uint32_t low = 0, high = b->table.n_sets;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (b->sets[middle] <= set)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool rule_build_sets(struct rule_build *b)
{
    struct rule_table *t = &b->table;
    rule_build_clear(b);
    for (uint32_t p = 0; p < t->n; p++) {
        if (!has_sets(rule_build_at(b, p)))
            continue;
        rule_build_set(b, p);
        b->n_set_refs += rule_build_at(b, p)->n_sets;
    }
    b->sets = rule_build_alloc(b, b->n_set_refs, sizeof(*b->sets));
    b->set_indexes = rule_build_alloc(b, b->n_set_refs, sizeof(*b->set_indexes));
    b->sets_begin = rule_build_alloc(b, (uint64_t)t->n + 1, sizeof(*b->sets_begin));
    if (!b->sets || !b->set_indexes || !b->sets_begin || b->n_set_refs > UINT32_MAX)
        return false;
    if (!rule_build_store(b, &t->with_sets))
        return false;

    uint32_t filled = 0;
    for (uint32_t p = 0; p < t->n; p++) {
        const struct rule *r = rule_build_at(b, p);
        b->sets_begin[p] = filled;
        for (uint32_t i = 0; has_sets(r) && i < r->n_sets; i++)
            b->sets[filled++] = r->sets[i];
    }
    b->sets_begin[t->n] = filled;
    memcpy(b->set_indexes, b->sets, filled * sizeof(*b->sets));
    sort(b->sets, filled, sizeof(*b->sets), compare_u32);
    for (uint32_t i = 0; i < filled; i++) {
        if (t->n_sets == 0 || b->sets[t->n_sets - 1] != b->sets[i])
            b->sets[t->n_sets++] = b->sets[i];
    }
    for (uint32_t i = 0; i < filled; i++)
        b->set_indexes[i] = index_of_set(b, b->set_indexes[i]);
    return true;
}
