// SPDX-License-Identifier: MPL-2.0
// The underlay's receive path (split and merge) and, on what comes out, the send path, over hostile frames in buffers
// of exactly their size. Input: records of flags (1 byte: vnet flags, room, gso), gso size (2), length (2), frame.
#include <stdlib.h>
#include <string.h>

#include "engine/geneve.h"
#include "platform/linux/underlay_gro.h"
#include "platform/linux/underlay_gso.h"

#define FUZZ_FRAMES 64

enum { FLAG_PARTIAL = 1, FLAG_VALID = 2, FLAG_GSO = 4, FLAG_ROOM = 8 };

static unsigned live;

// A pool of exact allocations instead of buffers.c: every byte beyond a frame's room is out of bounds.
static struct packet *new_packet(uint32_t room)
{
    struct buffer *b = malloc(sizeof(*b) + BUFFER_HEADROOM + room);
    if (!b)
        abort();
    b->packet = (struct packet){.data = b->bytes + BUFFER_HEADROOM, .room = room, .headroom = BUFFER_HEADROOM};
    live++;
    return &b->packet;
}

struct packet *buffers_alloc(struct buffers *pool, unsigned user, enum buffer_class class)
{
    return new_packet(class == BUFFER_CLASS_SMALL ? BUFFER_SMALL : BUFFER_LARGE);
}

void buffers_free(struct buffers *pool, unsigned user, struct packet *p)
{
    live--;
    free(p);
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void deliver(void *ctx, struct packet **packets, unsigned n)
{
    static struct gso_writer writer;
    check(n > 0 && n <= PLATFORM_BATCH);
    for (unsigned i = 0; i < n; i++) {
        struct packet *p = packets[i], parsed = *p;
        struct geneve_info g;
        check(p->len == p->head && p->len <= p->room);
        if (p->gso_type != GSO_NONE) { // only well-formed frames are merged
            check(p->csum == CSUM_VERIFIED && p->gso_size > 0 && p->len > p->gso_size + 70u);
            check(geneve_parse(&parsed, &g, false) == DROP_NONE && parsed.len == p->len);
        }
        struct gso_plan plan;
        p->encap_len = GENEVE_ENCAP_LEN;
        if (p->gso_type != GSO_NONE && gso_plan_init(&plan, p))
            for (unsigned first = 0; first < plan.segments;)
                first += gso_build(&writer, &plan, first);
        buffers_free(NULL, 0, p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gro g = {.deliver = deliver};
    for (unsigned n = 0; size >= 5 && n < FUZZ_FRAMES; n++) {
        uint8_t flags = data[0];
        uint16_t gso_size = load_be16(data + 1);
        uint32_t len = MIN(load_be16(data + 3), (uint32_t)size - 5);
        struct packet *p = new_packet(flags & FLAG_ROOM ? BUFFER_LARGE : len);
        memcpy(p->data, data + 5, len);
        p->len = p->head = len;
        struct virtio_net_hdr h = {.gso_size = gso_size};
        if (flags & FLAG_PARTIAL)
            h = (struct virtio_net_hdr){.flags = 1, .csum_start = OUTER_UDP, .csum_offset = 6, .gso_size = gso_size};
        if (flags & FLAG_VALID)
            h.flags |= VIRTIO_NET_HDR_F_DATA_VALID;
        if (flags & FLAG_GSO)
            h.gso_type = flags & 0x80 ? flags >> 4 : VIRTIO_NET_HDR_GSO_UDP_L4;
        gro_receive(&g, p, &h);
        data += 5 + len;
        size -= 5 + len;
    }
    gro_flush(&g);
    check(live == 0);
    return 0;
}
