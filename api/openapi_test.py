#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""The generated OpenAPI document is well formed, agrees with docs/node-api.md, and describes the golden documents.

usage: openapi_test.py openapi.json docs/node-api.md tests/golden
"""

import copy
import json
import pathlib
import re
import sys

METHODS = {"get", "put", "post", "delete"}
TYPES = {"object", "array", "string", "integer", "boolean"}


def walk(node, path="#"):
    yield path, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from walk(value, f"{path}/{key}")


def check_structure(doc):
    assert doc["openapi"].startswith("3.0.") and doc["info"]["title"] and doc["info"]["version"]
    schemas, used, operations = doc["components"]["schemas"], set(), set()
    for path, node in walk(doc):
        if isinstance(node, dict) and "$ref" in node:
            assert len(node) == 1, f"{path}: siblings of $ref are ignored"
            name = node["$ref"].removeprefix("#/components/schemas/")
            assert name in schemas, f"{path}: {node['$ref']} does not resolve"
            used.add(name)
    assert set(schemas) - used <= {"NereusdConfig"}, f"unused: {set(schemas) - used}"
    for template, item in doc["paths"].items():
        for method, op in item.items():
            where = f"{method} {template}"
            assert method in METHODS, where
            assert op["operationId"] not in operations, f"{where}: operationId is not unique"
            operations.add(op["operationId"])
            named = {p["name"] for p in op.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", template)), f"{where}: path parameters"
            assert any(status.startswith("2") for status in op["responses"]), where
            assert ("requestBody" in op) <= (method in ("put", "post")), where


def check_schema(path, schema):
    if "$ref" in schema:
        return
    for part in schema.get("allOf", []):
        check_schema(path, part)
    if not schema.keys() & {"type", "allOf", "oneOf"}:
        raise AssertionError(f"{path}: no type")
    if "type" in schema:
        assert schema["type"] in TYPES, path
    properties = schema.get("properties", {})
    assert set(schema.get("required", [])) <= set(properties), f"{path}: required fields that are not there"
    if schema.get("type") == "array":
        check_schema(path + "/items", schema["items"])
    if "pattern" in schema:
        re.compile(schema["pattern"])
    if "default" in schema and schema.get("type") == "integer":
        assert schema["default"] is None or schema["minimum"] <= schema["default"] <= schema["maximum"], path
    if "default" in schema and "enum" in schema:
        assert schema["default"] in schema["enum"], path
    for name, inner in properties.items():
        check_schema(f"{path}/{name}", inner)


def faults(doc, schema, value, path=""):
    """What of `value` the schema does not allow: enough of JSON Schema for what the tables say."""
    if "$ref" in schema:
        schema = doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if value is None and schema.get("nullable"):
        return
    for part in schema.get("allOf", []):
        yield from faults(doc, part, value, path)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kind = kinds.get(schema.get("type"))
    if kind and (not isinstance(value, kind) or kind is int and isinstance(value, bool)):
        yield f"{path}: not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is none of {schema['enum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value} does not match"
    if isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{path}: {value} is out of range"
    if "oneOf" in schema:
        if sum(not any(faults(doc, option, value, path)) for option in schema["oneOf"]) != 1:
            yield f"{path}: not exactly one alternative"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: {len(value)} elements"
        for i, element in enumerate(value):
            yield from faults(doc, schema.get("items", {}), element, f"{path}/{i}")
    if isinstance(value, dict):
        yield from (f"{path}/{name}: missing" for name in schema.get("required", []) if name not in value)
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                yield from faults(doc, schema["properties"][name], inner, f"{path}/{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}/{name}: unknown"


def check_documentation(doc, text):
    """Every call named in docs/node-api.md is there."""
    for call in re.findall(r"`([A-Z]+ /[^`]*)`", text):
        method, path = re.match(r"([A-Z]+) ([^?`]*)", call).groups()
        assert method.lower() in doc["paths"].get(path, {}), f"{method} {path} is documented, not in the tables"


def check_golden(doc, directory):
    for name, schema in (("blueprint.json", "Blueprint"), ("nereusd.json", "NereusdConfig")):
        value = json.loads((directory / name).read_text())
        reference = {"$ref": f"#/components/schemas/{schema}"}
        found = list(faults(doc, reference, value))
        assert not found, found
        wrong = copy.deepcopy(value)
        wrong["colour"] = 1
        assert list(faults(doc, reference, wrong)) == ["/colour: unknown"]


def main():
    openapi, documentation, golden = map(pathlib.Path, sys.argv[1:4])
    doc = json.loads(openapi.read_text())
    check_structure(doc)
    for name, schema in doc["components"]["schemas"].items():
        check_schema(name, schema)
    check_documentation(doc, documentation.read_text())
    check_golden(doc, golden)
    print(f"{len(doc['paths'])} paths, {len(doc['components']['schemas'])} schemas")


if __name__ == "__main__":
    main()
