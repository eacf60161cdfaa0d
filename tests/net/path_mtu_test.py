# SPDX-License-Identifier: MPL-2.0
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import NetworkTest


class PathMtu(NetworkTest):
    """A guest that never heard of the VPC's MTU: its interface says 1500, the VPC carries 1430."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.ip(cls.web.namespace, "link", "set", "eth0", "mtu", 1500)

    def ping_too_big(self, address):
        return self.web.run("ping", "-n", "-M", "do", "-c", "2", "-i", "0.2", "-W", "2", "-s", "1440", address,
                            check=False).stdout

    def test_ipv4(self):
        """T70 a packet over the VPC's MTU with DF gets ICMP fragmentation needed with that MTU"""
        output = self.ping_too_big(self.world.db.ip4)
        self.assertIn("From 10.0.0.1", output)
        self.assertIn("mtu = 1430", output)

    def test_ipv6(self):
        """T70 a packet over the VPC's MTU gets ICMPv6 packet too big with that MTU"""
        output = self.ping_too_big(self.world.db.ip6)
        self.assertIn("mtu=1430", output.replace("mtu: ", "mtu=").replace("mtu = ", "mtu="))

    def test_tcp(self):
        """T70 TCP in both directions carries a megabyte all the same"""
        self.db.serve("db", 5432)
        for address in (self.world.db.ip4, self.world.db.ip6):
            talk = self.connect(self.web, address, 5432)
            text = "x" * 65536
            for number in range(16):
                self.assertTrue(talk.ask(text) == f"db: {text}", f"block {number} to {address} came back changed")

    def test_fits(self):
        """a packet of exactly the VPC's MTU passes whole"""
        for address, headers in ((self.world.db.ip4, 28), (self.world.db.ip6, 48)):
            output = self.ping_whole(address, self.world.vpc_mtu - headers)
            self.assertIn(" 1 received", output)

    def ping_whole(self, address, size):
        return self.web.run("ping", "-n", "-M", "do", "-c", "1", "-W", "2", "-s", size, address, check=False).stdout


if __name__ == "__main__":
    unittest.main()
