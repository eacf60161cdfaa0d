// SPDX-License-Identifier: MPL-2.0
// atomic.h: the one header for atomics. Fields shared between a packet worker and another thread
// are plain integers or pointers accessed only through these.
#ifndef NEREUS_ENGINE_ATOMIC_H
#define NEREUS_ENGINE_ATOMIC_H

#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

// A counter with one writer: no locked instruction, yet never torn for a reader.
#define counter_add(p, v) store_relaxed((p), load_relaxed(p) + (v))

#endif
