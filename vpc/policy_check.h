// SPDX-License-Identifier: MPL-2.0
// policy_check.h: is a blueprint meaningful? Shape was checked when it was read (api/json); here it is
// meaning: families, overlaps, what must belong together. Every refusal names the field.
#ifndef NEREUS_VPC_POLICY_CHECK_H
#define NEREUS_VPC_POLICY_CHECK_H

#include "vpc/policy.h"

bool policy_check(const struct blueprint *b, struct policy_error *error);
bool policy_check_nat(const struct blueprint *b, struct policy_error *error); // policy_check_nat.c
bool policy_unicast(const struct ip_addr *a);
// Fills *error; always false. index < 0: no array element; field may be "".
bool policy_refuse(struct policy_error *error, const char *array, long index, const char *field, const char *why);

#endif
