"""What people see, as records: rows, the board, and why. Made by view.py; ages in seconds, sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.engines import EngineRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every holder has. `bytes` is measured, None where the meter cannot tell; `need_bytes` per device."""

    id: str
    kind: str
    name: str
    state: str
    in_state_s: float
    devices: tuple[str, ...]
    bytes: int | None
    need_bytes: int | None
    code: str
    why: str
    wish: str
    wish_by: str | None
    note: str | None  # the last trouble, in words
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRow:
    """Work that was done after the last saved point and is gone. `cause`: whoever needed the room, or what ended it."""

    run: str | None
    cause: str
    why: str  # the same in words
    lost_s: float
    at_ran_s: float  # the job's running time when that happened


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(Row):
    declared_bytes: int | None  # per device while it runs: as it was said
    learned_bytes: int | None  # the same as measured, the highest of its runs
    recipe: str | None
    lane: str
    position: int | None  # in its lane, from 1; None: not in line
    may_start: bool  # in line, and only room or time is missing: nothing that somebody has to do first
    priority: int
    placement: str
    driver: str
    step_aside: str  # park, restart, or none: it would lose its work, and starts only where no model is
    argv: tuple[str, ...]
    after: tuple[str, ...]
    age_s: float
    ran_s: float
    started: bool
    progress: float | None
    saved_age_s: float | None
    saved_point: str | None
    saves: bool  # it says how far it has saved
    saves_every_s: float | None  # running time up to a saved point, as last measured
    unsaved_s: float | None  # running time that a stop would lose now; None: it has no process
    lost_s: float  # running time that was lost, over all its runs
    lost: tuple[LostRow, ...]  # the last such stretches
    left_s: float | None  # running time that is left; None: nothing says how long it takes
    left_low_s: float | None
    left_high_s: float | None
    max_runtime_s: float | None
    attempts_left: int
    exit_code: int | None
    ended_s: float | None  # ago
    run: str | None
    runs: int  # how many there have been
    pid: int | None
    stalled: bool
    healthy: bool | None  # None: it has no health command, or no process
    alone: bool  # it ran out of memory, and gets its devices to itself
    summary: str | None  # its best result, in its own words
    goal: str | None
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    colour: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesRow:
    """What moves to a lower form and back took the last time, as measured. None: not measured yet."""

    form: str
    down_s: float | None
    back_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """What attended requests of the last 24 hours waited for their model, and how much was promised at most."""

    requests: float
    share: float  # of them, that waited
    max_share: float
    mean_s: float  # over all of them
    max_mean_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow(Row):
    driver: str
    models: tuple[str, ...]
    upstream: str | None
    ready: bool
    gate: str
    active: int | None  # requests in flight; None: no gate spoke yet
    engine_active: int | None
    waiting: int
    waiting_s: float | None  # the oldest one
    quiet_s: float | None  # since the last attended request ended
    window: str | None  # the kind of the window that is open over it
    called_by: str | None  # who said wake or start, until it answers
    dismissed_by: str | None  # who said sleep, until it is up again
    counted_bytes: int | None  # `bytes`, or as declared where nothing measures its devices; None: not known
    times: tuple[TimesRow, ...]  # of its lower forms, those that were measured
    budget: BudgetRow | None  # None: no request yet
    engine: EngineRow | None  # what its server says of itself; None: nothing, or it is not awake
    run: str | None
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsRow:
    """What its attended requests waited for it, over some time."""

    over: str  # "1 h" (whole hours, and the one that runs), "24 h", "all", or "slow_wake": in such windows, uncharged
    requests: float
    waited: float  # of them
    share: float
    mean_s: float  # over all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """What the gap policy makes of a service: who could come back, and what waiting for it may cost."""

    sentence: str
    age_s: float  # since it was looked at: it holds until somebody asks, or a moment comes
    talks: int | None  # conversations that could go on; None: it is answering, or aside
    likely_s: float | None  # at least so much more quiet, with a chance of 80 %
    curve: tuple[tuple[float, float], ...]  # seconds, and the chance that nobody asks for so long
    price: float  # job time, in seconds, that one second of waiting must earn now
    wait_price: float  # the same as set; the nearer the caps, the higher the price
    max_mean_wait_s: float
    max_waiting_share: float
    follower_s: float  # those behind the first of a wake wait so long together
    waits: tuple[WaitsRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDetail(ServiceRow):
    """A service, and what the gap policy makes of it; None until it was looked at."""

    gap: GapRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow(Row):
    """A lease, or (kind "claim") what was started by hand and is counted."""

    by: str
    purpose: str | None
    priority: int
    preemptible: bool
    block: bool
    position: int | None  # in line, from 1; None: not in line
    age_s: float
    held_s: float | None  # since its grant; None: not granted
    expires_in_s: float | None  # negative: past it
    fencing: int
    pid: int | None
    match: str | None  # of a claim: the pattern its processes are found by
    ttl_s: float | None  # it is asked for; counted from its grant
    wait_limit_s: float | None  # None: it waits for ever
    would_s: float | None  # in shadow mode: how long it would have waited; None: not known (yet)
    env: Mapping[str, str]  # what shows its devices, and no others, to its program
    ended: str | None
    ended_s: float | None  # ago


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One holder's part of one device."""

    id: str
    kind: str
    name: str
    state: str
    bytes: int | None
    need_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A process that is not ours and holds memory. It is shown and counted, never touched."""

    pid: int
    bytes: int
    name: str | None = None  # of its program


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One device with who holds it. `free_bytes` None is unknown, never free; `confidence` is "unknown" then."""

    id: str
    name: str
    index: int
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    foreign_bytes: int
    reserve_bytes: int
    confidence: str
    pool: str
    read_age_s: float | None
    trouble: str | None
    holders: tuple[Share, ...]
    strangers: tuple[Stranger, ...] = ()  # the largest ones
    model: str | None = None
    util_percent: float | None = None
    temp_c: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """The machine itself. `cpu_percent` is of all processors together, since the look before."""

    cpus: int
    cpu_percent: float | None
    memory_bytes: int
    free_bytes: int  # what can be allocated without swapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that needs a person."""

    code: str
    sentence: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A window that is open, or the next turn of one in the config."""

    id: str
    kind: str
    services: tuple[str, ...]  # empty: all
    state: str  # open, next, or stopped before its time
    begins_in_s: float
    ends_in_s: float
    ends_wall_s: float | None  # seconds since the epoch
    by: str
    stopped_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The board without its rows."""

    mode: str
    mode_by: str | None  # who set it by hand, while the config says the other one
    windows: tuple[WindowRow, ...]
    prod_only_by: str | None  # who said that only models run; None: jobs and leases may start
    queue_held_by: str | None  # who holds the whole queue; None: jobs may start
    rev: int
    up_s: float
    devices: tuple[DeviceRow, ...]
    jobs: Mapping[str, int]  # how many in each state; ended ones are not counted
    troubles: tuple[Trouble, ...]
    order: str | None = None  # the mark of the queue's order, as the ETag of /api/v1/queue
    ended: Mapping[str, int] = field(default_factory=dict)  # how many jobs are over, by how they ended
    wrong_24h: int = 0  # jobs that failed or were lost in the last 24 hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(Head):
    services: tuple[ServiceRow, ...]
    running: tuple[JobRow, ...]  # everything of a job that is not stopped: starting, parked and the like too
    queued: tuple[JobRow, ...]  # in the order they are served
    leases: tuple[LeaseRow, ...] = ()  # and claims: those that hold devices, then those that wait, in line
    gate: str | None = None  # URL of the front door for clients
    host: HostRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """`next` is the cursor of the next page, None on the last one."""

    jobs: tuple[JobRow, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One sentence with numbers, and the next command to type if there is one."""

    id: str
    kind: str
    state: str
    code: str
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    until_s: float | None = None  # from now; time alone may change it then
    help: str | None = None
