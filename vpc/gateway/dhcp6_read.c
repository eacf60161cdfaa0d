// SPDX-License-Identifier: MPL-2.0
#include "vpc/gateway/dhcp6.h"

struct cursor {
    const uint8_t *at, *end;
    bool malformed;
};

struct option {
    uint16_t code, len;
    const uint8_t *value;
};

static bool next(struct cursor *c, struct option *o)
{
    if (c->at == c->end)
        return false;
    if (c->end - c->at < 4) {
        c->malformed = true;
        return false;
    }
    *o = (struct option){load_be16(c->at), load_be16(c->at + 2), c->at + 4};
    if (o->len > c->end - o->value) {
        c->malformed = true;
        return false;
    }
    c->at = o->value + o->len;
    return true;
}

// Options that hold options.
static bool is_container(uint16_t code)
{
    switch (code) {
    case DHCP6_IA_NA:
    case DHCP6_IA_TA:
    case DHCP6_IA_ADDR:
    case DHCP6_RELAY_MESSAGE:
    case DHCP6_IA_PD:
    case DHCP6_IA_PREFIX:
        return true;
    default:
        return false;
    }
}

static bool is_flat(const uint8_t *at, uint32_t n)
{
    struct cursor c = {at, at + n, false};
    struct option o;
    while (next(&c, &o))
        if (is_container(o.code))
            return false;
    return !c.malformed;
}

static bool read_address(struct dhcp6_question *q, const struct gateway *g, const struct option *o)
{
    if (o->len < 24)
        return false;
    struct ip_addr addr = ip_from_v6(o->value);
    q->n_addresses++;
    if (!ip_equal(&addr, &g->guest6)) {
        q->n_wrong++;
        if (q->n_foreign < DHCP6_FOREIGN_MAX) {
            q->foreign[q->n_foreign].ia = (uint8_t)(q->n_ias - 1);
            q->foreign[q->n_foreign++].addr = addr;
        }
    }
    return is_flat(o->value + 24, o->len - 24u);
}

static bool read_ia(struct dhcp6_question *q, const struct gateway *g, const struct option *ia)
{
    uint32_t fixed = ia->code == DHCP6_IA_TA ? 4 : 12;
    if (ia->len < fixed || q->n_ias == DHCP6_IAS_MAX)
        return false;
    q->ias[q->n_ias].kind = ia->code;
    memcpy(q->ias[q->n_ias++].id, ia->value, 4);

    struct cursor c = {ia->value + fixed, ia->value + ia->len, false};
    struct option o;
    while (next(&c, &o)) {
        bool ok = !is_container(o.code);
        if (o.code == DHCP6_IA_ADDR && ia->code == DHCP6_IA_NA)
            ok = read_address(q, g, &o);
        else if (o.code == DHCP6_IA_ADDR && ia->code == DHCP6_IA_TA)
            ok = o.len >= 24 && is_flat(o.value + 24, o.len - 24u);
        else if (o.code == DHCP6_IA_PREFIX && ia->code == DHCP6_IA_PD)
            ok = o.len >= 25 && is_flat(o.value + 25, o.len - 25u);
        if (!ok)
            return false;
    }
    return !c.malformed;
}

static bool read_option(struct dhcp6_question *q, const struct gateway *g, const struct option *o)
{
    uint8_t us[DHCP6_SERVER_DUID_LEN];
    switch (o->code) {
    case DHCP6_CLIENT_ID:
        if (q->duid_len || o->len < 3 || o->len > DHCP6_DUID_MAX)
            return false;
        q->duid_len = (uint8_t)o->len;
        memcpy(q->duid, o->value, o->len);
        return true;
    case DHCP6_SERVER_ID:
        if (q->has_server)
            return false;
        dhcp6_server_duid(g, us);
        q->has_server = true;
        q->server_is_us = o->len == sizeof(us) && memcmp(o->value, us, sizeof(us)) == 0;
        return true;
    case DHCP6_IA_NA:
    case DHCP6_IA_TA:
    case DHCP6_IA_PD:
        return read_ia(q, g, o);
    case DHCP6_ORO:
        for (uint32_t i = 0; i + 2 <= o->len; i += 2) {
            q->wants_dns |= load_be16(o->value + i) == DHCP6_DNS;
            q->wants_domains |= load_be16(o->value + i) == DHCP6_DOMAINS;
        }
        return o->len % 2 == 0;
    case DHCP6_RAPID_COMMIT:
        q->rapid_commit = true;
        return o->len == 0;
    default:
        return !is_container(o->code);
    }
}

bool dhcp6_read(struct dhcp6_question *q, const struct gateway *g, const uint8_t *message, uint32_t len)
{
    *q = (struct dhcp6_question){0};
    if (len < 4)
        return false;
    q->type = message[0];
    memcpy(q->xid, message + 1, 3);
    if (q->type == DHCP6_RELAY_FORWARD || q->type == DHCP6_RELAY_REPLY) // another header: not to be read here
        return true;
    struct cursor c = {message + 4, message + len, false};
    struct option o;
    while (next(&c, &o))
        if (!read_option(q, g, &o))
            return false;
    return !c.malformed;
}
