// SPDX-License-Identifier: MPL-2.0
// test_directory.h: a directory for one test, and files in it as bytes. For tests only.
#ifndef NEREUS_NODE_TEST_DIRECTORY_H
#define NEREUS_NODE_TEST_DIRECTORY_H

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void test_directory_make(char path[64])
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; // fsync costs nothing there
    snprintf(path, 64, "%s/nereus-test-XXXXXX", shm);
    if (!mkdtemp(path))
        abort();
}

static inline void test_directory_remove(const char *path)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    if (system(command) != 0)
        abort();
}

static inline size_t test_file_read(int dir, const char *name, char *out, size_t size)
{
    int fd = openat(dir, name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size);
    if (n < 0)
        abort();
    close(fd);
    return (size_t)n;
}

static inline void test_file_write(int dir, const char *name, const void *data, size_t len)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    close(fd);
}

#endif
