# SPDX-License-Identifier: MPL-2.0
"""The demo's world for tests over namespaces: two nodes, four guests, configured by hand. Run as root:

    /usr/bin/python3 -m unittest -v tests/net/path_mtu_test.py
"""

import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "demo"))

from lab import Lab  # noqa: E402
from world import World  # noqa: E402


class NetworkTest(unittest.TestCase):
    """One world a class. `configured` lists the guests that get addresses by hand before the tests."""

    mtu = 1500
    configured = ("web", "db", "rweb", "rdb")

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab()
        cls.addClassCleanup(cls.lab.close)
        cls.world = World(cls.lab, os.environ.get("NEREUS_BUILD", ROOT / "build" / "release"), cls.mtu)
        cls.addClassCleanup(cls.no_sanitizer_spoke)
        cls.world.build_up()
        for name in cls.configured:
            cls.world.guest(getattr(cls.world, name)).configure(cls.world.vpc_mtu)
        for name in ("web", "db", "rweb", "rdb"):
            setattr(cls, name, cls.world.guest(getattr(cls.world, name)))
        cls.a, cls.b = cls.world.nodes["a"], cls.world.nodes["b"]

    @classmethod
    def no_sanitizer_spoke(cls):
        for node in cls.world.nodes.values():
            log = node.process.output() if node.process else ""
            if "Sanitizer" in log or "runtime error" in log:
                raise AssertionError(f"nereusd {node.letter}: {log[-4000:]}")

    def connect(self, guest, address, port):
        """A conversation that must come about, greeted; closed after the test."""
        talk = guest.connect(address, port)
        self.assertIsNotNone(talk, f"{guest.name} connects to [{address}]:{port}")
        self.addCleanup(talk.close)
        self.assertIsNotNone(talk.line())
        return talk

    @classmethod
    def drops(cls, port, direction):
        return cls.world.node_of(port).api.port(port.id)["counters"][direction]["drops"]
