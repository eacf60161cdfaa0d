# SPDX-License-Identifier: MPL-2.0
"""The demo's world under steady use: connections, policy changes and kills, for so many minutes.

Each round must end with every conversation answered, every counter accounted for, and no growth of memory.
"""

import argparse
import pathlib
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import lab as laboratory  # noqa: E402
from lab import wait_for  # noqa: E402
from report import Report  # noqa: E402
from world import INTERNET, INTERNET6, World  # noqa: E402

CONNECTIONS, KILL_EVERY = 100, 5
GROWTH_KB = 16 * 1024  # of resident memory over the first rounds' level


def resident_kb(node):
    text = pathlib.Path(f"/proc/{node.process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


def unaccounted(node):
    """Per port and direction: received less all the ways a packet can end."""
    found = {}
    for status in node.api.items("/v1/ports"):
        for direction, c in status["counters"].items():
            rest = c["received"] - c["sent"] - c["answered"] - c["consumed"] - sum(c["drops"].values())
            if rest:
                found[f"{status['name']} {direction}"] = rest
    return found


def converse(world):
    """Short conversations of every kind; returns how many went wrong.

    Few of them go outside: a closed connection holds its port of the slice for minutes, and there are 2,048.
    """
    web, db = world.guest(world.web), world.guest(world.db)
    within = [(web, world.db.ip4, 5432), (web, world.db.ip6, 5432)]
    outside = [(web, INTERNET, 8080), (db, INTERNET6, 8080)]
    wrong = 0
    for number in range(CONNECTIONS):
        targets = outside if number % 25 == 0 else within
        guest, address, port = targets[number // 25 % 2 if targets is outside else number % 2]
        talk = guest.connect(address, port)
        greeted = talk and talk.line()
        wrong += not (greeted and (talk.ask(f"n{number}") or "").endswith(f": n{number}"))
        if talk:
            talk.close()
    return wrong


def rounds(world, report, minutes):
    end, number, level = time.monotonic() + minutes * 60, 0, {}
    steady = world.guest(world.web).connect(world.db.ip4, 5432)
    steady.line()
    while time.monotonic() < end:
        number += 1
        report.step(number, "connections, a policy change" + (", a kill" if number % KILL_EVERY == 0 else ""))
        report.check("conversations that went wrong", 0, converse(world))
        world.node_of(world.db).api.put_blueprint(world.db.next())
        if number % KILL_EVERY == 0:
            node = random.choice(list(world.nodes.values()))
            node.kill()
            node.start()
            level.pop(node.letter, None)
        report.check("the connection that never closes answers", "acme-prod-db: here", steady.ask("here", 10))
        for node in world.nodes.values():
            wait_for(f"node {node.letter}: counters add up", lambda: not unaccounted(node), 5)
            report.check(f"node {node.letter}: packets unaccounted for", {}, unaccounted(node))
            kilobytes = resident_kb(node)
            if number % KILL_EVERY == 2:
                level.setdefault(node.letter, kilobytes)
            growth = kilobytes - level.get(node.letter, kilobytes)
            report.check(f"node {node.letter}: growth of memory", f"under {GROWTH_KB} kB", f"{growth} kB",
                         ok=growth < GROWTH_KB)
        report.done()


def main():
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--build", default="build/release")
    chosen = parser.parse_args()

    def interrupted(*_):
        raise KeyboardInterrupt

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, interrupted)
    report = Report()
    try:
        with laboratory.Lab() as lab:
            world = World(lab, chosen.build, 1500)
            world.build_up()
            for port in (world.web, world.db):
                world.guest(port).configure(world.vpc_mtu)
            world.guest(world.db).serve("acme-prod-db", 5432)
            world.internet.serve("internet", 8080)
            rounds(world, report, chosen.minutes)
    except laboratory.LabError as problem:
        report.error(str(problem))
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    report.summary()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
