// SPDX-License-Identifier: MPL-2.0
// journal.h: an append-only file of small records, for streams of which one record changes at a time (mappings,
// address sets). Appending costs one write and one fdatasync for a whole batch; when most records are
// superseded the owner has it rewritten from memory (temporary file, rename).
//
// Form: `nereus-journal 1 <kind>`, then a line per record: 16 hex digits of the SHA-256 of the rest, a space, `+` and
// the document or `-` and the key. An unfinished last line was never acknowledged: kill -9 in the middle of an append
// leaves one, and it is cut off. Any other line that does not fit its checksum is damage: the file is kept aside, the
// records before and after the damage are good.
#ifndef NEREUS_NODE_JOURNAL_H
#define NEREUS_NODE_JOURNAL_H

#include <stdint.h>

#include "node/state_file.h"

struct journal {
    int dir, fd;
    char name[64], kind[32];
    uint64_t size;
    size_t records; // in the file, superseded ones included
    bool rewrite;   // the file is not what it should be (a failed write): append refuses until it is rewritten
};

struct journal_batch { // records to append together
    char *data;
    size_t len, room, records;
    bool failed; // out of memory
};
void journal_batch_add(struct journal_batch *b, char op, const char *text, size_t len);
void journal_batch_free(struct journal_batch *b);

typedef void (*journal_replay)(void *ctx, char op, const char *text, size_t len);

// Reads the file, handing each good record to fn in order, and opens it for appending. STATE_OK, also when there was no
// file (one is made); STATE_DAMAGED: good records were handed over, the file is aside, and the caller must
// rewrite; STATE_NEWER, STATE_IO: not opened.
enum state_result journal_open(struct journal *j, int dir, const char *name, const char *kind, journal_replay fn,
                               void *ctx);
void journal_close(struct journal *j);

// All records of the batch are on disk when it returns true. False (errno): none of them counts.
bool journal_append(struct journal *j, const struct journal_batch *b);
// Replaces the file by one that holds just this batch.
bool journal_rewrite(struct journal *j, const struct journal_batch *all);

#endif
