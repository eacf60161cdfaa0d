// SPDX-License-Identifier: MPL-2.0
// Parses any frame with any offload metadata, holds the hit path to its word, and rewrites what was accepted.
// Input: struct prefix, then the frame.
#include <stdlib.h>
#include <string.h>

#include "engine/hit_path.h"

struct prefix {
    uint8_t csum, gso_type;
    uint8_t gso_size[2], csum_start[2], csum_offset[2];
    uint8_t tail[2]; // bytes of the frame that lie in another segment
    uint8_t flags;   // of the transposition
    uint8_t mss;
    uint8_t seed[4]; // of its values
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_hit_path(const struct packet *p, enum drop d, const struct parsed *pp)
{
    struct flow_key key, want;
    struct hit h;
    memset(&key, 0xa5, sizeof(key));
    bool hit = hit_parse(p, 1, 2, FLOW_OUT, REALM_VPC, &key, &h);
    require(hit == (d == DROP_NONE && (pp->flags & PARSE_CANONICAL) && pp->ttl > 1));
    if (!hit)
        return;
    flow_key_from_parsed(&want, pp, 1, 2, FLOW_OUT, REALM_VPC);
    require(memcmp(&key, &want, sizeof(key)) == 0 && h.l4 == pp->l4 && h.ip_len == pp->ip_len && h.tos == pp->tos &&
            h.tcp_flags == pp->tcp_flags);
}

static void fill(void *at, size_t n, uint32_t *state)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        ((uint8_t *)at)[i] = (uint8_t)(*state >> 24);
    }
}

static void rewrite(struct packet *p, const struct parsed *pp, const struct prefix *in)
{
    struct transposition xp = {0};
    struct flow_key key;
    uint32_t state = load_be32(in->seed);
    fill(&xp.src_mac, 12, &state);
    fill(&xp.src_ip, 32, &state);
    fill(&xp.src_port, 4, &state);
    xp.flags = in->flags;
    flow_key_from_parsed(&key, pp, 1, 2, FLOW_OUT, REALM_VPC);
    transposition_finish(&xp, &key);
    struct parsed_embedded inner;
    if (!(pp->flags & PARSE_ICMP_ERROR))
        transposition_apply(&xp, p, pp, in->mss);
    else if (parse_embedded(p, pp, &inner) == DROP_NONE)
        transposition_apply_icmp_error(&xp, &key, p, pp, &inner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prefix in;
    if (size < sizeof(in) || size > 4096)
        return 0;
    memcpy(&in, data, sizeof(in));
    uint32_t n = (uint32_t)(size - sizeof(in));
    uint8_t *frame = malloc(n ? n : 1);
    memcpy(frame, data + sizeof(in), n);
    struct packet p = {.data = frame, .head = n, .room = n, .len = n + load_be16(in.tail), .csum = in.csum % 3};
    p.gso_type = in.gso_type;
    p.gso_size = load_be16(in.gso_size);
    p.csum_start = load_be16(in.csum_start);
    p.csum_offset = load_be16(in.csum_offset);
    struct parsed pp;
    enum drop d = parse_frame(&p, &pp);
    check_hit_path(&p, d, &pp);
    if (d == DROP_NONE && pp.ip_version)
        rewrite(&p, &pp, &in);
    free(frame);
    return 0;
}
