// SPDX-License-Identifier: MPL-2.0
// How long a connection may be silent, and what becomes of it then. Hits only write the time they were seen; a timer
// that fires looks whether the connection was silent all the while, and goes on if not.
#include "engine/connection_internal.h"
#include "engine/parse.h"

const struct conn_timeouts conn_timeouts_default = {
    .tcp_syn = 30,
    .tcp_syn_nat = 240,
    .tcp_established = 8000,
    .tcp_closing = 120,
    .tcp_closing_nat = 240,
    .udp_one_way = 30,
    .udp_two_way = 180,
    .udp_one_way_nat = 120,
    .udp_two_way_nat = 300,
    .icmp = 60,
    .other = 600,
};

#define MAX_TIMEOUT 2000000u // the flow clock turns over after 4,294,967 s
#define CLOCK_SKEW_MS 60000u // a time this far ahead of now is another worker's now
#define LOCK_HOLD 64u        // records looked at while a port's lock is held

static const char *const class_names[CONN_CLASSES] = {"closed", "half-open", "one-way", "idle", "active"};

static const char *const end_names[CONN_ENDS] = {"closed", "expired", "evicted", "revoked", "port"};

const char *conn_class_name(enum conn_class c)
{
    return (unsigned)c < CONN_CLASSES ? class_names[c] : "unknown";
}

const char *conn_end_name(enum conn_end why)
{
    return (unsigned)why < CONN_ENDS ? end_names[why] : "unknown";
}

static bool replied(const struct conn_table *t, const struct conn *c)
{
    uint32_t entry = c->entry[!c->opener];
    return c->replied || (entry && load_relaxed(&flow_table_hot(t->flows, entry)->packets) > 0);
}

static uint32_t tcp_timeout(const struct conn_timeouts *s, uint8_t state, bool nat)
{
    switch (state) {
    case TCP_STATE_SYN_SENT:
    case TCP_STATE_SYN_RECEIVED:
        return nat ? s->tcp_syn_nat : s->tcp_syn;
    case TCP_STATE_CLOSING:
    case TCP_STATE_TIME_WAIT:
    case TCP_STATE_CLOSED:
        return nat ? s->tcp_closing_nat : s->tcp_closing;
    default:
        return s->tcp_established;
    }
}

static uint32_t timeout(const struct conn_table *t, const struct conn *c)
{
    const struct conn_timeouts *s = &t->config.timeouts;
    bool nat = c->nat.kind != CONN_NAT_NONE;
    switch (c->protocol) {
    case IPPROTO_TCP4:
        return tcp_timeout(s, c->tcp.state, nat);
    case IPPROTO_UDP4:
        if (replied(t, c))
            return nat ? s->udp_two_way_nat : s->udp_two_way;
        return nat ? s->udp_one_way_nat : s->udp_one_way;
    case IPPROTO_ICMP4:
    case IPPROTO_ICMP6:
        return s->icmp;
    default:
        return s->other;
    }
}

uint32_t conn_timeout(const struct conn_table *t, const struct conn *c)
{
    return MIN(timeout(t, c), MAX_TIMEOUT);
}

uint32_t conn_idle_ms(const struct conn_table *t, const struct conn *c, uint64_t now_ms)
{
    uint32_t idle = UINT32_MAX;
    for (unsigned dir = 0; dir < 2; dir++) {
        if (!c->entry[dir])
            continue;
        uint32_t silent = (uint32_t)now_ms - load_relaxed(&flow_table_hot(t->flows, c->entry[dir])->last_seen);
        if (silent > UINT32_MAX - CLOCK_SKEW_MS)
            silent = 0;
        idle = MIN(idle, silent);
    }
    return idle;
}

enum conn_class conn_classify(const struct conn_table *t, const struct conn *c, uint64_t now_ms)
{
    switch (c->tcp.state) {
    case TCP_STATE_NONE:
        if (!replied(t, c))
            return CONN_ONE_WAY;
        break;
    case TCP_STATE_CLOSING:
    case TCP_STATE_TIME_WAIT:
    case TCP_STATE_CLOSED:
        return CONN_CLOSED;
    case TCP_STATE_SYN_SENT:
    case TCP_STATE_SYN_RECEIVED:
        return CONN_HALF_OPEN;
    default:
        if (c->tcp.seen != 3) // picked up and not answered: a flood of bare segments must not look established
            return CONN_HALF_OPEN;
    }
    return conn_idle_ms(t, c, now_ms) > conn_timeout(t, c) * 1000 / 4 ? CONN_IDLE : CONN_ACTIVE;
}

struct timer_link *conn_timer_link(void *table, uint32_t index)
{
    return &((struct conn_table *)table)->records[index].timer;
}

void conn_arm(struct conn_table *t, uint32_t index, uint64_t now_ms)
{
    const struct conn *c = &t->records[index];
    uint32_t limit = conn_timeout(t, c) * 1000, idle = conn_idle_ms(t, c, now_ms);
    timer_wheel_start(&t->ports[c->port].wheel, index, now_ms + (idle < limit ? limit - idle : 0));
}

struct tick {
    struct conn_table *t;
    uint64_t now_ms;
};

static void expired(void *arg, uint32_t index)
{
    struct tick *k = arg;
    const struct conn *c = &k->t->records[index];
    if (conn_idle_ms(k->t, c, k->now_ms) < conn_timeout(k->t, c) * 1000) {
        conn_arm(k->t, index, k->now_ms);
        return;
    }
    bool over = conn_classify(k->t, c, k->now_ms) == CONN_CLOSED; // it only waited for stragglers
    conn_end(k->t, index, &k->t->stats.expired, over ? CONN_END_CLOSED : CONN_END_EXPIRED);
}

// A port that holds more than it may since its quota or another's guarantee changed gives up its worst.
static unsigned shed(struct tick *k, uint32_t port, unsigned budget)
{
    unsigned done = 0;
    while (done < budget && conn_port_over(k->t, &k->t->ports[port]) && conn_evict(k->t, port, k->now_ms))
        done++;
    return done;
}

static unsigned tick_port(struct tick *k, uint32_t port, unsigned budget)
{
    unsigned total = 0, chunk, done;
    do {
        chunk = MIN(budget - total, LOCK_HOLD);
        conn_port_lock(k->t, port);
        done = timer_wheel_advance(&k->t->ports[port].wheel, k->now_ms, chunk, expired, k);
        done += shed(k, port, chunk - done);
        conn_port_unlock(k->t, port);
        total += done;
    } while (done == chunk && total < budget);
    return total;
}

unsigned conn_table_tick(struct conn_table *t, uint64_t now_ms, unsigned budget)
{
    struct tick k = {.t = t, .now_ms = now_ms};
    uint32_t port = load_relaxed(&t->tick_port);
    unsigned done = 0;
    for (uint32_t i = 1; i < t->config.max_ports && done < budget; i++) {
        port = port + 1 < t->config.max_ports ? port + 1 : 1;
        if (load_relaxed(&t->ports[port].count))
            done += tick_port(&k, port, budget - done);
    }
    store_relaxed(&t->tick_port, port);
    return done;
}
