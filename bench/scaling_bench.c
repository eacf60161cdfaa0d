// SPDX-License-Identifier: MPL-2.0
// scaling_bench: does a second worker double the work? And what does a swap of rules do to the hits of a port?
//
// Each worker is a thread on a core of its own with packets, buffers and clock of its own, over the quiescent states
// and the locks that the Linux driver uses. One worker runs alone, then both run, in turns; the figure is two workers'
// packets per second over one's. By the threads' CPU time, since the machine may have other work (what waits for a lock
// sleeps and does not count); and by the wall clock, which counts all.
#define _GNU_SOURCE
#include <err.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/null_platform.h"
#include "bench/random.h"
#include "engine/checksum.h"
#include "engine/parse.h"
#include "platform/linux/epochs.h"

enum { WORKERS = 2, BATCH = 32, FRAME = 64, PEERS = 64, ROOM = 1 << 18, TIMES = 1 << 23 };
#define SECOND 1000000000ull

struct CACHE_ALIGNED worker {
    struct bench *b;
    unsigned number;
    pthread_t thread;
    uint8_t *frames; // of its flows, FRAME bytes each
    uint32_t n_frames, count;
    uint32_t port;
    bool in_order;      // each flow once
    uint64_t cpu, wall; // ns of the last run
    uint64_t sent, locks;
    struct packet packets[BATCH];
    uint8_t *buffers;
    struct times {
        uint64_t *ns;
        uint32_t n;
    } hits, walks; // of single packets
};

struct bench {
    struct null_platform np; // first: its calls get it as their ctx
    struct epochs epochs;
    struct {
        pthread_mutex_t mutex;
    } CACHE_ALIGNED locks[ENV_LOCKS];
    struct node *node;
    struct worker workers[WORKERS];
    uint32_t ports[WORKERS];
    pthread_barrier_t start;
    bool stop;
    uint64_t random;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

// ---- The platform

static void bench_defer(void *ctx, void (*fn)(void *, uint64_t), void *arg, uint64_t value)
{
    epochs_defer(&((struct bench *)ctx)->epochs, fn, arg, value);
}

static _Thread_local struct worker *self;

static void bench_lock(void *ctx, unsigned lock)
{
    if (self)
        self->locks++;
    pthread_mutex_lock(&((struct bench *)ctx)->locks[lock].mutex);
}

static void bench_unlock(void *ctx, unsigned lock)
{
    pthread_mutex_unlock(&((struct bench *)ctx)->locks[lock].mutex);
}

static unsigned bench_transmit(void *ctx, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n,
                               enum drop *why)
{
    counter_add(&((struct bench *)ctx)->workers[worker].sent, n);
    return n;
}

static void settle(struct bench *b)
{
    while (!epochs_run(&b->epochs))
        ;
}

// ---- The scene: two ports of one VPC, peers on another node

static const struct mac_addr gateway_mac = {{2, 0, 0, 0, 0, 1}}, peer_mac = {{2, 0, 0, 0, 0, 4}};

static struct ip_addr v4(uint8_t third, uint8_t fourth)
{
    return ip_from_v4((const uint8_t[]){10, 0, third, fourth});
}

static uint32_t put_port(struct bench *b, unsigned number, uint64_t generation, bool deny)
{
    struct ip_addr addresses[] = {v4(0, (uint8_t)(3 + number))};
    struct ip_prefix subnets[] = {{v4(0, 0), 96 + 24}};
    struct blueprint_route routes[] = {{.prefix = {v4(0, 0), 96 + 16}}};
    struct port_range ranges[1] = {{7777, 7777}};
    struct blueprint_rule rules[100];
    for (unsigned i = 0; i < ARRAY_LEN(rules); i++)
        rules[i] = (struct blueprint_rule){.id = "r",
                                           .prio = i,
                                           .dir = BLUEPRINT_OUT,
                                           .action = deny && i == 0 ? BLUEPRINT_DENY : BLUEPRINT_ALLOW,
                                           .proto = i % 2 ? IPPROTO_UDP4 : IPPROTO_TCP4,
                                           .ports = ranges,
                                           .n_ports = 1};
    struct blueprint p = {
        .schema = 1,
        .port = {{(uint8_t)(1 + number)}},
        .generation = generation,
        .name = "bench",
        .device = {.kind = BLUEPRINT_DEVICE_NONE, .ifname = "", .socket = "", .queues = 1},
        .vpc = {.vni = 100, .mtu = 1430},
        .l2 = {.mac = {{2, 0, 0, 0, 1, (uint8_t)number}}, .addresses = addresses, .n_addresses = 1, .anti_spoof = true},
        .gateway = {.mac = gateway_mac,
                    .has_v4 = true,
                    .v4 = v4(0, 1),
                    .subnets = subnets,
                    .n_subnets = 1,
                    .dhcp4 = {.domain = "", .hostname = ""},
                    .dhcp6 = {.domain = ""},
                    .metadata = {.document = "{}"}},
        .firewall = {.default_out_allow = true, .rules = rules, .n_rules = ARRAY_LEN(rules)},
        .routes = routes,
        .n_routes = 1,
        .limits = {.flows_max = ROOM},
    };
    memcpy(p.hash, &generation, sizeof(generation));
    struct node_error e;
    if (!node_blueprint_put(b->node, &p, 1, 1, &e))
        errx(1, "blueprint refused at %s: %s", e.pointer, e.text);
    return node_port_find(b->node, &p.port);
}

static uint64_t *times_memory(void) // touched here, not by the first to write
{
    uint64_t *ns = malloc(sizeof(*ns) * TIMES);
    if (!ns)
        err(1, "times");
    return memset(ns, 1, sizeof(*ns) * TIMES);
}

static struct bench *bench_create(void)
{
    struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    if (!b)
        err(1, "bench");
    memset(b, 0, sizeof(*b));
    null_platform_init(&b->np);
    struct platform *p = &b->np.platform;
    p->env.defer = bench_defer;
    p->env.lock = bench_lock;
    p->env.unlock = bench_unlock;
    p->underlay_transmit = bench_transmit;
    for (unsigned i = 0; i < ENV_LOCKS; i++)
        pthread_mutex_init(&b->locks[i].mutex, NULL);
    epochs_init(&b->epochs, -1);
    struct node_config c;
    node_config_default(&c);
    c.underlay = (struct ip_addr){.b = {0xfd, [15] = 1}};
    c.workers = WORKERS;
    c.max_connections = ROOM;
    b->node = node_create(p, &c, SECOND);
    for (uint8_t i = 0; i < PEERS; i++) {
        struct mapping m = {.vni = 100,
                            .ip = v4(1, i),
                            .mac = peer_mac,
                            .node = {.b = {0xfd, [15] = (uint8_t)(2 + i % 4)}},
                            .epoch = 1};
        struct node_error e;
        if (!node_mapping_put(b->node, &m, SECOND, &e))
            errx(1, "mapping: %s", e.text);
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        b->ports[w] = put_port(b, w, 1, false);
        b->workers[w] = (struct worker){.b = b, .number = w};
        b->workers[w].buffers = aligned_alloc(64, BATCH * (PACKET_HEADROOM + PACKET_MIN_ROOM));
        b->workers[w].frames = aligned_alloc(64, (size_t)ROOM * FRAME);
        b->workers[w].hits.ns = times_memory();
        b->workers[w].walks.ns = times_memory();
    }
    return b;
}

static void bench_destroy(struct bench *b)
{
    settle(b);
    node_destroy(b->node);
    settle(b);
    for (unsigned w = 0; w < WORKERS; w++) {
        free(b->workers[w].buffers);
        free(b->workers[w].frames);
        free(b->workers[w].hits.ns);
        free(b->workers[w].walks.ns);
    }
    epochs_destroy(&b->epochs);
    null_platform_fini(&b->np);
    free(b);
}

static void write_frame(uint8_t *f, unsigned port, uint32_t flow)
{
    uint8_t *ip = f + 14, *udp = ip + 20;
    memset(f, 0, FRAME);
    memcpy(f, gateway_mac.b, 6);
    memcpy(f + 6, (const uint8_t[]){2, 0, 0, 0, 1, (uint8_t)port}, 6);
    store_be16(f + 12, ETHERTYPE_IPV4);
    ip[0] = 0x45;
    store_be16(ip + 2, FRAME - 14);
    ip[8] = 64;
    ip[9] = IPPROTO_UDP4;
    memcpy(ip + 12, v4(0, (uint8_t)(3 + port)).b + 12, 4);
    memcpy(ip + 16, v4(1, (uint8_t)(flow % PEERS)).b + 12, 4);
    checksum_write_ip4(ip);
    store_be16(udp, (uint16_t)(1024 + flow / PEERS % 60000));
    store_be16(udp + 2, 53);
    store_be16(udp + 4, FRAME - 34);
}

// ---- A worker

static void prepare(struct worker *w, uint32_t at, struct packet **list)
{
    for (unsigned i = 0; i < BATCH; i++) {
        uint8_t *data = w->buffers + i * (PACKET_HEADROOM + PACKET_MIN_ROOM) + PACKET_HEADROOM;
        memcpy(data, w->frames + (size_t)((at + i) % w->n_frames) * FRAME, FRAME);
        w->packets[i] = (struct packet){
            .data = data, .len = FRAME, .head = FRAME, .room = PACKET_MIN_ROOM, .headroom = PACKET_HEADROOM};
        list[i] = &w->packets[i];
    }
    __asm__ volatile("" : : "r"(list) : "memory");
}

static void pass(struct worker *w, uint32_t count, bool empty)
{
    struct packet *list[BATCH];
    for (uint32_t at = 0; at < count; at += BATCH) {
        prepare(w, at, list);
        if (!empty)
            node_receive_guest(w->b->node, w->number, w->port, list, BATCH, SECOND + at);
        epochs_quiescent(&w->b->epochs, w->number);
    }
}

static void stay_on_core(unsigned number)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    stay_on_core(w->number);
    epochs_online(&w->b->epochs, w->number);
    uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
    pass(w, w->count, true);
    uint64_t idle_cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu, idle_wall = clock_ns(CLOCK_MONOTONIC) - wall;
    pthread_barrier_wait(&w->b->start);
    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
    pass(w, w->count, false);
    w->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu - idle_cpu;
    w->wall = clock_ns(CLOCK_MONOTONIC) - wall - MIN(idle_wall, 2 * idle_cpu);
    epochs_offline(&w->b->epochs, w->number);
    return NULL;
}

// Packets per ns of workers first..first+n-1 together.
struct rate {
    double cpu, wall;
};

static struct rate run(struct bench *b, unsigned first, unsigned n)
{
    struct rate r = {0, 0};
    pthread_barrier_init(&b->start, NULL, n);
    for (unsigned i = first; i < first + n; i++)
        pthread_create(&b->workers[i].thread, NULL, work, &b->workers[i]);
    for (unsigned i = first; i < first + n; i++) {
        struct worker *w = &b->workers[i];
        pthread_join(w->thread, NULL);
        r.cpu += (double)w->count / (double)w->cpu;
        r.wall += (double)w->count / (double)w->wall;
    }
    pthread_barrier_destroy(&b->start);
    return r;
}

// ---- Rows

struct row {
    const char *name;
    bool one_port, misses;
    uint32_t flows; // of both workers
    double wanted;
};

static const struct row rows[] = {
    {"hits, two ports, 1k flows", false, false, 1000, 1.8}, {"hits, two ports, 100k flows", false, false, 100000, 1.8},
    {"hits, one port, 1k flows", true, false, 1000, 1.6},   {"hits, one port, 100k flows", true, false, 100000, 1.6},
    {"first packets, two ports", false, true, 131072, 1.8}, {"first packets, one port", true, true, 131072, 1.6},
};

static void shuffle(struct worker *w, uint64_t *random)
{
    uint8_t swap[FRAME];
    for (uint32_t i = w->n_frames; i > 1; i--) {
        uint8_t *a = w->frames + (size_t)(i - 1) * FRAME, *b = w->frames + (size_t)random_below(random, i) * FRAME;
        memcpy(swap, a, FRAME);
        memcpy(a, b, FRAME);
        memcpy(b, swap, FRAME);
    }
}

// As a NIC spreads flows over queues: whose a flow is depends on its hash, not on its place.
static void deal(struct bench *b, const struct row *r)
{
    for (unsigned w = 0; w < WORKERS; w++)
        b->workers[w].n_frames = 0;
    for (uint32_t flow = 0; flow < r->flows; flow++) {
        struct worker *w = &b->workers[(flow * 0x9e3779b1u) >> 31];
        unsigned port = r->one_port ? 0 : w->number;
        w->port = b->ports[port];
        write_frame(w->frames + (size_t)w->n_frames++ * FRAME, port, flow);
    }
    for (unsigned w = 0; w < WORKERS; w++)
        b->workers[w].count = r->misses ? b->workers[w].n_frames / BATCH * BATCH : 1 << 21;
}

static void forget_flows(struct bench *b)
{
    for (unsigned w = 0; w < WORKERS; w++) {
        struct node_error e;
        struct uuid id = {{(uint8_t)(1 + w)}};
        node_port_act(b->node, &id, NODE_PORT_RESET, &e);
    }
    settle(b);
}

// Both workers' flows are opened in turn, so that neighbours in memory are not one worker's.
static void open_flows(struct bench *b)
{
    uint32_t most = MAX(b->workers[0].n_frames, b->workers[1].n_frames);
    for (uint32_t at = 0; at < most; at++) {
        for (unsigned k = 0; k < WORKERS; k++) {
            struct worker *w = &b->workers[k];
            struct packet *list[BATCH];
            prepare(w, at, list);
            node_receive_guest(b->node, w->number, w->port, list, 1, SECOND);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, unsigned n)
{
    qsort(list, n, sizeof(*list), by_size);
    return list[n / 2];
}

static void measure(struct bench *b, const struct row *r, unsigned repeats)
{
    double cpu[64], wall[64], one[64], two[64];
    uint64_t random = 5;
    deal(b, r);
    forget_flows(b);
    if (!r->misses)
        open_flows(b);
    for (unsigned w = 0; w < WORKERS; w++)
        shuffle(&b->workers[w], &random);
    for (unsigned k = 0; k < repeats; k++) {
        struct rate alone = {0, 0}, both;
        for (unsigned w = 0; w < WORKERS; w++) {
            struct rate x = run(b, w, 1);
            alone.cpu += x.cpu / WORKERS;
            alone.wall += x.wall / WORKERS;
            if (r->misses)
                forget_flows(b);
        }
        both = run(b, 0, WORKERS);
        if (r->misses)
            forget_flows(b);
        cpu[k] = both.cpu / alone.cpu;
        wall[k] = both.wall / alone.wall;
        one[k] = 1 / alone.cpu;
        two[k] = WORKERS / both.cpu;
    }
    printf("%-30s %8.1f %8.1f   x %.2f of CPU, x %.2f of time   (wanted: %.1f)\n", r->name, median(one, repeats),
           median(two, repeats), median(cpu, repeats), median(wall, repeats), r->wanted);
    fflush(stdout);
}

// ---- A swap of rules under hits

static void note(struct times *t, uint64_t ns)
{
    if (t->n < TIMES)
        t->ns[t->n++] = ns;
}

// One packet a call: the time of a batch would be the time of the timer interrupts that fall into it.
static void *serve(void *arg)
{
    struct worker *w = arg;
    struct packet *list[BATCH];
    stay_on_core(w->number);
    self = w;
    for (uint32_t at = 0; !__atomic_load_n(&w->b->stop, __ATOMIC_ACQUIRE); at += BATCH) {
        prepare(w, at, list);
        epochs_online(&w->b->epochs, w->number);
        for (unsigned i = 0; i < BATCH; i++) {
            uint64_t locks = w->locks, start = clock_ns(CLOCK_MONOTONIC);
            node_receive_guest(w->b->node, w->number, w->port, &list[i], 1, SECOND + at);
            uint64_t took = clock_ns(CLOCK_MONOTONIC) - start;
            note(w->locks == locks ? &w->hits : &w->walks, took);
        }
        epochs_offline(&w->b->epochs, w->number);
    }
    self = NULL;
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t quantile(const struct times *t, double q) // sorted
{
    return t->n ? t->ns[(uint32_t)((t->n - 1) * q)] : 0;
}

// The port's 100 rules are swapped by a thread of its own while its flows are hit.
static void measure_swaps(struct bench *b, uint32_t flows, unsigned per_second)
{
    struct worker *w = &b->workers[0];
    static uint64_t generation = 1;
    uint64_t swaps = 0, random = 3;
    struct times calls = {.ns = times_memory()};
    deal(b, &(struct row){.one_port = true, .flows = 2 * flows});
    forget_flows(b);
    open_flows(b);
    shuffle(w, &random);
    w->hits.n = w->walks.n = 0;
    b->stop = false;
    pthread_create(&w->thread, NULL, serve, w);
    stay_on_core(1);
    for (uint64_t end = clock_ns(CLOCK_MONOTONIC) + 3 * SECOND; clock_ns(CLOCK_MONOTONIC) < end;) {
        usleep(1000000 / MAX(per_second, 10u));
        epochs_run(&b->epochs);
        if (!per_second)
            continue;
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        put_port(b, 0, ++generation, swaps++ % 2);
        note(&calls, clock_ns(CLOCK_THREAD_CPUTIME_ID) - start);
    }
    __atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
    pthread_join(w->thread, NULL);
    struct times *all[] = {&w->hits, &w->walks, &calls};
    for (unsigned i = 0; i < ARRAY_LEN(all); i++)
        qsort(all[i]->ns, all[i]->n, sizeof(uint64_t), by_value);
    uint64_t middle = quantile(&w->hits, 0.5), p999 = quantile(&w->hits, 0.999);
    printf("%3u swaps/s, %6u flows: hit %lu ns, p99.9 %lu ns (x %.1f, wanted: 3.0); judged again: %u packets, %lu ns, "
           "p99.9 %lu ns; a swap %lu us of the control thread's CPU\n",
           per_second, flows, middle, p999, (double)p999 / (double)MAX(middle, 1u), w->walks.n,
           quantile(&w->walks, 0.5), quantile(&w->walks, 0.999), quantile(&calls, 0.5) / 1000);
    fflush(stdout);
    free(calls.ns);
}

int main(int argc, char **argv)
{
    unsigned repeats = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
    const char *only = argc > 2 ? argv[2] : "*";
    if (repeats == 0 || repeats > 64)
        errx(2, "usage: scaling_bench [REPEATS [GLOB]]");
    struct bench *b = bench_create();
    printf("%-30s %8s %8s   ns of CPU a packet, by one worker alone and by each of two\n", "", "alone", "two");
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        if (fnmatch(only, rows[i].name, 0) == 0)
            measure(b, &rows[i], repeats);
    if (fnmatch(only, "swaps", 0) == 0) {
        measure_swaps(b, 1000, 0);
        measure_swaps(b, 1000, 100);
        measure_swaps(b, 50000, 1);
    }
    bench_destroy(b);
    return 0;
}
