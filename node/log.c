// SPDX-License-Identifier: MPL-2.0
#include "node/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static int threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    __atomic_store_n(&threshold, (int)level, __ATOMIC_RELAXED);
}

int log_level_parse(const char *name)
{
    for (int i = 0; i <= LOG_ERROR; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -1;
}

struct log_text log_quote(const char *text)
{
    struct log_text out;
    size_t n = 0;
    out.s[n++] = '"';
    for (const unsigned char *c = (const unsigned char *)text; *c && n < sizeof(out.s) - 6; c++) {
        if (*c == '"' || *c == '\\') {
            out.s[n++] = '\\';
            out.s[n++] = (char)*c;
        } else if (*c < 0x20 || *c == 0x7f) {
            n += (size_t)snprintf(out.s + n, 5, "\\x%02x", *c);
        } else {
            out.s[n++] = (char)*c;
        }
    }
    out.s[n++] = '"';
    out.s[n] = 0;
    return out;
}

void log_line(enum log_level level, const char *message, const char *pairs, ...)
{
    if ((int)level < __atomic_load_n(&threshold, __ATOMIC_RELAXED))
        return;
    char line[1024];
    size_t n = (size_t)snprintf(line, sizeof(line), "level=%s msg=\"%s\" ", level_names[level], message);
    if (n > sizeof(line) / 2)
        n = sizeof(line) / 2;
    va_list args;
    va_start(args, pairs);
    int more = vsnprintf(line + n, sizeof(line) - n - 1, pairs, args);
    va_end(args);
    n = more < 0 ? n : n + (size_t)more;
    if (n > sizeof(line) - 2)
        n = sizeof(line) - 2;
    while (n && line[n - 1] == ' ')
        n--;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; // nowhere to complain
}
