# SPDX-License-Identifier: MPL-2.0
"""A node for tests: nereusd in a network namespace of its own, with guests in others, and its API as calls.

Needs root. Everything it makes carries the process id in its name and is removed by close().
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def run(*command, check=True, **options):
    return subprocess.run(command, check=check, capture_output=True, text=True, **options)


def wait_for(condition, seconds=10, what="condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"timed out: {what}")


class Node:
    def __init__(self, binary, tag="na", **config):
        self.binary = binary
        self.tag = f"{tag}{os.getpid() % 100000}"
        self.directory = tempfile.mkdtemp(prefix="nereus-node-")
        self.socket = f"{self.directory}/api.sock"
        self.namespaces = []
        self.process = None
        self.netns = self.namespace("node")
        self.ip("link", "set", "lo", "up")
        self.ip("link", "add", "under0", "type", "veth", "peer", "name", "under1")
        self.ip("link", "set", "under0", "up")
        self.ip("link", "set", "under1", "up")
        self.ip("addr", "add", "fd00:cabe::a/64", "dev", "under0", "nodad")
        self.config = {
            "node": "a",
            "underlay": {"ifname": "under0", "address": "fd00:cabe::a", "mtu": 1500},
            "socket": self.socket,
            "run_dir": f"{self.directory}/run",
            "state_dir": f"{self.directory}/state",
            "limits": {"ports": 16, "connections": 4096, "mappings": 65536},
            **config,
        }
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.settimeout(30)
        self.notify.bind(f"{self.directory}/notify.sock")
        self.log = open(f"{self.directory}/log", "ab")

    # ---- Namespaces

    def namespace(self, name):
        full = f"{self.tag}-{name}"
        run("ip", "netns", "add", full)
        self.namespaces.append(full)
        return full

    def ip(self, *command, netns=None):
        return run("ip", "-n", netns or self.netns, *command)

    def inside(self, netns, *command, **options):
        return run("ip", "netns", "exec", netns, *command, **options)

    def guest(self, name, mac, addresses, gateway, ifname):
        """A namespace that stands for a guest; the host end of its veth is `ifname`, in the node's namespace."""
        netns = self.namespace(name)
        self.ip("link", "add", ifname, "type", "veth", "peer", "name", "eth0", "netns", netns)
        self.ip("link", "set", ifname, "up")
        self.ip("link", "set", "lo", "up", netns=netns)
        self.ip("link", "set", "eth0", "address", mac, "mtu", "1430", "up", netns=netns)
        for address in addresses:
            self.ip("addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []), netns=netns)
        self.ip("route", "add", "default", "via", gateway, netns=netns)
        return netns

    # ---- The process

    def start(self, *arguments, ready=True):
        path = f"{self.directory}/config.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        environment = {**os.environ, "NOTIFY_SOCKET": f"{self.directory}/notify.sock"}
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.netns, self.binary, "--config", path, *arguments],
            stdout=self.log, stderr=self.log, env=environment)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self):
        self.notify.settimeout(0.2)
        for _ in range(150):
            try:
                if b"READY=1" in self.notify.recv(4096):
                    return
            except TimeoutError:
                if self.process.poll() is not None:
                    raise AssertionError("nereusd ended:\n" + self.log_text()) from None
        raise AssertionError("nereusd is not ready:\n" + self.log_text())

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(20)
        self.process = None
        return status

    def log_text(self):
        with open(f"{self.directory}/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        if self.process:
            self.stop(signal.SIGKILL)
        for name in self.namespaces:
            run("ip", "netns", "del", name, check=False)
        self.notify.close()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- The API

    def call(self, method, path, body=None, headers=None):
        connection = UnixConnection(self.socket)
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, body=data, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        answer = self.call("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json

    def items(self, path):
        """All pages of a list."""
        items, token = [], ""
        while True:
            separator = "&" if "?" in path else "?"
            page = self.get(f"{path}{separator}page_token={token}" if token else path)
            items += page["items"]
            token = page["next"]
            if not token:
                return items

    def put_blueprint(self, blueprint, query=""):
        return self.call("PUT", f"/v1/blueprints/{blueprint['port']}{query}", blueprint)


def port_id(number):
    return f"01930000-0000-7000-8000-{number:012x}"


def blueprint(number=3, vni=100, generation=1, **changes):
    """A port with address 10.0.0.<number> and fd00:10::<number> in a VPC."""
    document = {
        "schema": 1,
        "port": port_id(number + (vni << 16)),
        "generation": generation,
        "name": f"vm{number}-{vni}",
        "pipeline": "vpc",
        "vpc": {"id": port_id(0xAA0000 + vni), "vni": vni, "mtu": 1430},
        "device": {"kind": "veth", "ifname": f"p{number}-{vni}"},
        "l2": {"mac": f"02:00:00:00:00:{number:02x}", "addresses": [f"10.0.0.{number}", f"fd00:10::{number:x}"]},
        "gateway": {
            "mac": "02:00:00:00:00:01", "v4": "10.0.0.1", "v6": "fd00:10::1",
            "subnets": ["10.0.0.0/24", "fd00:10::/64"],
            "dhcp4": {"hostname": f"vm{number}"},
            "metadata": {"document": {"user-data": f"#cloud-config\n# {number} of {vni}\n"}},
        },
        "firewall": {"rules": [
            {"id": "ssh", "prio": 100, "dir": "in", "action": "allow", "proto": "tcp", "ports": ["22"]},
            {"id": "ping", "prio": 100, "dir": "in", "action": "allow", "proto": "icmp"}]},
        "routes": [{"prefix": "10.0.0.0/24", "target": {"kind": "local"}},
                   {"prefix": "fd00:10::/64", "target": {"kind": "local"}}],
    }
    document.update(changes)
    return document
