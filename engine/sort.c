// SPDX-License-Identifier: MPL-2.0
#include "engine/sort.h"

static void sift_down(uint8_t *base, size_t root, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    uint8_t moving[SORT_ELEMENT_MAX];
    memcpy(moving, base + root * size, size);
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= n)
            break;
        if (child + 1 < n && compare(base + child * size, base + (child + 1) * size) < 0)
            child++;
        if (compare(moving, base + child * size) >= 0)
            break;
        memcpy(base + root * size, base + child * size, size);
        root = child;
    }
    memcpy(base + root * size, moving, size);
}

void sort(void *elements, size_t n, size_t size, int (*compare)(const void *a, const void *b))
{
    uint8_t *base = elements, top[SORT_ELEMENT_MAX];
    for (size_t i = n / 2; i-- > 0;)
        sift_down(base, i, n, size, compare);
    for (size_t end = n; end-- > 1;) {
        memcpy(top, base, size);
        memcpy(base, base + end * size, size);
        memcpy(base + end * size, top, size);
        sift_down(base, 0, end, size, compare);
    }
}
