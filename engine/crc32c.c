// SPDX-License-Identifier: MPL-2.0
#include "engine/crc32c.h"

#define POLYNOMIAL 0x82f63b78u // Castagnoli, reflected: bit 31 is x^0

static inline uint32_t times_x(uint32_t a)
{
    return (a >> 1) ^ (POLYNOMIAL & (0u - (a & 1)));
}

// a * b modulo the polynomial.
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (unsigned i = 0; i < 32; i++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = times_x(b);
    }
    return product;
}

uint32_t crc32c_change(const uint8_t xored[4], uint32_t behind)
{
    uint32_t crc = xored[0] | (uint32_t)xored[1] << 8 | (uint32_t)xored[2] << 16 | (uint32_t)xored[3] << 24;
    for (unsigned i = 0; i < 32; i++)
        crc = times_x(crc);
    uint32_t power = 0x00800000; // x^8: one byte further
    for (; behind; behind >>= 1) {
        if (behind & 1)
            crc = multiply(power, crc);
        power = multiply(power, power);
    }
    return crc;
}
