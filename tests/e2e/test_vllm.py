"""vLLM behind the whole stack: it sleeps in the gaps, a request wakes it, and one that lies is stopped."""

from collections.abc import Callable
from typing import Any

import pytest

from demo.memory_watch import MemoryWatch
from demo.tiny_server import recorded
from tests.e2e.kills import linked, rendering, talk
from tests.e2e.loads import call
from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Entry, Table, config, python, render
from tests.e2e.test_walk import in_order
from tests.parts.programs import GIB, ROOT

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
SLEEP, WAKE = "/sleep?level=1&mode=wait", "/wake_up"


def vllm(name: str, *options: object, **more: Any) -> Entry:
    """A fake vLLM of 16 GiB that keeps one asleep. It notes requests and orders in `{home}/NAME.record`."""
    words = ["--port", "{port}", "--served-model-name", name, "--enable-sleep-mode"]
    words += ["--record", f"{{home}}/{name}.record", "--reports", "{home}/reports"]
    words += ["--bytes", "16GiB", "--residue", "1GiB", "--total", "24GiB"]
    table = {
        "driver": "vllm",
        "start": python("tests.parts.fake_vllm", *words, *options),
        "cwd": str(ROOT),
        "env": {"VLLM_SERVER_DEV_MODE": "1"},
        "devices": ["sim0"],
        "memory": {"awake": "16GiB", "asleep": "1GiB"},
    }
    return Entry("service", name, {**table, **more})


def asked(stack: Stack, chunks: int = 3) -> None:
    """One request, answered to its last word by the right server."""
    answer = talk(stack, chunks=chunks)[1].result(LIMIT_S)
    assert answer.right, answer


def orders(stack: Stack) -> list[str]:
    return recorded(stack.home / "chat.record", "call")


def probed(stack: Stack) -> None:
    """A sleeper answers what does not wake it, in its own words; the rest is the gate's."""
    moves = len(stack.events("move.asked"))
    found = {path: call(stack, f"/upstream/chat{path}") for path in ("/health", "/v1/models", "/metrics")}
    assert {path: answer.status for path, answer in found.items()} == dict.fromkeys(found, 200)
    assert found["/v1/models"].doc["data"][0]["owned_by"] == "vllm"
    assert 'sleep_state="awake"' in found["/metrics"].text
    assert not any("x-headway-state" in answer.headers for answer in found.values())
    assert call(stack, "/upstream/chat/is_sleeping").error["code"] == "service_aside"
    assert stack.service("chat")["state"] == "asleep" and len(stack.events("move.asked")) == moves


@pytest.mark.parametrize("level", [1, 2])
def test_a_gap_job_runs_while_it_sleeps_and_a_request_wakes_it(stack: Up, level: int) -> None:
    headway = stack(config(vllm("chat", sleep_level=level), render()))
    linked(headway, "chat")
    with MemoryWatch(headway.reports) as memory:
        job = rendering(headway)
        asked(headway)
        headway.wait_service("chat", "asleep")
        server = headway.service("chat")["pid"]
        headway.wait_job("render", "running")
        headway.wait(lambda: headway.held() == 13 * GIB, "the job beside the sleeper's residue")
        probed(headway)
        before_it = headway.last_event()
        asked(headway)
        assert headway.service("chat")["pid"] == server, "the same process woke"
        headway.wait_service("chat", "asleep")
        assert rendering(headway) == job, "the job was parked, not stopped"
    name = headway.job("render")["id"]
    in_order(
        headway.events(after=before_it),
        ("move.asked", name, "parked"),
        ("release.verified", name, "parked"),
        ("move.asked", "chat", "awake"),
        ("move.done", "chat", "awake"),
        ("gate.open", "chat", None),
        ("gate.closed", "chat", None),
        ("move.asked", "chat", "asleep"),
        ("release.verified", "chat", "asleep"),
        ("move.asked", name, "running"),
    )
    assert memory.most_bytes() == 16 * GIB
    sleep = SLEEP.replace("level=1", f"level={level}")
    wake = [WAKE] if level == 1 else [f"{WAKE}?tags=weights", "/collective_rpc", f"{WAKE}?tags=kv_cache"]
    assert orders(headway)[: 1 + len(wake)] == [sleep, *wake]
    assert recorded(headway.home / "chat.record", "asleep") == []
    assert not headway.events("memory.not_released", "move.failed", "service.died")


def test_one_that_says_it_sleeps_and_keeps_its_memory_is_stopped_before_the_job_starts(stack: Up) -> None:
    headway = stack(config(vllm("chat", "--trap", "keeps", sleep_limit=2), render(hold=True)))
    linked(headway, "chat")
    asked(headway)
    with MemoryWatch(headway.reports) as memory:
        headway.post("/api/v1/jobs/render/release")
        headway.wait_service("chat", "sleeping")
        headway.wait(lambda: headway.api("/api/v1/why/chat")["code"] == "not_released", "the shortfall")
        headway.wait_job("render", "running")
        headway.wait(lambda: headway.held() == 12 * GIB, "the job's memory")
    assert headway.service("chat")["state"] == "stopped"
    assert all(len(held.by_pid) <= 1 for held in memory.trace)
    (told,) = headway.events("memory.not_released")
    assert (told["holder"], told["facts"]["form"], orders(headway)) == ("chat", "asleep", [SLEEP])
    rungs = [(e["facts"]["form"], e["facts"]["rung"]) for e in headway.events("move.asked", holder="chat")]
    assert rungs[-2:] == [("asleep", 0), ("stopped", 1)]
    asked(headway)  # and it comes back by a start


def test_one_that_cannot_be_asked_to_sleep_is_stopped_at_once_and_the_reason_is_told(stack: Up) -> None:
    headway = stack(config(vllm("chat", env={}), render()))
    linked(headway, "chat")
    asked(headway)
    headway.wait_job("render", "running")
    (failed,) = headway.events("move.failed", holder="chat")
    assert "--enable-sleep-mode" in failed["facts"]["message"]
    assert headway.service("chat")["state"] == "stopped"
    asked(headway)


def test_one_that_fails_to_wake_is_tried_once_more_and_then_started_anew(stack: Up) -> None:
    headway = stack(config(vllm("chat", "--trap", "wake-fails"), render()))
    linked(headway, "chat")
    asked(headway)
    headway.wait_service("chat", "asleep")
    first = headway.service("chat")["pid"]
    rendering(headway)
    asked(headway)
    assert headway.service("chat")["pid"] != first
    reasons = [event["facts"]["reason"] for event in headway.events("move.failed", holder="chat")]
    assert reasons == ["driver_failed"] * 2
    assert orders(headway)[:3] == [SLEEP, WAKE, WAKE]


def test_one_that_dies_in_its_sleep_is_started_for_the_next_request(stack: Up) -> None:
    headway = stack(config(vllm("chat", "--trap", "dies-asleep"), render()))
    linked(headway, "chat")
    asked(headway)
    headway.wait_service("chat", "stopped")
    rendering(headway)
    asked(headway)
