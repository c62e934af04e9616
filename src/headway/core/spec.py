"""What people write down: forms, moves, services, jobs and the policy. Words and units used everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.core.units import GIB as GIB
from headway.core.units import MIB as MIB

KIB = 1 << 10
TOLERANCE_BYTES = 64 * MIB  # what a driver may keep beyond its known residue and still count as gone

Kind = Literal["service", "job", "lease", "claim", "unknown"]
FormName = str  # one rung of a ladder, such as "awake" or "parked"
HolderId = str
DeviceId = str  # "NODE/UUID": the node is part of every device id from day one
Class = Literal["attended", "background"]
Wish = Literal["run", "hold", "pause", "wind_down", "stop", "kill", "cancel"]
Ended = Literal["done", "failed", "cancelled", "lost"]
LeaseEnd = Literal["released", "gone", "cancelled", "revoked", "lapsed", "waited_out"]
Mode = Literal["shadow", "live"]
Confidence = Literal["measured", "inferred", "unified", "declared", "unverified"]
Step = Literal["asked", "answered", "verified"]
GateWish = Literal["open", "closed"]
Placement = Literal["gap", "share", "yield", "window"]
WindowKind = Literal["slow_wake", "no_model"]

LADDERS: Mapping[str, tuple[FormName, ...]] = {  # high to low; the last one holds nothing
    "service": ("awake", "asleep", "stopped"),
    "job": ("running", "frozen", "parked", "stopped"),
    "lease": ("granted", "revoked"),
    "claim": ("granted", "revoked"),
    "unknown": ("granted", "revoked"),
}
TOP: Mapping[str, FormName] = {kind: ladder[0] for kind, ladder in LADDERS.items()}
BOTTOM: Mapping[str, FormName] = {kind: ladder[-1] for kind, ladder in LADDERS.items()}


def device_env(devices: Iterable[DeviceId]) -> dict[str, str]:
    """What a program that may use these devices, and no others, is given in its environment."""
    visible = ",".join(device.split("/", 1)[-1] for device in devices)
    return {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One rung of a holder's ladder and what it costs, per device. `None` is unknown, never zero."""

    name: FormName
    declared_bytes: int | None = None  # what the config says it takes on each of its devices
    learned_bytes: int | None = None  # the highest of the last runs, as measured
    host_bytes: int | None = None  # main memory that it has there, as the config says
    disk_bytes: int | None = None  # what entering it writes to the disk of its `cwd`
    enter_s: float | None = None  # measured time to get here from above, None until measured
    leave_s: float | None = None  # measured time from here back to the top
    enters_s: tuple[float, ...] = ()  # the last ten of the former, oldest first

    @property
    def need_bytes(self) -> int | None:
        """Bytes to plan with on each device: the larger of declared and learned, None when neither is known."""
        known = [b for b in (self.declared_bytes, self.learned_bytes) if b is not None]
        return max(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRule:
    """One move a driver can make. The table of these is the driver's whole description of itself."""

    source: FormName
    to: FormName
    limit_s: float
    frees: bool  # gives device memory back
    takes_s: float | None = None  # a prior for the time it takes, until measured
    exclusive: bool = False  # nothing else may move on its devices meanwhile
    overlaps_start: bool = False  # a start may begin beside it once measured free covers that start
    loses_work: bool = False  # work since the last saved point is gone
    to_host: bool = False  # it may take main memory for what it gives back on its devices
    copies: bool = False  # all that it has there, so what is measured on them is what it takes
    creates: bool = False  # makes a new run (process), or lets a program in: its row is saved first


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What people wrote about one holder. Never changed by the loop."""

    name: str
    kind: Kind
    driver: str
    forms: tuple[Form, ...]  # high to low
    moves: tuple[MoveRule, ...]
    count: int = 1  # devices it needs; 0 = none (CPU lane)
    pinned_devices: tuple[DeviceId, ...] = ()  # named by hand; empty: any that fit
    argv: tuple[str, ...] = ()  # its start command; empty: somebody else starts it
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stop_grace_s: float = 10.0
    min_residency_s: float = 10.0
    options: Mapping[str, Any] = field(default_factory=dict)  # the driver's own settings, checked by config


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec(Spec):
    """One model server behind the gate."""

    kind: Kind = "service"
    upstream: str = ""  # "http://127.0.0.1:{port}"; {port} is chosen at each start
    models: tuple[str, ...] = ()
    upstream_model: str | None = None  # the name put in place of the client's, None = unchanged
    gate_port: int | None = None
    gated: bool = True
    asleep_probes: tuple[
        str, ...
    ] = ()  # paths that a sleeping server answers without waking, for GET and HEAD
    reads_busy: bool = False  # the driver can read the engine's own queue; then unread is busy
    max_active: int | None = None
    queue_max: int = 512
    max_wait_s: Mapping[str, float] = field(default_factory=lambda: {"attended": 90.0, "background": 3600.0})
    wake_limit_s: float = 300.0
    on_cancel: Literal["cancel", "drain"] = "cancel"
    idle_ttl_s: float | None = None
    keep_awake: bool = False  # `pinned`: comes back when nobody waiting can use the memory
    health_path: str = "/health"
    key_file: str | None = None
    wait_price: float | None = None  # None: as the policy says; so the next two
    max_mean_wait_s: float | None = None
    max_waiting_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec(Spec):
    """One recipe. A running job keeps the one it started with."""

    kind: Kind = "job"
    placement: Placement = "gap"
    priority: int = 50  # 0..100
    park: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()  # prints the saved point
    progress: tuple[str, ...] = ()
    resumable: bool = False
    steps_aside: bool = True  # False: it can only be stopped, and then its work is lost
    after: tuple[str, ...] = ()
    after_ok: tuple[str, ...] = ()
    retries: int = 0
    max_runtime_s: float | None = None  # running time over all runs; then it is held
    oom_exit_code: int | None = None  # with this exit code it ran out of memory
    stall_after_s: float | None = None  # without any sign of work for this long it is told as stalled
    health: tuple[str, ...] = ()  # exit 0: all is well
    health_every_s: float = 60.0
    summary: tuple[str, ...] = ()  # prints its best result so far, in a line
    max_wait_s: float | None = 86400.0  # then it goes to the front of the line
    min_residency_s: float = 60.0
    goal: str | None = None
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    colour: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A period with other rules for some services. Instants on the daemon's clock."""

    id: str  # the name of one in the config, else w1, w2, ...
    kind: WindowKind
    services: tuple[str, ...] = ()  # empty: all
    begin_s: float
    end_s: float
    end_wall_s: float | None = None  # its end for people: seconds since the epoch
    occurs: str | None = None  # of one in the config: which of its turns
    by: str = "config"
    stopped_by: str | None = None  # who ended it before its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that rules read. Times in seconds."""

    reserve_max_bytes: int = 2 * GIB
    reserve_share: float = 0.05
    reading_max_age_s: float = 8.0
    demand_grace_s: float = 5.0
    max_active_jobs: int | None = None  # None: one per device
    switch_after_s: Mapping[str, float] = field(
        default_factory=lambda: {"attended": 30.0, "background": 600.0}
    )
    background_max_wait_s: float = 900.0
    reserve_after_s: float = 1800.0
    push_back_s: float = 60.0
    wait_price: float = 4.0  # seconds of job time that one second of waiting must earn; see ledger.Knobs
    max_mean_wait_s: float = 1.0
    max_waiting_share: float = 0.15
    gap_min_s: float = 0.0  # a model is quiet for this long before it is put aside, whatever that is worth
    free_limit_s: float = 30.0
    backoff_min_s: float = 15.0
    backoff_max_s: float = 300.0
    crash_starts: int = 5  # so many starts after a crash within the time below hold the queue; 0: never
    crash_within_s: float = 600.0
    host_floor_bytes: int | None = None  # None: see floors.py
    disk_floor_bytes: int | None = None
    depth: int = 64  # queued entries looked at per lane
