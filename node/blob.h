// SPDX-License-Identifier: MPL-2.0
// blob.h: a growing run of bytes. Running out of memory is remembered and told once, at the end.
#ifndef NEREUS_NODE_BLOB_H
#define NEREUS_NODE_BLOB_H

#include <stdbool.h>
#include <stddef.h>

struct blob {
    char *s; // NUL-terminated once anything was added
    size_t len, room;
    bool failed;
};

void blob_add(struct blob *t, const void *data, size_t len);
void blob_puts(struct blob *t, const char *s);
void blob_printf(struct blob *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void blob_free(struct blob *t);

#endif
