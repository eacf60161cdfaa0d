# SPDX-License-Identifier: MPL-2.0
import pathlib
import socket
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import NetworkTest
from blueprints import allow
from lab import inside, wait_for
from node import ApiError

KILLS = 3


class Prober(threading.Thread):
    """Sends a datagram each millisecond and notes which were answered, until told to stop."""

    def __init__(self, guest, address, port):
        super().__init__(daemon=True)
        with inside(guest.namespace):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(0.001)
        self.target = (address, port)
        self.sent = self.answered = 0
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                self.socket.sendto(b"%d" % self.sent, self.target)
                self.sent += 1
                self.socket.recv(2048)
                self.answered += 1
            except OSError:
                pass

    def end(self):
        self.stopping.set()
        self.join()
        self.socket.close()


class RestartUnderTraffic(NetworkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.db.serve("db", 5432, 6379, 9999)
        cls.world.db.rules.append(allow("probe", "udp", [5432]))
        cls.b.api.put_blueprint(cls.world.db.next())

    def test_verdicts(self):
        """T80 killed and restarted under traffic, no packet changes its verdict"""
        talk = self.connect(self.web, self.world.db.ip4, 5432)
        allowed = Prober(self.web, self.world.db.ip4, 5432)
        refused = Prober(self.web, self.world.db.ip4, 9999)
        allowed.start()
        refused.start()
        wait_for("answers", lambda: allowed.answered > 20)
        for node in (self.a, self.b) * KILLS:
            node.kill()
            node.start()
            before = allowed.answered
            wait_for(f"answers after the restart of node {node.letter}", lambda: allowed.answered > before + 20, 10)
            self.assertEqual(talk.ask("still"), "db: still")
        allowed.end()
        refused.end()
        self.assertGreater(refused.sent, 100)
        self.assertEqual(refused.answered, 0)

    def test_generations(self):
        """T80 a blueprint that was accepted before the kill is in force after it, and older ones are refused"""
        stale = self.world.db.blueprint()
        self.b.api.put_blueprint(self.world.db.next())
        self.b.kill()
        self.b.start()
        status = self.b.api.port(self.world.db.id)
        self.assertEqual(status["generation"], self.world.db.generation)
        with self.assertRaises(ApiError) as refused:
            self.b.api.put_blueprint(stale)
        self.assertEqual(refused.exception.status, 409)
        self.assertFalse(self.b.api.put_blueprint(self.world.db.blueprint())["changed"])

    def test_orderly(self):
        """an orderly stop and start keeps connections too"""
        talk = self.connect(self.web, self.world.db.ip6, 5432)
        self.assertEqual(self.a.stop(), 0)
        self.a.start()
        self.assertEqual(talk.ask("still"), "db: still")


if __name__ == "__main__":
    unittest.main()
