"""What is wrong with a config, where, and in which words."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headway.config.fields import VAR_PATTERN
from headway.config.schema import NAMED, Config
from headway.core.names import NAME_PATTERN

Keys = tuple[str, ...]  # ("service", "chat", "memory", "awake")

_KINDS = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, at a place in the tables."""

    path: Keys
    text: str


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' (did you mean "x"?)' for the closest known word, else nothing."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f' (did you mean "{close[0]}"?)' if close else ""


def table_name(path: Keys) -> str:
    """`[service.chat]`; a name that TOML wants in quotes is shown in quotes."""
    return (
        "[" + ".".join(part if part.replace("-", "").isalnum() else json.dumps(part) for part in path) + "]"
    )


def split(path: Keys) -> tuple[Keys, Keys]:
    """A path as its table's header and the key inside: [service.chat] and memory.awake."""
    if len(path) == 1:
        return (path, ()) if path[0] in Config.model_fields and path[0] != "mode" else ((), path)
    depth = 2 if path[0] in NAMED else 1
    return path[:depth], path[depth:]


def place(path: Keys) -> str:
    """`[service.chat] memory.awake`, for the line that people read."""
    table, key = split(path)
    return " ".join(part for part in (table_name(table) if table else "", ".".join(key)) if part)


def explained(error: ValidationError, inside: Keys = ()) -> Iterator[Problem]:
    """pydantic's errors in our words.

    Args:
        inside: the table that was checked, where it was not the whole config; the paths begin there.
    """
    for detail in error.errors(include_url=False):
        path = tuple(str(part) for part in detail["loc"] if part != "[key]")
        yield Problem(path, _words(detail, inside + path))


def _words(detail: ErrorDetails, path: Keys) -> str:
    kind, given, facts = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        what = "table" if len(path) == 1 and isinstance(given, Mapping) else "key"
        near = did_you_mean(path[0], Config.model_fields) if what == "table" else ""
        return f"unknown {what}{near or _hint(path)}"
    if kind == "value_error":
        return str(facts["error"])
    if kind == "string_pattern_mismatch" and facts.get("pattern") == NAME_PATTERN:
        return "is no name: 1 to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or digit"
    if kind == "string_pattern_mismatch" and facts.get("pattern") == VAR_PATTERN:
        return "is no name: 1 to 64 letters, digits and underscores, the first no digit"
    if kind == "literal_error":
        allowed = [word.strip("'") for word in facts["expected"].replace(" or ", ", ").split(", ")]
        hint = did_you_mean(given, allowed) if isinstance(given, str) else ""
        return f"must be one of {', '.join(allowed)}, not {_shown(given)}{hint}"
    if kind in _LIMITS:
        fact, words = _LIMITS[kind]
        return f"must be {words} {facts[fact]:g}, not {_shown(given)}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "model_type" and (model := _model_at(path)):
        return f"must be a table of {', '.join(model.model_fields)}, not {_shown(given)}"
    if kind == "string_type" and isinstance(given, list) and _knows((*path[:-1], many := f"{path[-1]}s")):
        return f'must be a text, not {_shown(given)} (did you mean "{many}"?)'
    if kind in _KINDS:
        # a value in `env` may be a secret, so it is not shown
        return f"must be {_KINDS[kind]}" + ("" if "env" in path else f", not {_shown(given)}")
    return detail["msg"]


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _hint(path: Keys) -> str:
    """What an unknown key may have been meant to be: the same name in another table, or a near name here."""
    homes = [table for table, keys in _keys_by_table().items() if path[-1] in keys]
    if homes:
        return f" (it belongs in {' or '.join(homes)})"
    model = _model_at(path[:-1])
    return did_you_mean(path[-1], model.model_fields if model else ())


def _knows(path: Keys) -> bool:
    model = _model_at(path[:-1])
    return model is not None and path[-1] in model.model_fields


def _model_at(path: Keys) -> type[BaseModel] | None:
    model: type[BaseModel] | None = Config
    named = False
    for part in path:
        if named:  # the NAME of [service.NAME]
            named = False
            continue
        if model is None or part not in model.model_fields:
            return None
        named = model is Config and part in NAMED
        model = model_in(model.model_fields[part].annotation)
    return model


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The table class that an annotation holds: itself, or the values of a dict."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        if found := model_in(part):
            return found
    return None


def _keys_by_table() -> dict[str, Iterable[str]]:
    tables: dict[str, Iterable[str]] = {"the top of the file": ("mode",)}
    for name, info in Config.model_fields.items():
        if model := model_in(info.annotation):
            tables[f"[{name}.NAME]" if name in NAMED else f"[{name}]"] = model.model_fields
    return tables


def lines_of(text: str) -> dict[Keys, int]:
    """Line number (from 1) of every table and key of a TOML text that is known to be valid.

    One statement is the least number of lines that parse on their own, so TOML's own parser says where it ends.
    """
    found: dict[Keys, int] = {}
    table: Keys = ()
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not statement:
            first = number
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # a list or a long text goes on
        if statement.lstrip().startswith("["):
            table = _only_path(parsed)
            for depth in range(1, len(table) + 1):
                found.setdefault(table[:depth], first)
            found[table] = first  # [a.b] first says where a is, a later [a] says it better
        else:
            for path in _paths(parsed):
                found.setdefault(table + path, first)
        statement = ""
    return found


def _only_path(parsed: Mapping[str, Any]) -> Keys:
    path: Keys = ()
    inner: Any = parsed
    while isinstance(inner, Mapping) and inner:
        name, inner = next(iter(inner.items()))
        path += (name,)
        if isinstance(inner, list):  # [[name]]
            inner = None
    return path


def _paths(parsed: Mapping[str, Any]) -> Iterator[Keys]:
    for name, inner in parsed.items():
        yield (name,)
        if isinstance(inner, Mapping):
            yield from ((name, *path) for path in _paths(inner))
