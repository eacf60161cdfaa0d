// SPDX-License-Identifier: MPL-2.0
// trace.h: what each layer said about one packet, in words.
#ifndef NEREUS_VPC_TRACE_H
#define NEREUS_VPC_TRACE_H

#include "vpc/text.h"

#define TRACE_STEPS 16

struct trace_step {
    const char *layer;  // "gateway", "posture", ... or "flow-table", "demux"
    const char *result; // "pass", "drop", "answer", ...
    char detail[160];   // rule id, route, mapping, translation in words
};

struct trace_log {
    unsigned n;
    struct trace_step steps[TRACE_STEPS];
};

// Text for a new step's detail; a step beyond the last overwrites it. log may be NULL: then nothing is written.
static inline struct text trace_add(struct trace_log *log, const char *layer, const char *result)
{
    static char nowhere[1];
    if (!log)
        return (struct text){nowhere, nowhere};
    struct trace_step *s = &log->steps[log->n < TRACE_STEPS ? log->n++ : TRACE_STEPS - 1];
    s->layer = layer;
    s->result = result;
    return text_into(s->detail, sizeof(s->detail));
}

#endif
