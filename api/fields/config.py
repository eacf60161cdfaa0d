# SPDX-License-Identifier: MPL-2.0
"""nereusd's configuration file."""

from schema import *

UNDERLAY = struct(
    "config_underlay", "The interface that carries Geneve.",
    Field("ifname", string(15, "IFNAME", 1)),
    Field("address", ip(6, "UNICAST"), doc="this node's address"),
    Field("mtu", u32(1280, 65535), 1500, "IP MTU"))

LIMITS = struct(
    "config_limits", "Sizes of the tables, allocated at start.",
    Field("ports", u32(1, 65534), 256),
    Field("connections", u32(64, 1 << 26), 262144),
    Field("mappings", u32(64, 1 << 24), 65536))

EXTERNAL = struct(
    "config_external", "A link to the outside: makes the node an edge.",
    Field("ifname", string(15, "IFNAME", 1)),
    Field("prefix4", prefix(4), ZERO, "on-link prefix"),
    Field("gateway4", ip(4, "UNICAST"), ZERO, "absent: everything is on-link"),
    Field("prefix6", prefix(6), ZERO, "on-link prefix"),
    Field("gateway6", ip(6, "UNICAST"), ZERO, "absent: everything is on-link"),
    check="check_external")

METADATA = struct(
    "config_metadata", "Metadata service.",
    Field("enabled", boolean, True))

COLLECTOR = struct(
    "config_collector", "Whom IPFIX is sent to, over UDP.",
    Field("address", ip(form="UNICAST")),
    Field("port", u16(1), 4739))

FLOW_LOG_FORMAT = enum("config_flow_log_format", "CONFIG_FLOW_LOG_", "json", "ipfix")

FLOW_LOG = struct(
    "config_flow_log", "Records of connections and refusals.",
    Field("format", choice(FLOW_LOG_FORMAT), "json", "lines in a file, or messages to a collector"),
    Field("path", string(255, "PATH"), "", "the file", when=("json",), need=("json",)),
    Field("max_bytes", u64(4096, 1 << 40), 64 << 20, "the file is rotated beyond this"),
    Field("files", u32(1, 100), 5, "rotated files that are kept"),
    Field("collector", object_of(COLLECTOR), OPTIONAL, when=("ipfix",), need=("ipfix",)),
    Field("all", boolean, False, "every connection and refusal, not only where a rule says log"),
    tag="format", tag_enum=FLOW_LOG_FORMAT)

SECONDS = u32(1, 1 << 20)
TIMEOUTS = struct(
    "conn_timeouts", "Seconds of silence after which a connection ends.",
    Field("tcp_syn", SECONDS, 30),
    Field("tcp_syn_nat", SECONDS, 240),
    Field("tcp_established", SECONDS, 8000),
    Field("tcp_closing", SECONDS, 120),
    Field("tcp_closing_nat", SECONDS, 240),
    Field("udp_one_way", SECONDS, 30),
    Field("udp_two_way", SECONDS, 180),
    Field("udp_one_way_nat", SECONDS, 120),
    Field("udp_two_way_nat", SECONDS, 300),
    Field("icmp", SECONDS, 60),
    Field("other", SECONDS, 600), emit=False)

CONFIG = struct(
    "nereusd_config", "/etc/nereus/nereusd.json",
    Field("node", string(63, "WORD", 1), doc="this node's name"),
    Field("underlay", object_of(UNDERLAY)),
    Field("socket", string(107, "PATH"), "/run/nereus/nereusd.sock", "of the API"),
    Field("run_dir", string(255, "PATH"), "/run/nereus", "what outlives the process, not the machine"),
    Field("state_dir", string(255, "PATH"), "/var/lib/nereus", "what outlives the machine's restart"),
    Field("workers", u32(1, 16), 1),
    Field("limits", object_of(LIMITS), {}),
    Field("external", listed(object_of(EXTERNAL), 4), []),
    Field("metadata", object_of(METADATA), {}),
    Field("flow_log", object_of(FLOW_LOG), OPTIONAL, "absent: none is kept"),
    Field("timeouts", object_of(TIMEOUTS), {}))

HEADER = Header(
    "api/types/config.h",
    "nereusd's configuration file.",
    [UNDERLAY, LIMITS, EXTERNAL, METADATA, COLLECTOR, FLOW_LOG_FORMAT, FLOW_LOG, CONFIG],
    includes=("api/types/types.h", "engine/connection.h"),
    resources={"config": CONFIG})
