"""What the daemon needs from the outside, as Protocols. app.py alone puts concrete ones in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headway.core.commands import Command, Reply
from headway.core.engines import EngineRead
from headway.core.model import (
    Confidence,
    DeviceId,
    Exit,
    FormName,
    Holder,
    HolderId,
    HostRoom,
    MoveRule,
    Snapshot,
)
from headway.core.past import DayRow, Slice
from headway.core.records import AlertSent as AlertSent
from headway.core.records import Batch as Batch
from headway.core.records import Due as Due
from headway.core.records import FoundServer as FoundServer
from headway.core.records import Kept as Kept
from headway.core.records import Pulse as Pulse
from headway.core.records import RequestLine as RequestLine
from headway.core.records import Root as Root
from headway.core.records import Saved as Saved
from headway.core.rows import HostRow
from headway.core.samples import Rollup, Span


class Clock(Protocol):
    """`now_s` counts while the machine sleeps and never jumps (boottime); `wall_s` is for people."""

    def now_s(self) -> float: ...
    def wall_s(self) -> float: ...


# ---------------------------------------------------------------- host


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a shim is asked to run. Written to runs/ID/spec.json before anything starts."""

    id: str
    holder: HolderId
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the daemon's own
    cwd: str | None = None
    port: int | None = None
    kind: str = "main"  # main | hook
    log_name: str = "log"
    stop_grace_s: float = 10.0  # for whoever ends it without knowing its holder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run as its files and its lock show it. Nothing here is remembered by the daemon."""

    id: str
    holder: HolderId
    lock_held: bool  # the shim or something that inherited its lock lives
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str | None = None
    exit: Exit | None = None  # of the leader
    gone: bool = False  # no descendant is left
    port: int | None = None
    kind: str = "main"
    error: str | None = None  # why the command could not be executed
    started_s: float | None = None  # boottime
    unread: bool = False  # its file `started` is damaged: it ran, and nobody knows any more as which process

    @property
    def ended(self) -> bool:
        """Nothing of it lives any more, whether or not its exit code is known."""
        return self.gone or not self.lock_held

    @property
    def ran(self) -> bool:
        return self.pid is not None or self.unread


class Runs(Protocol):
    """Process trees that outlive the daemon, each under a shim (host/)."""

    boot_id: str

    def launch(self, spec: RunSpec) -> None:
        """Write the spec, take the lock, start the shim. Refuses (FileExistsError) an id that was used before."""

    def read(self, run_id: str) -> RunState | None:
        """None: no such run. Milliseconds; safe to call from the loop."""

    def spec(self, run_id: str) -> RunSpec | None:
        """What it was asked to run; its environment is left out. None: no such run."""

    def known(self) -> Sequence[str]:
        """Ids of every run directory there is, sorted."""

    async def changed(self, run_id: str, known: RunState) -> RunState:
        """Wait until the run differs from `known`. Never returns the same state twice."""

    def pids(self, run_id: str) -> frozenset[int]:
        """Living processes of that run's tree, found by parentage and by token. Empty when none."""

    def owner(self, pid: int) -> str | None:
        """The run that a living pid belongs to, proven by parentage or token; None = not ours."""

    async def stop(self, run_id: str, grace_s: float) -> None:
        """TERM (and CONT), wait up to `grace_s`, KILL, until nothing of the tree is left. Safe for one that ended."""

    def signal(self, run_id: str, freeze: bool) -> None:
        """Freeze or thaw the whole tree."""

    def busy_s(self, run_id: str) -> float | None:
        """Processor time of the living tree, ended children included; None: nothing of it lives. May take a while."""

    def log_tail(self, run_id: str, lines: int) -> list[str]: ...

    def directory(self, run_id: str) -> Path: ...

    def listens(self, run_id: str, port: int) -> bool:
        """Does a process of that run's tree own the listening socket on 127.0.0.1:`port` (or any address)?"""

    def listener(self, port: int) -> str | None:
        """Words for whoever listens on that port ("pid 4711 (python server.py)"), None if nobody does."""

    def forget(self, run_id: str) -> None:
        """Remove the directory of a run that has ended."""


class Host(Protocol):
    """The rest of what an operating system is asked."""

    def room(self, directory: Path) -> HostRoom:
        """Main memory, and the disk that this directory is on. Microseconds; what cannot be read is None."""

    def load(self) -> HostRow:
        """Processors and main memory as of now."""

    def peer_uid(self, sock: Any) -> int | None: ...


class Processes(Protocol):
    """Processes that Headway did not start."""

    def alive(self, root: Root) -> bool:
        """Does that very process live, or anything that it started?"""

    def among(self, pid: int, roots: Collection[Root]) -> Root | None:
        """Whose tree this process is in; None: of none of them."""

    def matching(self, pattern: str) -> frozenset[int]:
        """Living processes whose command line the pattern is found in; see core/patterns.py."""

    def matches(self, pid: int, pattern: str) -> bool:
        """Is that one of them?"""

    def above(self, pid: int) -> frozenset[int]:
        """It and every process above it."""

    def start_ticks(self, pid: int) -> int | None:
        """When it started; None: no such process lives."""

    def listeners(self, port: int) -> tuple[int, ...]:
        """Those that a connection to 127.0.0.1:`port` reaches; empty: nobody, or a program of another user."""

    def called(self, pid: int) -> str:
        """The name of its program; empty: not known."""


# ---------------------------------------------------------------- drivers


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a probe answered."""

    form: FormName | None
    ready: bool = False
    engine_active: int | None = None
    upstream: str | None = None
    down: bool = False
    engine: EngineRead | None = None  # its figures, where the same look has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a finished move has to say."""

    upstream: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One move, as the driver is asked for it. `run_id` names the run to create, or the present one.

    `hook_id` is the id for a short run (park / resume command); the same id is given again after a
    restart of the daemon, so that a hook still under way is found instead of run twice.
    """

    holder: Holder
    form: FormName
    device_env: Mapping[str, str]  # CUDA_VISIBLE_DEVICES and friends
    limit_s: float
    run_id: str
    hook_id: str
    kill: bool = False


class Driver(Protocol):
    """How a holder changes form. No retries, no logging, no decisions: it acts or raises DriverFailed.

    Drivers hold nothing about a process: everything is in the run's files and the holder.
    """

    name: str
    moves: tuple[MoveRule, ...]

    async def observe(self, holder: Holder) -> Seen:
        """What form is it in? `form=None`: no probe, or it cannot tell. Never wakes anything."""

    async def move(self, task: Task) -> Moved:
        """Ensure the form (safe to call twice). Returns when the driver believes it; memory is measured after."""


# ---------------------------------------------------------------- meters


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """One device of one reading. None is unknown."""

    id: DeviceId
    name: str  # short name people use, such as gpu0
    index: int
    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None
    processes: tuple[tuple[int, int | None], ...] | None  # (pid, bytes); None: no per-process readings
    confidence: Confidence = "measured"
    pool: str = "own"
    trouble: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)  # utilisation, temperature, model name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    at_s: float  # boottime at which this reading began
    devices: tuple[DeviceReading, ...]
    trouble: str | None = None  # why there is no reading at all


class Meter(Protocol):
    """Reads devices. Calls `on_reading` in the event loop; silence is reported as a Reading with trouble."""

    async def start(self, on_reading: Callable[[Reading], None]) -> None: ...
    def read_now(self) -> None:
        """Ask for a reading at once; it comes through `on_reading`."""

    async def stop(self) -> None: ...


# ---------------------------------------------------------------- store


class Store(Protocol):
    """One writer thread, FULL commits. `save` returns at once; the future is done after the commit.

    Batches are committed in the order given; a failed one raises StoreFailed from its future and changed nothing.
    """

    def load(self) -> Saved: ...
    def save(self, batch: Batch) -> asyncio.Future[None]: ...
    async def close(self) -> None: ...


class Keeper(Protocol):
    """The small documents of the API, in the same database."""

    def kept(self) -> Sequence[Kept]:
        """All of them, as saved. Raises StoreFailed."""

    async def keep(self, put: Sequence[Kept] = (), gone: Sequence[tuple[str, str]] = ()) -> None:
        """Write some and remove others, by (kind, key), as one. Raises StoreFailed: nothing was changed."""


class Journal(Protocol):
    """Append-only file in the runtime directory, for intents while the store is silent."""

    file: str  # as people find it

    def append(self, doc: Mapping[str, Any]) -> None: ...

    def read(self) -> dict[int, dict[str, Any]]:
        """Every entry by the number of its line, in the order written. Raises: LineUnreadable, StoreFailed."""

    def clear(self) -> None: ...


# ---------------------------------------------------------------- gates


class Roster(Protocol):
    """Which gates exist: a gate exists while it holds its lock, connected or not."""

    def living(self) -> frozenset[str]:
        """Ids of the gates that exist now."""

    def kill(self, gate: str, pid: int | None) -> bool:
        """End a gate that does not answer, only while its lock proves that it is that gate. False: not done."""


class Routes(Protocol):
    """The file with the gates' table, which a new gate reads before it accepts."""

    def read(self) -> bytes:
        """The last document written. Raises OSError when there is none."""

    def write(self, document: bytes) -> None:
        """Put it in place of the last one, whole or not at all. Raises OSError."""


class RequestLog(Protocol):
    """The files to which the gates append one line per request. Their names begin with the month, such as 2026-05."""

    def files(self) -> Sequence[tuple[str, int]]:
        """(name, size in bytes) of each, sorted by name."""

    def read(self, name: str, start: int, count_bytes: int) -> bytes:
        """At most that many bytes from `start`. Raises OSError."""

    def remove(self, name: str) -> None:
        """Delete one that nobody appends to any more. Raises OSError."""


# ---------------------------------------------------------------- towards people


class Reader(Protocol):
    """History, from read-only connections in a thread."""

    async def events(self, asked: Slice) -> list[dict[str, Any]]: ...
    async def swaps(self, asked: Slice) -> list[dict[str, Any]]: ...
    async def requests(self, asked: Slice) -> list[dict[str, Any]]: ...
    async def days(self, last: int) -> list[DayRow]: ...
    async def memory(self, device: DeviceId, asked: Span) -> list[Rollup]: ...


class Inbox(Protocol):
    """The only way to change anything: commands in, a reply per command after its turn was saved."""

    def submit(self, command: Command) -> Awaitable[Reply]: ...


class Hub(Protocol):
    """The present state, for readers in the same loop."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def verdicts(self) -> Mapping[HolderId, Any]: ...

    @property
    def revision(self) -> int: ...

    async def wait(self, after: int, limit_s: float) -> int:
        """Wait until the revision is above `after`; returns the revision, after `limit_s` the old one."""

    def changed_since(self, revision: int) -> frozenset[HolderId] | None:
        """Ids changed after that revision; None: too long ago, read everything again."""


class AlertWay(Protocol):
    """One way to tell people."""

    name: str

    async def tell(self, facts: Mapping[str, Any]) -> None:
        """`state` (trouble, recovered, test), `code`, `holder`, `message`, and the event's own. Raises AlertFailed."""
