// SPDX-License-Identifier: MPL-2.0
// flow_log.h: where the dataplane's flow records go: JSON lines in a file that is rotated by size, or IPFIX to the
// collector that the operator names. On the control thread; a destination that fails costs records, never packets.
#ifndef NEREUS_NODE_FLOW_LOG_H
#define NEREUS_NODE_FLOW_LOG_H

#include "api/types/config.h"
#include "core/node.h"

#define FLOW_LOG_RECORDS 8192u // that may wait for the control thread
#define FLOW_LOG_DRAIN_MS 100

struct flow_writer;

struct flow_writer *flow_writer_open(const struct config_flow_log *config, char *error, size_t size);
void flow_writer_close(struct flow_writer *w); // NULL is fine
// at_ms: wall clock of the record.
void flow_writer_add(struct flow_writer *w, const struct flow_record *r, uint64_t at_ms, uint64_t now_ms);
void flow_writer_flush(struct flow_writer *w, uint64_t now_ms);
uint64_t flow_writer_written(const struct flow_writer *w);
uint64_t flow_writer_failed(const struct flow_writer *w); // records that could not be written or sent

#endif
