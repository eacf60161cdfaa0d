// SPDX-License-Identifier: MPL-2.0
// state_file.h: a whole document in a file of its own, replaced atomically: after kill -9 or power loss at any
// instant the file holds the old or the new document, never a mixture.
//
// Form: `nereus-state 1 sha256:<64 hex> <length>`, a newline, the body. A file whose checksum or length is wrong
// is damaged; one with a larger schema number was written by a newer nereusd.
#ifndef NEREUS_NODE_STATE_FILE_H
#define NEREUS_NODE_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_SCHEMA 1
#define STATE_FILE_MAX (64u << 20)

enum state_result { STATE_OK, STATE_ABSENT, STATE_DAMAGED, STATE_NEWER, STATE_IO };

// dir: an open directory. On failure errno says why, and what was there before is still there.
bool state_file_write(int dir, const char *name, const void *body, size_t len);
// *body is malloc'ed and NUL-terminated.
enum state_result state_file_read(int dir, const char *name, char **body, size_t *len);
bool state_file_delete(int dir, const char *name);

// Keeps a damaged file as <name>.damaged for a person to look at. link: the original stays in place too.
bool state_set_aside(int dir, const char *name, bool link);

// Shared with journal.c.
void state_digest(const void *data, size_t len, uint8_t out[32]); // SHA-256
bool state_read_whole(int dir, const char *name, char **data, size_t *len, enum state_result *why);
bool write_all(int fd, const void *data, size_t len);
int state_temporary(int dir, const char *name, char *temporary, size_t size); // opens <name>.tmp for writing
bool state_publish(int dir, int fd, const char *temporary, const char *name); // fsync, rename, fsync dir
// Schema number of a header line that starts with `magic`; -1 when it does not.
long state_schema(const char *data, size_t len, const char *magic);

#endif
