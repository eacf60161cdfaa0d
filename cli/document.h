// SPDX-License-Identifier: MPL-2.0
// document.h: JSON documents from files, on their way to the node.
#ifndef NEREUS_CLI_DOCUMENT_H
#define NEREUS_CLI_DOCUMENT_H

#include "cli/client.h"

// Reads a file, "-" for standard input, as bytes and as JSON (objects or arrays). Complains with line and column.
int document_read(struct cli *c, const char *file, char **text, size_t *length, json_t **json);
// The file's items: of an array, of {"items": [...]}, or the one object itself.
int document_items(struct cli *c, const char *file, json_t **items);

// POSTs the file's items at once to `path`; says how many were applied, unchanged and stale.
int document_post(struct cli *c, const char *path);
// PUTs each item of the file under `path` + its member `key`, in which `/` becomes `_`.
int document_put_each(struct cli *c, const char *path, const char *key);

#endif
