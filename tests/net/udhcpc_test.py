# SPDX-License-Identifier: MPL-2.0
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import NetworkTest
from lab import RUN, wait_for

SCRIPT = """#!/bin/sh
# Notes each event with what came, and applies the address.
echo "$1 ip=$ip mask=$mask router=$router dns=$dns mtu=$mtu serverid=$serverid staticroutes=$staticroutes" >>"$EVENTS"
test "$1" != bound || ip addr add "$ip/$mask" dev "$interface"
"""


class Udhcpc(NetworkTest):
    configured = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.events = RUN / "udhcpc.events"
        script = RUN / "udhcpc.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        cls.client = cls.lab.start(cls.web.namespace, "udhcpc", "-f", "-i", "eth0", "-s", script, "-O", "mtu", "-O",
                                   "staticroutes", name="udhcpc", environment={"EVENTS": str(cls.events)})

    def event(self, kind):
        def probe():
            lines = self.events.read_text().splitlines() if self.events.exists() else []
            return next((line for line in lines if line.startswith(kind + " ")), None)
        return dict(word.partition("=")[::2] for word in wait_for(f"udhcpc: {kind}", probe, 15).split(" ")[1:])

    def test_1_lease(self):
        """T3 udhcpc is offered address, server, DNS and MTU"""
        bound = self.event("bound")
        self.assertEqual(bound["ip"], self.world.web.ip4)
        self.assertEqual(bound["mask"], "32")
        self.assertEqual(bound["router"], "10.0.0.1")
        self.assertEqual(bound["serverid"], "10.0.0.1")
        self.assertEqual(bound["dns"], "10.0.0.2")
        self.assertEqual(bound["mtu"], str(self.world.vpc_mtu))

    def test_2_renew(self):
        """T3 udhcpc renews by unicast to the gateway"""
        self.event("bound")
        ip = self.lab.ip
        ip(self.web.namespace, "route", "replace", "10.0.0.1", "dev", "eth0")
        os.kill(self.client.pid, signal.SIGUSR1)
        self.assertEqual(self.event("renew")["ip"], self.world.web.ip4)


if __name__ == "__main__":
    unittest.main()
