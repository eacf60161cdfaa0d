// SPDX-License-Identifier: MPL-2.0
// Keys of two VNIs or two ports are never equal, and an answer's key keeps both. The comparison is the flow table's
// own, so its source is included whole.
#include "engine/flow_table.c"
#include "engine/parse.h"
#include "tests/proof/proof.h"

static struct flow_key any_key(uint64_t *seed)
{
    struct flow_key k;
    for (unsigned i = 0; i < 6; i++) {
        uint64_t w = proof_random(seed);
        memcpy((uint8_t *)&k + 8 * i, &w, 8);
    }
    return k;
}

// key_equal sees two keys only by their difference (XOR), word by word: all differences of the field, on a random key.
static bool vni_tells(void)
{
    uint64_t seed = 5;
    const struct flow_key a = any_key(&seed);
    bool wrong = !key_equal(&a, &a);
    for (uint32_t change = 1; change; change++) {
        struct flow_key b = a;
        b.vni ^= change;
        wrong |= key_equal(&a, &b);
    }
    return !wrong;
}

static bool port_tells(void)
{
    uint64_t seed = 5;
    const struct flow_key a = any_key(&seed);
    bool wrong = !key_equal(&a, &a);
    for (uint32_t change = 1; change; change++) {
        struct flow_key b = a;
        b.port ^= change;
        wrong |= key_equal(&a, &b);
    }
    return !wrong;
}

static bool others_cannot_hide_it(void) // whatever else differs or not
{
    uint64_t seed = 6;
    for (unsigned round = 0; round < 50000000; round++) {
        struct flow_key a = any_key(&seed), b = round & 1 ? a : any_key(&seed);
        uint64_t r = proof_random(&seed);
        if (round & 2)
            b.vni = a.vni ^ 1u << (r & 31);
        else
            b.port = a.port ^ 1u << (r & 31);
        if (key_equal(&a, &b))
            return false;
    }
    return true;
}

static bool reply_keeps(void) // every family, protocol and ICMP type and code
{
    uint64_t seed = 8;
    for (unsigned v = 4; v <= 6; v += 2)
        for (unsigned protocol = 0; protocol < 256; protocol++)
            for (unsigned dport = 0; dport < 65536; dport++) {
                struct flow_key k = any_key(&seed), r, again;
                k.ip_version = (uint8_t)v;
                k.protocol = (uint8_t)protocol;
                k.dport = (uint16_t)dport;
                k.dir = dport & 1;
                if (!flow_key_reply(&k, &r))
                    continue;
                if (r.vni != k.vni || r.port != k.port || r.dir == k.dir)
                    return false;
                if (flow_key_reply(&r, &again) && memcmp(&again, &k, sizeof(k)) != 0)
                    return false;
            }
    return true;
}

int main(int argc, char **argv)
{
    proof("flow key: the answer keeps VNI and port, all protocols and types", reply_keeps);
    proof("flow key: another VNI or port differs whatever else does, 50,000,000 pairs", others_cannot_hide_it);
    if (argc < 2 || strcmp(argv[1], "fast") != 0) {
        proof("flow key: another VNI is another key, all 2^32 differences", vni_tells);
        proof("flow key: another port is another key, all 2^32 differences", port_tells);
    }
    return proof_end();
}
