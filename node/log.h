// SPDX-License-Identifier: MPL-2.0
// log.h: one line per event on stderr: level=info msg="port attached" port=... device=...
//
// The message is a constant; what varies stands in key=value pairs after it, formatted as by printf. A value
// that may hold spaces or quotes is passed through log_quote. Any thread may log: a line is one write.
#ifndef NEREUS_NODE_LOG_H
#define NEREUS_NODE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level);
int log_level_parse(const char *name); // -1: no such level
void log_line(enum log_level level, const char *message, const char *pairs, ...) __attribute__((format(printf, 3, 4)));

// "text" in double quotes, with quotes, backslashes and control characters escaped, cut to fit.
struct log_text {
    char s[320];
};
struct log_text log_quote(const char *text);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

#endif
