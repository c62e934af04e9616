"""Clients that leave before their answer, in every phase of a request."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.loads import Left, RecordWatch, begin_leaving, chat, leavers, server_stats, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, render, tiny

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
CLOSED_WITHIN_S = 1.0


def idle(stack: Stack, name: str = "chat") -> bool:
    """Nothing in flight and nobody waiting, says the API."""
    row = stack.service(name)
    return (row["active"], row["waiting"]) == (0, 0)


def assert_closed_in_time(left: list[Left], record: RecordWatch) -> None:
    """Each that reached the server was over there within a second of its client's leaving."""
    late = {
        one.id: over_s - one.at_s
        for one in left
        if one.id in record.ids("begin") and (over_s := record.over_s(one.id)) is not None
        and over_s - one.at_s > CLOSED_WITHIN_S
    }  # fmt: skip
    assert not late


def test_1000_clients_that_leave_at_random_phases_leave_nothing_behind(stack: Up) -> None:
    paced: dict[str, Any] = {"chunks": 30, "pace_s": 0.05}
    headway = up(stack, config(tiny("chat", "16GiB", "--start-delay", 1.0), render()))
    random_ = random.Random(1000)
    job = headway.wait_job("render", "running")["id"]
    with RecordWatch(headway.home / "chat.record") as record:
        # while others hold the memory: background requests do not park the job
        held = begin_leaving(headway, "chat", leavers(250, 1.5, random_, background=True), at_once=250)
        headway.wait(lambda: headway.service("chat")["waiting"] >= 10, "some that are held")
        left = held.result(60)
        headway.wait(lambda: idle(headway), "the last held one's place to be free")
        headway.post(f"/api/v1/jobs/{job}/cancel")
        headway.wait_job(job, "cancelled")
        rev = headway.api("/api/v1/status")["rev"]
        headway.wait(lambda: headway.api("/api/v1/status")["rev"] > rev + 3, "some more turns")
        assert not headway.events("move.asked", holder="chat"), "those that left woke nothing"
        assert headway.service("chat")["state"] == "stopped"
        # while the server starts for them, in prefill, and in the middle of the answer
        waking = begin_leaving(headway, "chat", leavers(150, 2.5, random_, **paced), at_once=150)
        headway.wait_service("chat", "starting")
        left += waking.result(60)
        headway.wait_service("chat", "awake")
        left += begin_leaving(headway, "chat", leavers(600, 1.2, random_, **paced), at_once=60).result(60)
        headway.wait(lambda: idle(headway), "nothing in flight")
        headway.wait(
            lambda: record.ids("begin") == record.ids("end") | record.ids("gone"), "every call closed"
        )
        stats = headway.wait(
            lambda: (now := server_stats(headway, "chat"))["in_flight"] == 0 and now, "no call"
        )
        last = chat(headway, "chat")
    assert len({one.id for one in left}) == 1000
    begun = record.ids("begin")
    assert stats["began"] + 1 == len(begun)
    assert not record.twice
    assert not begun & {one.id for one in left[:250]}, "one that left while it was held is never sent"
    assert 300 < len(begun) < 750, "they left in every phase"
    assert len(record.ids("gone")) > 300
    assert any(one.got_bytes for one in left[400:])
    assert any(not one.got_bytes for one in left[400:])
    assert_closed_in_time(left, record)
    assert last.words.startswith(f"chat {last.id}"), "and the next one is answered"
    headway.wait(lambda: len(headway.requests("chat")) == 1001, "the log")
    ended = {row["id"]: row["ended"] for row in headway.requests("chat")}
    assert ended.keys() == {one.id for one in left} | {last.id}
    assert {ended[one.id] for one in left if not one.whole} == {"client_gone"}
    headway.wait_job(headway.add("render"), "running")  # a wrong count would keep the memory for ever
    assert headway.service("chat")["state"] == "stopped"
