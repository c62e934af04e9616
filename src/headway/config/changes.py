"""What differs between two configs, key by key, and from when on it counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headway.config.problems import Keys, place
from headway.config.schema import NAMED, Config
from headway.core.renewing import AT_ONCE
from headway.core.spec import LADDERS
from headway.core.units import duration_text, size_text

When = Literal["now", "next_start", "restart"]
# Bound, opened or begun once by a process of Headway's own.
RESTART = ("gate", "api", "device")
# Keys of [service.NAME] that a running server takes at once: their names here, where they differ from the spec's.
NAMES = {"gate_port": "port", "keep_awake": "pinned", "forms": "memory"}
SERVICE_NOW = {NAMES.get(name, name.removesuffix("_s")) for name in (*AT_ONCE, "forms", "host_memory")}
FACTORS = (
    "wait_price",
    "max_waiting_share",
    "reserve_share",
)  # every other number with a fraction is a duration
FLOORS = ("host_floor", "disk_floor")
SIZES = ("total", "reserve", *FLOORS, *(form for ladder in LADDERS.values() for form in ladder))
HIDDEN = (  # may hold a secret
    "env", "vars", "start", "park", "resume", "saved", "progress", "health", "summary", "command",
    "cuda_checkpoint",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs. `was` and `becomes` are None where there was or will be none."""

    path: Keys
    was: Any
    becomes: Any
    when: When

    def __str__(self) -> str:
        if len(self.path) == 2 and self.path[0] in NAMED:
            return f"{place(self.path)} {'is gone' if self.becomes is None else 'is new'}"
        if any(part in HIDDEN for part in self.path):
            return f"{place(self.path)} changed"
        key = self.path[-1]
        return f"{place(self.path)}: {_shown(key, self.was)} -> {_shown(key, self.becomes)}"


def changes(old: Config, new: Config, running: Collection[str] = ()) -> list[Change]:
    """Everything that differs.

    Args:
        running: names of services and recipes of which something goes on with what it was started with.
    """
    found = _differing(old.model_dump(), new.model_dump(), ())
    return [Change(path, was, becomes, _when(path, running)) for path, was, becomes in found]


def _differing(
    was: Mapping[str, Any], becomes: Mapping[str, Any], path: Keys
) -> Iterator[tuple[Keys, Any, Any]]:
    for key in [*was, *(key for key in becomes if key not in was)]:
        one, other = was.get(key), becomes.get(key)
        if one == other:
            continue
        whole = len(path) == 1 and path[0] in NAMED and (one is None or other is None)
        if isinstance(one, dict) and isinstance(other, dict) and not whole:
            yield from _differing(one, other, (*path, key))
        else:
            yield (*path, key), one, other


def _when(path: Keys, running: Collection[str]) -> When:
    if path[0] in RESTART or (path[0] == "service" and path[2:] == ("port",)):
        return "restart"
    if len(path) < 3 or path[0] not in ("service", "job") or path[1] not in running:
        return "now"
    return "now" if path[0] == "service" and path[2] in SERVICE_NOW else "next_start"


def _shown(key: str, value: Any) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, float) and key not in FACTORS:
        return duration_text(value)
    if key in SIZES:
        return size_text(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
