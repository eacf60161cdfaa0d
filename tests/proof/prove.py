# SPDX-License-Identifier: MPL-2.0
"""Runs the formal checks (docs/proofs.md): exhaustive ones in C, Frama-C's Eva over the parsers, and each again over
a copy of the source with a bug put in, where it must fail. --fast: only those of a few seconds, without Frama-C."""

import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "proof"
CC = ["gcc", "-std=gnu17", "-O3", "-flto", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]

CHECKS = {  # harness: the sources under proof; the bug (file, what to put for what)
    "checksum": (["engine/checksum.c"],
                 ("engine/checksum.h", "(uint16_t)~field + delta", "(uint16_t)~field + delta + (delta == 0xbeef)")),
    "nat": (["engine/checksum.c", "engine/transposition.c", "engine/flow_key.c", "engine/crc32c.c"],
            ("engine/hit_path.h", "if (protocol != IPPROTO_TCP4 && field == 0)", "if (field == 0)")),
    "flow_key": (["engine/flow_key.c"],
                 ("engine/flow_table.c", "i < ARRAY_LEN(x)", "i < ARRAY_LEN(x) - 1")),
    "parser_guard": (["engine/parse.c", "engine/checksum.c"],
                     ("engine/parse.c", "return at + n <= MIN(", "return at + n <= 1 + MIN(")),
}
EVA = {  # parser: sources besides the harness; the bug
    "hit_parse": ([], ("engine/hit_path.h", "HIT_HAS(p, 0, HIT_L3 + 28)", "HIT_HAS(p, 0, HIT_L3 + 19)")),
    "geneve_parse": (["engine/geneve.c"], ("engine/geneve.c", " || OUTER_OPTIONS + options > p->head", "")),
}
SLOW = {"checksum", "parser_guard"}  # tens of seconds together
OUT_OF_BOUNDS = re.compile(r"\\valid|valid_(src|dest|read|p|s)|precondition .* got status (unknown|invalid)")

counts = {"ok  ": 0, "FAIL": 0}


def tell(good, text, start):
    word = "ok  " if good else "FAIL"
    counts[word] += 1
    print(f"{word}  {text:<78} {time.monotonic() - start:6.1f} s", flush=True)


def with_bug(name, bug):
    """A folder that holds the one file with the bug, to be searched before the tree."""
    file, old, new = bug
    text = (ROOT / file).read_text()
    if text.count(old) < 1:
        raise SystemExit(f"prove: {file} has no longer the words that the bug of {name} replaces: {old}")
    target = BUILD / "bug" / name / file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace(old, new))
    return BUILD / "bug" / name


def source(tree, file):
    return str(tree / file) if tree and (tree / file).exists() else str(ROOT / file)


def includes(tree):
    return ([f"-I{tree}"] if tree else []) + [f"-I{ROOT}"]


def compile_harness(name, sources, tree):
    program = BUILD / (name + ("_bug" if tree else ""))
    subprocess.run([*CC, *includes(tree), str(ROOT / "tests/proof" / f"{name}.c"), *(source(tree, s) for s in sources),
                    "-o", str(program)], check=True)
    return program


def exhaustive(name, fast):
    sources, bug = CHECKS[name]
    arguments = ["fast"] if fast else []
    result = subprocess.run([compile_harness(name, sources, None), *arguments], stdout=subprocess.PIPE, text=True)
    lines = result.stdout.splitlines()
    for line in lines[:-1] if result.returncode in (0, 1) else lines:
        print(line)
        counts[line[:4]] += 1
    start = time.monotonic()
    if result.returncode not in (0, 1) or not lines:
        tell(False, f"{name}: ended by {result.returncode}", start)
    program = compile_harness(name, sources, with_bug(name, bug))
    seen = subprocess.run([program, "fast"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
    tell(seen, f"{name}: a bug put into {bug[0]} is found", start)


def analyse(name, sources, tree):
    """Eva's whole report, and whether it went through to the end of main."""
    flags = " ".join(includes(tree)) + f" -include {ROOT}/tests/proof/eva.h -D__ORDER_LITTLE_ENDIAN__=1234"
    flags += " -DPARSER_GENEVE" if name == "geneve_parse" else ""
    # Frama-C looks into the working directory before any folder named to it.
    log = subprocess.run(["frama-c", "-c11", "-machdep", "gcc_x86_64", f"-cpp-extra-args={flags}",
                          str(ROOT / "tests/proof/parser_bounds.c"), *(source(tree, s) for s in sources), "-eva",
                          "-eva-precision", "3", "-eva-alloc-builtin", "fresh", "-eva-no-alloc-returns-null",
                          "-eva-split-return", "full"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tree or BUILD)
    (BUILD / f"{name}{'_bug' if tree else ''}.log").write_text(log.stdout)
    alarms = re.findall(r"\[eva:alarm\][^\n]*\n([^\n]*)", log.stdout)
    finished = "done for function main" in log.stdout and "NON TERMINATING" not in log.stdout
    return log.returncode == 0 and finished, [a.strip() for a in alarms if OUT_OF_BOUNDS.search(a)]


def bounds(name):
    sources, bug = EVA[name]
    start = time.monotonic()
    finished, alarms = analyse(name, sources, None)
    tell(finished and not alarms, f"{name}: no access out of bounds, all bytes, lengths 0 to 140 (Eva)", start)
    print(*(f"      {a}" for a in alarms), sep="\n", end="\n" if alarms else "")
    start = time.monotonic()
    _, alarms = analyse(name, sources, with_bug(name, bug))
    tell(bool(alarms), f"{name}: a bug put into {bug[0]} is found", start)


def walk():
    """The walk, on the fake platform: a test of the ordinary build, run here too where that is at hand."""
    start = time.monotonic()
    program = ROOT / "build" / "gcc" / "tests" / "proof_vni_test"
    steps = ([] if (ROOT / "build/gcc/build.ninja").exists() else
             [["meson", "setup", ROOT / "build/gcc", ROOT, "-Dtests=true"]]) + [
             ["ninja", "-C", ROOT / "build/gcc", "tests/proof_vni_test"], [program]]
    logs = [subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for step in steps]
    (BUILD / "vni.log").write_text("".join(log.stdout for log in logs))
    tell(logs[-1].returncode == 0, "walk: 2,000 random policies, each tunnelled packet in its route's VNI", start)


def main():
    fast = "--fast" in sys.argv[1:]
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in CHECKS:
        if not (fast and name in SLOW):
            exhaustive(name, fast)
    if not fast:
        for name in EVA:
            bounds(name)
    walk()
    print(f"{counts['ok  ']} passed, {counts['FAIL']} failed")
    return counts["FAIL"] != 0


if __name__ == "__main__":
    sys.exit(main())
