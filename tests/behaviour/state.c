// SPDX-License-Identifier: MPL-2.0
// What a node counts and remembers, in words that can be compared whole.
#include <stdio.h>

#include "tests/behaviour/lab.h"

struct words {
    char *text;
    size_t len, room;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *format, ...)
{
    va_list args;
    if (w->room - w->len < 512) {
        w->room = w->room ? 2 * w->room : 4096;
        w->text = realloc(w->text, w->room);
        assert_non_null(w->text);
    }
    va_start(args, format);
    w->len += (size_t)vsnprintf(w->text + w->len, w->room - w->len, format, args);
    va_end(args);
}

static void say_count(struct words *w, const char *name, uint64_t n)
{
    if (n)
        say(w, " %s=%lu", name, n);
}

static void say_drops(struct words *w, const uint64_t *drops, const uint64_t *had)
{
    for (int r = 0; r < DROP_COUNT; r++)
        say_count(w, drop_name(r), drops[r] - (had ? had[r] : 0));
}

static void say_port(struct words *w, const struct port_counters *now, const struct port_counters *had)
{
    static const struct port_counters none;
    static const char *const names[] = {"out", "in"};
    if (!had)
        had = &none;
    for (int d = 0; d < 2; d++) {
        size_t before = w->len;
        say(w, "%s%s", before ? " " : "", names[d]);
        size_t named = w->len;
        say_count(w, "received", now->received[d] - had->received[d]);
        say_count(w, "hits", now->hits[d] - had->hits[d]);
        say_count(w, "misses", now->misses[d] - had->misses[d]);
        say_count(w, "sent", now->sent[d] - had->sent[d]);
        say_count(w, "answered", now->answered[d] - had->answered[d]);
        say_count(w, "consumed", now->consumed[d] - had->consumed[d]);
        say_count(w, "generated", now->generated[d] - had->generated[d]);
        say_drops(w, now->drops[d], had->drops[d]);
        if (w->len == named) {
            w->len = before;
            w->text[before] = '\0';
        }
    }
}

void expect_counters(struct fake *f, uint32_t port, const char *moved)
{
    struct words w = {0};
    struct port_counters now;
    say(&w, "%s", "");
    node_port_counters(f->node, port, &now);
    say_port(&w, &now, &f->seen_port[port]);
    f->seen_port[port] = now;
    assert_string_equal(w.text, moved);
    free(w.text);
}

void forget_counters(struct fake *f)
{
    for (uint32_t i = node_port_next(f->node, 0); i; i = node_port_next(f->node, i))
        node_port_counters(f->node, i, &f->seen_port[i]);
    node_counters(f->node, &f->seen_node);
}

void expect_node_counters(struct fake *f, const char *moved)
{
    struct words w = {0};
    struct node_counters now, *had = &f->seen_node;
    say(&w, "%s", "");
    node_counters(f->node, &now);
    say_count(&w, "received", now.underlay_received - had->underlay_received);
    say_count(&w, "to-port", now.underlay_to_port - had->underlay_to_port);
    say_count(&w, "forwarded", now.underlay_forwarded - had->underlay_forwarded);
    say_drops(&w, now.underlay_drops, had->underlay_drops);
    say_count(&w, "service-received", now.service_received - had->service_received);
    say_count(&w, "service-to-port", now.service_to_port - had->service_to_port);
    for (int r = 0; r < DROP_COUNT; r++)
        if (now.service_drops[r] != had->service_drops[r])
            say(&w, " service-%s=%lu", drop_name(r), now.service_drops[r] - had->service_drops[r]);
    f->seen_node = now;
    assert_string_equal(w.text[0] ? w.text + 1 : w.text, moved);
    free(w.text);
}

// ---- the whole state

static void say_bytes(struct words *w, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        say(w, "%02x", ((const uint8_t *)bytes)[i]);
}

static void say_flows(struct words *w, struct fake *f, uint32_t port)
{
    struct flow_info k;
    for (uint32_t i = node_flow_next(f->node, port, 0, f->now, &k); i;
         i = node_flow_next(f->node, port, i, f->now, &k)) {
        say(w, "flow %u opener %u state %s class %u rule %s nat %u ", i, k.opener, tcp_state_name(k.state), k.class_,
            k.rule, k.nat.kind);
        say_bytes(w, &k.nat.external, 16);
        say(w, " %u age %u idle %u timeout %u\n", k.nat.external_port, k.age_ms, k.idle_ms, k.timeout_s);
        for (int d = 0; d < 2; d++) {
            if (!k.has[d])
                continue;
            say(w, "  key ");
            say_bytes(w, &k.key[d], sizeof(k.key[d]));
            say(w, " packets %lu bytes %lu\n  xp ", k.packets[d], k.bytes[d]);
            say_bytes(w, &k.xp[d], sizeof(k.xp[d]));
            say(w, "\n");
        }
    }
}

static void say_rules(struct words *w, struct fake *f, uint32_t port)
{
    struct rule_counter rules[256];
    unsigned n = node_rule_counters(f->node, port, rules, 256);
    for (unsigned i = 0; i < n; i++)
        if (rules[i].hits)
            say(w, "rule %s %s %lu\n", rules[i].layer, rules[i].id, rules[i].hits);
}

char *whole_state(struct fake *f)
{
    struct words w = {0};
    struct node_counters n;
    node_counters(f->node, &n);
    const uint64_t *words = (const uint64_t *)&n;
    say(&w, "node");
    for (size_t i = 0; i < sizeof(n) / 8; i++)
        if (words[i])
            say(&w, " %zu:%lu", i, words[i]);
    say(&w, "\n");
    for (uint32_t i = node_port_next(f->node, 0); i; i = node_port_next(f->node, i)) {
        struct node_port_status s;
        struct port_counters c;
        assert_true(node_port_status(f->node, i, &s));
        node_port_counters(f->node, i, &c);
        say(&w, "port %u vni %u generation %lu paused %d connections %u bytes %lu %lu %lu %lu\n ", i, s.vni,
            s.generation, s.paused, s.connections, c.received_bytes[0], c.received_bytes[1], c.sent_bytes[0],
            c.sent_bytes[1]);
        say_port(&w, &c, NULL);
        say(&w, "\n");
        say_rules(&w, f, i);
        say_flows(&w, f, i);
    }
    struct mapping m;
    for (uint32_t cursor = 0; node_mapping_next(f->node, &cursor, &m);) {
        say(&w, "mapping %u epoch %lu state %u ", m.vni, m.epoch, m.state);
        say_bytes(&w, &m.ip, 16);
        say_bytes(&w, &m.node, 16);
        say(&w, "\n");
    }
    return w.text;
}

void expect_state(struct fake *f, char *was)
{
    char *is = whole_state(f);
    expect_same_state(was, is);
    free(is);
}

void expect_same_state(const char *a, const char *b)
{
    for (unsigned line = 1; *a || *b; line++) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0)
            fail_msg("states differ in line %u:\n  %.*s\n  %.*s", line, (int)na, a, (int)nb, b);
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
}

// ---- flows

struct flow_info only_flow(struct fake *f, uint32_t port)
{
    struct flow_info info = {0}, next;
    assert_int_equal(flows(f, port), 1);
    uint32_t i = node_flow_next(f->node, port, 0, f->now, &info);
    assert_int_not_equal(i, 0);
    assert_int_equal(node_flow_next(f->node, port, i, f->now, &next), 0);
    return info;
}

void expect_tcp_state(struct fake *f, uint32_t port, enum tcp_state state)
{
    assert_string_equal(tcp_state_name(only_flow(f, port).state), tcp_state_name(state));
}

void pass_time(struct fake *f, uint64_t ms)
{
    expect_nothing(f);
    fake_advance(f, ms);
    fake_quiesce(f);
    for (const struct fake_call *c; (c = fake_next(f));) { // a router advertisement now and then
        assert_int_equal(c->kind, FAKE_DELIVER);
        assert_int_equal(c->frame[14 + 6], IPPROTO_ICMP6);
        assert_int_equal(c->frame[14 + 40], 134);
    }
    forget_counters(f);
}

// ---- the same frame

void expect_same_frame(const struct fake_call *c, const struct frame *f)
{
    assert_int_equal(c->len, f->len);
    assert_memory_equal(c->frame, f->bytes, f->len);
}

void expect_inner(const struct fake_call *c, struct frame f, struct mac_addr dst, struct mac_addr src)
{
    uint32_t len;
    const uint8_t *inner = inner_of(c, &len);
    frame_set_mac(&f, dst, src);
    assert_int_equal(len, f.len);
    assert_memory_equal(inner, f.bytes, f.len);
}
