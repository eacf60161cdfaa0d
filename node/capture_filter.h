// SPDX-License-Identifier: MPL-2.0
// capture_filter.h: the filter language of libpcap (pcap-filter(7)), compiled to classic BPF and run over copied
// frames, on the control thread: workers never see it. Names of hosts and networks are not looked up: that could take
// seconds.
#ifndef NEREUS_NODE_CAPTURE_FILTER_H
#define NEREUS_NODE_CAPTURE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURE_FILTER_MAX 1024 // characters of an expression

struct capture_filter;

// NULL with a sentence in `error`.
struct capture_filter *capture_filter_compile(const char *expression, char *error, size_t size);
void capture_filter_free(struct capture_filter *f); // NULL is fine
bool capture_filter_matches(const struct capture_filter *f, const uint8_t *frame, uint32_t captured, uint32_t length);

#endif
