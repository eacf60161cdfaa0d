// SPDX-License-Identifier: MPL-2.0
// metrics.h: the node in OpenMetrics text (openmetrics.io, version 1.0.0).
//
// Series of drop reasons and rules appear once they are not 0: hundreds of ports times all reasons would be noise.
#ifndef NEREUS_NODE_METRICS_H
#define NEREUS_NODE_METRICS_H

#include "node/blob.h"
#include "node/daemon.h"

#define METRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

void metrics_write(struct daemon *d, struct blob *out);
// A label's value, escaped: backslash, quote, newline.
void metrics_label(struct blob *out, const char *value);

#endif
