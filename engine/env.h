// SPDX-License-Identifier: MPL-2.0
// env.h: what the engine needs from outside. Time and random numbers are arguments of the calls that
// need them; everything else is here. One struct env per node; several nodes can live in a process.
//
// Threads: alloc, free and zone are called on control paths only, never for a packet. defer and lock
// may be called on a packet worker's slow path. A hit calls none of them.
#ifndef NEREUS_ENGINE_ENV_H
#define NEREUS_ENGINE_ENV_H

#include "engine/base.h"

struct env {
    void *ctx;

    // Zeroed memory, 64-byte aligned; NULL when there is none (a failed allocation is a policy result).
    void *(*alloc)(void *ctx, size_t bytes);
    void (*free)(void *ctx, void *memory);

    // A named zone that lives as long as the env. `keep` asks for memory that outlives the process
    // (a file on tmpfs); *kept says that its former content is there. Without `keep` it is zeroed.
    void *(*zone)(void *ctx, const char *name, size_t bytes, bool keep, bool *kept);

    // Calls fn(arg, value) once every packet worker has passed a quiescent state. Never fails, never
    // blocks; fn runs on any thread that holds no lock of this env.
    void (*defer)(void *ctx, void (*fn)(void *arg, uint64_t value), void *arg, uint64_t value);

    // A short exclusive section; `lock` is one of ENV_LOCKS ids. Not recursive. Held for bounded work only.
    void (*lock)(void *ctx, unsigned lock);
    void (*unlock)(void *ctx, unsigned lock);
};

#define ENV_LOCKS 272 // 0..127 connections by port, 128..255 flow table stripes, 256.. core

#endif
