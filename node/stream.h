// SPDX-License-Identifier: MPL-2.0
// stream.h: answers that go on: captures, events.
#ifndef NEREUS_NODE_STREAM_H
#define NEREUS_NODE_STREAM_H

#include "node/daemon.h"

bool streams_open(struct daemon *d);
void streams_end(struct daemon *d); // d->stopping is set: each stream ends when it is next run

bool events_open(struct daemon *d);
void events_end(struct daemon *d); // likewise
void events_close(struct daemon *d);

#endif
