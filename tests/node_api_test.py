#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""nereusd as its users meet it: every call of docs/node-api.md, restarts, metadata, capture. Needs root.

NEREUSD names the binary.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import openmetrics
from node_lab import Node, blueprint, port_id, run, wait_for

BINARY = os.environ.get("NEREUSD", "build/check/node/nereusd")


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node(BINARY)
        try:
            cls.web = cls.node.guest("web", "02:00:00:00:00:03", ["10.0.0.3/24", "fd00:10::3/64"], "10.0.0.1", "p3-100")
            cls.twin = cls.node.guest("twin", "02:00:00:00:00:03", ["10.0.0.3/24"], "10.0.0.1", "p3-200")
            cls.node.start()
        except BaseException:
            cls.node.close()
            raise

    @classmethod
    def tearDownClass(cls):
        status = cls.node.stop()
        log = cls.node.log_text()
        cls.node.close()
        assert status == 0, f"nereusd ended with {status}:\n{log}"
        assert "Sanitizer" not in log and "runtime error" not in log, log

    def setUp(self):
        for entry in self.node.items("/v1/blueprints"):
            self.assertEqual(self.node.call("DELETE", f"/v1/blueprints/{entry['port']}").status, 204)

    def put(self, document, status=None):
        answer = self.node.put_blueprint(document)
        if status:
            self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def refused(self, answer, status, pointer=None):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        problem = answer.json
        self.assertEqual(set(problem), {"type", "title", "status", "detail", "errors"})
        self.assertEqual(problem["status"], status)
        if pointer is not None:
            self.assertIn(pointer, [e["pointer"] for e in problem["errors"]])
        return problem

    def status(self, document):
        return self.node.get(f"/v1/ports/{document['port']}")

    def attached(self, document):
        return wait_for(lambda: self.status(document)["attached"], what="the port's device is attached")

    # ---- Blueprints

    def test_health_and_version(self):
        health = self.node.get("/v1/health")
        self.assertEqual((health["status"], health["node"], health["ports"]), ("ok", "a", 0))
        self.assertEqual(self.node.get("/v1/version")["api"], 1)
        self.assertEqual(self.node.call("GET", "/healthz").status, 200)
        self.assertEqual(self.node.call("GET", "/readyz").status, 200)

    def test_blueprint_life(self):
        document = blueprint()
        applied = self.put(document, 201)
        self.assertTrue(applied["changed"])
        self.assertEqual(applied["generation"], 1)
        self.assertRegex(applied["hash"], "^sha256:[0-9a-f]{64}$")
        stored = self.node.get(f"/v1/blueprints/{document['port']}")
        self.assertEqual(stored.pop("hash"), applied["hash"])
        self.assertEqual(stored, document)
        self.assertEqual(self.node.items("/v1/blueprints"), [
            {"port": document["port"], "name": "vm3-100", "generation": 1, "hash": applied["hash"]}])
        self.assertEqual(self.node.call("DELETE", f"/v1/blueprints/{document['port']}").status, 204)
        self.refused(self.node.call("DELETE", f"/v1/blueprints/{document['port']}"), 404)
        self.refused(self.node.call("GET", f"/v1/blueprints/{document['port']}"), 404)

    def test_T76_wrong_version_truncated_and_unknown_fields_change_nothing(self):
        document = blueprint()
        self.put(document, 201)
        before = self.status(document)
        self.refused(self.node.put_blueprint(blueprint(generation=2, schema=99)), 422, "/schema")
        path = f"/v1/blueprints/{document['port']}"
        self.refused(self.node.call("PUT", path, '{"schema":1,"port":"019'), 400)
        self.refused(self.node.call("PUT", path, ""), 400)
        self.refused(self.node.call("PUT", path, b"\xff\xfe\x00"), 400)
        self.refused(self.node.put_blueprint(blueprint(generation=2, surprise=1)), 422, "/surprise")
        self.assertEqual(self.status(document)["generation"], 1)
        self.assertEqual(self.status(document)["hash"], before["hash"])
        self.put(blueprint(generation=2, **{"x-note": "tolerated"}), 200)

    def test_T77_one_invalid_rule_refuses_the_whole(self):
        document = blueprint()
        self.put(document, 201)
        wrong = blueprint(generation=2)
        wrong["firewall"]["rules"].append({"id": "bad", "prio": 7, "dir": "in", "action": "allow", "proto": "tcp",
                                           "ports": ["90-80"]})
        problem = self.refused(self.node.put_blueprint(wrong), 422, "/firewall/rules/2/ports/0")
        self.assertIn("bad", str(problem))
        self.assertEqual(self.status(document)["generation"], 1)
        self.assertEqual(len(self.node.get(f"/v1/blueprints/{document['port']}")["firewall"]["rules"]), 2)

    def test_T78_generations(self):
        document = blueprint(generation=5)
        first = self.put(document, 201)
        again = self.put(document, 200)
        self.assertFalse(again["changed"])
        self.assertEqual(again["applied_at"], first["applied_at"])
        self.refused(self.node.put_blueprint(blueprint(generation=4)), 409)
        self.refused(self.node.put_blueprint(blueprint(generation=5, name="other")), 409)
        self.assertEqual(self.status(document)["name"], "vm3-100")
        self.assertTrue(self.put(blueprint(generation=6, name="other"), 200)["changed"])

    def test_T62_v4_prefix_with_v6_target_is_refused(self):
        document = blueprint()
        self.put(document, 201)
        wrong = blueprint(generation=2)
        wrong["routes"].append({"prefix": "0.0.0.0/0", "target": {"kind": "ip", "ip": "fd00:10::9"}})
        problem = self.refused(self.node.put_blueprint(wrong), 422)
        self.assertTrue(problem["errors"][0]["pointer"].startswith("/routes/2"), problem)
        self.assertEqual(self.status(document)["generation"], 1)

    def test_dry_run_applies_nothing(self):
        document = blueprint()
        answer = self.node.put_blueprint(document, "?dry_run=1")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertTrue(answer.json["changed"])
        self.assertEqual(self.node.items("/v1/ports"), [])
        self.refused(self.node.call("GET", f"/v1/blueprints/{document['port']}"), 404)

    def test_wrong_paths_and_methods(self):
        self.refused(self.node.call("GET", "/v1/nothing"), 404)
        self.refused(self.node.call("GET", "/v1/ports/not-a-uuid"), 400)
        self.refused(self.node.call("GET", f"/v1/ports/{port_id(9)}"), 404)
        answer = self.node.call("POST", "/v1/ports", "{}")
        self.refused(answer, 405)
        self.assertEqual(answer.headers["Allow"], "GET")
        self.refused(self.node.call("PUT", f"/v1/blueprints/{port_id(9)}", blueprint()), 422, "/port")
        self.refused(self.node.call("GET", "/v1/ports?limit=0"), 400)

    def test_too_large_a_body_is_refused(self):
        document = blueprint()
        path = f"/v1/blueprints/{document['port']}"
        self.refused(self.node.call("PUT", path, b" " * (16 * 1024 * 1024 + 1)), 413)
        expecting = self.node.call("PUT", path, None, {"Expect": "100-continue", "Content-Length": str(1 << 30)})
        self.refused(expecting, 413)

    def test_missing_device_is_attached_when_it_appears(self):
        document = blueprint(number=8)
        self.put(document, 201)
        status = self.status(document)
        self.assertFalse(status["attached"])
        self.assertNotEqual(status["device_error"], "")
        self.node.ip("link", "add", "p8-100", "type", "veth", "peer", "name", "p8peer")
        self.attached(document)
        self.assertEqual(self.status(document)["device_error"], "")
        self.node.ip("link", "del", "p8-100")
        wait_for(lambda: not self.status(document)["attached"], what="the device is gone")

    def test_pages(self):
        for number in range(10, 17):
            self.put(blueprint(number=number, device={"kind": "none"}), 201)
        for path in ("/v1/ports", "/v1/blueprints"):
            page = self.node.get(f"{path}?limit=3")
            self.assertEqual(len(page["items"]), 3)
            self.assertNotEqual(page["next"], "")
            self.assertEqual(len(self.node.items(f"{path}?limit=3")), 7)
            self.assertEqual(len(self.node.items(f"{path}?limit=7")), 7)

    # ---- Traffic

    def ping(self, netns, address, count=2):
        return self.node.inside(netns, "ping", "-c", str(count), "-i", "0.1", "-W", "2", address, check=False).returncode

    def test_counters_rules_flows_pause_resume_reset(self):
        document = blueprint()
        self.put(document, 201)
        self.attached(document)
        self.assertEqual(self.ping(self.web, "10.0.0.1"), 0)
        counters = self.status(document)["counters"]["out"]
        self.assertGreaterEqual(counters["answered"], 2)
        self.assertEqual(counters["received"], counters["sent"] + counters["answered"] + counters["consumed"] +
                         sum(counters["drops"].values()))

        self.node.call("PUT", "/v1/mappings/100/10.0.0.4", {
            "vni": 100, "ip": "10.0.0.4", "mac": "02:00:00:00:00:04", "node": "fd00:cabe::b", "epoch": 1})
        self.node.inside(self.web, sys.executable, "-c",
                         "import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x',('10.0.0.4',53))")
        flows = wait_for(lambda: self.node.items(f"/v1/flows?port={document['port']}"), what="a flow")
        self.assertEqual(len(flows), 1)
        flow = flows[0]
        self.assertEqual((flow["protocol"], flow["out"]["dst"], flow["out"]["dport"]), ("udp", "10.0.0.4", 53))
        self.assertEqual((flow["opener"], flow["rule"], flow["packets"]["out"]), ("out", "default-out", 1))
        rules = {r["id"]: r for r in self.node.items(f"/v1/ports/{document['port']}/rules")}
        self.assertEqual(set(rules), {"ssh", "ping", "default-in", "default-out"})
        self.assertGreaterEqual(rules["default-out"]["hits"], 1)
        self.assertEqual(self.node.get("/v1/health")["connections"], 1)

        for action, paused, connections in (("pause", True, 1), ("resume", False, 1), ("reset", False, 0)):
            answer = self.node.call("POST", f"/v1/ports/{document['port']}/{action}")
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual((answer.json["paused"], answer.json["connections"]), (paused, connections), action)

    def test_T82_trace_explains_and_leaves_no_state(self):
        document = blueprint()
        self.put(document, 201)
        ask = {"port": document["port"], "dir": "out", "packet": {"dst": "10.0.0.1", "proto": "icmp"}}
        answer = self.node.call("POST", "/v1/trace", ask)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json["verdict"], "answered")
        self.assertTrue(answer.json["steps"])
        ask["packet"] = {"dst": "203.0.113.1", "proto": "tcp", "dport": 443}
        dropped = self.node.call("POST", "/v1/trace", ask).json
        self.assertEqual((dropped["verdict"], dropped["reason"]), ("dropped", "no-route"))
        ask = {"port": document["port"], "dir": "in", "packet": {"src": "10.0.0.4", "dst": "10.0.0.3", "proto": "tcp",
                                                               "dport": 23}}
        self.assertEqual(self.node.call("POST", "/v1/trace", ask).json["verdict"], "dropped")
        whole = {"port": document["port"], "dir": "out", "frame": "ff" * 60}
        self.assertEqual(self.node.call("POST", "/v1/trace", whole).json["verdict"], "dropped")
        self.refused(self.node.call("POST", "/v1/trace", {**ask, "packet": {"dst": "10.0.0.3", "proto": "tcp"}}), 422)
        self.refused(self.node.call("POST", "/v1/trace", {**ask, "port": port_id(1)}), 404)
        self.assertEqual(self.node.items("/v1/flows"), [])
        self.assertEqual(self.status(document)["counters"]["in"]["received"], 0)

    def test_capture_is_read_by_tshark(self):
        document = blueprint()
        self.put(document, 201)
        self.attached(document)
        with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
            capture = subprocess.Popen(
                ["curl", "-sN", "--unix-socket", self.node.socket, "-o", file.name,
                 f"http://node/v1/capture?port={document['port']}&seconds=20&points=from-guest,to-guest,drop"])
            wait_for(lambda: os.path.getsize(file.name) > 0, what="the capture's header")
            self.assertEqual(self.ping(self.web, "10.0.0.1"), 0)
            self.ping(self.web, "203.0.113.1", 1)  # no route
            wait_for(lambda: b"no-route" in pathlib.Path(file.name).read_bytes(), what="the drop is captured")
            capture.terminate()
            capture.wait()
            fields = ["frame.interface_name", "frame.packet_flags_direction", "icmp.type", "frame.comment"]
            lines = run("tshark", "-r", file.name, "-T", "fields", "-E", "separator=|",
                        *[x for f in fields for x in ("-e", f)]).stdout.splitlines()
        rows = [line.split("|") for line in lines]
        self.assertTrue(all(row[0] == "vm3-100" for row in rows), rows)
        self.assertTrue(any(row[2] == "8" and row[1].endswith("1") for row in rows), rows)
        self.assertTrue(any(row[2] == "0" and row[1].endswith("2") for row in rows), rows)
        self.assertTrue(any(row[3] == "drop: no-route" for row in rows), rows)

    def test_capture_ends_after_count_and_seconds(self):
        document = blueprint()
        self.put(document, 201)
        self.attached(document)
        started = time.monotonic()
        body = self.node.call("GET", "/v1/capture?seconds=1").body
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(body[:4], bytes.fromhex("0a0d0d0a"))
        ping = subprocess.Popen(["ip", "netns", "exec", self.web, "ping", "-c", "5", "-i", "0.1", "10.0.0.1"],
                                stdout=subprocess.DEVNULL)
        body = self.node.call("GET", "/v1/capture?count=3&points=to-guest").body
        ping.wait()
        self.assertEqual(body.count(bytes.fromhex("06000000")) >= 3, True)
        self.refused(self.node.call("GET", "/v1/capture?points=everything"), 400)
        self.refused(self.node.call("GET", "/v1/capture?seconds=0"), 400)

    def test_captures_whose_client_went_away_are_ended(self):
        for _ in range(3):
            captures = []
            for i in range(8):
                file = pathlib.Path(self.node.directory, f"capture-{i}")
                file.write_bytes(b"")
                captures.append(subprocess.Popen(["curl", "-sN", "--unix-socket", self.node.socket, "-o", str(file),
                                                  "http://node/v1/capture"]))
                wait_for(lambda: file.stat().st_size, what="the capture's header")  # noqa: B023
            self.refused(self.node.call("GET", "/v1/capture?seconds=1"), 503)
            for capture in captures:
                capture.kill()
                capture.wait()
            wait_for(lambda: self.node.call("GET", "/v1/capture?seconds=1").status == 200, what="places are free again")

    # ---- Streams of documents

    def mapping(self, last, epoch=1, **changes):
        return {"vni": 100, "ip": f"10.0.1.{last}", "mac": "02:00:00:00:01:01", "node": "fd00:cabe::b", "epoch": epoch,
                "state": "active", **changes}

    def test_mappings(self):
        path = "/v1/mappings/100/10.0.1.1"
        self.refused(self.node.call("GET", "/v1/mappings/100/10.0.1.99"), 404)
        answer = self.node.call("PUT", path, self.mapping(1, epoch=5))
        self.assertEqual((answer.status, answer.json), (200, self.mapping(1, epoch=5)))
        self.assertEqual(self.node.call("PUT", path, self.mapping(1, epoch=5)).status, 200)
        self.refused(self.node.call("PUT", path, self.mapping(1, epoch=4)), 409)
        self.assertEqual(self.node.get(path)["epoch"], 5)
        self.refused(self.node.call("PUT", "/v1/mappings/100/10.0.1.2", self.mapping(1)), 422)
        self.refused(self.node.call("PUT", "/v1/mappings/100/nowhere", self.mapping(1)), 400)

        batch = [self.mapping(1, epoch=4), self.mapping(1, epoch=5), self.mapping(2), self.mapping(3)]
        counts = self.node.call("POST", "/v1/mappings", {"items": batch[:1] + batch[2:]})
        self.assertEqual(counts.json, {"applied": 2, "unchanged": 0, "stale": 1}, counts.body)
        counts = self.node.call("POST", "/v1/mappings", {"items": batch[1:]})
        self.assertEqual(counts.json, {"applied": 0, "unchanged": 3, "stale": 0}, counts.body)
        wrong = {"items": [self.mapping(7), self.mapping(8, mac="not a mac")]}
        self.refused(self.node.call("POST", "/v1/mappings", wrong), 422, "/items/1/mac")
        self.refused(self.node.call("GET", "/v1/mappings/100/10.0.1.7"), 404)
        self.assertEqual(len([m for m in self.node.items("/v1/mappings?vni=100&limit=2") if m["ip"].startswith("10.0.1.")]), 3)
        self.assertEqual(self.node.items("/v1/mappings?vni=10"), [])

    def test_many_mappings_at_once(self):
        items = [self.mapping(1, vni=300, ip=f"10.{2 + (i >> 16)}.{i >> 8 & 255}.{i & 255}") for i in range(20000)]
        answer = self.node.call("POST", "/v1/mappings", {"items": items})
        self.assertEqual(answer.json, {"applied": 20000, "unchanged": 0, "stale": 0}, answer.body)
        self.assertEqual(len(self.node.items("/v1/mappings?vni=300")), 20000)

    def test_address_sets(self):
        identity = port_id(0x5E7)
        path = f"/v1/address-sets/{identity}"
        self.assertEqual(self.node.call("PUT", path, {"id": identity, "generation": 2, "cidrs": ["10.0.0.0/25"]}).status, 200)
        self.refused(self.node.call("PUT", path, {"id": identity, "generation": 1, "cidrs": []}), 409)
        document = blueprint(device={"kind": "none"})
        document["firewall"]["rules"].append({"id": "from-set", "prio": 5, "dir": "in", "action": "allow", "proto": "tcp",
                                              "remote": {"set": identity}})
        self.put(document, 201)
        problem = self.refused(self.node.call("DELETE", path), 409)
        self.assertIn(document["port"], problem["detail"])
        self.assertEqual(self.node.get(path)["cidrs"], ["10.0.0.0/25"])
        self.assertEqual([s["id"] for s in self.node.items("/v1/address-sets")], [identity])
        self.node.call("DELETE", f"/v1/blueprints/{document['port']}")
        self.assertEqual(self.node.call("DELETE", path).status, 204)
        self.refused(self.node.call("GET", path), 404)

    def test_external_mappings_and_edge_sets(self):
        item = {"address": "198.51.100.9", "prefix_len": 0, "protocol": "tcp", "ports": "1024-3071",
                "node": "fd00:cabe::b", "port": port_id(3), "epoch": 1, "state": "active"}
        answer = self.node.call("POST", "/v1/external-mappings", {"items": [item]})
        self.assertEqual(answer.json, {"applied": 1, "unchanged": 0, "stale": 0}, answer.body)
        self.assertEqual(self.node.items("/v1/external-mappings"), [item])
        edges = {"prefix": "198.51.100.0/24", "nodes": ["fd00:cabe::a"], "epoch": 3}
        answer = self.node.call("PUT", "/v1/edge-sets/198.51.100.0_24", edges)
        self.assertEqual((answer.status, answer.json), (200, edges))
        self.refused(self.node.call("PUT", "/v1/edge-sets/198.51.100.0_24", {**edges, "epoch": 2}), 409)
        self.refused(self.node.call("PUT", "/v1/edge-sets/198.51.100.0", edges), 400)
        self.assertEqual(self.node.items("/v1/edge-sets"), [edges])

    # ---- What operators read

    def test_metrics_are_openmetrics(self):
        document = blueprint(name='a "name" with \\ in it')
        self.put(document, 201)
        self.attached(document)
        self.ping(self.web, "10.0.0.1", 1)
        self.ping(self.web, "203.0.113.1", 1)
        answer = self.node.call("GET", "/metrics")
        self.assertTrue(answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
        families = openmetrics.parse(answer.body.decode())
        labels = f'port="{document["port"]}",name="a \\"name\\" with \\\\ in it",direction="out"'
        packets = families["nereus_port_packets"]["samples"]
        self.assertGreaterEqual(packets["nereus_port_packets_total", labels + ',result="answered"'], 1)
        drops = families["nereus_port_drops"]["samples"]
        self.assertGreaterEqual(drops["nereus_port_drops_total", labels + ',reason="no-route"'], 1)
        for name in ("nereus_build", "nereus_uptime_seconds", "nereus_table_used", "nereus_underlay_packets",
                     "nereus_rule_hits", "nereus_port_connections"):
            self.assertIn(name, families)

    def test_counters_and_drop_reasons(self):
        counters = self.node.get("/v1/counters")
        self.assertEqual(set(counters), {"node", "ports"})
        reasons = {r["name"]: r["help"] for r in self.node.items("/v1/drop-reasons")}
        self.assertIn("spoof-ip", reasons)
        self.assertNotIn("none", reasons)

    # ---- Metadata

    def fetch(self, netns, path, *arguments):
        result = self.node.inside(netns, "curl", "-s", "--max-time", "5", "-w", "\n%{http_code}", *arguments,
                                  f"http://169.254.169.254{path}", check=False)
        body, _, status = result.stdout.rpartition("\n")
        return int(status), body

    def test_T7_metadata_knows_who_asks(self):
        self.put(blueprint(), 201)
        twin = blueprint(vni=200)
        self.put(twin, 201)
        self.attached(blueprint())
        self.attached(twin)
        self.assertEqual(self.fetch(self.web, "/latest/user-data"), (200, "#cloud-config\n# 3 of 100\n"))
        self.assertEqual(self.fetch(self.twin, "/latest/user-data"), (200, "#cloud-config\n# 3 of 200\n"))
        self.assertEqual(self.fetch(self.web, "/latest/meta-data/local-ipv4"), (200, "10.0.0.3"))
        self.assertEqual(self.fetch(self.web, "/latest/meta-data/nothing")[0], 404)
        self.assertEqual(self.fetch(self.web, "/latest/", "-H", "X-Forwarded-For: 10.0.0.4")[0], 403)
        self.assertEqual(self.fetch(self.web, "/latest/", "-X", "DELETE")[0], 405)
        v6 = self.node.inside(self.web, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0", check=False)
        self.assertEqual(v6.returncode, 0, v6.stderr)
        result = self.node.inside(self.web, "curl", "-s", "--max-time", "5", "http://[fd00:ec2::254]/latest/user-data",
                                  check=False)
        self.assertEqual(result.stdout, "#cloud-config\n# 3 of 100\n")

    def test_metadata_tokens(self):
        document = blueprint()
        document["gateway"]["metadata"]["token_required"] = True
        self.put(document, 201)
        self.attached(document)
        ttl = "X-aws-ec2-metadata-token-ttl-seconds"
        self.assertEqual(self.fetch(self.web, "/latest/meta-data/mac")[0], 401)
        self.assertEqual(self.fetch(self.web, "/latest/api/token", "-X", "PUT")[0], 400)
        self.assertEqual(self.fetch(self.web, "/latest/api/token", "-X", "PUT", "-H", f"{ttl}: 21601")[0], 400)
        self.assertEqual(self.fetch(self.web, "/latest/api/token", "-X", "PUT", "-H", f"{ttl}: 60", "-H",
                                    "X-Forwarded-For: 1.2.3.4")[0], 403)
        status, token = self.fetch(self.web, "/latest/api/token", "-X", "PUT", "-H", f"{ttl}: 60")
        self.assertEqual(status, 200)
        header = f"X-aws-ec2-metadata-token: {token}"
        self.assertEqual(self.fetch(self.web, "/latest/meta-data/mac", "-H", header), (200, "02:00:00:00:00:03"))
        self.assertEqual(self.fetch(self.web, "/latest/meta-data/mac", "-H", header[:-1] + "z")[0], 401)


class RestartTest(unittest.TestCase):
    def setUp(self):
        self.node = Node(BINARY, "nr")
        self.addCleanup(self.node.close)

    def fill(self):
        node = self.node
        for number in (3, 4, 5):
            self.assertEqual(node.put_blueprint(blueprint(number, device={"kind": "none"}, generation=number)).status, 201)
        for last in range(1, 50):
            node.call("PUT", f"/v1/mappings/100/10.0.0.{last}", {
                "vni": 100, "ip": f"10.0.0.{last}", "mac": "02:00:00:00:01:01", "node": "fd00:cabe::b", "epoch": last})
        node.call("PUT", f"/v1/address-sets/{port_id(1)}", {"id": port_id(1), "generation": 1, "cidrs": ["10.0.0.0/8"]})
        node.call("PUT", "/v1/edge-sets/198.51.100.0_24",
                  {"prefix": "198.51.100.0/24", "nodes": ["fd00:cabe::a"], "epoch": 1})
        node.call("POST", "/v1/external-mappings", {"items": [
            {"address": "198.51.100.9", "protocol": "any", "ports": "0-65535", "node": "fd00:cabe::b",
             "port": port_id(3), "epoch": 1}]})

    def state(self):
        node = self.node
        return {path: node.items(path) for path in ("/v1/blueprints", "/v1/mappings", "/v1/address-sets",
                                                    "/v1/edge-sets", "/v1/external-mappings")} | {
            "documents": [node.get(f"/v1/blueprints/{b['port']}") for b in node.items("/v1/blueprints")]}

    def test_T80_kill_and_restart_bring_the_same_state_back(self):
        self.node.start()
        self.fill()
        before = self.state()
        self.node.stop(9)
        self.node.start()
        self.assertEqual(self.state(), before)
        self.assertEqual(self.node.stop(), 0)
        self.node.start()
        self.assertEqual(self.state(), before)
        self.assertEqual(self.node.get("/v1/health")["status"], "ok")

    def test_damaged_files_are_set_aside_and_the_rest_comes_back(self):
        self.node.start()
        self.fill()
        before = self.state()
        self.node.stop()
        ports = f"{self.node.directory}/state/ports"
        victim = sorted(os.listdir(ports))[0]
        with open(f"{ports}/{victim}", "r+b") as file:
            file.seek(200)
            file.write(b"\0\0\0")
        journal = f"{self.node.directory}/state/mappings.journal"
        with open(journal, "r+b") as file:
            file.seek(os.path.getsize(journal) // 2)
            file.write(b"\0\0\0")
        self.node.start()
        health = self.node.get("/v1/health")
        self.assertEqual(health["status"], "degraded")
        self.assertIn(victim, str(health["problems"]))
        self.assertIn("mappings.journal", str(health["problems"]))
        self.assertTrue(os.path.exists(f"{ports}/{victim}.damaged"))
        self.assertTrue(os.path.exists(f"{journal}.damaged"))
        after = self.state()
        self.assertEqual(len(after["/v1/blueprints"]), 2)
        self.assertEqual(len(after["/v1/mappings"]), len(before["/v1/mappings"]) - 1)
        self.assertEqual(after["/v1/edge-sets"], before["/v1/edge-sets"])

    def test_state_of_a_newer_version_stops_the_start(self):
        self.node.start()
        self.fill()
        self.node.stop()
        ports = f"{self.node.directory}/state/ports"
        with open(f"{ports}/{port_id(77)}.json", "w", encoding="utf-8") as file:
            file.write("nereus-state 2 sha256:00 2\n{}")
        self.node.start(ready=False)
        self.assertNotEqual(self.node.process.wait(20), 0)
        self.assertIn("newer", self.node.log_text())

    def test_T80_connections_survive_kill_9(self):
        guest = self.node.guest("web", "02:00:00:00:00:03", ["10.0.0.3/24"], "10.0.0.1", "p3-100")
        self.node.start()
        document = blueprint()
        self.node.put_blueprint(document)
        self.node.call("PUT", "/v1/mappings/100/10.0.0.4", {
            "vni": 100, "ip": "10.0.0.4", "mac": "02:00:00:00:00:04", "node": "fd00:cabe::b", "epoch": 1})
        wait_for(lambda: self.node.get(f"/v1/ports/{document['port']}")["attached"])
        self.node.inside(guest, sys.executable, "-c",
                         "import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x',('10.0.0.4',53))")
        flows = wait_for(lambda: self.node.items("/v1/flows"), what="a flow")
        self.node.stop(9)
        self.node.start()
        self.assertEqual(self.node.get("/v1/health")["adopted"], 1)
        again = self.node.items("/v1/flows")
        self.assertEqual([f["out"] for f in again], [f["out"] for f in flows])

    def test_a_running_capture_does_not_hold_up_the_end(self):
        self.node.start()
        with tempfile.NamedTemporaryFile() as file:
            capture = subprocess.Popen(["curl", "-sN", "--unix-socket", self.node.socket, "-o", file.name,
                                        "http://node/v1/capture"])
            wait_for(lambda: os.path.getsize(file.name) > 0, what="the capture's header")
            self.assertEqual(self.node.stop(), 0)
            self.assertEqual(capture.wait(10), 0)

    def test_bad_configuration_is_named(self):
        self.node.config["underlay"]["mtu"] = 40
        self.node.start(ready=False)
        self.assertEqual(self.node.process.wait(20), 78)
        self.assertIn("/underlay/mtu", self.node.log_text())

    def test_hangup_checks_the_configuration_and_goes_on(self):
        self.node.start()
        self.node.process.send_signal(1)
        wait_for(lambda: "configuration unchanged" in self.node.log_text(), what="SIGHUP is handled")
        self.assertEqual(self.node.get("/v1/health")["status"], "ok")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root: network namespaces")
        sys.exit(77)
    unittest.main(verbosity=2)
