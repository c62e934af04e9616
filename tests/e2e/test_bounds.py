"""What the gate answers when a request cannot be served now, and what never wakes a model."""

import json
from collections.abc import Callable

import pytest

from demo.tiny_server import recorded
from tests.e2e.loads import CHAT, Reply, begin_chat, call, chat, chat_body, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, tiny

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
BACKGROUND = {"X-Headway-Class": "background"}


def assert_openai_refusal(answer: Reply, status: int, code: str) -> None:
    """A refusal as OpenAI's clients read it, with when to come back."""
    assert (answer.status, answer.error["code"]) == (status, code), answer.text
    assert answer.headers["content-type"].startswith("application/json")
    assert isinstance(answer.error["message"], str) and answer.error["message"]
    assert set(answer.error) == {"message", "type", "param", "code"}
    if status in (429, 503):
        assert 1 <= int(answer.headers["retry-after"]) <= 900
    assert answer.headers["x-request-id"] == answer.id


def asked_of(stack: Stack, name: str) -> int:
    """How often a holder was asked to move."""
    return len(stack.events("move.asked", holder=name))


def test_bounds_of_waiting_are_refused_with_the_facts(stack: Up) -> None:
    # background requests do not park the job, so they wait for its memory as long as the test wants
    waits = {"attended": 90, "background": 2}
    headway = up(stack, config(tiny("chat", queue_max=2, max_wait=waits), render()))
    job = headway.wait_job("render", "running")

    # X-Headway-Wait: 0 is answered now
    now = chat(headway, "chat", {**BACKGROUND, "X-Headway-Wait": "0"})
    assert_openai_refusal(now, 429, "wait_over")
    assert now.took_s < 5
    assert now.doc["holder"]["activity"] == job["id"]
    assert now.doc["position"] == 1

    # the third of two places in the line
    held = [begin_chat(headway, "chat", BACKGROUND) for _ in range(2)]
    headway.wait(lambda: headway.service("chat")["waiting"] == 2, "two that wait")
    third = chat(headway, "chat", BACKGROUND)
    assert_openai_refusal(third, 429, "queue_full")
    assert third.doc["holder"]["activity"] == job["id"]
    assert third.doc["holder"]["note"] == "render"
    assert 0 <= third.doc["holder"]["held_s"] < 120
    assert third.doc["holder"]["preemptible"] is True
    assert third.doc["position"] == 3
    assert "render" in third.error["message"]

    # those two waited for the whole max_wait of their class
    for answer in (future.result(30) for future in held):
        assert_openai_refusal(answer, 429, "wait_over")
        assert answer.took_s >= 2
        assert answer.doc["holder"]["activity"] == job["id"]
        assert job["id"] in answer.error["message"]
    # a shorter bound of the caller's own
    own = chat(headway, "chat", {**BACKGROUND, "X-Headway-Wait": "0.3"})
    assert_openai_refusal(own, 429, "wait_over")
    assert 0.3 <= own.took_s < 2.3
    headway.wait(lambda: headway.service("chat")["waiting"] == 0, "nobody who waits")
    assert asked_of(headway, "chat") == 0
    assert headway.job("render")["state"] == "running"


def test_unknown_is_404_and_stopped_is_held(stack: Up) -> None:
    headway = up(stack, config(tiny("chat"), tiny("other", models=["m-1", "m-2"])))
    missing = chat(headway, "no-such-model")
    assert_openai_refusal(missing, 404, "model_not_found")
    assert missing.error["param"] == "model"
    assert missing.doc["known"] == ["chat", "m-1", "m-2"]
    assert_openai_refusal(call(headway, "/upstream/nobody/v1/models"), 404, "service_unknown")
    assert asked_of(headway, "chat") == asked_of(headway, "other") == 0
    assert chat(headway, "m-2").words.startswith("other "), "stopped, so it was held and started"
    bad = call(headway, CHAT, "POST", chat_body("chat"), {"X-Headway-Class": "royal"})
    assert bad.status == 400


def test_probes_never_wake_and_control_routes_are_refused(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    headway.wait_service("chat", "stopped")
    health = call(headway, "/upstream/chat/health")
    assert (health.status, health.headers["x-headway-state"]) == (200, "stopped")
    models = call(headway, "/v1/models")
    assert [(row["id"], row["state"]) for row in models.doc["data"]] == [("chat", "stopped")]
    assert [row["name"] for row in call(headway, "/api/tags").doc["models"]] == ["chat"]
    assert call(headway, "/upstream/chat/metrics").status == 503
    assert call(headway, "/health").status == 200
    assert call(headway, "/").status == 200
    assert call(headway, "/v1/models/chat").status == 200
    for path in ("/sleep", "/wake_up", "/v1/../collective_rpc", "/api/pull", "/models/unload"):
        for prefix in ("/upstream/chat", ""):
            refused = call(headway, prefix + path, "POST", {"model": "chat"})
            assert_openai_refusal_or_ollama(refused)
    assert asked_of(headway, "chat") == 0, "nothing of this woke it"
    assert headway.service("chat")["waiting"] == 0

    assert chat(headway, "chat").status == 200
    begun = recorded(headway.home / "chat.record")
    quiet_since = headway.wait(lambda: headway.service("chat")["quiet_s"], "its idle clock")
    assert call(headway, "/upstream/chat/health").doc == {"status": "ok"}, "awake, it passes through"
    assert call(headway, "/upstream/chat/stats").doc["name"] == "chat"
    assert call(headway, "/upstream/chat/sleep", "POST").status == 403
    assert recorded(headway.home / "chat.record") == begun
    assert headway.service("chat")["quiet_s"] >= quiet_since, "probes are no use of it"


def assert_openai_refusal_or_ollama(answer: Reply) -> None:
    """A control route: 403 in the shape of its API."""
    assert answer.status == 403, answer.text
    error = json.loads(answer.text)["error"]
    assert isinstance(error, str) or error["code"] == "control_route"


def test_a_failed_service_answers_503_at_once_and_not_for_ever(stack: Up) -> None:
    broken = tiny("broken", start=["false", "{port}"])
    headway = up(stack, config(broken, tiny("chat"), backoff_min=600, backoff_max=600))
    answer = chat(headway, "broken")
    assert_openai_refusal(answer, 503, "service_failed")
    row = headway.wait_service("broken", "failed")
    assert row["failures"] == 2
    again = chat(headway, "broken")
    assert_openai_refusal(again, 503, "service_failed")
    assert again.took_s < 5
    assert asked_of(headway, "broken") == 2, "backed off"
    health = call(headway, "/upstream/broken/health")
    assert (health.status, health.headers["x-headway-state"]) == (503, "failed")
    assert chat(headway, "chat").status == 200, "others are served"
