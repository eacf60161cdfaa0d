// SPDX-License-Identifier: MPL-2.0
#include "tests/behaviour/pieces.h"

static bool is_v4(const struct frame *f)
{
    return f->bytes[14] >> 4 == 4;
}

static uint32_t headers_of(const struct frame *f) // of the whole: Ethernet and IP
{
    return is_v4(f) ? 34 : 54;
}

struct frame cut_one(const struct frame *whole, uint32_t offset, uint32_t bytes, bool more, uint32_t id)
{
    struct frame f = {0};
    uint32_t at = headers_of(whole), data = whole->len - at;
    uint32_t there = offset < data ? MIN(bytes, data - offset) : 0;
    memcpy(f.bytes, whole->bytes, at);
    uint8_t *l3 = f.bytes + 14;
    if (is_v4(whole)) {
        store_be16(l3 + 2, (uint16_t)(20 + bytes));
        store_be16(l3 + 4, (uint16_t)id);
        store_be16(l3 + 6, (uint16_t)(offset / 8 | (more ? 0x2000 : 0)));
        checksum_write_ip4(l3);
    } else {
        store_be16(l3 + 4, (uint16_t)(8 + bytes));
        f.bytes[at] = l3[6];
        store_be16(f.bytes + at + 2, (uint16_t)(offset | more));
        store_be32(f.bytes + at + 4, id);
        l3[6] = 44;
        at += 8;
    }
    f.len = at + bytes;
    assert_true(f.len <= sizeof(f.bytes));
    if (there)
        memcpy(f.bytes + at, whole->bytes + headers_of(whole) + offset, there);
    return f;
}

struct pieces cut(const struct frame *whole, uint32_t each, uint32_t id)
{
    struct pieces p = {0};
    uint32_t data = whole->len - headers_of(whole);
    for (uint32_t at = 0; at < data; at += each) {
        assert_true(p.n < PIECES);
        p.f[p.n++] = cut_one(whole, at, MIN(each, data - at), at + each < data, id);
    }
    return p;
}

bool is_piece(const struct frame *f)
{
    return is_v4(f) ? (load_be16(f->bytes + 20) & 0x3fff) != 0 : f->bytes[20] == 44;
}

struct frame join(const struct pieces *p)
{
    struct frame whole = {0};
    bool v4 = is_v4(&p->f[0]);
    uint32_t at = v4 ? 34 : 54, end = 0, bytes = 0;
    memcpy(whole.bytes, p->f[0].bytes, at);
    for (unsigned i = 0; i < p->n; i++) {
        const struct frame *f = &p->f[i];
        const uint8_t *l3 = f->bytes + 14, *fragment = l3 + 40;
        assert_true(is_piece(f));
        assert_memory_equal(f->bytes, whole.bytes, 14);
        assert_memory_equal(l3 + (v4 ? 12 : 8), whole.bytes + 14 + (v4 ? 12 : 8), v4 ? 8 : 32);
        assert_int_equal(l3[v4 ? 8 : 7], whole.bytes[14 + (v4 ? 8 : 7)]);
        if (v4)
            assert_int_equal(checksum_fold(checksum_add(0, l3, 20)), 0xffff);
        uint32_t skip = v4 ? 34 : 62;
        uint32_t offset = v4 ? (load_be16(l3 + 6) & 0x1fffu) * 8 : load_be16(fragment + 2) & 0xfff8u;
        bool more = v4 ? load_be16(l3 + 6) & 0x2000 : fragment[3] & 1;
        uint32_t n = f->len - skip;
        assert_int_equal(v4 ? load_be16(l3 + 2) - 20 : load_be16(l3 + 4) - 8, n);
        assert_true(at + offset + n <= sizeof(whole.bytes));
        memcpy(whole.bytes + at + offset, f->bytes + skip, n);
        bytes += n;
        if (!more)
            end = offset + n;
        if (!v4 && offset == 0)
            whole.bytes[20] = fragment[0];
    }
    assert_int_equal(bytes, end);
    whole.len = at + end;
    if (v4) {
        store_be16(whole.bytes + 16, (uint16_t)(20 + end));
        store_be16(whole.bytes + 20, 0);
        checksum_write_ip4(whole.bytes + 14);
    } else {
        store_be16(whole.bytes + 18, (uint16_t)end);
    }
    return whole;
}

void order_of(unsigned n, unsigned i, unsigned *order)
{
    for (unsigned k = 0; k < n; k++)
        order[k] = k;
    for (unsigned left = n; left > 1; left--) {
        unsigned other = i % left, was = order[left - 1];
        order[left - 1] = order[other];
        order[other] = was;
        i /= left;
    }
}
