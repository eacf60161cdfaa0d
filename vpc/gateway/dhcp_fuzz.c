// SPDX-License-Identifier: MPL-2.0
// The input is a DHCP message, wrapped as a guest would send it: first byte options of the blueprint and the family.
#include "vpc/gateway/fuzz_gateway.h"

#include "engine/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t wrap4(uint8_t *f, const uint8_t *message, uint32_t n)
{
    static const uint8_t head[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,   0,   0, 0,  0,  3, 8,
                                   0,    0x45, 0,    0,    0,    0,    0,   0,   0, 64, 17, 0, 0,
                                   0,    0,    0,    0,    255,  255,  255, 255, 0, 68, 0,  67};
    memcpy(f, head, sizeof(head));
    store_be16(f + 16, (uint16_t)(28 + n));
    checksum_write_ip4(f + 14);
    store_be16(f + 38, (uint16_t)(8 + n));
    memcpy(f + 42, message, n);
    return 42 + n;
}

static uint32_t wrap6(uint8_t *f, const uint8_t *message, uint32_t n)
{
    static const uint8_t head[] = {0x33, 0x33, 0, 1, 0, 2, 2, 0, 0, 0, 0, 3, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64};
    static const struct ip_addr src = {.b = {0xfe, 0x80, [15] = 7}}, dst = {.b = {0xff, 2, [13] = 1, 0, 2}};
    memcpy(f, head, sizeof(head));
    store_be16(f + 18, (uint16_t)(8 + n));
    memcpy(f + 22, src.b, 16);
    memcpy(f + 38, dst.b, 16);
    store_be16(f + 54, 546);
    store_be16(f + 56, 547);
    store_be16(f + 58, (uint16_t)(8 + n));
    memcpy(f + 62, message, n);
    checksum_write_l4(f + 54, 8 + n, &src, &dst, IPPROTO_UDP4);
    return 62 + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blueprint b;
    struct gateway g;
    struct parsed pp;
    struct gateway_note note;
    enum drop reason;
    static uint8_t frame[4096];
    if (size < 1 || size > 3000)
        return 0;
    fuzz_world(&b, &g, data[0]);
    uint32_t len = (data[0] & 0x80 ? wrap6 : wrap4)(frame, data + 1, (uint32_t)size - 1);
    struct packet p = fuzz_packet(frame, len, len, 0), twin = fuzz_packet(frame, len, len, 0xff);
    if (parse_frame(&p, &pp) == DROP_NONE) {
        enum gateway_verdict verdict = gateway_out(&g, &p, &pp, &reason, &note);
        if (verdict != gateway_out(&g, &twin, &pp, &reason, NULL))
            abort();
        fuzz_check_same(&p, &twin);
        if (verdict == GATEWAY_ANSWER)
            fuzz_check_answer(&p);
        if (verdict == GATEWAY_ANSWER && p.len > 14 + 1500)
            abort();
    }
    free(p.driver);
    free(twin.driver);
    return 0;
}
