// SPDX-License-Identifier: MPL-2.0
#include "cli/client.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "cli/output.h"

#define CONNECT_TIMEOUT_S 5L
#define REQUEST_TIMEOUT_S 60L

void answer_free(struct answer *a)
{
    free(a->body);
    json_decref(a->json);
    *a = (struct answer){0};
}

char *client_path(const char *format, ...)
{
    char *path;
    size_t length;
    FILE *out = open_memstream(&path, &length);
    va_list args;
    va_start(args, format);
    for (; *format; format++) {
        if (format[0] != '%' || format[1] != 's') {
            fputc(*format, out);
            continue;
        }
        char *escaped = curl_easy_escape(NULL, va_arg(args, const char *), 0);
        fputs(escaped ? escaped : "", out);
        curl_free(escaped);
        format++;
    }
    va_end(args);
    fclose(out);
    return path;
}

static CURL *open_request(const struct cli *c, const char *path)
{
    CURL *curl = curl_easy_init();
    char *url;
    if (!curl || asprintf(&url, "http://localhost%s", path) < 0) {
        fprintf(stderr, "nereus: out of memory\n");
        exit(CLI_REFUSED);
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    free(url);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); // whatever the environment says
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "nereus/" NEREUS_VERSION);
    return curl;
}

static int unreachable(const struct cli *c, CURLcode code)
{
    if (code == CURLE_COULDNT_CONNECT)
        fprintf(stderr, "nereus: no node answers at %s: is nereusd running, and may you open its socket?\n", c->socket);
    else
        fprintf(stderr, "nereus: the node at %s does not answer properly: %s\n", c->socket, curl_easy_strerror(code));
    return CLI_UNREACHABLE;
}

// ---- Problem documents

static void print_pointers(const json_t *errors)
{
    size_t i;
    const json_t *error;
    json_array_foreach(errors, i, error)
    {
        const char *pointer = json_string_value(json_object_get(error, "pointer"));
        const char *detail = json_string_value(json_object_get(error, "detail"));
        const char *code = json_string_value(json_object_get(error, "code"));
        fprintf(stderr, "  ");
        output_safe(stderr, pointer && *pointer ? pointer : "(the document)");
        fprintf(stderr, ": ");
        output_safe(stderr, detail ? detail : code ? code : "refused");
        fprintf(stderr, "\n");
    }
}

static int refused(const struct cli *c, const struct answer *a)
{
    const json_t *problem = a->json;
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    if (!detail)
        detail = json_string_value(json_object_get(problem, "title"));
    fprintf(stderr, "nereus: ");
    if (c->subject) {
        output_safe(stderr, c->subject);
        fprintf(stderr, ": ");
    }
    if (detail)
        output_safe(stderr, detail);
    else
        fprintf(stderr, "the node answers %ld", a->status);
    fprintf(stderr, "\n");
    print_pointers(json_object_get(problem, "errors"));
    return CLI_REFUSED;
}

// ---- Requests

static size_t collect(char *data, size_t size, size_t n, void *ctx)
{
    return fwrite(data, size, n, ctx);
}

static int perform(const struct cli *c, CURL *curl, struct answer *a)
{
    FILE *body = open_memstream(&a->body, &a->length);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, REQUEST_TIMEOUT_S);
    CURLcode code = curl_easy_perform(curl);
    fclose(body);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return unreachable(c, code);
    json_error_t error;
    if (a->length)
        a->json = json_loadb(a->body, a->length, JSON_DECODE_ANY, &error);
    if (a->length && !a->json && a->status < 400) {
        fprintf(stderr, "nereus: the answer of %s is not JSON: %s\n", c->socket, error.text);
        return CLI_UNREACHABLE;
    }
    return CLI_OK;
}

static int request(const struct cli *c, const char *method, char *path, const char *body, size_t length, bool may_miss,
                   struct answer *a)
{
    *a = (struct answer){0};
    CURL *curl = open_request(c, path);
    free(path);
    struct curl_slist *headers = NULL;
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (body) {
        headers = curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), "Expect:");
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
    int code = perform(c, curl, a);
    curl_slist_free_all(headers);
    if (code == CLI_OK && a->status >= 400 && !(may_miss && a->status == 404))
        code = refused(c, a);
    if (code != CLI_OK)
        answer_free(a);
    return code;
}

int client_get(const struct cli *c, char *path, struct answer *a)
{
    return request(c, "GET", path, NULL, 0, false, a);
}

int client_find(const struct cli *c, char *path, struct answer *a)
{
    return request(c, "GET", path, NULL, 0, true, a);
}

int client_send(const struct cli *c, const char *method, char *path, const char *body, size_t length, struct answer *a)
{
    return request(c, method, path, body, length, false, a);
}

const json_t *list_items(const json_t *list)
{
    static json_t *empty;
    if (json_is_array(list))
        return list;
    const json_t *items = json_object_get(list, "items");
    if (json_is_array(items))
        return items;
    return empty ? empty : (empty = json_array());
}

static char *page_path(const char *path, const char *token)
{
    char *tail = client_path(strchr(path, '?') ? "&page_token=%s" : "?page_token=%s", token), *page;
    if (asprintf(&page, "%s%s", path, tail) < 0)
        page = NULL;
    free(tail);
    return page;
}

int client_list(const struct cli *c, char *path, struct answer *a)
{
    int code = client_get(c, strdup(path), a);
    bool paged = false;
    while (code == CLI_OK) {
        const char *next = json_string_value(json_object_get(a->json, "next"));
        json_t *items = json_object_get(a->json, "items");
        if (!next || !*next || !json_is_array(items))
            break;
        struct answer page;
        code = client_get(c, page_path(path, next), &page);
        if (code != CLI_OK)
            break;
        paged = true;
        json_array_extend(items, (json_t *)list_items(page.json));
        json_t *after = json_object_get(page.json, "next");
        bool stuck = json_equal(after, json_object_get(a->json, "next")); // a token that leads nowhere
        json_object_set_new(a->json, "next", !after || stuck ? json_string("") : json_incref(after));
        answer_free(&page);
    }
    free(path);
    if (code == CLI_OK && paged) {
        free(a->body);
        a->body = json_dumps(a->json, JSON_COMPACT);
        a->length = a->body ? strlen(a->body) : 0;
    }
    if (code != CLI_OK)
        answer_free(a);
    return code;
}

// ---- Streams

struct stream {
    CURL *curl;
    const char *path; // "-": standard output
    FILE *file;
    FILE *problem; // the body of a refusal
    unsigned long long bytes;
    int failed; // errno of a write
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    interrupted = 1;
}

static size_t stream_write(char *data, size_t size, size_t n, void *ctx)
{
    struct stream *s = ctx;
    long status;
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400)
        return fwrite(data, size, n, s->problem);
    if (!s->file)
        s->file = strcmp(s->path, "-") == 0 ? stdout : fopen(s->path, "wb");
    if (!s->file || fwrite(data, size, n, s->file) != n || fflush(s->file) != 0) {
        s->failed = errno;
        return 0;
    }
    s->bytes += size * n;
    return n;
}

static int stream_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t x, curl_off_t y)
{
    return interrupted;
}

static int stream_result(const struct cli *c, const struct stream *s, CURLcode code, struct answer *a)
{
    if (s->failed == EPIPE)
        return CLI_OK; // the reader has seen enough
    if (s->failed)
        return cli_refuse(c, "cannot write %s: %s", s->path, strerror(s->failed));
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return CLI_OK;
    if (code != CURLE_OK)
        return unreachable(c, code);
    if (a->status < 400)
        return CLI_OK;
    a->json = json_loadb(a->body, a->length, 0, NULL);
    return refused(c, a);
}

int client_stream(const struct cli *c, char *path, const char *file, unsigned long long *bytes)
{
    struct answer a = {0};
    struct stream s = {.curl = open_request(c, path), .path = file};
    free(path);
    s.problem = open_memstream(&a.body, &a.length);
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    curl_easy_setopt(s.curl, CURLOPT_WRITEFUNCTION, stream_write);
    curl_easy_setopt(s.curl, CURLOPT_WRITEDATA, &s);
    curl_easy_setopt(s.curl, CURLOPT_XFERINFOFUNCTION, stream_progress);
    curl_easy_setopt(s.curl, CURLOPT_NOPROGRESS, 0L);
    CURLcode code = curl_easy_perform(s.curl);
    fclose(s.problem);
    curl_easy_getinfo(s.curl, CURLINFO_RESPONSE_CODE, &a.status);
    curl_easy_cleanup(s.curl);
    if (s.file && s.file != stdout && fclose(s.file) != 0 && !s.failed)
        s.failed = errno;
    *bytes = s.bytes;
    int result = stream_result(c, &s, code, &a);
    answer_free(&a);
    return result;
}
