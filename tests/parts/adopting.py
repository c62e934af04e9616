"""What an earlier daemon left behind, for tests of adoption. Rows go through JSON, as in life."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway.core import codec
from headway.core.commands import Configure
from headway.core.model import (
    Gate,
    Holder,
    Job,
    Pending,
    Policy,
    Run,
    Service,
)
from headway.daemon.adopt import Adopted, adopt
from headway.ports import Saved
from tests.core.make import dev, job_spec, service_spec
from tests.parts.fake_runs import FakeRuns
from tests.parts.fake_store import FakeJournal

NOW_S, WALL_S = 5000.0, 1_700_000_000.0
CHAT = service_spec("chat")
NAPPER = service_spec("chat", asleep=1)
TRAIN = job_spec("train", parked=0.5)


@dataclass
class Before:
    """What an earlier daemon left: rows, intents, journal, routes, and the runs."""

    holders: list[Holder] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    journal: list[Pending] = field(default_factory=list)
    open: dict[str, str | None] = field(default_factory=dict)
    runs: FakeRuns = field(default_factory=FakeRuns)
    meta: dict[str, str] = field(default_factory=dict)
    services: tuple[Any, ...] = (CHAT,)
    recipes: tuple[Any, ...] = ()

    def adopt(self, now_s: float = NOW_S, wall_s: float = WALL_S, mode: str = "live") -> Adopted:
        saved = Saved(
            holders=tuple((h.id, h.kind, codec.dumps(h)) for h in self.holders),
            pending=tuple((p.holder, codec.dumps(p)) for p in self.pending),
            offsets={},
            meta=self.meta,
        )
        journal = FakeJournal(*({"holder": p.holder, "pending": codec.to_doc(p)} for p in self.journal))
        configure = Configure(services=self.services, recipes=self.recipes)
        return adopt(saved, journal, self.runs, configure, Policy(), mode, self.open, now_s, wall_s)


def run_of(name: str, number: int = 1, **more: Any) -> Run:
    return Run(id=f"{name}.{number}", lock_held=True, pid=4711, **more)


def service(form: str = "awake", spec: Any = CHAT, **more: Any) -> Service:
    up = form != "stopped"
    given: dict[str, Any] = {
        "devices": (dev("gpu0"),) if up else (),
        "run": run_of(spec.name) if up else None,
        "runs": 1 if up else 0,
        "since_s": 4000.0,
        "gate": Gate(wish="open" if form == "awake" else "closed", rev=17),
        "ready": up,
        "active": 3,
        "upstream": "http://127.0.0.1:1" if up else None,
    }
    return Service(id=spec.name, spec=spec, form=form, forms=spec.forms, **{**given, **more})


def job(form: str = "running", hid: str = "j1", spec: Any = TRAIN, **more: Any) -> Job:
    up = form != "stopped"
    given: dict[str, Any] = {
        "devices": (dev("gpu0"),) if up else (),
        "run": run_of(hid) if up else None,
        "runs": 1 if up else 0,
        "since_s": 4000.0,
        "key": 100.0,
        "enqueued_s": 90.0,
    }
    return Job(id=hid, spec=spec, form=form, forms=spec.forms, **{**given, **more})


def pending(holder: Holder, to: str, **more: Any) -> Pending:
    given: dict[str, Any] = {
        "source": holder.form,
        "devices": (dev("gpu0"),),
        "exclusive": False,
        "frees": True,
        "started_s": 4990.0,
        "limit_at_s": 5020.0,
        "run_id": holder.run.id if holder.run else None,
    }
    return Pending(holder=holder.id, to=to, **{**given, **more})


def start(holder: Holder, to: str, number: int, **more: Any) -> Pending:
    run_id = f"{holder.id}.{number}"
    return pending(holder, to, frees=False, creates=True, run_id=run_id, source="stopped", **more)


def event_codes(adopted: Adopted) -> list[str]:
    return [event.code for event in adopted.draft.events]


def dropped(adopted: Adopted) -> list[str]:
    return [e.facts["reason"] for e in adopted.draft.events if e.code == "intent.dropped"]
