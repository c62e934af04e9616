"""From files and environment to a checked Config; every problem is found before any is raised."""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headway.config import problems
from headway.config.checks import DeviceTotals, crossed
from headway.config.placeholders import filled, near_misses
from headway.config.problems import Problem
from headway.config.schema import NAMED, Config
from headway.config.warnings import asks_nvml, of_programs, warnings
from headway.errors import ConfigInvalid
from headway.ports import Reading

OVERRIDE = "HEADWAY_CFG__"


@dataclass(slots=True)
class _Sources:
    """The merged tables, and where each came from."""

    tables: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)  # the same before [vars] were put in
    places: dict[problems.Keys, tuple[str, int]] = field(default_factory=dict)  # file or variable, line or 0
    order: list[str] = field(default_factory=list)
    found: list[tuple[str, int, str]] = field(default_factory=list)  # file, line, and what follows

    def place_of(self, path: problems.Keys) -> tuple[str, int]:
        """The nearest known place: the key, else its table, else the first file."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.places:
                return self.places[path[:depth]]
        return self.order[0], 0

    def add(self, problem: Problem) -> None:
        source, line = self.place_of(problem.path)
        self.found.append((source, line, f" {problems.place(problem.path)}: {problem.text}"))

    def fail(self) -> None:
        """Raise everything that was found, in the order of the files.

        Raises:
            ConfigInvalid: something was found.
        """
        if self.found:
            raise ConfigInvalid(self.shown())

    def shown(self) -> list[str]:
        """What was found, as people read it."""
        ranked = sorted(self.found, key=lambda item: (self.order.index(item[0]), item[1]))
        lines = (f"{source}:{line}{text}" if line else f"{source}{text}" for source, line, text in ranked)
        return list(dict.fromkeys(lines))


def load(path: Path, environ: Mapping[str, str] = os.environ, devices: DeviceTotals | None = None) -> Config:
    """Read a config file, the `conf.d/*.toml` beside it, and the HEADWAY_CFG__ variables.

    Args:
        path: the file. A relative path inside it starts at its directory.
        environ: where overrides are looked for.
        devices: what the meter shows, by name, with bytes; None: not read. Then device names are only
            checked if the file has [device.NAME] tables.

    Raises:
        ConfigInvalid: with every problem, each as "FILE:LINE [table] key: what is wrong".
    """
    return _loaded(path, environ, devices)[0]


def doubts(
    path: Path, read_cards: Callable[[], Reading], environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Warnings about a config, in the form of the problems.

    Args:
        read_cards: asks NVML, once; called only if the config has no problems and leaves a device to it.

    Raises:
        ConfigInvalid: it has problems; its `warnings` are about what could be read beside them.
    """
    config, sources = _gathered(path, environ, None)
    if sources.found:
        wrong, sources.found = sources.shown(), []
        for warning in of_programs(config, environ):
            sources.add(warning)
        raise ConfigInvalid(wrong, sources.shown())
    for warning in warnings(config, environ, read_cards() if asks_nvml(config) else None):
        sources.add(warning)
    for path_of, hint in near_misses(sources.written, config.vars):
        sources.add(Problem(path_of, hint))
    return sources.shown()


def _loaded(path: Path, environ: Mapping[str, str], devices: DeviceTotals | None) -> tuple[Config, _Sources]:
    config, sources = _gathered(path, environ, devices)
    sources.fail()
    return config, sources


def _gathered(
    path: Path, environ: Mapping[str, str], devices: DeviceTotals | None
) -> tuple[Config, _Sources]:
    """All that could be read, and what is wrong with the rest in the sources' `found`."""
    sources = _Sources()
    files = (path, *sorted((path.parent / "conf.d").glob("*.toml")))
    unread = [file for file in files if not _read(file, sources)]
    for variable in sorted(name for name in environ if name.startswith(OVERRIDE)):
        _override(variable, environ[variable], sources)
    names = {kind: set(table) for kind in NAMED if isinstance(table := sources.tables.get(kind), dict)}
    sources.written, sources.tables = sources.tables, filled(sources.tables)
    config = _checked(sources, path.absolute().parent)
    if not unread:  # with a file missing, every name in it would look unknown
        for problem in crossed(config, names, devices):
            sources.add(problem)
    return config, sources


def _read(file: Path, sources: _Sources) -> bool:
    """Merge one file. A table may be in one file only: two halves of a table are hard to read and to edit."""
    sources.order.append(str(file))
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        sources.found.append((str(file), 0, ": there is no such file"))
        return False
    except OSError as error:
        sources.found.append((str(file), 0, f": cannot be read ({error.strerror})"))
        return False
    except UnicodeDecodeError:
        sources.found.append((str(file), 0, ": is not UTF-8"))
        return False
    except tomllib.TOMLDecodeError as error:
        sources.found.append((str(file), _line_in(str(error), text), f": is not TOML: {error}"))
        return False
    places = {path: (str(file), line) for path, line in problems.lines_of(text).items()}
    for name, table in tables.items():
        if name in NAMED and isinstance(table, dict) and isinstance(sources.tables.get(name, {}), dict):
            known = sources.tables.setdefault(name, {})
            for inner in table:
                _merge(known, table, (name,), inner, places, sources)
        else:
            _merge(sources.tables, tables, (), name, places, sources)
    for path, place in places.items():
        sources.places.setdefault(path, place)
    return True


def _merge(
    known: dict[str, Any],
    table: Mapping[str, Any],
    parents: problems.Keys,
    name: str,
    places: Mapping[problems.Keys, tuple[str, int]],
    sources: _Sources,
) -> None:
    path = (*parents, name)
    if name not in known:
        known[name] = table[name]
        return
    first_file, first_line = sources.place_of(path)
    file, line = places[path]
    sources.found.append(
        (file, line, f" {problems.place(path)}: is defined twice, first at {first_file}:{first_line}")
    )


def _line_in(message: str, text: str) -> int:
    said = re.search(r"at line (\d+)", message)
    return int(said[1]) if said else text.count("\n") + 1


def _override(variable: str, value: str, sources: _Sources) -> None:
    """Put one variable's value in its place: a TOML value if it is one, else a text; empty clears the key."""
    sources.order.append(variable)
    parts = variable.removeprefix(OVERRIDE).split("__")
    path: problems.Keys = ()
    table: Any = sources.tables
    for depth, part in enumerate(parts):
        if not isinstance(table, dict) or not part:
            reason = f"{problems.place(path)} is no table" if part else "has an empty part"
            sources.found.append((variable, 0, f": {reason}"))
            return
        inside_env = "env" in path[2:]  # names and values of variables are kept as they are
        name = part if inside_env else _same_name(part, table)
        path = (*path, name)
        if depth < len(parts) - 1:
            table = table.setdefault(name, {}) if value else table.get(name, {})
        elif value:
            table[name] = value if inside_env else _value(value)
        else:
            table.pop(name, None)
    sources.places = {known: place for known, place in sources.places.items() if known[: len(path)] != path}
    if value:
        for depth in range(1, len(path) + 1):
            sources.places.setdefault(path[:depth], (variable, 0))


def _same_name(part: str, table: Mapping[str, Any]) -> str:
    """A variable's name cannot hold a dash or a dot: find the table that it means."""
    wanted = part.lower()
    return next((name for name in table if re.sub(r"[-.]", "_", name.lower()) == wanted), wanted)


def _value(text: str) -> object:
    try:
        value = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    plain = isinstance(
        value["value"], str | int | float | list | dict
    )  # bool is an int; dates are texts here
    return value["value"] if plain and len(value) == 1 else text


def _checked(sources: _Sources, directory: Path) -> Config:
    """Check each value. What is wrong is noted and left out, so that the rest can be checked further."""
    context = {"directory": directory}
    try:
        return Config.model_validate(sources.tables, context=context)
    except ValidationError as error:
        details = error.errors(include_url=False)
        for problem in problems.explained(error):
            sources.add(problem)
    rest = copy.deepcopy(sources.tables)
    for detail in details:
        path = tuple(str(part) for part in detail["loc"])
        if detail["type"] != "extra_forbidden":
            path = path[: 2 if path[0] in NAMED else 1]
        _drop(rest, path)
    return Config.model_validate(rest, context=context)


def _drop(tables: dict[str, Any], path: problems.Keys) -> None:
    for part in path[:-1]:
        tables = tables.get(part, {})
    tables.pop(path[-1], None)
