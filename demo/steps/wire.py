# SPDX-License-Identifier: MPL-2.0
import socket
import sys

import geneve
from lab import RUN, inside
from world import ACME_VNI, RIVAL_VNI

TITLE = "on the underlay tshark sees Geneve, port 6081, the right VNI, 70 bytes more; host traffic is untouched"

FLOWS = 12


def run(world, report):
    web, rweb, lab = world.guest(world.web), world.guest(world.rweb), world.lab
    capture = lab.capture("nrs-fabric", "node-a")
    for _ in range(FLOWS):
        web.greeting(world.db.ip4, 5432)
    rweb.greeting(world.rdb.ip4, 5432)
    host_traffic(world, report)
    capture.stop()
    pcap = RUN / "underlay.pcap"
    capture.write_pcap(pcap)
    frames = [f for f in geneve.decode(pcap, "geneve && tcp.port == 5432")]
    from_a = [f for f in frames if f["ipv6.src"][0] == "fd00:cabe::a"]
    acme = [f for f in from_a if f["geneve.vni"] == [hex6(ACME_VNI)]]
    rival = [f for f in from_a if f["geneve.vni"] == [hex6(RIVAL_VNI)]]
    report.check("outer destination port", {"6081"}, {f["udp.dstport"][0] for f in frames})
    report.check("outer addresses", {("fd00:cabe::a", "fd00:cabe::b"), ("fd00:cabe::b", "fd00:cabe::a")},
                 {(f["ipv6.src"][0], f["ipv6.dst"][0]) for f in frames})
    report.check("VNIs", {hex6(ACME_VNI), hex6(RIVAL_VNI)}, {f["geneve.vni"][0] for f in frames})
    report.check("every frame belongs to one of the two", len(from_a), len(acme) + len(rival))
    report.check("payload protocol is Ethernet", {"0x6558"}, {f["geneve.proto_type"][0] for f in frames})
    report.check("bytes over the inner frame", {geneve.OVERHEAD},
                 {int(f["frame.len"][0]) - geneve.inner_length(f) for f in frames})
    by_flow = {}
    for frame in acme:
        by_flow.setdefault(frame["tcp.srcport"][0], set()).add(frame["udp.srcport"][0])
    report.check("outer source ports of one flow", {1}, {len(ports) for ports in by_flow.values()})
    distinct = len({next(iter(ports)) for ports in by_flow.values()})
    report.check(f"different outer source ports over {FLOWS} flows", "most of them differ", distinct,
                 ok=len(by_flow) == FLOWS and distinct >= FLOWS * 3 // 4)
    report.check("outer source ports lie within", "49152-65535", sorted(f["udp.srcport"][0] for f in acme)[0],
                 ok=all(49152 <= int(f["udp.srcport"][0]) for f in acme))
    report.check("ICMPv6 port-unreachable from a host stack that was not told of Geneve", 0,
                 len(capture.seen(geneve.is_port_unreachable)))
    report.note("tshark:")
    report.note("\n".join(geneve.describe(pcap, "geneve && tcp.dstport == 5432", limit=8)))


def host_traffic(world, report):
    """A TCP server of node B's own, as SSH or storage would be."""
    lab, a, b = world.lab, world.nodes["a"], world.nodes["b"]
    server = lab.start(b.namespace, sys.executable, world.here / "tenant.py", "host-b", 8022, name="host-b")
    server.listens(8022)
    with inside(a.namespace):
        connection = socket.create_connection((b.address, 8022), timeout=5)
    greeting = connection.makefile().readline().split()
    connection.close()
    server.kill()
    report.check("node A's host connects to a TCP server on node B's host", ["host-b", a.address], greeting[:2])


def hex6(vni):
    return f"0x{vni:06x}"
