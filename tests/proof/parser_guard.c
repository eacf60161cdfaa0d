// SPDX-License-Identifier: MPL-2.0
// parse_frame and parse_embedded over frames that end where readable memory ends: a read behind the frame is a fault.
// Every shape at every length, with every value of every byte; then with two and three bytes changed at random.
#include <sys/mman.h>

#include "engine/geneve.h"
#include "engine/parse.h"
#include "tests/proof/proof.h"

#define LONGEST 140u
static uint8_t *wall; // first byte that cannot be read

static const uint8_t protocols[] = {1, 6, 17, 58, 132, 47};
static const uint8_t extensions[] = {0, 43, 44, 51, 60, 135};
enum { SHAPES4 = 6 * 3 * 2, SHAPES6 = 6 * 7 * 2 };

static void put_ip4(uint8_t *ip, unsigned words, uint8_t protocol)
{
    memset(ip, 1, words * 4); // options: no-operation
    ip[0] = (uint8_t)(0x40 | words);
    ip[6] = ip[7] = 0;
    ip[8] = 64;
    ip[9] = protocol;
    ip[12] = ip[16] = 10;
}

static void put_ip6(uint8_t *ip, uint8_t next)
{
    ip[0] = 0x60;
    ip[6] = next;
    ip[7] = 64;
    ip[8] = ip[24] = 0xfd;
}

static unsigned put_quoted(uint8_t *b, bool v4, bool error) // an ICMP header and, for errors, the packet that it quotes
{
    b[0] = v4 ? (error ? 3 : 8) : (error ? 1 : 128);
    if (v4)
        put_ip4(b + 8, 5, 17);
    else
        put_ip6(b + 8, 60), b[48] = 17;
    return 8;
}

// Shape `i`: IPv4 with 5, 6 or 15 words of header, or IPv6 with no or one extension header; each L4 protocol.
static void make(uint8_t *f, unsigned i)
{
    memset(f, 0, LONGEST);
    f[0] = f[6] = 2;
    bool v4 = i < SHAPES4, error;
    unsigned l4;
    uint8_t protocol;
    if (v4) {
        static const uint8_t words[] = {5, 6, 15};
        protocol = protocols[i % 6];
        error = i / 18;
        l4 = 14 + words[i / 6 % 3] * 4u;
        put_ip4(f + 14, words[i / 6 % 3], protocol);
    } else {
        i -= SHAPES4;
        protocol = protocols[i % 6];
        error = i / 42;
        unsigned extension = i / 6 % 7;
        put_ip6(f + 14, extension < 6 ? extensions[extension] : protocol);
        l4 = 54;
        if (extension < 6) {
            f[54] = protocol;
            f[55] = extensions[extension] == 51 ? 1 : 0;
            f[56] = 1;
            l4 += extensions[extension] == 51 ? 12 : 8;
        }
    }
    store_be16(f + 12, v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    if (protocol == 6)
        f[l4 + 12] = 0x80;
    if (protocol == 17)
        f[l4 + 5] = 8;
    if (protocol == 1 || protocol == 58)
        put_quoted(f + l4, v4, error);
}

static bool answers(const struct packet *p)
{
    struct parsed pp;
    struct parsed_embedded inner;
    enum drop d = parse_frame(p, &pp);
    if (d == DROP_NONE && (pp.flags & PARSE_ICMP_ERROR))
        d = parse_embedded(p, &pp, &inner);
    return (unsigned)d < DROP_COUNT;
}

// The frame cut to n bytes; its IP length says so (whole), or that more follows in another segment.
static struct packet place(const uint8_t *f, unsigned n, bool whole)
{
    uint8_t *b = wall - n;
    memcpy(b, f, n);
    if (n >= 20) {
        unsigned ip_len = whole ? n - 14 : LONGEST - 14;
        bool v4 = load_be16(b + 12) == ETHERTYPE_IPV4;
        store_be16(b + (v4 ? 16 : 18), (uint16_t)(v4 ? ip_len : ip_len > 40 ? ip_len - 40 : 0));
    }
    return (struct packet){.data = b, .head = n, .len = whole ? n : LONGEST, .csum = CSUM_VERIFIED};
}

static bool one_byte(void)
{
    uint8_t f[LONGEST];
    for (unsigned shape = 0; shape < SHAPES4 + SHAPES6; shape++) {
        make(f, shape);
        for (unsigned n = 0; n <= LONGEST; n++)
            for (int whole = 0; whole < 2; whole++) {
                struct packet p = place(f, n, whole);
                for (unsigned at = 12; at < n; at++) {
                    uint8_t was = p.data[at];
                    for (unsigned value = 0; value < 256; value++) {
                        p.data[at] = (uint8_t)value;
                        if (!answers(&p))
                            return false;
                    }
                    p.data[at] = was;
                }
            }
    }
    return true;
}

static bool more_bytes(void)
{
    uint64_t seed = 7;
    uint8_t f[LONGEST];
    for (unsigned round = 0; round < 20000000; round++) {
        if (round % 64 == 0)
            make(f, (unsigned)(proof_random(&seed) % (SHAPES4 + SHAPES6)));
        uint64_t r = proof_random(&seed);
        unsigned n = 14 + (unsigned)(r % (LONGEST - 13));
        struct packet p = place(f, n, r >> 20 & 1);
        for (unsigned k = 2 + (r >> 21 & 1); k && n > 14; k--) {
            r = proof_random(&seed);
            p.data[14 + r % (n - 14)] = (uint8_t)(r >> 32);
        }
        p.csum = r >> 40 & 1 ? CSUM_PARTIAL : CSUM_VERIFIED;
        p.csum_start = (uint16_t)(r >> 41 & 255);
        if (!answers(&p))
            return false;
    }
    return true;
}

int main(void)
{
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE) != 0)
        return 2;
    wall = pages + 4096;
    proof("parser: no read behind the frame, 120 shapes, all lengths, all values of a byte", one_byte);
    proof("parser: no read behind the frame, 20,000,000 frames with 2 or 3 other bytes", more_bytes);
    return proof_end();
}
