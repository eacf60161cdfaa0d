// SPDX-License-Identifier: MPL-2.0
#ifndef NEREUS_NODE_FLOW_DRAIN_H
#define NEREUS_NODE_FLOW_DRAIN_H

#include "node/daemon.h"
#include "node/flow_log.h"

bool flow_drain_open(struct daemon *d, char *error, size_t size); // true without a flow log too
void flow_drain(struct daemon *d);
void flow_drain_close(struct daemon *d);

#endif
