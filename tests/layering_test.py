# SPDX-License-Identifier: MPL-2.0
"""Dependencies point one way: engine <- vpc <- core <- platform, node. No OS header in the first three."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FREESTANDING = {"stddef.h", "stdint.h", "stdbool.h", "stdarg.h"}
ALLOWED = {  # folder: the folders that it may include
    "engine": {"engine"},
    "api/types": {"api/types", "engine"},
    "vpc": {"vpc", "engine", "api/types"},
    "core": {"core", "vpc", "engine", "api/types"},
    "platform": {"platform", "core", "vpc", "engine", "api/types"},
    "api/json": {"api/json", "api/types", "engine"},
    "cli": {"cli", "api/json", "api/types", "api/schema"},
}
GENERATED = {f"api/types/{table.stem}.h" for table in (ROOT / "api" / "fields").glob("*.py")}
NO_OS = ("engine", "api/types", "vpc", "core")
LINES = 400  # more than this deserves a second look, not a refusal
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def folder_of(path, folders):
    return next((f for f in sorted(folders, key=len, reverse=True) if str(path).startswith(f + "/")), None)


def is_hosted(path):
    """Tests and fuzz targets stand beside the sources but run on an OS."""
    return bool({"test", "fuzz"} & set(path.stem.split("_")))


def problems_of(path):
    folder = folder_of(path, ALLOWED)
    if folder is None or is_hosted(path):
        return
    text = (ROOT / path).read_text()
    for kind, name in INCLUDE.findall(text):
        if kind == "<":
            if folder in NO_OS and name not in FREESTANDING:
                yield f"{path}: <{name}>: {folder} includes no OS header"
            continue
        if not (ROOT / name).exists() and name not in GENERATED:
            yield f"{path}: \"{name}\": includes are written from the top of the tree"
            continue
        if not any(name.startswith(a + "/") for a in ALLOWED[folder]):
            yield f"{path}: \"{name}\": {folder} includes only {', '.join(sorted(ALLOWED[folder]))}"


def main():
    sources = sorted(p.relative_to(ROOT) for top in ("engine", "api", "vpc", "core", "platform", "node", "cli")
                     for p in (ROOT / top).rglob("*.[ch]"))
    if not sources:
        print("no sources found")
        return 1
    problems = [text for path in sources for text in problems_of(path)]
    for path in sources:
        lines = (ROOT / path).read_text().count("\n")
        if lines > LINES:
            print(f"warning: {path} has {lines} lines; aim under {LINES}")
    print(*problems, sep="\n")
    print(f"{len(sources) - len({p.split(':')[0] for p in problems})} passed, "
          f"{len({p.split(':')[0] for p in problems})} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
