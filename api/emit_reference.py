# SPDX-License-Identifier: MPL-2.0
"""The reference: each document field by field, in Markdown."""

from fields import answers
from fields.calls import CALLS
from schema import OPTIONAL, PROTOCOL_ANY, REQUIRED, ZERO
import json

SCALARS = {"BOOL": "boolean", "UUID": "UUID", "MAC": "MAC address", "PORTS": "port or range", "PROTOCOL": "protocol",
           "HASH": "hash", "HEX": "hex", "JSON": "object", "MARK": "`true`", "TCP_FLAGS": "TCP flags", "MAP": "object"}

INTRODUCTION = """# Reference

Generated from the field tables in `api/fields`.

Loading is strict. A field that is not listed is refused, unless its name begins with `x-`. `null` on an optional
field is the same as its absence. Documents are at most 16 MiB, nested at most 64 deep. Every error carries a JSON
pointer to the field, a code and a sentence; up to 32 are collected.

* **prefix**: `10.0.0.0/24`, `fd00::/64`; no bit may be set beyond the length.
* **protocol**: `any`, `tcp`, `udp`, `icmp`, `icmp6`, `sctp`, `esp`, `gre`, `ah`, or a number 0 to 255.
* **port or range**: a string, `"22"` or `"80-90"`.
* **hash**: `sha256:` and 64 hex digits: SHA-256 over the document without `generation` and `hash`, keys sorted by
  bytes, no spaces, UTF-8 not escaped, control characters as `\\b \\f \\n \\r \\t` or `\\u00XX` with upper-case digits.
  Numbers are integers everywhere."""


def anchor(struct):
    return struct.name.replace("_", "-")


def type_words(t):
    family = {0: "IP", 4: "IPv4", 6: "IPv6"}[t.family]
    if t.kind == "OBJECT":
        return f"[{t.struct.name}](#{anchor(t.struct)})"
    if t.kind == "LIST":
        return f"list of {type_words(t.item)}"
    if t.kind == "IP":
        return f"{family} address"
    if t.kind == "PREFIX":
        return f"{family} prefix"
    if t.kind == "WORD":
        return ", ".join(f"`{w.text}`" for w in t.words.words if w.supported)
    if t.kind == "STRING":
        return f"string, up to {t.max} bytes"
    if t.kind in ("INT", "NULLABLE"):
        limits = f"{t.min} to {t.max}"
        if t.min == t.max and t.max:
            limits = str(t.min)
        elif not t.max or t.max >= (1 << 32) - 1:
            limits = f"integer from {t.min}" if t.min else "integer"
        return limits + (" or null" if t.kind == "NULLABLE" else "")
    return SCALARS[t.kind]


def default_words(field):
    if field.default is REQUIRED:
        return "required"
    if field.one_of:
        return "one of these"
    if field.default in (OPTIONAL, ZERO) or field.type.kind == "OBJECT":
        return "optional"
    if field.type.kind == "PROTOCOL" and field.default == PROTOCOL_ANY:
        return "`any`"
    return f"`{json.dumps(field.default)}`"


def remarks(struct, field):
    parts = [field.doc] if field.doc else []
    if field.when:
        words = ", ".join(f"`{w}`" for w in field.when)
        parts.append(f"{'needed' if field.need else 'only'} with {struct.tag} {words}")
    if field.unsupported:
        parts.append("anything but the default is refused in this version")
    if field.type.kind == "WORD" and field.type.words.name:
        parts += [f"`{w.text}`: {w.doc}" for w in field.type.words.words if w.doc and w.supported]
    return "; ".join(parts).replace("|", "\\|")


def inner(struct, seen):
    """The struct and those within it, outer first."""
    if struct.name in seen:
        return
    seen.add(struct.name)
    yield struct
    for f in struct.fields:
        t = f.type.item or f.type
        if t.struct:
            yield from inner(t.struct, seen)


def struct_lines(struct, level):
    yield from (f"{'#' * level} {struct.name}", "", f'<a id="{anchor(struct)}"></a>{struct.doc}', "")
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for f in struct.fields:
        yield f"| `{f.name}` | {type_words(f.type)} | {default_words(f)} | {remarks(struct, f)} |"
    yield ""


def call_lines():
    yield from ("## Calls", "", "| call | body | answer | errors | |", "|---|---|---|---|---|")
    for c in CALLS:
        link = lambda s: f"[{s.name}](#{anchor(s)})" if s else ""
        query = "?" + "&".join(name + "=" for name, _ in c.query) if c.query else ""
        fails = ", ".join(map(str, c.fails))
        ok = " ".join(map(str, c.ok))
        yield f"| `{c.method} {c.path}{query}` | {link(c.body)} | {ok} {link(c.answer)} | {fails} | {c.summary} |"
    yield ""


def reference_text(headers):
    seen = set()
    yield INTRODUCTION
    yield ""
    yield from call_lines()
    for header in headers:
        for resource in header.resources.values():
            for depth, struct in enumerate(inner(resource, seen)):
                yield from struct_lines(struct, 3 if depth else 2)
    yield from ("## Answers", "")
    for struct in vars(answers).values():
        if isinstance(struct, type(answers.HEALTH)):
            for one in inner(struct, seen):
                yield from struct_lines(one, 3)
