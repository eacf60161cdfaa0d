# SPDX-License-Identifier: MPL-2.0
"""What was expected, what came, and how many of each."""

import time


class Report:
    def __init__(self):
        self.passed, self.failed = 0, 0
        self.failures = []
        self._step, self._began = "", time.monotonic()

    def step(self, number, title):
        self._step, self._began = str(number), time.monotonic()
        self._say(f"\nstep {number}: {title}")

    def done(self):
        self._say(f"  [{time.monotonic() - self._began:.1f} s]")

    def check(self, what, expected, got, ok=None):
        """`ok` decides where equality does not."""
        good = expected == got if ok is None else bool(ok)
        self._say(f"  {'ok  ' if good else 'FAIL'}  {what}: expected {show(expected)}, got {show(got)}")
        if good:
            self.passed += 1
        else:
            self.failed += 1
            self.failures.append(f"step {self._step}: {what}")
        return good

    def error(self, text):
        self.failed += 1
        self.failures.append(f"step {self._step}: {text}")
        self._say(f"  FAIL  {text}")

    def note(self, text):
        for line in str(text).rstrip().splitlines():
            self._say(f"        {line}")

    def summary(self):
        self._say("")
        for text in self.failures:
            self._say(f"failed: {text}")
        self._say(f"{self.passed} passed, {self.failed} failed")

    @staticmethod
    def _say(text):
        print(text, flush=True)


def show(value):
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return " ".join(show(v) for v in value) or "nothing"
    if value is None or value == {}:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
