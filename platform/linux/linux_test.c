// SPDX-License-Identifier: MPL-2.0
// Unit tests of the driver's parts that need no device and no root.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the others first
#include <cmocka.h>

#include "platform/linux/buffers.h"
#include "platform/linux/epochs.h"
#include "platform/linux/packet_socket.h"
#include "platform/linux/tc.h"
#include "platform/linux/test_frame.h"
#include "platform/linux/vnet.h"
#include "platform/linux/zones.h"

// ---- Offload metadata

static void test_vnet(void **state)
{
    uint8_t buffer[300];
    struct shape s = {.flags = TCP_ACK | CWR, .payload = 100};
    struct packet p = {.data = buffer, .len = put_frame(buffer, &s), .room = sizeof(buffer)};
    struct virtio_net_hdr h = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16}, out;
    assert_true(vnet_to_packet(&h, &p));
    assert_int_equal(p.csum, CSUM_PARTIAL);
    assert_true(vnet_from_packet(&p, &out));
    assert_memory_equal(&h, &out, sizeof(h));
    h.csum_start = (uint16_t)(p.len - 17);
    assert_false(vnet_to_packet(&h, &p));
    h.csum_start = 0xffff, h.csum_offset = 0xffff;
    assert_false(vnet_to_packet(&h, &p));
    h.csum_start = 0, h.csum_offset = 16;
    assert_false(vnet_to_packet(&h, &p));
    h = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_DATA_VALID};
    assert_true(vnet_to_packet(&h, &p));
    assert_int_equal(p.csum, CSUM_VERIFIED);
    h.gso_type = 3; // UFO
    h.gso_size = 100;
    assert_false(vnet_to_packet(&h, &p));
    h.gso_type = VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN;
    h.gso_size = 0;
    assert_false(vnet_to_packet(&h, &p));
    h.gso_size = 0xffff;
    assert_false(vnet_to_packet(&h, &p));
    h.gso_size = 40;
    assert_true(vnet_to_packet(&h, &p));
    assert_int_equal(p.gso_type, GSO_TCP4);
    // A super-frame goes out with a partial checksum, whatever stood there.
    memset(buffer + 50, 0xff, 2);
    assert_true(vnet_from_packet(&p, &out));
    assert_int_equal(out.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    assert_int_equal(out.csum_start, 34);
    assert_int_equal(out.hdr_len, 54);
    assert_int_equal(out.gso_type, VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN);
    uint8_t want[300];
    put_frame(want, &s);
    p.gso_type = GSO_NONE;
    vnet_complete_checksum(&p);
    assert_memory_equal(buffer, want, p.len);
    assert_int_equal(p.csum, CSUM_FULL);
    p.gso_type = 9;
    assert_false(vnet_from_packet(&p, &out));
}

// ---- Buffers, epochs, zones

static void *free_elsewhere(void *arg)
{
    void **a = arg;
    struct buffers *pool = a[0];
    struct packet **packets = a[1];
    for (unsigned i = 0; i < 200; i++)
        buffers_free(pool, 1, packets[i]);
    return NULL;
}

static void test_buffers(void **state)
{
    struct buffers pool;
    struct packet *p[200];
    assert_true(buffers_init(&pool, 2, 200, 4));
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 200; i++) {
            p[i] = buffers_alloc(&pool, 0, BUFFER_CLASS_SMALL);
            assert_non_null(p[i]);
            assert_true(p[i]->headroom >= PACKET_HEADROOM && p[i]->room >= PACKET_MIN_ROOM);
            memset(p[i]->data - p[i]->headroom, 0xff, p[i]->headroom + p[i]->room);
        }
        assert_null(buffers_alloc(&pool, 0, BUFFER_CLASS_SMALL));
        pthread_t t;
        void *arg[2] = {&pool, p};
        pthread_create(&t, NULL, free_elsewhere, arg);
        pthread_join(t, NULL);
        // Worker 1 keeps some in its cache; a thread without a cache reaches the depot.
        struct packet *q = buffers_alloc(&pool, 99, BUFFER_CLASS_SMALL);
        assert_non_null(q);
        buffers_free(&pool, 99, q);
        while (pool.caches[1].stack[BUFFER_CLASS_SMALL].top) // give all back to the depot
            buffers_free(&pool, 99, buffers_alloc(&pool, 1, BUFFER_CLASS_SMALL));
    }
    buffers_destroy(&pool);
}

static void count_call(void *arg, uint64_t value)
{
    *(uint64_t *)arg += value;
}

static void test_epochs(void **state)
{
    struct epochs e;
    uint64_t calls = 0;
    assert_true(epochs_init(&e, -1));
    epochs_online(&e, 0);
    epochs_defer(&e, count_call, &calls, 1);
    assert_false(epochs_run(&e));
    assert_int_equal(calls, 0); // worker 0 may still look
    epochs_online(&e, 1);       // came later: does not hold it up
    epochs_quiescent(&e, 0);
    assert_true(epochs_run(&e));
    assert_int_equal(calls, 1);
    epochs_defer(&e, count_call, &calls, 10);
    epochs_offline(&e, 0);
    assert_false(epochs_run(&e));
    epochs_offline(&e, 1);
    assert_true(epochs_run(&e));
    assert_int_equal(calls, 11);
    epochs_online(&e, 0);
    for (unsigned i = 0; i < 10000; i++) // the queue grows
        epochs_defer(&e, count_call, &calls, 1);
    epochs_offline(&e, 0);
    epochs_destroy(&e); // runs the rest
    assert_int_equal(calls, 10011);
}

struct shared { // a pointer swapped under readers
    struct epochs epochs;
    int *value;
    bool stop;
};

static void poison(void *arg, uint64_t value)
{
    *(int *)arg = -1;
    free(arg);
}

static void *reader(void *arg)
{
    struct shared *s = arg;
    static unsigned next;
    unsigned worker = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 2;
    while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
        epochs_online(&s->epochs, worker);
        for (int i = 0; i < 8; i++) {
            int *v = __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
            assert_int_equal(*v, 42);
            epochs_quiescent(&s->epochs, worker);
        }
        epochs_offline(&s->epochs, worker);
    }
    return NULL;
}

static void test_epochs_threads(void **state)
{
    struct shared s = {.stop = false};
    pthread_t t[2];
    assert_true(epochs_init(&s.epochs, -1));
    s.value = malloc(sizeof(int));
    *s.value = 42;
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, reader, &s);
    for (int i = 0; i < 5000; i++) {
        int *fresh = malloc(sizeof(int)), *old = s.value;
        *fresh = 42;
        __atomic_store_n(&s.value, fresh, __ATOMIC_RELEASE);
        epochs_defer(&s.epochs, poison, old, 0);
        epochs_run(&s.epochs);
    }
    __atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    epochs_destroy(&s.epochs);
    free(s.value);
}

static void test_zones(void **state)
{
    char dir[] = "/tmp/nrl-zones-XXXXXX", error[160], path[300];
    assert_non_null(mkdtemp(dir));
    struct zones z, other;
    bool kept = true;
    assert_true(zones_init(&z, dir, error, sizeof(error)));
    assert_false(zones_init(&other, dir, error, sizeof(error)));
    assert_non_null(strstr(error, "in use"));
    zones_destroy(&other);
    uint8_t *m = zones_get(&z, "flows", 10000, true, &kept);
    assert_non_null(m);
    assert_false(kept);
    assert_int_equal(m[0] | m[9999], 0);
    m[9999] = 7;
    assert_null(zones_get(&z, "../x", 10, true, &kept));
    assert_null(zones_get(&z, "flows", 0, true, &kept));
    zones_destroy(&z);

    assert_true(zones_init(&z, dir, error, sizeof(error))); // the next process
    m = zones_get(&z, "flows", 10000, true, &kept);
    assert_true(kept);
    assert_int_equal(m[9999], 7);
    zones_destroy(&z);

    assert_true(zones_init(&z, dir, error, sizeof(error)));
    m = zones_get(&z, "flows", 20000, true, &kept); // another layout: not adopted
    assert_false(kept);
    assert_int_equal(m[9999], 0);
    m[0] = 9;
    zones_destroy(&z);

    snprintf(path, sizeof(path), "%s/zone-flows", dir); // a file that is none
    FILE *f = fopen(path, "r+");
    fputs("garbage", f);
    fclose(f);
    assert_true(zones_init(&z, dir, error, sizeof(error)));
    m = zones_get(&z, "flows", 20000, true, &kept);
    assert_false(kept);
    assert_int_equal(m[0], 0);
    m[0] = 5;
    m = zones_get(&z, "flows", 20000, false, NULL); // without keep: fresh, and nothing stays behind
    assert_int_equal(m[0], 0);
    assert_int_not_equal(access(path, F_OK), 0);
    zones_destroy(&z);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

// ---- Filters

// Runs a classic filter on a frame, as far as ours goes.
static bool filter_accepts(const struct sock_filter *f, unsigned n, const uint8_t *frame, uint32_t len)
{
    uint32_t a = 0;
    for (unsigned i = 0; i < n; i++) {
        switch (BPF_CLASS(f[i].code)) {
        case BPF_LD: {
            uint32_t size = BPF_SIZE(f[i].code) == BPF_W ? 4 : BPF_SIZE(f[i].code) == BPF_H ? 2 : 1;
            if (f[i].k >= (uint32_t)SKF_AD_OFF)
                a = 0; // for us, untagged
            else if (f[i].k + size > len)
                return false;
            else
                a = size == 4 ? load_be32(frame + f[i].k) : size == 2 ? load_be16(frame + f[i].k) : frame[f[i].k];
            break;
        }
        case BPF_JMP:
            i += a == f[i].k ? f[i].jt : f[i].jf;
            break;
        default:
            return f[i].k != 0;
        }
    }
    return false;
}

static void test_filters(void **state)
{
    struct sock_filter f[GENEVE_FILTER_MAX];
    struct bpf_insn program[TC_PROGRAM_MAX];
    uint8_t frame[200];
    struct shape s = {.udp = true, .payload = 40};
    uint32_t len = GENEVE_ENCAP_LEN + put_frame(frame + GENEVE_ENCAP_LEN, &s);
    put_outer(frame, len - GENEVE_ENCAP_LEN, 50000);
    struct ip_addr own = ip_from_v6(frame + 38);
    unsigned n = packet_socket_geneve_filter(f, &own);
    assert_true(n <= GENEVE_FILTER_MAX);
    assert_true(filter_accepts(f, n, frame, len));
    static const uint8_t decisive[] = {12, 13, 20, 56, 57, 38, 45, 53};
    for (unsigned i = 0; i < sizeof(decisive); i++) {
        frame[decisive[i]] ^= 1;
        assert_false(filter_accepts(f, n, frame, len));
        frame[decisive[i]] ^= 1;
    }
    for (uint32_t cut = 0; cut < 58; cut++)
        assert_false(filter_accepts(f, n, frame, cut));
    n = tc_program_drop_geneve(program, &own);
    assert_true(n <= TC_PROGRAM_MAX);
    for (unsigned i = 0; i < n; i++) // every jump lands inside, forward
        if (BPF_OP(program[i].code) != BPF_EXIT &&
            (BPF_CLASS(program[i].code) == BPF_JMP || BPF_CLASS(program[i].code) == BPF_JMP32))
            assert_in_range(i + 1u + (unsigned)program[i].off, i + 1, n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "offload metadata converts both ways and is checked", .test_func = test_vnet},
        {.name = "buffers may be freed on any thread and none is lost", .test_func = test_buffers},
        {.name = "deferred calls wait for every online worker", .test_func = test_epochs},
        {.name = "readers never meet freed memory", .test_func = test_epochs_threads},
        {.name = "a kept zone is adopted only when it is what it was", .test_func = test_zones},
        {.name = "the socket filter takes Geneve to our address and nothing else", .test_func = test_filters},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
