"""The records everything is decided from: frozen, with units in their names, and no behaviour beyond look-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

from headway.core.actions import Action as Action
from headway.core.actions import CloseGate as CloseGate
from headway.core.actions import Decision as Decision
from headway.core.actions import Event as Event
from headway.core.actions import Measure as Measure
from headway.core.actions import Move as Move
from headway.core.actions import OpenGate as OpenGate
from headway.core.actions import Signal as Signal
from headway.core.actions import Verdict as Verdict
from headway.core.engines import Engine as Engine
from headway.core.losses import Exit as Exit
from headway.core.losses import Lost as Lost
from headway.core.machine import NO_GAUGES as NO_GAUGES
from headway.core.machine import NO_ROOM as NO_ROOM
from headway.core.machine import DiskRoom as DiskRoom
from headway.core.machine import Gauges as Gauges
from headway.core.machine import HostRoom as HostRoom
from headway.core.outlook import Outlook as Outlook
from headway.core.spec import BOTTOM as BOTTOM
from headway.core.spec import GIB as GIB
from headway.core.spec import LADDERS as LADDERS
from headway.core.spec import MIB as MIB
from headway.core.spec import TOLERANCE_BYTES as TOLERANCE_BYTES
from headway.core.spec import TOP as TOP
from headway.core.spec import Class as Class
from headway.core.spec import Confidence as Confidence
from headway.core.spec import DeviceId as DeviceId
from headway.core.spec import Ended as Ended
from headway.core.spec import Form as Form
from headway.core.spec import FormName as FormName
from headway.core.spec import GateWish as GateWish
from headway.core.spec import HolderId as HolderId
from headway.core.spec import JobSpec as JobSpec
from headway.core.spec import Kind as Kind
from headway.core.spec import LeaseEnd as LeaseEnd
from headway.core.spec import Mode as Mode
from headway.core.spec import MoveRule as MoveRule
from headway.core.spec import Placement as Placement
from headway.core.spec import Policy as Policy
from headway.core.spec import ServiceSpec as ServiceSpec
from headway.core.spec import Spec as Spec
from headway.core.spec import Step as Step
from headway.core.spec import Window as Window
from headway.core.spec import WindowKind as WindowKind
from headway.core.spec import Wish as Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process tree under a shim, as its files and its lock show it."""

    id: str
    lock_held: bool  # something of it is alive
    pid: int | None = None  # the leader; None until `started` was written
    start_ticks: int | None = None
    boot_id: str | None = None
    exit: Exit | None = None
    gone: bool = False  # no descendant is left
    port: int | None = None  # what `{port}` became
    seen_s: float = 0.0

    @property
    def alive(self) -> bool:
        return self.lock_held and not self.gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Requests of one class held for a service."""

    n: int
    since_s: float  # when the oldest arrived
    priority_max: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What the gates of a service were told and have answered, over the whole roster."""

    wish: GateWish = "closed"
    rev: int = 0
    closed: bool = False  # every gate on the roster is connected and closed at this rev
    pinning: int = 0  # forwarded and not over, as last told
    closing_since_s: float | None = None
    stuck_s: float | None = None  # a gate that a close waited for could neither answer nor be ended then

    @property
    def drained(self) -> bool:
        return self.wish == "closed" and self.closed and self.pinning == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whatever holds, or wants to hold, a device."""

    id: HolderId
    kind: Kind
    spec: Spec
    wish: Wish = "run"
    form: FormName | None = None  # observed, or the last verified move's; None = unknown
    since_s: float = 0.0  # in this form
    devices: tuple[DeviceId, ...] = ()
    forms: tuple[Form, ...] = ()  # spec.forms plus what was learned
    seen_bytes: Mapping[DeviceId, int] = field(default_factory=dict)
    run: Run | None = None
    runs: int = 0  # number of the last run: ids are never used twice
    pushed_by: HolderId | None = None
    pushed_s: float | None = None
    failures: int = 0  # of starts or wakes, in a row
    retry_at_s: float | None = None
    note: str | None = None  # code of the last trouble, for people
    note_facts: Mapping[str, Any] = field(default_factory=dict)
    wish_by: str | None = None
    wish_s: float | None = None

    @property
    def bottom(self) -> FormName:
        return self.forms[-1].name if self.forms else BOTTOM[self.kind]

    @property
    def top(self) -> FormName:
        return self.forms[0].name if self.forms else TOP[self.kind]

    def form_named(self, name: FormName | None) -> Form | None:
        for form in self.forms:
            if form.name == name:
                return form
        return None

    def need_bytes(self, name: FormName | None) -> int | None:
        """Bytes on each device in that form; None when not known. The bottom form holds nothing."""
        if name == self.bottom:
            return 0
        form = self.form_named(name)
        return None if form is None else form.need_bytes

    def below(self, a: FormName, b: FormName) -> bool:
        """Is form `a` lower on the ladder than form `b`?"""
        names = [form.name for form in self.forms]
        return a in names and b in names and names.index(a) > names.index(b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Holder):
    """A model server."""

    spec: ServiceSpec
    kind: Kind = "service"
    gate: Gate = field(default_factory=Gate)
    ready: bool = False
    demand: Mapping[str, Waiting] = field(default_factory=dict)  # by class
    active: int | None = None  # requests in flight; None: no gate spoke yet
    active_since_s: float | None = None
    engine_active: int | None = None  # the engine's own count; None: unread
    engine_read_s: float | None = None  # when that was read
    engine: Engine | None = None  # what it says of itself, for people
    drained_s: float | None = None  # when the last gate said closed and empty at this rev
    last_end_s: float | None = None  # end of the last attended request
    idle_since_s: float | None = None
    upstream: str | None = None  # with the port of the present run
    stayed: int = 0  # how often in a row it did not step aside as asked, with nothing lower of ours to use
    stayed_until_s: float | None = None  # before that it is not asked again
    coming: ServiceSpec | None = None  # what the config says now; it counts from when nothing of it runs
    retired: bool = False  # the config does not have it any more: forgotten once it is off its devices
    back_s: float | None = None  # it was awake when a no_model window closed it: the end of that window
    called_back: bool = False  # so that it is ready then
    slept: bool = False  # in its present life: the main memory that this took is kept when it wakes
    called_by: str | None = None  # a person wants it up: see calling
    called_s: float | None = None
    dismissed_by: str | None = None  # a person sent it to sleep, until a request or a call
    dismissed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Holder):
    """A queued or running command."""

    spec: JobSpec
    kind: Kind = "job"
    recipe: str | None = None  # the [job.NAME] it came from
    ask_key: str | None = None  # asking again with the same one, soon, finds this job
    lane: str = "gpu"
    key: float = 0.0  # rank: smaller is sooner
    enqueued_s: float = 0.0
    waits_from_s: float | None = None  # what max_wait counts from; None: from its first enqueue
    own_key: float | None = None  # its rank key before that
    unaged_s: float = 0.0  # of the time since its enqueue: held, or following another job
    follows_s: float | None = None  # since when it follows one that is not over; None: it does not
    fronted: bool = False  # it has waited max_wait, and was put to the front of the line
    ended: Ended | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    started_s: float | None = None  # first start
    ran_s: float = 0.0  # running time over all runs, up to the last form change
    attempts_left: int = 0
    run_from_s: float = 0.0  # of its running time: where its present run began
    saved_ran_s: float | None = None  # of its running time: where its last saved point is
    saves_every_s: float | None = None  # running time up to a saved point, as last measured
    saved_age_s: float | None = None
    saved_point: str | None = None
    progress: float | None = None  # 0..1
    marks: tuple[tuple[float, float], ...] = ()  # (running time, progress), oldest first
    allowed_from_s: float = 0.0  # of its running time: where its present max_runtime began
    crashes: int = 0  # runs in a row that ended badly soon after their start
    alone: bool = False  # it ran out of memory: it gets its devices alone from now on
    rushed: bool = False  # a person said "now": whether a gap is worth it is not asked
    anyway: bool = False  # a person said that it may start although it cannot step aside
    lost: tuple[Lost, ...] = ()  # work that was done and is gone, the last ones
    lost_s: float = 0.0  # all of it
    summary: str | None = None  # its best result, in its own words
    told_s: float | None = None  # when it was last asked
    active_s: float | None = None  # when it last showed a sign of work
    log_bytes: int | None = None
    busy_s: float | None = None  # processor time of its tree
    stalled: bool = False
    unhealthy: int = 0  # health commands in a row that failed
    frozen_by_gate: bool = False
    frozen_s: float | None = None  # since when
    coming: JobSpec | None = None  # what its recipe says now; it counts from its next start
    retired: bool = False  # the config does not have its recipe any more; it goes on with what it has


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Holder):
    """Devices granted to a program that Headway did not start, or (kind "claim") counted for one started by hand."""

    kind: Kind = "lease"
    parent: HolderId | None = None
    priority: int = 50
    preemptible: bool = False  # may be asked to leave before it is done
    block: bool = False  # of a claim: no job and no lease comes to its devices
    by: str = "unknown"
    purpose: str | None = None  # in the words of whoever asked
    ask_key: str | None = None  # asking again with the same one finds this lease
    key: float = 0.0  # rank: smaller is sooner
    asked_s: float = 0.0
    wait_limit_s: float | None = None  # None: waits for ever; 0: now or not at all
    granted_s: float | None = None
    ttl_s: float | None = None
    expires_s: float | None = None  # then one with a process is overdue, and one without lapses
    fencing: int = 0  # rises with each grant; 0 until then
    pid: int | None = None  # its tree holds it; None: a remote one, kept alive by renewing
    start_ticks: int | None = None
    boot_id: str | None = None
    match: str | None = None  # of a claim: the pattern its processes were found by
    would_s: float | None = None  # in shadow mode: how long it would have waited; None: that is not known yet
    ended: LeaseEnd | None = None  # for its program; what it held is handed on when measured free
    ended_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A move under way. There is at most one per holder."""

    holder: HolderId
    source: FormName | None
    to: FormName
    devices: tuple[DeviceId, ...]
    exclusive: bool
    frees: bool
    started_s: float
    limit_at_s: float
    step: Step = "asked"
    answered_s: float | None = None
    rung: int = 0  # how often it was escalated
    ends_s: float | None = None  # since when it is asked to end, not only to step aside
    creates: bool = False
    run_id: str | None = None
    kill: bool = False  # no grace
    failed: bool = False  # its driver said that it cannot
    shortfall_told: bool = False
    cause: str | None = None  # who needs the room, or the code of the rule that asks for it
    used_before: Mapping[DeviceId, int] = field(default_factory=dict)  # device totals when it was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU as last read."""

    id: DeviceId
    name: str
    index: int = 0
    total_bytes: int | None = None
    free_bytes: int | None = None  # None: unknown, never free
    used_bytes: int | None = None
    foreign_bytes: int = 0  # used by nobody of ours, driver overhead included
    strangers: tuple[tuple[int, int], ...] = ()  # (pid, bytes) of processes that are not ours, largest first
    read_at_s: float | None = None  # when that reading began
    last_change_s: float = 0.0  # end of the last move, or process exit, on it
    confidence: Confidence = "measured"
    pool: Literal["own", "unified"] = "own"
    trouble: str | None = None  # why the last reading is no reading
    per_process: bool = True
    ever_read: bool = False
    gauges: Gauges = NO_GAUGES


class Rank(IntEnum):
    """Classes of wants, strongest first."""

    OVERDUE = 0  # a request that waited longer than switch_after for a busy neighbour
    REQUEST = 1
    LEASE = 2
    JOB = 3
    BACKGROUND = 4
    HOME = 5  # an idle service that may stay where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """One holder that wants a form, for the length of one pass."""

    holder: Holder
    form: FormName
    rank: tuple[int, float, str]
    attended: bool = False
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHold:
    """No job starts. `crashes`: as the daemon ended that often in a short while; 0: a person said so."""

    by: str
    since_s: float
    crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that decide looks at. The queue and those from `present` to `followers` are indexes that the draft keeps."""

    now_s: float
    rev: int = 0
    booted_s: float = 0.0  # when this daemon began
    mode: Mode = "live"
    mode_by: str | None = None  # who set it by hand, where the config says the other one
    prod_only_by: str | None = None  # who said that only models run; None: jobs and leases may start
    host: HostRoom = NO_ROOM
    queue_hold: QueueHold | None = None
    crashes: tuple[float, ...] = ()  # starts of a daemon whose predecessor was not told to end, the last ones
    policy: Policy = field(default_factory=Policy)
    devices: Mapping[DeviceId, Device] = field(default_factory=dict)
    holders: Mapping[HolderId, Holder] = field(default_factory=dict)
    queue: Mapping[str, tuple[tuple[float, HolderId], ...]] = field(default_factory=dict)
    pending: Mapping[HolderId, Pending] = field(default_factory=dict)
    present: tuple[HolderId, ...] = ()  # sorted; not at the bottom of its ladder, moving, or holding bytes
    services: tuple[HolderId, ...] = ()  # sorted
    leases: tuple[HolderId, ...] = ()  # and claims; sorted
    named: Mapping[str, tuple[HolderId, ...]] = field(default_factory=dict)  # jobs by name and by recipe
    followers: frozenset[HolderId] = frozenset()  # jobs that follow another one and have not begun
    next_job: int = 1  # ids are never reused
    runs_had: Mapping[HolderId, int] = field(
        default_factory=dict
    )  # by services that are not there, or once were not
    next_lease: int = 1  # of leases and claims
    fencing: int = 0  # of the last grant
    outlooks: Mapping[HolderId, Outlook] = field(default_factory=dict)  # what to expect of each service
    windows: tuple[Window, ...] = ()  # open, or the next of their kind
    next_window: int = 1
    front_at_s: float | None = None  # when the next one of a line has waited as long as it may
    recipes_seen: frozenset[str] = frozenset()
    recipes: Mapping[str, JobSpec] = field(default_factory=dict)  # as the config last said
    store_ok: bool = True
    store_trouble: str | None = None
    meter_trouble: str | None = None
    boot_id: str = ""

    def service(self, holder: HolderId) -> Service | None:
        found = self.holders.get(holder)
        return found if isinstance(found, Service) else None
