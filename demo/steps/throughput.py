# SPDX-License-Identifier: MPL-2.0
from throughput import CASES, Baseline, compare

TITLE = "iperf3 between web and db, beside the same pair over Linux bridges with kernel VXLAN"


def run(world, report):
    web, db = world.guest(world.web), world.guest(world.db)
    baseline = Baseline(world)
    pairs = {"nereus": (web, db, world.db.ip4), "vxlan": baseline.pair()}
    medians = compare(pairs, world.options.seconds, world.options.rounds)
    report.note(f"underlay MTU {world.mtu}, guests' MTU {world.vpc_mtu}; TCP, {world.options.seconds} s a run, "
                f"median of {world.options.rounds}, Gbit/s")
    report.note(f"{'':24}{'nereus':>10}{'bridge+vxlan':>14}{'ratio':>8}")
    for case, _, _ in CASES:
        ours, theirs = medians["nereus"][case], medians["vxlan"][case]
        report.note(f"{case:24}{ours:>10.2f}{theirs:>14.2f}{ours / theirs:>8.2f}")
    for case, _, _ in CASES:
        report.check(case, "data flows", f"{medians['nereus'][case]:.2f} Gbit/s", ok=medians["nereus"][case] > 0.01)
