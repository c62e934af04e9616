"""Who says that it stepped aside and keeps its memory: nothing starts on it, everybody can see it, and it is ended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from demo.memory_watch import MemoryWatch
from tests.e2e.kills import Witness, linked, process_of, rendering, talk
from tests.e2e.loads import cli
from tests.e2e.stack import LIMIT_S, Row, Stack
from tests.e2e.tables import Table, config, llama, python, render, tiny
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def one_at_a_time(memory: MemoryWatch) -> bool:
    return all(len(held.by_pid) <= 1 for held in memory.trace)


def share_of(stack: Stack, holder: str) -> Row | None:
    """What the status says of a holder on the device; None: it is not named there."""
    (device,) = stack.api("/api/v1/status")["devices"]
    return next((share for share in device["holders"] if share["id"] == holder), None)


def with_alerts(table: Table) -> Table:
    """Each alert becomes a line in `{home}/alerts`: its code, its holder, and whether it is trouble or over."""
    write = 'echo "$HEADWAY_CODE $HEADWAY_HOLDER $HEADWAY_STATE" >>{home}/alerts'
    return {**table, "alerts": {"command": ["sh", "-c", write]}}


def alerts(stack: Stack) -> list[str]:
    path: Path = stack.home / "alerts"
    return path.read_text().splitlines() if path.exists() else []


def test_memory_that_falls_six_seconds_after_the_stop_is_given_to_the_job_only_then(stack: Up) -> None:
    headway = stack(with_alerts(config(tiny("chat", "16GiB", "--lie", "late:6"), render())))
    linked(headway, "chat")
    with MemoryWatch(headway.reports) as memory:
        rendering(headway)
        assert talk(headway)[1].result(LIMIT_S).right
        headway.wait_service("chat", "stopping")
        share = share_of(headway, "chat")
        assert share is not None
        assert (share["state"], share["bytes"]) == ("stopping", 16 * GIB)
        assert headway.job("render")["state"] == "parked"
        asked = headway.events("move.asked", holder="chat")[-1]
        headway.wait_job("render", "running")
    assert one_at_a_time(memory), "the job took its memory while the server had its own"
    (verified,) = headway.events("release.verified", holder="chat")
    assert verified["wall_s"] - asked["wall_s"] >= 6
    assert verified["facts"]["rung"] == 0
    assert alerts(headway) == []


def test_a_server_that_keeps_its_memory_is_killed_before_the_job_goes_on(stack: Up) -> None:
    kept = tiny("chat", "16GiB", "--lie", "keeps", stop_grace=3)
    headway = stack(config(kept, render()))
    linked(headway, "chat")
    with Witness(headway, "chat") as witness, MemoryWatch(headway.reports) as memory:
        job = rendering(headway)
        first = talk(headway)[1].result(LIMIT_S)
        assert first.right
        headway.wait_service("chat", "stopping")
        share = share_of(headway, "chat")
        assert share is not None
        assert (share["state"], share["bytes"]) == ("stopping", 16 * GIB)
        shown = cli(headway, "status").stdout
        assert any("chat" in line and "stopping" in line and "16 GiB" in line for line in shown.splitlines())
        later = talk(headway)  # it comes back for this one, but only through its end
        assert later[1].result(LIMIT_S).right
        headway.wait_job("render", "running")
        witness.check([first, later[0]], jobs=("render",))
    assert one_at_a_time(memory)
    assert process_of(headway, "render") == job
    codes = [event["facts"]["exit_code"] for event in headway.events("run.exit", holder="chat")]
    assert codes == [-9, -9], "SIGTERM was not enough"


def lying_render() -> Table:
    """The parkable job, whose park command does its work once and later only says so."""
    entry = render()
    honest = " ".join(python("demo.jobs.render_ctl", "park", "--dir", "{home}/render"))
    flag = "{home}/parked-once"
    entry.table["park"] = ["sh", "-c", f"if [ -e {flag} ]; then exit 0; fi; touch {flag}; exec {honest}"]
    return config(tiny("chat"), entry)


def test_a_job_that_says_it_parked_and_keeps_its_memory_is_shown_told_once_and_ended(stack: Up) -> None:
    headway = stack(with_alerts(lying_render()))
    linked(headway, "chat")
    with Witness(headway, "chat") as witness, MemoryWatch(headway.reports) as memory:
        rendering(headway)
        first = talk(headway)[1].result(LIMIT_S)  # how long parking takes is known from now on
        assert first.right
        job = headway.wait_job("render", "running")
        headway.wait(lambda: headway.held() == 12 * GIB, "the job's memory")
        second = talk(headway)
        headway.wait(lambda: headway.api("/api/v1/why/render")["code"] == "not_released", "the shortfall")
        why = headway.api("/api/v1/why/render")["sentence"]
        assert "parked" in why and "12 GiB" in why and str(job["pid"]) in why, why
        share = share_of(headway, job["id"])
        assert share is not None and share["bytes"] == 12 * GIB
        assert second[1].result(LIMIT_S).right
        witness.check([first, second[0]])
    assert one_at_a_time(memory), "the model was started while the job had its memory"
    (told,) = headway.events("memory.not_released")
    assert (told["holder"], told["facts"]["form"], told["facts"]["pid"]) == (job["id"], "parked", job["pid"])
    assert list(told["facts"]["held"].values()) == [12 * GIB]
    asked = [event["facts"] for event in headway.events("move.asked", holder=job["id"])]
    assert ("stopped", 1) in [(facts["form"], facts["rung"]) for facts in asked], "the ladder went on"
    headway.wait(lambda: len(alerts(headway)) > 1, "the alert, and that it is over")
    headway.wait_job("render", "running")
    told_of = f"memory.not_released {job['id']}"
    assert alerts(headway) == [f"{told_of} trouble", f"{told_of} recovered"]


def test_a_server_that_sleeps_and_keeps_its_memory_is_stopped_before_the_job_starts(stack: Up) -> None:
    asleep = ("--sleep-idle", 1, "--residue", "15GiB")
    chat = llama("chat", "16GiB", *asleep, memory={"awake": "16GiB", "asleep": "1GiB"})
    headway = stack(config(chat, render(hold=True), gap_min=2))
    linked(headway, "chat")
    with MemoryWatch(headway.reports) as memory:
        assert headway.ask("chat").error is None
        headway.wait_service("chat", "asleep")
        headway.wait(lambda: headway.held() == 15 * GIB, "what it keeps")
        headway.wait(lambda: headway.events("memory.not_released"), "somebody is told")
        headway.post("/api/v1/jobs/render/release")
        headway.wait_job("render", "running")
        assert headway.service("chat")["state"] == "stopped"
    assert one_at_a_time(memory)
    (told,) = headway.events("memory.not_released")
    assert (told["holder"], told["facts"]["form"]) == ("chat", "asleep")
    (verified,) = headway.events("release.verified", holder="chat")
    (started,) = [event for event in headway.events("move.asked") if event["facts"]["form"] == "running"]
    assert verified["id"] < started["id"]
