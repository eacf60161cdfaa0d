// SPDX-License-Identifier: MPL-2.0
// blueprint_copy.h: a blueprint of one's own, in one piece of memory.
#ifndef NEREUS_VPC_BLUEPRINT_COPY_H
#define NEREUS_VPC_BLUEPRINT_COPY_H

#include "api/types/blueprint.h"
#include "engine/env.h"

// Deep copy; free with env->free. NULL: out of memory.
struct blueprint *blueprint_copy(const struct env *env, const struct blueprint *b);

#endif
