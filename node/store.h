// SPDX-License-Identifier: MPL-2.0
// store.h: what the node was told, on disk and in memory: a request is answered 200 only once what it
// said is on disk, and a restarted nereusd applies it before it answers anything.
//
// Blueprints: ports/<uuid>.json, a file each (state_file.h). Mappings, external mappings, edge sets and
// address sets: a journal per kind (journal.h). Damaged files are set aside as <name>.damaged, counted and
// told; files of a newer schema stop the daemon, with a message, before anything is touched.
//
// Keys order lists and name documents: blueprints and address sets by UUID, mappings "00000100/10.0.0.4",
// external mappings "198.51.100.9/6/1024-3071", edge sets "198.51.100.0/24". Control thread only.
#ifndef NEREUS_NODE_STORE_H
#define NEREUS_NODE_STORE_H

#include "node/doc_set.h"
#include "node/journal.h"

enum store_kind { // in the order in which they are applied at start: what is referred to comes first
    STORE_ADDRESS_SETS,
    STORE_MAPPINGS,
    STORE_EXTERNAL_MAPPINGS,
    STORE_EDGE_SETS,
    STORE_JOURNALS,
    STORE_BLUEPRINTS = STORE_JOURNALS,
    STORE_KINDS
};
const char *store_kind_name(enum store_kind kind);

#define STORE_PROBLEMS 16

struct store {
    int dir, ports_dir, lock;
    struct doc_set docs[STORE_KINDS];
    struct journal journals[STORE_JOURNALS];
    unsigned damaged;        // files set aside since start
    uint64_t write_failures; // since start
    bool write_failing;      // the last write failed
    char problems[STORE_PROBLEMS][160];
    unsigned n_problems; // may exceed STORE_PROBLEMS: the rest is in the log only
};

// Opens and reads the state directory, making it if need be. False: `error` says why the daemon must not start.
bool store_open(struct store *s, const char *path, char *error, size_t size);
void store_close(struct store *s);
// Something about the state that an operator must hear: logged, and shown by /v1/health.
void store_problem(struct store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

const struct doc *store_get(const struct store *s, enum store_kind kind, const char *key);
bool store_blueprint_put(struct store *s, const char *key, const char *text, size_t len);
bool store_blueprint_delete(struct store *s, const char *key);

// Changes of one journalled kind that reach the disk together.
struct store_batch {
    enum store_kind kind;
    struct journal_batch records;
    struct doc_set staged; // text "" = deleted
    bool failed;
};
void store_batch_put(struct store_batch *b, const char *key, const char *text, size_t len);
void store_batch_delete(struct store_batch *b, const char *key);
// Also retries what a former commit could not write. Ends the batch in any case. False: not on disk, errno says why.
bool store_commit(struct store *s, struct store_batch *b);

#endif
