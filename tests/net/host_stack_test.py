# SPDX-License-Identifier: MPL-2.0
import ipaddress
import json
import pathlib
import socket
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import NetworkTest
from geneve import is_geneve, is_port_unreachable
from lab import inside

HOST4, HOST6 = "192.0.2.1", "2001:db8:ff::1"


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def echo4(dst_mac, src_mac, src, dst):
    icmp = struct.pack(">BBHHH", 8, 0, 0, 77, 1) + b"anyone?!"
    icmp = icmp[:2] + struct.pack(">H", checksum(icmp)) + icmp[4:]
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(icmp), 1, 0, 64, 1, 0)
    header += socket.inet_aton(src) + socket.inet_aton(dst)
    header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    return dst_mac + src_mac + b"\x08\x00" + header + icmp


def echo6(dst_mac, src_mac, src, dst):
    addresses = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    icmp = struct.pack(">BBHHH", 128, 0, 0, 77, 1) + b"anyone?!"
    pseudo = addresses + struct.pack(">II", len(icmp), 58)
    icmp = icmp[:2] + struct.pack(">H", checksum(pseudo + icmp)) + icmp[4:]
    return dst_mac + src_mac + b"\x86\xdd" + struct.pack(">IHBB", 0x60000000, len(icmp), 58, 64) + addresses + icmp


def arp(src_mac, src, dst):
    request = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1)
    return (b"\xff" * 6 + src_mac + b"\x08\x06" + request + src_mac + socket.inet_aton(src) + b"\0" * 6
            + socket.inet_aton(dst))


class HostStack(NetworkTest):
    """The node's own kernel has addresses, forwards, and would answer; a guest must never meet it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        namespace = cls.a.namespace
        cls.lab.ip(namespace, "addr", "add", f"{HOST4}/32", "dev", "lo")
        cls.lab.ip(namespace, "addr", "add", f"{HOST6}/128", "dev", "lo")
        cls.lab.sysctl(namespace, "net.ipv4.ip_forward", 1)
        cls.lab.sysctl(namespace, "net.ipv6.conf.all.forwarding", 1)
        cls.host_mac = mac(cls.lab.links(namespace)["web"]["address"])
        cls.web_mac = mac(cls.world.web.mac)

    def exchange(self, *frames):
        """Sends frames as web; returns what came to web, and what crossed the underlay but was not Geneve."""
        guest = self.lab.capture(self.web.namespace, "eth0")
        wire = self.lab.capture("nrs-fabric", "node-a")
        with inside(self.web.namespace):
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            raw.bind(("eth0", 0))
        for frame in frames:
            raw.send(frame)
        raw.close()
        self.assertEqual(self.web.ping("10.0.0.1"), 1)  # came later, was answered: so the frames were looked at
        guest.stop()
        wire.stop()
        to_web = guest.seen(lambda f: f[:6] == self.web_mac and f[6:12] != mac("02:00:00:00:00:01"))
        leaked = wire.seen(lambda f: not is_geneve(f) and (b"anyone?!" in f))
        return to_web, leaked

    def test_own_addresses(self):
        """frames to the host end's MAC and the host's own addresses get no answer from the host's stack"""
        to_web, leaked = self.exchange(
            echo4(self.host_mac, self.web_mac, self.world.web.ip4, HOST4),
            echo6(self.host_mac, self.web_mac, self.world.web.ip6, HOST6),
            echo6(self.host_mac, self.web_mac, self.world.web.ip6, self.a.address),
            arp(self.web_mac, self.world.web.ip4, HOST4))
        self.assertEqual((to_web, leaked), ([], []))

    def test_forwarding(self):
        """frames to the host end's MAC are not forwarded by the host's stack"""
        to_web, leaked = self.exchange(
            echo6(self.host_mac, self.web_mac, self.world.web.ip6, self.b.address),
            echo4(self.host_mac, self.web_mac, self.world.web.ip4, "198.51.100.1"))
        self.assertEqual((to_web, leaked), ([], []))

    def test_no_chatter(self):
        """the host end of a port has no IPv6 address and sends nothing of its own"""
        links = json.loads(self.lab.ip(self.a.namespace, "-j", "addr", "show", "dev", "web"))
        self.assertEqual([a for link in links for a in link.get("addr_info", [])], [])

    def test_geneve_is_ours(self):
        """Geneve to the node's address never meets the host's stack: no port unreachable, whatever the VNI"""
        wire = self.lab.capture("nrs-fabric", "node-a")
        with inside(self.b.namespace):
            sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        for vni in (100, 200, 300):
            for payload in (b"", b"\0" * 14, b"\xff" * 200):
                sender.sendto(struct.pack(">BBHI", 0, 0, 0x6558, vni << 8) + payload, (self.a.address, 6081))
        sender.close()
        with inside(self.b.namespace):  # a closed port does answer: the capture would have seen it
            probe = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        probe.connect((self.a.address, 6082))
        probe.settimeout(3)
        probe.send(b"closed")
        with self.assertRaises(ConnectionRefusedError):
            probe.recv(1)
        probe.close()
        wire.stop()
        unreachable = wire.seen(is_port_unreachable)
        self.assertEqual([frame[104:106] for frame in unreachable], [struct.pack(">H", 6082)])


if __name__ == "__main__":
    unittest.main()
