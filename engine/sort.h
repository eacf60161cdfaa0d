// SPDX-License-Identifier: MPL-2.0
// sort.h: heapsort for control-time builders: in place, no memory, no recursion, n log n on every input
// (tenants choose what is sorted). Not stable: give equal elements an order by comparing their index too.
#ifndef NEREUS_ENGINE_SORT_H
#define NEREUS_ENGINE_SORT_H

#include "engine/base.h"

#define SORT_ELEMENT_MAX 64

// `size` is at most SORT_ELEMENT_MAX. compare(a, b) < 0: a comes before b.
void sort(void *elements, size_t n, size_t size, int (*compare)(const void *a, const void *b));

#endif
