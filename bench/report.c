// SPDX-License-Identifier: MPL-2.0
#include "bench/report.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row *report_row(struct report *r, const char *name, const char *unit)
{
    if (r->n == MAX_ROWS)
        errx(1, "too many rows");
    struct row *row = &r->rows[r->n++];
    *row = (struct row){.unit = unit};
    snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

void row_add(struct row *row, double value)
{
    if (row->n < MAX_REPETITIONS)
        row->value[row->n++] = value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sorted(const struct row *row, double *out)
{
    memcpy(out, row->value, row->n * sizeof(*out));
    qsort(out, row->n, sizeof(*out), by_size);
}

double row_median(const struct row *row)
{
    double v[MAX_REPETITIONS];
    sorted(row, v);
    return row->n % 2 ? v[row->n / 2] : (v[row->n / 2 - 1] + v[row->n / 2]) / 2;
}

void row_print(const struct row *row)
{
    double v[MAX_REPETITIONS];
    sorted(row, v);
    printf("%-28s %12.1f  %10.1f .. %-10.1f  %s\n", row->name, row_median(row), v[0], v[row->n - 1], row->unit);
    fflush(stdout);
}

bool report_write_json(const struct report *r, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f, "{\"rows\": [");
    for (unsigned i = 0; i < r->n; i++) {
        const struct row *row = &r->rows[i];
        fprintf(f, "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.3f, \"values\": [", i ? "," : "",
                row->name, row->unit, row_median(row));
        for (unsigned k = 0; k < row->n; k++)
            fprintf(f, "%s%.3f", k ? ", " : "", row->value[k]);
        fprintf(f, "]}");
    }
    fprintf(f, "\n]}\n");
    return fclose(f) == 0;
}
