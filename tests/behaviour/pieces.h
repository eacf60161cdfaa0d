// SPDX-License-Identifier: MPL-2.0
// pieces.h: datagrams in fragments, for tests: cut as a sender does, and put together as a receiver does.
#ifndef NEREUS_TESTS_BEHAVIOUR_PIECES_H
#define NEREUS_TESTS_BEHAVIOUR_PIECES_H

#include "tests/behaviour/outside.h"

#define PIECES 16

struct pieces {
    unsigned n;
    struct frame f[PIECES];
};

// Fragments with `each` bytes (a multiple of 8) but for the last.
struct pieces cut(const struct frame *whole, uint32_t each, uint32_t id);
// One fragment of any extent, with the bytes that the datagram has there (zeros behind its end).
struct frame cut_one(const struct frame *whole, uint32_t offset, uint32_t bytes, bool more, uint32_t id);
// The datagram of fragments in any order; asserts that they have all of it once, equal headers, right IP checksums.
struct frame join(const struct pieces *p);
bool is_piece(const struct frame *f);
// The i-th of all orders of n things; n! of them.
void order_of(unsigned n, unsigned i, unsigned *order);

#endif
