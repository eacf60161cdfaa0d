# SPDX-License-Identifier: MPL-2.0
"""A node of the lab: a namespace with an underlay address and a nereusd, and a client of its API."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess

from lab import RUN, LabError, wait_for


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=10):
        super().__init__("localhost", timeout=timeout)
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ApiError(LabError):
    def __init__(self, call, status, body):
        super().__init__(f"{call}: {status}: {json.dumps(body)}")
        self.status, self.body = status, body


class Api:
    """The node API over its UNIX socket. Each call answers the parsed body; an error status raises ApiError."""

    def __init__(self, path):
        self._path = path

    def call(self, method, path, body=None):
        connection = UnixConnection(self._path)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kind = answer.getheader("Content-Type", "")
        parsed = json.loads(data) if "json" in kind and data else data
        if answer.status >= 400:
            raise ApiError(f"{method} {path}", answer.status, parsed if not isinstance(parsed, bytes) else {})
        return parsed

    def get(self, path):
        return self.call("GET", path)

    def put(self, path, body):
        return self.call("PUT", path, body)

    def post(self, path, body):
        return self.call("POST", path, body)

    def delete(self, path):
        return self.call("DELETE", path)

    def items(self, path):
        """A whole list, page after page."""
        found, token = [], None
        while True:
            page = self.get(path + (("&" if "?" in path else "?") + f"page_token={token}" if token else ""))
            found += page["items"]
            token = page.get("next")
            if not token:
                return found

    def port(self, port):
        return self.get(f"/v1/ports/{port}")

    def rule_hits(self, port):
        return {rule["id"]: rule["hits"] for rule in self.items(f"/v1/ports/{port}/rules")}

    def put_blueprint(self, blueprint):
        return self.put(f"/v1/blueprints/{blueprint['port']}", blueprint)

    def put_mapping(self, mapping):
        return self.put(f"/v1/mappings/{mapping['vni']}/{mapping['ip']}", mapping)


class Node:
    """`letter` names all: namespace nrs-node-a, underlay address fd00:cabe::a, directory RUN/a."""

    def __init__(self, lab, build, letter, mtu, external=None):
        self.lab, self.build, self.letter, self.mtu = lab, pathlib.Path(build).resolve(), letter, mtu
        self.namespace = f"nrs-node-{letter}"
        self.address = f"fd00:cabe::{letter}"
        self.directory = RUN / letter
        self.socket = self.directory / "nereusd.sock"
        self.api = Api(self.socket)
        self.process = None
        self.starts = 0
        self.config = {
            "node": letter,
            "underlay": {"ifname": "eth0", "address": self.address, "mtu": mtu},
            "socket": str(self.socket),
            "run_dir": str(self.directory / "run"),
            "state_dir": str(self.directory / "state"),
            "workers": 1,
            "external": external or [],
        }
        lab.namespace(self.namespace)
        lab.veth("nrs-fabric", f"node-{letter}", self.namespace, "eth0", mtu)
        lab.ip("nrs-fabric", "link", "set", f"node-{letter}", "master", "fabric0")
        lab.ip(self.namespace, "addr", "add", f"{self.address}/64", "dev", "eth0", "nodad")
        for name in ("run", "state"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "nereusd.json").write_text(json.dumps(self.config, indent=1))

    def start(self):
        self.starts += 1
        self.process = self.lab.start(self.namespace, self.build / "node" / "nereusd", "--config",
                                      self.directory / "nereusd.json", name=f"nereusd-{self.letter}")
        self.ready()
        return self

    def ready(self):
        def probe():
            if not self.process.running():
                raise LabError(f"nereusd {self.letter} ended with {self.process.popen.returncode}: "
                               f"{self.process.output()[-1500:].strip()}")
            try:
                return self.api.get("/v1/health")
            except (OSError, http.client.HTTPException, ApiError):
                return None
        return wait_for(f"nereusd {self.letter} to answer", probe, 15)

    def kill(self):
        self.process.kill(signal.SIGKILL)

    def stop(self):
        return self.process.kill(signal.SIGTERM)

    def cli(self, *arguments):
        """The command as a person would type it, and what it printed."""
        command = [str(self.build / "cli" / "nereus"), "--socket", str(self.socket), *map(str, arguments)]
        done = subprocess.run(command, text=True, capture_output=True, timeout=30, env={**os.environ, "COLUMNS": "200"})
        return done.returncode, done.stdout + done.stderr
