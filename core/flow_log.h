// SPDX-License-Identifier: MPL-2.0
// flow_log.h: records of connections and refusals on their way from whoever makes them to the control thread, in a ring
// that never blocks: when it is full the newest are lost, and counted.
#ifndef NEREUS_CORE_FLOW_LOG_H
#define NEREUS_CORE_FLOW_LOG_H

#include "core/node.h"

struct flow_log;

// room: records, a power of two. NULL: no memory.
struct flow_log *flow_log_create(const struct env *env, uint32_t room);
void flow_log_destroy(const struct env *env, struct flow_log *l);
void flow_log_put(struct flow_log *l, const struct flow_record *r); // any thread
bool flow_log_take(struct flow_log *l, struct flow_record *out);    // one thread
uint64_t flow_log_lost(const struct flow_log *l);

#endif
