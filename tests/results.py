# SPDX-License-Identifier: MPL-2.0
"""Counts single tests, not programs, in a meson testlog.json: names what failed, ends with "N passed, M failed"."""

import json
import re
import sys

PASSED = re.compile(r"^\[       OK \] ", re.M)  # cmocka
FAILED = re.compile(r"^\[  FAILED  \] (?!\d+ test)(.*)$"  # cmocka
                    r"|^(?:ERROR|FAIL): (\S+ \(.*\))$"  # unittest
                    r"|^(?:ERROR|FAILED) (.*?)(?: - .*)?$", re.M)  # pytest
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
PYTEST = re.compile(r"^(?:.*\b)?(\d+) passed\b.* in [\d.]+s", re.M)


def count(program):
    output = program.get("stdout", "") + "\n" + program.get("stderr", "")
    failed = {next(filter(None, names)) for names in FAILED.findall(output)}
    passed = len(PASSED.findall(output)) + sum(map(int, PYTEST.findall(output)))
    ran = sum(map(int, UNITTEST.findall(output)))
    passed += max(ran - len(failed), 0) if ran else 0
    if program["result"] == "OK":
        return max(passed, 1), set()
    return passed, {f"{program['name']}: {name}" for name in failed} or {f"{program['name']}: {program['result']}"}


def main(path):
    passed, failures = 0, []
    with open(path) as log:
        for line in log:
            n, names = count(json.loads(line))
            passed += n
            failures += sorted(names)
    for name in failures:
        print("failed:", name)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
