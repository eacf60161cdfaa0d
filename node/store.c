// SPDX-License-Identifier: MPL-2.0
#include "node/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/log.h"

static const char *const kind_names[STORE_KINDS] = {
    [STORE_ADDRESS_SETS] = "address-sets",
    [STORE_MAPPINGS] = "mappings",
    [STORE_EXTERNAL_MAPPINGS] = "external-mappings",
    [STORE_EDGE_SETS] = "edge-sets",
    [STORE_BLUEPRINTS] = "blueprints",
};

const char *store_kind_name(enum store_kind kind)
{
    return kind_names[kind];
}

void store_problem(struct store *s, const char *format, ...)
{
    char text[sizeof(s->problems[0])];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_error("state", "detail=%s", log_quote(text).s);
    if (s->n_problems < STORE_PROBLEMS)
        memcpy(s->problems[s->n_problems], text, sizeof(text));
    s->n_problems++;
}

// ---- Reading at start

struct replay {
    struct doc_set *docs;
    bool failed;
};

static void replay_record(void *ctx, char op, const char *text, size_t len)
{
    struct replay *r = ctx;
    char key[DOC_KEY_MAX];
    const char *space = memchr(text, ' ', len);
    size_t n = space ? (size_t)(space - text) : len;
    if (n == 0 || n >= sizeof(key) || (op == '+') != (space != NULL))
        return; // good checksum, unknown form: nothing this version writes
    memcpy(key, text, n);
    key[n] = 0;
    if (op == '-')
        doc_set_delete(r->docs, key);
    else if (!doc_set_put(r->docs, key, space + 1, len - n - 1))
        r->failed = true;
}

static void add_doc(struct journal_batch *b, const char *key, const char *text, size_t len)
{
    size_t n = strlen(key);
    char *record = malloc(n + 1 + len);
    if (!record) {
        b->failed = true;
        return;
    }
    memcpy(record, key, n);
    record[n] = ' ';
    memcpy(record + n + 1, text, len);
    journal_batch_add(b, '+', record, n + 1 + len);
    free(record);
}

static bool rewrite(struct store *s, enum store_kind kind)
{
    struct journal_batch all = {0};
    const struct doc_set *docs = &s->docs[kind];
    for (const struct doc *d = docs->first[0]; d; d = d->next[0])
        add_doc(&all, d->key, d->text, d->len);
    bool ok = journal_rewrite(&s->journals[kind], &all);
    int why = errno;
    journal_batch_free(&all);
    errno = why;
    return ok;
}

static bool open_journal(struct store *s, enum store_kind kind, char *error, size_t size)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.journal", kind_names[kind]);
    struct replay r = {.docs = &s->docs[kind]};
    enum state_result result = journal_open(&s->journals[kind], s->dir, name, kind_names[kind], replay_record, &r);
    if (result == STATE_NEWER) {
        snprintf(error, size, "%s was written by a newer nereusd; this one reads schema %d", name, STATE_SCHEMA);
        return false;
    }
    if (result == STATE_DAMAGED) {
        s->damaged++;
        store_problem(s, "%s was damaged: kept as %s.damaged, %zu records recovered", name, name, s->docs[kind].n);
        if (rewrite(s, kind))
            return true;
    } else if (result == STATE_OK && !r.failed) {
        return true;
    }
    snprintf(error, size, "%s: %s", name, r.failed ? "out of memory" : strerror(errno));
    return false;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static bool read_blueprint(struct store *s, const char *name, char *error, size_t size)
{
    char *text = NULL, key[DOC_KEY_MAX];
    size_t len = 0;
    enum state_result result = state_file_read(s->ports_dir, name, &text, &len);
    bool ok = true;
    if (result == STATE_OK) {
        snprintf(key, sizeof(key), "%.*s", (int)(strlen(name) - strlen(".json")), name);
        ok = doc_set_put(&s->docs[STORE_BLUEPRINTS], key, text, len);
        snprintf(error, size, "out of memory");
    } else if (result == STATE_NEWER) {
        ok = false;
        snprintf(error, size, "ports/%s was written by a newer nereusd; this one reads schema %d", name, STATE_SCHEMA);
    } else if (result == STATE_DAMAGED) {
        s->damaged++;
        ok = state_set_aside(s->ports_dir, name, false);
        snprintf(error, size, "ports/%s: %s", name, strerror(errno));
        store_problem(s, "ports/%s was damaged: kept as %s.damaged", name, name);
    } else {
        ok = false;
        snprintf(error, size, "ports/%s: %s", name, strerror(errno));
    }
    free(text);
    return ok;
}

static bool read_blueprints(struct store *s, char *error, size_t size)
{
    int fd = openat(s->ports_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        snprintf(error, size, "ports: %s", strerror(errno));
        return false;
    }
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));) {
        if (ends_with(e->d_name, ".tmp"))
            unlinkat(s->ports_dir, e->d_name, 0);
        else if (ends_with(e->d_name, ".json") && strlen(e->d_name) < DOC_KEY_MAX)
            ok = read_blueprint(s, e->d_name, error, size);
    }
    closedir(dir);
    return ok;
}

static bool make_directories(const char *path)
{
    char part[512];
    if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part)) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

static bool open_directories(struct store *s, const char *path, char *error, size_t size)
{
    if (!make_directories(path) || (s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return false;
    }
    s->lock = openat(s->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB) < 0) {
        snprintf(error, size, "%s: %s", path,
                 errno == EWOULDBLOCK ? "another nereusd uses this directory" : strerror(errno));
        return false;
    }
    if ((mkdirat(s->dir, "ports", 0700) < 0 && errno != EEXIST) || fsync(s->dir) < 0 ||
        (s->ports_dir = openat(s->dir, "ports", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        snprintf(error, size, "%s/ports: %s", path, strerror(errno));
        return false;
    }
    return true;
}

bool store_open(struct store *s, const char *path, char *error, size_t size)
{
    *s = (struct store){.dir = -1, .ports_dir = -1, .lock = -1};
    for (int kind = 0; kind < STORE_JOURNALS; kind++)
        s->journals[kind].fd = -1;
    bool ok = open_directories(s, path, error, size);
    for (int kind = 0; ok && kind < STORE_JOURNALS; kind++)
        ok = open_journal(s, kind, error, size);
    ok = ok && read_blueprints(s, error, size);
    if (!ok)
        store_close(s);
    return ok;
}

void store_close(struct store *s)
{
    for (int kind = 0; kind < STORE_KINDS; kind++)
        doc_set_clear(&s->docs[kind]);
    for (int kind = 0; kind < STORE_JOURNALS; kind++)
        journal_close(&s->journals[kind]);
    int *fds[] = {&s->ports_dir, &s->lock, &s->dir};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

// ---- Changes

const struct doc *store_get(const struct store *s, enum store_kind kind, const char *key)
{
    return doc_set_get(&s->docs[kind], key);
}

static bool written(struct store *s, bool ok, const char *what)
{
    int why = errno;
    s->write_failing = !ok;
    if (!ok) {
        s->write_failures++;
        log_error("state not written", "what=%s error=%s", what, log_quote(strerror(why)).s);
    }
    errno = why;
    return ok;
}

bool store_blueprint_put(struct store *s, const char *key, const char *text, size_t len)
{
    const struct doc *old = store_get(s, STORE_BLUEPRINTS, key);
    if (old && old->len == len && memcmp(old->text, text, len) == 0)
        return true;
    char name[DOC_KEY_MAX + 8];
    snprintf(name, sizeof(name), "%s.json", key);
    bool ok =
        state_file_write(s->ports_dir, name, text, len) && doc_set_put(&s->docs[STORE_BLUEPRINTS], key, text, len);
    return written(s, ok, name);
}

bool store_blueprint_delete(struct store *s, const char *key)
{
    char name[DOC_KEY_MAX + 8];
    snprintf(name, sizeof(name), "%s.json", key);
    bool ok = state_file_delete(s->ports_dir, name);
    if (ok)
        doc_set_delete(&s->docs[STORE_BLUEPRINTS], key);
    return written(s, ok, name);
}

void store_batch_put(struct store_batch *b, const char *key, const char *text, size_t len)
{
    add_doc(&b->records, key, text, len);
    if (!doc_set_put(&b->staged, key, text, len))
        b->failed = true;
}

void store_batch_delete(struct store_batch *b, const char *key)
{
    journal_batch_add(&b->records, '-', key, strlen(key));
    if (!doc_set_put(&b->staged, key, "", 0))
        b->failed = true;
}

static bool apply_staged(struct store *s, const struct store_batch *b)
{
    for (const struct doc *d = b->staged.first[0]; d; d = d->next[0]) {
        if (d->len == 0)
            doc_set_delete(&s->docs[b->kind], d->key);
        else if (!doc_set_put(&s->docs[b->kind], d->key, d->text, d->len))
            return false;
    }
    return true;
}

static bool commit(struct store *s, struct store_batch *b)
{
    struct journal *j = &s->journals[b->kind];
    errno = ENOMEM;
    if (b->failed || b->records.failed)
        return false;
    if (j->rewrite)
        return apply_staged(s, b) && rewrite(s, b->kind);
    if (!journal_append(j, &b->records) || !apply_staged(s, b))
        return false;
    if (j->records > 2 * s->docs[b->kind].n + 4096 && !rewrite(s, b->kind))
        log_warn("journal not compacted", "name=%s error=%s", j->name, log_quote(strerror(errno)).s);
    return true;
}

bool store_commit(struct store *s, struct store_batch *b)
{
    bool ok = commit(s, b);
    int why = errno;
    journal_batch_free(&b->records);
    doc_set_clear(&b->staged);
    errno = why;
    return written(s, ok, store_kind_name(b->kind));
}
