// SPDX-License-Identifier: MPL-2.0
// zones.h: named memory that lives as long as the process, or longer: a kept zone is a file under run_dir (on
// tmpfs or hugetlbfs) behind a page that says what it is. A file of another size, name or version is not adopted.
#ifndef NEREUS_PLATFORM_LINUX_ZONES_H
#define NEREUS_PLATFORM_LINUX_ZONES_H

#include "engine/base.h"

#define ZONES_MAX 64

struct zones {
    char dir[192];
    int lock; // flock'ed file: one process per run_dir
    unsigned n;
    struct {
        void *map;
        size_t size;
    } maps[ZONES_MAX];
};

bool zones_init(struct zones *z, const char *dir, char *error, size_t error_size);
void zones_destroy(struct zones *z);                                                     // unmaps; files stay
void *zones_get(struct zones *z, const char *name, size_t bytes, bool keep, bool *kept); // one thread

#endif
