// SPDX-License-Identifier: MPL-2.0
// metadata_http.h: the metadata service: an HTTP server inside the namespace of the service tap. Who asks is told by
// the peer address alone, which the dataplane gave (node_metadata_port) and no guest can choose.
//
// Guests are hostile: header size, connections in all and per port and idle time are bounded, bodies are thrown away,
// and nothing here waits for anyone.
#ifndef NEREUS_NODE_METADATA_HTTP_H
#define NEREUS_NODE_METADATA_HTTP_H

#include <stddef.h>

#include "node/daemon.h"

// netns: the namespace that holds the service addresses. NULL with a sentence in `error`.
struct metadata_server *metadata_start(struct daemon *d, int netns, char *error, size_t size);
int metadata_run(struct metadata_server *s); // as http_run
void metadata_stop(struct metadata_server *s);

#endif
