// SPDX-License-Identifier: MPL-2.0
#include "engine/fragments.h"

void fragment_key_from_parsed(struct fragment_key *key, const struct parsed *pp, uint32_t vni, uint8_t dir,
                              uint8_t realm)
{
    *key = (struct fragment_key){.src = pp->src,
                                 .dst = pp->dst,
                                 .id = pp->fragment.id,
                                 .vni = vni,
                                 .ip_version = pp->ip_version,
                                 .protocol = pp->ip_version == 4 ? pp->protocol : 0,
                                 .dir = dir,
                                 .realm = realm};
}

static struct datagram *find(struct fragments *f, const struct fragment_key *key)
{
    for (unsigned i = 0; i < FRAGMENT_DATAGRAMS; i++)
        if (f->ids[i] == key->id && f->datagrams[i].state != DATAGRAM_FREE &&
            memcmp(&f->datagrams[i].key, key, sizeof(*key)) == 0)
            return &f->datagrams[i];
    return NULL;
}

// The packets that wait for d are *out's.
static void take_held(struct fragments *f, struct datagram *d, enum drop reason, struct fragment_queue *out)
{
    out->n = d->n_held;
    out->dir = d->key.dir;
    out->reason = reason;
    memcpy(out->packets, d->held, d->n_held * sizeof(d->held[0]));
    f->held -= d->n_held;
    d->n_held = 0;
}

static enum drop reason_for_giving_up(const struct datagram *d, uint64_t now)
{
    return now >= d->deadline ? DROP_FRAGMENT_TIMEOUT : DROP_FRAGMENT_LIMIT;
}

static unsigned worth(const struct datagram *d, uint64_t now)
{
    if (d->state == DATAGRAM_FREE || now >= d->deadline)
        return 0;
    if (d->state == DATAGRAM_WAITS)
        return 1;
    return d->state == DATAGRAM_REFUSED ? 2 : 3;
}

static struct datagram *worst(struct fragments *f, uint64_t now)
{
    struct datagram *found = &f->datagrams[0];
    for (unsigned i = 1; i < FRAGMENT_DATAGRAMS && worth(found, now); i++) {
        struct datagram *d = &f->datagrams[i];
        unsigned a = worth(d, now), b = worth(found, now);
        if (a < b || (a == b && d->deadline < found->deadline))
            found = d;
    }
    return found;
}

// The datagram of `key`, begun if it is not there. What had to go for it is in *gone.
static struct datagram *open_datagram(struct fragments *f, const struct fragment_key *key,
                                      const struct fragment_clock *clock, struct fragment_queue *gone)
{
    struct datagram *d = find(f, key);
    gone->n = 0;
    if (d && clock->now < d->deadline)
        return d;
    if (!d)
        d = worst(f, clock->now);
    if (d->state != DATAGRAM_FREE)
        take_held(f, d, reason_for_giving_up(d, clock->now), gone);
    d->key = *key;
    d->deadline = clock->now + clock->timeout;
    d->total = d->bytes = 0;
    d->state = DATAGRAM_WAITS;
    d->n_pieces = 0;
    d->reason = DROP_NONE;
    f->ids[d - f->datagrams] = key->id;
    return d;
}

static enum drop refuse(struct fragments *f, struct datagram *d, enum drop reason, struct fragment_queue *gone)
{
    if (d->n_held)
        take_held(f, d, reason, gone);
    d->state = DATAGRAM_REFUSED;
    d->reason = reason;
    return reason;
}

// Every fragment but the last ends before the whole does, and there is one last.
static bool end_fits(const struct datagram *d, const struct ip_fragment *piece)
{
    uint32_t end = (uint32_t)piece->offset + piece->bytes;
    if (piece->more)
        return !d->total || end < d->total;
    for (unsigned i = 0; i < d->n_pieces; i++)
        if ((uint32_t)d->pieces[i].offset + d->pieces[i].bytes > end)
            return false;
    return !d->total;
}

// Notes the fragment. DROP_NONE also where it was seen before.
static enum drop add_piece(struct datagram *d, const struct ip_fragment *piece)
{
    for (unsigned i = 0; i < d->n_pieces; i++) {
        uint32_t from = d->pieces[i].offset, to = from + d->pieces[i].bytes;
        if (from == piece->offset && d->pieces[i].bytes == piece->bytes)
            return (to == d->total) == !piece->more ? DROP_NONE : DROP_FRAGMENT_OVERLAP;
        if (piece->offset < to && from < (uint32_t)piece->offset + piece->bytes)
            return DROP_FRAGMENT_OVERLAP;
    }
    if (!end_fits(d, piece))
        return DROP_FRAGMENT_OVERLAP;
    if (d->n_pieces == FRAGMENT_PIECES)
        return DROP_FRAGMENT_LIMIT;
    d->pieces[d->n_pieces].offset = piece->offset;
    d->pieces[d->n_pieces++].bytes = piece->bytes;
    d->bytes += piece->bytes;
    if (!piece->more)
        d->total = (uint32_t)piece->offset + piece->bytes;
    return DROP_NONE;
}

static bool is_complete(const struct datagram *d)
{
    return d->total && d->bytes == d->total; // they do not overlap
}

static bool same_ports(const struct fragment_ports *a, const struct parsed *pp)
{
    return a->sport == pp->sport && a->dport == pp->dport && a->protocol == pp->protocol;
}

enum drop fragments_first(struct fragments *f, const struct fragment_key *key, const struct parsed *pp,
                          const struct fragment_clock *clock, struct fragment_queue *gone)
{
    struct datagram *d = open_datagram(f, key, clock, gone);
    if (d->state == DATAGRAM_REFUSED)
        return d->reason;
    enum drop reason = add_piece(d, &pp->fragment);
    if (reason == DROP_NONE && d->state != DATAGRAM_WAITS && !same_ports(&d->ports, pp))
        reason = DROP_FRAGMENT_OVERLAP;
    if (reason != DROP_NONE)
        return refuse(f, d, reason, gone);
    d->ports = (struct fragment_ports){pp->sport, pp->dport, pp->protocol};
    if (d->state == DATAGRAM_WAITS)
        d->state = DATAGRAM_JUDGED;
    return DROP_NONE;
}

void fragments_judged(struct fragments *f, const struct fragment_key *key, enum drop reason,
                      struct fragment_queue *waited, struct fragment_ports *ports)
{
    struct datagram *d = find(f, key);
    waited->n = 0;
    if (!d || d->state == DATAGRAM_REFUSED || d->state == DATAGRAM_WAITS)
        return; // given up meanwhile, and perhaps begun again
    take_held(f, d, reason, waited);
    *ports = d->ports;
    d->reason = reason;
    d->state = reason == DROP_NONE ? DATAGRAM_PASSES : DATAGRAM_REFUSED;
    if (is_complete(d))
        d->state = DATAGRAM_FREE;
}

static bool hold(struct fragments *f, struct datagram *d, struct packet *p)
{
    if (d->n_held == FRAGMENT_HELD || f->held == FRAGMENT_HELD_SET)
        return false;
    d->held[d->n_held++] = p;
    f->held++;
    return true;
}

enum fragment_answer fragments_later(struct fragments *f, const struct fragment_key *key, const struct parsed *pp,
                                     struct packet *p, bool may_hold, const struct fragment_clock *clock,
                                     struct fragment_ports *ports, enum drop *reason, struct fragment_queue *gone)
{
    struct datagram *d = open_datagram(f, key, clock, gone);
    *reason = d->reason;
    if (d->state == DATAGRAM_REFUSED)
        return FRAGMENT_DROP;
    *reason = add_piece(d, &pp->fragment);
    if (*reason != DROP_NONE) {
        refuse(f, d, *reason, gone);
        return FRAGMENT_DROP;
    }
    if (d->state == DATAGRAM_PASSES) {
        *ports = d->ports;
        if (is_complete(d))
            d->state = DATAGRAM_FREE;
        return FRAGMENT_GO;
    }
    if (may_hold && hold(f, d, p))
        return FRAGMENT_HOLD;
    *reason = refuse(f, d, DROP_FRAGMENT_LIMIT, gone); // without this one the others are worth nothing
    return FRAGMENT_DROP;
}

bool fragments_expire(struct fragments *f, uint64_t now, struct fragment_queue *gone)
{
    gone->n = 0;
    if (f->held == 0)
        return false;
    for (unsigned i = 0; i < FRAGMENT_DATAGRAMS; i++) {
        struct datagram *d = &f->datagrams[i];
        if (d->n_held == 0 || now < d->deadline)
            continue;
        take_held(f, d, DROP_FRAGMENT_TIMEOUT, gone);
        d->state = DATAGRAM_FREE;
        return true;
    }
    return false;
}

void fragments_forget(struct fragments *f)
{
    for (unsigned i = 0; i < FRAGMENT_DATAGRAMS; i++)
        f->datagrams[i].deadline = 0;
}
