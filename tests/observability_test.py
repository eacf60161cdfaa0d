#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""What nereusd tells its operator: flow logs, meters, events, limits, traces, filters. Needs root.

NEREUSD names the binary.
"""

import glob
import json
import os
import signal
import struct
import subprocess
import sys
import unittest
import urllib.parse

import openmetrics
from node_lab import Node, UnixConnection, blueprint, run, wait_for

BINARY = os.environ.get("NEREUSD", "build/check/node/nereusd")
PEER = "02:00:00:00:00:04"

SENDER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[3])))
for i in range(int(sys.argv[4])):
    s.sendto(b"x" * 100, (sys.argv[1], int(sys.argv[2])))
"""

COLLECTOR = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::1", 4739))
print("ready", flush=True)
while True:
    print(s.recv(65536).hex(), flush=True)
"""


class Lab(unittest.TestCase):
    config = {}

    def setUp(self):
        self.node = Node(BINARY, tag="no", **self.config)
        self.addCleanup(self.end)
        self.web = self.node.guest("web", "02:00:00:00:00:03", ["10.0.0.3/24", "fd00:10::3/64"], "10.0.0.1", "p3-100")
        self.before_start()
        self.node.start()
        for address in ("10.0.0.4", "fd00:10::4"):
            answer = self.node.call("PUT", f"/v1/mappings/100/{address}", {
                "vni": 100, "ip": address, "mac": PEER, "node": "fd00:cabe::b", "epoch": 1, "state": "active"})
            self.assertEqual(answer.status, 200, answer.body)

    def before_start(self):
        pass

    def end(self):
        if self.node.process:
            status = self.node.stop()
            log = self.node.log_text()
            self.node.close()
            assert status == 0, f"nereusd ended with {status}:\n{log}"
            assert "Sanitizer" not in log and "runtime error" not in log, log
        else:
            self.node.close()

    def put(self, **changes):
        document = blueprint(**changes)
        answer = self.node.put_blueprint(document)
        self.assertIn(answer.status, (200, 201), answer.body)
        wait_for(lambda: self.node.get(f"/v1/ports/{document['port']}")["attached"], what="the device is attached")
        return document

    def send(self, address, dport, sport, count=1):
        self.node.inside(self.web, sys.executable, "-c", SENDER, address, str(dport), str(sport), str(count))


class JsonFlowLog(Lab):
    def before_start(self):
        self.path = f"{self.node.directory}/flow.log"
        self.node.config["flow_log"] = {"path": self.path, "max_bytes": 4096, "files": 2}

    def lines(self):
        lines = []
        for path in sorted(glob.glob(self.path + "*"), reverse=True):
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file]
        return lines

    def test_lines_and_rotation(self):
        rules = [{"id": "dns", "prio": 100, "dir": "out", "action": "allow", "proto": "udp", "ports": ["53"],
                  "log": True},
                 {"id": "no-ntp", "prio": 100, "dir": "out", "action": "deny", "proto": "udp", "ports": ["123"],
                  "log": True}]
        document = self.put(firewall={"rules": rules})
        self.send("10.0.0.4", 53, 4000, 3)
        self.send("fd00:10::4", 53, 4001)
        self.send("10.0.0.4", 54, 4002)  # by the default, which does not log
        self.send("10.0.0.4", 123, 4003, 20)
        wait_for(lambda: len(self.lines()) >= 3, what="two starts and a refusal")
        self.assertEqual(self.node.call("DELETE", f"/v1/blueprints/{document['port']}").status, 204)
        wait_for(lambda: len(self.lines()) >= 5, what="two ends")
        lines = self.lines()
        start = next(line for line in lines if line["event"] == "start" and "." in line["out"]["dst"])
        self.assertEqual(start["out"], {"src": "10.0.0.3", "sport": 4000, "dst": "10.0.0.4", "dport": 53})
        self.assertEqual(start["in"], {"src": "10.0.0.4", "sport": 53, "dst": "10.0.0.3", "dport": 4000})
        self.assertEqual((start["rule"], start["action"], start["direction"], start["protocol"], start["vni"]),
                         ("dns", "allow", "out", "udp", 100))
        self.assertEqual(start["port"], document["port"])
        self.assertRegex(start["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        end = next(line for line in lines if line["event"] == "end" and line["id"] == start["id"])
        self.assertEqual((end["packets"], end["bytes"]), ({"out": 3, "in": 0}, {"out": 3 * 142, "in": 0}))
        self.assertEqual(end["reason"], "port")
        denied = [line for line in lines if line["event"] == "denied"]
        self.assertEqual(sum(line["packets"]["out"] for line in denied), 20)
        self.assertEqual({(line["rule"], line["reason"]) for line in denied}, {("no-ntp", "firewall-deny")})
        # Rotation: never more than the file and two others, each little above its limit.
        self.put(generation=2, firewall={"rules": rules})
        for i in range(60):
            self.send("10.0.0.4", 53, 5000 + i)
        wait_for(lambda: os.path.exists(self.path + ".2"), what="two rotations")
        self.assertLessEqual(len(glob.glob(self.path + "*")), 3)
        metrics = self.node.call("GET", "/metrics").body.decode()
        self.assertIn('nereus_flow_log_records_total{result="lost"} 0', metrics)

    def test_what_is_under_way_is_written_at_the_end(self):
        self.put(firewall={"rules": [{"id": "all", "prio": 1, "dir": "out", "action": "allow", "log": True}]})
        self.send("10.0.0.4", 53, 4000)
        self.node.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.node.process.wait(20), 0)
        self.node.process = None
        self.assertIn("start", [line["event"] for line in self.lines()])


class IpfixFlowLog(Lab):
    def before_start(self):
        self.node.config["flow_log"] = {"format": "ipfix", "collector": {"address": "::1"}, "all": True}
        self.collector = subprocess.Popen(
            ["ip", "netns", "exec", self.node.netns, sys.executable, "-c", COLLECTOR],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(self.collector.stdout.readline(), "ready\n")

    def end(self):
        super().end()
        self.collector.kill()
        self.collector.wait()
        self.collector.stdout.close()

    def decode(self, messages):
        """tshark's reading of the messages, as one list of fields per record."""
        path = f"{self.node.directory}/ipfix.pcap"
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
            for message in messages:
                udp = struct.pack(">HHHH", 40000, 4739, 8 + len(message), 0) + message
                ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
                file.write(struct.pack("<IIII", 0, 0, len(ip + udp), len(ip + udp)) + ip + udp)
        verbose = run("tshark", "-r", path, "-d", "udp.port==4739,cflow", "-V", "-O", "cflow").stdout
        self.assertNotIn("Malformed", verbose)
        self.assertNotIn("No template found", verbose)
        return verbose

    def test_a_collector_understands_the_messages(self):
        document = self.put(firewall={"rules": [
            {"id": "dns", "prio": 100, "dir": "out", "action": "allow", "proto": "udp", "ports": ["53"]},
            {"id": "no-ntp", "prio": 100, "dir": "out", "action": "deny", "proto": "udp", "ports": ["123"]}]})
        self.send("10.0.0.4", 53, 4000, 3)
        self.send("fd00:10::4", 53, 4001)
        self.send("10.0.0.4", 123, 4003, 5)
        self.assertEqual(self.node.call("DELETE", f"/v1/blueprints/{document['port']}").status, 204)
        messages, text = [], ""
        while "Firewall Event: Flow denied" not in text or text.count("Firewall Event: Flow deleted") < 2:
            messages.append(bytes.fromhex(self.collector.stdout.readline()))
            text = self.decode(messages)
        for wanted in ("SrcAddr: 10.0.0.3", "DstAddr: 10.0.0.4", "SrcPort: 4000", "DstPort: 53", "Protocol: UDP (17)",
                       "SrcAddr: fd00:10::3", "DstAddr: fd00:10::4", "Post NAT Source IPv4 Address: 10.0.0.3",
                       "Firewall Event: Flow created", "Flow End Reason", "dns", "no-ntp", document["port"]):
            self.assertIn(wanted, text)
        version, length, _, sequence, domain = struct.unpack(">HHIII", messages[0][:16])
        self.assertEqual((version, length, sequence, domain), (10, len(messages[0]), 0, 1))


class Events(Lab):
    def kinds(self, query=""):
        return [event["kind"] for event in self.node.items(f"/v1/events{query}")]

    def test_events_are_listed_and_streamed(self):
        document = self.put(generation=5)
        connection = UnixConnection(self.node.socket, timeout=10)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events?watch=1")
        stream = connection.getresponse()
        self.assertEqual(stream.headers["Content-Type"], "application/x-ndjson")
        self.assertEqual(self.node.put_blueprint(blueprint(generation=4)).status, 409)
        self.node.ip("addr", "add", "10.0.0.9/24", "dev", "eth0", netns=self.web)
        self.node.inside(self.web, "ping", "-c1", "-W1", "-I", "10.0.0.9", "10.0.0.4", check=False)
        wait_for(lambda: {"stale-generation", "spoofing"} <= set(self.kinds()), what="both events")
        events = self.node.items("/v1/events")
        spoofing = next(event for event in events if event["kind"] == "spoofing")
        self.assertEqual((spoofing["port"], spoofing["name"]), (document["port"], "vm3-100"))
        self.assertGreater(spoofing["count"], 0)
        self.assertEqual([event["id"] for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(self.kinds(f"?since={events[-1]['id']}"), [])
        self.assertIn("spoofing", self.kinds(f"?port={document['port']}"))
        self.assertEqual(len(self.node.items("/v1/events?limit=1")), len(self.node.items("/v1/events")))
        seen = [json.loads(stream.readline()) for _ in events]
        self.assertEqual([event["id"] for event in seen], [event["id"] for event in events])
        self.assertEqual(self.node.call("GET", "/v1/events?since=x").status, 400)

    def test_O8_limits_are_metrics(self):
        self.put(nat={"snat": [{"address": "198.51.100.9", "ports": "1024-1151"}]},
                 limits={"flows_min": 5, "flows_max": 50}, qos={"pps": 100000})
        self.send("10.0.0.4", 53, 4000)
        text = self.node.call("GET", "/metrics").body.decode()
        openmetrics.parse(text)
        for wanted in ('nereus_table_used{table="connections"} 1', 'nereus_table_limit{table="ports"} 16',
                       'nereus_table_used{table="mappings"} 2', 'nereus_table_used{table="tunnels"} 1',
                       'nereus_table_limit{table="externals"}', 'nereus_connections_total{result="opened"} 1'):
            self.assertIn(wanted, text)
        for name, value in (("nereus_port_connections", 1), ("nereus_port_connections_limit", 50),
                            ("nereus_port_connections_guarantee", 5)):
            self.assertRegex(text, rf'{name}{{port="[^"]*",name="vm3-100"}} {value}\n')
        self.assertRegex(text, r'nereus_port_snat_limit{port="[^"]*",name="vm3-100",protocol="tcp"} 128\n')
        self.assertRegex(text, r'nereus_port_snat_used{port="[^"]*",name="vm3-100",protocol="tcp"} 0\n')


class Meters(Lab):
    def test_T83_meters_by_destination(self):
        document = self.put(firewall={"rules": [
            {"id": "peer", "prio": 1, "dir": "out", "action": "allow", "remote": {"cidrs": ["10.0.0.4/32"]},
             "meter": 7}]})
        self.send("10.0.0.4", 53, 4000, 3)
        path = f"/v1/ports/{document['port']}/meters"
        wait_for(lambda: self.node.items(path)[0]["packets"]["out"] == 3, what="three packets")
        self.assertEqual(self.node.items(path), [
            {"class": 7, "packets": {"out": 3, "in": 0}, "bytes": {"out": 3 * 142, "in": 0}}])
        text = self.node.call("GET", "/metrics").body.decode()
        self.assertIn(f'nereus_meter_bytes_total{{port="{document["port"]}",name="vm3-100",class="7",direction="out"}} 426',
                      text)


class Looking(Lab):
    def ask(self, status=200, **question):
        answer = self.node.call("POST", "/v1/trace", question)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def test_T82_trace_with_a_blueprint_that_is_not_in_force(self):
        document = self.put()
        packet = {"dst": "10.0.0.4", "proto": "udp", "dport": 53}
        self.assertEqual(self.ask(port=document["port"], dir="out", packet=packet)["verdict"], "sent")
        staged = blueprint(generation=2, firewall={"default_out": "deny", "rules": []})
        self.assertEqual(self.ask(blueprint=staged, dir="out", packet=packet)["reason"], "firewall-deny")
        self.assertEqual(self.node.get(f"/v1/ports/{document['port']}")["generation"], 1)
        other = blueprint(number=9)  # a port that is not there
        self.assertEqual(self.ask(blueprint=other, dir="out", packet=packet)["verdict"], "sent")
        self.assertEqual(len(self.node.items("/v1/ports")), 1)
        staged["vpc"]["vni"] = 0
        problem = self.ask(422, blueprint=staged, dir="out", packet=packet)
        self.assertEqual(problem["errors"][0]["pointer"], "/blueprint/vpc/vni")
        taken = blueprint(number=9, l2={"mac": "02:00:00:00:00:03", "addresses": ["10.0.0.9"]})
        problem = self.ask(422, blueprint=taken, dir="out", packet=packet)
        self.assertEqual(problem["errors"][0]["pointer"], "/blueprint/l2/mac")
        self.ask(422, blueprint=other, port=document["port"], dir="out", packet=packet)
        self.ask(422, dir="out", packet=packet)

    def test_T82_trace_of_a_connections_next_packet(self):
        document = self.put()
        self.send("10.0.0.4", 53, 4000)
        flow = self.node.items("/v1/flows")[0]["id"]
        for direction, verdict in (("out", "sent"), ("in", "delivered")):
            answer = self.ask(flow=flow, dir=direction)
            self.assertTrue(answer["hit"])
            self.assertEqual(answer["verdict"], verdict)
        staged = blueprint(generation=2, firewall={"default_out": "deny", "rules": []})
        self.assertEqual(self.ask(flow=flow, blueprint=staged)["reason"], "revalidate-deny")
        self.assertEqual(self.node.items("/v1/flows")[0]["packets"]["out"], 1)
        self.ask(404, flow=flow + 1000)
        self.ask(422, flow=flow, blueprint=blueprint(number=9))
        self.ask(422, flow=flow, port=document["port"])

    def test_capture_with_a_filter(self):
        document = self.put()
        connection = UnixConnection(self.node.socket, timeout=20)
        self.addCleanup(connection.close)
        expression = urllib.parse.quote("udp port 53 and host 10.0.0.4")
        connection.request("GET", f"/v1/capture?port={document['port']}&count=2&filter={expression}")
        answer = connection.getresponse()
        self.send("10.0.0.4", 54, 4000, 3)
        self.send("10.0.0.4", 53, 4001, 2)
        path = f"{self.node.directory}/filtered.pcapng"
        with open(path, "wb") as file:
            file.write(answer.read())
        ports = run("tshark", "-n", "-r", path, "-T", "fields", "-e", "udp.dstport").stdout.split()
        self.assertEqual(ports, ["53", "53"])
        for wrong in ("tcp port", "host www.example.org"):
            refused = self.node.call("GET", f"/v1/capture?filter={urllib.parse.quote(wrong)}")
            self.assertEqual(refused.status, 422)
            self.assertIn("filter: ", refused.json["detail"])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root")
        sys.exit(77)
    unittest.main(verbosity=2)
