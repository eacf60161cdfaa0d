// SPDX-License-Identifier: MPL-2.0
// Decapsulates any outer frame. Input: checksum mode, zero allowed, then the frame.
#include <stdlib.h>
#include <string.h>

#include "engine/geneve.h"
#include "engine/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 4096)
        return 0;
    uint32_t n = (uint32_t)(size - 2);
    uint8_t *frame = malloc(n ? n : 1);
    memcpy(frame, data + 2, n);
    struct packet p = {.data = frame, .len = n, .head = n, .room = n, .csum = data[0] % 3, .csum_start = 54};
    struct geneve_info info;
    struct parsed pp;
    if (geneve_parse(&p, &info, data[1] & 1) == DROP_NONE) {
        if (info.inner > p.head || p.head > n || info.vni > 0xffffff)
            abort();
        packet_pull(&p, info.inner);
        if (parse_frame(&p, &pp) == DROP_NONE && pp.ip_version)
            geneve_decap_ecn(p.data + pp.l3, pp.ip_version, info.outer_tos);
    }
    free(frame);
    return 0;
}
