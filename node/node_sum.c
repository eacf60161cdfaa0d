// SPDX-License-Identifier: MPL-2.0
#include "node/node_sum.h"

// struct port_counters is nothing but uint64_t members: it adds up word by word.
static void add(struct port_counters *to, const struct port_counters *from)
{
    _Static_assert(sizeof(*to) % sizeof(uint64_t) == 0, "only 64-bit counters");
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof(*to) / sizeof(uint64_t); i++)
        t[i] += f[i];
}

struct node_sum node_sum(struct node *n)
{
    struct node_sum sum = {0};
    for (uint32_t port = node_port_next(n, 0); port; port = node_port_next(n, port)) {
        struct node_port_status s;
        struct port_counters counters;
        if (!node_port_status(n, port, &s))
            continue;
        node_port_counters(n, port, &counters);
        add(&sum.counters, &counters);
        sum.ports++;
        sum.connections += s.connections;
    }
    return sum;
}
