# SPDX-License-Identifier: MPL-2.0
"""OpenAPI 3.0 from the calls and the tables they name."""

import re

from fields.answers import PROBLEM
from fields.calls import CALLS, JSON, PATH_PARAMETERS
from fields.config import CONFIG
from schema import OPTIONAL, PROTOCOL_ANY, REQUIRED, ZERO

MEANING = {200: "Done", 201: "Made", 204: "Gone", 404: "There is none", 409: "Stale, or in use",
           413: "Larger than 16 MiB", 422: "Wrong; the old state stays", 503: "Not now"}


def schema_name(struct):
    return "".join(part.capitalize() for part in struct.name.split("_"))


def default_of(field):
    if field.default in (REQUIRED, OPTIONAL, ZERO) or field.type.kind == "OBJECT" and field.default != {}:
        return None
    return "any" if field.type.kind == "PROTOCOL" and field.default == PROTOCOL_ANY else field.default


def remarks(struct, field):
    parts = [field.doc] if field.doc else []
    if field.when:
        parts.append(f"with {struct.tag} {', '.join(field.when)}")
    if field.unsupported:
        parts.append("anything else is refused in this version")
    return "; ".join(parts)


class Schemas:
    def __init__(self):
        self.all = {}

    def reference(self, struct):
        name = schema_name(struct)
        if name not in self.all:
            self.all[name] = None  # its place in the order
            self.all[name] = self.object(struct)
        return {"$ref": f"#/components/schemas/{name}"}

    def type(self, t):
        if t.kind == "OBJECT":
            return self.reference(t.struct)
        if t.kind == "LIST":
            size = {"minItems": t.min} if t.min else {}
            return {"type": "array", "items": self.type(t.item), **size, "maxItems": t.max}
        return dict(t.schema)

    def property(self, struct, field):
        schema = self.type(field.type)
        text, default = remarks(struct, field), default_of(field)
        if field.type.kind == "OBJECT":
            extra = {"description": text} if text else {}
            if field.default is OPTIONAL:
                extra["nullable"] = True
            return {"allOf": [schema], **extra} if extra else schema
        if text:
            schema["description"] = text
        if default is not None:
            schema["default"] = default
        if field.unsupported and field.type.kind == "INT":
            schema["maximum"] = field.default
        elif field.unsupported and field.type.kind == "BOOL":
            schema["enum"] = [field.default]
        elif field.unsupported:
            schema["maxItems"] = 0
        if field.default in (OPTIONAL, ZERO) and not field.one_of:
            schema["nullable"] = True
        return schema

    def object(self, struct):
        schema = {"type": "object", "description": struct.doc,
                  "properties": {f.name: self.property(struct, f) for f in struct.fields}}
        required = [f.name for f in struct.fields if f.required]
        if required:
            schema["required"] = required
        choices = [f.name for f in struct.fields if f.one_of]
        if choices:
            schema["oneOf"] = [{"required": [name]} for name in choices]
        schema["additionalProperties"] = False
        return schema


def operation(schemas, call):
    words = re.sub(r"[{}]", "", call.path).replace("/v1", "").strip("/")
    result = {"operationId": "-".join([call.method.lower(), *re.split(r"[/]", words)]), "summary": call.summary}
    parameters = [{"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name]}
                  for name in re.findall(r"{(\w+)}", call.path)]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in call.query]
    if parameters:
        result["parameters"] = parameters
    if call.body:
        result["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas.reference(call.body)}}}
    responses = {}
    for status in call.ok:
        responses[str(status)] = {"description": MEANING[status]}
        if status != 204:
            content = {"schema": schemas.reference(call.answer) if call.answer else {"type": "string"}}
            responses[str(status)]["content"] = {call.media: content}
    for status in call.fails:
        responses[str(status)] = {"description": MEANING[status], "content": {
            "application/problem+json": {"schema": schemas.reference(PROBLEM)}}}
    result["responses"] = responses
    return result


def document(version):
    schemas, paths = Schemas(), {}
    for call in CALLS:
        paths.setdefault(call.path, {})[call.method.lower()] = operation(schemas, call)
    schemas.reference(CONFIG)  # no call carries it, tools want it
    return {
        "openapi": "3.0.3",
        "info": {"title": "Nereus node API", "version": version, "license": {"name": "MPL-2.0"},
                 "description": "Served on a UNIX socket. Fields whose names begin with x- are accepted everywhere."},
        "servers": [{"url": "http://localhost"}],
        "paths": paths,
        "components": {"schemas": schemas.all},
    }
