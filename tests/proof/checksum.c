// SPDX-License-Identifier: MPL-2.0
// Checksums by differences against whole ones, over all 2^32 pairs of 16-bit words.
#include <sys/mman.h>

#include "engine/checksum.h"
#include "engine/hit_path.h"
#include "tests/proof/proof.h"

// RFC 1624 equation 3 in its own words: HC' = ~(~HC + ~m + m'), each + with end-around carry.
static inline uint16_t plus(uint16_t a, uint16_t b)
{
    uint32_t sum = (uint32_t)a + b;
    return (uint16_t)(sum + (sum >> 16));
}

static bool adjust_is_equation_3(void)
{
    for (uint32_t field = 0; field < 0x10000; field++) {
        bool differs = false;
        for (uint32_t delta = 0; delta < 0x10000; delta++) {
            uint16_t sum = plus((uint16_t)~field, (uint16_t)delta), want = (uint16_t)~sum;
            differs |= checksum_adjust((uint16_t)field, (uint16_t)delta) != want;
        }
        if (differs)
            return false;
    }
    return true;
}

// A packet of two words: m, which changes, and r, all others (a sum of words is one word). The old field is the
// complete checksum of m and r; adjusted, it must be that of m' and r. Over all (m, m') for each r in turn would be
// 2^48: the delta depends on (m, m') only, so it is enough that all deltas and all fields pass (above), and that the
// delta of (m, m') is the difference it claims to be.
static bool delta_is_the_difference(void)
{
    for (uint32_t m = 0; m < 0x10000; m++) {
        bool differs = false;
        for (uint32_t n = 0; n < 0x10000; n++) {
            uint16_t before = (uint16_t)m, after = (uint16_t)n;
            uint16_t delta = checksum_delta(&before, &after, 2), back = checksum_delta(&after, &before, 2);
            differs |= plus(before, delta) % 0xffff != after % 0xffff; // ones' complement has two zeros
            differs |= plus(delta, back) != 0xffff;                    // there and back is "no change"
        }
        if (differs)
            return false;
    }
    return true;
}

static bool adjusted_verifies(void) // a right field stays right: field = ~(m + r), adjusted = ~(m' + r)
{                                   // unless all is zero, which no header is: then RFC 1624 gives the other zero
    static const uint16_t rest[] = {0, 1, 0x00ff, 0x1234, 0x7fff, 0x8000, 0xfffe, 0xffff};
    for (unsigned i = 0; i < ARRAY_LEN(rest); i++)
        for (uint32_t m = 0; m < 0x10000; m++) {
            bool wrong = false;
            for (uint32_t n = 0; n < 0x10000; n++) {
                uint16_t field = (uint16_t)~plus((uint16_t)m, rest[i]);
                uint16_t delta = plus((uint16_t)~m, (uint16_t)n); // checksum_delta of one word, shown next to it
                uint16_t adjusted = checksum_adjust(field, delta);
                wrong |= (n || rest[i]) && plus(plus((uint16_t)n, rest[i]), adjusted) != 0xffff; // the receiver's test
            }
            if (wrong)
                return false;
        }
    return true;
}

static bool never_both_zeros(void) // from a field that is not 0xffff never 0xffff (transposition.h relies on it)
{
    for (uint32_t field = 0; field < 0xffff; field++) {
        bool wrong = false;
        for (uint32_t delta = 0; delta < 0x10000; delta++)
            wrong |= checksum_adjust((uint16_t)field, (uint16_t)delta) == 0xffff;
        if (wrong)
            return false;
    }
    return true;
}

static bool fold_is_the_residue(void) // of every 32-bit sum, and at the carries of longer ones
{
    bool wrong = false;
    for (uint64_t sum = 0; sum < 0x100000000ull; sum++) {
        uint16_t folded = checksum_fold(sum);
        wrong |= folded % 0xffff != (uint16_t)(sum % 0xffff) || (folded == 0) != (sum == 0);
    }
    for (unsigned high = 0; high < 64; high++)
        for (unsigned low = 0; low < 64; low++)
            for (int around = -2; around <= 2; around++) {
                uint64_t sum = (1ull << high) + (1ull << low) + (uint64_t)(int64_t)around;
                wrong |= checksum_fold(sum) % 0xffff != sum % 0xffff || (checksum_fold(sum) == 0) != (sum == 0);
            }
    return !wrong;
}

static bool hit_fold_is_checksum_fold(void) // over all sums that hit_rewrite makes: three words at most
{
    bool wrong = false;
    for (uint32_t sum = 0; sum <= 3 * 0xffff; sum++)
        wrong |= hit_fold(sum) != checksum_fold(sum);
    return !wrong;
}

static bool add_is_word_by_word(void) // every length to 256 at every alignment, carries included
{
    uint8_t bytes[264];
    uint64_t seed = 1;
    for (unsigned fill = 0; fill < 4; fill++) {
        for (unsigned i = 0; i < sizeof(bytes); i++)
            bytes[i] = fill == 0 ? 0 : fill == 1 ? 0xff : (uint8_t)proof_random(&seed);
        for (unsigned at = 0; at < 8; at++)
            for (unsigned n = 0; n <= 256; n++) {
                uint64_t sum = fill == 3 ? 0xffffffffffffffffull : 0, plain = checksum_fold(sum);
                for (unsigned i = 0; i < n; i++)
                    plain += (uint64_t)bytes[at + i] << (i & 1 ? 8 : 0);
                uint16_t got = checksum_fold(checksum_add(sum, bytes + at, n));
                if (got % 0xffff != plain % 0xffff || (got == 0) != (plain == 0))
                    return false;
            }
    }
    return true;
}

// Between two pages that cannot be read: the contract that the parsers' analysis assumes (parser_bounds.c).
static bool add_reads_its_range(void)
{
    uint8_t *pages = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE) != 0)
        return false;
    bool wrong = false;
    for (unsigned n = 0; n <= 4096; n++) // zeros: only a fault could come of it
        wrong |= checksum_add(0, pages + 4096, n) + checksum_add(0, pages + 8192 - n, n) != 0;
    munmap(pages, 3 * 4096);
    return !wrong;
}

int main(int argc, char **argv)
{
    proof("checksum: adjust is RFC 1624 equation 3, all 2^32 fields and deltas", adjust_is_equation_3);
    if (argc > 1 && strcmp(argv[1], "fast") == 0)
        return proof_end();
    proof("checksum: a delta is the difference and its reverse undoes it, all 2^32", delta_is_the_difference);
    proof("checksum: a right field stays right, all 2^32 changes, 8 sums of the rest", adjusted_verifies);
    proof("checksum: a field that is not 0xffff never becomes 0xffff, all 2^32", never_both_zeros);
    proof("checksum: fold is the residue, zero only of zero, all 2^32 sums", fold_is_the_residue);
    proof("checksum: the hit path's fold is the same, all its sums", hit_fold_is_checksum_fold);
    proof("checksum: add is word by word, all lengths to 256 and alignments", add_is_word_by_word);
    proof("checksum: add reads its range and nothing else, all lengths to 4096", add_reads_its_range);
    return proof_end();
}
