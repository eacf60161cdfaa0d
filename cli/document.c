// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

#define DOCUMENT_MAX (64u << 20)

static int read_all(struct cli *c, FILE *in, char **text, size_t *length)
{
    char part[65536];
    FILE *out = open_memstream(text, length);
    size_t n, total = 0;
    while ((n = fread(part, 1, sizeof(part), in)) > 0 && (total += n) <= DOCUMENT_MAX)
        fwrite(part, 1, n, out);
    fclose(out);
    if (ferror(in) || total > DOCUMENT_MAX) {
        free(*text);
        *text = NULL;
        return cli_refuse(c, total > DOCUMENT_MAX ? "too large" : "cannot read: %s", strerror(errno));
    }
    return CLI_OK;
}

int document_read(struct cli *c, const char *file, char **text, size_t *length, json_t **json)
{
    bool standard = strcmp(file, "-") == 0;
    c->subject = standard ? "standard input" : file;
    FILE *in = standard ? stdin : fopen(file, "rb");
    if (!in)
        return cli_refuse(c, "%s", strerror(errno));
    int code = read_all(c, in, text, length);
    if (!standard)
        fclose(in);
    if (code != CLI_OK)
        return code;
    json_error_t error;
    *json = json_loadb(*text, *length, JSON_REJECT_DUPLICATES, &error);
    if (*json)
        return CLI_OK;
    free(*text);
    *text = NULL;
    return cli_refuse(c, "line %d, column %d: %s", error.line, error.column, error.text);
}

int document_items(struct cli *c, const char *file, json_t **items)
{
    char *text;
    size_t length;
    json_t *json;
    int code = document_read(c, file, &text, &length, &json);
    if (code != CLI_OK)
        return code;
    free(text);
    json_t *inner = json_object_get(json, "items");
    if (json_is_array(json)) {
        *items = json;
        return CLI_OK;
    }
    *items = json_is_array(inner) ? json_incref(inner) : json_pack("[O]", json);
    json_decref(json);
    return CLI_OK;
}

static void print_counts(const json_t *answer)
{
    static const char *const words[] = {"applied", "unchanged", "stale"};
    for (unsigned i = 0; i < 3; i++)
        printf("%s%s %" JSON_INTEGER_FORMAT, i ? ", " : "", words[i],
               json_integer_value(json_object_get(answer, words[i])));
    putchar('\n');
}

int document_post(struct cli *c, const char *path)
{
    json_t *items;
    int code = document_items(c, c->args[0], &items);
    if (code != CLI_OK)
        return code;
    json_t *body = json_pack("{so}", "items", items);
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    struct answer a;
    code = client_send(c, "POST", client_path(path), text, strlen(text), &a);
    free(text);
    if (code != CLI_OK)
        return code;
    if (c->json)
        output_json(&a);
    else
        print_counts(a.json);
    answer_free(&a);
    return CLI_OK;
}

static int put_item(struct cli *c, const char *path, const char *key, const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, key));
    if (!id || !*id)
        return cli_refuse(c, "an item lacks the string '%s'", key);
    char *name = strdup(id), *text = json_dumps(item, JSON_COMPACT), *full = NULL;
    for (char *slash = name; (slash = strchr(slash, '/'));)
        *slash = '_';
    char *tail = client_path("/%s", name);
    if (asprintf(&full, "%s%s", path, tail) < 0)
        full = NULL;
    struct answer a;
    int code = client_send(c, "PUT", full, text, strlen(text), &a);
    if (code == CLI_OK && c->json)
        output_json(&a);
    else if (code == CLI_OK)
        printf("%s %s\n", id, a.status == 201 ? "created" : "applied");
    if (code == CLI_OK)
        answer_free(&a);
    free(tail);
    free(text);
    free(name);
    return code;
}

int document_put_each(struct cli *c, const char *path, const char *key)
{
    json_t *items;
    int code = document_items(c, c->args[0], &items);
    if (code != CLI_OK)
        return code;
    for (size_t i = 0; code == CLI_OK && i < json_array_size(items); i++)
        code = put_item(c, path, key, json_array_get(items, i));
    json_decref(items);
    return code;
}
