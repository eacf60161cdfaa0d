#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Makes C types, C descriptors, OpenAPI and the reference from the field tables in api/fields.

usage: generate.py types|fields|openapi|reference OUTPUT... [version=VERSION]
"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True

from fields import blueprint, config, mapping, trace

VERSION = next((a[8:] for a in sys.argv if a.startswith("version=")), "0")
HEADERS = [blueprint.HEADER, mapping.HEADER, trace.HEADER, config.HEADER]


def write(path, lines):
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def types(outputs):
    from emit_types import header_text

    by_name = {pathlib.Path(h.path).name: h for h in HEADERS}
    for path in outputs:
        write(path, header_text(by_name[pathlib.Path(path).name]))


def fields(outputs):
    from emit_fields import fields_text

    write(outputs[0], fields_text(HEADERS))


def openapi(outputs):
    from emit_openapi import document

    write(outputs[0], [json.dumps(document(VERSION), indent=2, ensure_ascii=False)])


def reference(outputs):
    from emit_reference import reference_text

    write(outputs[0], reference_text(HEADERS))


if __name__ == "__main__":
    what = {f.__name__: f for f in (types, fields, openapi, reference)}
    if len(sys.argv) < 3 or sys.argv[1] not in what:
        sys.exit(__doc__)
    what[sys.argv[1]]([a for a in sys.argv[2:] if not a.startswith("version=")])
