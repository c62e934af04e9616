"""Memory at its edges: a card that is just large enough, or too small, needs that nobody knows, strangers, silence."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest

from demo.memory_watch import MemoryWatch
from demo.sim_device import clear, set_bytes
from headway.core.model import GIB
from tests.e2e.loads import begin_chat, call, chat, up
from tests.e2e.stack import Row, Stack
from tests.e2e.tables import Entry, Table, config, render, sleeper, tiny, train
from tests.processes import Started

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
TIGHT = int(15.7 * GIB)


def table_knows(stack: Stack, model: str, state: str) -> None:
    """Wait until the gate has that state of a model."""
    rows = "/v1/models"
    stack.wait(
        lambda: {row["id"]: row["state"] for row in call(stack, rows).doc["data"]}[model] == state,
        f"{model} {state}",
    )


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text()) if path.exists() else 0


def stranger(started: Started, stack: Stack, held_bytes: int) -> "subprocess.Popen[bytes]":
    """A process outside Headway that holds memory on the device."""
    process = started.start(["sleep", "600"])
    set_bytes(stack.reports, "sim0", held_bytes, process.pid)
    return process


def device(stack: Stack) -> Row:
    """The row of the one device."""
    row: Row = stack.api("/api/v1/devices/sim0")
    return row


def why(stack: Stack, target: str) -> Row:
    """Why it is, or is not, running."""
    row: Row = stack.api(f"/api/v1/why/{target}")
    return row


def waits_for(stack: Stack, target: str, *codes: str) -> Row:
    """Wait until that is the reason it gives."""

    def seen() -> Row | None:
        row = why(stack, target)
        return row if row["code"] in codes else None

    return stack.wait(seen, f"{target}: {' or '.join(codes)}")


def test_a_model_that_just_fits_wakes_on_an_empty_card_and_after_a_job(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", "15.7GiB"), render(hold=True), total="16GiB"))
    with MemoryWatch(headway.reports) as memory:
        assert chat(headway, "chat").words.startswith("chat ")
        assert headway.held() == TIGHT
        headway.post("/api/v1/jobs/render/release")
        headway.wait_job("render", "running")
        headway.wait(lambda: frame(headway) > 2, "the first frames")
        assert chat(headway, "chat").words.startswith("chat ")
        assert headway.job("render")["state"] == "parked"
        assert headway.held() == TIGHT
        headway.wait_job("render", "running")
    assert memory.most_bytes() == TIGHT
    assert all(len(held.by_pid) <= 1 for held in memory.trace)


def test_a_need_larger_than_the_card_is_said_at_once_and_stops_nobody(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), train("small", "4GiB", placement="share"), max_active_jobs=3))
    headway.wait_job("small", "running")
    before_it = headway.last_event()
    big = headway.post(
        "/api/v1/jobs", {"argv": ["sleep", "600"], "gpu": "30GiB", "name": "big", "driver": "restart"}
    )["id"]
    reason = waits_for(headway, big, "never_fits")
    assert (reason["facts"]["need_bytes"], reason["facts"]["devices"]) == (30 * GIB, {"sim0": 24 * GIB})
    assert "30 GiB" in reason["sentence"]
    assert "24 GiB" in reason["sentence"]
    assert chat(headway, "chat").words.startswith("chat ")
    headway.wait(lambda: headway.held() == 20 * GIB, "the model beside the small job")
    other = headway.post(
        "/api/v1/jobs", {"argv": ["true"], "gpu": "1GiB", "placement": "share", "driver": "restart"}
    )["id"]
    headway.wait_job(other, "done")
    assert headway.job(big)["state"] == "queued"
    asked = {event["holder"] for event in headway.events("move.asked", after=before_it)}
    assert asked == {"chat", other}, "nobody made room for what can never fit, and it kept nobody's place"


def test_a_service_whose_need_is_not_known_has_the_device_alone_until_it_was_measured(stack: Up) -> None:
    unknown = tiny("unknown", "1GiB", memory={})
    headway = up(stack, config(unknown, train("beside", "2GiB", placement="share")))
    job = headway.wait_job("beside", "running")["id"]
    headway.wait(lambda: headway.held() == 2 * GIB, "the job's memory")
    assert chat(headway, "unknown").words.startswith("unknown ")
    events = headway.events("move.asked", "release.verified", "move.done")
    seen = [(event["code"], event["holder"]) for event in events]
    asked = seen.index(("move.asked", "unknown"))
    assert seen.index(("release.verified", job)) < asked, "it was alone before it started"
    assert headway.service("unknown")["need_bytes"] is None
    assert headway.job(job)["state"] == "queued", "it may still grow"
    headway.post("/api/v1/services/unknown/hold")
    headway.wait_service("unknown", "stopped")
    headway.wait_job(job, "running")
    headway.post("/api/v1/services/unknown/release")
    assert headway.service("unknown")["need_bytes"] == GIB, "what it held is known from now on"
    table_knows(headway, "unknown", "stopped")
    assert chat(headway, "unknown").words.startswith("unknown ")
    headway.wait(lambda: headway.held() == 3 * GIB, "both at once")
    assert headway.job(job)["state"] == "running"


def test_a_job_whose_need_is_not_known_runs_alone(stack: Up) -> None:
    """It holds nothing while it runs, so nothing is learned, and nobody may join it."""
    headway = up(stack, config(sleeper("unknown", 3.0), train("small", "2GiB"), max_active_jobs=2))
    headway.wait_job("unknown", "running")
    alone = waits_for(headway, "small", "needs_alone")
    assert alone["facts"]["unknown"] == headway.job("unknown")["id"]
    assert headway.job("small")["state"] == "queued"
    headway.wait_job("unknown", "done")
    headway.wait_job("small", "running")
    again = headway.add("unknown")
    assert waits_for(headway, again, "needs_alone")["facts"]["holder"] == headway.job("small")["id"]


def test_memory_of_a_stranger_is_counted_named_and_never_touched(stack: Up, started: Started) -> None:
    headway = up(stack, config(tiny("chat"), train("train", "14GiB", hold=True), tiny("tight", "6GiB")))
    outside = stranger(started, headway, 12 * GIB)
    headway.wait(lambda: device(headway)["foreign_bytes"] == 12 * GIB, "a reading that counts it")
    assert device(headway)["strangers"] == [
        {
            "pid": outside.pid,
            "bytes": 12 * GIB,
            "name": psutil.Process(outside.pid).cmdline()[0].rpartition("/")[2],
        }
    ]
    headway.post("/api/v1/jobs/train/release")
    held = begin_chat(headway, "chat")
    for target in ("train", "chat"):
        blocked = waits_for(headway, target, "memory", "memory_now")
        assert (blocked["facts"]["outside_bytes"], blocked["facts"]["pids"]) == (12 * GIB, [outside.pid])
        assert f"pid {outside.pid} has 12 GiB" in blocked["sentence"]
    refused = chat(headway, "chat", {"X-Headway-Wait": "0.2"})
    assert (refused.status, refused.error["code"]) == (429, "wait_over")
    assert (refused.doc["outside_bytes"], refused.doc["pids"]) == (12 * GIB, [outside.pid])
    assert refused.doc["holder"]["activity"] == f"pid {outside.pid}"
    assert str(outside.pid) in refused.error["message"]
    assert chat(headway, "tight").words.startswith("tight "), "what fits beside the stranger is served"
    assert outside.poll() is None, "a stranger is never signalled"
    assert not held.done()
    clear(headway.reports, "sim0", outside.pid)
    assert held.result(60).words.startswith("chat ")


def unread(stack: Stack) -> None:
    """Take the reports away, and wait until the device is known to be unknown."""
    stack.reports.rename(stack.home / "reports.away")
    stack.wait(lambda: device(stack)["trouble"], "the trouble")


def read_again(stack: Stack) -> None:
    """Put the reports back."""
    if stack.reports.exists():  # programs that started meanwhile made it anew
        for report in stack.reports.iterdir():
            shutil.move(report, stack.home / "reports.away" / report.name)
        stack.reports.rmdir()
    (stack.home / "reports.away").rename(stack.reports)
    stack.wait(lambda: not device(stack)["trouble"], "a reading")


def alone_and_held(name: str) -> Entry:
    """A small job that waits for its release."""
    return train(name, "2GiB", hold=True)


def test_an_unreadable_device_starts_nothing_new_and_ends_nothing(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), render(), alone_and_held("next"), max_active_jobs=2))
    headway.wait_job("render", "running")
    headway.wait(lambda: frame(headway) > 2, "the first frames")
    unread(headway)
    assert device(headway)["free_bytes"] is None
    assert [trouble["code"] for trouble in headway.api("/api/v1/status")["troubles"]] == ["device_trouble"]
    headway.post("/api/v1/jobs/next/release")
    waits_for(headway, "next", "device_trouble", "reading_stale")
    stood_at = frame(headway)
    headway.wait(lambda: frame(headway) > stood_at + 20, "the running job goes on")
    assert headway.job("render")["state"] == "running"
    assert headway.job("next")["state"] == "queued"
    read_again(headway)
    headway.wait_job("next", "running")
    assert headway.job("render")["state"] == "running"


def test_a_model_comes_back_on_an_unreadable_device_when_it_is_provably_alone(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), train()))
    headway.wait_job("train", "running")
    headway.wait(lambda: headway.held() == 14 * GIB, "the job's memory")
    unread(headway)
    answer = chat(headway, "chat")
    assert answer.words.startswith("chat "), "its job's processes are gone, which is proof enough"
    done = {event["holder"]: event["id"] for event in headway.events("run.exit", "move.done")}
    assert done[headway.job("train")["id"]] < done["chat"], "the job was gone first"
    read_again(headway)
    headway.wait_job("train", "running")


def test_a_meter_that_hangs_is_replaced_and_nobody_is_disturbed(stack: Up) -> None:
    headway = up(stack, config(train(), sleeper("next", size="2GiB", hold=True), max_active_jobs=2))
    before = headway.wait_job("train", "running")
    meter = headway.pid("meter")
    os.kill(meter, signal.SIGSTOP)
    headway.wait(lambda: headway.events("meter.silent"), "the word that it is silent")
    headway.wait(lambda: headway.events("meter.speaks"), "another one")
    assert headway.pid("meter") != meter
    headway.post("/api/v1/jobs/next/release")
    headway.wait_job("next", "running")
    assert headway.job("train")["pid"] == before["pid"]


def test_a_parkable_job_is_ended_for_a_model_when_nobody_can_read_that_it_let_go(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), render()))
    headway.wait_job("render", "running")
    headway.wait(lambda: headway.held() == 12 * GIB, "the job's memory")
    assert chat(headway, "chat").words.startswith("chat "), (
        "one park that was measured: the next may take 10 s"
    )
    headway.wait_job("render", "running")
    headway.wait(lambda: headway.held() == 12 * GIB, "the job's memory")
    unread(headway)
    assert chat(headway, "chat").words.startswith("chat ")
    assert not headway.run_pids("render"), "a living process is no proof"
    read_again(headway)
    headway.wait_job("render", "running")
