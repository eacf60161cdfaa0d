// SPDX-License-Identifier: MPL-2.0
// node_sum.h: sums over a node's ports.
#ifndef NEREUS_NODE_NODE_SUM_H
#define NEREUS_NODE_NODE_SUM_H

#include "core/node.h"

struct node_sum {
    uint64_t ports, connections;
    struct port_counters counters;
};
struct node_sum node_sum(struct node *n);

#endif
