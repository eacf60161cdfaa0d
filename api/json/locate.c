// SPDX-License-Identifier: MPL-2.0
// The JSON pointer of a place in a text that the parser gave up on.
#include "api/json/fields.h"
#include <stdio.h>
#include <string.h>

struct level {
    bool object;
    size_t index;    // array: element we are in
    const char *key; // object: member we are in, as written
    size_t key_len;
};

struct scanner {
    const char *text;
    size_t at, end;
    unsigned depth;
    struct level levels[API_MAX_DEPTH + 1];
};

// s->at is on the opening quote; moves past the closing one.
static void scan_string(struct scanner *s)
{
    struct level *top = s->depth > 0 ? &s->levels[s->depth - 1] : NULL;
    size_t start = ++s->at;
    while (s->at < s->end && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    if (top && top->object && !top->key) {
        top->key = s->text + start;
        top->key_len = MIN(s->at, s->end) - start;
    }
    s->at++;
}

static void scan(struct scanner *s)
{
    while (s->at < s->end) {
        struct level *top = s->depth > 0 ? &s->levels[s->depth - 1] : NULL;
        char c = s->text[s->at];
        if (c == '"') {
            scan_string(s);
            continue;
        }
        if (c == '{' || c == '[') {
            if (s->depth == ARRAY_LEN(s->levels))
                return;
            s->levels[s->depth++] = (struct level){.object = c == '{'};
        } else if ((c == '}' || c == ']') && top) {
            s->depth--;
        } else if (c == ',' && top) {
            top->index++;
            top->key = NULL;
        }
        s->at++;
    }
}

static size_t append(char *pointer, size_t size, size_t n, char c)
{
    if (n + 1 < size)
        pointer[n++] = c;
    pointer[n] = '\0';
    return n;
}

static size_t append_key(char *pointer, size_t size, size_t n, const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (key[i] == '~' || key[i] == '/')
            n = append(pointer, size, n, '~');
        n = append(pointer, size, n, key[i] == '~' ? '0' : key[i] == '/' ? '1' : key[i]);
    }
    return n;
}

// Text may be any bytes: what goes into an answer must be UTF-8.
static void ascii_only(char *s)
{
    for (; *s; s++) {
        if ((uint8_t)*s < 0x20 || (uint8_t)*s > 0x7e)
            *s = '?';
    }
}

void locate(const char *text, size_t position, char *pointer, size_t size)
{
    struct scanner s = {.text = text, .end = position};
    size_t n = 0;
    pointer[0] = '\0';
    scan(&s);
    for (unsigned i = 0; i < s.depth; i++) {
        const struct level *level = &s.levels[i];
        char index[24];
        snprintf(index, sizeof(index), "%zu", level->index);
        if (level->object && !level->key)
            break;
        n = append(pointer, size, n, '/');
        if (level->object)
            n = append_key(pointer, size, n, level->key, level->key_len);
        else
            n = append_key(pointer, size, n, index, strlen(index));
    }
    ascii_only(pointer);
}
