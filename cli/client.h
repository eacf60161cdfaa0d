// SPDX-License-Identifier: MPL-2.0
// client.h: requests to a node over its UNIX socket. What goes wrong is said on standard error here, so callers
// only pass the exit code on.
#ifndef NEREUS_CLI_CLIENT_H
#define NEREUS_CLI_CLIENT_H

#include <stdio.h>

#include <jansson.h>

#include "cli/command.h"

struct answer {
    long status;
    char *body; // as it came, NUL-terminated
    size_t length;
    json_t *json; // NULL when the body is empty
};

void answer_free(struct answer *a); // and clears it

// A path in which each %s stands for an argument that is percent-encoded. To be freed.
char *client_path(const char *format, ...);

// Takes `path` over. An answer of 400 or more is printed as a problem and is CLI_REFUSED; *a is set on CLI_OK only.
int client_get(const struct cli *c, char *path, struct answer *a);
int client_send(const struct cli *c, const char *method, char *path, const char *body, size_t length, struct answer *a);
// The same, but 404 is CLI_OK with a->status 404.
int client_find(const struct cli *c, char *path, struct answer *a);
// All pages of a list: the first answer, with the items of the others added to it.
int client_list(const struct cli *c, char *path, struct answer *a);

// A body of any length to a file, or to standard output for "-". The file is made when the node has agreed.
int client_stream(const struct cli *c, char *path, const char *file, unsigned long long *bytes);

// The items of a list: the "items" member, or the array itself. Never NULL.
const json_t *list_items(const json_t *list);

#endif
