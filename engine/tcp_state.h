// SPDX-License-Identifier: MPL-2.0
// tcp_state.h: TCP connection tracking as const transition tables (RFC 9293 figure 5, seen from the
// middle of the path). The tracker follows flags of both sides and enough of the sequence space to
// refuse a blind RST in strict mode; it never drops a legal segment.
//
// Plain segments of an established connection do not come here, so the highest sequence number known of a side may
// lag. But a side cannot have moved further than it sent bytes, which the flow's counter knows (`sent`). A RST or FIN
// is believed when its number lies within `sent` (and some slack) of the known one: always true of an honest peer,
// however stale the knowledge, and true of a blind guess with a chance of sent / 2^31.
// Before the responder has answered, its RST must acknowledge the SYN.
#ifndef NEREUS_ENGINE_TCP_STATE_H
#define NEREUS_ENGINE_TCP_STATE_H

#include "engine/base.h"

#define TCP_STATES(X) \
    X(NONE, "none") \
    X(SYN_SENT, "syn-sent") \
    X(SYN_RECEIVED, "syn-received") \
    X(ESTABLISHED, "established") \
    X(FIN_WAIT_1, "fin-wait-1") /* opener's FIN seen */ \
    X(FIN_WAIT_2, "fin-wait-2") /* opener's FIN acknowledged */ \
    X(CLOSE_WAIT, "close-wait") /* responder's FIN seen */ \
    X(LAST_ACK, "last-ack")     /* responder's FIN acknowledged, opener's not seen */ \
    X(CLOSING, "closing")       /* both FINs seen, not both acknowledged */ \
    X(TIME_WAIT, "time-wait")   /* both FINs acknowledged */ \
    X(CLOSED, "closed")         /* RST */

#define TCP_STATE_ENUM(id, name) TCP_STATE_##id,
enum tcp_state { TCP_STATES(TCP_STATE_ENUM) TCP_STATE_COUNT };
#undef TCP_STATE_ENUM
const char *tcp_state_name(enum tcp_state state);

struct tcp_track {          // plain data, kept in the connection; side 0 opened it
    uint8_t state;          // enum tcp_state
    uint8_t seen;           // bit per side: a segment was seen
    uint8_t fin_seen;       // bit per side; bit 4 + side: that FIN was acknowledged
    uint8_t picked_up;      // opened by a segment without SYN: window checks off until both sides were seen
    uint32_t end[2];        // per side: highest sequence number sent + length
    uint32_t fin_end[2];    // per side: sequence number behind its FIN
    uint32_t max_window[2]; // largest window offered by the side, scaled by the largest legal shift
};

struct tcp_segment {
    uint8_t side;  // 0 opener, 1 responder
    uint8_t flags; // TCP_SYN and so on (engine/parse.h)
    uint16_t window;
    uint32_t seq, ack, payload;
    uint32_t sent; // bytes the side has sent so far, or more, UINT32_MAX = 4 GB or more; conn_track fills it in
};

enum tcp_verdict {
    TCP_PASS,
    // A SYN that reuses a closing connection's tuple, or anything after its RST: forget the old one, judge as new.
    TCP_PASS_NEW,
    TCP_OUT_OF_WINDOW, // RST or segment that no honest peer sends: state unchanged; strict mode drops
};

// SYN: SYN_SENT. Anything else picks a running connection up (ESTABLISHED; FIN_WAIT_1 by a FIN; CLOSED by a RST).
void tcp_track_open(struct tcp_track *t, const struct tcp_segment *first);

// A SYN renews a connection that is closing, closed, or whose FIN of the SYN's own side was acknowledged; in any other
// state it passes and changes nothing: if its sender has lost the connection, the peer's challenge ACK
// brings about the RST that ends it (RFC 9293 section 3.10.7.4).
enum tcp_verdict tcp_track_segment(struct tcp_track *t, const struct tcp_segment *s);

// Whether plain segments matter to the tracker now: the handshake, a FIN that is not acknowledged, a side not seen,
// the end.
static inline bool tcp_track_wants_all(const struct tcp_track *t)
{
    return t->state == TCP_STATE_SYN_SENT || t->state == TCP_STATE_SYN_RECEIVED || t->state == TCP_STATE_FIN_WAIT_1 ||
           t->state == TCP_STATE_CLOSE_WAIT || t->state == TCP_STATE_CLOSING || t->state == TCP_STATE_CLOSED ||
           t->seen != 3;
}

#endif
