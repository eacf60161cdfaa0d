# SPDX-License-Identifier: MPL-2.0
"""iperf3 between two guests, and the same pair over Linux bridges with kernel VXLAN on the same underlay."""

import json
import statistics

from guest import Guest

PORT = 5201
CASES = (("web to db, 1 stream", 1, False), ("db to web, 1 stream", 1, True),
         ("web to db, 8 streams", 8, False), ("db to web, 8 streams", 8, True))


class Baseline:
    """guest - veth - bridge - vxlan - underlay - vxlan - bridge - veth - guest, all in the kernel."""

    def __init__(self, world):
        self.world, lab = world, world.lab
        self.guests = []
        for letter, other, number in (("a", "b", 3), ("b", "a", 4)):
            node = world.nodes[letter]
            guest = Guest(lab, f"base-{letter}")
            lab.ip(node.namespace, "link", "add", "base0", "type", "bridge", "mcast_snooping", 0)
            lab.ip(node.namespace, "link", "add", "vxlan0", "type", "vxlan", "id", 4242, "dstport", 4789,
                   "local", node.address, "remote", world.nodes[other].address, "dev", "eth0")
            lab.veth(node.namespace, "base", guest.namespace, "eth0", world.vpc_mtu)
            for link in ("vxlan0", "base"):
                lab.ip(node.namespace, "link", "set", link, "master", "base0", "up")
            lab.ip(node.namespace, "link", "set", "vxlan0", "mtu", world.vpc_mtu)
            lab.ip(node.namespace, "link", "set", "base0", "up")
            lab.ip(guest.namespace, "addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
            self.guests.append(guest)

    def pair(self):
        return self.guests[0], self.guests[1], "10.9.0.4"


def gigabits(client, address, streams, reverse, seconds):
    """One run, as the receiver counted it."""
    command = ["iperf3", "--json", "-c", address, "-p", PORT, "-t", seconds, "-P", streams, "--connect-timeout", 3000]
    done = client.run(*command, *(["-R"] if reverse else []), check=False, timeout=seconds + 20)
    result = json.loads(done.stdout or "{}")
    if "end" not in result or "sum_received" not in result["end"]:
        raise RuntimeError(f"iperf3: {result.get('error') or done.stderr.strip() or 'no result'}")
    return result["end"]["sum_received"]["bits_per_second"] / 1e9


def compare(pairs, seconds, rounds):
    """Medians of each case for each pair, {name: {case: Gbit/s}}. Rounds alternate: both see the same machine."""
    servers = []
    for client, server, address in pairs.values():
        process = server.lab.start(server.namespace, "iperf3", "-s", "-p", PORT, name=f"{server.name}-iperf3")
        servers.append(process.listens(PORT))
    runs = {name: {case: [] for case, _, _ in CASES} for name in pairs}
    for _ in range(rounds):
        for case, streams, reverse in CASES:
            for name, (client, server, address) in pairs.items():
                runs[name][case].append(gigabits(client, address, streams, reverse, seconds))
    for process in servers:
        process.kill()
    return {name: {case: statistics.median(values) for case, values in cases.items()} for name, cases in runs.items()}
