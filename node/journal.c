// SPDX-License-Identifier: MPL-2.0
#include "node/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/json/text.h"

#define MAGIC "nereus-journal"
#define SUM_LEN 16

static void checksum(const char *record, size_t len, char out[SUM_LEN + 1])
{
    uint8_t digest[32];
    state_digest(record, len, digest);
    bytes_to_hex(digest, SUM_LEN / 2, out);
}

void journal_batch_add(struct journal_batch *b, char op, const char *text, size_t len)
{
    size_t need = b->len + SUM_LEN + 1 + 1 + len + 1;
    if (b->failed)
        return;
    if (need > b->room) {
        size_t room = need > 2 * b->room ? need + 4096 : 2 * b->room;
        char *data = realloc(b->data, room);
        if (!data) {
            b->failed = true;
            return;
        }
        b->data = data;
        b->room = room;
    }
    char *line = b->data + b->len, sum[SUM_LEN + 1];
    char *record = line + SUM_LEN + 1;
    record[0] = op;
    memcpy(record + 1, text, len);
    checksum(record, len + 1, sum);
    memcpy(line, sum, SUM_LEN);
    line[SUM_LEN] = ' ';
    record[1 + len] = '\n';
    b->len = need;
    b->records++;
}

void journal_batch_free(struct journal_batch *b)
{
    free(b->data);
    *b = (struct journal_batch){0};
}

static bool record_good(const char *line, size_t len)
{
    char sum[SUM_LEN + 1];
    if (len < SUM_LEN + 2 || line[SUM_LEN] != ' ')
        return false;
    const char *record = line + SUM_LEN + 1;
    if (record[0] != '+' && record[0] != '-')
        return false;
    checksum(record, len - SUM_LEN - 1, sum);
    return memcmp(sum, line, SUM_LEN) == 0;
}

// Hands over the good records. *good_end: file offset behind the last finished line. False: some line is bad.
static bool replay(struct journal *j, char *data, size_t size, journal_replay fn, void *ctx, size_t *good_end)
{
    bool good = true;
    char header[128];
    size_t expected = (size_t)snprintf(header, sizeof(header), MAGIC " %d %s\n", STATE_SCHEMA, j->kind);
    size_t at = 0;
    if (size >= expected && memcmp(data, header, expected) == 0)
        at = expected;
    else
        good = false;
    *good_end = at;
    while (at < size) {
        char *line = data + at;
        char *newline = memchr(line, '\n', size - at);
        if (!newline)
            break; // unfinished: cut off by the caller
        size_t len = (size_t)(newline - line);
        if (record_good(line, len)) {
            fn(ctx, line[SUM_LEN + 1], line + SUM_LEN + 2, len - SUM_LEN - 2);
            j->records++;
        } else {
            good = false;
        }
        at += len + 1;
        *good_end = at;
    }
    return good;
}

static bool open_for_append(struct journal *j, size_t end)
{
    j->fd = openat(j->dir, j->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (j->fd < 0)
        return false;
    off_t size = lseek(j->fd, 0, SEEK_END);
    if (size < 0 || ((size_t)size != end && (ftruncate(j->fd, (off_t)end) < 0 || fsync(j->fd) < 0)) ||
        lseek(j->fd, (off_t)end, SEEK_SET) < 0) {
        close(j->fd);
        j->fd = -1;
        return false;
    }
    j->size = end;
    return true;
}

enum state_result journal_open(struct journal *j, int dir, const char *name, const char *kind, journal_replay fn,
                               void *ctx)
{
    *j = (struct journal){.dir = dir, .fd = -1};
    snprintf(j->name, sizeof(j->name), "%s", name);
    snprintf(j->kind, sizeof(j->kind), "%s", kind);
    char *data;
    size_t size, end;
    enum state_result why;
    if (!state_read_whole(dir, name, &data, &size, &why)) {
        const struct journal_batch none = {0};
        if (why == STATE_ABSENT)
            return journal_rewrite(j, &none) ? STATE_OK : STATE_IO;
        return why;
    }
    if (state_schema(data, size, MAGIC) > STATE_SCHEMA) {
        free(data);
        return STATE_NEWER;
    }
    bool good = replay(j, data, size, fn, ctx, &end);
    free(data);
    if (!good) {
        j->rewrite = true;
        return state_set_aside(dir, name, true) ? STATE_DAMAGED : STATE_IO;
    }
    return open_for_append(j, end) ? STATE_OK : STATE_IO;
}

void journal_close(struct journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

bool journal_append(struct journal *j, const struct journal_batch *b)
{
    if (b->failed || j->rewrite || j->fd < 0) {
        errno = b->failed ? ENOMEM : EIO;
        return false;
    }
    if (b->len == 0)
        return true;
    if (write_all(j->fd, b->data, b->len) && fdatasync(j->fd) == 0) {
        j->size += b->len;
        j->records += b->records;
        return true;
    }
    // Back to the last good byte. What fdatasync could not write may or may not be there: start over from memory.
    int why = errno;
    j->rewrite = ftruncate(j->fd, (off_t)j->size) < 0 || lseek(j->fd, (off_t)j->size, SEEK_SET) < 0 || why == EIO;
    errno = why;
    return false;
}

bool journal_rewrite(struct journal *j, const struct journal_batch *all)
{
    if (all->failed) {
        errno = ENOMEM;
        return false;
    }
    char temporary[256], header[128];
    int fd = state_temporary(j->dir, j->name, temporary, sizeof(temporary));
    if (fd < 0)
        return false;
    size_t n = (size_t)snprintf(header, sizeof(header), MAGIC " %d %s\n", STATE_SCHEMA, j->kind);
    if (!write_all(fd, header, n) || !write_all(fd, all->data, all->len) ||
        !state_publish(j->dir, fd, temporary, j->name)) {
        int why = errno;
        unlinkat(j->dir, temporary, 0);
        close(fd);
        errno = why;
        return false;
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->size = n + all->len;
    j->records = all->records;
    j->rewrite = false;
    return true;
}
