# SPDX-License-Identifier: MPL-2.0
"""A strict reader of OpenMetrics text (version 1.0.0): refuses what the standard forbids."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"^({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)$")
SUFFIXES = {"counter": ("_total", "_created"), "gauge": ("",), "info": ("_info",)}


class Malformed(Exception):
    pass


def parse(text):
    """{family: {"type", "help", "samples": {(name, labels): value}}}"""
    if not text.endswith("# EOF\n"):
        raise Malformed("no # EOF at the end")
    families, current = {}, None
    for line in text[: -len("# EOF\n")].split("\n")[:-1]:
        if line.startswith("#"):
            match = re.match(rf"^# (TYPE|HELP|UNIT) ({NAME}) (.*)$", line)
            if not match:
                raise Malformed(line)
            word, name, rest = match.groups()
            if current != name:
                if name in families:
                    raise Malformed(f"{name} is not in one piece")
                current = name
                families[name] = {"samples": {}}
            if families[name]["samples"] or word.lower() in families[name]:
                raise Malformed(f"{word} of {name} is late or double")
            if word == "TYPE" and rest not in SUFFIXES:
                raise Malformed(line)
            if word == "UNIT" and not name.endswith("_" + rest):
                raise Malformed(line)
            families[name][word.lower()] = rest
            continue
        match = SAMPLE.match(line)
        if not match or current is None:
            raise Malformed(line)
        name, labels, value = match.groups()
        family = families[current]
        if name not in [current + suffix for suffix in SUFFIXES[family["type"]]]:
            raise Malformed(f"{name} does not belong to {current}")
        if family["type"] == "counter" and float(value) < 0:
            raise Malformed(line)
        names = re.findall(r'(?:^|,)([a-zA-Z_][a-zA-Z0-9_]*)="', labels or "")
        if len(names) != len(set(names)) or (name, labels) in family["samples"]:
            raise Malformed(f"twice: {line}")
        family["samples"][name, labels] = float(value)
    return families
