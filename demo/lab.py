# SPDX-License-Identifier: MPL-2.0
"""A laboratory of network namespaces: nodes, guests, processes, captures, and waiting for what should happen.

Everything it makes is named nrs-*, or stands in the state file under RUN. Closing the lab removes it all; so does
opening the next one, when the last run was killed. Nothing here sleeps: it waits for events with a deadline.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

RUN = pathlib.Path("/run/nereus-demo")
LOCK = pathlib.Path("/run/nereus-demo.lock")
PREFIX = "nrs-"
NETNS_ETC = pathlib.Path("/etc/netns")
PATIENCE = 600  # seconds: two labs never run at once on a machine
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    pass


class Timeout(LabError):
    pass


def wait_for(what, probe, timeout=10.0, interval=0.02):
    """Calls `probe` until its answer is true; returns the answer. Raises Timeout with `what` at the deadline."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise Timeout(f"{what}: not within {timeout:g} s")
        pause.wait(interval)


def run(*command, check=True, timeout=60, stdin=None):
    """Runs a command to its end; returns its output. An error carries what it printed."""
    done = subprocess.run([str(c) for c in command], input=stdin, text=True, capture_output=True, timeout=timeout)
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(map(str, command))}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done if not check else done.stdout


@contextlib.contextmanager
def inside(namespace):
    """Sockets made by this thread in the block belong to the namespace, and stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _setns(there)
        yield
    finally:
        _setns(home)
        os.close(there)
        os.close(home)


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _start_time(pid):
    """When the process began, in clock ticks: tells it from a later one with the same number. None: there is none."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return None if fields[0] == "Z" else int(fields[19])


class Process:
    def __init__(self, popen, name, log):
        self.popen, self.name, self.log, self.pid = popen, name, log, popen.pid

    def output(self):
        return self.log.read_text(errors="replace")

    def running(self):
        return self.popen.poll() is None

    def kill(self, number=signal.SIGKILL, timeout=5):
        if self.running():
            self.popen.send_signal(number)
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait(timeout)

    def wait(self, timeout=30):
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Timeout(f"{self.name}: still runs after {timeout} s") from None

    def wait_output(self, text, timeout=10):
        def probe():
            found = text in self.output()
            if not found and not self.running():
                raise LabError(f"{self.name} ended with {self.popen.returncode}: {self.output()[-800:].strip()}")
            return found
        wait_for(f"{self.name} to print {text!r}", probe, timeout)
        return self

    def listens(self, port, timeout=10):
        """Waits until the process's namespace has a TCP listener on the port."""
        def probe():
            if not self.running():
                raise LabError(f"{self.name} ended with {self.popen.returncode}: {self.output()[-800:].strip()}")
            return port in _listening(self.pid)
        wait_for(f"{self.name} to listen on {port}", probe, timeout)
        return self


def _listening(pid):
    ports = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


class Lab:
    """Opening it takes the lock and removes leftovers; leaving it removes everything, unless `keep` was set."""

    def __init__(self):
        if os.geteuid() != 0:
            raise LabError("network namespaces need root")
        self.keep = False
        self.processes = []
        self.captures = []
        self._lock = open(LOCK, "w")
        if not self._try_lock():
            print("waiting for another demo or namespace test to end", flush=True)
            wait_for("the end of another demo or namespace test", self._try_lock, PATIENCE, 0.5)
        clean()
        (RUN / "log").mkdir(parents=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for capture in self.captures:
            capture.stop()
        if not self.keep:
            for process in reversed(self.processes):
                process.kill(signal.SIGTERM, timeout=3)
            clean()
        self._lock.close()

    def _try_lock(self):
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    # ---- namespaces and links

    def namespace(self, name):
        if not name.startswith(PREFIX):
            raise LabError(f"namespace {name}: not {PREFIX}*")
        run("ip", "netns", "add", name)
        self.sysctl(name, "net.ipv4.conf.all.rp_filter", 0)
        self.sysctl(name, "net.ipv4.conf.default.rp_filter", 0)
        self.ip(name, "link", "set", "lo", "up")
        return name

    def ip(self, namespace, *arguments):
        return run("ip", "-n", namespace, *arguments)

    def sysctl(self, namespace, name, value):
        self.execute(namespace, "sysctl", "-qw", f"{name}={value}")

    def veth(self, namespace, name, peer_namespace, peer, mtu=1500, mac=None):
        """A veth pair, both ends up. `mac` is the peer's address."""
        run("ip", "link", "add", name, "netns", namespace, "mtu", mtu, "type", "veth",
            "peer", "name", peer, "netns", peer_namespace, "mtu", mtu, *(["address", mac] if mac else []))
        self.ip(namespace, "link", "set", name, "up")
        self.ip(peer_namespace, "link", "set", peer, "up")

    def links(self, namespace):
        return {link["ifname"]: link for link in json.loads(self.ip(namespace, "-j", "link"))}

    def addresses(self, namespace, name):
        """{"10.0.0.3/32", ...} without link-local and without tentative ones."""
        found = json.loads(self.ip(namespace, "-j", "addr", "show", "dev", name))
        return {f"{a['local']}/{a['prefixlen']}" for link in found for a in link.get("addr_info", [])
                if a["scope"] != "link" and not a.get("tentative")}

    # ---- processes

    def execute(self, namespace, *command, check=True, timeout=60):
        return run("ip", "netns", "exec", namespace, *command, check=check, timeout=timeout)

    def start(self, namespace, *command, name=None, environment=None):
        """Starts a process in the namespace; its output goes to RUN/log/<name>.log."""
        name = name or f"{namespace}-{os.path.basename(str(command[0]))}"
        log = RUN / "log" / f"{name}.log"
        with open(log, "ab") as output:
            popen = subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, command)], stdin=subprocess.DEVNULL,
                                     stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                     env={**os.environ, **(environment or {})})
        with open(RUN / "processes", "a") as state:
            state.write(f"{popen.pid} {_start_time(popen.pid)}\n")
        process = Process(popen, name, log)
        self.processes.append(process)
        return process

    def capture(self, namespace, interface):
        capture = Capture(namespace, interface)
        self.captures.append(capture)
        return capture


class Capture:
    """Every frame that passes an interface, in both directions, from the moment the constructor returns."""

    def __init__(self, namespace, interface):
        with inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            self._socket.bind((interface, 3))
        self.frames = []
        self._stop_r, self._stop_w = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        stopping = False
        while True:
            ready, _, _ = select.select([self._socket, self._stop_r], [], [], 0 if stopping else None)
            stopping = stopping or self._stop_r in ready
            if self._socket in ready:
                self.frames.append((time.time(), self._socket.recv(1 << 17)))
            elif stopping:
                return

    def stop(self):
        """Ends the capture with all that arrived until now; returns the frames."""
        if self._thread.is_alive():
            os.write(self._stop_w, b"x")
            self._thread.join()
            self._socket.close()
            os.close(self._stop_r)
            os.close(self._stop_w)
        return [frame for _, frame in self.frames]

    def seen(self, test):
        return [frame for _, frame in list(self.frames) if test(frame)]

    def write_pcap(self, path):
        with open(path, "wb") as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
            for at, frame in self.frames:
                out.write(struct.pack("<IIII", int(at), int(at % 1 * 1e6), len(frame), len(frame)) + frame)


# ---- cleaning up

def namespaces():
    names = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
    return [name for name in names if name.startswith(PREFIX)]


def clean():
    """Ends and removes what a lab left behind. Safe to call at any time, again and again."""
    pids = _recorded()
    for name in namespaces():
        pids |= {int(pid) for pid in run("ip", "netns", "pids", name, check=False).stdout.split()}
    pids.discard(os.getpid())
    _end(pids)
    for name in namespaces():
        run("ip", "netns", "del", name)
    for path in NETNS_ETC.glob(PREFIX + "*"):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        NETNS_ETC.rmdir()  # only when empty
    for mount in _mounts_below(RUN):
        run("umount", "-l", mount, check=False)
    shutil.rmtree(RUN, ignore_errors=True)


def _mounts_below(path):
    mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((m for m in mounts if m.startswith(f"{path}/")), reverse=True)


def _recorded():
    pids = set()
    with contextlib.suppress(OSError):
        for line in (RUN / "processes").read_text().splitlines():
            pid, _, start = line.partition(" ")
            if start.isdigit() and _start_time(pid) == int(start):
                pids.add(int(pid))
    return pids


def _end(pids):
    for number, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(Timeout):
            wait_for("processes to end", lambda: not any(_start_time(p) for p in pids), patience)
            return
