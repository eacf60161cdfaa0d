# SPDX-License-Identifier: MPL-2.0
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import NetworkTest
from lab import RUN, wait_for
from node import UnixConnection


class CaptureFile(NetworkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.db.serve("db", 5432, 9999)
        cls.path = RUN / "node-b.pcapng"
        arrived = []

        def fetch():
            connection = UnixConnection(cls.b.socket, timeout=20)
            connection.request("GET", f"/v1/capture?port={cls.world.db.id}&seconds=2")
            arrived.append(connection.getresponse().read())
            connection.close()

        reader = threading.Thread(target=fetch)
        reader.start()

        def traffic():
            cls.web.greeting(cls.world.db.ip4, 5432)
            cls.web.connect(cls.world.db.ip4, 9999, timeout=0.3)
            return not reader.is_alive()

        wait_for("the capture to end", traffic, 20)
        cls.path.write_bytes(arrived[0])

    def tshark(self, display_filter, *fields):
        done = subprocess.run(["tshark", "-n", "-r", str(self.path), "-Y", display_filter, "-T", "fields",
                               *(word for field in fields for word in ("-e", field))],
                              text=True, capture_output=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def test_directions(self):
        """tshark reads the capture, and each frame's direction"""
        to_db = self.tshark("tcp.dstport == 5432", "frame.packet_flags_direction")
        from_db = self.tshark("tcp.srcport == 5432", "frame.packet_flags_direction")
        self.assertTrue(to_db and from_db)
        self.assertEqual(len(set(to_db)), 1)
        self.assertEqual(len(set(from_db)), 1)
        self.assertNotEqual(set(to_db), set(from_db))

    def test_drop_reason(self):
        """a dropped frame carries its reason, a passed one none"""
        dropped = self.tshark("tcp.dstport == 9999", "frame.comment")
        self.assertTrue(dropped)
        self.assertTrue(all("firewall-deny" in comment for comment, in dropped), dropped)
        passed = self.tshark("tcp.dstport == 5432", "frame.comment")
        self.assertFalse(any("firewall-deny" in " ".join(comment) for comment in passed))


if __name__ == "__main__":
    unittest.main()
