"""`[vars]`: words that stand for others. `{name}` is replaced as it stands, once, and the same way everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.config.problems import Keys, did_you_mean

PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")  # so the braces of JSON are none
OURS = ("port",)  # filled in by Headway, at each start


def filled(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables with each `{name}` of [vars] replaced, in every text outside [vars]. What is not known stays."""
    given = tables.get("vars")
    if not isinstance(given, dict):
        return dict(tables)
    words = {
        name: _home(value) if isinstance(value, str) else str(value)
        for name, value in given.items()
        if isinstance(value, str | int) and not isinstance(value, bool) and name not in OURS
    }
    return {name: value if name == "vars" else _filled(value, words) for name, value in tables.items()}


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return PLACE.sub(lambda place: words.get(place[1], place[0]), value)
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, words) for name, one in value.items()}
    return value


def _home(value: str) -> str:
    """A value that is a path may begin with `~`: there is no shell to expand it in a command."""
    if not value.startswith("~"):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError:  # no such user: left as it is
        return value


def near_misses(
    tables: Mapping[str, Any], names: Mapping[str, Any], path: Keys = ()
) -> Iterator[tuple[Keys, str]]:
    """Places that stayed as they were and look like one of the vars, each with its key and a hint."""
    for name, value in tables.items():
        here = (*path, name)
        if here == ("vars",):
            continue
        if isinstance(value, dict):
            yield from near_misses(value, names, here)
            continue
        for text in value if isinstance(value, list) else [value]:
            for place in PLACE.findall(text) if isinstance(text, str) else ():
                if place not in OURS and place not in names and (hint := did_you_mean(place, names)):
                    yield here, f"{{{place}}} is not in [vars] and stays as it is{hint}"
