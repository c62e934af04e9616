"""The JSON Schema that editors read: `python -m headway.config.json_schema > src/headway/config/schema.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.config.schema import NAMED, Config

FILE = Path(__file__).with_name("schema.json")
# Our words for kinds of values are not those that JSON Schema knows by the same name; a pattern says it instead.
PATTERNS = {
    "duration": r"^\s*([0-9.]+\s*(d|h|min|m|s|ms)\s*)+$",
    "size": r"^\s*[0-9.]+\s*([KkMmGgTt][Ii]?)?[Bb]\s*$",
}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of the whole file, in the draft of 2020-12."""
    schema = _plain(Config.model_json_schema())
    for table in NAMED:
        schema["properties"][table]["additionalProperties"] = False
    return {"$schema": DRAFT, **schema, "title": "Headway config"}


def text() -> str:
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _plain(node: Any) -> Any:
    """Without what editors cannot use: null is no value in TOML, and a title that repeats the key says nothing."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: _plain(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))
    }
    options = made.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        rest = [option for option in options if option != {"type": "null"}]
        made.pop("anyOf")
        made |= rest[0] if len(rest) == 1 else {"anyOf": rest}
    if "gt" in made:  # what pydantic leaves where a type of ours has a limit of its own
        made["exclusiveMinimum"] = made.pop("gt")
    if "default" in made and (made["default"] is None or isinstance(made["default"], dict)):
        del made["default"]
    kind = made.pop("format", None) if isinstance(made.get("format"), str) else None
    return made | ({"pattern": PATTERNS[kind]} if kind in PATTERNS else {})


if __name__ == "__main__":
    print(text(), end="")
