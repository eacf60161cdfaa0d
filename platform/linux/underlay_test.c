// SPDX-License-Identifier: MPL-2.0
// Super-frames on the underlay: cut on sending, split and merged on receipt.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "platform/linux/test_frame.h"
#include "platform/linux/underlay_gro.h"

// ---- Segmentation

// The reference: software GSO of the inner frame by hand, then encapsulation of each segment.
static uint32_t reference_segment(uint8_t *out, const struct shape *whole, uint32_t mss, unsigned index, unsigned count)
{
    struct shape s = *whole;
    s.payload = MIN(mss, whole->payload - index * mss);
    s.seq = whole->seq + index * mss;
    s.id = (uint16_t)(whole->id + index);
    if (index + 1 < count)
        s.flags &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    if (index > 0)
        s.flags &= (uint8_t)~CWR;
    uint32_t inner = put_frame(out + GENEVE_ENCAP_LEN, &s);
    put_outer(out, inner, 50000);
    complete_outer(out, GENEVE_ENCAP_LEN + inner);
    return GENEVE_ENCAP_LEN + inner;
}

// What the kernel makes of a UDP_L4 write: one frame per gso_size of payload. Checks each against the reference.
static unsigned check_write(const struct gso_writer *w, const struct shape *whole, uint32_t mss, unsigned first,
                            unsigned count)
{
    static uint8_t joined[70000], frame[70000], expected[70000];
    uint32_t len = 0;
    for (unsigned i = 1; i < w->n_iov; i++) {
        memcpy(joined + len, w->iov[i].iov_base, w->iov[i].iov_len);
        len += (uint32_t)w->iov[i].iov_len;
    }
    assert_int_equal(len, w->bytes);
    assert_true(len <= 65535);
    assert_int_equal(load_be16(joined + 18), len - 54);
    assert_int_equal(load_be16(joined + 58), len - 54);
    assert_int_equal(w->vnet.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    assert_int_equal(w->vnet.csum_start, OUTER_UDP);
    assert_int_equal(w->vnet.hdr_len, OUTER_LEN);
    struct ip_addr src = ip_from_v6(joined + 22), dst = ip_from_v6(joined + 38);
    uint16_t sum;
    memcpy(&sum, joined + 60, 2);
    assert_int_equal(sum, checksum_fold(checksum_pseudo(&src, &dst, 17, len - 54)));
    uint32_t size = w->vnet.gso_type ? w->vnet.gso_size : len - OUTER_LEN;
    unsigned n = 0;
    for (uint32_t at = OUTER_LEN; at < len; at += size, n++) {
        uint32_t part = MIN(size, len - at);
        memcpy(frame, joined, OUTER_LEN);
        memcpy(frame + OUTER_LEN, joined + at, part);
        store_be16(frame + 18, (uint16_t)(part + 8));
        store_be16(frame + 58, (uint16_t)(part + 8));
        complete_outer(frame, OUTER_LEN + part);
        uint32_t want = reference_segment(expected, whole, mss, first + n, count);
        assert_int_equal(OUTER_LEN + part, want);
        assert_memory_equal(frame, expected, want);
    }
    return n;
}

static void check_gso(struct shape s, uint32_t mss, uint8_t csum, unsigned max_writes)
{
    static uint8_t buffer[70000];
    static struct gso_writer w;
    struct packet p = {.data = buffer};
    uint32_t inner = put_frame(buffer + GENEVE_ENCAP_LEN, &s);
    put_outer(buffer, inner, 50000);
    p.len = p.head = GENEVE_ENCAP_LEN + inner;
    p.room = sizeof(buffer);
    p.encap_len = GENEVE_ENCAP_LEN;
    p.csum = csum;
    p.csum_start = (uint16_t)(p.len - s.payload - l4_header(&s));
    p.csum_offset = s.udp ? UDP_CSUM_OFFSET : TCP_CSUM_OFFSET;
    p.gso_type = s.udp ? GSO_UDP : s.v6 ? GSO_TCP6 : GSO_TCP4;
    p.gso_size = (uint16_t)mss;
    memset(buffer + p.csum_start + p.csum_offset, 0xee, 2); // whatever stands there, it is computed anew
    struct gso_plan plan;
    assert_true(gso_plan_init(&plan, &p));
    unsigned count = (s.payload + mss - 1) / mss, done = 0, writes = 0;
    assert_int_equal(plan.segments, count);
    while (done < count) {
        unsigned n = gso_build(&w, &plan, done);
        assert_true(n > 0 && n <= GSO_MAX_SEGMENTS);
        assert_int_equal(check_write(&w, &s, mss, done, count), n);
        done += n;
        writes++;
    }
    assert_int_equal(done, count);
    assert_true(writes <= max_writes);
}

static void test_gso(void **state)
{
    struct shape s = {.flags = TCP_ACK | TCP_PSH | TCP_FIN | CWR, .options = 12, .seq = 0xffffff00, .id = 0xfffe};
    for (int v6 = 0; v6 < 2; v6++) {
        s.v6 = v6;
        uint32_t headers = (s.v6 ? 40u : 20u) + 32;
        s.payload = 65535 - headers - 100;
        check_gso(s, 1430 - headers, CSUM_PARTIAL, 2);
        check_gso(s, 8930 - headers, CSUM_PARTIAL, 2);
        check_gso(s, 8930 - headers, CSUM_VERIFIED, 2);
        check_gso(s, 100, CSUM_PARTIAL, 10); // 128 segments a write
        check_gso(s, 60000, CSUM_PARTIAL, 2);
        for (uint32_t payload = 1378 * 2 - 1; payload <= 1378 * 2 + 1; payload++) {
            s.payload = payload;
            check_gso(s, 1378, CSUM_PARTIAL, 1);
        }
        s.payload = 17; // smaller than one segment
        check_gso(s, 1378, CSUM_PARTIAL, 1);
    }
}

static void test_gso_udp(void **state)
{
    struct shape s = {.udp = true, .payload = 40000, .id = 7};
    check_gso(s, 1200, CSUM_PARTIAL, 1);
    s.v6 = true;
    check_gso(s, 1200, CSUM_PARTIAL, 1);
}

static void test_gso_bad(void **state)
{
    uint8_t buffer[400];
    struct shape s = {.flags = TCP_ACK, .payload = 200};
    uint32_t inner = put_frame(buffer + GENEVE_ENCAP_LEN, &s);
    put_outer(buffer, inner, 50000);
    const struct packet good = {.data = buffer,
                                .len = GENEVE_ENCAP_LEN + inner,
                                .encap_len = GENEVE_ENCAP_LEN,
                                .csum = CSUM_PARTIAL,
                                .csum_start = 104,
                                .csum_offset = 16,
                                .gso_type = GSO_TCP4,
                                .gso_size = 100};
    struct gso_plan plan;
    struct packet p = good;
    assert_true(gso_plan_init(&plan, &p));
    p.gso_size = 0;
    assert_false(gso_plan_init(&plan, &p));
    p = good;
    p.gso_type = GSO_TCP6;
    assert_false(gso_plan_init(&plan, &p));
    p = good;
    p.gso_size = 65500;
    assert_false(gso_plan_init(&plan, &p));
    for (unsigned start = 0; start < 400; start++) { // any start: an answer, no read outside
        p = good;
        p.csum_start = (uint16_t)start;
        gso_plan_init(&plan, &p);
    }
    for (uint32_t len = 0; len < good.len; len++) {
        uint8_t *exact = malloc(len ? len : 1);
        memcpy(exact, buffer, len);
        p = good;
        p.data = exact;
        p.len = len;
        gso_plan_init(&plan, &p);
        p.csum = CSUM_VERIFIED;
        gso_plan_init(&plan, &p);
        free(exact);
    }
}

// ---- Merging

struct sink {
    struct buffers pool;
    struct gro gro;
    struct packet *got[256];
    unsigned n;
};

static void sink_deliver(void *ctx, struct packet **packets, unsigned n)
{
    struct sink *s = ctx;
    assert_true(n > 0 && n <= PLATFORM_BATCH);
    for (unsigned i = 0; i < n; i++)
        s->got[s->n++] = packets[i];
}

static struct sink *sink_new(void)
{
    struct sink *s = calloc(1, sizeof(*s));
    assert_true(buffers_init(&s->pool, 1, 512, 128));
    s->gro = (struct gro){.buffers = &s->pool, .deliver = sink_deliver, .ctx = s};
    return s;
}

static void sink_free(struct sink *s)
{
    buffers_destroy(&s->pool);
    free(s);
}

static struct packet *datagram(struct sink *s, const struct shape *shape, uint16_t sport)
{
    struct packet *p = buffers_alloc(&s->pool, 0, BUFFER_CLASS_LARGE);
    uint32_t inner = put_frame(p->data + GENEVE_ENCAP_LEN, shape);
    put_outer(p->data, inner, sport);
    p->len = p->head = GENEVE_ENCAP_LEN + inner;
    complete_outer(p->data, p->len);
    return p;
}

static void receive(struct sink *s, struct packet *p)
{
    struct virtio_net_hdr h = {0};
    gro_receive(&s->gro, p, &h);
}

// The frame holds the stream's bytes from seq on, as one IP packet, under one outer header.
static void check_merged(const struct packet *p, const struct shape *first, uint32_t payload, unsigned segments)
{
    uint32_t headers = GENEVE_ENCAP_LEN + 14 + (first->v6 ? 40 : 20) + l4_header(first);
    assert_int_equal(p->len, headers + payload);
    assert_int_equal(load_be16(p->data + 18), p->len - 54);
    assert_int_equal(load_be16(p->data + 58), p->len - 54);
    assert_int_equal(p->gso_type, segments < 2 ? GSO_NONE : first->v6 ? GSO_TCP6 : GSO_TCP4);
    assert_int_equal(p->gso_size, segments < 2 ? 0 : first->payload);
    if (first->v6) {
        assert_int_equal(load_be16(p->data + 70 + 14 + 4), p->len - 70 - 14 - 40);
    } else {
        assert_int_equal(load_be16(p->data + 70 + 14 + 2), p->len - 70 - 14);
        assert_int_equal(checksum_fold(checksum_add(0, p->data + 84, 20)), 0xffff);
    }
    for (uint32_t i = 0; i < payload; i++)
        assert_int_equal(p->data[headers + i], stream_byte(first->seq + i));
    struct packet inner = *p; // and the engine's parser takes it
    struct parsed parsed;
    packet_pull(&inner, GENEVE_ENCAP_LEN);
    assert_int_equal(parse_frame(&inner, &parsed), DROP_NONE);
}

static void test_gro_merges(void **state)
{
    for (int v6 = 0; v6 < 2; v6++) {
        struct sink *s = sink_new();
        struct shape first = {.v6 = v6, .flags = TCP_ACK, .options = 12, .seq = 1000, .payload = 1300, .id = 0xffff};
        struct shape next = first;
        for (unsigned i = 0; i < 10; i++) {
            next.seq = first.seq + i * 1300;
            next.id = (uint16_t)(first.id + i);
            next.payload = i == 9 ? 77 : 1300;
            next.flags = i == 9 ? TCP_ACK | PSH : TCP_ACK;
            receive(s, datagram(s, &next, 50000));
        }
        gro_flush(&s->gro);
        assert_int_equal(s->n, 1);
        check_merged(s->got[0], &first, 9 * 1300 + 77, 10);
        assert_int_equal(s->got[0]->data[70 + 14 + (v6 ? 40 : 20) + 13], TCP_ACK | PSH);
        assert_int_equal(s->got[0]->csum, CSUM_VERIFIED);
        assert_int_equal(s->gro.merged, 9);
        sink_free(s);
    }
}

// A second segment that differs in any way stands alone.
static void test_gro_refuses(void **state)
{
    enum { ID = 1, SEQ, ACK, WINDOW, FIN, LARGER, TTL, TOS, OPTION, OUTER_TOS, SPORT, VNI, NODE, MAC, CHECKSUM, CASES };
    for (int c = 0; c < CASES; c++) {
        struct sink *s = sink_new();
        struct shape a = {.flags = TCP_ACK, .options = 12, .seq = 5, .payload = 500, .id = 9}, b = a;
        b.seq += 500 + (c == SEQ);
        b.id = (uint16_t)(b.id + (c == ID ? 2 : 1));
        b.flags |= c == FIN ? TCP_FIN : 0;
        b.payload = c == LARGER ? 501 : 500;
        receive(s, datagram(s, &a, 50000));
        struct packet *p = datagram(s, &b, c == SPORT ? 50001 : 50000);
        uint8_t *ip = p->data + 84, *tcp = ip + 20;
        struct ip_addr src = ip_from_v4(ip + 12), dst = ip_from_v4(ip + 16);
        tcp[8] ^= c == ACK;
        tcp[15] ^= c == WINDOW;
        ip[8] ^= c == TTL;
        ip[1] ^= c == TOS;
        tcp[25] ^= c == OPTION;
        checksum_write_ip4(ip);
        checksum_write_l4(tcp, p->len - 104, &src, &dst, 6);
        tcp[60] ^= c == CHECKSUM;
        p->data[15] ^= c == OUTER_TOS ? 0x10 : 0;
        p->data[68] ^= c == VNI;
        p->data[37] ^= c == NODE;
        p->data[75] ^= c == MAC;
        complete_outer(p->data, p->len);
        receive(s, p);
        gro_flush(&s->gro);
        assert_int_equal(s->n, c == 0 ? 1 : 2);
        sink_free(s);
    }
}

static void test_gro_order(void **state)
{
    struct sink *s = sink_new();
    struct shape a = {.flags = TCP_ACK, .seq = 0, .payload = 200, .id = 1}, b = {.udp = true, .payload = 30};
    receive(s, datagram(s, &a, 50000)); // 0
    receive(s, datagram(s, &b, 50000)); // 1: another protocol, does not disturb
    a.seq = 200, a.id = 2;
    receive(s, datagram(s, &a, 50000)); // into 0
    struct shape fin = a;
    fin.seq = 400, fin.id = 3, fin.flags = TCP_ACK | TCP_FIN, fin.payload = 0;
    receive(s, datagram(s, &fin, 50000)); // 2: the same flow: closes 0
    a.seq = 400, a.id = 3;
    receive(s, datagram(s, &a, 50000)); // 3: not into 0, it would overtake
    gro_flush(&s->gro);
    assert_int_equal(s->n, 4);
    assert_int_equal(s->got[0]->gso_size, 200);
    assert_int_equal(s->got[3]->gso_type, GSO_NONE);
    sink_free(s);
}

static void test_gro_bad_outer(void **state)
{
    struct sink *s = sink_new();
    struct shape a = {.flags = TCP_ACK, .seq = 0, .payload = 200, .id = 1};
    struct packet *p = datagram(s, &a, 50000);
    receive(s, p);
    a.seq = 200, a.id = 2;
    p = datagram(s, &a, 50000);
    p->data[60] ^= 1;
    receive(s, p);
    gro_flush(&s->gro);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->got[0]->csum, CSUM_VERIFIED);
    assert_int_equal(s->got[1]->csum, CSUM_FULL); // the core sees it and counts it
    sink_free(s);
}

// A write of ours, received: split and merged, the guest's frame is back.
static void test_round_trip(void **state)
{
    static struct gso_writer w;
    for (int v6 = 0; v6 < 2; v6++) {
        struct sink *s = sink_new();
        struct shape whole = {.v6 = v6, .flags = TCP_ACK | PSH, .options = 12, .seq = 77, .payload = 60000, .id = 3};
        struct shape first = whole;
        first.payload = 1378;
        struct packet *p = datagram(s, &whole, 50000);
        p->encap_len = GENEVE_ENCAP_LEN;
        p->csum = CSUM_VERIFIED;
        p->gso_type = v6 ? GSO_TCP6 : GSO_TCP4;
        p->gso_size = 1378;
        struct gso_plan plan;
        assert_true(gso_plan_init(&plan, p));
        assert_int_equal(gso_build(&w, &plan, 0), plan.segments);
        struct packet *wire = buffers_alloc(&s->pool, 0, BUFFER_CLASS_LARGE);
        for (unsigned i = 1; i < w.n_iov; i++) {
            memcpy(wire->data + wire->len, w.iov[i].iov_base, w.iov[i].iov_len);
            wire->len += (uint32_t)w.iov[i].iov_len;
        }
        gro_receive(&s->gro, wire, &w.vnet);
        gro_flush(&s->gro);
        assert_int_equal(s->n, 1);
        check_merged(s->got[0], &first, 60000, 44);
        assert_memory_equal(s->got[0]->data + 70, p->data + 70, 14 + (v6 ? 40 : 20) + 16); // all but the checksum
        sink_free(s);
    }
}

// 200 small datagrams in one UDP super-frame that cannot be merged: more than a batch.
static void test_gro_split_many(void **state)
{
    struct sink *s = sink_new();
    struct packet *p = buffers_alloc(&s->pool, 0, BUFFER_CLASS_LARGE);
    struct shape a = {.udp = true, .payload = 40};
    uint32_t inner = put_frame(p->data + GENEVE_ENCAP_LEN, &a), size = inner + 8;
    put_outer(p->data, inner, 50000);
    for (unsigned i = 1; i < 200; i++)
        memcpy(p->data + OUTER_LEN + i * size, p->data + OUTER_LEN, size);
    p->len = OUTER_LEN + 200 * size;
    struct virtio_net_hdr h = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                               .csum_start = OUTER_UDP,
                               .csum_offset = 6,
                               .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
                               .gso_size = (uint16_t)size};
    gro_receive(&s->gro, p, &h);
    gro_flush(&s->gro);
    assert_int_equal(s->n, 200);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(s->got[i]->len, OUTER_LEN + size);
        assert_int_equal(load_be16(s->got[i]->data + 58), size + 8);
        assert_int_equal(s->got[i]->csum, CSUM_VERIFIED);
        assert_ptr_not_equal(s->got[i], p);
    }
    sink_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "T69 a TCP super-frame leaves as the segments software GSO makes, byte for byte",
         .test_func = test_gso},
        {.name = "a UDP super-frame leaves as its datagrams", .test_func = test_gso_udp},
        {.name = "impossible segmentation metadata is refused, whatever the frame", .test_func = test_gso_bad},
        {.name = "consecutive segments of one flow arrive as one frame", .test_func = test_gro_merges},
        {.name = "a segment that differs in anything is not merged", .test_func = test_gro_refuses},
        {.name = "merging never changes the order within a flow", .test_func = test_gro_order},
        {.name = "a wrong outer checksum is left for the core to count", .test_func = test_gro_bad_outer},
        {.name = "what we split on sending is whole again on receipt", .test_func = test_round_trip},
        {.name = "a UDP super-frame of 200 unrelated datagrams is split", .test_func = test_gro_split_many},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
