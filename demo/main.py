# SPDX-License-Identifier: MPL-2.0
"""The demo: two nodes, two VPCs with the same addresses, and ten steps that show what a node does."""

import argparse
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import lab as laboratory  # noqa: E402
from report import Report  # noqa: E402
from steps import dhcp, firewall, gateway, isolation, metadata, move, outside, restart, throughput, wire  # noqa: E402
from world import World  # noqa: E402

STEPS = {1: dhcp, 2: gateway, 3: firewall, 4: isolation, 5: metadata, 6: outside, 7: wire, 8: throughput, 9: move,
         10: restart}
LARGE_MTU_STEPS = (1, 8)  # with --mtu both: what a larger underlay changes


def options():
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave it running, and say how to look around")
    parser.add_argument("--mtu", default="both", choices=["1500", "9000", "both"], help="of the underlay")
    parser.add_argument("--steps", default="", help="only these, for example 1,3 (step 1 is always done)")
    parser.add_argument("--seconds", type=int, default=2, help="of each iperf3 run in step 8")
    parser.add_argument("--rounds", type=int, default=3, help="of each iperf3 case in step 8")
    parser.add_argument("--clean", action="store_true", help="only remove what an earlier run left")
    parser.add_argument("--build", default="build/release", help=argparse.SUPPRESS)
    return parser.parse_args()


def play(report, chosen, steps, mtu):
    """One world from nothing to its end."""
    failed_before = report.failed
    with laboratory.Lab() as lab:
        world = World(lab, chosen.build, mtu)
        world.options, world.here = chosen, HERE
        try:
            world.build_up()
            for number in steps:
                report.step(number, STEPS[number].TITLE)
                attempt(STEPS[number], world, report)
                report.done()
            for node in world.nodes.values():
                if not node.process.running():
                    report.error(f"nereusd {node.letter} ended: {node.process.output()[-1500:]}")
        except (laboratory.LabError, OSError) as problem:
            report.error(str(problem))
        if report.failed > failed_before:
            show_logs(report, world)
        if chosen.keep:
            lab.keep = True
            look_around(report, world)


def attempt(step, world, report):
    """A step that cannot go on has failed; the next one may still show something."""
    try:
        step.run(world, report)
    except (laboratory.LabError, OSError, RuntimeError, LookupError, TypeError, ValueError) as problem:
        report.error(f"{type(problem).__name__}: {problem}")


def show_logs(report, world):
    for node in world.nodes.values():
        if node.process:
            report.note(f"--- nereusd {node.letter}, last lines")
            report.note(node.process.output()[-1500:])


def look_around(report, world):
    cli = pathlib.Path(world.build).resolve() / "cli" / "nereus"
    print("\nThe lab is running. As root, to look around:\n")
    for letter, node in world.nodes.items():
        print(f"  export NEREUS_SOCKET={node.socket}    # node {letter}")
    print(f"""  {cli} port list
  {cli} flow list
  {cli} trace --port db --in --src 10.0.0.3 --proto tcp --dport 5432
  ip netns exec nrs-web ping 10.0.0.4
  ip netns exec nrs-web curl http://169.254.169.254/latest/meta-data/
  ip netns exec nrs-fabric tcpdump -ni node-a udp port 6081

Logs are in {laboratory.RUN}/log. To remove it all: sudo ./run clean; or run the demo again.""")


def main():
    chosen = options()
    if chosen.clean:
        laboratory.clean()
        return 0

    def interrupted(number, _):
        raise KeyboardInterrupt

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, interrupted)
    report = Report()
    wanted = [int(n) for n in chosen.steps.split(",") if n] or sorted(STEPS)
    wanted = sorted({1, *wanted})
    try:
        if chosen.mtu == "both" and not chosen.keep:
            print("Underlay with MTU 1500")
            play(report, chosen, wanted, 1500)
            large = [n for n in wanted if n in LARGE_MTU_STEPS]
            print(f"\nUnderlay with MTU 9000: steps {', '.join(map(str, large))} again")
            play(report, chosen, large, 9000)
        else:
            play(report, chosen, wanted, 1500 if chosen.mtu == "both" else int(chosen.mtu))
    except laboratory.LabError as problem:
        report.error(str(problem))
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    report.summary()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
