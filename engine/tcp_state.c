// SPDX-License-Identifier: MPL-2.0
#include "engine/tcp_state.h"

#include "engine/parse.h"

#define TCP_STATE_NAME(id, name) [TCP_STATE_##id] = name,
static const char *const names[TCP_STATE_COUNT] = {TCP_STATES(TCP_STATE_NAME)};

const char *tcp_state_name(enum tcp_state state)
{
    return (unsigned)state < TCP_STATE_COUNT ? names[state] : "unknown";
}

enum event {
    SYN,       // without ACK
    SYN_ACK,   // in SYN_SENT: acknowledges the SYN
    ACK,       // in SYN_RECEIVED: proves that the handshake is done
    ALL_ACKED, // every FIN seen so far is acknowledged
    FIN,
    RST, // believed
    EVENTS
};

// Next state by state, side and event. Zero: stay. The sides of RFC 9293 figure 5, as the path sees them: where the
// figure has a host wait for its own FIN to be acknowledged, here the other side's segment does it.
#define S(id) TCP_STATE_##id
#define NEW TCP_STATE_COUNT // not a state: the connection is renewed
static const uint8_t next[TCP_STATE_COUNT][2][EVENTS] = {
    [S(SYN_SENT)] = {{[RST] = S(CLOSED)}, {[SYN] = S(SYN_RECEIVED), [SYN_ACK] = S(SYN_RECEIVED), [RST] = S(CLOSED)}},
    [S(SYN_RECEIVED)] = {{[SYN_ACK] = S(ESTABLISHED), [ACK] = S(ESTABLISHED), [RST] = S(CLOSED)},
                         {[ACK] = S(ESTABLISHED), [RST] = S(CLOSED)}},
    [S(ESTABLISHED)] = {{[FIN] = S(FIN_WAIT_1), [RST] = S(CLOSED)}, {[FIN] = S(CLOSE_WAIT), [RST] = S(CLOSED)}},
    [S(FIN_WAIT_1)] = {{[RST] = S(CLOSED)}, {[ALL_ACKED] = S(FIN_WAIT_2), [FIN] = S(CLOSING), [RST] = S(CLOSED)}},
    [S(FIN_WAIT_2)] = {{[SYN] = NEW, [RST] = S(CLOSED)}, {[FIN] = S(CLOSING), [RST] = S(CLOSED)}},
    [S(CLOSE_WAIT)] = {{[ALL_ACKED] = S(LAST_ACK), [FIN] = S(CLOSING), [RST] = S(CLOSED)}, {[RST] = S(CLOSED)}},
    [S(LAST_ACK)] = {{[FIN] = S(CLOSING), [RST] = S(CLOSED)}, {[SYN] = NEW, [RST] = S(CLOSED)}},
    [S(CLOSING)] = {{[SYN] = NEW, [ALL_ACKED] = S(TIME_WAIT), [RST] = S(CLOSED)},
                    {[SYN] = NEW, [ALL_ACKED] = S(TIME_WAIT), [RST] = S(CLOSED)}},
    [S(TIME_WAIT)] = {{[SYN] = NEW, [RST] = S(CLOSED)}, {[SYN] = NEW, [RST] = S(CLOSED)}},
};

#define SLACK (256u * 1024)   // bytes that other workers have not counted yet: a few super-frames
#define HANDSHAKE_DATA 65535u // most that may be sent before the handshake ends (fast open)

#define SIDE(s) (1u << (s))
#define FIN_ACKED(s) (0x10u << (s))

static bool after(uint32_t a, uint32_t b) // sequence numbers, modulo 2^32
{
    return (int32_t)(a - b) > 0;
}

static uint32_t saturating_add(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t segment_end(const struct tcp_segment *s)
{
    return s->seq + s->payload + !!(s->flags & TCP_SYN) + !!(s->flags & TCP_FIN);
}

// Whether `number` can be one of side's, given what is known of it.
static bool plausible(const struct tcp_track *t, const struct tcp_segment *s, uint32_t number)
{
    if (t->seen != 3)
        return true;
    uint32_t reach = saturating_add(s->sent, SLACK);
    if (t->picked_up) // what was in flight before the first segment seen is in no counter
        reach = saturating_add(reach, t->max_window[!s->side]);
    if (reach > INT32_MAX)
        return true;
    return number - t->end[s->side] + reach <= 2 * reach;
}

static void learn(struct tcp_track *t, const struct tcp_segment *s)
{
    unsigned side = s->side;
    uint32_t end = segment_end(s);
    // After 1 GB unseen the comparison means nothing: the newest segment is the best knowledge.
    if (!(t->seen & SIDE(side)) || after(end, t->end[side]) || s->sent > 1u << 30)
        t->end[side] = end;
    t->seen |= SIDE(side);
    uint32_t window = (uint32_t)s->window << 14;
    t->max_window[side] = MAX(t->max_window[side], window);
}

static void learn_fin(struct tcp_track *t, const struct tcp_segment *s)
{
    if (s->flags & TCP_FIN) {
        t->fin_seen |= SIDE(s->side);
        t->fin_end[s->side] = segment_end(s);
    }
}

static bool all_acked(struct tcp_track *t, const struct tcp_segment *s)
{
    unsigned other = !s->side;
    if (!(s->flags & TCP_ACK) || !(t->fin_seen & SIDE(other)) || after(t->fin_end[other], s->ack))
        return false;
    t->fin_seen |= FIN_ACKED(other);
    return (t->fin_seen & 3) == t->fin_seen >> 4;
}

static void step(struct tcp_track *t, unsigned side, enum event e)
{
    uint8_t state = next[t->state][side][e];
    if (state != TCP_STATE_NONE && state != NEW)
        t->state = state;
}

static bool acks_recent(const struct tcp_track *t, const struct tcp_segment *s)
{
    return (s->flags & TCP_ACK) && t->end[!s->side] - s->ack <= HANDSHAKE_DATA;
}

static bool opening(const struct tcp_track *t)
{
    return t->state == TCP_STATE_SYN_SENT || t->state == TCP_STATE_SYN_RECEIVED;
}

static enum tcp_verdict track_reset(struct tcp_track *t, const struct tcp_segment *s)
{
    bool refusal = opening(t) && acks_recent(t, s); // of a SYN: its own sequence number is 0 then
    if (t->state == TCP_STATE_SYN_SENT) {
        if (s->side == 1 && !refusal)
            return TCP_OUT_OF_WINDOW;
        // The opener also resets what answers it wrongly: an old connection's challenge, not this one.
        if (s->side == 0 && t->end[0] - s->seq > HANDSHAKE_DATA)
            return TCP_PASS;
    } else if (!refusal && !plausible(t, s, s->seq)) {
        return TCP_OUT_OF_WINDOW;
    }
    step(t, s->side, RST);
    return TCP_PASS;
}

static enum tcp_verdict track_syn(struct tcp_track *t, const struct tcp_segment *s)
{
    bool ack = s->flags & TCP_ACK;
    if (!ack && next[t->state][s->side][SYN] == NEW)
        return TCP_PASS_NEW;
    if (!opening(t) || (ack && !acks_recent(t, s)))
        return TCP_PASS; // a stray one; its receiver knows what to do
    // A host that begins again chooses a new initial number. After an answer only the first one counts.
    if (t->state == TCP_STATE_SYN_SENT)
        t->seen &= (uint8_t)~SIDE(s->side);
    if (!(t->seen & SIDE(s->side)))
        learn(t, s);
    step(t, s->side, ack ? SYN_ACK : SYN);
    return TCP_PASS;
}

// In SYN_RECEIVED: the opener acknowledges the responder's SYN, or the responder goes on to data or FIN.
static bool handshake_done(struct tcp_track *t, const struct tcp_segment *s)
{
    if (s->side == 0)
        return acks_recent(t, s);
    if (s->payload == 0 && !(s->flags & TCP_FIN))
        return false;
    t->seen &= (uint8_t)~SIDE(1); // its SYN may have been repeated with another number (SYN cookies): learn anew
    return true;
}

enum tcp_verdict tcp_track_segment(struct tcp_track *t, const struct tcp_segment *s)
{
    if (t->state == TCP_STATE_NONE || t->state >= TCP_STATE_COUNT) {
        tcp_track_open(t, s);
        return TCP_PASS;
    }
    if (t->state == TCP_STATE_CLOSED)
        return TCP_PASS_NEW;
    if (s->flags & TCP_RST)
        return track_reset(t, s);
    if (s->flags & TCP_SYN)
        return track_syn(t, s);
    if (t->state == TCP_STATE_SYN_SENT)
        return TCP_PASS; // data behind a fast-open SYN, or an old connection's challenge
    if (t->state == TCP_STATE_SYN_RECEIVED) {
        if (!handshake_done(t, s))
            return TCP_PASS;
        step(t, s->side, ACK);
    } else if (!plausible(t, s, s->seq)) {
        return TCP_OUT_OF_WINDOW;
    }
    learn(t, s);
    if (all_acked(t, s))
        step(t, s->side, ALL_ACKED);
    learn_fin(t, s);
    if (s->flags & TCP_FIN)
        step(t, s->side, FIN);
    return TCP_PASS;
}

void tcp_track_open(struct tcp_track *t, const struct tcp_segment *first)
{
    *t = (struct tcp_track){0};
    struct tcp_segment s = *first;
    s.side = 0;
    learn(t, &s);
    if ((s.flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN) {
        t->state = TCP_STATE_SYN_SENT;
        return;
    }
    t->picked_up = 1;
    t->state = s.flags & TCP_RST ? TCP_STATE_CLOSED : TCP_STATE_ESTABLISHED;
    if ((s.flags & (TCP_FIN | TCP_RST)) == TCP_FIN) {
        learn_fin(t, &s);
        t->state = TCP_STATE_FIN_WAIT_1;
    }
}
