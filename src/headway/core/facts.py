"""What the world tells the loop. Each is a plain record; fold alone says what it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.core.engines import EngineRead
from headway.core.model import (
    NO_GAUGES,
    Confidence,
    DeviceId,
    Exit,
    FormName,
    Gauges,
    HolderId,
    HostRoom,
    Waiting,
    Window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRead:
    """One device as the meter read it, already attributed: bytes of ours by holder."""

    device: DeviceId
    name: str
    index: int
    at_s: float  # when the reading began
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    seen: Mapping[HolderId, int]  # of our holders: by run, or by the tree of a lease or claim
    confidence: Confidence = "measured"
    pool: Literal["own", "unified"] = "own"
    trouble: str | None = None
    per_process: bool = True
    strangers: tuple[tuple[int, int], ...] = ()  # (pid, bytes) of processes that are not ours, largest first
    gauges: Gauges = NO_GAUGES


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSilent:
    """The meter gave nothing for too long; `trouble` says what is known of why. None: it speaks again."""

    trouble: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A run as its shim's files and lock show it."""

    holder: HolderId
    run_id: str
    lock_held: bool
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str | None = None
    exit: Exit | None = None
    gone: bool = False
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a driver's probe answered. `form` None: it has no probe, or it could not tell."""

    holder: HolderId
    at_s: float  # when the probe began: one older than the last move says nothing
    form: FormName | None
    ready: bool = False
    engine_active: int | None = None
    upstream: str | None = None
    down: bool = False  # nothing listens there
    engine: EngineRead | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnswered:
    """A driver's answer. Not proof of anything: memory is measured after it."""

    holder: HolderId
    to: FormName
    run_id: str | None = None
    error: str | None = None  # code
    facts: Mapping[str, Any] = field(default_factory=dict)
    upstream: str | None = None
    refused: bool = False  # it was never begun (memory changed in the meantime, or the store is silent)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """Where all gates of the roster stand for one service, merged by links.py."""

    service: HolderId
    rev: int
    closed: bool
    pinning: int
    active: int | None  # None: a gate on the roster has not spoken
    demand: Mapping[str, Waiting] = field(default_factory=dict)
    last_end_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStuck:
    """A close waits for a gate that neither answers nor can be ended."""

    service: HolderId
    gate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTold:
    """What a job's own commands said, and signs of its work. None: not said, or not looked at."""

    job: HolderId
    saved_point: str | None = None
    saved_age_s: float | None = None
    progress: float | None = None
    summary: str | None = None
    healthy: bool | None = None  # None: its health was not asked for this time
    log_bytes: int | None = None
    busy_s: float | None = None  # processor time of its whole tree


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGone:
    """No process of that lease or claim lives any more. Told once or often."""

    lease: HolderId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRefused:
    """A changed config was not applied; everything goes on with the one before."""

    problems: tuple[str, ...]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsDue:
    """The windows of the config: of each the turn that is open, else the next one. All of them, each time.

    Attributes:
        wall_s: the wall clock now: it may have been set since it was told when a window by hand ends.
    """

    windows: tuple[Window, ...]
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRead:
    """What the machine has left beside its devices."""

    room: HostRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    ok: bool
    trouble: str | None = None  # in words, as far as it is known


Fact = (
    DeviceRead
    | MeterSilent
    | RunSeen
    | Observed
    | MoveAnswered
    | GateState
    | GateStuck
    | JobTold
    | LeaseGone
    | ConfigRefused
    | WindowsDue
    | HostRead
    | StoreState
)
