// SPDX-License-Identifier: MPL-2.0
#include "node/capture_filter.h"

#include <ctype.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base.h"

#define SNAP 65535

struct capture_filter {
    struct bpf_program program;
};

// Words of the language. Any other would be taken for a name.
static const char *const words[] = {"ah",
                                    "and",
                                    "arp",
                                    "atalk",
                                    "broadcast",
                                    "carp",
                                    "decnet",
                                    "dst",
                                    "esp",
                                    "ether",
                                    "gateway",
                                    "geneve",
                                    "greater",
                                    "host",
                                    "icmp",
                                    "icmp6",
                                    "igmp",
                                    "igrp",
                                    "ip",
                                    "ip6",
                                    "ipx",
                                    "iso",
                                    "len",
                                    "less",
                                    "link",
                                    "mask",
                                    "mpls",
                                    "multicast",
                                    "net",
                                    "not",
                                    "or",
                                    "pim",
                                    "port",
                                    "portrange",
                                    "proto",
                                    "protochain",
                                    "radio",
                                    "rarp",
                                    "sctp",
                                    "src",
                                    "stp",
                                    "tcp",
                                    "udp",
                                    "vlan",
                                    "vrrp",
                                    "icmptype",
                                    "icmpcode",
                                    "icmp6type",
                                    "icmp6code",
                                    "tcpflags",
                                    "tcp-fin",
                                    "tcp-syn",
                                    "tcp-rst",
                                    "tcp-push",
                                    "tcp-ack",
                                    "tcp-urg",
                                    "tcp-ece",
                                    "tcp-cwr",
                                    "icmp-echoreply",
                                    "icmp-unreach",
                                    "icmp-sourcequench",
                                    "icmp-redirect",
                                    "icmp-echo",
                                    "icmp-routeradvert",
                                    "icmp-routersolicit",
                                    "icmp-timxceed",
                                    "icmp-paramprob",
                                    "icmp-tstamp",
                                    "icmp-tstampreply",
                                    "icmp-ireq",
                                    "icmp-ireqreply",
                                    "icmp-maskreq",
                                    "icmp-maskreply",
                                    "icmp6-destinationunreach",
                                    "icmp6-packettoobig",
                                    "icmp6-timeexceeded",
                                    "icmp6-parameterproblem",
                                    "icmp6-echo",
                                    "icmp6-echoreply",
                                    "icmp6-routersolicit",
                                    "icmp6-routeradvert",
                                    "icmp6-neighborsolicit",
                                    "icmp6-neighboradvert",
                                    "icmp6-redirect"};

static bool is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return true;
    return false;
}

// An address or number begins with a digit, or has colons; `dead:beef::1` is no name either.
static bool is_name(const char *text, size_t len)
{
    if (isdigit((unsigned char)text[0]) || memchr(text, ':', len))
        return false;
    return !is_word(text, len);
}

static bool port_before(const char *expression, const char *at)
{
    static const char *const before[] = {"port", "portrange", "proto", "\\"};
    while (at > expression && isspace((unsigned char)at[-1]))
        at--;
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        size_t len = strlen(before[i]);
        if ((size_t)(at - expression) >= len && memcmp(at - len, before[i], len) == 0)
            return true;
    }
    return false;
}

static bool names_nobody(const char *expression, char *error, size_t size)
{
    for (const char *at = expression; *at;) {
        size_t len = 0;
        while (isalnum((unsigned char)at[len]) || (at[len] && strchr("-_.:", at[len])))
            len++;
        if (len == 0) {
            at++;
            continue;
        }
        // A port or protocol may be named: that is a file on this machine.
        if (is_name(at, len) && !port_before(expression, at)) {
            snprintf(error, size, "\"%.*s\" is no word of a filter; hosts are written as addresses", (int)len, at);
            return false;
        }
        at += len;
    }
    return true;
}

struct capture_filter *capture_filter_compile(const char *expression, char *error, size_t size)
{
    if (strlen(expression) > CAPTURE_FILTER_MAX) {
        snprintf(error, size, "a filter has at most %d characters", CAPTURE_FILTER_MAX);
        return NULL;
    }
    if (!names_nobody(expression, error, size))
        return NULL;
    struct capture_filter *f = calloc(1, sizeof(*f));
    pcap_t *language = pcap_open_dead(DLT_EN10MB, SNAP);
    bool ok = f && language && pcap_compile(language, &f->program, expression, 1, PCAP_NETMASK_UNKNOWN) == 0;
    if (!ok) {
        snprintf(error, size, "%s", f && language ? pcap_geterr(language) : "out of memory");
        free(f);
        f = NULL;
    }
    if (language)
        pcap_close(language);
    return f;
}

void capture_filter_free(struct capture_filter *f)
{
    if (!f)
        return;
    pcap_freecode(&f->program);
    free(f);
}

bool capture_filter_matches(const struct capture_filter *f, const uint8_t *frame, uint32_t captured, uint32_t length)
{
    return bpf_filter(f->program.bf_insns, frame, length, captured) != 0;
}
