"""What people and programs may ask. Each changes wishes, the queue or the mode; nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headway.core.model import HolderId, JobSpec, Mode, Policy, ServiceSpec, Spec, WindowKind

JobVerb = Literal[
    "start", "hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry"
]
Verb = JobVerb | Literal["wake", "sleep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob:
    """Queue a job. The loop gives the id.

    Args:
        ask_key: the asker's own word for this one ask: asking again with it, soon, finds the same job.
    """

    spec: JobSpec
    recipe: str | None = None
    hold: bool = False
    ask_key: str | None = field(default=None, compare=False, repr=False)  # it says nothing of what is asked
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWish:
    """One of the verbs on one holder (an id, or a name that only one living holder has)."""

    target: HolderId
    verb: Verb
    by: str = "unknown"
    reason: str | None = None
    anyway: bool = False  # of start: although it has no way to step aside without losing its work
    at_saved_point: bool = False  # of pause: one that cannot park stops at its next saved point instead


@dataclass(frozen=True, slots=True, kw_only=True)
class EditJob:
    """New values for fields of its spec, checked by whoever asks. Its process keeps what it was started with."""

    target: HolderId
    changes: Mapping[str, object]
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearJobs:
    """Forget jobs that are over. None of them, when one is not."""

    targets: tuple[HolderId, ...]
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJob:
    """Several are moved as one: all of them, or none.

    Attributes:
        behind: those that come behind `target`, in their order.
        seen: the lanes of all of them as the asker saw them, one behind the other; others refuse. None: whatever
            they are by now.
    """

    target: HolderId
    where: Literal["top", "bottom", "before", "after"]
    other: HolderId | None = None
    behind: tuple[HolderId, ...] = ()
    seen: tuple[tuple[float, HolderId], ...] | None = None
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    mode: Mode
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProdOnly:
    """Only models run: every job steps aside, sleeping services are woken, nothing else starts."""

    on: bool
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldQueue:
    """No job starts until it is released; what runs goes on, and models are woken as ever."""

    on: bool
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWindow:
    """Open a window now.

    Attributes:
        services: by name; empty: all.
        wall_s: the wall clock now, so that its end can be told to people.
    """

    kind: WindowKind
    for_s: float
    services: tuple[str, ...] = ()
    wall_s: float | None = None
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWindow:
    """End an open window now; one of the config comes again at its next time."""

    target: str
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """The config, whole: at start and on reload. Refused, it changes nothing.

    Attributes:
        recipes: with `hold`.
        policy, mode: None: as they are.
        drain: what the config does not have any more may be in use: a service is put aside once nobody uses it, a
            job goes on with the recipe it has. Without, that is refused.
        told: what changed, in the words of the config, for the audit; None: it is the start.
    """

    services: tuple[ServiceSpec, ...]
    recipes: tuple[tuple[JobSpec, bool], ...]
    policy: Policy | None = None
    mode: Mode | None = None
    drain: bool = True
    told: tuple[str, ...] | None = None
    by: str = "config"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLease:
    """Ask for devices for a program that Headway did not start. The loop gives the id, and the grant in its turn.

    Attributes:
        spec: of kind "lease", see `leases.spec_of`: its activity, bytes per device, how many and which devices.
        pid: the process whose tree holds it; None: a remote one, which lives by `RenewLease` and needs `ttl_s`.
        wait_limit_s: how long it may wait; None: for ever, 0: now or not at all.
        ttl_s: from its grant: one with a process is overdue after that, one without lapses.
        ask_key: the asker's own word for this one ask: asking again with it gives the same lease.
    """

    spec: Spec
    pid: int | None = None
    start_ticks: int | None = None
    priority: int = 50
    preemptible: bool = False
    wait_limit_s: float | None = None
    ttl_s: float | None = None
    ask_key: str | None = None
    purpose: str | None = None
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLease:
    """It is over for its program. What it held is handed on when it is measured free."""

    target: HolderId
    how: Literal["released", "gone", "cancelled"] = "released"
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewLease:
    """It is still needed: its ttl begins anew."""

    target: HolderId
    ttl_s: float | None = None  # None: as asked for
    by: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Count what somebody started by hand; never touch it. It ends with the process.

    Attributes:
        pid: its process; None: found by `match`, a pattern over command lines.
        need_bytes: what it will take on each device; None: only what is measured counts.
        devices: where it is, by name, uuid or index, as far as that is known; what is measured adds to it.
        block: no job and no lease comes to its devices. Models are still woken.
    """

    name: str
    pid: int | None = None
    start_ticks: int | None = None
    match: str | None = None
    need_bytes: int | None = None
    devices: tuple[str, ...] = ()
    block: bool = False
    purpose: str | None = None
    by: str = "unknown"


Command = (
    AddJob
    | SetWish
    | EditJob
    | ClearJobs
    | MoveJob
    | SetMode
    | SetProdOnly
    | HoldQueue
    | StartWindow
    | StopWindow
    | Configure
    | AskLease
    | EndLease
    | RenewLease
    | Claim
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What became of a command in its turn. `code` is "accepted" or the code of a refusal."""

    accepted: bool
    code: str
    facts: dict[str, object]
    holder: HolderId | None = None
    rev: int = 0
