// SPDX-License-Identifier: MPL-2.0
// report.h: rows of results: a table for people as they come, JSON with every repetition at the end.
#ifndef NEREUS_BENCH_REPORT_H
#define NEREUS_BENCH_REPORT_H

#include <stdbool.h>

#define MAX_REPETITIONS 64
#define MAX_ROWS 128

struct row {
    char name[48];
    const char *unit;
    double value[MAX_REPETITIONS];
    unsigned n;
};

struct report {
    struct row rows[MAX_ROWS];
    unsigned n;
};

struct row *report_row(struct report *r, const char *name, const char *unit);
void row_add(struct row *row, double value);
double row_median(const struct row *row);
void row_print(const struct row *row); // one line of the table
bool report_write_json(const struct report *r, const char *path);

#endif
