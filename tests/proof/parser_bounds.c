// SPDX-License-Identifier: MPL-2.0
// Read by Frama-C's Eva, not compiled: hit_parse, or geneve_parse with PARSER_GENEVE, over a frame of each length up to
// LENGTHS, all bytes and all metadata unknown, in an object of exactly that many bytes. Eva reports each read that may
// leave it.
#include <__fc_builtin.h>
#include <stdlib.h>

#include "engine/geneve.h"
#include "engine/hit_path.h"

#ifndef FROM
#define FROM 0
#endif
#ifndef LENGTHS
#define LENGTHS 140
#endif

/*@ requires \valid_read((uint8_t *)bytes + (0 .. n - 1));
    assigns \result \from sum, ((uint8_t *)bytes)[0 .. n - 1]; */ // checksum.c shows that it reads no more
uint64_t checksum_add(uint64_t sum, const void *bytes, size_t n);

static uint32_t any(uint32_t from, uint32_t to)
{
    return Frama_C_unsigned_int_interval(from, to);
}

static void any_frame(struct packet *p, uint8_t *data, uint32_t head)
{
    if (head)
        Frama_C_make_unknown((char *)data, head);
    *p = (struct packet){.data = data,
                         .head = head,
                         .len = any(head, 0x3ffff),
                         .csum = (uint8_t)any(0, 255),
                         .gso_type = (uint8_t)any(0, 255),
                         .gso_size = (uint16_t)any(0, 65535),
                         .csum_start = (uint16_t)any(0, 65535),
                         .csum_offset = (uint16_t)any(0, 65535)};
}

static void parse_any(uint32_t head)
{
    uint8_t *data = malloc(head);
    struct packet p;
    any_frame(&p, data, head);
#ifdef PARSER_GENEVE
    struct geneve_info info = {0};
    geneve_parse(&p, &info, any(0, 1));
#else
    struct flow_key key = {0};
    struct hit hit = {0};
    hit_parse(&p, 1, 2, FLOW_OUT, REALM_VPC, &key, &hit);
#endif
}

void main(void)
{
    //@ loop unroll LENGTHS + 1;
    for (uint32_t head = FROM; head <= LENGTHS; head++)
        parse_any(head);
}
