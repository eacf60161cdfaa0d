# SPDX-License-Identifier: MPL-2.0
"""Blueprints, mappings and what else a controller would send."""

import copy
import hashlib
import json

GATEWAY_MAC = "02:00:00:00:00:01"
GATEWAY4, GATEWAY6, GATEWAY_LINK_LOCAL = "10.0.0.1", "fd00:10::1", "fe80::ff:fe00:1"


def allow(rule_id, protocol, ports=None, remote=None, direction="in", priority=100, **more):
    rule = {"id": rule_id, "prio": priority, "dir": direction, "action": "allow", "proto": protocol, **more}
    if ports:
        rule["ports"] = [str(p) for p in ports]
    if remote:
        rule["remote"] = remote
    return rule


PING = [allow("ping", "icmp", icmp=[{"type": 8, "code": None}]),
        allow("ping6", "icmp6", icmp=[{"type": 128, "code": None}])]


class Vpc:
    def __init__(self, name, number, vni, mtu):
        self.name, self.vni, self.mtu = name, vni, mtu
        self.id = f"0190f000-0000-7000-8000-{number:012x}"

    def port(self, name, number, ifname, kind="veth", **policy):
        return Port(self, name, number, ifname, kind, **policy)


class Port:
    """A port as its owner thinks of it; `blueprint()` is the whole document. Change it, then call `next()`."""

    def __init__(self, vpc, name, number, ifname, kind="veth", rules=(), snat=(), floating=(), host=None):
        self.vpc, self.name, self.ifname, self.kind = vpc, name, ifname, kind
        self.host = host or number
        self.id = f"0190f001-0000-7000-8000-{vpc.vni:06x}{number:06x}"
        self.ip4, self.ip6 = f"10.0.0.{self.host}", f"fd00:10::{self.host:x}"
        self.mac = f"02:00:0a:00:00:{self.host:02x}"
        self.rules, self.snat, self.floating = list(rules), list(snat), list(floating)
        self.instance_id = f"i-{vpc.name}-{name}"
        self.generation = 1

    def next(self):
        self.generation += 1
        return self.blueprint()

    def blueprint(self):
        outside = {"kind": "nat"} if self.snat or self.floating else {"kind": "blackhole"}
        document = {
            "schema": 1, "port": self.id, "generation": self.generation, "name": self.name, "pipeline": "vpc",
            "vpc": {"id": self.vpc.id, "vni": self.vpc.vni, "mtu": self.vpc.mtu},
            "device": {"kind": self.kind, "ifname": self.ifname, "queues": 1, "offloads": True},
            "l2": {"mac": self.mac, "addresses": [self.ip4, self.ip6], "anti_spoof": True, "allowed": []},
            "gateway": {
                "mac": GATEWAY_MAC, "v4": GATEWAY4, "v6": GATEWAY6, "subnets": ["10.0.0.0/24", "fd00:10::/64"],
                "guest_prefix": "host",
                "dhcp4": {"lease_s": 3600, "dns": ["10.0.0.2"], "domain": f"{self.vpc.name}.internal",
                          "hostname": self.name, "routes": []},
                "dhcp6": {"lease_s": 3600, "dns": ["fd00:10::2"], "domain": f"{self.vpc.name}.internal"},
                "ra": {"slaac": False},
                "metadata": {"token_required": False, "document": {"meta-data": {"instance-id": self.instance_id}}},
            },
            "posture": {"out": [], "in": []},
            "firewall": {"default_in": "deny", "default_out": "allow", "established": "revalidate",
                         "rules": copy.deepcopy(self.rules)},
            "routes": [
                {"prefix": "10.0.0.0/16", "target": {"kind": "local"}, "origin": "system"},
                {"prefix": "fd00:10::/64", "target": {"kind": "local"}, "origin": "system"},
                {"prefix": "0.0.0.0/0", "target": outside, "origin": "custom"},
                {"prefix": "::/0", "target": outside, "origin": "custom"},
            ],
            "nat": {"floating": list(self.floating), "snat": list(self.snat)},
            "lb": [],
            "qos": {"out_bps": 0, "in_bps": 0, "pps": 0, "new_per_s": 0},
            "limits": {"flows_min": 0, "flows_max": 65536},
        }
        return sealed(document)

    def mappings(self, node, epoch=1, state="active"):
        return [{"vni": self.vpc.vni, "ip": ip, "mac": self.mac, "node": node, "epoch": epoch, "state": state}
                for ip in (self.ip4, self.ip6)]


def sealed(document):
    """With its hash: SHA-256 over the document without generation and hash, keys sorted, no spaces."""
    body = {key: value for key, value in document.items() if key not in ("generation", "hash")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**document, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def external_mapping(address, ports, node, port, epoch=1, protocol="any"):
    return {"address": address, "protocol": protocol, "ports": ports, "node": node, "port": port.id, "epoch": epoch,
            "state": "active"}
