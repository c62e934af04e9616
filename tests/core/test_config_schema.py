"""The JSON Schema that is shipped: it is the schema of the code, and editors can use it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.config.json_schema import DRAFT, FILE, json_schema, text
from headway.config.schema import Config
from tests.configs import CHAT, RENDER, SIM, TRAIN

pytestmark = pytest.mark.core

EXAMPLE = Path(__file__).parents[2] / "docs" / "example.toml"
TYPES: Mapping[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
KNOWN = {
    "type", "enum", "pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "items",
    "minItems", "properties", "additionalProperties", "patternProperties", "required", "anyOf", "$ref", "$defs",
    "$schema", "title", "description", "default", "propertyNames", "const",
}  # fmt: skip


def wrong(value: Any, schema: Any, at: str = "") -> Iterator[str]:
    """What an editor would underline: the part of JSON Schema that this schema uses."""
    if "$ref" in schema:
        schema = {**json_schema()["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    if "anyOf" in schema and all(list(wrong(value, option)) for option in schema["anyOf"]):
        yield f"{at}: none of them"
    if kinds := schema.get("type"):
        allowed = [TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        truth = isinstance(value, bool) and bool not in allowed
        if truth or not any(isinstance(value, kind) for kind in allowed):
            yield f"{at}: is no {kinds}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: is none of {schema['enum']}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: does not match"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: is out of limits"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{at}: is too short"
        for one in value:
            yield from wrong(one, schema.get("items", {}), at)
    if isinstance(value, dict):
        yield from in_table(value, schema, at)


def in_table(value: Mapping[str, Any], schema: Any, at: str) -> Iterator[str]:
    yield from (f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        patterns = schema.get("patternProperties", {}).items()
        found = schema.get("properties", {}).get(name) or next(
            (s for p, s in patterns if re.search(p, name)), None
        )
        more = schema.get("additionalProperties", True)
        if found is None and more is False:
            yield f"{at}.{name}: is unknown"
        elif found is not None or isinstance(more, dict):
            yield from wrong(one, found or more, f"{at}.{name}")


def nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema inside a schema."""
    if isinstance(node, list):
        for one in node:
            yield from nodes(one)
    elif isinstance(node, dict):
        yield node
        for key, value in node.items():
            if key in ("properties", "patternProperties", "$defs"):
                for one in value.values():
                    yield from nodes(one)
            elif key in ("items", "additionalProperties", "anyOf"):
                yield from nodes(value)


def test_the_file_that_is_shipped_is_the_schema_of_the_code() -> None:
    assert FILE.read_text("utf-8") == text(), (
        "python -m headway.config.json_schema > src/headway/config/schema.json"
    )


def test_it_uses_only_words_of_json_schema() -> None:
    schema = json.loads(FILE.read_text("utf-8"))
    assert schema["$schema"] == DRAFT
    assert {word for node in nodes(schema) for word in node} <= KNOWN


def test_every_key_of_the_file_is_in_it_with_its_meaning() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(Config.model_fields)
    for name, table in schema["$defs"].items():
        lacking = [key for key, said in table.get("properties", {}).items() if "$ref" not in said]
        assert not [key for key in lacking if not table["properties"][key].get("description")], name


def test_the_example_is_right_for_an_editor() -> None:
    assert list(wrong(tomllib.loads(EXAMPLE.read_text("utf-8")), json_schema())) == []


WRONG = {
    # name: (text, where an editor shows it)
    "an unknown key": (CHAT + "queue_maxx = 1\n", ".service.chat.queue_maxx"),
    "an unknown table": ("[services.chat]\n", ".services"),
    "a key inside a table inside": (CHAT + "memory = {awak = 1}\n", ".service.chat.memory.awak"),
    "a missing key": ('[job.train]\ngpus = 1\n', ".job.train"),
    "a duration without a unit": ('[headway]\ngap_min = "90"\n', ".headway.gap_min"),
    "a size in other words": (CHAT + 'memory = {awake = "lots"}\n', ".service.chat.memory.awake"),
    "a command as one text": (TRAIN.replace('["train"]', '"train"'), ".job.train.start"),
    "an empty command": (TRAIN.replace('["train"]', "[]"), ".job.train.start"),
    "an unknown driver": (RENDER.replace('"command"', '"commnd"'), ".job.render.driver"),
    "a name with a capital": (TRAIN.replace("job.train", "job.Train"), ".job.Train"),
    "a port too large": ("[gate]\nport = 65536\n", ".gate.port"),
    "a truth for a number": (SIM + TRAIN + "retries = true\n", ".job.train.retries"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where"), WRONG.values(), ids=WRONG.keys())
def test_an_editor_shows(text: str, where: str) -> None:
    (problem,) = wrong(tomllib.loads(text), json_schema())
    assert problem.startswith(f"{where}:"), problem
