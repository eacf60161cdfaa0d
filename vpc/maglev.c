// SPDX-License-Identifier: MPL-2.0
#include "vpc/maglev.h"

// The next slot in the target's order that is free. There is one.
static uint32_t next_free(const uint8_t *table, struct maglev_target *t)
{
    while (table[t->at] != MAGLEV_NOBODY)
        t->at = (t->at + t->step) % MAGLEV_SLOTS;
    return t->at;
}

// One turn for each; a target of half the weight takes a slot every second turn, beginning with the first.
void maglev_fill(uint8_t table[MAGLEV_SLOTS], struct maglev_target *targets, unsigned n, uint32_t unit)
{
    bool any = false;
    memset(table, MAGLEV_NOBODY, MAGLEV_SLOTS);
    for (unsigned i = 0; i < n; i++) {
        struct maglev_target *t = &targets[i];
        t->at = (uint32_t)(t->name % MAGLEV_SLOTS);
        t->step = 1 + (uint32_t)((t->name >> 32) % (MAGLEV_SLOTS - 1));
        t->credit = unit - t->weight;
        any |= t->weight > 0;
    }
    for (uint32_t filled = 0; any && filled < MAGLEV_SLOTS;) {
        for (unsigned i = 0; i < n && filled < MAGLEV_SLOTS; i++) {
            targets[i].credit += targets[i].weight;
            if (targets[i].weight == 0 || targets[i].credit < unit)
                continue;
            targets[i].credit -= unit;
            table[next_free(table, &targets[i])] = (uint8_t)i;
            filled++;
        }
    }
}
