"""Windows and prod-only on a whole Headway: who goes, what clients are told, and who is there at the end."""

import time
from collections.abc import Callable

import pytest

from tests.e2e.loads import begin_chat, chat, cli, cli_json, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, sleeper, tiny
from tests.e2e.visits import Visit, program, wait_lease
from tests.parts.programs import GIB

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
OPEN_S = 12.0  # longer than a job's park and a model's start, with their margin


def says(headway: Stack, *words: str) -> str:
    done = cli(headway, *words)
    assert done.returncode == 0, f"headway {' '.join(words)}: {done.returncode}\n{done.stderr}"
    return done.stdout


def test_a_job_of_a_no_model_window_has_the_device_and_the_model_is_back_at_its_end(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), render(placement="window")))
    assert chat(headway, "chat").status == 200
    assert headway.wait_job("render", "queued")["code"] == "outside_window"
    before_it = headway.last_event()
    # twice: the first one measures how long everything takes, and lasts until it is told to end
    says(headway, "window", "start", "no_model", "--for", "10min", "chat")
    headway.wait_job("render", "running")
    refusal = chat(headway, "chat")
    assert (refusal.status, refusal.error["code"], refusal.doc["window"]) == (503, "no_model", "w1")
    assert 0 < int(refusal.headers["retry-after"]) <= 600
    background = chat(headway, "chat", {"x-headway-class": "background"})
    assert (background.status, background.error["code"]) == (503, "no_model")
    assert headway.job("render")["state"] == "running", "a refused request moves nobody"
    says(headway, "window", "stop")
    headway.wait_service("chat", "awake")
    assert chat(headway, "chat").status == 200
    assert headway.job("render")["state"] in ("parked", "queued")

    began_s = time.monotonic()
    says(headway, "window", "start", "no_model", "--for", f"{OPEN_S:g}s", "chat")
    headway.wait_job("render", "running")
    (row,) = cli_json(headway, "window", "ls")
    assert (row["state"], row["services"], row["ends_in_s"] <= OPEN_S) == ("open", ["chat"], True)
    headway.wait_service("chat", "awake", limit_s=10 * OPEN_S)
    took_s = time.monotonic() - began_s
    (began, ended) = (
        headway.events("window.added")[-1],
        headway.wait(lambda: headway.events("window.ended"), "its end")[-1],
    )
    awake = headway.events("move.done", holder="chat", after=began["id"])[-1]
    assert awake["id"] < ended["id"], "ready at the end, not after it"
    assert took_s > OPEN_S / 3, "and the job had its time"
    assert chat(headway, "chat").status == 200
    assert not headway.events("move.failed", "memory.not_released", after=before_it)


def test_a_request_under_way_is_answered_whole_before_the_window_takes_its_model(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", pinned=True)))
    headway.wait_service("chat", "awake")
    answer = begin_chat(headway, "chat", chunks=20, pace_s=0.1, stream=True)
    headway.wait(lambda: headway.service("chat")["active"] == 1, "a request in flight")
    says(headway, "window", "start", "no_model", "--for", "10min")
    reply = answer.result(60)
    assert reply.status == 200 and reply.text.endswith("data: [DONE]\n\n")
    headway.wait_service("chat", "stopped")
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")
    assert headway.wait_service("chat", "stopped")["code"] == "no_model", "pinned, and closed all the same"
    headway.wait(lambda: chat(headway, "chat").error["code"] == "no_model", "the refusal by the next daemon")
    says(headway, "window", "stop")
    headway.wait_service("chat", "awake")


def test_in_a_slow_wake_window_a_job_takes_the_place_of_a_quiet_model_and_gives_it_back(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), render(placement="window")))
    assert chat(headway, "chat").status == 200
    says(headway, "window", "start", "slow_wake", "--for", "10min")
    headway.wait_job("render", "running")
    headway.wait(lambda: headway.held() == 12 * GIB, "its memory")
    answer = chat(headway, "chat")
    assert answer.status == 200, "requests are answered in such a window"
    (seen,) = headway.wait(lambda: [r for r in headway.requests("chat") if r["id"] == answer.id], "its row")
    assert (seen["held"], seen["window"]) == (True, "slow_wake")
    headway.wait_job("render", "running")
    says(headway, "window", "stop")
    headway.wait_job("render", "parked", "queued")
    assert headway.job("render")["code"] == "outside_window"


def test_only_models_run_until_it_is_said_otherwise(stack: Up) -> None:
    headway = up(stack, config(tiny("chat", "8GiB"), sleeper("job", size="2GiB", placement="share")))
    first = headway.wait_job("job", "running")
    visit = Visit(headway, "run", "--gpu", "4GiB", "guest", "--", *program(headway, "4GiB", "--tells"))
    held = visit.command_pid()
    assert held
    says(headway, "prod-only", "on")
    headway.wait_job("job", "queued")
    headway.wait_service("chat", "awake")
    assert chat(headway, "chat").status == 200
    assert wait_lease(headway, "guest", "granted")["state"] == "granted" and "got" not in visit.printed
    second = Visit(headway, "run", "--gpu", "1GiB", "--wait", "forever", "second", "--", "true")
    assert wait_lease(headway, "second", "waiting")
    headway.wait(lambda: headway.api("/api/v1/leases/second")["code"] == "prod_only", "why it waits")
    added = says(headway, "add", "--gpus", "0", "--name", "cpu", "--", "true").strip()
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")
    headway.wait(lambda: headway.job("job")["code"] == "prod_only", "that it outlives a restart")
    assert headway.job(added)["code"] == "prod_only"
    says(headway, "prod-only", "off")
    again = headway.wait_job("job", "running")
    headway.wait_job(added, "done")
    assert again["run"] != first["run"] and second.ends() == 0
    visit.child.terminate()
    assert visit.ends() == 44


def test_a_queue_that_was_made_in_shadow_mode_runs_in_its_order_once_it_is_live(stack: Up) -> None:
    names = ["a", "b", "c"]
    headway = up(
        stack, config(tiny("chat"), *(sleeper(name, 0.2, "20GiB") for name in names)) | {"mode": "shadow"}
    )
    for name in names:
        headway.wait(lambda: headway.job(name)["code"] == "shadow", "shadow")  # noqa: B023
    says(headway, "move", "c", "--top")
    shown = [row["name"] for row in cli_json(headway, "ps", "-s", "queued")]
    assert shown == ["c", "a", "b"]
    says(headway, "mode", "live")
    for name in names:
        headway.wait_job(name, "done")
    ids = {headway.job(name)["id"]: name for name in names}
    asked = [e["holder"] for e in headway.events("move.asked") if e["facts"]["form"] == "running"]
    assert [ids[one] for one in asked] == shown, "the order shown is the order used"
