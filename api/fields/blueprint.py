# SPDX-License-Identifier: MPL-2.0
"""Blueprint: one complete document per port, nothing referred to by name."""

from schema import *

PIPELINE = enum("blueprint_pipeline", "BLUEPRINT_PIPELINE_", "vpc",
                Word("bridge", supported=False, in_c=False), Word("p4", supported=False, in_c=False))

VPC = struct(
    "blueprint_vpc", "The network the port belongs to.",
    Field("id", uuid),
    Field("vni", u32(1, 0xFFFFFD), doc="Geneve network identifier"),
    Field("mtu", u32(1280, 65535), doc="the guest's IP MTU"))

DEVICE_KIND = enum(
    "blueprint_device_kind", "BLUEPRINT_DEVICE_",
    ("veth", "host end of a veth, by ifname"),
    ("tap", "a persistent tap of our own"),
    ("tap-adopt", "a tap someone else made and holds"),
    Word("vhost-user", supported=False),
    ("netdev", "any Linux netdev"),
    ("none", "no device: tests, staged ports"))

WITH_IFNAME = ("veth", "tap", "tap-adopt", "netdev")
DEVICE = struct(
    "blueprint_device", "How the guest is attached.",
    Field("kind", choice(DEVICE_KIND)),
    Field("ifname", string(15, "IFNAME"), "", "interface name, up to 15 characters",
          when=WITH_IFNAME, need=WITH_IFNAME),
    Field("socket", string(107, "PATH"), "", "path of the vhost-user socket", when=("vhost-user",)),
    Field("mode", flag("client", "server"), "client", "our end of the vhost-user socket", c="server"),
    Field("queues", u32(1, 16), 1),
    Field("offloads", boolean, True, "checksum and segmentation offloads are given to the guest"),
    tag="kind", tag_enum=DEVICE_KIND)

DIRECTION = enum("blueprint_direction", "BLUEPRINT_", "in", "out", "both", first=1)

ALLOWED = struct(
    "blueprint_allowed", "Addresses beside its own that the guest may use.",
    Field("cidr", prefix()),
    Field("mac", mac, OPTIONAL, "source MAC that goes with them; null or absent: the port's own"),
    Field("dir", choice(DIRECTION), "both"))

L2 = struct(
    "blueprint_l2", "The guest's own addresses.",
    Field("mac", unicast_mac),
    Field("addresses", listed(ip(form="UNICAST"), 64, 1), doc="the first of each family is the one DHCP gives"),
    Field("anti_spoof", boolean, True, "drop what the guest sends from other addresses"),
    Field("allowed", listed(object_of(ALLOWED), 4096), []))

DHCP_ROUTE = struct(
    "blueprint_dhcp_route", "A route told to the guest (option 121).",
    Field("prefix", prefix(4)),
    Field("via", ip(4), ZERO, "absent: the gateway"))

DHCP4 = struct(
    "blueprint_dhcp4", "DHCPv4 service.",
    Field("lease_s", u32(60, 0xFFFFFFFF), 3600),
    Field("dns", listed(ip(4), 16), []),
    Field("domain", string(253, "DOMAIN"), ""),
    Field("hostname", string(253, "DOMAIN"), ""),
    Field("routes", listed(object_of(DHCP_ROUTE), 64), []),
    present="enabled")

DHCP6 = struct(
    "blueprint_dhcp6", "DHCPv6 service.",
    Field("lease_s", u32(60, 0xFFFFFFFF), 3600),
    Field("dns", listed(ip(6), 16), []),
    Field("domain", string(253, "DOMAIN"), ""),
    present="enabled")

RA = struct(
    "blueprint_ra", "Router advertisements.",
    Field("slaac", boolean, False, "the guest may make its own address in the /64"),
    present="enabled")

METADATA = struct(
    "blueprint_metadata", "Metadata service at 169.254.169.254 and fd00:ec2::254.",
    Field("token_required", boolean, False, "only with a session token"),
    Field("document", json_object, {}, "its content; kept as canonical JSON text"),
    present="enabled")

GATEWAY = struct(
    "blueprint_gateway", "The subnet's router as the guest sees it.",
    Field("mac", unicast_mac, doc="the same on every node"),
    Field("v4", ip(4, "UNICAST"), OPTIONAL),
    Field("v6", ip(6, "UNICAST"), OPTIONAL),
    Field("subnets", listed(prefix(), 64), []),
    Field("guest_prefix", flag("host", "subnet"), "host", "mask the guest is given", c="guest_prefix_subnet"),
    Field("dhcp4", object_of(DHCP4), OPTIONAL, "absent: no service"),
    Field("dhcp6", object_of(DHCP6), OPTIONAL, "absent: no service"),
    Field("ra", object_of(RA), OPTIONAL, "absent: none sent"),
    Field("metadata", object_of(METADATA), OPTIONAL, "absent: no service"))

ACTION = enum("blueprint_action", "BLUEPRINT_", "allow", "deny", "reject")

ICMP = struct(
    "blueprint_icmp", "One ICMP type, or type and code.",
    Field("type", nullable(0, 255), None, "null: any"),
    Field("code", nullable(0, 255), None, "null: any"))

REMOTE_KIND = enum("blueprint_remote_kind", "BLUEPRINT_REMOTE_", "any", "vpc", "cidrs", "set")

REMOTE = struct(
    "blueprint_remote", "The other end. Exactly one of these.",
    Field("any", mark, ZERO, "everyone", one_of=True, store=False),
    Field("vpc", mark, ZERO, "everyone in the port's VPC", one_of=True, store=False),
    Field("cidrs", listed(prefix()), [], one_of=True),
    Field("set", uuid, ZERO, "an address set", one_of=True),
    tag="kind", tag_enum=REMOTE_KIND)

RULE_DIRECTION = Enum("blueprint_direction", "", DIRECTION.words[:2])

RULE = struct(
    "blueprint_rule", "One rule. The lower priority number wins; at equal priority deny wins.",
    Field("id", string(63, "WORD", 1), doc="unique in its list; counters and traces name it"),
    Field("prio", u32(0, 65535)),
    Field("dir", choice(RULE_DIRECTION), doc="BLUEPRINT_IN or BLUEPRINT_OUT"),
    Field("action", choice(ACTION)),
    Field("proto", protocol, PROTOCOL_ANY, "0..255 or PROTOCOL_ANY"),
    Field("ports", listed(ports, 4096), [], "destination ports; empty: all. Only tcp, udp, sctp"),
    Field("icmp", listed(object_of(ICMP), 256), [], "empty: all. Only icmp, icmp6"),
    Field("remote", object_of(REMOTE), {}, "absent: any"),
    Field("stateful", boolean, True, unsupported="stateless rules"),
    Field("log", boolean, False),
    Field("meter", u32(), 0),
    label="rule")

FIREWALL = struct(
    "blueprint_firewall", "Security groups, compiled.",
    Field("default_in", flag("deny", "allow"), "deny", c="default_in_allow"),
    Field("default_out", flag("deny", "allow"), "allow", c="default_out_allow"),
    Field("established", flag("revalidate", "keep"), "revalidate",
          "what a policy change means to a running connection", c="established_keep"),
    Field("tcp_strict", boolean, False, "drop TCP segments without SYN and without connection"),
    Field("rules", listed(object_of(RULE)), []))

POSTURE = struct(
    "blueprint_posture", "The operator's rules, over the tenant's; no match: allow.",
    Field("out", listed(object_of(RULE)), []),
    Field("in", listed(object_of(RULE)), []))

TARGET_KIND = enum(
    "blueprint_target_kind", "BLUEPRINT_TARGET_",
    ("local", "destination is in the VPC: look up its own mapping"),
    ("ip", "next hop: mapping of `ip`"),
    ("port", "the same, an appliance"),
    ("external", "internet gateway: floating IP only"),
    ("nat", "NAT gateway: floating IP if there is one, else SNAT"),
    ("peering", "mapping of the destination in VPC `vni`"),
    "blackhole")

TARGET = struct(
    "blueprint_target", "Where a route leads.",
    Field("kind", choice(TARGET_KIND)),
    Field("ip", ip(form="UNICAST"), ZERO, "next hop, of the destination's family",
          when=("ip", "port"), need=("ip", "port")),
    Field("vni", u32(1, 0xFFFFFD), ZERO, "peer VPC", when=("peering",), need=("peering",)),
    Field("network", uuid, OPTIONAL, "external network, to choose among external addresses",
          when=("external", "nat")),
    tag="kind", tag_enum=TARGET_KIND)

ROUTE = struct(
    "blueprint_route", "The longest prefix wins.",
    Field("prefix", prefix()),
    Field("target", object_of(TARGET)),
    Field("origin", flag("system", "custom"), "system", "custom wins over system for an equal prefix", c="custom"))

NETWORK = Field("network", uuid, OPTIONAL, "external network it belongs to")

FLOATING = struct(
    "blueprint_floating", "1:1 translation, of one family.",
    Field("external", ip(form="UNICAST")),
    Field("internal", ip(form="UNICAST"), doc="one of the port's addresses"),
    NETWORK)

SNAT = struct(
    "blueprint_snat", "A share of an external address: its ports are this port's alone.",
    Field("address", ip(form="UNICAST")),
    Field("ports", ports),
    NETWORK)

NAT = struct(
    "blueprint_nat", "External addresses.",
    Field("floating", listed(object_of(FLOATING), 64), []),
    Field("snat", listed(object_of(SNAT), 64), []),
    Field("attached", listed(prefix(), 16), [],
          "external subnets routed to the port, its own and untranslated: IPv4 /24 to /32, IPv6 /48 to /64 and /128"))

TARGET_STATE = enum(
    "blueprint_vip_target_state", "BLUEPRINT_VIP_TARGET_",
    ("active", "takes new connections"),
    ("draining", "keeps its connections, takes no new ones"),
    ("down", "its connections end with their next packet"))

VIP_TARGET = struct(
    "blueprint_vip_target", "One that serves a virtual IP.",
    Field("address", ip(form="UNICAST")),
    Field("port", u16(), 0, "0 or absent: the one the client used"),
    Field("weight", u16(1, 256), 1, "share of new connections"),
    Field("state", choice(TARGET_STATE), "active"))

VIP = struct(
    "blueprint_vip", "A virtual IP: the client's node chooses a target for each connection.",
    Field("id", string(63, "WORD", 1), doc="unique in the list"),
    Field("address", ip(form="UNICAST")),
    Field("protocol", protocol, PROTOCOL_ANY, "0..255 or PROTOCOL_ANY"),
    Field("port", u16(), 0, "0: all. Only tcp, udp, sctp"),
    Field("scheduler", flag("maglev", "hash"), "maglev", c="hash"),
    Field("affinity", flag("none", "client-ip"), "none", "client-ip: one client address, one target",
          c="client_affinity"),
    Field("external", boolean, False,
          "serves connections from outside too; its targets are then the port's own addresses"),
    Field("targets", listed(object_of(VIP_TARGET), 128), []),
    label="virtual IP")

QOS = struct(
    "blueprint_qos", "Rate limits, each with a burst of 50 ms. 0: no limit.",
    Field("out_bps", u64(0, 10 ** 12), 0, "bits per second of frames from the guest"),
    Field("in_bps", u64(0, 10 ** 12), 0, "bits per second of frames to the guest"),
    Field("pps", u32(), 0, "packets per second in each direction; a super-frame is one"),
    Field("new_per_s", u32(), 0, "new connections per second"))

LIMITS = struct(
    "blueprint_limits", "Connections.",
    Field("flows_min", u32(0, 1 << 24), 0, "that no other port can take"),
    Field("flows_max", u32(1, 1 << 24), 65536, "at most"))

BLUEPRINT = struct(
    "blueprint", "One port.",
    Field("schema", u32(1, 1)),
    Field("port", uuid),
    Field("generation", u64(1)),
    Field("hash", hash256, ZERO, "SHA-256 over the canonical document without generation and hash; absent: computed"),
    Field("name", string(63), ""),
    Field("pipeline", choice(PIPELINE), "vpc"),
    Field("vpc", object_of(VPC)),
    Field("device", object_of(DEVICE)),
    Field("l2", object_of(L2)),
    Field("gateway", object_of(GATEWAY)),
    Field("posture", object_of(POSTURE), {}),
    Field("firewall", object_of(FIREWALL), {}),
    Field("routes", listed(object_of(ROUTE), 1 << 20), []),
    Field("nat", object_of(NAT), {}),
    Field("lb", listed(object_of(VIP), 1024), [], "virtual IPs that this port's connections are translated for"),
    Field("qos", object_of(QOS), {}),
    Field("limits", object_of(LIMITS), {}),
    check="check_blueprint")

HEADER = Header(
    "api/types/blueprint.h",
    "Blueprint: one complete document per port, nothing referred to by name.",
    [PIPELINE, VPC, DEVICE_KIND, DEVICE, DIRECTION, ALLOWED, L2, DHCP_ROUTE, DHCP4, DHCP6, RA, METADATA, GATEWAY,
     ACTION, ICMP, REMOTE_KIND, REMOTE, RULE, FIREWALL, POSTURE, TARGET_KIND, TARGET, ROUTE, FLOATING, SNAT, NAT,
     TARGET_STATE, VIP_TARGET, VIP, QOS, LIMITS, BLUEPRINT],
    resources={"blueprint": BLUEPRINT})
