// SPDX-License-Identifier: MPL-2.0
// NAT there and back is no change: of the checksum over all fields and deltas, of whole packets over many.
#include "engine/checksum.h"
#include "engine/hit_path.h"
#include "tests/proof/proof.h"

// hit_rewrite of a packet of which only the checksum matters: field there and back, by delta and its reverse.
static uint16_t there_and_back(uint16_t field, uint16_t delta, uint8_t protocol)
{
    uint8_t b[96] = {0};
    struct packet p = {.data = b, .csum = CSUM_FULL};
    struct transposition there = {.flags = XP_SRC_IP, .l4_delta = delta};
    struct transposition back = {.flags = XP_SRC_IP, .l4_delta = (uint16_t)~delta};
    unsigned at = protocol == IPPROTO_TCP4 ? 54 + 16 : 54 + 6;
    memcpy(b + at, &field, 2);
    hit_rewrite(&there, &p, 14, 54, 6, protocol);
    hit_rewrite(&back, &p, 14, 54, 6, protocol);
    memcpy(&field, b + at, 2);
    return field;
}

static bool every_field(uint8_t protocol)
{
    for (uint32_t field = 0; field < 0x10000; field++) {
        uint16_t want = protocol == IPPROTO_TCP4 && field == 0xffff ? 0 : (uint16_t)field; // the other zero
        bool wrong = false;
        for (uint32_t delta = 0; delta < 0x10000; delta++) {
            uint16_t got = there_and_back((uint16_t)field, (uint16_t)delta, protocol);
            wrong |= got != want && !(protocol == IPPROTO_TCP4 && field == 0xffff && got == 0xffff);
        }
        if (wrong)
            return false;
    }
    return true;
}

static bool every_tcp_field(void)
{
    return every_field(IPPROTO_TCP4);
}

static bool every_udp_field(void)
{
    return every_field(IPPROTO_UDP4);
}

struct sample {
    uint8_t b[128];
    struct packet p;
    struct flow_key key;
    struct hit hit;
    uint32_t len;
};

static struct ip_addr any_address(uint64_t *seed, bool v4)
{
    struct ip_addr a = {0};
    for (unsigned i = 0; i < 16; i++)
        a.b[i] = (uint8_t)proof_random(seed);
    a.b[0] = 0xfd;
    a.b[12] = 10;
    return v4 ? ip_from_v4(a.b + 12) : a;
}

static bool read(struct sample *s)
{
    s->p = (struct packet){.data = s->b, .head = s->len, .len = s->len, .csum = CSUM_FULL};
    return hit_parse(&s->p, 7, 100, FLOW_OUT, REALM_VPC, &s->key, &s->hit);
}

static bool sums_right(const struct sample *s)
{
    const uint8_t *l4 = s->b + s->hit.l4;
    uint32_t n = s->len - s->hit.l4;
    if (s->hit.protocol == IPPROTO_UDP4 && !(l4[6] | l4[7]))
        return true;
    uint64_t sum = checksum_pseudo(&s->key.src, &s->key.dst, s->hit.protocol, n);
    return checksum_fold(checksum_add(sum, l4, n)) == 0xffff; // hit_parse has checked IPv4's own
}

static bool make(struct sample *s, uint64_t *seed)
{
    uint64_t r = proof_random(seed);
    bool v4 = r & 1, tcp = r & 2;
    uint32_t l4 = v4 ? 34 : 54, l4_len = (tcp ? 20 : 8) + (uint32_t)(r >> 8 & 31);
    struct ip_addr src = any_address(seed, v4), dst = any_address(seed, v4);
    for (unsigned i = 0; i < sizeof(s->b); i++)
        s->b[i] = (uint8_t)proof_random(seed);
    s->len = l4 + l4_len;
    s->b[6] = 2;
    store_be16(s->b + 12, v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    uint8_t *ip = s->b + 14, protocol = tcp ? IPPROTO_TCP4 : IPPROTO_UDP4;
    ip[0] = v4 ? 0x45 : 0x60;
    store_be16(ip + (v4 ? 2 : 4), (uint16_t)(v4 ? s->len - 14 : l4_len));
    ip[v4 ? 9 : 6] = protocol;
    ip[v4 ? 8 : 7] = 64;
    memcpy(ip + (v4 ? 12 : 8), src.b + (v4 ? 12 : 0), v4 ? 4 : 16);
    memcpy(ip + (v4 ? 16 : 24), dst.b + (v4 ? 12 : 0), v4 ? 4 : 16);
    if (v4) {
        store_be16(ip + 6, 0x4000);
        checksum_write_ip4(ip);
    }
    if (tcp)
        s->b[l4 + 12] = 0x50;
    else
        store_be16(s->b + l4 + 4, (uint16_t)l4_len);
    checksum_write_l4(s->b + l4, l4_len, &src, &dst, protocol);
    if (!tcp && (r >> 16 & 7) == 0)
        memset(s->b + l4 + 6, 0, 2); // no checksum
    return read(s);
}

static void apply(struct sample *s, struct transposition *xp)
{
    transposition_finish(xp, &s->key);
    hit_rewrite(xp, &s->p, s->hit.l3, s->hit.l4, s->hit.ip_version, s->hit.protocol);
}

static struct transposition any_nat(const struct sample *s, uint64_t *seed)
{
    uint64_t r = proof_random(seed);
    bool v4 = s->hit.ip_version == 4;
    return (struct transposition){.flags = (uint16_t)(r & (XP_SRC_IP | XP_DST_IP | XP_SRC_PORT | XP_DST_PORT)),
                                  .src_ip = any_address(seed, v4),
                                  .dst_ip = any_address(seed, v4),
                                  .src_port = (uint16_t)(r >> 16),
                                  .dst_port = (uint16_t)(r >> 32)};
}

// The packet itself, rewritten and rewritten back: the same bytes.
static bool packet_there_and_back(void)
{
    uint64_t seed = 3;
    for (unsigned round = 0; round < 3000000; round++) {
        struct sample s, was;
        if (!make(&s, &seed))
            return false;
        was = s;
        struct transposition there = any_nat(&s, &seed), back = there;
        back.src_ip = s.key.src;
        back.dst_ip = s.key.dst;
        back.src_port = s.key.sport;
        back.dst_port = s.key.dport;
        apply(&s, &there);
        if (!read(&s) || !sums_right(&s))
            return false;
        apply(&s, &back);
        if (memcmp(s.b, was.b, s.len) != 0)
            return false;
    }
    return true;
}

static void turn(struct sample *s) // the answer: ends swapped, as the peer would send it
{
    uint8_t *ip = s->b + s->hit.l3, *l4 = s->b + s->hit.l4, t[16];
    bool v4 = s->hit.ip_version == 4;
    unsigned n = v4 ? 4 : 16, at = v4 ? 12 : 8;
    memcpy(t, ip + at, n);
    memmove(ip + at, ip + at + n, n);
    memcpy(ip + at + n, t, n);
    memcpy(t, l4, 2);
    memmove(l4, l4 + 2, 2);
    memcpy(l4 + 2, t, 2);
}

// The answer to a rewritten packet, rewritten by the reverse as the walk makes it (what was written to the source side
// goes back on the destination side, from the opening key), answers the packet as it was, and its checksums are right.
static bool answer_answers(void)
{
    uint64_t seed = 4;
    for (unsigned round = 0; round < 3000000; round++) {
        struct sample s;
        struct flow_key want;
        if (!make(&s, &seed) || !flow_key_reply(&s.key, &want))
            return false;
        struct transposition there = any_nat(&s, &seed), back = {0};
        const struct flow_key opened = s.key;
        uint16_t f = there.flags;
        apply(&s, &there);
        turn(&s);
        if (!read(&s))
            return false;
        s.key.dir = FLOW_IN;
        back.flags = (uint16_t)((f & XP_SRC_IP ? XP_DST_IP : 0) | (f & XP_DST_IP ? XP_SRC_IP : 0) |
                                (f & XP_SRC_PORT ? XP_DST_PORT : 0) | (f & XP_DST_PORT ? XP_SRC_PORT : 0));
        back.dst_ip = opened.src;
        back.src_ip = opened.dst;
        back.dst_port = opened.sport;
        back.src_port = opened.dport;
        apply(&s, &back);
        if (!read(&s) || !sums_right(&s))
            return false;
        s.key.dir = FLOW_IN;
        if (memcmp(&s.key, &want, sizeof(want)) != 0)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    proof("NAT: 3,000,000 packets there and back are the same bytes", packet_there_and_back);
    proof("NAT: 3,000,000 answers come back to the opening key, checksums right", answer_answers);
    if (argc < 2 || strcmp(argv[1], "fast") != 0) {
        proof("NAT: a TCP checksum there and back is itself, all 2^32 fields and deltas", every_tcp_field);
        proof("NAT: a UDP checksum there and back is itself, all 2^32 fields and deltas", every_udp_field);
    }
    return proof_end();
}
