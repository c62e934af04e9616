"""The words people see: states, why, rows and pages."""

from dataclasses import replace
from typing import Any

import pytest

from headway.core import rows, view, words
from headway.core.model import (
    GIB,
    Device,
    Exit,
    Form,
    Gate,
    Job,
    JobSpec,
    Pending,
    Run,
    Service,
    ServiceSpec,
    Snapshot,
    Verdict,
    Waiting,
)
from headway.core.worked import ran_s

pytestmark = pytest.mark.core

JOB_FORMS = (
    Form(name="running", declared_bytes=14 * GIB),
    Form(name="frozen"),
    Form(name="parked"),
    Form(name="stopped"),
)
SERVICE_FORMS = (Form(name="awake", declared_bytes=16 * GIB), Form(name="asleep"), Form(name="stopped"))
SIM0 = "here/sim0"
NOW_S = 1000.0


def job(hid: str = "j1", **fields: Any) -> Job:
    spec = JobSpec(
        name=fields.pop("name", "train"), driver="command", forms=JOB_FORMS, moves=(), argv=("train",)
    )
    return Job(id=hid, spec=spec, forms=JOB_FORMS, **{"form": "stopped", "since_s": 990.0, **fields})


def service(**fields: Any) -> Service:
    spec = ServiceSpec(name="chat", driver="process", forms=SERVICE_FORMS, moves=(), models=("tiny",))
    return Service(id="chat", spec=spec, forms=SERVICE_FORMS, **{"form": "awake", "since_s": 900.0, **fields})


def moving(hid: str, source: str | None, to: str, **fields: Any) -> Pending:
    return Pending(
        holder=hid, source=source, to=to, devices=(SIM0,), exclusive=False, frees=fields.pop("frees", False),
        started_s=995.0, limit_at_s=1060.0, **fields,
    )  # fmt: skip


def snapshot(*holders: Job | Service, pending: tuple[Pending, ...] = (), **fields: Any) -> Snapshot:
    line = sorted(
        (h.key, h.id)
        for h in holders
        if isinstance(h, Job) and h.form == "stopped" and h.wish == "run" and not h.ended
    )
    held = sorted(
        (h.key, h.id)
        for h in holders
        if isinstance(h, Job) and h.form == "stopped" and h.wish != "run" and not h.ended
    )
    device = Device(
        id=SIM0,
        name="sim0",
        total_bytes=24 * GIB,
        used_bytes=15 * GIB,
        free_bytes=9 * GIB,
        read_at_s=999.0,
        foreign_bytes=GIB,
    )
    present = [h.id for h in holders if h.form != "stopped" or h.id in {p.holder for p in pending}]
    return Snapshot(**{
        "now_s": NOW_S,
        "rev": 7,
        "devices": {SIM0: device},
        "holders": {h.id: h for h in holders},
        "pending": {p.holder: p for p in pending},
        "queue": {"gpu": tuple(line), "held": tuple(held)},
        "present": tuple(sorted(present)),
        "services": tuple(sorted(h.id for h in holders if isinstance(h, Service))),
        **fields,
    })  # fmt: skip


# ---------------------------------------------------------------- states

RUN = Run(id="j1.1", lock_held=True, pid=4711)
JOB_WORDS = {
    # name: (job, move under way, word)
    "waits its turn": (job(), None, "queued"),
    "held by a person": (job(wish="hold"), None, "held"),
    "what was stopped is held": (job(wish="stop"), None, "held"),
    "paused while it waited": (job(wish="pause"), None, "held"),
    "start": (job(), moving("j1", "stopped", "running"), "starting"),
    "start of one not observed yet": (job(form=None), moving("j1", None, "running"), "starting"),
    "runs": (job(form="running"), None, "running"),
    "not observed, process lives": (job(form=None, run=RUN), None, "running"),
    "not observed, no process": (job(form=None), None, "queued"),
    "asked to stop at a saved point": (job(form="running", wish="wind_down"), None, "winding_down"),
    "asked to pause, not begun": (job(form="running", wish="pause"), None, "parking"),
    "asked to stop, not begun": (job(form="running", wish="stop"), None, "stopping"),
    "killed, not begun": (job(form="parked", wish="kill"), None, "stopping"),
    "frozen": (job(form="frozen"), None, "frozen"),
    "parking": (job(form="running"), moving("j1", "running", "parked", frees=True), "parking"),
    "parked": (job(form="parked"), None, "parked"),
    "parked and held": (job(form="parked", wish="hold"), None, "parked"),
    "resuming": (job(form="parked"), moving("j1", "parked", "running"), "resuming"),
    "stopping": (job(form="running"), moving("j1", "running", "stopped", frees=True), "stopping"),
    "cancel under way": (
        job(form="running", wish="cancel"),
        moving("j1", "running", "stopped", frees=True),
        "stopping",
    ),
    "ended well": (job(ended="done"), None, "done"),
    "ended badly": (job(ended="failed"), None, "failed"),
    "cancelled": (job(ended="cancelled", wish="cancel"), None, "cancelled"),
    "gone without a trace": (job(ended="lost"), None, "lost"),
}


@pytest.mark.parametrize(("holder", "pending", "word"), JOB_WORDS.values(), ids=JOB_WORDS.keys())
def test_job_words(holder: Job, pending: Pending | None, word: str) -> None:
    assert words.job_state(holder, pending) == word
    assert word in words.JOB_STATES


CLOSING = Gate(wish="closed", closing_since_s=950.0)
SERVICE_WORDS = {
    "down": (service(form="stopped"), None, "stopped"),
    "start": (service(form="stopped"), moving("chat", "stopped", "awake"), "starting"),
    "awake": (service(gate=Gate(wish="open")), None, "awake"),
    "awake, gate not open yet": (service(), None, "awake"),
    "awake, gate closed before it woke": (
        service(gate=Gate(wish="closed", closing_since_s=800.0)),
        None,
        "awake",
    ),
    "gate closing": (service(gate=CLOSING), None, "draining"),
    "going to sleep": (service(), moving("chat", "awake", "asleep", frees=True), "sleeping"),
    "asleep": (service(form="asleep"), None, "asleep"),
    "waking": (service(form="asleep"), moving("chat", "asleep", "awake"), "waking"),
    "process stopped to make room": (service(), moving("chat", "awake", "stopped", frees=True), "stopping"),
    "one failed start is tried again at once": (service(form="stopped", failures=1), None, "stopped"),
    "failed twice": (service(form="stopped", failures=2, retry_at_s=1015.0), None, "failed"),
    "not observed yet": (service(form=None), None, "unknown"),
}


@pytest.mark.parametrize(("holder", "pending", "word"), SERVICE_WORDS.values(), ids=SERVICE_WORDS.keys())
def test_service_words(holder: Service, pending: Pending | None, word: str) -> None:
    assert words.service_state(holder, pending) == word
    assert word in words.SERVICE_STATES


# ---------------------------------------------------------------- explain

CHAT = service(active=2, gate=Gate(wish="open"))
BUSY = Verdict(code="model_busy", facts={"service": "chat", "active": 2, "waiting": 0, "engine": None})
SHORT = Verdict(
    code="not_released",
    facts={
        "to": "stopped",
        "since_s": 12.0,
        "rung": 0,
        "held": {"sim0": 15247000000},
        "expected_bytes": 966367642,
        "pid": 4711,
    },
)
MEMORY = Verdict(
    code="memory",
    facts={
        "device": "sim0",
        "need_bytes": 14 * GIB,
        "usable_bytes": 8 * GIB,
        "total_bytes": 24 * GIB,
        "holder": "chat",
    },
)
SENTENCES = {
    # name: (holder asked about, snapshot, verdict, code, sentence, help)
    "a model answers": (
        "j1", snapshot(job(), CHAT), BUSY, "model_busy",
        "queued: chat is answering 2 requests", None,
    ),
    "memory is not released": (
        "chat", snapshot(service(), pending=(moving("chat", "awake", "stopped", frees=True, step="answered"),)), SHORT,
        "not_released", "says it stopped; sim0 still shows 14.2 GiB held by pid 4711, 0.9 GiB expected",
        "headway stop chat",
    ),
    "does not fit": (
        "j1", snapshot(job(), CHAT), MEMORY, "memory",
        "queued: needs 14 GiB on sim0; 8 GiB of 24 GiB would be left, chat keeps the most", "headway why chat",
    ),
    "held by somebody": (
        "j1", snapshot(job(wish="hold", wish_by="ada", wish_s=400.0)), None, "held",
        "held by ada 10 min ago, until it is released", "headway release j1",
    ),
    "held after failed starts": (
        "j1", snapshot(job(wish="hold", wish_by="headway", note="exit", run=replace(RUN, exit=Exit(code=3)))), None,
        "held", "held by headway, until it is released (its last run ended with exit code 3)", "headway release j1",
    ),
    "nobody looked that far down the line": (
        "j1", snapshot(job(key=2.0), job("j0", key=1.0)), None, "behind",
        "queued: number 2 in line; those before it are looked at first", None,
    ),
    "waits for a time": (
        "j1", snapshot(job()), Verdict(code="residency", facts={"holder": "chat"}, until_s=1008.0), "residency",
        "queued: chat has just come, and stays for 8 s more", None,
    ),
    "runs": (
        "j1", snapshot(job(form="running", since_s=820.0, devices=(SIM0,))), Verdict(code="keeps", facts={"form": "running"}),
        "runs", "running: on sim0 for 3 min", None,
    ),
    "answers": ("chat", snapshot(CHAT), Verdict(code="keeps", facts={"form": "awake"}), "answers",
        "awake: answering 2 requests", None),
    "quiet": ("chat", snapshot(service(active=0, last_end_s=988.0)), None, "idle",
        "awake: quiet for 12 s; in nobody's way", None),
    "another job is named with its id": (
        "j1", snapshot(job(), job("j0", name="prep", wish="hold")), Verdict(code="after", facts={"after": "j0", "held": True}),
        "after", "queued: waits for the end of prep (j0), which is held", "headway why j0",
    ),
    "killed by a signal": (
        "j1", snapshot(job(ended="failed", exit_code=-9, ended_s=940.0, ran_s=3600.0)), None, "failed",
        "failed: was ended by signal 9 60 s ago, ran for 1 h", "headway log j1",
    ),
    "a server that does not start": (
        "chat", snapshot(service(form="stopped", failures=3, note="server_exited", note_facts={"exit_code": 1}, retry_at_s=1030.0)),
        Verdict(code="backoff", facts={"failures": 3, "note": "server_exited", "exit_code": 1}, until_s=1030.0), "backoff",
        "failed: the server ended with exit code 1 while it was starting; tries again in 30 s", "headway log chat",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("hid", "snap", "verdict", "code", "sentence", "help_"), SENTENCES.values(), ids=SENTENCES.keys()
)
def test_explain(
    hid: str, snap: Snapshot, verdict: Verdict | None, code: str, sentence: str, help_: str | None
) -> None:
    why = view.explain(hid, snap, {} if verdict is None else {hid: verdict})
    assert (why.code, why.sentence, why.help) == (code, sentence, help_)


def test_times_on_the_wire_are_ages_and_what_is_left() -> None:
    verdict = Verdict(code="held", facts={"by": "ada", "since_s": 400.0}, until_s=1008.0)
    why = view.explain("j1", snapshot(job(wish="hold", wish_s=400.0)), {"j1": verdict})
    assert why.until_s == 8.0
    assert why.facts["since_s"] == 600.0


def test_a_state_is_as_old_as_the_move_that_makes_it() -> None:
    snap = snapshot(service(form="stopped"), pending=(moving("chat", "stopped", "awake"),))
    row = view.row("chat", snap, {})
    assert isinstance(row, rows.ServiceRow) and (row.state, row.in_state_s) == ("starting", 5.0)
    row = view.row("chat", snapshot(service(form="stopped")), {})
    assert isinstance(row, rows.ServiceRow) and row.in_state_s == 100.0


def test_whoever_is_first_in_line_is_not_told_to_move_up() -> None:
    snap = snapshot(job("j1"), job("j2", key=1.0))
    full = Verdict(code="slots", facts={"active": 2, "limit": 2})
    found = {hid: view.explain(hid, snap, {hid: full}) for hid in ("j1", "j2")}
    assert {hid: why.help is None for hid, why in found.items()} == {
        hid: why.facts["position"] == 1 for hid, why in found.items()
    }
    assert len({why.facts["position"] for why in found.values()}) == 2


def test_a_time_that_has_passed_is_not_negative() -> None:
    why = view.explain("j1", snapshot(job()), {"j1": Verdict(code="residency", until_s=900.0)})
    assert why.until_s == 0.0


# ---------------------------------------------------------------- rows and pages


def test_the_board_names_who_holds_what() -> None:
    runner = job(form="running", devices=(SIM0,), seen_bytes={SIM0: 14 * GIB}, run=RUN)
    chat = service(form="stopped", demand={"attended": Waiting(n=3, since_s=996.0)})
    board = view.overview(snapshot(runner, job("j2", key=1.0), job("j3", wish="hold"), chat), {})
    (device,) = board.devices
    assert [(share.id, share.bytes, share.state) for share in device.holders] == [("j1", 14 * GIB, "running")]
    assert (device.free_bytes, device.foreign_bytes, device.confidence, device.read_age_s) == (
        9 * GIB,
        GIB,
        "measured",
        1.0,
    )
    assert [row.id for row in board.running] == ["j1"]
    assert [(row.id, row.position) for row in board.queued] == [("j2", 1), ("j3", None)]
    assert board.jobs == {"running": 1, "queued": 1, "held": 1}
    assert (board.services[0].waiting, board.services[0].waiting_s) == (3, 4.0)


def test_bytes_that_cannot_be_told_are_unknown() -> None:
    runner = job(form="running", devices=(SIM0,))
    snap = snapshot(runner)
    assert view.job_row(runner, snap, {}).bytes == 0
    blind = replace(snap, devices={SIM0: replace(snap.devices[SIM0], per_process=False)})
    assert view.job_row(runner, blind, {}).bytes is None
    assert view.devices(blind)[0].holders[0].bytes is None


def test_a_device_that_cannot_be_read_is_not_measured() -> None:
    sim0 = snapshot().devices[SIM0]
    blind = replace(sim0, used_bytes=None, free_bytes=None, trouble="its reports cannot be read")
    declared = replace(blind, trouble=None, confidence="declared")
    said = [
        view.devices(replace(snapshot(), devices={SIM0: one}))[0].confidence
        for one in (sim0, blind, declared)
    ]
    assert said == ["measured", "unknown", "declared"]


def test_running_time_goes_on_while_it_runs() -> None:
    assert ran_s(job(form="running", since_s=990.0, ran_s=60.0), snapshot().now_s) == 70.0
    assert ran_s(job(form="parked", since_s=990.0, ran_s=60.0), snapshot().now_s) == 60.0


def test_pages_of_jobs_follow_the_line_and_end() -> None:
    line = [job(f"j{n}", key=float(n)) for n in range(5)]
    snap = snapshot(*line, job("old", ended="done", ended_s=10.0), job("held", wish="hold"))
    first = view.jobs(snap, {}, limit=4)
    assert ([row.id for row in first.jobs], first.next) == (["j0", "j1", "j2", "j3"], "j3")
    second = view.jobs(snap, {}, after=first.next, limit=4)
    assert ([row.id for row in second.jobs], second.next) == (["j4", "held"], None)
    assert [row.id for row in view.jobs(snap, {}, ended=True).jobs][-1] == "old"
    assert [row.id for row in view.jobs(snap, {}, states=frozenset({"held"})).jobs] == ["held"]
    assert [row.id for row in view.jobs(snap, {}, states=frozenset({"done"})).jobs] == ["old"]
    assert view.jobs(snap, {}, limit=7).next is None


TROUBLES = {
    "none": (snapshot(service()), ()),
    "store": (snapshot(store_ok=False), ("store_silent",)),
    "meter": (snapshot(meter_trouble="no answer for 3 s"), ("meter_silent",)),
    "old reading": (snapshot(now_s=1010.0), ("device_trouble",)),
    "service failed": (snapshot(service(form="stopped", failures=2, note="server_silent")), ("start_failed",)),
    "memory kept": (
        snapshot(service(), pending=(moving("chat", "awake", "stopped", frees=True, shortfall_told=True),)), ("not_released",)
    ),
}  # fmt: skip


@pytest.mark.parametrize(("snap", "codes"), TROUBLES.values(), ids=TROUBLES.keys())
def test_troubles(snap: Snapshot, codes: tuple[str, ...]) -> None:
    assert tuple(trouble.code for trouble in view.troubles(snap)) == codes


NAMED = {
    "an id": ("j1", ("j1",)),
    "a name of one living": ("prep", ("j2",)),
    "a name of several living": ("train", ("j1", "j3")),
    "a name whose last one ended": ("once", ("j5",)),
    "a service": ("chat", ("chat",)),
    "nobody": ("nobody", ()),
}


@pytest.mark.parametrize(("target", "found"), NAMED.values(), ids=NAMED.keys())
def test_what_a_name_means(target: str, found: tuple[str, ...]) -> None:
    snap = snapshot(
        job("j1"),
        job("j3"),
        job("j0", ended="done"),
        job("j2", name="prep"),
        job("j4", name="once", ended="done", ended_s=1.0),
        job("j5", name="once", ended="failed", ended_s=2.0),
        service(),
    )
    assert words.matching(snap, target, None) == found
    assert words.matching(snap, target, "lease") == ()
