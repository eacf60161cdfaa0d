// SPDX-License-Identifier: MPL-2.0
// view.h: what the dataplane reports, as JSON. Each returns a new reference, NULL when memory is out.
#ifndef NEREUS_NODE_VIEW_H
#define NEREUS_NODE_VIEW_H

#include <jansson.h>

#include "node/daemon.h"

json_t *view_drops(const uint64_t drops[DROP_COUNT]); // {reason: n}, those that are not 0
json_t *view_port_counters(const struct port_counters *c);
json_t *view_node_counters(const struct node_counters *c);
json_t *view_port(struct daemon *d, uint32_t port); // GET /v1/ports/{port}
json_t *view_flow(struct daemon *d, const struct flow_info *f);
json_t *view_transposition(struct daemon *d, const struct transposition *xp);
json_t *view_meter(const struct meter_counter *c);
json_t *view_rule(const struct rule_counter *c);

bool view_attached(struct daemon *d, const struct node_port_status *s);
void view_port_name(void *daemon, uint32_t port, char *out, size_t size); // name, else UUID

#endif
