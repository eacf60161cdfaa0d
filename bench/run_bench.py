#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Builds engine_bench in release mode, runs it pinned to one core, prints a Markdown table.

Options this script does not know go to engine_bench: --rows GLOB, --repeat N, --packets N, --json FILE."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(directory):
    if not (directory / "build.ninja").exists():
        subprocess.run(["meson", "setup", directory, ROOT, "--buildtype=release", "-Db_lto=true", "-Dtests=false"],
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", directory, "bench/engine_bench"], check=True, stdout=subprocess.DEVNULL)
    return directory / "bench" / "engine_bench"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def shown(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def table(rows):
    yield "| row | median | min .. max | unit |"
    yield "|---|---:|---:|---|"
    for r in rows:
        spread = f"{shown(min(r['values']))} .. {shown(max(r['values']))}"
        yield f"| {' '.join(r['name'].split())} | {shown(r['median'])} | {spread} | {r['unit']} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="default: the last one")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "bench", help="build directory")
    parser.add_argument("--json", type=pathlib.Path, help="keep every repetition here")
    options, rest = parser.parse_known_args()
    bench = build(options.build)
    with tempfile.TemporaryDirectory() as scratch:
        out = options.json or pathlib.Path(scratch) / "bench.json"
        command = ["taskset", "-c", str(options.core), bench, "--json", out, *rest]
        done = subprocess.run(command, stdout=sys.stderr)
        if done.returncode:
            return done.returncode
        rows = json.loads(out.read_text())["rows"]
    print(f"One core of {processor()}, 64-byte frames, no I/O; median of {max(len(r['values']) for r in rows)}.\n")
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
