// SPDX-License-Identifier: MPL-2.0
#include "node/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/json/text.h"
#include "node/flow_log.h"
#include "node/view.h"
#include "platform/linux/linux.h"
#include "vpc/snat.h"

static const char *const directions[] = {[COUNT_OUT] = "out", [COUNT_IN] = "in"};

void metrics_label(struct blob *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            blob_add(out, "\\", 1);
        if (*value == '\n')
            blob_add(out, "\\n", 2);
        else
            blob_add(out, value, 1);
    }
}

static void family(struct blob *out, const char *name, const char *type, const char *help)
{
    blob_printf(out, "# TYPE %s %s\n# HELP %s %s.\n", name, type, name, help);
}

static void gauge(struct blob *out, const char *name, const char *help, uint64_t value)
{
    family(out, name, "gauge", help);
    blob_printf(out, "%s %" PRIu64 "\n", name, value);
}

// ---- Families that have series per port

struct port {         // read once, shown in several families
    char labels[512]; // port="...",name="..."
    struct node_port_status status;
    bool attached;
    struct port_use use;
    struct port_counters counters;
};

static struct port *read_ports(struct daemon *d, size_t *n)
{
    size_t room = 0;
    for (uint32_t i = node_port_next(d->node, 0); i; i = node_port_next(d->node, i))
        room++;
    struct port *ports = calloc(room ? room : 1, sizeof(*ports));
    *n = 0;
    for (uint32_t i = node_port_next(d->node, 0); ports && i && *n < room; i = node_port_next(d->node, i)) {
        struct port *p = &ports[*n];
        struct blob name = {0};
        char id[UUID_TEXT];
        if (!node_port_status(d->node, i, &p->status))
            continue;
        uuid_to_text(&p->status.id, id);
        metrics_label(&name, p->status.name ? p->status.name : "");
        snprintf(p->labels, sizeof(p->labels), "port=\"%s\",name=\"%s\"", id, name.s ? name.s : "");
        blob_free(&name);
        p->attached = view_attached(d, &p->status);
        node_port_use(d->node, i, &p->use);
        node_port_counters(d->node, i, &p->counters);
        ++*n;
    }
    return ports;
}

static void packets(struct blob *out, const struct port *p, size_t n)
{
    family(out, "nereus_port_packets", "counter", "Packets by direction as the guest sees it, and what became of them");
    for (size_t i = 0; i < n; i++) {
        for (int dir = 0; dir < 2; dir++) {
            const struct port_counters *c = &p[i].counters;
            const struct {
                const char *result;
                uint64_t value;
            } rows[] = {
                {"received", c->received[dir]}, {"sent", c->sent[dir]},           {"answered", c->answered[dir]},
                {"consumed", c->consumed[dir]}, {"generated", c->generated[dir]},
            };
            for (size_t row = 0; row < ARRAY_LEN(rows); row++)
                blob_printf(out, "nereus_port_packets_total{%s,direction=\"%s\",result=\"%s\"} %" PRIu64 "\n",
                            p[i].labels, directions[dir], rows[row].result, rows[row].value);
        }
    }
}

static void pair(struct blob *out, const char *name, const struct port *p, int dir, const char *result, uint64_t value)
{
    blob_printf(out, "%s{%s,direction=\"%s\",result=\"%s\"} %" PRIu64 "\n", name, p->labels, directions[dir], result,
                value);
}

static void bytes_and_lookups(struct blob *out, const struct port *p, size_t n)
{
    family(out, "nereus_port_bytes", "counter", "Bytes of guest frames");
    for (size_t i = 0; i < n; i++) {
        for (int dir = 0; dir < 2; dir++) {
            pair(out, "nereus_port_bytes_total", &p[i], dir, "received", p[i].counters.received_bytes[dir]);
            pair(out, "nereus_port_bytes_total", &p[i], dir, "sent", p[i].counters.sent_bytes[dir]);
        }
    }
    family(out, "nereus_port_lookups", "counter", "Flow table lookups");
    for (size_t i = 0; i < n; i++) {
        for (int dir = 0; dir < 2; dir++) {
            pair(out, "nereus_port_lookups_total", &p[i], dir, "hit", p[i].counters.hits[dir]);
            pair(out, "nereus_port_lookups_total", &p[i], dir, "miss", p[i].counters.misses[dir]);
        }
    }
}

static void port_drops(struct blob *out, const struct port *p, size_t n)
{
    family(out, "nereus_port_drops", "counter", "Packets dropped, by reason");
    for (size_t i = 0; i < n; i++)
        for (int dir = 0; dir < 2; dir++)
            for (int reason = DROP_NONE + 1; reason < DROP_COUNT; reason++)
                if (p[i].counters.drops[dir][reason])
                    blob_printf(out, "nereus_port_drops_total{%s,direction=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                                p[i].labels, directions[dir], drop_name(reason), p[i].counters.drops[dir][reason]);
}

static void port_gauges(struct blob *out, const struct port *p, size_t n)
{
    family(out, "nereus_port_connections", "gauge", "Live connections of the port");
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "nereus_port_connections{%s} %u\n", p[i].labels, p[i].status.connections);
    family(out, "nereus_port_connections_limit", "gauge", "Most connections the port may have");
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "nereus_port_connections_limit{%s} %u\n", p[i].labels, p[i].status.connections_max);
    family(out, "nereus_port_connections_guarantee", "gauge", "Connections that no other port can take");
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "nereus_port_connections_guarantee{%s} %u\n", p[i].labels, p[i].use.guarantee);
    family(out, "nereus_port_attached", "gauge", "1 when the port's device is there");
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "nereus_port_attached{%s} %d\n", p[i].labels, p[i].attached);
    family(out, "nereus_port_generation", "gauge", "Generation of the blueprint in force");
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "nereus_port_generation{%s} %" PRIu64 "\n", p[i].labels, p[i].status.generation);
}

static void snat(struct blob *out, const struct port *p, size_t n)
{
    static const char *const protocols[] = {[SNAT_TCP] = "tcp", [SNAT_UDP] = "udp", [SNAT_ICMP] = "icmp"};
    family(out, "nereus_port_snat_used", "gauge",
           "Ports of shared external addresses in use, those in quarantine included");
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < ARRAY_LEN(protocols) && p[i].use.snat_ports; k++)
            blob_printf(out, "nereus_port_snat_used{%s,protocol=\"%s\"} %u\n", p[i].labels, protocols[k],
                        p[i].use.snat_used[k]);
    family(out, "nereus_port_snat_limit", "gauge", "Ports of shared external addresses, for each protocol");
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < ARRAY_LEN(protocols) && p[i].use.snat_ports; k++)
            blob_printf(out, "nereus_port_snat_limit{%s,protocol=\"%s\"} %u\n", p[i].labels, protocols[k],
                        p[i].use.snat_ports);
}

static void rules(struct daemon *d, struct blob *out, const struct port *p, size_t n)
{
    family(out, "nereus_rule_hits", "counter", "Flows decided by a rule");
    for (size_t i = 0; i < n; i++) {
        const struct blueprint *b = node_blueprint(d->node, p[i].status.index);
        unsigned max = b ? b->firewall.n_rules + b->posture.n_in + b->posture.n_out + 4 : 0;
        struct rule_counter *c = max ? calloc(max, sizeof(*c)) : NULL;
        unsigned found = c ? node_rule_counters(d->node, p[i].status.index, c, max) : 0;
        for (unsigned j = 0; j < MIN(found, max); j++) {
            if (!c[j].hits)
                continue;
            blob_printf(out, "nereus_rule_hits_total{%s,layer=\"%s\",direction=\"%s\",rule=\"", p[i].labels, c[j].layer,
                        directions[c[j].dir & 1]);
            metrics_label(out, c[j].id);
            blob_printf(out, "\"} %" PRIu64 "\n", c[j].hits);
        }
        free(c);
    }
}

static void meter_family(struct daemon *d, struct blob *out, const struct port *p, size_t n, bool bytes)
{
    static struct meter_counter m[METER_CLASSES]; // the control thread is the only one here
    const char *name = bytes ? "nereus_meter_bytes" : "nereus_meter_packets";
    family(out, name, "counter", bytes ? "Bytes of guest frames by meter class" : "Packets by meter class");
    for (size_t i = 0; i < n; i++) {
        unsigned found = node_meters(d->node, p[i].status.index, m, METER_CLASSES);
        for (unsigned j = 0; j < found; j++)
            for (int dir = 0; dir < 2; dir++)
                blob_printf(out, "%s_total{%s,class=\"%u\",direction=\"%s\"} %" PRIu64 "\n", name, p[i].labels,
                            m[j].class_, directions[dir], bytes ? m[j].bytes[dir] : m[j].packets[dir]);
    }
}

static void meters(struct daemon *d, struct blob *out, const struct port *p, size_t n)
{
    node_meters_update(d->node, 0);
    meter_family(d, out, p, n, false);
    meter_family(d, out, p, n, true);
}

// ---- Families of the node

static void reasons(struct blob *out, const char *name, const char *help, const uint64_t drops[DROP_COUNT])
{
    family(out, name, "counter", help);
    for (int reason = DROP_NONE + 1; reason < DROP_COUNT; reason++)
        if (drops[reason])
            blob_printf(out, "%s_total{reason=\"%s\"} %" PRIu64 "\n", name, drop_name(reason), drops[reason]);
}

struct row {
    const char *result;
    uint64_t value;
};

static void results(struct blob *out, const char *name, const char *help, const struct row *rows, size_t n)
{
    family(out, name, "counter", help);
    for (size_t i = 0; i < n; i++)
        blob_printf(out, "%s_total{result=\"%s\"} %" PRIu64 "\n", name, rows[i].result, rows[i].value);
}

static void links(struct daemon *d, struct blob *out)
{
    struct node_counters c;
    node_counters(d->node, &c);
    const struct row underlay[] = {
        {"received", c.underlay_received}, {"to_port", c.underlay_to_port}, {"forwarded", c.underlay_forwarded}};
    const struct row external[] = {{"received", c.external_received},
                                   {"to_port", c.external_to_port},
                                   {"forwarded", c.external_forwarded},
                                   {"answered", c.external_answered},
                                   {"sent", c.external_sent}};
    const struct row service[] = {{"received", c.service_received}, {"to_port", c.service_to_port}};
    results(out, "nereus_underlay_packets", "Geneve packets", underlay, ARRAY_LEN(underlay));
    reasons(out, "nereus_underlay_drops", "Geneve packets that reached no port", c.underlay_drops);
    results(out, "nereus_external_packets", "Packets on external links", external, ARRAY_LEN(external));
    reasons(out, "nereus_external_drops", "Packets of external links dropped", c.external_drops);
    results(out, "nereus_service_packets", "Packets of the metadata service", service, ARRAY_LEN(service));
    reasons(out, "nereus_service_drops", "Packets of the metadata service dropped", c.service_drops);
}

static void driver(struct daemon *d, struct blob *out)
{
    struct linux_counters c;
    linux_counters(d->platform, &c);
    const struct row rows[] = {
        {"receive_bad", c.receive_bad},           {"receive_no_buffer", c.receive_no_buffer},
        {"transmit_refused", c.transmit_refused}, {"next_hop_pending", c.next_hop_pending},
        {"next_hop_failed", c.next_hop_failed},
    };
    results(out, "nereus_driver_lost", "Packets lost in the driver", rows, ARRAY_LEN(rows));
}

static void flow_log(struct daemon *d, struct blob *out)
{
    const struct row rows[] = {{"written", flow_writer_written(d->flow_writer)},
                               {"failed", flow_writer_failed(d->flow_writer)},
                               {"lost", node_flow_log_lost(d->node)}};
    results(out, "nereus_flow_log_records", "Flow records, and those that were lost", rows, ARRAY_LEN(rows));
}

static void tables(struct daemon *d, struct blob *out)
{
    struct table_use use[NODE_TABLES];
    unsigned n = node_tables(d->node, use);
    family(out, "nereus_table_used", "gauge", "Records in use in each table");
    for (unsigned i = 0; i < n; i++)
        blob_printf(out, "nereus_table_used{table=\"%s\"} %u\n", use[i].table, use[i].used);
    family(out, "nereus_table_limit", "gauge", "Size of each table");
    for (unsigned i = 0; i < n; i++)
        blob_printf(out, "nereus_table_limit{table=\"%s\"} %u\n", use[i].table, use[i].limit);
}

static void connections(struct daemon *d, struct blob *out)
{
    struct conn_stats s;
    node_conn_stats(d->node, &s);
    const struct row rows[] = {
        {"opened", s.opened}, {"closed", s.closed}, {"expired", s.expired}, {"refused", s.refused}};
    results(out, "nereus_connections", "Connections, by what became of them", rows, ARRAY_LEN(rows));
    family(out, "nereus_connections_evicted", "counter", "Connections that made room for others, by their class");
    for (unsigned class_ = 0; class_ < CONN_ACTIVE; class_++)
        blob_printf(out, "nereus_connections_evicted_total{class=\"%s\"} %" PRIu64 "\n", conn_class_name(class_),
                    s.evicted[class_]);
}

void metrics_write(struct daemon *d, struct blob *out)
{
    size_t n;
    struct port *ports = read_ports(d, &n);
    if (!ports) {
        out->failed = true;
        return;
    }
    family(out, "nereus_build", "info", "Version of nereusd");
    blob_puts(out, "nereus_build_info{version=\"" NEREUS_VERSION "\",node=\"");
    metrics_label(out, d->config->node);
    blob_puts(out, "\"} 1\n");
    blob_puts(out, "# TYPE nereus_uptime_seconds gauge\n# UNIT nereus_uptime_seconds seconds\n"
                   "# HELP nereus_uptime_seconds Time since nereusd started.\n");
    blob_printf(out, "nereus_uptime_seconds %.3f\n", (double)(daemon_now() - d->started) / 1e9);
    tables(d, out);
    connections(d, out);
    gauge(out, "nereus_connections_adopted", "Connections taken over from the process before", d->adopted);
    gauge(out, "nereus_state_damaged_files", "State files set aside since start", d->store.damaged);
    family(out, "nereus_state_write_failures", "counter", "State writes that failed");
    blob_printf(out, "nereus_state_write_failures_total %" PRIu64 "\n", d->store.write_failures);
    packets(out, ports, n);
    bytes_and_lookups(out, ports, n);
    port_drops(out, ports, n);
    port_gauges(out, ports, n);
    snat(out, ports, n);
    rules(d, out, ports, n);
    meters(d, out, ports, n);
    links(d, out);
    driver(d, out);
    if (d->flow_writer)
        flow_log(d, out);
    blob_puts(out, "# EOF\n");
    free(ports);
}
