// SPDX-License-Identifier: MPL-2.0
// The input is a frame: one byte of options and packet metadata in front.
#include "vpc/gateway/fuzz_gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blueprint b;
    struct gateway g;
    struct parsed pp;
    struct gateway_note note;
    enum drop reason;
    if (size < 2 || size > 4096)
        return 0;
    fuzz_world(&b, &g, data[0]);
    uint32_t len = (uint32_t)size - 2, head = data[0] & 0x10 ? MIN(len, 256) : len;
    struct packet p = fuzz_packet(data + 2, len, head);
    p.csum = data[0] >> 5 & 1 ? CSUM_VERIFIED : data[0] >> 6 & 1 ? CSUM_PARTIAL : CSUM_FULL;
    p.csum_start = data[1];
    p.csum_offset = data[1] & 1 ? 16 : 2;
    if (parse_frame(&p, &pp) != DROP_NONE) {
        free(p.driver);
        return 0;
    }
    gateway_in(&g, &p, &pp, &reason);
    struct packet err = fuzz_packet(data + 2, len, head), rst = fuzz_packet(data + 2, len, head);
    err.csum = rst.csum = p.csum;
    if (gateway_out(&g, &p, &pp, &reason, &note) == GATEWAY_ANSWER)
        fuzz_check_answer(&p);
    const struct ip_addr *from = pp.ip_version == 4 ? &b.gateway.v4 : &b.gateway.v6;
    if (icmp_make_error(&err, &pp, data[1] % 4, b.vpc.mtu, from, &b.gateway.mac, &pp.src_mac))
        fuzz_check_answer(&err);
    if (tcp_make_reset(&rst, &pp, &b.gateway.mac, &pp.src_mac))
        fuzz_check_answer(&rst);
    free(p.driver);
    free(err.driver);
    free(rst.driver);
    return 0;
}
