# SPDX-License-Identifier: MPL-2.0
"""C structs: what freestanding code sees of a document."""

from schema import Enum

WIDTH = 120


def commented(code, comment, indent="    "):
    line = f"{indent}{code}"
    if not comment:
        return [line]
    if len(line) + 4 + len(comment) <= WIDTH:
        return [f"{line} // {comment}"]
    return [f"{indent}// {comment}", line]


def number(n):
    return hex(n) if n > 0xFFFF and n not in (1 << 24, 1 << 20) else str(n)


def meaning(field):
    """The member's comment: range, words, then the table's own."""
    t, parts = field.type, []
    if t.kind == "INT" and (t.min or t.max != (1 << min(8 * t.size, 63)) - 1):
        parts.append(number(t.min) if t.min == t.max else f"{number(t.min)}..{number(t.max)}")
    if t.kind == "WORD" and t.c == "bool":
        no, yes = t.words.words
        parts.append(f'{field.name}: "{yes.text}" (else "{no.text}")')
    elif t.kind == "WORD" and "BLUEPRINT_" not in field.doc:
        parts.append(f"enum {t.words.name}")
    if t.kind == "NULLABLE":
        parts.append("-1: null, any")
    elif field.doc:
        parts.append(field.doc)
    return "; ".join(parts)


def members(field):
    t, name = field.type, field.member
    if field.has and "." not in field.has:
        yield from commented(f"bool {field.has};", "")
    if t.kind == "LIST":
        inner = f"struct {t.item.struct.name}" if t.item.struct else t.item.c
        yield from commented(f"const {inner} *{name};", meaning(field))
        yield f"    uint32_t n_{name};"
        return
    if t.kind == "HEX":
        yield from commented(f"const uint8_t *{name};", meaning(field))
        yield f"    uint32_t n_{name};"
        return
    if t.kind == "OBJECT":
        declared = f"struct {t.struct.name} {name}"
    elif t.kind == "HASH":
        declared = f"uint8_t {name}[{t.size}]"
    else:
        declared = f"{t.c}{'' if t.c.endswith('*') else ' '}{name}"
    yield from commented(declared + ";", meaning(field))


def struct_text(s):
    yield from commented(f"struct {s.name} {{", s.doc, "")
    if s.present:
        yield f"    bool {s.present}; // the object is present"
    if s.tag and not any(f.member == s.tag for f in s.fields):
        yield f"    uint8_t {s.tag}; // enum {s.tag_enum.name}"
    for field in s.fields:
        if field.store:
            yield from members(field)
    yield "};"
    yield ""


def enum_text(e):
    yield from commented(f"enum {e.name} {{", e.doc, "")
    for i, word in enumerate(w for w in e.words if w.in_c):
        explicit = f" = {word.value}" if word.value != i else ""
        yield from commented(f"{word.c}{explicit},", word.doc)
    yield "};"
    yield ""


def header_text(header):
    guard = "NEREUS_" + header.path.upper().replace("/", "_").replace(".", "_")
    yield "// SPDX-License-Identifier: MPL-2.0"
    yield f"// {header.doc}"
    yield "//"
    yield "// Generated from api/fields by api/generate.py."
    yield "// Strings are NUL-terminated UTF-8, \"\" when absent. Arrays are pointer and count. All memory belongs to"
    yield "// whoever made the document (api/json: one arena) and is read only."
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    for include in header.includes:
        yield f'#include "{include}"'
    yield ""
    for item in header.items:
        if isinstance(item, Enum):
            yield from enum_text(item)
        elif item.emit:
            yield from struct_text(item)
    yield "#endif"
