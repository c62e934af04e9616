"""Makers of specs, records and snapshots for the tests of the core. Sizes in GiB, times in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headway.core import fold, wishes
from headway.core.commands import AddJob, Configure
from headway.core.draft import Draft
from headway.core.facts import DeviceRead
from headway.core.forecast import Forecast, Quiet
from headway.core.ledger import Knobs
from headway.core.model import (
    GIB,
    DeviceId,
    Event,
    Form,
    Gate,
    Holder,
    Job,
    JobSpec,
    MoveRule,
    Outlook,
    Pending,
    Policy,
    Run,
    Service,
    ServiceSpec,
    Snapshot,
)
from headway.core.pauses import Table

T0_S = 1000.0  # when these worlds begin
NOBODY = Forecast(Table({})).quiet(0.0)  # is known who could come back: any swap is worth it

START = MoveRule(source="stopped", to="awake", limit_s=300.0, frees=False, creates=True)
STOP = MoveRule(source="awake", to="stopped", limit_s=30.0, frees=True)
SLEEP = MoveRule(source="awake", to="asleep", limit_s=30.0, frees=True, exclusive=True)
WAKE = MoveRule(source="asleep", to="awake", limit_s=60.0, frees=False)
STOP_SLEEPER = MoveRule(source="asleep", to="stopped", limit_s=30.0, frees=True)
PROCESS = (START, STOP)
SLEEPER = (START, SLEEP, STOP, WAKE, STOP_SLEEPER)

RUN = MoveRule(source="stopped", to="running", limit_s=30.0, frees=False, creates=True)
END = MoveRule(source="running", to="stopped", limit_s=30.0, frees=True, overlaps_start=True, loses_work=True)
PARK = MoveRule(source="running", to="parked", limit_s=30.0, frees=True, overlaps_start=True)
RESUME = MoveRule(source="parked", to="running", limit_s=30.0, frees=False)
END_PARKED = replace(END, source="parked")
RESTART = (RUN, END)
COMMAND = (RUN, PARK, END, RESUME, END_PARKED)


def gib(size: float) -> int:
    return int(size * GIB)


def size_of(size: float | None) -> int | None:
    return None if size is None else gib(size)


def dev(name: str) -> DeviceId:
    return f"here/{name}"


def service_spec(
    name: str = "chat", awake: float | None = 16, asleep: float | None = None, **given: Any
) -> ServiceSpec:
    """A model server that Headway starts; with `asleep` one that can sleep and keeps that much."""
    middle = () if asleep is None else (Form(name="asleep", declared_bytes=gib(asleep)),)
    forms = (Form(name="awake", declared_bytes=size_of(awake)), *middle, Form(name="stopped"))
    moves = PROCESS if asleep is None else SLEEPER
    defaults: dict[str, Any] = {"argv": ("serve",), "driver": "process", "forms": forms, "moves": moves}
    return ServiceSpec(name=name, **{**defaults, **given})


def job_spec(
    name: str = "train", running: float | None = 14, parked: float | None = None, **given: Any
) -> JobSpec:
    """A job that restarts; with `parked` one that can park and keeps that much. Placement gap unless given."""
    middle = () if parked is None else (Form(name="parked", declared_bytes=gib(parked)),)
    forms = (Form(name="running", declared_bytes=size_of(running)), *middle, Form(name="stopped"))
    moves = RESTART if parked is None else COMMAND
    defaults: dict[str, Any] = {"argv": ("work",), "driver": "command", "forms": forms, "moves": moves}
    return JobSpec(name=name, **{**defaults, **given})


def reading(
    name: str, total: float, at_s: float, seen: dict[str, int] | None = None, foreign: int = 0, **given: Any
) -> DeviceRead:
    """What a meter says of one device: the bytes of ours, and `foreign` bytes of nobody."""
    used = foreign + sum((seen or {}).values())
    defaults: dict[str, Any] = {
        "device": dev(name),
        "name": name,
        "index": int(name[-1]),
        "at_s": at_s,
        "total_bytes": gib(total),
        "used_bytes": used,
        "free_bytes": gib(total) - used,
        "seen": seen or {},
    }
    return DeviceRead(**{**defaults, **given})


def moving(hid: str, source: str, to: str, **given: Any) -> Pending:
    """A move on gpu0 that was asked one second ago and has nine more."""
    defaults: dict[str, Any] = {
        "devices": (dev("gpu0"),),
        "exclusive": False,
        "frees": to not in ("awake", "running"),
        "started_s": T0_S - 1.0,
        "limit_at_s": T0_S + 9.0,
        "run_id": f"{hid}.1",
    }
    return Pending(holder=hid, source=source, to=to, **{**defaults, **given})


def outlook(quiet: Quiet = NOBODY, **given: Any) -> Outlook:
    """What is expected of a service; the log has told of every answer."""
    defaults: dict[str, Any] = {"at_s": T0_S, "price": 4.0, "knobs": Knobs(), "heard_s": float("inf")}
    return Outlook(quiet=quiet, **{**defaults, **given})


def expected(s: Snapshot) -> Snapshot:
    """Where nothing else was said of a service, nobody is expected to come back to it."""
    missing = {sid: outlook() for sid in s.services if sid not in s.outlooks}
    return replace(s, outlooks={**s.outlooks, **missing}) if missing else s


class Scene:
    """A snapshot put together by hand: each call is a turn without a decision. `s` is the snapshot so far."""

    def __init__(self, *totals: float, policy: Policy | None = None, now_s: float = T0_S) -> None:
        self.s = Snapshot(now_s=now_s, booted_s=now_s - 1000.0, policy=policy or Policy())
        self.totals = {f"gpu{number}": total for number, total in enumerate(totals)}
        self.read()

    def __repr__(self) -> str:
        """What a failing property shows: who stands where, and who asks."""
        lines = [f"devices {self.totals}, {self.s.policy}"]
        for h in self.s.holders.values():
            asks = (
                {c: self.s.now_s - w.since_s for c, w in h.demand.items()} if isinstance(h, Service) else {}
            )
            active = h.active if isinstance(h, Service) else ""
            needs = [f"{f.name} {(f.need_bytes or 0) / GIB:g}" for f in h.forms[:-1]]
            since = f"for {self.s.now_s - h.since_s:g} s, residency {h.spec.min_residency_s:g}"
            what = (
                f"{h.spec.placement} {h.spec.priority} {h.saved_age_s}"
                if isinstance(h, Job)
                else getattr(h.spec, "keep_awake", "")
            )
            lines.append(
                f"{h.id} {h.form} {since} x{h.spec.count} on {h.devices} {needs} {what} {asks} {active}"
            )
        return "\n".join(lines)

    @property
    def s(self) -> Snapshot:
        return self._s

    @s.setter
    def s(self, s: Snapshot) -> None:
        self._s = expected(s)

    def ruled(self, **policy: Any) -> Scene:
        """With other rules."""
        self.s = replace(self.s, policy=replace(self.s.policy, **policy))
        return self

    def expecting(self, sid: str, seen: Outlook) -> Scene:
        """With this outlook of one service."""
        self.s = replace(self.s, outlooks={**self.s.outlooks, sid: seen})
        return self

    def draft(self) -> Draft:
        return Draft(self.s, self.s.now_s)

    def at(self, now_s: float) -> Scene:
        self.s = Draft(self.s, now_s).done()
        return self

    def fold(self, *facts: Any) -> Scene:
        self.happens(*facts)
        return self

    def happens(self, *facts: Any) -> list[Event]:
        """Fold them in one turn; what was told of it."""
        draft = self.draft()
        for fact in facts:
            fold.fold(draft, fact)
        self.s = draft.done()
        return draft.events

    def under_way(self, hid: str, source: str, to: str, **given: Any) -> Scene:
        """A move of a holder that stands there already."""
        return self.put(self.s.holders[hid], moving(hid, source, to, **given))

    def read(self, foreign: int = 0, **given: Any) -> Scene:
        """A reading of every device: each shows the bytes its holders are known to have."""
        facts = []
        for name, total in self.totals.items():
            seen = {h.id: h.seen_bytes.get(dev(name), 0) for h in self.s.holders.values()}
            held = {hid: bytes_ for hid, bytes_ in seen.items() if bytes_}
            facts.append(reading(name, total, self.s.now_s, held, foreign, **given))
        return self.fold(*facts)

    def put(self, holder: Holder, pending: Pending | None = None) -> Scene:
        draft = self.draft()
        draft.put(holder)
        if pending:
            draft.move(pending)
        self.s = draft.done()
        return self

    def service(
        self,
        spec: ServiceSpec | None = None,
        form: str | None = "awake",
        on: Iterable[str] = ("gpu0",),
        **given: Any,
    ) -> Scene:
        """A service in that form, quiet since long ago, with an open gate where it is awake, and its bytes."""
        spec = spec or service_spec()
        up = form == spec.forms[0].name
        defaults: dict[str, Any] = {
            "gate": Gate(wish="open" if up else "closed", closed=not up, rev=1),
            "ready": up,
            "active": 0,
            "upstream": "http://127.0.0.1:1" if up else None,
        }
        self._stand(Service, spec.name, spec, form, tuple(on), {**defaults, **given})
        return self

    def job(
        self,
        spec: JobSpec | None = None,
        form: str | None = "running",
        on: Iterable[str] = ("gpu0",),
        **given: Any,
    ) -> Scene:
        """A job in that form since long ago; at the bottom it is queued."""
        spec = spec or job_spec()
        key = wishes.rank_key(self.s.now_s - 500.0, spec.priority)
        defaults: dict[str, Any] = {
            "key": key,
            "enqueued_s": self.s.now_s - 500.0,
            "lane": "cpu" if spec.count == 0 else "gpu",
            "attempts_left": spec.retries,
            "started_s": None if form == "stopped" else self.s.now_s - 400.0,
        }
        self._stand(Job, given.pop("id", spec.name), spec, form, tuple(on), {**defaults, **given})
        return self

    def _stand(
        self, cls: type, hid: str, spec: Any, form: str | None, on: tuple[str, ...], given: dict[str, Any]
    ) -> None:
        there = form not in (None, spec.forms[-1].name)
        devices = tuple(dev(name) for name in on) if there else ()
        bytes_ = next((f.need_bytes or 0 for f in spec.forms if f.name == form), 0)
        run = Run(id=f"{hid}.1", lock_held=True, pid=4711) if there else None
        defaults = {
            "since_s": self.s.now_s - 400.0,
            "devices": devices,
            "seen_bytes": {d: bytes_ for d in devices if bytes_},
            "run": run,
            "runs": 1 if there else 0,
            "forms": spec.forms,
        }
        self.put(cls(id=hid, spec=spec, form=form, **{**defaults, **given}))

    def queue(self, spec: JobSpec | None = None, **given: Any) -> str:
        """Add a job the way people do; its id."""
        draft = self.draft()
        reply = wishes.apply(draft, AddJob(spec=spec or job_spec(), **given))
        assert reply.accepted and reply.holder, reply
        self.s = draft.done()
        return reply.holder

    def configure(self, *services: ServiceSpec, recipes: Iterable[tuple[JobSpec, bool]] = ()) -> Scene:
        draft = self.draft()
        wishes.apply(draft, Configure(services=services, recipes=tuple(recipes)))
        self.s = draft.done()
        return self
