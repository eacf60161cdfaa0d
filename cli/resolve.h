// SPDX-License-Identifier: MPL-2.0
// resolve.h: what a person may call a port: its UUID, its unique name, or the beginning of its UUID.
#ifndef NEREUS_CLI_RESOLVE_H
#define NEREUS_CLI_RESOLVE_H

#include <jansson.h>

#include "cli/command.h"

#define UUID_TEXT 37

// A whole UUID is taken as it is, in lower case; the node is asked for anything else.
int resolve_port(const struct cli *c, const char *what, char uuid[UUID_TEXT]);
// The --port option; an empty string when it is not given.
int resolve_port_option(const struct cli *c, char uuid[UUID_TEXT]);

#endif
