// SPDX-License-Identifier: MPL-2.0
// check.h: what one check of the machine found.
#ifndef NEREUS_CLI_CHECK_H
#define NEREUS_CLI_CHECK_H

enum check_result { CHECK_OK, CHECK_WARN, CHECK_FAIL };

struct check {
    const char *name;
    enum check_result result;
    char detail[192];
};

void check_set(struct check *k, enum check_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Loads a program and attaches it by clsact and cls_bpf, in a network namespace of its own that ends with the check.
void check_cls_bpf(struct check *k);

#endif
