// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/parse.h"
#include "engine/tcp_state.h"

enum { OPENER, RESPONDER };
#define F TCP_FIN
#define SY TCP_SYN
#define R TCP_RST
#define A TCP_ACK

// One line of a story: who sends what, the verdict, and the state behind it. Sequence numbers are relative to the
// initial ones, so that each story can be told at any place of the sequence space.
struct line {
    uint8_t side, flags;
    uint32_t seq, ack, payload;
    enum tcp_verdict verdict;
    enum tcp_state state;
};

static void tell_at(const struct line *lines, size_t n, const uint32_t isn[2])
{
    struct tcp_track t;
    for (size_t i = 0; i < n; i++) {
        const struct line *l = &lines[i];
        struct tcp_segment s = {.side = l->side, .flags = l->flags, .window = 64240, .payload = l->payload};
        s.seq = isn[l->side] + l->seq;
        s.ack = l->flags & A ? isn[!l->side] + l->ack : 0;
        enum tcp_verdict verdict = TCP_PASS;
        if (i == 0)
            tcp_track_open(&t, &s);
        else
            verdict = tcp_track_segment(&t, &s);
        if (verdict != l->verdict || t.state != l->state)
            print_error("line %zu: state %s, not %s\n", i, tcp_state_name(t.state), tcp_state_name(l->state));
        assert_int_equal(verdict, l->verdict);
        assert_int_equal(t.state, l->state);
    }
}

static void tell(const struct line *lines, size_t n)
{
    static const uint32_t places[] = {0, 1000, 0x7fffffff, 0x80000000, 0xfffffc00, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        for (size_t j = 0; j < sizeof(places) / sizeof(*places); j++)
            tell_at(lines, n, (const uint32_t[2]){places[i], places[j]});
    }
}

#define TELL(...) \
    do { \
        static const struct line story[] = {__VA_ARGS__}; \
        tell(story, sizeof(story) / sizeof(*story)); \
    } while (0)

#define O_ OPENER
#define R_ RESPONDER
#define ST(id) TCP_STATE_##id
#define HANDSHAKE \
    {O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, \
    { \
        O_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED) \
    }

static void test_orderly_close(void **state)
{
    TELL(HANDSHAKE, {O_, A, 1, 1, 500, TCP_PASS, ST(ESTABLISHED)}, {R_, A, 1, 501, 900, TCP_PASS, ST(ESTABLISHED)},
         {O_, F | A, 501, 901, 0, TCP_PASS, ST(FIN_WAIT_1)}, {R_, A, 901, 502, 0, TCP_PASS, ST(FIN_WAIT_2)},
         {R_, F | A, 901, 502, 0, TCP_PASS, ST(CLOSING)}, {O_, A, 502, 902, 0, TCP_PASS, ST(TIME_WAIT)},
         {O_, A, 502, 902, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_responder_closes(void **state)
{
    TELL(HANDSHAKE, {R_, F | A, 1, 1, 0, TCP_PASS, ST(CLOSE_WAIT)}, {O_, A, 1, 2, 0, TCP_PASS, ST(LAST_ACK)},
         {O_, A, 1, 2, 700, TCP_PASS, ST(LAST_ACK)}, {R_, A, 2, 701, 0, TCP_PASS, ST(LAST_ACK)},
         {O_, F | A, 701, 2, 0, TCP_PASS, ST(CLOSING)}, {R_, A, 2, 702, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_fin_with_data(void **state)
{
    TELL(HANDSHAKE, {O_, F | A, 1, 1, 100, TCP_PASS, ST(FIN_WAIT_1)},
         {R_, A, 1, 101, 0, TCP_PASS, ST(FIN_WAIT_1)}, // the data, not the FIN
         {R_, A, 1, 102, 0, TCP_PASS, ST(FIN_WAIT_2)}, {R_, F | A, 1, 102, 50, TCP_PASS, ST(CLOSING)},
         {O_, A, 102, 51, 0, TCP_PASS, ST(CLOSING)}, {O_, A, 102, 52, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_fin_and_ack_in_one(void **state)
{
    TELL(HANDSHAKE, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)}, {R_, F | A, 1, 2, 0, TCP_PASS, ST(CLOSING)},
         {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_fin_repeated(void **state)
{
    TELL(HANDSHAKE, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)}, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)},
         {R_, A, 1, 2, 0, TCP_PASS, ST(FIN_WAIT_2)}, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_2)},
         {R_, F | A, 1, 2, 0, TCP_PASS, ST(CLOSING)}, {R_, F | A, 1, 2, 0, TCP_PASS, ST(CLOSING)},
         {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)}, {R_, F | A, 1, 2, 0, TCP_PASS, ST(TIME_WAIT)},
         {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_simultaneous_close(void **state)
{
    TELL(HANDSHAKE, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)}, {R_, F | A, 1, 1, 0, TCP_PASS, ST(CLOSING)},
         {O_, A, 2, 2, 0, TCP_PASS, ST(CLOSING)}, {R_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)});
    TELL(HANDSHAKE, {R_, F | A, 1, 1, 0, TCP_PASS, ST(CLOSE_WAIT)}, {O_, F | A, 1, 1, 0, TCP_PASS, ST(CLOSING)},
         {R_, A, 2, 2, 0, TCP_PASS, ST(CLOSING)}, {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)});
}

static void test_simultaneous_open(void **state)
{
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, SY, 0, 0, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {O_, SY | A, 0, 1, 0, TCP_PASS, ST(ESTABLISHED)}, {R_, SY | A, 0, 1, 0, TCP_PASS, ST(ESTABLISHED)},
         {O_, A, 1, 1, 10, TCP_PASS, ST(ESTABLISHED)}, {R_, F | A, 1, 11, 0, TCP_PASS, ST(CLOSE_WAIT)});
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, SY, 0, 0, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, SY | A, 0, 1, 0, TCP_PASS, ST(ESTABLISHED)});
}

static void test_handshake_repeats(void **state)
{
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(ESTABLISHED)}, {O_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED)});
    // The opener gave up and began again with another initial number.
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {O_, SY, 900000, 0, 0, TCP_PASS, ST(SYN_SENT)},
         {R_, SY | A, 0, 900001, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, A, 900001, 1, 0, TCP_PASS, ST(ESTABLISHED)});
    // SYN cookies: the answer that reached the opener is the second one.
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, SY | A, 7000000, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, A, 1, 7000001, 9, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, A, 7000001, 10, 9, TCP_PASS, ST(ESTABLISHED)}, {R_, F | A, 7000010, 10, 0, TCP_PASS, ST(CLOSE_WAIT)});
}

static void test_fast_open(void **state)
{
    TELL({O_, SY, 0, 0, 1200, TCP_PASS, ST(SYN_SENT)}, {R_, SY | A, 0, 1201, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, A, 1, 1201, 3000, TCP_PASS, ST(ESTABLISHED)}, {O_, A, 1201, 3001, 0, TCP_PASS, ST(ESTABLISHED)});
    TELL({O_, SY, 0, 0, 1200, TCP_PASS, ST(SYN_SENT)}, {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {O_, A, 1, 1, 1200, TCP_PASS, ST(ESTABLISHED)});
}

static void test_flood_stays_half_open(void **state)
{
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {O_, A, 1, 77777, 0, TCP_PASS, ST(SYN_SENT)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, A, 1, 0x40000000, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {O_, F | A, 1, 0x40000000, 0, TCP_PASS, ST(SYN_RECEIVED)});
}

static void test_reset(void **state)
{
    TELL(HANDSHAKE, {O_, A, 1, 1, 500, TCP_PASS, ST(ESTABLISHED)}, {R_, R, 1, 0, 0, TCP_PASS, ST(CLOSED)});
    TELL(HANDSHAKE, {O_, R | A, 1, 1, 0, TCP_PASS, ST(CLOSED)});
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, R | A, 0x12345, 1, 0, TCP_PASS, ST(CLOSED)}); // refused
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)},
         {R_, R | A, 0x30000000, 1, 0, TCP_PASS, ST(CLOSED)}); // a repeated SYN is refused
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {O_, R, 1, 0, 0, TCP_PASS, ST(CLOSED)});
}

static void test_blind_reset(void **state)
{
    TELL(HANDSHAKE, {R_, R, 0x10000000, 0, 0, TCP_OUT_OF_WINDOW, ST(ESTABLISHED)},
         {O_, R | A, 0x90000000, 1, 0, TCP_OUT_OF_WINDOW, ST(ESTABLISHED)},
         {O_, F | A, 0x90000000, 1, 0, TCP_OUT_OF_WINDOW, ST(ESTABLISHED)});
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, R, 0, 0, 0, TCP_OUT_OF_WINDOW, ST(SYN_SENT)},
         {R_, R | A, 0, 0x20000000, 0, TCP_OUT_OF_WINDOW, ST(SYN_SENT)});
}

static void test_stale_knowledge(void **state)
{
    struct tcp_track t;
    tcp_track_open(&t, &(struct tcp_segment){.flags = SY, .seq = 99});
    tcp_track_segment(&t, &(struct tcp_segment){.side = 1, .flags = SY | A, .seq = 499, .ack = 100});
    tcp_track_segment(&t, &(struct tcp_segment){.flags = A, .seq = 100, .ack = 500});
    assert_int_equal(t.state, TCP_STATE_ESTABLISHED);
    // Plain segments went by unseen: what the flow's counter says bounds how far the side has come.
    struct tcp_segment s = {.side = 1, .flags = R, .seq = 500 + 50000000, .sent = 10000000};
    assert_int_equal(tcp_track_segment(&t, &s), TCP_OUT_OF_WINDOW);
    s.sent = 51000000;
    assert_int_equal(tcp_track_segment(&t, &s), TCP_PASS);
    assert_int_equal(t.state, TCP_STATE_CLOSED);

    t.state = TCP_STATE_ESTABLISHED; // after gigabytes any number is possible
    s = (struct tcp_segment){.side = 1, .flags = F | A, .seq = 0xd0000000, .ack = 100, .sent = UINT32_MAX};
    assert_int_equal(tcp_track_segment(&t, &s), TCP_PASS);
    assert_int_equal(t.state, TCP_STATE_CLOSE_WAIT);
    assert_int_equal(t.end[1], 0xd0000001);
    s = (struct tcp_segment){.side = 0, .flags = A, .seq = 100, .ack = 0xd0000001, .sent = 100};
    assert_int_equal(tcp_track_segment(&t, &s), TCP_PASS);
    assert_int_equal(t.state, TCP_STATE_LAST_ACK);
}

static void test_renewal(void **state)
{
    TELL(HANDSHAKE, {O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)}, {R_, F | A, 1, 2, 0, TCP_PASS, ST(CLOSING)},
         {O_, SY, 5000, 0, 0, TCP_PASS_NEW, ST(CLOSING)}, {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)},
         {R_, SY | A, 5000, 6, 0, TCP_PASS, ST(TIME_WAIT)}, {O_, SY, 9, 0, 0, TCP_PASS_NEW, ST(TIME_WAIT)},
         {R_, SY, 9, 0, 0, TCP_PASS_NEW, ST(TIME_WAIT)});
    TELL(HANDSHAKE, {R_, R, 1, 0, 0, TCP_PASS, ST(CLOSED)}, {O_, SY, 77, 0, 0, TCP_PASS_NEW, ST(CLOSED)});
    // Half closed: the side that closed may have forgotten (FIN-WAIT-2 ends after a minute on most hosts).
    TELL(HANDSHAKE, {R_, F | A, 1, 1, 0, TCP_PASS, ST(CLOSE_WAIT)}, {R_, SY, 9, 0, 0, TCP_PASS, ST(CLOSE_WAIT)},
         {O_, A, 1, 2, 0, TCP_PASS, ST(LAST_ACK)}, {O_, SY, 9, 0, 0, TCP_PASS, ST(LAST_ACK)},
         {R_, SY, 9, 0, 0, TCP_PASS_NEW, ST(LAST_ACK)});
    TELL(HANDSHAKE, {O_, SY, 5000, 0, 0, TCP_PASS, ST(ESTABLISHED)}, {R_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED)},
         {O_, R, 1, 0, 0, TCP_PASS, ST(CLOSED)}, {O_, SY, 5000, 0, 0, TCP_PASS_NEW, ST(CLOSED)});
}

static void test_half_open_recovery(void **state)
{
    // The responder still has an old connection: challenge, RST, and the SYN again. None of it may be held up.
    TELL({O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)}, {R_, A, 0x50000000, 0x60000000, 0, TCP_PASS, ST(SYN_SENT)},
         {O_, R, 0x60000000, 0, 0, TCP_PASS, ST(SYN_SENT)}, {O_, SY, 0, 0, 0, TCP_PASS, ST(SYN_SENT)},
         {R_, SY | A, 0, 1, 0, TCP_PASS, ST(SYN_RECEIVED)}, {O_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED)});
}

static void test_pick_up(void **state)
{
    TELL({O_, A, 1, 1, 100, TCP_PASS, ST(ESTABLISHED)}, {R_, A, 0x70000000, 101, 0, TCP_PASS, ST(ESTABLISHED)},
         {O_, F | A, 101, 0x70000000, 0, TCP_PASS, ST(FIN_WAIT_1)},
         {R_, A, 0x70000000, 102, 0, TCP_PASS, ST(FIN_WAIT_2)});
    // Only one side seen: its peer's reset is believed wherever it stands.
    TELL({O_, A, 1, 1, 100, TCP_PASS, ST(ESTABLISHED)}, {R_, R, 0x30000000, 0, 0, TCP_PASS, ST(CLOSED)});
    TELL({O_, F | A, 1, 1, 0, TCP_PASS, ST(FIN_WAIT_1)}, {R_, F | A, 1, 2, 0, TCP_PASS, ST(CLOSING)},
         {O_, A, 2, 2, 0, TCP_PASS, ST(TIME_WAIT)});
    TELL({O_, R, 1, 0, 0, TCP_PASS, ST(CLOSED)}, {O_, SY, 1, 0, 0, TCP_PASS_NEW, ST(CLOSED)});
    TELL({O_, SY | A, 0, 1, 0, TCP_PASS, ST(ESTABLISHED)}, {R_, A, 1, 1, 0, TCP_PASS, ST(ESTABLISHED)});
    struct tcp_track t;
    tcp_track_open(&t, &(struct tcp_segment){.flags = A, .seq = 5, .window = 1000});
    assert_int_equal(t.picked_up, 1);
    assert_true(tcp_track_wants_all(&t));
    tcp_track_segment(&t, &(struct tcp_segment){.side = 1, .flags = A, .seq = 5, .window = 1000});
    assert_false(tcp_track_wants_all(&t));
}

static void test_any_segments(void **state)
{
    srandom(3);
    for (unsigned run = 0; run < 2000; run++) {
        struct tcp_track t;
        for (unsigned i = 0; i < 60; i++) {
            struct tcp_segment s = {.side = random() & 1,
                                    .flags = (uint8_t)random(),
                                    .window = (uint16_t)random(),
                                    .seq = random() % 3 ? (uint32_t)random() % 4 : (uint32_t)random() << 1,
                                    .ack = random() % 3 ? (uint32_t)random() % 4 : (uint32_t)random() << 1,
                                    .payload = (uint32_t)random() % 3,
                                    .sent = (uint32_t)random()};
            struct tcp_track before = t;
            enum tcp_verdict verdict = TCP_PASS;
            if (i == 0)
                tcp_track_open(&t, &s);
            else
                verdict = tcp_track_segment(&t, &s);
            assert_in_range(t.state, TCP_STATE_SYN_SENT, TCP_STATE_CLOSED);
            if (verdict != TCP_PASS)
                assert_memory_equal(&t, &before, sizeof(t));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T36 handshake, data and FIN both ways walk the states in order", .test_func = test_orderly_close},
        {.name = "T36 the responder closes first and the opener keeps sending", .test_func = test_responder_closes},
        {.name = "T37 a reset closes at once in every state", .test_func = test_reset},
        {.name = "T38 a blind reset or FIN changes nothing", .test_func = test_blind_reset},
        {.name = "T38 unseen segments widen the window by what was sent, and no more",
         .test_func = test_stale_knowledge},
        {.name = "T39 a SYN renews a closing connection and leaves a running one", .test_func = test_renewal},
        {.name = "T40 a FIN that carries data is acknowledged behind the data", .test_func = test_fin_with_data},
        {.name = "T40 a FIN that acknowledges a FIN counts as both", .test_func = test_fin_and_ack_in_one},
        {.name = "T40 repeated FINs pass and change nothing", .test_func = test_fin_repeated},
        {.name = "T40 T42 simultaneous close, at any sequence number", .test_func = test_simultaneous_close},
        {.name = "T40 simultaneous open", .test_func = test_simultaneous_open},
        {.name = "T40 repeated and renumbered handshake segments pass", .test_func = test_handshake_repeats},
        {.name = "T40 half-open recovery by challenge ACK and RST", .test_func = test_half_open_recovery},
        {.name = "T40 fast open: data before the handshake ends", .test_func = test_fast_open},
        {.name = "T45 a guessed ACK does not make a connection established", .test_func = test_flood_stays_half_open},
        {.name = "T89 a connection is picked up in the middle", .test_func = test_pick_up},
        {.name = "any bytes lead to a state, and a refused segment changes nothing", .test_func = test_any_segments},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
