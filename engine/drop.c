// SPDX-License-Identifier: MPL-2.0
#include "engine/drop.h"

#define DROP_NAME(id, name, help) [DROP_##id] = name,
static const char *const names[DROP_COUNT] = {DROP_REASONS(DROP_NAME)};
#define DROP_HELP(id, name, help) [DROP_##id] = help,
static const char *const helps[DROP_COUNT] = {DROP_REASONS(DROP_HELP)};

const char *drop_name(enum drop reason)
{
    return (unsigned)reason < DROP_COUNT ? names[reason] : "unknown";
}

const char *drop_help(enum drop reason)
{
    return (unsigned)reason < DROP_COUNT ? helps[reason] : "unknown";
}
