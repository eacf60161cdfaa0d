// SPDX-License-Identifier: MPL-2.0
// engine_bench: what a node costs per packet, in this process, on one core, without any I/O.
//
// Hits: packets of flows drawn uniformly lie ready in a ring larger than the L2 cache and go through
// node_receive_guest or node_receive_underlay in batches of 32. What a driver does (filling descriptors) is measured by
// empty runs of the same loop, and the least of these is taken off. The clock is read around 16,384 packets at a time;
// between these the ring is filled anew.
#include <err.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/packets.h"
#include "bench/random.h"
#include "bench/report.h"

#define BATCH 32u
#define SECOND 1000000000ull
#define DEFAULT_ROOM 262144u
#define LARGE_ROOM (1u << 20)
#define CHURN_POPULATION 65536u
#define UDP_ONE_WAY_S 30u

enum kind { HIT_OUT, HIT_IN, MISS, CHURN_EXPIRY, CHURN_FULL, TICK, MEMORY };

struct spec {
    const char *name;
    enum kind kind;
    struct scene_options scene;
    uint32_t flows;
};

#define SCENE(f, n, count) \
    { \
        .family = (f), .nat = (n), .nodes = 1, .rules = 100, .routes = 100, \
        .connections = (count) > DEFAULT_ROOM ? LARGE_ROOM : DEFAULT_ROOM \
    }
#define HITS(title, f, n, count) \
    {"hit out " title, HIT_OUT, SCENE(f, n, count), count}, \
    { \
        "hit in  " title, HIT_IN, SCENE(f, n, count), count \
    }
#define MISSES(title, r, t) \
    { \
        "miss v4 " title, MISS, {.family = 4, .nodes = 1, .rules = (r), .routes = (t), .connections = DEFAULT_ROOM}, 0 \
    }

static const struct spec specs[] = {
    HITS("v4 1 flow", 4, NAT_NONE, 1),
    HITS("v4 1k", 4, NAT_NONE, 1000),
    HITS("v4 100k", 4, NAT_NONE, 100000),
    HITS("v4 1M", 4, NAT_NONE, 1000000),
    HITS("v6 1 flow", 6, NAT_NONE, 1),
    HITS("v6 1k", 6, NAT_NONE, 1000),
    HITS("v6 100k", 6, NAT_NONE, 100000),
    HITS("v6 1M", 6, NAT_NONE, 1000000),
    HITS("v4 floating IP 1 flow", 4, NAT_FLOATING, 1),
    HITS("v4 floating IP 1k", 4, NAT_FLOATING, 1000),
    HITS("v4 floating IP 100k", 4, NAT_FLOATING, 100000),
    HITS("v4 floating IP 1M", 4, NAT_FLOATING, 1000000),
    HITS("v6 floating IP 1k", 6, NAT_FLOATING, 1000),
    {"hit out v4 SNAT 1 flow", HIT_OUT, SCENE(4, NAT_SNAT, 1), 1},
    {"hit out v4 SNAT 1k", HIT_OUT, SCENE(4, NAT_SNAT, 1000), 1000},
    {"hit out v4 SNAT 100k", HIT_OUT, SCENE(4, NAT_SNAT, 100000), 100000},
    {"hit out v4 1k to 64 nodes",
     HIT_OUT,
     {.family = 4, .nodes = 64, .rules = 100, .routes = 100, .connections = DEFAULT_ROOM},
     1000},
    MISSES("10 rules 100 routes", 10, 100),
    MISSES("100 rules 100 routes", 100, 100),
    MISSES("1k rules 100 routes", 1000, 100),
    MISSES("10k rules 100 routes", 10000, 100),
    MISSES("1k rules 100k routes", 1000, 100000),
    {"miss v6 100 rules 100 routes", MISS, SCENE(6, NAT_NONE, 1), 0},
    {"miss v4 floating IP", MISS, SCENE(4, NAT_FLOATING, 1), 0},
    {"miss v4 SNAT", MISS, SCENE(4, NAT_SNAT, 1), 0},
    {"connections, expiring", CHURN_EXPIRY, SCENE(4, NAT_NONE, 1), 0},
    {"connections, table full", CHURN_FULL, SCENE(4, NAT_NONE, 1), 0},
    {"tick, no connections", TICK, SCENE(4, NAT_NONE, 1), 0},
    {"tick, 100k connections", TICK, SCENE(4, NAT_NONE, 1), 100000},
    {"memory per connection", MEMORY, SCENE(4, NAT_NONE, LARGE_ROOM), 0},
};

static struct {
    const char *patterns[16];
    unsigned n_patterns;
    unsigned repetitions;
    uint32_t packets; // of one repetition
    uint32_t count;   // not 0: this many hits and no clock
    const char *json;
} options = {.repetitions = 5, .packets = 1 << 20};

static struct ring ring;
static uint64_t random_state = 42;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// ---- Packets through the node

struct batch {
    struct packet packets[BATCH];
    struct packet *list[BATCH];
};

static void batch_fill(struct batch *b, uint32_t at, unsigned n)
{
    ring_describe(&ring, at, b->packets, n);
    for (unsigned i = 0; i < n; i++)
        b->list[i] = &b->packets[i];
}

// What the ring holds from place 0 on, `count` packets.
static void run(struct scene *s, bool in, uint32_t count)
{
    struct batch b;
    for (uint32_t at = 0; at < count; at += BATCH) {
        unsigned n = MIN(BATCH, count - at);
        batch_fill(&b, at, n);
        s->now += 1000;
        if (in)
            node_receive_underlay(s->node, 0, b.list, n, s->now);
        else
            node_receive_guest(s->node, 0, s->port, b.list, n, s->now);
    }
}

// Not inlined: callgrind's --toggle-collect names it.
static __attribute__((noinline)) void measured_run(struct scene *s, bool in, uint32_t count)
{
    run(s, in, count);
}

static __attribute__((noinline)) void empty_run(struct scene *s, uint32_t count)
{
    struct batch b;
    for (uint32_t at = 0; at < count; at += BATCH) {
        batch_fill(&b, at, MIN(BATCH, count - at));
        s->now += 1000;
        __asm__ volatile("" : : "r"(&b) : "memory");
    }
}

static void fill_random(const struct scene *s, bool in, uint32_t flows, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        uint32_t flow = random_below(&random_state, flows);
        if (in)
            ring_put_in(&ring, at, s, flow);
        else
            ring_put_out(&ring, at, s, flow);
    }
}

static void fill_next(const struct scene *s, bool in, uint32_t first, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        if (in)
            ring_put_in(&ring, at, s, (first + at) % SCENE_FLOWS_MAX);
        else
            ring_put_out(&ring, at, s, (first + at) % SCENE_FLOWS_MAX);
    }
}

static double timed(struct scene *s, bool in, uint32_t count)
{
    double start = now_ns();
    measured_run(s, in, count);
    return now_ns() - start;
}

static double timed_empty(struct scene *s, uint32_t count)
{
    double start = now_ns();
    empty_run(s, count);
    return now_ns() - start;
}

// A figure is worth nothing if the packets did something else than the row says.
struct tally {
    uint64_t hits, misses, out;
};

static struct tally tally(struct scene *s)
{
    struct port_counters k;
    node_port_counters(s->node, s->port, &k);
    return (struct tally){k.hits[0] + k.hits[1], k.misses[0] + k.misses[1], s->np.transmitted + s->np.delivered};
}

static void check(struct scene *s, const struct spec *spec, struct tally before, uint64_t hits, uint64_t misses)
{
    struct tally t = tally(s);
    if (t.hits - before.hits != hits || t.misses - before.misses != misses || t.out - before.out != hits + misses)
        errx(1, "%s: %lu hits, %lu misses, %lu sent; expected %lu and %lu", spec->name, t.hits - before.hits,
             t.misses - before.misses, t.out - before.out, hits, misses);
}

// Connections 0..flows-1, each answered once where the answer's tuple is known.
static void open_flows(struct scene *s, uint32_t flows)
{
    bool answers = s->options.nat != NAT_SNAT;
    for (uint32_t first = s->opened; first < flows; first += RING_PACKETS) {
        uint32_t n = MIN(RING_PACKETS, flows - first);
        for (int in = 0; in < 1 + answers; in++) {
            fill_next(s, in, first, n);
            run(s, in, n);
        }
    }
    s->opened = flows;
}

// ---- Rows

static void run_hits(struct scene *s, const struct spec *spec, struct row *row)
{
    bool in = spec->kind == HIT_IN;
    uint32_t rounds = MAX(1u, options.packets / RING_PACKETS);
    open_flows(s, spec->flows);
    fill_random(s, in, spec->flows, RING_PACKETS);
    run(s, in, RING_PACKETS);
    for (unsigned k = 0; k < options.repetitions; k++) {
        double ns = 0, empty = 1e18;
        struct tally before = tally(s);
        for (uint32_t i = 0; i < rounds; i++) {
            fill_random(s, in, spec->flows, RING_PACKETS);
            ns += timed(s, in, RING_PACKETS);
            empty = MIN(empty, timed_empty(s, RING_PACKETS));
        }
        check(s, spec, before, (uint64_t)rounds * RING_PACKETS, 0);
        row_add(row, (ns / rounds - empty) / RING_PACKETS);
    }
}

static void count_hits(struct scene *s, const struct spec *spec)
{
    bool in = spec->kind == HIT_IN;
    open_flows(s, spec->flows);
    for (uint32_t left = options.count; left;) {
        uint32_t n = MIN(left, RING_PACKETS);
        fill_random(s, in, spec->flows, n);
        struct tally before = tally(s);
        measured_run(s, in, n);
        check(s, spec, before, n, 0);
        left -= n;
    }
    printf("%s: %u hits\n", spec->name, options.count);
}

static void count_misses(struct scene *s, const struct spec *spec)
{
    uint32_t n = MIN(options.count, RING_PACKETS);
    scene_reset(s);
    fill_next(s, false, 0, n);
    measured_run(s, false, n);
    printf("%s: %u misses\n", spec->name, n);
}

static void run_misses(struct scene *s, const struct spec *spec, struct row *row)
{
    uint32_t rounds = DEFAULT_ROOM / 2 / RING_PACKETS, next = 0;
    for (unsigned k = 0; k < options.repetitions; k++) {
        double ns = 0, empty = 1e18;
        scene_reset(s);
        struct tally before = tally(s);
        for (uint32_t i = 0; i < rounds; i++, next += RING_PACKETS) {
            fill_next(s, false, next, RING_PACKETS);
            ns += timed(s, false, RING_PACKETS);
            empty = MIN(empty, timed_empty(s, RING_PACKETS));
        }
        check(s, spec, before, 0, (uint64_t)rounds * RING_PACKETS);
        row_add(row, (ns / rounds - empty) / RING_PACKETS);
    }
}

// New one-packet connections for ever; those before them expire, or make room. Timers and deferred work are included.
static double churn(struct scene *s, uint32_t first, uint64_t batch_ns, uint64_t *tick_at)
{
    struct batch b;
    fill_next(s, false, first, RING_PACKETS);
    double start = now_ns();
    for (uint32_t at = 0; at < RING_PACKETS; at += BATCH) {
        batch_fill(&b, at, BATCH);
        s->now += batch_ns;
        node_receive_guest(s->node, 0, s->port, b.list, BATCH, s->now);
        while (s->now >= *tick_at)
            *tick_at = node_tick(s->node, 0, s->now, 1);
        null_platform_quiesce(&s->np);
    }
    return now_ns() - start;
}

static void run_churn(struct scene *s, const struct spec *spec, struct row *row)
{
    bool full = spec->kind == CHURN_FULL;
    uint64_t batch_ns = full ? 1000 : UDP_ONE_WAY_S * SECOND / (CHURN_POPULATION / BATCH), tick_at = s->now;
    uint32_t warm_up = (full ? DEFAULT_ROOM : 2 * CHURN_POPULATION) / RING_PACKETS, next = 0;
    uint32_t rounds = DEFAULT_ROOM / RING_PACKETS;
    scene_reset(s);
    for (uint32_t i = 0; i < warm_up; i++, next += RING_PACKETS)
        churn(s, next, batch_ns, &tick_at);
    for (unsigned k = 0; k < options.repetitions; k++) {
        double ns = 0;
        struct tally before = tally(s);
        for (uint32_t i = 0; i < rounds; i++, next += RING_PACKETS)
            ns += churn(s, next, batch_ns, &tick_at);
        check(s, spec, before, 0, (uint64_t)rounds * RING_PACKETS);
        row_add(row, (double)rounds * RING_PACKETS / ns * 1e6);
    }
}

static void run_tick(struct scene *s, const struct spec *spec, struct row *row)
{
    const unsigned ticks = 400; // 100 s: no connection expires meanwhile
    for (unsigned k = 0; k < options.repetitions; k++) {
        scene_reset(s);
        open_flows(s, spec->flows);
        double start = now_ns();
        for (unsigned i = 0; i < ticks; i++)
            s->now = MAX(node_tick(s->node, 0, s->now, 1), s->now + 1);
        row_add(row, (now_ns() - start) / ticks);
    }
}

static const char *unit_of(enum kind kind)
{
    switch (kind) {
    case HIT_OUT:
    case HIT_IN:
    case MISS:
        return "ns/packet";
    case CHURN_EXPIRY:
    case CHURN_FULL:
        return "k connections/s";
    case TICK:
        return "ns/tick";
    case MEMORY:
        break;
    }
    return "bytes";
}

static void run_row(struct scene *s, const struct spec *spec, struct report *report)
{
    struct row *row = report_row(report, spec->name, unit_of(spec->kind));
    switch (spec->kind) {
    case HIT_OUT:
    case HIT_IN:
        run_hits(s, spec, row);
        break;
    case MISS:
        run_misses(s, spec, row);
        break;
    case CHURN_EXPIRY:
    case CHURN_FULL:
        run_churn(s, spec, row);
        break;
    case TICK:
        run_tick(s, spec, row);
        break;
    case MEMORY:
        row_add(row, (double)s->np.bytes / s->options.connections);
        break;
    }
    row_print(row);
}

// ---- Command line

static bool wanted(const char *name)
{
    for (unsigned i = 0; i < options.n_patterns; i++)
        if (fnmatch(options.patterns[i], name, 0) == 0)
            return true;
    return options.n_patterns == 0;
}

static void usage(FILE *to)
{
    fprintf(
        to,
        "engine_bench [--rows GLOB]... [--repeat N] [--packets N] [--json FILE] [--count N] [--list]\n"
        "  --rows     only rows whose name matches; may be given several times\n"
        "  --repeat   repetitions, 1 to 64; default 5\n"
        "  --packets  packets of one repetition; default 1048576\n"
        "  --count    N packets per row after set-up, no clock, for counting instructions:\n"
        "             valgrind --tool=callgrind --toggle-collect=measured_run engine_bench --count 3200 --rows ...\n");
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
    char *end;
    unsigned long v = strtoul(text, &end, 0);
    if (*end || end == text || v < least || v > most)
        errx(2, "%s: expected a number from %u to %u", text, least, most);
    return (uint32_t)v;
}

static void read_options(int argc, char **argv)
{
    static const struct option list[] = {
        {"rows", required_argument, NULL, 'r'},    {"repeat", required_argument, NULL, 'n'},
        {"packets", required_argument, NULL, 'p'}, {"json", required_argument, NULL, 'j'},
        {"count", required_argument, NULL, 'c'},   {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},          {0}};
    for (int o; (o = getopt_long(argc, argv, "", list, NULL)) != -1;) {
        switch (o) {
        case 'r':
            if (options.n_patterns == ARRAY_LEN(options.patterns))
                errx(2, "too many --rows");
            options.patterns[options.n_patterns++] = optarg;
            break;
        case 'n':
            options.repetitions = number(optarg, 1, MAX_REPETITIONS);
            break;
        case 'p':
            options.packets = number(optarg, 1, UINT32_MAX);
            break;
        case 'j':
            options.json = optarg;
            break;
        case 'c':
            options.count = number(optarg, 1, UINT32_MAX);
            break;
        case 'l':
            for (unsigned i = 0; i < ARRAY_LEN(specs); i++)
                printf("%s\n", specs[i].name);
            exit(0);
        default:
            usage(o == 'h' ? stdout : stderr);
            exit(o == 'h' ? 0 : 2);
        }
    }
    if (optind < argc) {
        usage(stderr);
        exit(2);
    }
}

// Neighbouring rows share their scene where it is the same: a million connections take a while to make.
static struct scene *scene_for(struct scene *s, const struct scene_options *o)
{
    if (s && memcmp(&s->options, o, sizeof(*o)) == 0)
        return s;
    if (s)
        scene_destroy(s);
    return scene_create(o);
}

int main(int argc, char **argv)
{
    static struct report report;
    struct scene *s = NULL;
    read_options(argc, argv);
    ring_init(&ring);
    for (unsigned i = 0; i < ARRAY_LEN(specs); i++) {
        const struct spec *spec = &specs[i];
        if (!wanted(spec->name))
            continue;
        s = scene_for(s, &spec->scene);
        if (options.count && (spec->kind == HIT_OUT || spec->kind == HIT_IN))
            count_hits(s, spec);
        else if (options.count && spec->kind == MISS)
            count_misses(s, spec);
        else if (!options.count)
            run_row(s, spec, &report);
    }
    if (s)
        scene_destroy(s);
    ring_fini(&ring);
    if (options.json && !report_write_json(&report, options.json))
        err(1, "%s", options.json);
    return 0;
}
