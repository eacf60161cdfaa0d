// SPDX-License-Identifier: MPL-2.0
// handlers.h: the calls of docs/node-api.md, one function each; http_routes.c says which is which.
#ifndef NEREUS_NODE_HANDLERS_H
#define NEREUS_NODE_HANDLERS_H

#include "node/http.h"

#define HANDLERS(X) \
    X(get_health) \
    X(get_healthz) \
    X(get_readyz) X(get_version) X(get_counters) X(get_drop_reasons) X(get_metrics) X(put_blueprint) X(get_blueprint) \
        X(list_blueprints) X(delete_blueprint) X(list_ports) X(get_port) X(get_port_rules) X(get_port_meters) \
            X(pause_port) X(resume_port) X(reset_port) X(put_mapping) X(get_mapping) X(list_mappings) X(post_mappings) \
                X(put_address_set) X(get_address_set) X(list_address_sets) X(delete_address_set) \
                    X(post_external_mappings) X(list_external_mappings) X(put_edge_set) X(list_edge_sets) \
                        X(list_flows) X(post_trace) X(get_capture) X(get_events)
#define HANDLER_DECLARE(name) void name(struct request *r);
HANDLERS(HANDLER_DECLARE)
#undef HANDLER_DECLARE

#endif
