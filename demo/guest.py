# SPDX-License-Identifier: MPL-2.0
"""A guest: a namespace with one interface and the programs a tenant would run in it."""

import json
import pathlib
import re
import signal
import socket
import sys

from blueprints import GATEWAY4, GATEWAY_LINK_LOCAL
from lab import NETNS_ETC, RUN, inside, wait_for

HERE = pathlib.Path(__file__).resolve().parent
# dhclient's script sets the host's name and may tell timesyncd of NTP servers: here it finds only the guest's own.
ISOLATE = 'test ! -d /run/systemd || mount -t tmpfs none /run/systemd; hostname -- "$1"; shift; exec "$@"'


class Conversation:
    """A TCP connection of a guest, line by line."""

    def __init__(self, connection):
        self.socket = connection
        self._buffer = b""

    def line(self, timeout=5.0):
        """The next line, None when it does not come."""
        self.socket.settimeout(timeout)
        while b"\n" not in self._buffer:
            try:
                data = self.socket.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\n", 1)
        return text.decode()

    def ask(self, text, timeout=5.0):
        try:
            self.socket.sendall(text.encode() + b"\n")
        except OSError:
            return None
        return self.line(timeout)

    def close(self):
        self.socket.close()


class Guest:
    def __init__(self, lab, name, port=None):
        self.lab, self.name, self.port = lab, name, port
        self.namespace = lab.namespace(f"nrs-{name}")
        self.directory = RUN / f"guest-{name}"
        self.directory.mkdir()

    def plug_veth(self, node):
        self.lab.veth(node.namespace, self.port.ifname, self.namespace, "eth0", mac=self.port.mac)

    def plug_tap(self, node):
        """nereusd made the tap; the guest's side of it is the netdev, which keeps its wire when it moves here."""
        wait_for(f"tap {self.port.ifname}", lambda: self.port.ifname in self.lab.links(node.namespace))
        node.lab.ip(node.namespace, "link", "set", self.port.ifname, "netns", self.namespace, "name", "eth0")
        self.lab.ip(self.namespace, "link", "set", "eth0", "address", self.port.mac)
        self.lab.ip(self.namespace, "link", "set", "eth0", "up")

    def configure(self, mtu):
        """By hand, as DHCP and RA would; for tests of something else."""
        ip = self.lab.ip
        ip(self.namespace, "link", "set", "eth0", "mtu", mtu)
        ip(self.namespace, "addr", "add", f"{self.port.ip4}/32", "dev", "eth0")
        ip(self.namespace, "route", "add", GATEWAY4, "dev", "eth0")
        ip(self.namespace, "route", "add", "default", "via", GATEWAY4)
        ip(self.namespace, "addr", "add", f"{self.port.ip6}/128", "dev", "eth0", "nodad")
        ip(self.namespace, "-6", "route", "replace", "default", "via", GATEWAY_LINK_LOCAL, "dev", "eth0")
        wait_for(f"{self.name}: link-local address", self._link_local, 10)

    # ---- configuration by stock clients

    def dhcp(self):
        """Starts Debian's dhclient, for IPv4 and for IPv6, with its own configuration and script.

        Its script writes resolv.conf, which is the guest's own by way of /etc/netns.
        """
        etc = NETNS_ETC / self.namespace
        etc.mkdir(parents=True, exist_ok=True)
        self.resolv_conf = etc / "resolv.conf"
        self.resolv_conf.write_text("")
        wait_for(f"{self.name}: link-local address", self._link_local, 10)
        for version in ("-4", "-6"):
            files = self.directory / f"dhclient{version}"
            self.lab.start(self.namespace, "unshare", "--uts", "--mount", "sh", "-c",
                           ISOLATE, "sh", self.name, "/sbin/dhclient", version, "-d", "-v", "-cf", "/etc/dhcp/dhclient.conf",
                           "-lf", f"{files}.leases", "-pf", f"{files}.pid", "eth0",
                           name=f"{self.name}-dhclient{version}")

    def _link_local(self):
        found = json.loads(self.lab.ip(self.namespace, "-j", "-6", "addr", "show", "dev", "eth0", "scope", "link"))
        return any(a for link in found for a in link.get("addr_info", []) if not a.get("tentative"))

    def wait_addresses(self, timeout=20):
        wanted = {f"{self.port.ip4}/32", f"{self.port.ip6}/128"}
        wait_for(f"{self.name}: addresses {', '.join(sorted(wanted))}",
                 lambda: wanted <= self.lab.addresses(self.namespace, "eth0"), timeout)
        for version, destination in (("-4", "10.0.0.1"), ("-6", "fd00:10::1")):
            wait_for(f"{self.name}: IPv{version[1]} route", lambda: "eth0" in self.lab.execute(
                self.namespace, "ip", version, "route", "get", destination, check=False).stdout, 10)

    def routes(self, version):
        return {(route["dst"], route.get("gateway", "link"))
                for route in json.loads(self.lab.ip(self.namespace, "-j", f"-{version}", "route"))
                if route.get("dev") == "eth0"}

    def mtu(self):
        return self.lab.links(self.namespace)["eth0"]["mtu"]

    def neighbour(self, address):
        for entry in json.loads(self.lab.ip(self.namespace, "-j", "neigh")):
            if entry["dst"] == address:
                return entry.get("lladdr")
        return None

    # ---- programs

    def run(self, *command, check=True, timeout=60):
        return self.lab.execute(self.namespace, *command, check=check, timeout=timeout)

    def serve(self, name, *ports):
        server = self.lab.start(self.namespace, sys.executable, HERE / "tenant.py", name, *ports,
                                name=f"{self.name}-server-{ports[0]}")
        return server.listens(ports[-1])

    def connect(self, address, port, timeout=5.0, source_port=0):
        """A Conversation, or None when nobody answered."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with inside(self.namespace):
            connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if source_port:
                connection.bind(("", source_port))
            connection.connect((address, port))
        except OSError:
            connection.close()
            return None
        return Conversation(connection)

    def greeting(self, address, port, timeout=5.0):
        """What a tenant's server says first: [name, our address, our port] as it sees them; None when refused."""
        conversation = self.connect(address, port, timeout)
        if conversation is None:
            return None
        words = (conversation.line(timeout) or "").split()
        conversation.close()
        return words or None

    def ping(self, address, count=1, size=56, timeout=2):
        """How many echo requests were answered."""
        done = self.run("ping", "-n", "-c", count, "-s", size, "-W", timeout, "-i", "0.2", address, check=False)
        found = re.search(r"(\d+) received", done.stdout)
        return int(found.group(1)) if found else 0

    def end(self, *processes):
        for process in processes:
            process.kill(signal.SIGTERM)
