// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/fragments.h"

#define SECOND 1000000000ull

struct world {
    struct fragments f;
    struct fragment_clock clock;
    struct fragment_queue q;
    struct fragment_ports ports;
    enum drop reason;
    struct packet packets[128];
};

static struct world w;

static int begin(void **state)
{
    memset(&w, 0, sizeof(w));
    w.clock = (struct fragment_clock){.now = 100 * SECOND, .timeout = 30 * SECOND};
    return 0;
}

static struct parsed piece(uint32_t id, uint32_t offset, uint32_t bytes, bool more)
{
    struct parsed pp = {.ip_version = 4, .protocol = IPPROTO_UDP4};
    pp.src = ip_from_v4((uint8_t[]){10, 0, 0, 3});
    pp.dst = ip_from_v4((uint8_t[]){10, 0, 0, 4});
    pp.flags = offset ? PARSE_FRAG_LATER : PARSE_FRAG_FIRST;
    pp.fragment = (struct ip_fragment){id, (uint16_t)offset, (uint16_t)bytes, more};
    if (!offset) {
        pp.sport = 1111;
        pp.dport = 2222;
    }
    return pp;
}

static struct fragment_key key_of(const struct parsed *pp)
{
    struct fragment_key key;
    fragment_key_from_parsed(&key, pp, 100, 0, 0);
    return key;
}

static enum drop first_of(struct parsed pp)
{
    struct fragment_key key = key_of(&pp);
    return fragments_first(&w.f, &key, &pp, &w.clock, &w.q);
}

static enum drop first(uint32_t id, uint32_t bytes)
{
    return first_of(piece(id, 0, bytes, true));
}

static void judged(uint32_t id, enum drop reason)
{
    struct parsed pp = piece(id, 0, 8, true);
    struct fragment_key key = key_of(&pp);
    fragments_judged(&w.f, &key, reason, &w.q, &w.ports);
}

static enum fragment_answer later(uint32_t id, uint32_t offset, uint32_t bytes, bool more, unsigned packet)
{
    struct parsed pp = piece(id, offset, bytes, more);
    struct fragment_key key = key_of(&pp);
    return fragments_later(&w.f, &key, &pp, &w.packets[packet], true, &w.clock, &w.ports, &w.reason, &w.q);
}

static void passes(uint32_t id, uint32_t bytes)
{
    assert_int_equal(first(id, bytes), DROP_NONE);
    judged(id, DROP_NONE);
}

static void in_order(void **state)
{
    passes(7, 1400);
    assert_int_equal(w.q.n, 0);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_GO);
    assert_int_equal(w.ports.sport, 1111);
    assert_int_equal(w.ports.dport, 2222);
    assert_int_equal(w.ports.protocol, IPPROTO_UDP4);
    assert_int_equal(later(7, 2800, 100, false, 2), FRAGMENT_GO);
    assert_int_equal(later(7, 2800, 100, false, 3), FRAGMENT_HOLD); // complete, so forgotten: another datagram's
}

static void waiting(void **state)
{
    assert_int_equal(later(7, 2800, 100, false, 2), FRAGMENT_HOLD);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_HOLD);
    assert_int_equal(first(7, 1400), DROP_NONE);
    assert_int_equal(later(7, 1400, 1400, true, 3), FRAGMENT_HOLD); // once more, while the first is judged
    judged(7, DROP_NONE);
    assert_int_equal(w.q.n, 3);
    assert_int_equal(w.q.reason, DROP_NONE);
    assert_ptr_equal(w.q.packets[0], &w.packets[2]);
    assert_ptr_equal(w.q.packets[1], &w.packets[1]);
    assert_int_equal(w.ports.dport, 2222);
    assert_int_equal(w.f.held, 0);
}

static void refused(void **state)
{
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_HOLD);
    assert_int_equal(first(7, 1400), DROP_NONE);
    judged(7, DROP_FIREWALL_DENY);
    assert_int_equal(w.q.n, 1);
    assert_int_equal(w.q.reason, DROP_FIREWALL_DENY);
    assert_int_equal(later(7, 2800, 1400, true, 2), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FIREWALL_DENY);
    assert_int_equal(first(7, 1400), DROP_FIREWALL_DENY);
}

static void refused_midway(void **state)
{
    passes(7, 1400);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_GO);
    judged(7, DROP_REVALIDATE_DENY);
    assert_int_equal(later(7, 2800, 1400, true, 1), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_REVALIDATE_DENY);
}

static void overlaps(void **state)
{
    static const struct {
        uint16_t offset, bytes;
        bool more;
    } bad[] = {
        {1392, 16, true},    // into the first
        {2792, 16, true},    // into the second
        {1400, 1408, true},  // the second, longer
        {1400, 8, true},     // the second, shorter
        {1408, 8, true},     // inside
        {1400, 1400, false}, // the second, but said to be the last
        {8, 8000, true},     // over all
        {800, 8, false},     // an end before others
    };
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        begin(NULL);
        passes(7, 1400);
        assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_GO);
        assert_int_equal(later(7, bad[i].offset, bad[i].bytes, bad[i].more, 2), FRAGMENT_DROP);
        assert_int_equal(w.reason, DROP_FRAGMENT_OVERLAP);
        assert_int_equal(later(7, 2800, 1400, true, 3), FRAGMENT_DROP); // and the rest with it
        assert_int_equal(w.reason, DROP_FRAGMENT_OVERLAP);
    }
}

static void two_ends(void **state)
{
    passes(7, 1400);
    assert_int_equal(later(7, 2800, 100, false, 1), FRAGMENT_GO);
    assert_int_equal(later(7, 2904, 8, true, 2), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FRAGMENT_OVERLAP);
    passes(8, 1400);
    assert_int_equal(later(8, 2800, 100, false, 1), FRAGMENT_GO);
    assert_int_equal(later(8, 4200, 100, false, 2), FRAGMENT_DROP);
    passes(9, 1400);
    assert_int_equal(later(9, 2800, 100, false, 1), FRAGMENT_GO);
    assert_int_equal(later(9, 2800, 100, true, 1), FRAGMENT_DROP);
}

static void overlap_ends_waiting(void **state)
{
    assert_int_equal(later(7, 16, 1400, true, 1), FRAGMENT_HOLD);
    assert_int_equal(first(7, 24), DROP_FRAGMENT_OVERLAP);
    assert_int_equal(w.q.n, 1);
    assert_int_equal(w.q.reason, DROP_FRAGMENT_OVERLAP);
    assert_int_equal(w.f.held, 0);
}

static void again(void **state)
{
    passes(7, 1400);
    passes(7, 1400);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_GO);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_GO);
}

static void two_firsts(void **state)
{
    passes(7, 1400);
    struct parsed pp = piece(7, 0, 1400, true);
    pp.dport = 22;
    assert_int_equal(first_of(pp), DROP_FRAGMENT_OVERLAP);
    assert_int_equal(later(7, 1400, 1400, true, 1), FRAGMENT_DROP);
}

static void bounds(void **state)
{
    unsigned n = 0;
    for (; n < FRAGMENT_HELD; n++)
        assert_int_equal(later(7, 8 + 8 * n, 8, true, n), FRAGMENT_HOLD);
    assert_int_equal(later(7, 8 + 8 * n, 8, true, n), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FRAGMENT_LIMIT);
    assert_int_equal(w.q.n, FRAGMENT_HELD);
    assert_int_equal(w.q.reason, DROP_FRAGMENT_LIMIT);

    begin(NULL);
    for (n = 0; n < FRAGMENT_HELD_SET; n++)
        assert_int_equal(later(n / 8, 8 + 8 * (n % 8), 8, true, n), FRAGMENT_HOLD);
    assert_int_equal(later(100, 8, 8, true, n), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FRAGMENT_LIMIT);
    assert_int_equal(w.f.held, FRAGMENT_HELD_SET);

    begin(NULL);
    passes(7, 8);
    for (n = 1; n < FRAGMENT_PIECES; n++)
        assert_int_equal(later(7, 8 * n, 8, true, 0), FRAGMENT_GO);
    assert_int_equal(later(7, 8 * n, 8, true, 0), FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FRAGMENT_LIMIT);
}

static void no_memory(void **state)
{
    struct parsed pp = piece(7, 1400, 8, true);
    struct fragment_key key = key_of(&pp);
    enum fragment_answer a =
        fragments_later(&w.f, &key, &pp, &w.packets[0], false, &w.clock, &w.ports, &w.reason, &w.q);
    assert_int_equal(a, FRAGMENT_DROP);
    assert_int_equal(w.reason, DROP_FRAGMENT_LIMIT);
}

static void time_is_over(void **state)
{
    assert_int_equal(later(7, 1400, 8, true, 1), FRAGMENT_HOLD);
    passes(8, 1400);
    assert_false(fragments_expire(&w.f, w.clock.now + 30 * SECOND - 1, &w.q));
    w.clock.now += 30 * SECOND;
    assert_true(fragments_expire(&w.f, w.clock.now, &w.q));
    assert_int_equal(w.q.n, 1);
    assert_int_equal(w.q.reason, DROP_FRAGMENT_TIMEOUT);
    assert_false(fragments_expire(&w.f, w.clock.now, &w.q));
    assert_int_equal(later(8, 1400, 8, true, 2), FRAGMENT_HOLD); // nothing is known of 8 any more
    w.clock.now += 31 * SECOND;
    assert_int_equal(first(8, 1400), DROP_NONE); // nor does it join what is over
    assert_int_equal(w.q.n, 1);
    assert_int_equal(w.q.reason, DROP_FRAGMENT_TIMEOUT);
}

static void flood(void **state)
{
    passes(1, 1400);
    for (uint32_t id = 1000; id < 1000 + 4 * FRAGMENT_DATAGRAMS; id++) { // later ones without a first
        w.clock.now++;
        later(id, 1400, 8, true, id % 128);
        if (w.q.n)
            assert_int_equal(w.q.reason, DROP_FRAGMENT_LIMIT);
    }
    assert_int_equal(later(1, 1400, 8, true, 0), FRAGMENT_GO); // cost the datagram under way nothing
    for (uint32_t id = 1; id < 2 * FRAGMENT_DATAGRAMS; id++) {
        w.clock.now++;
        passes(2000 + id, 1400);
    }
    assert_int_equal(later(1, 1408, 8, true, 0), FRAGMENT_HOLD); // the oldest went
    assert_int_equal(later(2000 + 2 * FRAGMENT_DATAGRAMS - 1, 1400, 8, true, 1), FRAGMENT_GO);
}

static void keys(void **state)
{
    struct parsed a = piece(7, 0, 1400, true), b = piece(7, 1400, 8, true);
    struct fragment_key ka = key_of(&a), kb = key_of(&b);
    assert_memory_equal(&ka, &kb, sizeof(ka));
    b.protocol = IPPROTO_TCP4;
    kb = key_of(&b);
    assert_memory_not_equal(&ka, &kb, sizeof(ka));
    a.ip_version = b.ip_version = 6; // RFC 8200: only the first one's next header counts
    ka = key_of(&a);
    kb = key_of(&b);
    assert_memory_equal(&ka, &kb, sizeof(ka));
}

static void forgotten(void **state)
{
    passes(7, 1400);
    assert_int_equal(later(8, 1400, 8, true, 0), FRAGMENT_HOLD);
    fragments_forget(&w.f);
    assert_true(fragments_expire(&w.f, w.clock.now, &w.q));
    assert_int_equal(w.q.n, 1);
    assert_int_equal(later(7, 1400, 8, true, 0), FRAGMENT_HOLD);
}

#define CASE(text, fn) \
    { \
        text, fn, begin, NULL, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE("T64 later fragments get the first one's ports", in_order),
        CASE("T64 fragments before the first wait until it was judged", waiting),
        CASE("T64 a refused first fragment refuses all of its datagram", refused),
        CASE("T64 a fragment refused on the way ends the datagram", refused_midway),
        CASE("T64 overlapping fragments end their datagram", overlaps),
        CASE("T64 a datagram has one end", two_ends),
        CASE("T64 an overlapping first fragment ends what waited", overlap_ends_waiting),
        CASE("T64 the same fragment again passes", again),
        CASE("T64 two first fragments that differ end their datagram", two_firsts),
        CASE("T64 what waits and what is remembered is bounded", bounds),
        CASE("T64 without memory nothing waits", no_memory),
        CASE("T64 datagrams are forgotten after their time", time_is_over),
        CASE("T64 a flood of identifications drives out the worst first", flood),
        CASE("T64 what fragments of a datagram have in common", keys),
        CASE("T64 all is over when the owner says so", forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
