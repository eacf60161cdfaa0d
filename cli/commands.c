// SPDX-License-Identifier: MPL-2.0
#include "cli/command.h"

#include <string.h>

const struct option_spec global_options[] = {
    {"output", 'o', "json|table", "json prints what the node's API said; table is the default"},
    {"socket", 's', "PATH", "the node's socket (default $NEREUS_SOCKET, else /run/nereus/nereusd.sock)"},
    {"help", 'h', NULL, "explain the command"},
    {"version", 'V', NULL, "print the version of this program"},
    {.name = NULL}};

static const struct option_spec list_port[] = {{"port", 'p', "PORT", "only this port"}, {.name = NULL}};
static const struct option_spec list_vni[] = {{"vni", 0, "VNI", "only this VPC"}, {.name = NULL}};
static const struct option_spec mapping_options[] = {{"mac", 0, "MAC", "the address's MAC"},
                                                     {"node", 0, "IPV6", "underlay address of the node that has it"},
                                                     {"epoch", 0, "N", "default: one above the epoch in force"},
                                                     {"state", 0, "STATE", "active (default), moving or tombstone"},
                                                     {.name = NULL}};
static const struct option_spec epoch_option[] = {{"epoch", 0, "N", "default: one above the epoch in force"},
                                                  {.name = NULL}};
static const struct option_spec trace_options[] = {
    {"port", 'p', "PORT", "the port that sends or receives (required, but for the next two)"},
    {"blueprint", 0, "FILE", "as if this blueprint of a port were in force; nothing is applied"},
    {"flow", 0, "ID", "the next packet of this connection (see flow list), and nothing else"},
    {"out", 0, NULL, "the packet comes from the guest"},
    {"in", 0, NULL, "the packet comes from the overlay"},
    {"from", 0, "IPV6", "with --in: the node it comes from (default: any node of the VPC)"},
    {"frame", 0, "HEX", "the whole Ethernet frame; or else:"},
    {"src", 0, "IP", "source address (default with --out: the port's)"},
    {"dst", 0, "IP", "destination address (default with --in: the port's)"},
    {"proto", 0, "PROTO", "tcp, udp, icmp, icmp6 or a number"},
    {"sport", 0, "N", "source port"},
    {"dport", 0, "N", "destination port"},
    {"flags", 0, "FLAGS", "TCP flags by letter, e.g. S or SA"},
    {"icmp-type", 0, "N", "ICMP type"},
    {"length", 0, "N", "length of the IP packet"},
    {.name = NULL}};
static const struct option_spec capture_options[] = {
    {"port", 'p', "PORT", "only this port"},
    {"points", 0, "LIST", "of from-guest, to-guest, drop (these by default), to-underlay, from-underlay; or all"},
    {"filter", 'f', "EXPR", "only frames that match, as in pcap-filter(7); hosts as addresses"},
    {"count", 'c', "N", "stop after N packets"},
    {"seconds", 0, "S", "stop after S seconds"},
    {"write", 'w', "FILE", "where to write pcapng; - is standard output (required)"},
    {.name = NULL}};
static const struct option_spec check_options[] = {
    {"run-dir", 0, "DIR", "nereusd's runtime directory (default /run/nereus)"},
    {"state-dir", 0, "DIR", "nereusd's state directory (default /var/lib/nereus)"},
    {.name = NULL}};

const struct noun nouns[] = {
    {"port", "virtual NICs on this node: status, rules, pause and reset"},
    {"blueprint", "the complete document of each port"},
    {"mapping", "where inner addresses live: VNI and address to node and MAC"},
    {"address-set", "named sets of prefixes that rules refer to"},
    {"external-mapping", "at an edge: which node serves an external address and port range"},
    {"edge-set", "which edges serve the external addresses of a prefix"},
    {"flow", "connections in the flow table"},
    {"event", "exhaustion, spoofing, refusals: what an operator should hear about"},
    {"trace", "explain what would become of a packet"},
    {"stats", "counters and drops, with what they mean"},
    {"capture", "packets as pcapng, dropped ones with the reason"},
    {"node", "the daemon's health and version"},
    {"check", "whether this machine can run a node"},
    {"completion", "completion for the shell"},
};
const unsigned n_nouns = sizeof(nouns) / sizeof(nouns[0]);

#define PORT_HOW "A port is named by its UUID, its unique name, or the beginning of its UUID."
#define FILE_HOW "FILE is JSON; - is standard input."

const struct command commands[] = {
    {"port", "list", "", 0, 0, ARGUMENT_OTHER, NULL, port_list, "list the ports of this node", NULL,
     "port list\nport list -o json | jq '.items[].name'"},
    {"port", "show", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_show, "status and counters of a port", PORT_HOW,
     "port show web\nport show 0192a7"},
    {"port", "pause", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_act, "stop all packets of a port; connections are kept",
     PORT_HOW, "port pause web"},
    {"port", "resume", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_act, "let packets of a paused port flow again", PORT_HOW,
     "port resume web"},
    {"port", "reset", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_act, "forget all connections of a port", PORT_HOW,
     "port reset web"},
    {"port", "rules", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_rules, "rules in force and how often each decided",
     PORT_HOW, "port rules web"},
    {"port", "meters", "PORT", 1, 1, ARGUMENT_PORT, NULL, port_meters,
     "packets and bytes by the meter class that rules give connections", PORT_HOW, "port meters web"},

    {"blueprint", "list", "", 0, 0, ARGUMENT_OTHER, NULL, blueprint_list, "generation and hash of each port's document",
     NULL, "blueprint list"},
    {"blueprint", "show", "PORT", 1, 1, ARGUMENT_PORT, NULL, blueprint_show, "the document as the node accepted it",
     PORT_HOW, "blueprint show web > web.json"},
    {"blueprint", "apply", "FILE...", 1, 64, ARGUMENT_FILE, NULL, blueprint_apply,
     "apply documents: each whole or not at all", FILE_HOW " The first refusal ends the command.",
     "blueprint apply web.json\ngenerate | nereus blueprint apply -"},
    {"blueprint", "check", "FILE...", 1, 64, ARGUMENT_FILE, NULL, blueprint_apply,
     "let the node check documents; apply nothing", FILE_HOW, "blueprint check web.json"},
    {"blueprint", "delete", "PORT", 1, 1, ARGUMENT_PORT, NULL, blueprint_delete, "remove a port from this node",
     PORT_HOW, "blueprint delete web"},

    {"mapping", "list", "", 0, 0, ARGUMENT_OTHER, list_vni, mapping_list, "list mappings", NULL,
     "mapping list --vni 100"},
    {"mapping", "set", "VNI IP", 2, 2, ARGUMENT_OTHER, mapping_options, mapping_set, "set one mapping",
     "--mac and --node are required for a new mapping; else they default to those in force.",
     "mapping set 100 10.0.0.4 --mac 02:00:00:00:00:04 --node fd00:cabe::b"},
    {"mapping", "apply", "FILE", 1, 1, ARGUMENT_FILE, NULL, mapping_apply, "apply many mappings, each by its epoch",
     FILE_HOW " It holds a mapping, an array of them, or {\"items\": [...]}.", "mapping apply mappings.json"},
    {"mapping", "delete", "VNI IP", 2, 2, ARGUMENT_OTHER, epoch_option, mapping_delete,
     "replace a mapping by a tombstone", NULL, "mapping delete 100 10.0.0.4"},

    {"address-set", "list", "", 0, 0, ARGUMENT_OTHER, NULL, address_set_list, "list address sets", NULL,
     "address-set list"},
    {"address-set", "apply", "FILE", 1, 1, ARGUMENT_FILE, NULL, address_set_apply, "apply address sets",
     FILE_HOW " It holds a set, an array of them, or {\"items\": [...]}.", "address-set apply web-servers.json"},
    {"address-set", "delete", "ID", 1, 1, ARGUMENT_OTHER, NULL, address_set_delete,
     "delete an address set that no rule uses", NULL, "address-set delete 0192a7c4-0000-7000-8000-000000000001"},

    {"external-mapping", "list", "", 0, 0, ARGUMENT_OTHER, NULL, external_mapping_list, "list external mappings", NULL,
     "external-mapping list"},
    {"external-mapping", "apply", "FILE", 1, 1, ARGUMENT_FILE, NULL, external_mapping_apply, "apply external mappings",
     FILE_HOW " It holds a mapping, an array of them, or {\"items\": [...]}.", "external-mapping apply floating.json"},

    {"edge-set", "list", "", 0, 0, ARGUMENT_OTHER, NULL, edge_set_list, "list edge sets", NULL, "edge-set list"},
    {"edge-set", "apply", "FILE", 1, 1, ARGUMENT_FILE, NULL, edge_set_apply, "apply edge sets",
     FILE_HOW " It holds a set, an array of them, or {\"items\": [...]}. A set without nodes is removed.",
     "edge-set apply edges.json"},

    {"flow", "list", "", 0, 0, ARGUMENT_OTHER, list_port, flow_list, "list connections", NULL,
     "flow list --port web\nflow list -o json | jq '.items | length'"},

    {"event", "list", "", 0, 0, ARGUMENT_OTHER, list_port, event_list, "the last events, oldest first", NULL,
     "event list\nevent list --port web"},

    {"trace", "", "", 0, 0, ARGUMENT_OTHER, trace_options, trace_packet,
     "explain, layer by layer, what would become of a packet",
     "Nothing is sent or counted and no state is made. A packet that would be dropped is a successful trace.",
     "trace --port web --out --dst 10.0.0.4 --proto tcp --dport 443 --flags S\n"
     "trace --port web --in --src 10.0.0.4 --proto icmp --icmp-type 8\n"
     "trace --port web --out --frame 02000000000102...\n"
     "trace --blueprint new.json --out --dst 10.0.0.4 --proto tcp --dport 443\n"
     "trace --flow 17 --in"},

    {"stats", "", "", 0, 0, ARGUMENT_OTHER, list_port, stats_show,
     "counters that are not zero, and why packets dropped", NULL, "stats\nstats --port web"},

    {"capture", "", "", 0, 0, ARGUMENT_OTHER, capture_options, capture_write, "write packets as pcapng",
     "Ends with --count, with --seconds, or when interrupted.",
     "capture --port web -w web.pcapng --seconds 10\n"
     "capture --filter 'tcp port 80 and host 10.0.0.4' -w web.pcapng\n"
     "capture --points drop -w - | tshark -r - -O frame"},

    {"node", "health", "", 0, 0, ARGUMENT_OTHER, NULL, node_health, "health of the daemon", NULL, "node health"},
    {"node", "version", "", 0, 0, ARGUMENT_OTHER, NULL, node_version, "version and capabilities of the daemon", NULL,
     "node version"},

    {"check", "", "", 0, 0, ARGUMENT_OTHER, check_options, check_machine, "check this machine for running a node",
     "Asks the machine, not the daemon. Exit code 1 when something that a node needs is missing.",
     "check\ncheck -o json"},

    {"completion", "bash", "", 0, 0, ARGUMENT_OTHER, NULL, completion_bash, "print a completion script for bash", NULL,
     "completion bash > /usr/share/bash-completion/completions/nereus"},
    {"completion", "ports", "", 0, 0, ARGUMENT_OTHER, NULL, completion_ports, "print what ports can be called", NULL,
     "completion ports"},
};
const unsigned n_commands = sizeof(commands) / sizeof(commands[0]);

const struct noun *noun_find(const char *name)
{
    for (unsigned i = 0; i < n_nouns; i++) {
        if (strcmp(nouns[i].name, name) == 0)
            return &nouns[i];
    }
    return NULL;
}

const struct command *command_find(const char *noun, const char *verb)
{
    for (unsigned i = 0; i < n_commands; i++) {
        if (strcmp(commands[i].noun, noun) == 0 && strcmp(commands[i].verb, verb) == 0)
            return &commands[i];
    }
    return NULL;
}
