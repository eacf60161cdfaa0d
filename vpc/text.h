// SPDX-License-Identifier: MPL-2.0
// text.h: bounded text building without libc, for errors and traces.
#ifndef NEREUS_VPC_TEXT_H
#define NEREUS_VPC_TEXT_H

#include "engine/ip.h"

struct text { // appends; what does not fit is cut, the result is always terminated
    char *at, *end;
};

struct text text_into(char *buffer, size_t size);
void text_add(struct text *t, const char *s);
void text_number(struct text *t, uint64_t n);
void text_ip(struct text *t, const struct ip_addr *a); // RFC 5952
void text_prefix(struct text *t, const struct ip_prefix *p);
void text_mac(struct text *t, const struct mac_addr *m);

#endif
