# SPDX-License-Identifier: MPL-2.0
"""The demo's world: an IPv6 fabric, its nodes, two VPCs with the same addresses, and an internet.

    nrs-web   nrs-rweb       nrs-db   nrs-rdb      (db moves here)
       |veth     |veth          |veth    |tap            :
    [ nrs-node-a : nereusd ]  [ nrs-node-b : nereusd ]  [ nrs-node-c : nereusd ]
       |ext0        |eth0          |eth0                    |eth0
    nrs-internet    +-------- nrs-fabric: fd00:cabe::/64 ---+
"""

from blueprints import PING, Vpc, allow, external_mapping
from guest import Guest
from node import Node

ACME_VNI, RIVAL_VNI = 100, 200
OVERHEAD = 70  # IPv6 40, UDP 8, Geneve 8, inner Ethernet 14
FLOATING = "198.51.100.7"
SNAT, SNAT6 = "198.51.100.9", "2001:db8:e::9"
WEB_SLICE, DB_SLICE = "1024-3071", "3072-5119"
INTERNET, INTERNET6 = "198.51.100.1", "2001:db8:e::1"
EXTERNAL_LINK = {"ifname": "ext0", "prefix4": "198.51.100.0/24", "gateway4": INTERNET,
                 "prefix6": "2001:db8:e::/64", "gateway6": INTERNET6}


def snat(ports):
    return [{"address": SNAT, "ports": ports}, {"address": SNAT6, "ports": ports}]


class World:
    def __init__(self, lab, build, mtu):
        self.lab, self.build, self.mtu = lab, build, mtu
        self.vpc_mtu = mtu - OVERHEAD
        self.nodes = {}
        acme, rival = Vpc("acme-prod", 1, ACME_VNI, self.vpc_mtu), Vpc("rival-prod", 2, RIVAL_VNI, self.vpc_mtu)
        inside = {"vpc": True}
        iperf = allow("iperf", "tcp", [5201], inside)
        self.web = acme.port("web", 3, "web", snat=snat(WEB_SLICE),
                             rules=[*PING, allow("http", "tcp", [80]), iperf])
        self.db = acme.port("db", 4, "db", snat=snat(DB_SLICE),
                            rules=[*PING, allow("postgres", "tcp", [5432], inside),
                                   allow("redis", "tcp", [6379], inside), iperf])
        self.rweb = rival.port("web", 3, "rweb", rules=PING)
        self.rdb = rival.port("db", 4, "rdb", kind="tap", rules=[*PING, allow("postgres", "tcp", [5432], inside)])
        self.ports = [self.web, self.db, self.rweb, self.rdb]
        self.home = {self.web: "a", self.rweb: "a", self.db: "b", self.rdb: "b"}
        self.guests = {}

    def build_up(self):
        self.make_fabric()
        self.add_node("a", external=[EXTERNAL_LINK])
        self.add_node("b")
        self.make_internet()
        for node in self.nodes.values():
            node.start()
        for port, name in ((self.web, "web"), (self.db, "db"), (self.rweb, "rweb"), (self.rdb, "rdb")):
            self.add_guest(port, name)
        for node in self.nodes.values():
            self.teach(node)

    def make_fabric(self):
        lab = self.lab
        lab.namespace("nrs-fabric")
        lab.ip("nrs-fabric", "link", "add", "fabric0", "mtu", self.mtu, "type", "bridge", "mcast_snooping", 0)
        lab.ip("nrs-fabric", "link", "set", "fabric0", "up")

    def add_node(self, letter, external=None):
        node = Node(self.lab, self.build, letter, self.mtu, external)
        self.nodes[letter] = node
        return node

    def make_internet(self):
        lab = self.lab
        self.internet = Guest(lab, "internet")
        lab.veth(self.nodes["a"].namespace, "ext0", "nrs-internet", "eth0")
        for address in (f"{INTERNET}/24", f"{INTERNET6}/64"):
            lab.ip("nrs-internet", "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))

    def add_guest(self, port, name):
        node = self.nodes[self.home[port]]
        guest = Guest(self.lab, name, port)
        self.guests[port] = guest
        if port.kind == "tap":
            node.api.put_blueprint(port.blueprint())
            guest.plug_tap(node)
        else:
            guest.plug_veth(node)
            node.api.put_blueprint(port.blueprint())
        return guest

    def guest(self, port):
        return self.guests[port]

    def node_of(self, port):
        return self.nodes[self.home[port]]

    def mappings(self):
        return [m for port in self.ports for m in port.mappings(self.node_of(port).address)]

    def external_mappings(self):
        """At the edge: who owns which slice of the shared address."""
        found = []
        for port, ports in ((self.web, WEB_SLICE), (self.db, DB_SLICE)):
            for address in (SNAT, SNAT6):
                found.append(external_mapping(address, ports, self.node_of(port).address, port))
        return found

    def teach(self, node):
        """What the controller's streams would bring: mappings, edges, external mappings."""
        node.api.post("/v1/mappings", {"items": self.mappings()})
        edge = self.nodes["a"].address
        for prefix in ("198.51.100.0/24", "2001:db8:e::/64"):
            node.api.put("/v1/edge-sets/" + prefix.replace("/", "_"), {"prefix": prefix, "nodes": [edge], "epoch": 1})
        if node is self.nodes["a"]:
            node.api.post("/v1/external-mappings", {"items": self.external_mappings()})
