// SPDX-License-Identifier: MPL-2.0
// eva.h: included in front of each source that Frama-C reads (not compiled otherwise): gcc's builtins in words that it
// knows. Its own memcpy and memset check both ranges.
#ifndef NEREUS_TESTS_PROOF_EVA_H
#define NEREUS_TESTS_PROOF_EVA_H

#include <string.h>

#define __builtin_memcpy memcpy
#define __builtin_memmove memmove
#define __builtin_memset memset
#define __builtin_memcmp memcmp
#define __builtin_expect(x, wanted) (x)
#define __builtin_bswap16(x) ((unsigned short)((unsigned short)(x) << 8 | (unsigned short)(x) >> 8))
#define __builtin_bswap32(x) \
    ((unsigned)__builtin_bswap16((unsigned short)(x)) << 16 | __builtin_bswap16((unsigned short)((unsigned)(x) >> 16)))
#define __builtin_bswap64(x) \
    ((unsigned long)__builtin_bswap32((unsigned)(x)) << 32 | __builtin_bswap32((unsigned)((unsigned long)(x) >> 32)))
#define __int128 long          // only in the hash of a key, which is not analysed
#define __asm__(...) ((void)0) // whole_word: no code

#endif
