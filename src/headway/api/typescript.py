"""The page's types, made from the OpenAPI document: `python -m headway.api.typescript > ui/src/api.ts`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from headway.api.app import make_app

_HEAD = """\
// Made by `python -m headway.api.typescript > ui/src/api.ts`; a test keeps it so. Nothing here is written by hand.
"""
_WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def types() -> str:
    """Every document of the API as an interface. A body may leave out what has a default; an answer never does."""
    schemas = make_app("0").openapi()["components"]["schemas"]
    return "\n".join([_HEAD, *("\n".join(_document(name, schemas[name])) for name in sorted(schemas))])


def _document(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    if "properties" not in schema:
        yield f"export type {_name(name)} = {_value(schema)}\n"
        return
    needed = schema.get("required", ()) if name.endswith("Body") else schema["properties"]
    yield f"export interface {_name(name)} {{"
    for key, one in schema["properties"].items():
        word = key if _PLAIN.fullmatch(key) else json.dumps(key)
        yield f"  {word}{'' if key in needed else '?'}: {_value(one)}"
    yield "}\n"


def _value(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _name(str(schema["$ref"]).rpartition("/")[2])
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(word) for word in schema.get("enum", [schema.get("const")]))
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_value(one) for one in options))
    kind = schema.get("type")
    if kind == "array":
        inner = _value(schema.get("items", {}))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        of = schema.get("additionalProperties")
        return f"Record<string, {_value(of) if isinstance(of, dict) else 'unknown'}>"
    return _WORDS.get(str(kind), "unknown")


def _name(name: str) -> str:
    """Generated names hold what TypeScript cannot: `Input[Row]`."""
    return re.sub(r"\W+", "_", name).strip("_")


if __name__ == "__main__":
    print(types(), end="")
