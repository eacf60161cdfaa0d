#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""nereus against a small node that answers in the documented shapes: cli_test.py NEREUS MANPAGE"""

import http.server
import json
import os
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

NEREUS = MANPAGE = None

WEB = "0192a7c4-1111-7000-8000-000000000001"
DB = "0192a7c4-2222-7000-8000-000000000002"
TWIN = "0192a7d5-3333-7000-8000-000000000003"
TWIN2 = "01aaaaaa-3333-7000-8000-000000000004"
SET = "0192a7c4-0000-7000-8000-0000000000aa"


def counters(**drops):
    direction = {"received": 120, "received_bytes": 9000, "sent": 100, "sent_bytes": 8000, "answered": 5, "consumed": 0,
                 "generated": 0, "hits": 90, "misses": 30, "drops": drops}
    return {"out": direction, "in": dict(direction, received=7, drops={"firewall-deny": 0})}


def port(uuid, name, **more):
    status = {"id": uuid, "name": name, "index": 1, "vpc": SET, "vni": 100, "mac": "02:00:00:00:00:03",
              "addresses": ["10.0.0.3", "fd00:10::3"], "device": {"kind": "tap", "ifname": "tap0"}, "generation": 7,
              "hash": "sha256:" + "ab" * 32, "applied_at": 1767225600, "paused": False, "attached": True,
              "device_error": "", "connections": 3, "connections_max": 65536,
              "counters": counters(**{"spoof-ip": 12, "no-mapping": 0})}
    status.update(more)
    return status


PORTS = [port(WEB, "web"), port(DB, "db", paused=True), port(TWIN, "twin", device_error="no such device"),
         port(TWIN2, "twin")]
MAPPING = {"vni": 100, "ip": "10.0.0.4", "mac": "02:00:00:00:00:04", "node": "fd00:cabe::b", "epoch": 3, "state": "active"}
FLOW = {"id": 9, "port": WEB, "protocol": "tcp", "out": {"src": "10.0.0.3", "sport": 40000, "dst": "10.0.0.4", "dport": 443},
        "in": {"src": "fd00::4", "sport": 443, "dst": "fd00::3", "dport": 40000}, "opener": "out", "state": "established",
        "class": "tcp", "nat": None, "rule": "r1", "packets": {"out": 10, "in": 8}, "bytes": {"out": 1, "in": 2},
        "age_ms": 61000, "idle_ms": 1500, "timeout_s": 8000, "to": "fd00:cabe::b"}
TRACE = {"verdict": "dropped", "reason": "firewall-deny", "hit": False, "transposition": {"dst_mac": "02::4", "decrement_ttl": True, "clamp_mss": False, "to": "tunnel 1"},
         "steps": [{"layer": "gateway", "result": "pass", "detail": "source is the port's"},
                   {"layer": "firewall", "result": "drop", "detail": "rule r9"},
                   {"layer": "nat", "result": "pass", "detail": ""}], "to": "tunnel 1", "node": "fd00:cabe::b"}


class Node:
    """What the mock node holds and what it was asked."""

    def __init__(self):
        self.requests = []
        self.mappings = {("100", "10.0.0.4"): dict(MAPPING)}
        self.refuse = None  # (status, problem) for the next request that changes something
        self.page_size = 100

    def problem(self, status, detail, errors=()):
        return status, {"type": "about:blank", "title": "Problem", "status": status, "detail": detail, "errors": list(errors)}

    def page(self, items, query):
        start = int(query.get("page_token", ["0"])[0])
        end = start + self.page_size
        return 200, {"items": items[start:end], "next": str(end) if end < len(items) else ""}

    def answer(self, method, path, query, body):
        if method != "GET" and self.refuse:
            return self.refuse
        parts = [urllib.parse.unquote(p) for p in path.split("/")[2:]]
        noun = parts[0]
        if method == "GET":
            return self.get(noun, parts[1:], query)
        if noun == "blueprints" and method == "PUT":
            document = json.loads(body)
            if query.get("dry_run") == ["1"]:
                return 200, {"port": parts[1], "generation": document["generation"], "changed": True}
            return 201, {"port": parts[1], "generation": document["generation"], "hash": "sha256:00", "changed": True}
        if noun == "mappings" and method == "PUT":
            return 200, json.loads(body)
        if method == "POST" and noun in ("mappings", "external-mappings"):
            return 200, {"applied": len(json.loads(body)["items"]), "unchanged": 1, "stale": 0}
        if noun == "ports":
            return 200, PORTS[0]
        if noun == "trace":
            return 200, TRACE
        return (204, None) if method == "DELETE" else (200, {})

    def get(self, noun, rest, query):
        if noun == "ports" and rest[1:] == ["rules"]:
            return 200, {"items": [{"id": "r1", "layer": "firewall", "dir": "in", "action": "allow", "hits": 4},
                                   {"id": "default-in", "layer": "firewall", "dir": "in", "action": "deny", "hits": 2}]}
        if noun == "ports" and rest[1:] == ["meters"]:
            return 200, {"items": [{"class": 7, "packets": {"out": 3, "in": 2}, "bytes": {"out": 426, "in": 284}}]}
        if noun == "ports" and rest:
            found = [p for p in PORTS if p["id"] == rest[0]]
            return (200, found[0]) if found else self.problem(404, "no port with that id")
        if noun == "mappings" and rest:
            found = self.mappings.get(tuple(rest))
            return (200, found) if found else self.problem(404, "no such mapping")
        lists = {"ports": PORTS, "mappings": list(self.mappings.values()), "flows": [FLOW],
                 "blueprints": [{"port": WEB, "name": "web", "generation": 7, "hash": "sha256:00"}],
                 "address-sets": [{"id": SET, "generation": 4, "cidrs": ["10.0.0.0/25", "10.0.1.0/24"]}],
                 "external-mappings": [{"address": "198.51.100.9", "protocol": "any", "ports": "1024-3071",
                                        "node": "fd00:cabe::b", "port": WEB, "epoch": 1, "state": "active"}],
                 "edge-sets": [{"prefix": "198.51.100.0/24", "nodes": ["fd00:cabe::a"], "epoch": 1}],
                 "events": [{"id": 1, "time_ms": 1780000000000, "kind": "spoofing", "port": WEB, "name": "web",
                             "count": 12, "text": "12 packets dropped: source MAC is not the port's"}],
                 "drop-reasons": [{"name": "spoof-ip", "help": "source address is not the port's nor allowed"},
                                  {"name": "bad-vtep", "help": "outer source is not a node of that VPC"}]}
        if noun in lists and not rest:
            return self.page(lists[noun], query)
        objects = {"health": {"status": "ok", "version": "0.1.0", "node": "a", "uptime_s": 93784, "ports": 2,
                              "connections": 3, "mappings": 1, "adopted": 0,
                              "problems": ["the state directory cannot be written"]},
                   "version": {"version": "0.1.0", "api": 1, "schema": 1, "capabilities": ["vpc", "trace"]},
                   "blueprints": {"schema": 1, "port": WEB, "generation": 7},
                   "counters": {"node": {"underlay": {"received": 55, "drops": {"bad-vtep": 2, "loop": 0}},
                                         "service": {"received": 0, "drops": {}}},
                                "ports": counters(**{"spoof-ip": 12})}}
        return (200, objects[noun]) if noun in objects else self.problem(404, "no such thing")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def handle_any(self):
        node = self.server.node
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        node.requests.append((self.command, self.path, body))
        if url.path == "/v1/capture" and not node.refuse:
            return self.send_capture()
        status, answer = node.refuse if node.refuse and url.path == "/v1/capture" else \
            node.answer(self.command, url.path, urllib.parse.parse_qs(url.query), body)
        text = answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if text:
            self.wfile.write(text)

    def send_capture(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b"\x0a\x0d\x0d\x0a", b"packets" * 1000):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_PUT = do_POST = do_DELETE = handle_any


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 16


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="nereus-cli-")
        self.socket = os.path.join(self.dir.name, "node.sock")
        self.server = Server(self.socket, Handler)
        self.node = self.server.node = Node()
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.addCleanup(self.dir.cleanup)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def run_nereus(self, *args, stdin=b"", socket=None, env=None):
        everything = dict(os.environ, NEREUS_SOCKET=socket or self.socket, LC_ALL="C.UTF-8", **(env or {}))
        done = subprocess.run([NEREUS, *args], input=stdin, capture_output=True, env=everything, timeout=30, check=False)
        self.assertNotIn(b"Sanitizer", done.stderr)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def ok(self, *args, **kw):
        code, out, err = self.run_nereus(*args, **kw)
        self.assertEqual(code, 0, err)
        return out

    def file(self, document, name="doc.json"):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(document if isinstance(document, str) else json.dumps(document))
        return path

    def sent(self, method):
        return [(path, json.loads(body) if body else None) for m, path, body in self.node.requests if m == method]


class Ports(Case):
    def test_list(self):
        """a list is a table with a line for each item"""
        lines = self.ok("port", "list").splitlines()
        self.assertEqual(len(lines), 5)
        self.assertRegex(lines[1], rf"{WEB} +web +100 +10\.0\.0\.3,fd00:10::3 +tap tap0 +running +7 +3")
        self.assertIn("paused", lines[2])
        self.assertIn("device error", lines[3])

    def test_json_is_what_the_api_said(self):
        """-o json prints the API's own answer, wherever the option stands"""
        expected = json.dumps({"items": PORTS, "next": ""}) + "\n"
        self.assertEqual(self.ok("port", "list", "-o", "json"), expected)
        self.assertEqual(self.ok("-o", "json", "port", "list"), expected)
        self.assertEqual(self.ok("port", "--output=json", "list"), expected)

    def test_pages(self):
        """all pages of a list are fetched"""
        self.node.page_size = 1
        self.assertEqual(len(self.ok("port", "list").splitlines()), 5)
        self.assertEqual(json.loads(self.ok("port", "list", "-o", "json")), {"items": PORTS, "next": ""})

    def test_names(self):
        """a port is named by UUID, name, or the beginning of its UUID"""
        for name in (WEB, WEB.upper(), "web", "0192a7c4-1", "0192A7C4-1"):
            self.assertRegex(self.ok("port", "show", name), rf"id +{WEB}")

    def test_ambiguous(self):
        """a name or UUID beginning that fits several ports is refused with their list"""
        for name in ("twin", "0192a7c4"):
            code, _, err = self.run_nereus("port", "show", name)
            self.assertEqual(code, 2)
            self.assertEqual(len(err.splitlines()), 3, err)

    def test_absent(self):
        """a port that is not there is exit code 1"""
        code, _, err = self.run_nereus("port", "show", "nobody")
        self.assertEqual(code, 1)
        self.assertIn("no port 'nobody'", err)
        code, _, err = self.run_nereus("port", "show", "00000000-0000-0000-0000-000000000000")
        self.assertEqual((code, err), (1, "nereus: no port with that id\n"))

    def test_show(self):
        """a port's fields and counters"""
        out = self.ok("port", "show", "web")
        self.assertRegex(out, r"applied +2026-01-01 00:00:00Z")
        self.assertRegex(out, r"connections +3/65536")
        self.assertRegex(out, r"received +120 +7")

    def test_actions(self):
        """pause, resume and reset are POSTs that say what was done"""
        for verb, done in (("pause", "paused"), ("resume", "resumed"), ("reset", "reset")):
            self.assertEqual(self.ok("port", verb, "web"), f"port web {done}\n")
            self.assertEqual(self.sent("POST")[-1][0], f"/v1/ports/{WEB}/{verb}")

    def test_rules(self):
        """rules in force with their decisions"""
        self.assertRegex(self.ok("port", "rules", "web"), r"default-in +firewall +in +deny +2")

    def test_hostile_text(self):
        """control characters from the node do not reach the terminal"""
        self.addCleanup(PORTS.pop)
        PORTS.append(port(TWIN2.replace("4", "5"), "evil\x1b[2J\x9b\nname"))
        for args in (("port", "list"), ("port", "show", PORTS[-1]["id"])):
            out = self.ok(*args)
            self.assertNotIn("\x1b", out)
            self.assertNotIn("\x9b", out)


class Blueprints(Case):
    def test_list_and_show(self):
        """blueprints are listed and shown as documents"""
        self.assertRegex(self.ok("blueprint", "list"), rf"{WEB} +web +7 +sha256:00")
        self.assertEqual(json.loads(self.ok("blueprint", "list", "-o", "json"))["items"][0]["port"], WEB)

    def test_apply(self):
        """apply sends the file's bytes as they are"""
        text = '{ "port": "%s",\n "generation": 8 }' % WEB
        path = self.file(text)
        self.assertEqual(self.ok("blueprint", "apply", path), f"{path}: port {WEB}: generation 8 applied, the port is new\n")
        self.assertEqual(self.node.requests[-1], ("PUT", f"/v1/blueprints/{WEB}", text))
        self.assertIn("standard input: port", self.ok("blueprint", "apply", "-", stdin=text.encode()))

    def test_check(self):
        """check is a dry run, and goes on to the next file"""
        path = self.file({"port": WEB, "generation": 8})
        self.assertIn("generation 8 is good", self.ok("blueprint", "check", path))
        self.assertEqual(self.node.requests[-1][1], f"/v1/blueprints/{WEB}?dry_run=1")
        code, out, _ = self.run_nereus("blueprint", "check", self.file({}, "bad.json"), path)
        self.assertEqual(code, 1)
        self.assertIn("is good", out)

    def test_problem(self):
        """a refusal is a sentence and a line for each pointer"""
        self.node.refuse = self.node.problem(422, "the document is not valid", [
            {"pointer": "/firewall/rules/3/ports/0", "code": "invalid", "detail": "90-80 ends before it begins"},
            {"pointer": "", "code": "invalid", "detail": "no such field"}])
        path = self.file({"port": WEB, "generation": 8})
        code, out, err = self.run_nereus("blueprint", "apply", path)
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err, f"nereus: {path}: the document is not valid\n"
                              "  /firewall/rules/3/ports/0: 90-80 ends before it begins\n"
                              "  (the document): no such field\n")

    def test_bad_files(self):
        """a file that is no JSON is refused with line and column, before the node is asked"""
        code, _, err = self.run_nereus("blueprint", "apply", self.file('{\n "port": }'))
        self.assertEqual(code, 1)
        self.assertRegex(err, r"line 2, column \d+: ")
        code, _, err = self.run_nereus("blueprint", "apply", self.file('{"port": "a", "port": "b"}'))
        self.assertEqual(code, 1)
        self.assertIn("duplicate", err)
        code, _, err = self.run_nereus("blueprint", "apply", "/nonexistent")
        self.assertEqual(code, 1)
        self.assertIn("No such file", err)
        self.assertEqual(self.node.requests, [])

    def test_delete(self):
        """delete removes by name"""
        self.assertEqual(self.ok("blueprint", "delete", "web"), "port web removed\n")
        self.assertEqual(self.sent("DELETE"), [(f"/v1/blueprints/{WEB}", None)])


class Mappings(Case):
    def test_list(self):
        """mappings are listed, of one VPC if asked"""
        self.assertRegex(self.ok("mapping", "list", "--vni", "100"), r"100 +10\.0\.0\.4 +02:.* +fd00:cabe::b +3 +active")
        self.assertEqual(self.node.requests[-1][1], "/v1/mappings?vni=100")

    def test_set_existing(self):
        """set keeps what is not given and takes the next epoch"""
        self.ok("mapping", "set", "100", "10.0.0.4", "--node", "fd00:cabe::c", "--state", "moving")
        self.assertEqual(self.sent("PUT"), [("/v1/mappings/100/10.0.0.4",
                                             dict(MAPPING, node="fd00:cabe::c", epoch=4, state="moving"))])

    def test_set_new(self):
        """a new mapping needs MAC and node and begins with epoch 1"""
        code, _, err = self.run_nereus("mapping", "set", "100", "fd00::9", "--node", "fd00:cabe::c")
        self.assertEqual(code, 2)
        self.assertIn("--mac", err)
        self.ok("mapping", "set", "100", "fd00::9", "--node", "fd00:cabe::c", "--mac", "02:00:00:00:00:09")
        path, body = self.sent("PUT")[0]
        self.assertEqual(urllib.parse.unquote(path), "/v1/mappings/100/fd00::9")
        self.assertEqual(body, {"vni": 100, "ip": "fd00::9", "mac": "02:00:00:00:00:09", "node": "fd00:cabe::c",
                                "epoch": 1, "state": "active"})

    def test_delete(self):
        """delete leaves a tombstone"""
        self.ok("mapping", "delete", "100", "10.0.0.4")
        self.ok("mapping", "delete", "100", "10.0.0.4", "--epoch", "77")
        self.assertEqual([b["epoch"] for _, b in self.sent("PUT")], [4, 77])
        self.assertEqual({b["state"] for _, b in self.sent("PUT")}, {"tombstone"})
        self.assertEqual(self.run_nereus("mapping", "delete", "100", "10.9.9.9")[0], 1)

    def test_escaping(self):
        """what a person types cannot reach another path"""
        code, _, _ = self.run_nereus("mapping", "delete", "100", "../../blueprints?x=1")
        self.assertEqual(code, 1)
        self.assertEqual(self.node.requests[-1][1], "/v1/mappings/100/..%2F..%2Fblueprints%3Fx%3D1")

    def test_apply(self):
        """apply takes one mapping, an array, or items"""
        for document in (MAPPING, [MAPPING], {"items": [MAPPING]}):
            self.assertEqual(self.ok("mapping", "apply", self.file(document)), "applied 1, unchanged 1, stale 0\n")
            self.assertEqual(self.sent("POST")[-1], ("/v1/mappings", {"items": [MAPPING]}))


class Sets(Case):
    def test_address_sets(self):
        """address sets: list, apply, delete"""
        self.assertRegex(self.ok("address-set", "list"), rf"{SET} +4 +10\.0\.0\.0/25,10\.0\.1\.0/24")
        document = {"id": SET, "generation": 5, "cidrs": []}
        self.assertEqual(self.ok("address-set", "apply", self.file([document])), f"{SET} applied\n")
        self.assertEqual(self.sent("PUT"), [(f"/v1/address-sets/{SET}", document)])
        self.ok("address-set", "delete", SET)
        self.assertEqual(self.sent("DELETE")[0][0], f"/v1/address-sets/{SET}")

    def test_external_mappings(self):
        """external mappings: list and apply"""
        self.assertRegex(self.ok("external-mapping", "list"), r"198\.51\.100\.9 +any +1024-3071")
        self.ok("external-mapping", "apply", self.file([{"address": "198.51.100.9"}]))
        self.assertEqual(self.sent("POST")[-1], ("/v1/external-mappings", {"items": [{"address": "198.51.100.9"}]}))

    def test_edge_sets(self):
        """edge sets: list, and apply under the prefix with _"""
        self.assertRegex(self.ok("edge-set", "list"), r"198\.51\.100\.0/24 +fd00:cabe::a +1")
        self.ok("edge-set", "apply", self.file({"prefix": "198.51.100.0/24", "nodes": [], "epoch": 2}))
        self.assertEqual(self.sent("PUT")[0][0], "/v1/edge-sets/198.51.100.0_24")
        code, _, err = self.run_nereus("edge-set", "apply", self.file({"nodes": []}))
        self.assertEqual(code, 1)
        self.assertIn("lacks the string 'prefix'", err)


class Looking(Case):
    def test_flows(self):
        """connections with both directions"""
        out = self.ok("flow", "list", "--port", "web")
        self.assertRegex(out, r"tcp +10\.0\.0\.3:40000 > 10\.0\.0\.4:443 +\[fd00::4\]:443 > \[fd00::3\]:40000 +established"
                              r" +r1 +10 +8 +1m01s +1\.5s +fd00:cabe::b")
        self.assertEqual(self.node.requests[-1][1], f"/v1/flows?port={WEB}")

    def test_meters_and_events(self):
        """meter classes of a port, and events"""
        self.assertRegex(self.ok("port", "meters", "web"), r" 7 +3 +426 +2 +284")
        self.assertRegex(self.ok("event", "list"), r"20\d\d-\d\d-\d\d [\d:]+ +spoofing +web +12 +12 packets dropped")
        self.ok("event", "list", "--port", "web")
        self.assertEqual(self.node.requests[-1][1], f"/v1/events?port={WEB}")

    def test_stats(self):
        """counters that are not zero, and drops with their meaning"""
        out = self.ok("stats")
        self.assertRegex(out, r"node underlay received +55")
        self.assertRegex(out, r"ports out +spoof-ip +12 +source address is not the port's")
        self.assertRegex(out, r"node underlay +bad-vtep +2 +outer source is not a node of that VPC")
        self.assertNotIn("loop", out)
        self.assertNotIn("consumed", out)
        self.assertRegex(self.ok("stats", "-p", "web"), r"out +spoof-ip +12 +source address")

    def test_node(self):
        """health and version"""
        self.assertRegex(self.ok("node", "health"), r"uptime +1d 02:03:04\n(.*\n)* *problems +the state directory cannot")
        self.assertRegex(self.ok("node", "version"), r"capabilities +vpc,trace")

    def test_capture(self):
        """a capture is written as it comes, and its file is not made when the node refuses"""
        path = os.path.join(self.dir.name, "x.pcapng")
        self.ok("capture", "--port", "web", "--points", "drop,to-guest", "-c", "5", "--seconds", "2", "-w", path)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"\x0a\x0d\x0d\x0a" + b"packets" * 1000)
        self.assertEqual(self.node.requests[-1][1],
                         f"/v1/capture?port={WEB}&points=drop%2Cto-guest&count=5&seconds=2")
        self.ok("capture", "--filter", "tcp port 80", "-w", path)
        self.assertEqual(self.node.requests[-1][1], "/v1/capture?filter=tcp%20port%2080")
        self.assertTrue(self.ok("capture", "-w", "-").endswith("packets"))
        self.node.refuse = self.node.problem(400, "no such point")
        code, _, err = self.run_nereus("capture", "--points", "x", "-w", path + "2")
        self.assertEqual((code, err), (1, "nereus: no such point\n"))
        self.assertFalse(os.path.exists(path + "2"))
        self.assertEqual(self.run_nereus("capture")[0], 2)


class Traces(Case):
    def test_blueprint_that_is_not_in_force(self):
        """a trace as if a file's blueprint were in force"""
        document = {"schema": 1, "port": WEB}
        self.ok("trace", "--blueprint", self.file(document), "--out", "--dst", "10.0.0.4", "--proto", "udp")
        self.assertEqual(self.sent("POST")[0][1], {"dir": "out", "blueprint": document, "packet": {
            "dst": "10.0.0.4", "proto": "udp"}})
        for wrong in (["--port", "web", "--out", "--dst", "10.0.0.4", "--proto", "udp"], ["--in", "--src", "10.0.0.4"]):
            self.assertEqual(self.run_nereus("trace", "--blueprint", self.file(document), *wrong)[0], 2)
        self.assertEqual(self.run_nereus("trace", "--blueprint", self.file([document]), "--out", "--dst", "10.0.0.4",
                                         "--proto", "udp")[0], 1)

    def test_flow(self):
        """a trace of a connection's next packet"""
        self.assertIn("connection 17", self.ok("trace", "--flow", "17"))
        self.ok("trace", "--flow", "17", "--in")
        self.assertEqual([body for _, body in self.sent("POST")], [{"flow": 17}, {"dir": "in", "flow": 17}])
        for wrong in (["--port", "web"], ["--in", "--out"], ["--dst", "10.0.0.4"]):
            self.assertEqual(self.run_nereus("trace", "--flow", "17", *wrong)[0], 2)

    def test_packet(self):
        """a trace by fields is printed layer by layer"""
        out = self.ok("trace", "--port", "web", "--out", "--dst", "10.0.0.4", "--proto", "tcp", "--dport", "443",
                      "--flags", "S")
        self.assertEqual(self.sent("POST")[0][1], {"dir": "out", "port": WEB, "packet": {
            "dst": "10.0.0.4", "proto": "tcp", "flags": "S", "dport": 443}})
        self.assertRegex(out, r"gateway +pass +source is the port's\n +firewall +drop +rule r9\n")
        self.assertIn("  nat          pass\nverdict: dropped (firewall-deny), to tunnel 1, node fd00:cabe::b\n", out)
        self.assertTrue(out.endswith("rewritten:\n  dst_mac        02::4\n  decrement_ttl  yes\n"), out)

    def test_destination(self):
        """a packet to the guest goes to the port's address of the source's family"""
        for src, dst in (("10.0.0.4", "10.0.0.3"), ("fd00:10::4", "fd00:10::3")):
            self.ok("trace", "-p", "web", "--in", "--src", src, "--proto", "udp")
            self.assertEqual(self.sent("POST")[-1][1]["packet"], {"src": src, "dst": dst, "proto": "udp"})

    def test_frame(self):
        """a frame is hex in any spacing"""
        self.ok("trace", "-p", "web", "--in", "--from", "fd00:cabe::b", "--frame", "02:00 00aB")
        self.assertEqual(self.sent("POST")[0][1], {"dir": "in", "from": "fd00:cabe::b", "frame": "020000aB", "port": WEB})

    def test_usage(self):
        """a trace that asks for nothing clear is wrong usage"""
        base = ("trace", "-p", "web")
        for args in ((), ("--in", "--out"), ("--out", "--from", "::1", "--dst", "::1", "--proto", "tcp"),
                     ("--out", "--proto", "tcp"), ("--out", "--dst", "::1"), ("--out", "--frame", "123"),
                     ("--out", "--frame", "zz"), ("--out", "--frame", "1234", "--dport", "4"),
                     ("--out", "--dst", "::1", "--proto", "tcp", "--dport", "65536"),
                     ("--out", "--dst", "::1", "--proto", "tcp", "--dport", "-1")):
            code, _, err = self.run_nereus(*base, *args)
            self.assertEqual(code, 2, args)
            self.assertIn("nereus trace --help", err)
        self.assertEqual(self.run_nereus("trace", "--out", "--dst", "::1", "--proto", "tcp")[0], 2)


class Program(Case):
    def commands(self):
        nouns = re.findall(r"^  ([a-z-]+) ", self.ok("--help").split("Options:")[0], re.M)
        for noun in nouns:
            text = self.ok(noun, "--help")
            verbs = re.findall(r"^  ([a-z]+) ", text.split("Commands:")[1].split("Options:")[0], re.M) \
                if "Commands:" in text else [None]
            for verb in verbs:
                yield [noun, verb] if verb else [noun]

    def test_help_everywhere(self):
        """every command explains itself with usage and examples"""
        commands = list(self.commands())
        self.assertGreater(len(commands), 28)
        for command in commands:
            text = self.ok(*command, "--help")
            self.assertTrue(text.startswith("Usage: nereus " + " ".join(command)), text)
            self.assertRegex(text, r"Examples:\n +(nereus|generate)")

    def test_man_page(self):
        """the manual page names every command and option"""
        with open(MANPAGE, encoding="utf-8") as f:
            page = f.read()
        for command in self.commands():
            self.assertIn("nereus " + " ".join(command), page)
            for option in re.findall(r"--([a-z0-9-]+)", self.ok(*command, "--help").split("Options:")[-1].split("Global")[0]):
                self.assertIn(option.replace("-", "\\-"), page.replace("-", "\\-").replace("\\\\-", "\\-"))

    def test_unreachable(self):
        """a node that does not answer is exit code 3"""
        code, out, err = self.run_nereus("port", "list", "--socket", "/nonexistent.sock")
        self.assertEqual((code, out), (3, ""))
        self.assertIn("no node answers at /nonexistent.sock", err)
        self.assertEqual(self.run_nereus("node", "health", socket=self.dir.name)[0], 3)

    def test_garbage(self):
        """an answer that is no JSON is exit code 3, an error page exit code 1"""
        self.node.get = lambda *_: (200, b"<html>")
        self.assertEqual(self.run_nereus("port", "list")[0], 3)
        self.node.get = lambda *_: (502, b"<html>")
        code, _, err = self.run_nereus("port", "list")
        self.assertEqual((code, err), (1, "nereus: the node answers 502\n"))
        for answer in (b"[]", b"null", b"3", b'{"items": 3}', b'{"items": [3, null, {"id": 4}], "next": 7}'):
            self.node.get = lambda *_, answer=answer: (200, answer)
            self.assertEqual(self.run_nereus("port", "list")[0], 0)
            self.assertEqual(self.run_nereus("port", "show", WEB)[0], 0)
            self.assertEqual(self.run_nereus("stats")[0], 0)
            self.assertEqual(self.run_nereus("flow", "list")[0], 0)

    def test_usage(self):
        """wrong usage is exit code 2 and names the way to help"""
        for args in ((), ("prot",), ("port",), ("port", "shwo"), ("port", "show"), ("port", "show", "a", "b"),
                     ("port", "list", "--what"), ("-o", "xml", "port", "list"), ("mapping", "set", "x", "::1"),
                     ("mapping", "list", "--vni", "16777216"), ("flow", "list", "--port")):
            self.assertEqual(self.run_nereus(*args)[0], 2, args)
        self.assertIn("there are: list show", self.run_nereus("port", "shwo")[2])

    def test_version(self):
        """the program tells its version"""
        self.assertRegex(self.ok("--version"), r"^nereus \d+\.\d+\.\d+\n$")

    def test_check(self):
        """check tells about this machine; its exit code follows the worst finding"""
        code, out, _ = self.run_nereus("check", "-o", "json", "--run-dir", self.dir.name, "--state-dir", self.dir.name + "/a/b")
        found = json.loads(out)
        results = {c["name"]: c["result"] for c in found["checks"]}
        self.assertLessEqual({"kernel", "tun", "cls_bpf", "huge pages", "IPv6", "run dir", "state dir"}, set(results))
        self.assertEqual(results["state dir"], "ok")
        self.assertEqual(code, 1 if "fail" in results.values() else 0)
        code, out, _ = self.run_nereus("check", "--run-dir", self.socket)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"run dir +FAIL +.* is not a directory")

    def complete(self, *words):
        script = self.ok("completion", "bash") + "\nCOMP_WORDS=(%s); COMP_CWORD=%d; _nereus; echo \"${COMPREPLY[@]}\"\n" % (
            " ".join("'%s'" % w for w in words), len(words) - 1)
        path = os.path.dirname(os.path.abspath(NEREUS)) + ":" + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True,
                              env=dict(os.environ, PATH=path, NEREUS_SOCKET=self.socket))
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_completion(self):
        """bash completes commands, options, ports and files"""
        self.assertEqual(self.complete("nereus", "e"), ["external-mapping", "edge-set", "event"])
        self.assertEqual(self.complete("nereus", "-o", "json", "port", "re"), ["resume", "reset"])
        self.assertEqual(self.complete("nereus", "port", "show", "w"), ["web"])
        self.assertEqual(self.complete("nereus", "flow", "list", "--port", "d"), ["db"])
        self.assertEqual(self.complete("nereus", "trace", "--port", "web", "--sp"), ["--sport"])
        self.assertEqual(self.complete("nereus", "port", "list", "-o", "j"), ["json"])
        path = self.file({}, "some-blueprint.json")
        self.assertEqual(self.complete("nereus", "blueprint", "apply", path[:-5]), [path])

    def test_completion_is_safe(self):
        """a port's name is never run by the shell"""
        self.addCleanup(PORTS.pop)
        PORTS.append(port(TWIN2.replace("4", "6"), "$(touch /tmp/nereus-cli-owned)"))
        self.complete("nereus", "port", "show", "")
        self.assertFalse(os.path.exists("/tmp/nereus-cli-owned"))
        self.assertNotIn("touch", self.ok("completion", "ports"))

    def test_full_disk(self):
        """output that cannot be written is an error"""
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([NEREUS, "port", "list"], stdout=full, stderr=subprocess.PIPE, check=False,
                                  env=dict(os.environ, NEREUS_SOCKET=self.socket))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write", done.stderr)


if __name__ == "__main__":
    NEREUS, MANPAGE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
