// SPDX-License-Identifier: MPL-2.0
// output.h: answers as JSON, as tables (libsmartcols) and as lists of fields. Text from the node may be a tenant's:
// control characters never reach the terminal.
#ifndef NEREUS_CLI_OUTPUT_H
#define NEREUS_CLI_OUTPUT_H

#include "cli/client.h"

enum column_kind {
    COLUMN_TEXT,
    COLUMN_NUMBER,
    COLUMN_YES_NO,
    COLUMN_TIME /* Unix seconds */,
    COLUMN_DURATION /* ms */
};

struct column {
    const char *title;
    const char *path; // members joined by dots, e.g. "out.src"; arrays are joined by commas
    enum column_kind kind;
    void (*text)(const json_t *item, FILE *out); // instead of path
};

const json_t *json_at(const json_t *object, const char *path); // NULL when absent

void output_safe(FILE *out, const char *text);
int output_json(const struct answer *a); // exactly what the API said
int output_pretty(const json_t *json);   // indented
int output_table(const json_t *items, const struct column *columns, size_t n);
void output_fields(const json_t *object, const struct column *columns, size_t n); // one a line

// GETs a list (path taken over) and prints it as -o says.
int output_list(const struct cli *c, char *path, const struct column *columns, size_t n);

#endif
