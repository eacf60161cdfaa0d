# SPDX-License-Identifier: MPL-2.0
"""The driver over real namespaces, veth and tap. Needs root. Usage: pytest, with LINUX_FORWARDER set to the test double."""
import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time

import pytest

FORWARDER = os.environ.get("LINUX_FORWARDER", "build/check/platform/linux/linux_forwarder")
PREFIX = f"nrl{os.getpid()}"  # several runs may share a machine


def run(*command, check=True, timeout=30):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout)
    if check and r.returncode != 0:
        raise AssertionError(f"{command}: {r.stdout}{r.stderr}")
    return r


class World:
    """Namespaces and processes that end with the test."""

    def __init__(self):
        self.processes, self.namespaces = [], []
        self.dir = tempfile.mkdtemp(prefix=PREFIX)

    def namespace(self, name):
        name = f"{PREFIX}-{name}"
        run("ip", "netns", "del", name, check=False)
        run("ip", "netns", "add", name)
        self.namespaces.append(name)
        self.ip(name, "link set lo up")
        return name

    def ip(self, ns, command, check=True):
        return run("ip", "-n", ns, *command.split(), check=check)

    def sh(self, ns, command, check=True, timeout=30):
        return run("ip", "netns", "exec", ns, "sh", "-c", command, check=check, timeout=timeout)

    def start(self, ns, *command, **kw):
        p = subprocess.Popen(["ip", "netns", "exec", ns, *[str(c) for c in command]], text=True, **kw)
        self.processes.append(p)
        return p

    def forwarder(self, ns, workers=1, underlay="-", address="::", mtu=1500, external="-", service=False, prefix=()):
        return Forwarder(self, ns, f"{self.dir}/{ns}", workers, underlay, address, mtu, external, service, prefix)

    def end(self):
        for p in self.processes:
            with contextlib.suppress(ProcessLookupError):
                p.kill()
            p.wait()
        for ns in self.namespaces:
            run("ip", "netns", "del", ns, check=False)
        shutil.rmtree(self.dir)


class Forwarder:
    def __init__(self, world, ns, run_dir, workers, underlay, address, mtu, external, service, prefix):
        args = [*prefix, FORWARDER, run_dir, workers, underlay, address, mtu, external] + (["service"] if service else [])
        self.events = []
        self.p = world.start(ns, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.greeting = self.read_until(r"^(started|error)")

    def read(self):
        for line in self.p.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def read_until(self, pattern, timeout=10):
        lines, end = [], time.time() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.time()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no {pattern} in {lines}")
            lines.append(line)
            if line.startswith("event"):
                self.events.append(line)
            if re.match(pattern, line):
                return lines

    def do(self, *commands):
        lines = []
        for c in commands:
            self.p.stdin.write(c + "\n")
            self.p.stdin.flush()
            lines += self.read_until(r"^(ok|error)")
        return lines

    def counters(self):
        line = [x for x in self.do("counters") if x.startswith("counters")][0]
        return json.loads(line.split(" ", 1)[1])

    def wait_event(self, text):
        if not any(text in e for e in self.events):
            self.read_until(rf"^event .*{text}")

    def wait_ready(self, port, want=1):
        for _ in range(100):
            if f"ready {want}" in self.do(f"ready {port}"):
                return
            time.sleep(0.05)
        raise AssertionError(f"port {port} never became ready={want}")

    def quit(self):
        self.p.stdin.write("quit\n")
        self.p.stdin.flush()
        assert self.p.wait(20) == 0


@pytest.fixture
def world():
    w = World()
    yield w
    w.end()


def veth_guest(w, host, name, address4, mtu=1500):
    """A guest: a namespace with eth0 whose other end is `name` in `host`."""
    guest = w.namespace(name)
    w.ip(host, f"link add name {name} mtu {mtu} type veth peer name eth0 netns {guest} mtu {mtu}")
    w.ip(guest, f"addr add {address4} dev eth0")
    w.ip(guest, "link set eth0 up")
    return guest


def two_guests(w, kind="veth", workers=1):
    host = w.namespace("host")
    a, b = veth_guest(w, host, "a", "10.0.0.1/24"), veth_guest(w, host, "b", "10.0.0.2/24")
    f = w.forwarder(host, workers=workers)
    assert "attached 0" in " ".join(f.do(f"attach 1 {kind} a 1500"))
    f.do(f"attach 2 {kind} b 1500", "pair 1 2", "start")
    return host, a, b, f


def transfer(w, server, client, address, amount="-t 1"):
    s = w.start(server, "iperf3", "-s", "-1", "--forceflush", stdout=subprocess.PIPE)
    lines = iter(s.stdout.readline, "")
    assert any("listening" in line for line in lines), "the server ended before it listened"
    r = w.sh(client, f"iperf3 -c {address} -J {amount}")
    return json.loads(r.stdout)["end"]["sum_received"]["bits_per_second"]


@pytest.mark.parametrize("workers", [1, 2])
def test_veth_ports_carry_tso_frames_whole(world, workers):
    _, a, b, f = two_guests(world, workers=workers)
    world.sh(a, "ping -c 3 -i 0.2 -W 1 10.0.0.2")
    assert transfer(world, b, a, "10.0.0.2") > 1e8
    c = f.counters()
    assert c["largest"] > 60000
    assert c["receive_bad"] == 0 and c["refused"] == 0
    f.quit()


def test_vlan_tags_are_not_lost(world):
    """The kernel strips a tag before packet sockets see the frame: a tagged frame must not pass for an untagged one."""
    _, a, b, f = two_guests(world)
    pcap = f"{world.dir}/v.pcap"
    t = world.start(b, "tcpdump", "-i", "eth0", "-w", pcap, "-U", "--immediate-mode", "-Z", "root", stderr=subprocess.DEVNULL)
    time.sleep(0.8)
    frame = "ffffffffffff" "02aa00000001" "8100" "6005" "0800" + "45" * 46
    world.sh(a, f"/usr/bin/python3 -c \"import socket as s;k=s.socket(s.AF_PACKET,s.SOCK_RAW);k.bind(('eth0',0));"
                f"k.send(bytes.fromhex('{frame}'))\"")
    time.sleep(0.5)
    t.terminate()
    t.wait()
    tags = run("tshark", "-r", pcap, "-Y", "vlan", "-T", "fields", "-e", "vlan.id", "-e", "vlan.priority", "-e", "frame.len")
    assert tags.stdout.split() == ["5", "3", "64"]  # this double passes everything on, as it was
    f.quit()


def test_host_stack_is_silent_on_a_port(world):
    host, a, _, f = two_guests(world)
    world.ip(host, "addr add 10.0.0.77/24 dev a")  # even an address on the host's end
    world.sh(host, "sysctl -qw net.ipv4.ip_forward=1")
    mac = json.loads(world.ip(host, "-j link show a").stdout)[0]["address"]
    world.ip(a, f"neigh replace 10.0.0.77 lladdr {mac} dev eth0")
    world.ip(a, f"neigh replace 10.0.0.78 lladdr {mac} dev eth0")
    world.ip(a, f"neigh replace fe80::77 lladdr {mac} dev eth0")
    before = world.sh(host, "cat /proc/net/snmp").stdout
    for address in ("10.0.0.77", "10.0.0.78", "fe80::77%eth0"):
        assert world.sh(a, f"ping -c 2 -i 0.2 -W 1 {address}", check=False).returncode != 0
    assert world.sh(a, "timeout 2 bash -c '</dev/tcp/10.0.0.77/22'", check=False).returncode != 0

    def received(snmp):
        rows = [r.split() for r in snmp.splitlines() if r.startswith("Ip:")]
        return int(rows[1][rows[0].index("InReceives")])

    assert received(world.sh(host, "cat /proc/net/snmp").stdout) == received(before)
    assert "inet6" not in world.ip(host, "addr show a").stdout
    f.quit()


def test_tap_persists_and_is_found_again(world):
    host = world.namespace("host")
    b = veth_guest(world, host, "b", "10.0.0.2/24")
    for attempt in range(2):
        f = world.forwarder(host)
        assert "attached 0" in " ".join(f.do("attach 1 tap tap1 1500"))
        f.do("attach 2 veth b 1500", "pair 1 2", "start")
        if attempt == 0:
            world.ip(host, "addr add 10.0.0.1/24 dev tap1")
        index = json.loads(world.ip(host, "-j link show tap1").stdout)[0]
        assert index["address"] == "02:aa:00:00:00:01" and "LOWER_UP" in index["flags"]
        world.sh(host, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
        if attempt == 0:
            first = index["ifindex"]
            f.p.kill()  # no orderly end
            f.p.wait()
    assert first == index["ifindex"]
    assert transfer(world, b, host, "10.0.0.2") > 1e8
    c = f.counters()
    assert c["largest"] > 60000 and c["refused"] == 0
    f.quit()


def test_tap_moved_to_a_guest_keeps_working_and_is_made_again_when_the_guest_goes(world):
    host = world.namespace("host")
    b = veth_guest(world, host, "b", "10.0.0.2/24")
    a = world.namespace("inner")
    f = world.forwarder(host)
    f.do("attach 1 tap tap1 1500", "attach 2 veth b 1500", "pair 1 2", "start")
    world.ip(host, f"link set tap1 netns {a}")
    world.ip(a, "addr add 10.0.0.1/24 dev tap1")
    world.ip(a, "link set tap1 up")
    world.sh(a, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
    world.ip(a, "link del tap1")
    f.wait_event("device-gone")
    f.wait_ready(1)
    world.ip(host, "link show tap1")
    f.quit()


def test_tap_in_a_guest_is_found_again_after_a_crash(world):
    host = world.namespace("host")
    veth_guest(world, host, "b", "10.0.0.2/24")
    a = world.namespace("inner")
    f = world.forwarder(host)
    f.do("attach 1 tap tap1 1500", "attach 2 veth b 1500", "pair 1 2", "start")
    world.ip(host, f"link set tap1 netns {a}")
    world.ip(a, "link set tap1 name eth0")  # as container runtimes do
    world.ip(a, "addr add 10.0.0.1/24 dev eth0")
    world.ip(a, "link set eth0 up")
    world.sh(a, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
    time.sleep(1.2)
    f.p.kill()
    f.p.wait()
    f = world.forwarder(host)
    assert "attached 0" in " ".join(f.do("attach 1 tap tap1 1500"))
    f.do("attach 2 veth b 1500", "pair 1 2", "start")
    world.sh(a, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
    assert world.ip(host, "link show tap1", check=False).returncode != 0  # no second one was made
    f.do("detach 1")  # the port goes, and its tap with it
    for _ in range(50):
        if world.ip(a, "link show eth0", check=False).returncode != 0:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the tap stayed")
    f.do("attach 1 tap tap1 1500")
    world.ip(host, "link show tap1")
    f.quit()
    world.ip(host, "link show tap1")  # an orderly end is no end of the port


def test_device_appears_later_goes_and_comes_back(world):
    host = world.namespace("host")
    b = veth_guest(world, host, "b", "10.0.0.2/24")
    f = world.forwarder(host)
    assert "attached 0" in " ".join(f.do("attach 1 veth a 1500"))
    f.wait_event("device-missing 1")
    f.do("attach 2 veth b 1500", "pair 1 2", "start")
    for _ in range(2):
        a = veth_guest(world, host, "a", "10.0.0.1/24")
        f.wait_ready(1)
        world.sh(a, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
        world.ip(host, "link del dev a")
        f.wait_ready(1, 0)
        world.ip(b, "neigh flush all", check=False)
    assert sum("device-gone" in e for e in f.events) == 2
    f.do("detach 1")
    veth_guest(world, host, "a", "10.0.0.1/24")
    time.sleep(0.3)
    assert "ready 0" in f.do("ready 1")
    f.quit()


def test_refuses_what_it_cannot_attach(world):
    host = world.namespace("host")
    veth_guest(world, host, "b", "10.0.0.2/24")
    f = world.forwarder(host)
    f.do("attach 2 veth b 1500")
    assert "already belongs to another port" in " ".join(f.do("attach 1 veth b 1500"))
    assert "not an interface name" in " ".join(f.do("attach 1 veth ../x 1500"))
    assert "no such kind" in " ".join(f.do("attach 1 vhost x 1500"))
    assert "out of range" in " ".join(f.do("attach 99 veth x 1500"))
    assert "tap lo" in " ".join(f.do("attach 1 tap lo 1500"))
    f.quit()
    g = world.forwarder(host, underlay="nothere", address="fd00::1")
    assert "no such interface" in g.greeting[-1]


@pytest.mark.parametrize("workers", [1, 2])
def test_ports_come_and_go_while_packets_flow(world, workers):
    host, a, b, f = two_guests(world, workers=workers)
    f.do("attach 3 tap tap3 1500")
    flood = [world.start(ns, "ping", "-f", "-q", to, stdout=subprocess.DEVNULL) for ns, to in ((a, "10.0.0.2"), (b, "10.0.0.1"))]
    for i in range(60):
        lines = f.do("detach 1", "attach 1 veth a 1500", "detach 3", f"attach 3 tap tap3 {1500 + i}")
        assert sum(line.strip() == "attached 0" for line in lines) == 2, lines
        time.sleep(0.01)
    for p in flood:
        p.terminate()
    world.sh(a, "ping -c 3 -i 0.2 -W 1 10.0.0.2")
    assert f.counters()["receive_bad"] == 0
    f.quit()


def test_idle_worker_uses_no_cpu(world):
    _, a, b, f = two_guests(world)

    def cpu():
        pid = run("pgrep", "-P", f.p.pid, check=False).stdout.split() or [f.p.pid]
        fields = open(f"/proc/{pid[0]}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = cpu()
    time.sleep(3)
    assert cpu() - before <= 3  # 1 % of 300 ticks
    f.quit()


def offloads_off(w, ns, ifname):
    """Transmit checksums off (ETHTOOL_STXCSUM), and with them every segmentation offload: what a wire would see."""
    w.sh(ns, "python3 -c \"import ctypes as c,fcntl,socket,struct,sys;v=c.create_string_buffer(struct.pack('II',0x17,0));"
             f"fcntl.ioctl(socket.socket(),0x8946,struct.pack('16sP16x',b'{ifname}',c.addressof(v)))\"")


def underlay(w, mtu=1500, workers=1, offloads=True):
    """Two nodes joined by a veth, a guest behind each."""
    x, y = w.namespace("x"), w.namespace("y")
    w.ip(x, f"link add name u0 mtu {mtu} type veth peer name u0 netns {y} mtu {mtu}")
    nodes = []
    for ns, own, other in ((x, "fd00:cabe::a", "fd00:cabe::b"), (y, "fd00:cabe::b", "fd00:cabe::a")):
        w.ip(ns, f"addr add {own}/64 dev u0 nodad")
        w.ip(ns, "link set u0 up")
        if not offloads:
            offloads_off(w, ns, "u0")
    for ns, own, other, guest in ((x, "fd00:cabe::a", "fd00:cabe::b", "a"), (y, "fd00:cabe::b", "fd00:cabe::a", "b")):
        g = veth_guest(w, ns, guest, f"10.0.0.{1 if guest == 'a' else 2}/24", mtu - 70)
        w.ip(g, f"addr add fd00::{guest}/64 dev eth0 nodad")
        f = w.forwarder(ns, underlay="u0", address=own, mtu=mtu, workers=workers)
        assert f.greeting[-1] == "started", f.greeting
        f.do(f"attach 1 veth {guest} {mtu - 70}", f"tunnel 3 {other}", "encap 1 100 3", "start")
        nodes.append((ns, g, f))
    # Neighbour discovery starts when the link-local addresses have passed duplicate detection.
    for _, guest, other in ((x, nodes[0][1], "10.0.0.2"), (y, nodes[1][1], "10.0.0.1")):
        for _ in range(20):
            if w.sh(guest, f"ping -c 1 -W 0.5 {other}", check=False).returncode == 0:
                break
    return nodes


@pytest.mark.parametrize("mtu,workers,offloads", [(1500, 1, True), (9000, 1, True), (1500, 1, False), (1500, 2, True)])
def test_underlay_carries_guests(world, mtu, workers, offloads):
    (x, a, f), (y, b, g) = underlay(world, mtu, workers, offloads)
    world.sh(a, "ping -c 3 -i 0.2 -W 1 10.0.0.2")
    world.sh(a, "ping -6 -c 3 -i 0.2 -W 1 fd00::b")
    world.sh(a, f"ping -c 2 -i 0.2 -W 1 -M do -s {mtu - 70 - 28} 10.0.0.2")
    for address in ("10.0.0.2", "fd00::b"):
        assert transfer(world, b, a, address) > 1e8
    c, d = f.counters(), g.counters()
    assert c["largest"] > 60000 and d["underlay_largest"] > (50000 if offloads else 30000) and d["merged"] > 1000
    for k in (c, d):
        assert k["receive_bad"] == k["refused"] == k["not_taken"] == k["too_big"] == 0
    f.quit()
    g.quit()


def test_underlay_frames_decode(world):
    (x, a, f), (y, b, g) = underlay(world)
    world.sh(a, "ping -c 1 -W 1 10.0.0.2")
    pcap = f"{world.dir}/u.pcap"
    # A capture before segmentation shows super-frames; the receiving end without offloads shows the wire.
    offloads_off(world, x, "u0")
    # Immediate: else the kernel keeps the last frames back for up to a second, and the end of tcpdump loses them.
    t = world.start(y, "tcpdump", "-i", "u0", "-w", pcap, "-U", "--immediate-mode", "-B", "16384", "-Z", "root",
                    stderr=subprocess.DEVNULL)
    time.sleep(1)
    transfer(world, b, a, "10.0.0.2", "-n 2M")
    world.sh(a, "ping -c 2 -i 0.2 -W 1 10.0.0.2")
    time.sleep(0.5)
    t.terminate()
    t.wait()
    prefs = "-o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE"
    from_a = "ipv6.src == fd00:cabe::a && udp.port == 6081"

    def count(filter_):
        out = run("tshark", "-r", pcap, *prefs.split(), "-Y", filter_, "-T", "fields", "-e", "frame.len", timeout=120)
        return [int(x) for x in out.stdout.split()]

    data = count(f"{from_a} && geneve.vni == 100 && tcp.len > 0")
    assert len(data) > 700 and max(data) <= 1514
    assert count(f"{from_a} && (udp.checksum.status == 0 || tcp.checksum.status == 0 || ip.checksum.status == 0)") == []
    assert count(f"{from_a} && (_ws.malformed || tcp.analysis.retransmission || tcp.analysis.out_of_order)") == []
    assert len(count(f"{from_a} && icmp")) == 2
    f.quit()
    g.quit()


def probe(w, ns, address, port):
    """What a UDP client hears from a port."""
    script = "import socket as s,sys;u=s.socket(s.AF_INET6,s.SOCK_DGRAM);u.settimeout(0.7);" \
             "u.connect((sys.argv[1],int(sys.argv[2])));u.send(b'x'*40);u.recv(9)"
    return w.sh(ns, f'/usr/bin/python3 -c "{script}" {address} {port}', check=False).stderr


def test_underlay_leaves_other_traffic_to_the_host(world):
    (x, a, f), (y, b, g) = underlay(world)
    world.sh(x, "ping -6 -c 2 -i 0.2 -W 1 fd00:cabe::b")
    assert transfer(world, y, x, "fd00:cabe::b") > 1e8
    # Another UDP port is answered with port unreachable, Geneve to us is not.
    assert "refused" in probe(world, x, "fd00:cabe::b", 6082)
    assert "timed out" in probe(world, x, "fd00:cabe::b", 6081)
    # Geneve to another address of the host is the host's.
    world.ip(y, "addr add fd00:cabe::bb/64 dev u0 nodad")
    assert "refused" in probe(world, x, "fd00:cabe::bb", 6081)
    f.quit()
    g.quit()


def test_host_stays_quiet_without_the_right_to_load_filters(world):
    x, y = world.namespace("x"), world.namespace("y")
    world.ip(x, f"link add name u0 type veth peer name u0 netns {y}")
    for ns, own in ((x, "fd00:cabe::a"), (y, "fd00:cabe::b")):
        world.ip(ns, f"addr add {own}/64 dev u0 nodad")
        world.ip(ns, "link set u0 up")
    veth_guest(world, y, "b", "10.0.0.2/24")
    f = world.forwarder(y, underlay="u0", address="fd00:cabe::b", prefix=["setpriv", "--bounding-set", "-sys_admin,-bpf"])
    assert f.greeting[-1] == "started" and any("underlay-no-tc" in e for e in f.events)
    f.do("start")
    while world.sh(x, "ping -6 -c 1 -W 0.3 fd00:cabe::b", check=False).returncode != 0:
        pass
    assert "refused" in probe(world, x, "fd00:cabe::b", 6082)
    assert "timed out" in probe(world, x, "fd00:cabe::b", 6081)
    # A port is not attached unprotected.
    assert "filter that keeps the host away: Operation not permitted" in " ".join(f.do("attach 1 veth b 1500"))
    f.quit()


def test_packets_wait_for_the_next_hop(world):
    (x, a, f), (y, b, g) = underlay(world)
    world.ip(y, "link set u0 down")
    world.ip(x, "neigh flush all", check=False)
    time.sleep(0.2)
    f.do("close 3")
    world.ip(y, "link set u0 up")
    world.ip(y, "addr replace fd00:cabe::b/64 dev u0 nodad")
    f.do("tunnel 3 fd00:cabe::b")
    g.do("close 3", "tunnel 3 fd00:cabe::a")
    # The very first packet gets through: it waited.
    world.sh(a, "ping -c 5 -i 0.3 -W 2 10.0.0.2 | grep -q icmp_seq=1")
    f.quit()
    g.quit()


def test_dead_next_hop_is_told_and_recovers(world):
    (x, a, f), (y, b, g) = underlay(world)
    world.ip(y, "addr del fd00:cabe::b/64 dev u0")
    f.do("tunnel 4 fd00:cabe::dead", "encap 1 100 4")
    world.ip(a, "neigh replace 10.0.0.2 lladdr 02:aa:00:00:00:99 dev eth0")
    world.sh(a, "ping -c 30 -i 0.1 -W 1 10.0.0.2; sleep 4; ping -c 3 -i 0.2 -W 1 10.0.0.2", check=False)
    c = f.counters()
    assert c["next_hop_failed"] > 0 and c["failed"] + c["pending"] >= 16
    world.ip(y, "addr add fd00:cabe::b/64 dev u0 nodad")
    f.do("encap 1 100 3")
    world.ip(a, "neigh del 10.0.0.2 dev eth0")
    for _ in range(30):
        if world.sh(a, "ping -c 1 -W 1 10.0.0.2", check=False).returncode == 0:
            break
    else:
        raise AssertionError("no recovery")
    f.quit()
    g.quit()


def test_next_hop_behind_a_router(world):
    (x, a, f), (y, b, g) = underlay(world)
    # y's address moves behind a route: x reaches fd00:beef::b by the gateway fd00:cabe::b.
    world.ip(y, "addr add fd00:beef::b/128 dev lo")
    f.do("tunnel 5 fd00:beef::b", "encap 1 100 5")
    time.sleep(0.3)
    assert world.sh(a, "ping -c 1 -W 1 10.0.0.2", check=False).returncode != 0  # no route
    world.ip(x, "-6 route add fd00:beef::/64 via fd00:cabe::b")
    time.sleep(1.5)
    before = g.counters()["underlay_received"]
    pcap = f"{world.dir}/r.pcap"
    t = world.start(y, "tcpdump", "-i", "u0", "-w", pcap, "-U", "--immediate-mode", "-Z", "root", "udp", stderr=subprocess.DEVNULL)
    time.sleep(0.8)
    world.sh(a, "ping -c 2 -W 1 -i 0.3 10.0.0.2", check=False)
    time.sleep(0.4)
    t.terminate()
    t.wait()
    macs = run("tshark", "-r", pcap, "-Y", "ipv6.dst == fd00:beef::b", "-T", "fields", "-e", "eth.dst").stdout.split()
    assert macs and macs[0].split(",")[0] == json.loads(world.ip(y, "-j link show u0").stdout)[0]["address"]
    assert g.counters()["underlay_received"] == before  # not its own underlay address
    f.quit()
    g.quit()


def test_underlay_interface_comes_back(world):
    (x, a, f), (y, b, g) = underlay(world)
    world.sh(a, "ping -c 1 -W 1 10.0.0.2")
    world.ip(x, "link del u0")
    f.wait_event("underlay-gone")
    world.ip(x, f"link add name u0 type veth peer name u0 netns {y}")
    for ns, own in ((x, "fd00:cabe::a"), (y, "fd00:cabe::b")):
        world.ip(ns, f"addr add {own}/64 dev u0 nodad")
        world.ip(ns, "link set u0 up")
    f.wait_event("underlay-attached")
    g.wait_event("underlay-attached")
    for _ in range(30):
        if world.sh(a, "ping -c 1 -W 1 10.0.0.2", check=False).returncode == 0:
            break
    else:
        raise AssertionError("no recovery")
    f.quit()
    g.quit()


def test_external_link_carries_complete_frames(world):
    host = world.namespace("host")
    a, out = veth_guest(world, host, "a", "10.0.0.1/24"), veth_guest(world, host, "ext", "10.0.0.9/24")
    f = world.forwarder(host, external="ext")
    f.do("attach 1 veth a 1500", "external 0 1", "start")
    # One way: what comes in on the link reaches the port unchanged; and the host answers nothing.
    t = world.start(a, "tcpdump", "-i", "eth0", "-w", f"{world.dir}/e.pcap", "-U", "--immediate-mode", "-Z", "root",
                    stderr=subprocess.DEVNULL)
    time.sleep(0.8)
    world.sh(out, "ping -c 2 -i 0.3 -W 1 10.0.0.1", check=False)
    time.sleep(0.3)
    t.terminate()
    t.wait()
    assert "ARP" in run("tshark", "-r", f"{world.dir}/e.pcap").stdout
    f.quit()


def test_service_tap_ends_connections_in_its_own_namespace(world):
    host = world.namespace("host")
    a = veth_guest(world, host, "a", "100.64.0.5/10")
    f = world.forwarder(host, service=True)
    f.do("attach 1 veth a 1500", "service 1", "pair 1 1", "start")
    pid = run("pgrep", "-P", f.p.pid, check=False).stdout.split() or [f.p.pid]
    fd = [g for g in f.greeting if g.startswith("netns")][0].rsplit("/", 1)[1]
    inside = ["nsenter", f"--net=/proc/{pid[0]}/fd/{fd}"]
    addresses = run(*inside, "ip", "addr", "show", "nereus-md").stdout
    assert "169.254.169.254/32" in addresses and "fd00:ec2::254/128" in addresses and "NOARP" in addresses
    assert "100.64.0.0/10" in run(*inside, "ip", "route").stdout
    assert "fd00:ec2:0:1::/64" in run(*inside, "ip", "-6", "route").stdout
    f.quit()
