// SPDX-License-Identifier: MPL-2.0
#include "node/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json/sha256.h"
#include "api/json/text.h"

#define MAGIC "nereus-state"

void state_digest(const void *data, size_t len, uint8_t out[32])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, data, len);
    sha256_end(&s, out);
}

bool write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

int state_temporary(int dir, const char *name, char *temporary, size_t size)
{
    if ((size_t)snprintf(temporary, size, "%s.tmp", name) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool state_publish(int dir, int fd, const char *temporary, const char *name)
{
    return fsync(fd) == 0 && renameat(dir, temporary, dir, name) == 0 && fsync(dir) == 0;
}

static size_t make_header(const void *body, size_t len, char *out, size_t size)
{
    uint8_t digest[32];
    char hex[65];
    state_digest(body, len, digest);
    bytes_to_hex(digest, 32, hex);
    return (size_t)snprintf(out, size, MAGIC " %d sha256:%s %zu\n", STATE_SCHEMA, hex, len);
}

bool state_file_write(int dir, const char *name, const void *body, size_t len)
{
    char temporary[256], header[128];
    int fd = state_temporary(dir, name, temporary, sizeof(temporary));
    if (fd < 0)
        return false;
    size_t n = make_header(body, len, header, sizeof(header));
    bool ok = write_all(fd, header, n) && write_all(fd, body, len) && state_publish(dir, fd, temporary, name);
    int why = errno;
    if (!ok)
        unlinkat(dir, temporary, 0);
    close(fd);
    errno = why;
    return ok;
}

bool state_read_whole(int dir, const char *name, char **data, size_t *len, enum state_result *why)
{
    *why = STATE_IO;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        *why = errno == ENOENT ? STATE_ABSENT : STATE_IO;
        return false;
    }
    struct stat st;
    char *buffer = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(buffer = malloc((size_t)st.st_size + 1))) {
        close(fd);
        return false;
    }
    size_t have = 0;
    while (have < (size_t)st.st_size) {
        ssize_t n = read(fd, buffer + have, (size_t)st.st_size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    close(fd);
    if (have < (size_t)st.st_size) {
        free(buffer);
        return false;
    }
    buffer[have] = 0;
    *data = buffer;
    *len = have;
    *why = STATE_OK;
    return true;
}

long state_schema(const char *data, size_t len, const char *magic)
{
    size_t n = strlen(magic);
    if (len < n + 2 || memcmp(data, magic, n) != 0 || data[n] != ' ')
        return -1;
    long schema = 0;
    size_t at = n + 1;
    for (; at < len && data[at] >= '0' && data[at] <= '9' && schema < 1000000; at++)
        schema = schema * 10 + (data[at] - '0');
    return at > n + 1 && at < len && data[at] == ' ' ? schema : -1;
}

enum state_result state_file_read(int dir, const char *name, char **body, size_t *len)
{
    char *data;
    size_t size;
    enum state_result why;
    if (!state_read_whole(dir, name, &data, &size, &why))
        return why;

    long schema = state_schema(data, size, MAGIC);
    if (schema > STATE_SCHEMA) {
        free(data);
        return STATE_NEWER;
    }
    char *newline = memchr(data, '\n', size);
    if (schema < 1 || !newline) {
        free(data);
        return STATE_DAMAGED;
    }
    size_t head = (size_t)(newline + 1 - data);
    char expected[128];
    size_t n = make_header(newline + 1, size - head, expected, sizeof(expected));
    if (n != head || memcmp(expected, data, n) != 0) {
        free(data);
        return STATE_DAMAGED;
    }
    memmove(data, data + head, size - head + 1);
    *body = data;
    *len = size - head;
    return STATE_OK;
}

bool state_file_delete(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) < 0)
        return errno == ENOENT;
    return fsync(dir) == 0;
}

bool state_set_aside(int dir, const char *name, bool keep)
{
    char aside[256];
    if ((size_t)snprintf(aside, sizeof(aside), "%s.damaged", name) >= sizeof(aside))
        return false;
    if (!keep)
        return renameat(dir, name, dir, aside) == 0 && fsync(dir) == 0;
    unlinkat(dir, aside, 0);
    return linkat(dir, name, dir, aside, 0) == 0 && fsync(dir) == 0;
}
