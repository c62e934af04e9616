"""The walk that everything is about: a request finds its model aside, and the device changes hands and back."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from demo.jobs.train import saved_step
from demo.memory_watch import MemoryWatch
from demo.tiny_model import WORDS
from demo.tiny_server import recorded
from tests.e2e.api import Row
from tests.e2e.stack import PARTS, Stack
from tests.e2e.tables import Table, config, llama, render, tiny, train
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def in_order(events: list[Row], *steps: tuple[str, str, str | None]) -> None:
    """Assert that each (code, holder, form) happened, one after the other."""
    at = -1
    for number, (code, holder, form) in enumerate(steps):
        after = (
            at + 1 + later
            for later, event in enumerate(events[at + 1 :])
            if (event["code"], event["holder"]) == (code, holder)
            and form in (None, event["facts"].get("form"))
        )
        at = next(after, -1)
        assert at >= 0, f"no {code} of {holder} ({form}) after {steps[:number]} in {_short(events)}"


def _short(events: list[Row]) -> list[str]:
    return [f"{event['code']} {event['holder']} {event['facts'].get('form', '')}" for event in events]


def one_at_a_time(memory: MemoryWatch, device: str = "sim0") -> bool:
    """Whether each that held memory had let go of all of it before the next one took any."""
    return all(len(held.by_pid) <= 1 for held in memory.trace if held.device == device)


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text()) if path.exists() else 0


def steps(stack: Stack) -> int:
    return saved_step(stack.home / "train")


def test_a_held_request_is_answered_by_the_real_server_and_the_parked_job_goes_on(stack: Up) -> None:
    headway = stack(config(llama("chat"), render()))
    with MemoryWatch(headway.reports) as memory:
        before = headway.wait_job("render", "running")
        headway.wait(lambda: headway.held() == 12 * GIB and frame(headway) > 2, "the first frames")
        before_it = headway.last_event()
        answer = headway.ask("chat")
        stood_at = frame(headway)
        assert answer.error is None
        assert answer.text == WORDS
        assert headway.held() == 16 * GIB
        assert headway.job("render")["state"] == "parked"
        after = headway.wait_job("render", "running")
        headway.wait(lambda: frame(headway) > stood_at + 2, "further frames")
    assert (after["run"], after["pid"]) == (before["run"], before["pid"]), "the same process goes on"
    assert headway.job("render")["failures"] == 0

    job = before["id"]
    in_order(
        headway.events(after=before_it),
        ("move.asked", job, "parked"),
        ("release.verified", job, "parked"),
        ("move.asked", "chat", "awake"),
        ("move.done", "chat", "awake"),
        ("gate.open", "chat", None),
        ("gate.closed", "chat", None),
        ("release.verified", "chat", "stopped"),
        ("move.asked", job, "running"),
        ("move.done", job, "running"),
    )
    assert one_at_a_time(memory), "memory fell before the model was started, and again before the job went on"
    assert memory.most_bytes() == 16 * GIB
    (seen,) = headway.wait(lambda: headway.requests("chat"), "the request in the log")
    assert (seen["id"], seen["held"], seen["status"]) == (answer.id, True, 200)
    assert seen["waited_s"] == pytest.approx(answer.wait_s, abs=1.0)


def test_a_job_that_is_stopped_for_a_request_restarts_from_its_saved_point(stack: Up) -> None:
    headway = stack(config(llama("chat"), train()))
    with MemoryWatch(headway.reports) as memory:
        before = headway.wait_job("train", "running")
        headway.wait(lambda: steps(headway) >= 10, "a saved point")
        answer = headway.ask("chat")
        saved = steps(headway)
        assert answer.error is None
        assert answer.text == WORDS
        assert headway.job("train")["state"] == "queued"
        after = headway.wait_job("train", "running")
        headway.wait(lambda: steps(headway) > saved, "further saved points")
    assert after["run"] != before["run"]
    log = "\n".join(headway.api("/api/v1/jobs/train/log")["lines"])
    assert f"going on from step {saved} of" in log
    assert memory.most_bytes() == 16 * GIB
    assert not headway.events("memory.not_released", "move.failed", "job.failed")
    assert not (headway.home / "train" / "copies").exists(), "a second copy was started"


def test_a_job_that_fits_beside_the_model_is_left_alone(stack: Up) -> None:
    beside = train("beside", "6GiB", placement="share")
    headway = stack(config(tiny("chat"), beside, train("big", "14GiB", placement="share", hold=True)))
    job = headway.wait_job("beside", "running")
    assert headway.ask("chat").text.startswith("chat ")
    headway.wait(lambda: headway.held() == 22 * GIB, "both at once")
    headway.post("/api/v1/jobs/big/release")
    headway.wait(lambda: headway.job("big")["code"] not in ("held", "behind"), "a verdict")
    assert headway.job("big")["state"] == "queued"
    assert headway.job("beside")["state"] == "running"
    moves = [event["facts"]["form"] for event in headway.events("move.asked", holder=job["id"])]
    assert moves == ["running"], "it was never asked to move"
    assert headway.service("chat")["state"] == "awake"


def test_two_models_that_cannot_be_together_take_turns(stack: Up) -> None:
    switch_after = {"attended": 0.5, "background": 600}
    headway = stack(config(tiny("red"), tiny("blue"), switch_after=switch_after))
    with MemoryWatch(headway.reports) as memory:
        names = ["red", "blue"] * 10
        sent = [headway.send(name) for name in names]
        answers = [future.result(60) for future in sent]
        for name in ("red", "blue", "red"):
            answers.append(headway.ask(name))
    for name, answer in zip([*names, "red", "blue", "red"], answers, strict=True):
        assert answer.error is None
        assert answer.text.startswith(f"{name} {answer.id}"), "answered by the right one"
    for name in ("red", "blue"):
        wanted = sorted(a.id for a in answers if a.text.startswith(name))
        assert sorted(recorded(headway.home / f"{name}.record")) == wanted, "each sent once"
    assert memory.most_bytes() == 16 * GIB
    woke = [event["holder"] for event in headway.events("move.done")]
    assert len(woke) >= 4
    assert all(one != other for one, other in pairwise(woke)), "they take turns"
    assert len(headway.events("release.verified")) == len(woke) - 1


def test_a_model_over_two_devices_waits_for_both(stack: Up) -> None:
    jobs = (render(devices="sim0"), train(devices="sim1"))
    devices = ("sim0", "sim1")
    headway = stack(config(tiny("wide", devices="sim0,sim1"), *jobs, devices=devices))
    with MemoryWatch(headway.reports, ("sim0", "sim1")) as memory:
        ids = [headway.wait_job(name, "running")["id"] for name in ("render", "train")]
        headway.wait(
            lambda: (headway.held("sim0"), headway.held("sim1")) == (12 * GIB, 14 * GIB), "both jobs"
        )
        before_it = headway.last_event()
        assert headway.ask("wide").text.startswith("wide ")
        assert (headway.held("sim0"), headway.held("sim1")) == (16 * GIB, 16 * GIB)
        for name in ("render", "train"):
            headway.wait_job(name, "running")
    events = headway.events(after=before_it)
    for device, job in zip(devices, ids, strict=True):
        in_order(
            events,
            ("release.verified", job, None),
            ("move.asked", "wide", "awake"),
            ("release.verified", "wide", "stopped"),
            ("move.asked", job, "running"),
        )
        assert one_at_a_time(memory, device)
        assert memory.most_bytes(device) == 16 * GIB


def test_an_open_model_is_served_without_a_daemon_and_the_next_one_finds_all_as_it_was(stacks: Up) -> None:
    headway = stacks(config(tiny("chat"), train("train", "6GiB", placement="share")))
    headway.start_gate()
    headway.start_daemon()
    job = headway.wait_job("train", "running")
    assert headway.ask("chat").error is None
    before = headway.run_pids("chat"), headway.run_pids("train")
    assert all(before)
    headway.kill("daemon")
    assert headway.ask("chat").error is None
    headway.start_daemon()
    assert headway.wait_job("train", "running")["run"] == job["run"]
    assert (headway.run_pids("chat"), headway.run_pids("train")) == before
    assert headway.ask("chat").error is None
    assert not (headway.home / "train" / "copies").exists()


def test_all_parts_of_a_stack_are_found_and_ended(stacks: Up) -> None:
    headway = stacks(config(tiny("chat"), train()))
    headway.up()
    headway.wait_job("train", "running")
    headway.wait(lambda: headway.held() == 14 * GIB, "the job's memory")
    pids = [headway.pid(part) for part in PARTS]
    assert len(set(pids)) == len(PARTS)
    assert headway.run_pids("train") == list(headway.holding())
    headway.close()
    assert headway.held() == 0
    assert not any(headway.pids(part) for part in PARTS)
