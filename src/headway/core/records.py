"""Small records that pass between the daemon and its API, its store and its alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.core.model import Event, HolderId, WindowKind
from headway.core.samples import Rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A small document of the API: a token, the PIN, an answer. `wall_s`: when it was written, since the epoch."""

    kind: str
    key: str
    doc: str  # JSON
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """How the daemon itself is: what only goes up since it began, and its gates.

    Attributes:
        turns: (upper bound in seconds, how many turns took up to that and longer than the bound before).
        turned_s: all turns together.
        events: how many of each code.
        alerts: how many by (way, result).
    """

    turns: tuple[tuple[float, int], ...] = ((float("inf"), 0),)
    turned_s: float = 0.0
    events: Mapping[str, int] = field(default_factory=dict)
    gates_living: frozenset[str] = frozenset()
    gates_connected: frozenset[str] = frozenset()
    alerts: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSent:
    """What became of one alert by one way; `error` says why it was not sent."""

    way: str
    sent: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One turn of a window of the config, in seconds since the epoch."""

    id: str
    kind: WindowKind
    services: tuple[str, ...]
    begin_wall_s: float
    end_wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A model server that runs already. `openai`: one of a kind that is not known, with OpenAI's list of models."""

    kind: str  # vllm, sglang, llamacpp, ollama, comfyui, lmstudio, openai
    url: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLine:
    """One finished request, as the gate logged it."""

    source: str  # file
    offset: int  # byte offset of its line
    doc: str  # the line


@dataclass(frozen=True, slots=True)
class Root:
    """What a tree of processes that Headway did not start is known by.

    Attributes:
        start_ticks: when it started, so that a pid which was used again is not taken for it; None: not known.
        mark: the word in the environment of everything it started, which stays when they leave the tree.
    """

    pid: int
    start_ticks: int | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything one turn changed: one transaction. `rollups` are added to those that are there."""

    holders: tuple[tuple[HolderId, str, str], ...] = ()  # (id, kind, JSON document)
    holders_gone: tuple[HolderId, ...] = ()
    pending: tuple[tuple[HolderId, str], ...] = ()  # intents (JSON document)
    pending_gone: tuple[HolderId, ...] = ()
    events: tuple[tuple[Event, float], ...] = ()  # with the wall clock, seconds since the epoch
    requests: tuple[RequestLine, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)  # log file -> next byte to read
    meta: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    kept_gone: tuple[tuple[str, str], ...] = ()  # (kind, key)
    rollups: tuple[Rollup, ...] = ()
    given: tuple[tuple[float, str, float], ...] = ()  # for a day: wall clock, name, and device seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was there at start, and in which file."""

    holders: tuple[tuple[HolderId, str, str], ...]
    pending: tuple[tuple[HolderId, str], ...]
    offsets: Mapping[str, int]
    meta: Mapping[str, str]
    file: str = ":memory:"
