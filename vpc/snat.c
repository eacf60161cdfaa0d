// SPDX-License-Identifier: MPL-2.0
#include "vpc/snat.h"

int snat_protocol(uint8_t ip_protocol)
{
    switch (ip_protocol) {
    case IPPROTO_TCP4:
        return SNAT_TCP;
    case IPPROTO_UDP4:
        return SNAT_UDP;
    case IPPROTO_ICMP4:
    case IPPROTO_ICMP6:
        return SNAT_ICMP;
    default:
        return -1;
    }
}

static uint32_t slice_size(const struct snat_slice *s)
{
    return s->last - s->first + 1u;
}

static void free_slice(const struct env *env, struct snat_slice *s)
{
    if (!s)
        return;
    for (unsigned p = 0; p < SNAT_PROTOCOLS; p++)
        env->free(env->ctx, s->taken[p]);
    env->free(env->ctx, s->resting);
    env->free(env->ctx, s);
}

static struct snat_slice *make_slice(const struct env *env, const struct blueprint_snat *from)
{
    struct snat_slice *s = env->alloc(env->ctx, sizeof(*s));
    if (!s)
        return NULL;
    s->address = from->address;
    s->first = from->ports.first;
    s->last = from->ports.last;
    uint32_t words = (slice_size(s) + 63) / 64;
    bool ok = (s->resting = env->alloc(env->ctx, slice_size(s) * sizeof(*s->resting))) != NULL;
    for (unsigned p = 0; p < SNAT_PROTOCOLS; p++)
        ok &= (s->taken[p] = env->alloc(env->ctx, words * 8)) != NULL;
    if (ok)
        return s;
    free_slice(env, s);
    return NULL;
}

static bool same_slice(const struct snat_slice *s, const struct blueprint_snat *b)
{
    return ip_equal(&s->address, &b->address) && s->first == b->ports.first && s->last == b->ports.last;
}

// Its number, counted from 1; 0 when there is none.
static unsigned find_slice(const struct snat *s, const struct blueprint_snat *b)
{
    for (unsigned i = 0; i < SNAT_SLICES; i++)
        if (s->slice[i] && same_slice(s->slice[i], b))
            return i + 1;
    return 0;
}

bool snat_prepare(const struct env *env, const struct snat *s, const struct blueprint_nat *nat,
                  struct snat_slice *fresh[SNAT_SLICES])
{
    unsigned n = 0;
    memset(fresh, 0, SNAT_SLICES * sizeof(*fresh));
    for (uint32_t i = 0; i < nat->n_snat; i++) {
        if (find_slice(s, &nat->snat[i]))
            continue;
        if (n == SNAT_SLICES || !(fresh[n++] = make_slice(env, &nat->snat[i]))) {
            snat_discard(env, fresh);
            return false;
        }
    }
    return true;
}

void snat_discard(const struct env *env, struct snat_slice *fresh[SNAT_SLICES])
{
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        free_slice(env, fresh[i]);
        fresh[i] = NULL;
    }
}

static void set_taken(struct snat_slice *s, unsigned p, uint32_t at)
{
    s->taken[p][at / 64] |= 1ull << (at % 64);
    s->used[p]++;
}

static void clear_taken(struct snat_slice *s, unsigned p, uint32_t at)
{
    s->taken[p][at / 64] &= ~(1ull << (at % 64));
    s->used[p]--;
}

static bool is_taken(const struct snat_slice *s, unsigned p, uint32_t at)
{
    return s->taken[p][at / 64] >> (at % 64) & 1;
}

static void rest(struct snat_slice *s, uint16_t port, uint32_t freed_ms)
{
    uint32_t tail = (s->rest_head + s->rest_count++) % slice_size(s);
    s->resting[tail] = (struct snat_rest){freed_ms, port, 0};
}

static bool empty(const struct snat_slice *s)
{
    return s->used[SNAT_TCP] == s->rest_count && s->used[SNAT_UDP] == 0 && s->used[SNAT_ICMP] == 0;
}

// A slice that grew or shrank is another slice: the ports that both have, taken or resting, go over to the new one.
static void hand_over(struct snat_slice *from, struct snat_slice *to)
{
    uint32_t first = MAX(from->first, to->first), last = MIN(from->last, to->last);
    if (from == to || !ip_equal(&from->address, &to->address) || first > last)
        return;
    for (uint32_t n = from->rest_count; n; n--) { // once around the ring, in its order
        struct snat_rest r = from->resting[from->rest_head];
        from->rest_head = (from->rest_head + 1) % slice_size(from);
        from->rest_count--;
        bool goes = r.port >= first && r.port <= last;
        rest(goes ? to : from, r.port, r.freed_ms);
    }
    for (unsigned p = 0; p < SNAT_PROTOCOLS; p++) {
        for (uint32_t port = first; port <= last; port++) {
            if (!is_taken(from, p, port - from->first))
                continue;
            clear_taken(from, p, port - from->first);
            if (!is_taken(to, p, port - to->first))
                set_taken(to, p, port - to->first);
        }
    }
}

// Slices that the policy does not have go when no connection holds a port of theirs. Returns how many `gone` has now.
static unsigned take_out(struct snat *s, struct snat_slice *gone[SNAT_SLICES], unsigned n)
{
    for (unsigned i = 0; i < SNAT_SLICES && n < SNAT_SLICES; i++) {
        if (!s->slice[i] || s->slice[i]->live || !empty(s->slice[i]))
            continue;
        gone[n++] = s->slice[i];
        s->slice[i] = NULL;
    }
    return n;
}

static void hand_over_to_live(struct snat *s, struct snat_slice *from)
{
    for (unsigned i = 0; from && !from->live && i < SNAT_SLICES; i++)
        if (s->slice[i] && s->slice[i]->live)
            hand_over(from, s->slice[i]);
}

void snat_commit(struct snat *s, const struct blueprint_nat *nat, struct snat_slice *fresh[SNAT_SLICES])
{
    struct snat_slice *gone[SNAT_SLICES];
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        if (!s->slice[i])
            continue;
        s->slice[i]->live = false;
        for (uint32_t k = 0; k < nat->n_snat; k++)
            s->slice[i]->live |= same_slice(s->slice[i], &nat->snat[k]);
    }
    unsigned n_gone = take_out(s, gone, 0), unplaced = 0;
    // Slices that still hold connections may leave too few places; the policy's limit (SNAT_SLICES) is per port.
    for (unsigned i = 0, k = 0; i < SNAT_SLICES && k < SNAT_SLICES && fresh[k]; i++) {
        if (s->slice[i])
            continue;
        s->slice[i] = fresh[k];
        s->slice[i]->live = true;
        fresh[k++] = NULL;
    }
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        hand_over_to_live(s, s->slice[i]);
        if (i < n_gone)
            hand_over_to_live(s, gone[i]);
        unplaced += fresh[i] != NULL;
    }
    if (!unplaced)
        n_gone = take_out(s, gone, n_gone);
    for (unsigned k = 0; k < SNAT_SLICES && n_gone; k++)
        if (!fresh[k])
            fresh[k] = gone[--n_gone];
}

void snat_fini(const struct env *env, struct snat *s)
{
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        free_slice(env, s->slice[i]);
        s->slice[i] = NULL;
    }
}

// Workers' clocks are a little apart: a port may have been freed by one that is ahead of the asking one.
static bool rested(const struct snat_rest *r, uint32_t now_ms, uint32_t quarantine_ms)
{
    const uint32_t ahead = 0u - 10000;
    uint32_t age = now_ms - r->freed_ms;
    return age >= quarantine_ms && age < ahead;
}

static void end_quarantine(struct snat_slice *s, uint32_t now_ms, uint32_t quarantine_ms)
{
    while (s->rest_count && rested(&s->resting[s->rest_head], now_ms, quarantine_ms)) {
        clear_taken(s, SNAT_TCP, s->resting[s->rest_head].port - s->first);
        s->rest_head = (s->rest_head + 1) % slice_size(s);
        s->rest_count--;
    }
}

// First free position at or after a random one; the caller knows that there is one.
static uint32_t find_free(const struct snat_slice *s, unsigned p, uint32_t from)
{
    uint32_t size = slice_size(s), words = (size + 63) / 64;
    for (uint32_t i = 0; i <= words; i++) {
        uint32_t w = (from / 64 + i) % words;
        uint64_t free_bits = ~s->taken[p][w];
        if (i == 0)
            free_bits &= ~0ull << (from % 64);
        if (w == words - 1 && size % 64)
            free_bits &= (1ull << (size % 64)) - 1;
        if (free_bits)
            return w * 64 + (uint32_t)__builtin_ctzll(free_bits);
    }
    return size;
}

static bool usable(const struct blueprint_snat *b, const struct blueprint_target *target, bool v4)
{
    if (ip_is_v4(&b->address) != v4)
        return false;
    return !target || !target->has_network || (b->has_network && uuid_equal(&b->network, &target->network));
}

enum drop snat_take(struct snat *s, const struct blueprint_nat *nat, const struct blueprint_target *target, bool v4,
                    uint8_t protocol, uint32_t now_ms, uint64_t random, struct conn_binding *out)
{
    int p = snat_protocol(protocol);
    bool any = false;
    uint32_t start = nat->n_snat ? (uint32_t)(random >> 32) % nat->n_snat : 0;
    for (uint32_t i = 0; i < nat->n_snat; i++) {
        const struct blueprint_snat *b = &nat->snat[(start + i) % nat->n_snat];
        if (!usable(b, target, v4))
            continue;
        any = true;
        if (p < 0)
            return DROP_NAT_UNSUPPORTED;
        unsigned number = find_slice(s, b);
        if (!number)
            continue;
        struct snat_slice *slice = s->slice[number - 1];
        end_quarantine(slice, now_ms, s->quarantine_ms);
        uint32_t size = slice_size(slice);
        if (slice->used[p] == size)
            continue;
        uint32_t at = find_free(slice, (unsigned)p, (uint32_t)random % size);
        if (at >= size)
            continue;
        set_taken(slice, (unsigned)p, at);
        *out = (struct conn_binding){.external = slice->address, .kind = CONN_NAT_SNAT};
        store_be16(&out->external_port, (uint16_t)(slice->first + at));
        return DROP_NONE;
    }
    if (any)
        counter_add(&s->exhausted, 1);
    return any ? DROP_SNAT_EXHAUSTED : DROP_NO_EXTERNAL_IP;
}

// The slice that has the binding's port: the policy's rather than one that waits for its end.
static struct snat_slice *holder(const struct snat *s, const struct conn_binding *b, uint32_t *at)
{
    uint16_t port = load_be16(&b->external_port);
    struct snat_slice *found = NULL;
    for (unsigned i = 0; i < SNAT_SLICES; i++) {
        struct snat_slice *slice = s->slice[i];
        if (slice && ip_equal(&slice->address, &b->external) && port >= slice->first && port <= slice->last &&
            (!found || slice->live))
            found = slice;
    }
    if (found)
        *at = (uint32_t)port - found->first;
    return found;
}

void snat_undo(struct snat *s, const struct conn_binding *b, uint8_t protocol)
{
    uint32_t at;
    int p = snat_protocol(protocol);
    struct snat_slice *slice = holder(s, b, &at);
    if (p >= 0 && slice && is_taken(slice, (unsigned)p, at))
        clear_taken(slice, (unsigned)p, at);
}

void snat_release(struct snat *s, const struct conn_binding *b, uint8_t protocol, uint32_t now_ms)
{
    uint32_t at;
    int p = snat_protocol(protocol);
    struct snat_slice *slice = holder(s, b, &at);
    if (p < 0 || !slice || !is_taken(slice, (unsigned)p, at))
        return;
    if (p == SNAT_TCP)
        rest(slice, (uint16_t)(slice->first + at), now_ms);
    else
        clear_taken(slice, (unsigned)p, at);
}

bool snat_claim(struct snat *s, const struct conn_binding *b, uint8_t protocol)
{
    uint32_t at;
    int p = snat_protocol(protocol);
    struct snat_slice *slice = holder(s, b, &at);
    if (p < 0 || !slice || is_taken(slice, (unsigned)p, at))
        return false;
    set_taken(slice, (unsigned)p, at);
    return true;
}

bool snat_valid(const struct snat *s, const struct conn_binding *b)
{
    uint32_t at;
    const struct snat_slice *slice = holder(s, b, &at);
    return slice && slice->live;
}
