// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"

#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const json_t *json_at(const json_t *object, const char *path)
{
    char name[64];
    while (object && *path) {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        object = json_object_get(object, name);
        path += length + (path[length] == '.');
    }
    return object;
}

void output_safe(FILE *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f; // U+0080 to U+009F
        if (*p < 0x20 || *p == 0x7f || c1)
            fputc('?', out);
        else
            fputc(*p, out);
        p += c1;
    }
}

int output_json(const struct answer *a)
{
    fwrite(a->body, 1, a->length, stdout);
    if (a->length && a->body[a->length - 1] != '\n')
        putchar('\n');
    return CLI_OK;
}

int output_pretty(const json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    putchar('\n');
    return CLI_OK;
}

static void print_time(FILE *out, json_int_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    char text[32];
    if (seconds > 0 && gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &tm))
        fputs(text, out);
    else
        fputs("-", out);
}

static void print_duration(FILE *out, json_int_t ms)
{
    if (ms < 60000)
        fprintf(out, "%.1fs", (double)ms / 1000);
    else if (ms < 3600000)
        fprintf(out, "%lldm%02llds", (long long)ms / 60000, (long long)ms / 1000 % 60);
    else
        fprintf(out, "%lldh%02lldm", (long long)ms / 3600000, (long long)ms / 60000 % 60);
}

static void print_value(FILE *out, const json_t *value, enum column_kind kind)
{
    if (json_is_integer(value) && kind == COLUMN_TIME) {
        print_time(out, json_integer_value(value));
    } else if (json_is_integer(value) && kind == COLUMN_DURATION) {
        print_duration(out, json_integer_value(value));
    } else if (json_is_integer(value)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(out, "%g", json_real_value(value));
    } else if (json_is_string(value)) {
        output_safe(out, *json_string_value(value) ? json_string_value(value) : "-");
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "yes" : "no", out);
    } else if (json_is_array(value) && json_array_size(value)) {
        size_t i;
        const json_t *element;
        json_array_foreach(value, i, element)
        {
            fputs(i ? "," : "", out);
            print_value(out, element, kind);
        }
    } else if (json_is_object(value)) {
        char *text = json_dumps(value, JSON_COMPACT);
        output_safe(out, text ? text : "");
        free(text);
    } else {
        fputs("-", out);
    }
}

// To be freed.
static char *cell_text(const json_t *item, const struct column *column)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (column->text)
        column->text(item, out);
    else
        print_value(out, json_at(item, column->path), column->kind);
    fclose(out);
    return text;
}

int output_table(const json_t *items, const struct column *columns, size_t n)
{
    if (json_array_size(items) == 0) {
        if (isatty(STDOUT_FILENO))
            fprintf(stderr, "none\n");
        return CLI_OK;
    }
    struct libscols_table *table = scols_new_table();
    if (!table)
        return CLI_REFUSED;
    for (size_t i = 0; i < n; i++) {
        bool right = columns[i].kind == COLUMN_NUMBER || columns[i].kind == COLUMN_DURATION;
        scols_table_new_column(table, columns[i].title, 0, right ? SCOLS_FL_RIGHT : 0);
    }
    size_t row;
    const json_t *item;
    json_array_foreach(items, row, item)
    {
        struct libscols_line *line = scols_table_new_line(table, NULL);
        for (size_t i = 0; line && i < n; i++)
            scols_line_refer_data(line, i, cell_text(item, &columns[i])); // the line frees it
    }
    int failed = scols_print_table(table);
    scols_unref_table(table);
    return failed ? CLI_REFUSED : CLI_OK;
}

void output_fields(const json_t *object, const struct column *columns, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        int length = (int)strlen(columns[i].title);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < n; i++) {
        char *text = cell_text(object, &columns[i]);
        printf("  %-*s  %s\n", width, columns[i].title, text);
        free(text);
    }
}

int output_list(const struct cli *c, char *path, const struct column *columns, size_t n)
{
    struct answer a;
    int code = client_list(c, path, &a);
    if (code != CLI_OK)
        return code;
    code = c->json ? output_json(&a) : output_table(list_items(a.json), columns, n);
    answer_free(&a);
    return code;
}
