// SPDX-License-Identifier: MPL-2.0
// base.h: the few words of C that every freestanding folder shares.
//
// engine, vpc and core include no OS header. The compiler may still emit calls to the four memory
// functions below; every environment that hosts them (libc, a kernel, BPF builtins) has them.
#ifndef NEREUS_ENGINE_BASE_H
#define NEREUS_ENGINE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict dst, const void *restrict src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
#ifdef NEREUS_FREESTANDING // -ffreestanding makes a call of each, also for six bytes
#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset
#define memcmp __builtin_memcmp
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CACHE_LINE 64
// Keeps the compiler from storing a word in halves, or loading two at once: a load that spans two stores not yet
// in the cache waits for them, 10 ns a time. For words written and read back at once, as keys are to be hashed.
#define whole_word(x) __asm__("" : "+r"(x))
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE)))

// Unaligned loads and stores of big-endian (network order) fields; values are host order.
static inline uint16_t load_be16(const void *p)
{
    uint16_t v;
    __builtin_memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline uint32_t load_be32(const void *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t load_be64(const void *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}

static inline void store_be16(void *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    __builtin_memcpy(p, &v, 2);
}

static inline void store_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    __builtin_memcpy(p, &v, 4);
}

static inline void store_be64(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    __builtin_memcpy(p, &v, 8);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "load_be/store_be assume a little-endian host");

#endif
