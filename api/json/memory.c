// SPDX-License-Identifier: MPL-2.0
// When memory runs out, jansson may lose a character of a string, or a member of a copy, and go on. A document
// that lost something is a wrong document, so its allocations are watched.
#include "api/json/fields.h"
#include <pthread.h>
#include <stdlib.h>

static _Thread_local bool ran_out;

static void *allocate(size_t size)
{
    void *p = malloc(size);
    if (!p)
        ran_out = true;
    return p;
}

static void watch(void)
{
    json_set_alloc_funcs(allocate, free); // malloc and free were its own choice too
}

void json_memory_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    ran_out = false;
}

bool json_memory_ran_out(void)
{
    return ran_out;
}
