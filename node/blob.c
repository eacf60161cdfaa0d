// SPDX-License-Identifier: MPL-2.0
#include "node/blob.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct blob *t, size_t more)
{
    if (t->failed || more > SIZE_MAX / 4 - t->len)
        return !(t->failed = true);
    size_t need = t->len + more + 1;
    if (need <= t->room)
        return true;
    size_t room = t->room * 2 > need ? t->room * 2 : need + 256;
    char *s = realloc(t->s, room);
    if (!s)
        return !(t->failed = true);
    t->s = s;
    t->room = room;
    return true;
}

void blob_add(struct blob *t, const void *data, size_t len)
{
    if (!reserve(t, len))
        return;
    if (len)
        memcpy(t->s + t->len, data, len);
    t->len += len;
    t->s[t->len] = 0;
}

void blob_puts(struct blob *t, const char *s)
{
    blob_add(t, s, strlen(s));
}

void blob_printf(struct blob *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        t->failed = true;
    else if (reserve(t, (size_t)n)) {
        vsnprintf(t->s + t->len, (size_t)n + 1, format, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

void blob_free(struct blob *t)
{
    free(t->s);
    *t = (struct blob){0};
}
