// SPDX-License-Identifier: MPL-2.0
// linux_forwarder.c: a test's double of the node over the real driver. It joins ports in pairs, ports with VNIs over
// the underlay, and external links with ports, and prints events and counters, so that a test can drive the driver
// with real namespaces. Commands come on stdin, one a line:
//   attach PORT KIND IFNAME MTU | detach PORT | pair A B | encap PORT VNI TUNNEL | tunnel N ADDRESS | close N
//   external LINK PORT | service PORT | counters | ready PORT | quit
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/node.h"
#include "engine/atomic.h"
#include "engine/geneve.h"
#include "platform/linux/linux.h"

#define PORTS 16
#define NO_TUNNEL UINT32_MAX

struct node {
    const struct platform *platform;
    struct ip_addr underlay;
    struct {
        uint32_t pair, vni, tunnel;
    } ports[PORTS]; // atomic: commands change them while packets flow
    struct ip_addr tunnels[PORTS];
    uint32_t external_port, service_port;
    uint64_t received, largest, underlay_received, underlay_largest, not_taken, transmit_failed[DROP_COUNT];
};

static struct node node;

static void note(uint64_t *count, uint64_t *largest, struct packet **packets, unsigned n)
{
    fetch_add_relaxed(count, n);
    for (unsigned i = 0; i < n; i++)
        if (packets[i]->len > load_relaxed(largest))
            store_relaxed(largest, packets[i]->len);
}

static void give(unsigned worker, uint32_t port, struct packet **packets, unsigned n)
{
    unsigned taken = node.platform->port_deliver(node.platform->ctx, worker, port, packets, n);
    fetch_add_relaxed(&node.not_taken, n - taken);
}

// As engine/geneve does it, kept apart so that this double checks the driver alone.
static void encap(struct packet *p, const struct ip_addr *to, uint32_t vni)
{
    uint32_t inner = p->len;
    packet_push(p, GENEVE_ENCAP_LEN);
    p->encap_len = GENEVE_ENCAP_LEN;
    uint8_t *b = p->data;
    memset(b, 0, GENEVE_ENCAP_LEN);
    store_be16(b + 12, 0x86dd);
    store_be32(b + 14, 6u << 28 | 0x12345);
    store_be16(b + 18, (uint16_t)(inner + 16));
    b[20] = 17;
    b[21] = 64;
    memcpy(b + 22, node.underlay.b, 16);
    memcpy(b + 38, to->b, 16);
    store_be16(b + 54, 50000);
    store_be16(b + 56, GENEVE_UDP_PORT);
    store_be16(b + 58, (uint16_t)(inner + 16));
    store_be16(b + 64, 0x6558);
    store_be32(b + 66, vni << 8);
}

void node_receive_guest(struct node *n, unsigned worker, uint32_t port, struct packet **packets, unsigned count,
                        uint64_t now)
{
    note(&n->received, &n->largest, packets, count);
    uint32_t tunnel = load_acquire(&n->ports[port].tunnel);
    if (tunnel == NO_TUNNEL) {
        give(worker, load_relaxed(&n->ports[port].pair), packets, count);
        return;
    }
    enum drop why = DROP_NONE;
    for (unsigned i = 0; i < count; i++)
        encap(packets[i], &n->tunnels[tunnel], load_relaxed(&n->ports[port].vni));
    unsigned sent = n->platform->underlay_transmit(n->platform->ctx, worker, tunnel, packets, count, &why);
    fetch_add_relaxed(&n->transmit_failed[why], count - sent);
}

void node_receive_underlay(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now)
{
    note(&n->underlay_received, &n->underlay_largest, packets, count);
    for (unsigned i = 0; i < count; i++) {
        struct packet *p = packets[i];
        uint32_t vni = p->len < GENEVE_ENCAP_LEN ? 0 : load_be32(p->data + 66) >> 8, port = 0;
        for (uint32_t j = 1; j < PORTS; j++)
            if (load_relaxed(&n->ports[j].vni) == vni && vni)
                port = j;
        if (!port) {
            n->platform->packet_free(n->platform->ctx, worker, p);
            continue;
        }
        packet_pull(p, GENEVE_ENCAP_LEN);
        if (p->gso_type == GSO_NONE)
            p->csum = CSUM_FULL; // what was verified was the outer checksum
        give(worker, port, &p, 1);
    }
}

void node_receive_external(struct node *n, unsigned worker, uint32_t link, struct packet **packets, unsigned count,
                           uint64_t now)
{
    note(&n->received, &n->largest, packets, count);
    give(worker, n->external_port, packets, count);
}

void node_receive_service(struct node *n, unsigned worker, struct packet **packets, unsigned count, uint64_t now)
{
    note(&n->received, &n->largest, packets, count);
    give(worker, n->service_port, packets, count);
}

uint64_t node_tick(struct node *n, unsigned worker, uint64_t now, uint64_t wall)
{
    return now + 1000000000ull;
}

static void event(void *ctx, const char *kind, uint32_t port, uint64_t count, const char *text)
{
    printf("event %s %u %s\n", kind, port, text);
    fflush(stdout);
}

static void print_counters(struct linux_platform *l)
{
    struct linux_counters c;
    linux_counters(l, &c);
    printf("counters {\"received\":%llu,\"largest\":%llu,\"underlay_received\":%llu,\"underlay_largest\":%llu,"
           "\"not_taken\":%llu,\"receive_bad\":%llu,\"refused\":%llu,\"pending\":%llu,\"failed\":%llu,\"merged\":%llu,"
           "\"too_big\":%llu,\"next_hop_failed\":%llu}\n",
           (unsigned long long)load_relaxed(&node.received), (unsigned long long)load_relaxed(&node.largest),
           (unsigned long long)load_relaxed(&node.underlay_received),
           (unsigned long long)load_relaxed(&node.underlay_largest), (unsigned long long)load_relaxed(&node.not_taken),
           (unsigned long long)c.receive_bad, (unsigned long long)c.transmit_refused,
           (unsigned long long)c.next_hop_pending, (unsigned long long)c.next_hop_failed, (unsigned long long)c.merged,
           (unsigned long long)load_relaxed(&node.transmit_failed[DROP_TOO_BIG]),
           (unsigned long long)load_relaxed(&node.transmit_failed[DROP_NEXT_HOP_FAILED]));
}

static void attach(uint32_t port, const char *kind, const char *ifname, uint32_t mtu)
{
    static const char *const kinds[] = {[BLUEPRINT_DEVICE_VETH] = "veth",
                                        [BLUEPRINT_DEVICE_TAP] = "tap",
                                        [BLUEPRINT_DEVICE_TAP_ADOPT] = "adopt",
                                        [BLUEPRINT_DEVICE_VHOST_USER] = "vhost",
                                        [BLUEPRINT_DEVICE_NETDEV] = "netdev"};
    struct blueprint_device d = {.ifname = ifname, .queues = 4, .offloads = true, .kind = BLUEPRINT_DEVICE_NONE};
    struct mac_addr mac = {{2, 0xaa, 0, 0, 0, (uint8_t)port}};
    char error[160] = "";
    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i], kind) == 0)
            d.kind = (uint8_t)i;
    int rc = node.platform->port_attach(node.platform->ctx, port, &d, &mac, mtu, error, sizeof(error));
    printf("attached %d %s\n", rc, error);
}

static bool command(struct linux_platform *l, const char *line)
{
    unsigned a = 0, b = 0, c = 0;
    char word[16], name[64];
    if (sscanf(line, "attach %u %15s %63s %u", &a, word, name, &b) == 4) {
        attach(a, word, name, b);
    } else if (sscanf(line, "detach %u", &a) == 1) {
        node.platform->port_detach(node.platform->ctx, a);
    } else if (sscanf(line, "pair %u %u", &a, &b) == 2) {
        store_relaxed(&node.ports[a].pair, b);
        store_relaxed(&node.ports[b].pair, a);
    } else if (sscanf(line, "encap %u %u %u", &a, &b, &c) == 3) {
        store_relaxed(&node.ports[a].vni, b);
        store_release(&node.ports[a].tunnel, c);
    } else if (sscanf(line, "tunnel %u %63s", &a, name) == 2) {
        struct ip_addr address;
        inet_pton(AF_INET6, name, address.b);
        if (!ip_equal(&node.tunnels[a], &address))
            node.tunnels[a] = address;
        node.platform->tunnel_open(node.platform->ctx, a, &node.tunnels[a]);
    } else if (sscanf(line, "close %u", &a) == 1) {
        node.platform->tunnel_close(node.platform->ctx, a);
    } else if (sscanf(line, "external %u %u", &a, &b) == 2) {
        node.external_port = b;
    } else if (sscanf(line, "service %u", &a) == 1) {
        node.service_port = a;
    } else if (strncmp(line, "counters", 8) == 0) {
        print_counters(l);
    } else if (sscanf(line, "ready %u", &a) == 1) {
        printf("ready %d\n", linux_port_ready(l, a));
    } else {
        return false;
    }
    printf("ok\n");
    fflush(stdout);
    return true;
}

// linux_forwarder RUN_DIR WORKERS UNDERLAY_IFNAME|- ADDRESS MTU [EXTERNAL_IFNAME|-] [service]
int main(int argc, char **argv)
{
    char error[200], line[256];
    if (argc < 6)
        return 2;
    struct linux_config c = {.run_dir = argv[1],
                             .workers = (unsigned)atoi(argv[2]),
                             .max_ports = PORTS - 1,
                             .underlay_ifname = strcmp(argv[3], "-") ? argv[3] : NULL,
                             .underlay_mtu = (uint32_t)atoi(argv[5]),
                             .service = argc > 7,
                             .service_netns = -1,
                             .event = event};
    inet_pton(AF_INET6, argv[4], c.underlay.b);
    if (argc > 6 && strcmp(argv[6], "-") != 0)
        c.external[c.n_external++] = argv[6];
    for (unsigned i = 0; i < PORTS; i++)
        node.ports[i].tunnel = NO_TUNNEL;
    node.underlay = c.underlay;
    struct linux_platform *l = linux_create(&c, error, sizeof(error));
    if (!l) {
        printf("error %s\n", error);
        return 1;
    }
    node.platform = linux_platform(l);
    signal(SIGPIPE, SIG_IGN);
    if (c.service)
        printf("netns /proc/self/fd/%d\n", linux_service_netns(l));
    printf("started\n");
    fflush(stdout);
    bool running = false;
    while (fgets(line, sizeof(line), stdin) && strncmp(line, "quit", 4) != 0) {
        if (strncmp(line, "start", 5) == 0) {
            running = linux_start(l, &node, error, sizeof(error));
            printf("ok %d\n", running);
            fflush(stdout);
        } else if (!command(l, line)) {
            printf("error unknown command\n");
            fflush(stdout);
        }
    }
    linux_stop(l);
    linux_destroy(l);
    return 0;
}
