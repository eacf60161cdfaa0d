# SPDX-License-Identifier: MPL-2.0
"""C descriptors: what api/json needs to know to load and dump a document."""

import json

from schema import OPTIONAL, PROTOCOL_ANY, REQUIRED, ZERO


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def port_range_value(text):
    first, _, last = text.partition("-")
    return int(first) << 16 | int(last or first)


def tcp_flags_value(text):
    return sum(1 << "FSRPAUEC".index(letter) for letter in text)


def fallback(field):
    """(integer, text) that stands for the default."""
    kind, default = field.type.kind, field.default
    if default in (REQUIRED, OPTIONAL, ZERO) or kind in ("LIST", "OBJECT"):
        return (-1 if kind == "NULLABLE" else 0), ("" if kind == "STRING" else "{}" if kind == "JSON" else None)
    if kind == "WORD":
        return next(w.value for w in field.type.words.words if w.text == default), None
    if kind == "PORTS":
        return port_range_value(default), None
    if kind == "TCP_FLAGS":
        return tcp_flags_value(default), None
    if kind == "STRING":
        return 0, default
    if kind == "JSON":
        return 0, json.dumps(default, separators=(",", ":"), sort_keys=True)
    if kind == "NULLABLE":
        return (-1 if default is None else default), None
    return int(default), None


class Emitter:
    def __init__(self):
        self.lines = []
        self.seen = {}

    def words(self, e):
        """Name of the table of an enum's words."""
        key = ("words", tuple((w.text, w.value, w.supported) for w in e.words))
        if key not in self.seen:
            self.seen[key] = name = f"words_{len(self.seen)}"
            rows = ", ".join(f"{{{quoted(w.text)}, {w.value}, {'true' if w.supported else 'false'}}}" for w in e.words)
            self.lines.append(f"static const struct api_word {name}[] = {{{rows}}};")
        return self.seen[key], len(e.words)

    def type(self, t):
        parts = [f".kind = API_{t.kind}"]
        if t.size:
            parts.append(f".size = {'sizeof(struct ip_prefix)' if t.kind == 'PREFIX' else t.size}")
        if t.family:
            parts.append(f".family = {t.family}")
        if t.format != "ANY":
            parts.append(f".format = FORMAT_{t.format}")
        if t.min or t.max:
            parts.append(f".min = {t.min}, .max = {t.max}LL")
        if t.words:
            name, count = self.words(t.words)
            parts.append(f".words = {name}, .n_words = {count}")
        if t.struct:
            parts.append(f".object = &{self.object(t.struct)}")
        if t.item:
            self.prepare(t.item)
            size = f"sizeof(struct {t.item.struct.name})" if t.item.struct else "0"
            if not t.item.struct:
                size = "sizeof(struct ip_prefix)" if t.item.kind == "PREFIX" else str(t.item.size)
            parts.append(f".item_size = {size}")
            parts.append(f".item = &(const struct api_type){self.type(t.item)}")
        return "{" + ", ".join(parts) + "}"

    def prepare(self, t):
        """Emits what a type's descriptor will refer to."""
        if t.words:
            self.words(t.words)
        if t.struct:
            self.object(t.struct)
        if t.item:
            self.prepare(t.item)

    def mask(self, struct, words):
        values = {w.text: w.value for w in struct.tag_enum.words} if words else {}
        return hex(sum(1 << values[w] for w in words))

    def field(self, struct, f, stored):
        number, text = fallback(f)
        parts = [f".name = {quoted(f.name)}", f".type = {self.type(f.type)}"]
        stored = stored and f.store
        parts.append(f".offset = offsetof(struct {struct.name}, {f.member})" if stored else ".offset = API_NONE")
        if stored and f.type.kind in ("LIST", "HEX"):
            parts.append(f".count = offsetof(struct {struct.name}, n_{f.member})")
        parts.append(f".has = offsetof(struct {struct.name}, {f.has})" if stored and f.has else ".has = API_NONE")
        if f.required:
            parts.append(".required = true")
        if f.default is OPTIONAL:
            parts.append(".optional = true")
        if f.default is ZERO:
            parts.append(".zero = true")
        if f.one_of:
            parts.append(".one_of = true")
        if f.when:
            parts.append(f".when = {self.mask(struct, f.when)}")
        if f.need:
            parts.append(f".need = {self.mask(struct, f.need)}")
        if number:
            parts.append(f".fallback = {number}")
        if text is not None:
            parts.append(f".fallback_text = {quoted(text)}")
        if f.unsupported:
            parts.append(f".unsupported = {quoted(f.unsupported)}")
        return "    {" + ", ".join(parts) + "},"

    def object(self, s):
        """Name of a struct's descriptor."""
        name = f"{s.name}_object"
        if s.name in self.seen:
            return name
        self.seen[s.name] = name
        for f in s.fields:
            self.prepare(f.type)
        stored = s.emit or any(f.store for f in s.fields)
        rows = [self.field(s, f, stored) for f in s.fields]
        self.lines.append(f"static const struct api_field {s.name}_fields[] = {{")
        self.lines += rows + ["};"]
        parts = [f".name = {quoted(s.label or s.name)}", f".fields = {s.name}_fields", f".n_fields = {len(s.fields)}"]
        if stored:
            parts.append(f".size = sizeof(struct {s.name})")
        parts.append(f".tag = offsetof(struct {s.name}, {s.tag})" if s.tag else ".tag = API_NONE")
        if s.tag:
            parts.append(f".tag_name = {quoted(s.tag)}, .tag_words = {self.words(s.tag_enum)[0]}")
        if s.label:
            parts.append(".labelled = true")
        if s.check:
            parts.append(f".check = {s.check}")
        self.lines.append(f"static const struct api_object {name} = {{{', '.join(parts)}}};")
        self.lines.append("")
        return name


def fields_text(headers):
    emitter = Emitter()
    resources = []
    for header in headers:
        for word, struct in header.resources.items():
            resources.append(f"    [API_{word.upper()}] = &{emitter.object(struct)},")
    yield "// SPDX-License-Identifier: MPL-2.0"
    yield "// Generated from api/fields by api/generate.py."
    yield '#include "api/json/fields.h"'
    for header in headers:
        yield f'#include "{header.path}"'
    yield ""
    yield f"_Static_assert(PROTOCOL_ANY == {PROTOCOL_ANY}, \"the tables say the same\");"
    yield ""
    yield from emitter.lines
    yield "const struct api_object *const api_objects[API_RESOURCES] = {"
    yield from resources
    yield "};"
