// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/capture.h"
#include "node/pcapng.h"

static void name_of(void *ctx, uint32_t port, char *out, size_t size)
{
    snprintf(out, size, "port-%u", port);
}

static void put(struct capture *c, unsigned worker, uint32_t port, unsigned point, enum drop reason, uint32_t len)
{
    static uint8_t frame[65536];
    for (uint32_t i = 0; i < len; i++)
        frame[i] = (uint8_t)i;
    struct packet p = {.data = frame, .len = len, .head = len};
    capture_put(c, worker, port, point, reason, &p);
}

struct parsed_stream {
    unsigned blocks, interfaces, frames;
    uint64_t lost, bytes;
    char last_comment[64];
};

// Walks the blocks as a reader would; every length must add up.
static struct parsed_stream parse(const uint8_t *data, size_t len)
{
    struct parsed_stream s = {0};
    for (size_t at = 0; at < len;) {
        uint32_t type, total, again, captured;
        assert_true(len - at >= 12);
        memcpy(&type, data + at, 4);
        memcpy(&total, data + at + 4, 4);
        assert_true(total % 4 == 0 && total >= 12 && total <= len - at);
        memcpy(&again, data + at + total - 4, 4);
        assert_int_equal(total, again);
        assert_true(s.blocks || type == 0x0a0d0d0a);
        if (type == 1)
            s.interfaces++;
        if (type == 6) {
            uint32_t interface;
            memcpy(&interface, data + at + 8, 4);
            assert_true(interface < s.interfaces);
            memcpy(&captured, data + at + 20, 4);
            s.bytes += captured;
            s.frames++;
            size_t option = at + 28 + ((captured + 3) & ~3u);
            for (;;) {
                uint16_t code, size;
                memcpy(&code, data + option, 2);
                memcpy(&size, data + option + 2, 2);
                if (code == 0)
                    break;
                if (code == 4)
                    s.lost += data[option + 4] | (uint64_t)data[option + 5] << 8;
                if (code == 1)
                    snprintf(s.last_comment, sizeof(s.last_comment), "%.*s", size, data + option + 4);
                option += 4 + ((size + 3u) & ~3u);
                assert_true(option < at + total);
            }
            assert_int_equal(option + 4, at + total - 4);
        }
        s.blocks++;
        at += total;
    }
    return s;
}

static struct parsed_stream take(struct capture_watcher *w)
{
    struct blob all = {0};
    char part[1000];
    for (size_t n; (n = capture_read(w, part, sizeof(part)));)
        blob_add(&all, part, n);
    struct parsed_stream s = parse((const uint8_t *)all.s, all.len);
    blob_free(&all);
    return s;
}

static void frames_reach_the_watcher_with_interface_direction_and_reason(void **state)
{
    struct capture *c = capture_create(name_of, NULL);
    const uint32_t ports[] = {1, 2};
    put(c, 0, 1, CAPTURE_FROM_GUEST, DROP_NONE, 60); // nobody watches
    struct capture_watcher *w = capture_watch(c, 0, CAPTURE_POINTS, UINT64_MAX, ports, 2);
    put(c, 0, 1, CAPTURE_FROM_GUEST, DROP_NONE, 60);
    put(c, 1, 7, CAPTURE_DROP, DROP_SPOOF_IP, 61);
    put(c, 2, 0, CAPTURE_FROM_UNDERLAY, DROP_NONE, 0);
    capture_drain(c);
    struct parsed_stream s = take(w);
    assert_int_equal(s.interfaces, 4); // two told, port 7, underlay
    assert_int_equal(s.frames, 3);
    assert_int_equal(s.bytes, 121);
    assert_string_equal(s.last_comment, "drop: spoof-ip");
    capture_destroy(c);
}

static void a_watcher_gets_its_port_points_and_count_only(void **state)
{
    struct capture *c = capture_create(name_of, NULL);
    struct capture_watcher *w = capture_watch(c, 2, CAPTURE_DROP, 2, NULL, 0);
    uint32_t port;
    unsigned points;
    assert_true(capture_wanted(c, &port, &points));
    assert_int_equal(port, 2);
    assert_int_equal(points, CAPTURE_DROP);
    struct capture_watcher *other = capture_watch(c, 3, CAPTURE_TO_GUEST, 1, NULL, 0);
    assert_true(capture_wanted(c, &port, &points));
    assert_int_equal(port, 0);
    assert_int_equal(points, CAPTURE_DROP | CAPTURE_TO_GUEST);
    capture_unwatch(c, other);
    put(c, 0, 2, CAPTURE_FROM_GUEST, DROP_NONE, 60);
    put(c, 0, 1, CAPTURE_DROP, DROP_NO_ROUTE, 60);
    for (int i = 0; i < 5; i++)
        put(c, 0, 2, CAPTURE_DROP, DROP_NO_ROUTE, 60);
    capture_drain(c);
    assert_true(capture_done(w));
    assert_int_equal(take(w).frames, 2);
    capture_unwatch(c, w);
    assert_false(capture_wanted(c, &port, &points));
    capture_destroy(c);
}

static void a_full_ring_loses_the_newest_and_counts_them(void **state)
{
    struct capture *c = capture_create(name_of, NULL);
    struct capture_watcher *w = capture_watch(c, 0, CAPTURE_POINTS, UINT64_MAX, NULL, 0);
    unsigned sent = 3 * CAPTURE_RING / 1000;
    for (unsigned i = 0; i < sent; i++)
        put(c, 0, 1, CAPTURE_FROM_GUEST, DROP_NONE, 1000 + i % 7);
    capture_drain(c);
    put(c, 0, 1, CAPTURE_FROM_GUEST, DROP_NONE, 60);
    capture_drain(c);
    struct parsed_stream s = take(w);
    assert_true(s.frames > 900 && s.frames < sent);
    assert_int_equal(s.frames + s.lost, sent + 1);
    capture_destroy(c);
}

static void frames_of_every_size_survive_the_rings_end(void **state)
{
    struct capture *c = capture_create(name_of, NULL);
    struct capture_watcher *w = capture_watch(c, 0, CAPTURE_POINTS, UINT64_MAX, NULL, 0);
    uint64_t bytes = 0, got = 0;
    for (unsigned i = 0; i < 4000; i++) {
        uint32_t len = i * 37 % 12000;
        put(c, 0, 1, CAPTURE_FROM_GUEST, DROP_NONE, len);
        bytes += MIN(len, CAPTURE_SNAP);
        capture_drain(c);
        char part[16384];
        for (size_t n; (n = capture_read(w, part, sizeof(part)));)
            got += n;
    }
    assert_true(got > bytes); // every byte, and the blocks around them
    assert_true(got < bytes + 4000 * 64);
    capture_destroy(c);
}

static void *producer(void *argument)
{
    for (int i = 0; i < 20000; i++)
        put(argument, 3, 1, CAPTURE_FROM_GUEST, DROP_NONE, 60 + (uint32_t)i % 1400);
    return NULL;
}

static void a_worker_and_the_control_thread_meet_without_a_lock(void **state)
{
    struct capture *c = capture_create(name_of, NULL);
    struct capture_watcher *w = capture_watch(c, 0, CAPTURE_POINTS, UINT64_MAX, NULL, 0);
    pthread_t thread;
    struct blob all = {0};
    char part[65536];
    assert_int_equal(pthread_create(&thread, NULL, producer, c), 0);
    for (int i = 0; i < 200; i++) {
        capture_drain(c);
        for (size_t n; (n = capture_read(w, part, sizeof(part)));)
            blob_add(&all, part, n);
    }
    pthread_join(thread, NULL);
    capture_drain(c);
    for (size_t n; (n = capture_read(w, part, sizeof(part)));)
        blob_add(&all, part, n);
    struct parsed_stream s = parse((const uint8_t *)all.s, all.len);
    assert_true(s.frames > 0 && s.frames <= 20000);
    blob_free(&all);
    capture_destroy(c);
}

static void tshark_reads_it(void **state)
{
    struct blob out = {0};
    static const uint8_t arp[42] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 3, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
    pcapng_section(&out, "test");
    pcapng_interface(&out, "web", CAPTURE_SNAP);
    struct pcapng_frame f = {0,           1700000000123456789u, arp, sizeof(arp),
                             sizeof(arp), PCAPNG_INBOUND,       0,   "drop: spoof-arp"};
    pcapng_frame(&out, &f);
    char name[] = "/tmp/nereus-pcapng-XXXXXX", command[256], line[256] = "";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && write(fd, out.s, out.len) == (ssize_t)out.len);
    close(fd);
    snprintf(command, sizeof(command),
             "tshark -r %s -T fields -e frame.interface_name -e frame.time_epoch -e frame.comment -e "
             "frame.packet_flags_direction "
             "2>&1",
             name);
    FILE *tshark = popen(command, "r");
    assert_non_null(tshark);
    while (fgets(line, sizeof(line), tshark) && !strstr(line, "web")) // notes of its own come first
        ;
    pclose(tshark);
    unlink(name);
    blob_free(&out);
    assert_non_null(strstr(line, "web\t1700000000.123456789\tdrop: spoof-arp\t"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_reach_the_watcher_with_interface_direction_and_reason),
        cmocka_unit_test(a_watcher_gets_its_port_points_and_count_only),
        cmocka_unit_test(a_full_ring_loses_the_newest_and_counts_them),
        cmocka_unit_test(frames_of_every_size_survive_the_rings_end),
        cmocka_unit_test(a_worker_and_the_control_thread_meet_without_a_lock),
        cmocka_unit_test(tshark_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
