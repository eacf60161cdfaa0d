// SPDX-License-Identifier: MPL-2.0
// maglev.h: which of several targets a hash goes to, with few hashes moved when a target comes or goes (Eisenbud et
// al., NSDI 2016, section 3.4). Every target has its own order of all slots; in turns each takes the next free one.
//
// The table's size is fixed, so that no change of the list moves everything; equal weights differ by one slot at most.
// A target is known by its name alone, wherever it stands in the list, and so every node fills the same table.
#ifndef NEREUS_VPC_MAGLEV_H
#define NEREUS_VPC_MAGLEV_H

#include "engine/base.h"

#define MAGLEV_SLOTS 4093u // prime
#define MAGLEV_TARGETS 128u
#define MAGLEV_NOBODY 0xff

struct maglev_target {
    uint64_t name;             // a good hash of what the target is
    uint32_t weight;           // its share; 0: takes nothing. One that takes something takes one slot at least
    uint32_t at, step, credit; // maglev_fill's own
};

// table[slot]: index into `targets`, or MAGLEV_NOBODY throughout when nobody has weight. n <= MAGLEV_TARGETS;
// `unit`: the largest weight, counting those that take nothing at present, so that their leave moves no turns.
void maglev_fill(uint8_t table[MAGLEV_SLOTS], struct maglev_target *targets, unsigned n, uint32_t unit);

static inline uint8_t maglev_lookup(const uint8_t table[MAGLEV_SLOTS], uint64_t hash)
{
    return table[hash % MAGLEV_SLOTS];
}

#endif
