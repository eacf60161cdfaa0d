// SPDX-License-Identifier: MPL-2.0
#include "vpc/text.h"

struct text text_into(char *buffer, size_t size)
{
    buffer[0] = '\0';
    return (struct text){buffer, buffer + size - 1};
}

// Also how text that nobody wants costs nothing: walks without a log write into an empty one.
static bool full(const struct text *t)
{
    return t->at == t->end;
}

static void put(struct text *t, char c)
{
    if (full(t))
        return;
    *t->at++ = c;
    *t->at = '\0';
}

void text_add(struct text *t, const char *s)
{
    while (*s && !full(t))
        put(t, *s++);
}

static void number_in(struct text *t, uint64_t n, unsigned base)
{
    char digits[20];
    unsigned count = 0;
    if (full(t))
        return;
    do {
        digits[count++] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n);
    while (count)
        put(t, digits[--count]);
}

void text_number(struct text *t, uint64_t n)
{
    number_in(t, n, 10);
}

static void add_v4(struct text *t, const uint8_t *b)
{
    for (unsigned i = 0; i < 4; i++) {
        if (i)
            put(t, '.');
        text_number(t, b[i]);
    }
}

// The longest run of two or more zero groups is written "::" (RFC 5952 section 4.2).
static void add_v6(struct text *t, const uint8_t *b)
{
    unsigned best = 8, best_len = 1, run = 0;
    for (unsigned i = 0; i < 8; i++) {
        run = load_be16(b + 2 * i) ? 0 : run + 1;
        if (run > best_len) {
            best_len = run;
            best = i + 1 - run;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        if (i == best) {
            text_add(t, "::");
            i += best_len - 1;
            continue;
        }
        if (i && i != best + best_len)
            put(t, ':');
        number_in(t, load_be16(b + 2 * i), 16);
    }
}

void text_ip(struct text *t, const struct ip_addr *a)
{
    if (full(t))
        return;
    if (ip_is_v4(a))
        add_v4(t, a->b + 12);
    else
        add_v6(t, a->b);
}

void text_prefix(struct text *t, const struct ip_prefix *p)
{
    text_ip(t, &p->addr);
    put(t, '/');
    text_number(t, ip_is_v4(&p->addr) && p->len >= 96 ? p->len - 96u : p->len);
}

void text_mac(struct text *t, const struct mac_addr *m)
{
    for (unsigned i = 0; i < 6; i++) {
        if (i)
            put(t, ':');
        put(t, "0123456789abcdef"[m->b[i] >> 4]);
        put(t, "0123456789abcdef"[m->b[i] & 15]);
    }
}
