// SPDX-License-Identifier: MPL-2.0
// Records of a former process. The zones may have been cut off in the middle of a change, or be damaged: nothing in
// them is believed before it was checked, and what links records (lists, timers, free lists, the table's buckets) is
// built anew. The header stands in the zone's slot 0, where no record is.
#include "engine/connection_internal.h"
#include "engine/parse.h"

#define MAGIC 0x4e65726575734343ull
#define LAYOUT 2u // change it with any of the structs below

struct conn_header {
    uint64_t magic;
    uint32_t layout, record_size, entry_size, n_records;
    uint32_t entries, zero;
    struct flow_secret secret;
    uint64_t check; // over what precedes
    uint8_t spare[24];
};
_Static_assert(sizeof(struct conn_header) == sizeof(struct conn), "takes the place of a record");

static const struct flow_secret header_secret = {.m = {0x8bb84b93962eacc9, 0x4b33a62ed433d4a3, 0x4d5a2da51de1aa47,
                                                       0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x90ed1765281c388d,
                                                       0x589965cc75374cc3, 0x1d8e4e27c47d124f}};

static uint64_t fold_words(const struct flow_secret *s, uint64_t h, const void *memory, size_t bytes)
{
    for (size_t i = 0; i + 16 <= bytes; i += 16) {
        uint64_t w[2];
        memcpy(w, (const uint8_t *)memory + i, 16);
        h = flow_fold(h ^ w[0] ^ s->m[i / 16 % 4 * 2], w[1] ^ s->m[i / 16 % 4 * 2 + 1]);
    }
    return h;
}

static uint32_t shorten(uint64_t h)
{
    return (uint32_t)(h ^ h >> 32);
}

uint32_t conn_check_body(const struct conn_table *t, const struct conn *c)
{
    struct {
        uint32_t entry[2], port, opened, rule, posture_rule;
        uint8_t opener, protocol, strict, log, zero[4];
        struct conn_binding nat;
        uint32_t meter, zero2;
    } body;
    _Static_assert(sizeof(body) == 64, "no holes");
    memset(&body, 0, sizeof(body));
    memcpy(body.entry, c->entry, sizeof(body.entry));
    body.port = c->port;
    body.opened = c->opened;
    body.rule = c->rule;
    body.posture_rule = c->posture_rule;
    body.opener = c->opener;
    body.protocol = c->protocol;
    body.strict = c->strict;
    body.log = c->log;
    body.meter = c->meter;
    memcpy(&body.nat, &c->nat, sizeof(body.nat));
    uint64_t h = fold_words(&t->secret, sizeof(body), &body, sizeof(body));
    for (unsigned dir = 0; dir < 2; dir++) {
        if (c->entry[dir])
            h = fold_words(&t->secret, h, flow_table_entry(t->flows, c->entry[dir]), sizeof(struct flow_entry));
    }
    return shorten(h);
}

uint32_t conn_check_state(const struct conn_table *t, const struct conn *c)
{
    struct {
        struct tcp_track tcp;
        uint8_t replied, zero[3];
    } state = {.tcp = c->tcp, .replied = c->replied};
    _Static_assert(sizeof(state) == 32, "no holes");
    return shorten(fold_words(&t->secret, 0, &state, sizeof(state)));
}

static uint64_t header_check(const struct conn_header *h)
{
    return fold_words(&header_secret, sizeof(*h), h, offsetof(struct conn_header, check));
}

static struct conn_header header_of(const struct conn_table *t)
{
    struct conn_header h;
    memset(&h, 0, sizeof(h));
    h.magic = MAGIC;
    h.layout = LAYOUT;
    h.record_size = sizeof(struct conn);
    h.entry_size = sizeof(struct flow_entry);
    h.n_records = t->n_records;
    h.entries = flow_table_capacity(t->flows);
    h.secret = t->secret;
    h.check = header_check(&h);
    return h;
}

void conn_start_fresh(struct conn_table *t)
{
    memset(t->records, 0, (t->n_records + 1ull) * sizeof(struct conn));
    t->secret = t->config.fresh_secret;
    for (unsigned i = 0; i < ARRAY_LEN(t->secret.m); i++)
        t->secret.m[i] |= 1;
    t->free_record = 0;
    t->fresh_record = 1;
    struct conn_header h = header_of(t);
    memcpy(t->records, &h, sizeof(h));
}

static bool entry_sound(const struct conn_table *t, const struct conn *c, uint32_t index, unsigned dir)
{
    if (c->entry[dir] == FLOW_NONE)
        return dir != c->opener;
    if (c->entry[dir] > flow_table_capacity(t->flows))
        return false;
    const struct flow_entry *e = flow_table_entry(t->flows, c->entry[dir]);
    const struct flow_key *k = conn_key(t, c->entry[dir]);
    return e->owner == index && e->dir == dir && e->pipeline == FLOW_VPC && k->dir == dir && k->port == c->port &&
           k->protocol == c->protocol && (k->ip_version == 4 || k->ip_version == 6) &&
           e->hash_low == (uint32_t)flow_hash(&t->secret, k);
}

static bool record_sound(const struct conn_table *t, const struct conn *c, uint32_t index)
{
    return c->live == 1 && c->port != 0 && c->port < t->config.max_ports && c->opener <= 1 && c->strict <= 1 &&
           c->replied <= 1 && c->nat.kind < CONN_NAT_KINDS && c->tcp.state < TCP_STATE_COUNT &&
           (c->tcp.state == TCP_STATE_NONE || c->protocol == IPPROTO_TCP4) && entry_sound(t, c, index, 0) &&
           entry_sound(t, c, index, 1) && c->check == (conn_check_body(t, c) ^ conn_check_state(t, c));
}

static bool publish(struct conn_table *t, const struct conn *c, uint64_t now_ms)
{
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!c->entry[dir])
            continue;
        // The counters are gone with the former process. Generation 0: the next packet is judged anew.
        store_relaxed(&flow_table_hot(t->flows, c->entry[dir])->last_seen, (uint32_t)now_ms);
        if (!flow_table_insert(t->flows, c->entry[dir], flow_hash(&t->secret, conn_key(t, c->entry[dir])))) {
            if (dir == 1 && c->entry[0])
                flow_table_remove(t->flows, c->entry[0]);
            return false;
        }
    }
    return true;
}

static bool adopt_record(struct conn_table *t, uint32_t index, uint64_t now_ms)
{
    struct conn *c = &t->records[index];
    c->timer = (struct timer_link){0};
    if (!record_sound(t, c, index) || !publish(t, c, now_ms))
        return false;
    if (c->tcp.state != TCP_STATE_NONE) { // segments went by, or were lost, while nobody looked
        c->tcp.seen = 0;
        c->tcp.picked_up = 1;
        c->check = conn_check_body(t, c) ^ conn_check_state(t, c);
    }
    conn_set_track_flags(t, c);
    t->count++;
    t->shared_used++; // no port has its guarantee yet
    t->ports[c->port].count++;
    conn_list_append(t, index, conn_classify(t, c, now_ms));
    conn_arm(t, index, now_ms);
    return true;
}

bool conn_adopt(struct conn_table *t, uint64_t now_ms, uint32_t *adopted)
{
    struct conn_header h;
    memcpy(&h, t->records, sizeof(h));
    t->secret = h.secret;
    struct conn_header expected = header_of(t);
    if (memcmp(&h, &expected, sizeof(h)) != 0)
        return false;
    t->fresh_record = t->n_records + 1;
    for (uint32_t index = t->n_records; index > 0; index--) {
        struct conn *c = &t->records[index];
        uint64_t *counter = &t->stats.adopted;
        if (!c->live || !adopt_record(t, index, now_ms)) {
            counter = &t->stats.adopt_failed;
            if (!c->live)
                counter = NULL;
            memset(c, 0, sizeof(*c));
            c->next = t->free_record;
            t->free_record = index;
        }
        if (counter)
            ++*counter;
    }
    *adopted = (uint32_t)t->stats.adopted;
    return true;
}
