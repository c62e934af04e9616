"""Everything that many callers could make grow has an end, and is answered with what to do then."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.api.bounds import bounds
from headway.api.limits import CALLERS_MAX, RATE_BURST, RATE_PER_S, Rates, TooFast
from headway.api.reference import reference
from headway.core import wishes
from headway.core.commands import AddJob
from headway.core.draft import Draft
from headway.core.lease_wishes import LINE_MAX
from headway.core.model import Snapshot
from tests.core.make import job_spec
from tests.parts.false_api import Served, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

LIMIT_S = 20.0


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


async def refused(api: Served, path: str = "/api/v1/status", **headers: str) -> tuple[int, str, float, str]:
    """Status, code, seconds to wait, and the media type of a refusal."""
    status, said, body = await api.raw("GET", path, **headers)
    found = json.loads(body)
    return status, found["code"], found["retry_after_s"], said["content-type"]


PROBLEM = "application/problem+json"


async def test_who_asks_too_fast_waits_and_nobody_else_does(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.limits.RATE_BURST", 3.0)
    made = await api.post("/api/v1/tokens", {"name": "ci", "scopes": ["read"]})
    for _ in range(3):
        assert (await api.raw("GET", "/api/v1/status"))[0] == 200
    assert await refused(api) == (429, "too_fast", 0.005, PROBLEM)
    assert (await api.raw("GET", "/api/v1/status", Authorization=f"Bearer {made['token']}"))[0] == 200
    assert (await api.get("/api/v1/status"))["mode"]  # this machine's own user, by the socket
    api.clock.at_s += 1.5 / RATE_PER_S
    assert (await api.raw("GET", "/api/v1/status"))[0] == 200
    assert (await refused(api))[1] == "too_fast"


def test_a_burst_then_so_many_a_second_however_long() -> None:
    rates, asked = Rates(), 0
    for tenth in range(100):
        for _ in range(1000):
            try:
                rates.take("ci", tenth / 10)
            except TooFast:
                continue
            asked += 1
    assert asked == RATE_BURST + 9.9 * RATE_PER_S


def test_callers_that_come_and_go_are_not_remembered_for_ever() -> None:
    rates = Rates()
    for n in range(3 * CALLERS_MAX):
        rates.take(f"token {n}", 0.0)
    assert len(rates._left) <= CALLERS_MAX


async def test_viewers_are_limited_and_one_that_leaves_makes_room(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.routes.history.VIEWERS_MAX", 2)
    writers = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"event: snapshot"), LIMIT_S)
        writers.append(writer)
    status, code, wait_s, media = await refused(api, "/api/v1/events")
    assert (status, code, media) == (503, "busy", PROBLEM) and wait_s > 0
    writers[0].close()
    await wait_until(lambda: len(api.server.parts.viewers) == 1, LIMIT_S, "its end")
    writers[1].close()
    await wait_until(lambda: not api.server.parts.viewers, LIMIT_S, "both ends")


async def test_more_requests_at_a_time_than_there_is_room_for_are_told_so(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.door.UNDER_WAY_MAX", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b"event: snapshot"), LIMIT_S)
    assert (await refused(api))[:2] == (503, "busy")
    assert (await api.get("/api/v1/status"))["mode"]
    writer.close()
    await wait_until(lambda: not api.server.parts.viewers, LIMIT_S, "its end")
    assert (await api.raw("GET", "/api/v1/status"))[0] == 200


def test_a_queue_that_is_full_takes_no_more_until_some_are_gone() -> None:
    entries = tuple((float(n), f"j{n}") for n in range(wishes.QUEUE_MAX - 2))
    s = Snapshot(now_s=0.0, queue={"gpu": entries, "held": ((1.0, "h1"),)}, next_job=10**6)
    draft = Draft(s, 0.0)
    codes = [wishes.apply(draft, AddJob(spec=job_spec(), by="ada")).code for _ in range(3)]
    assert codes == ["accepted", "queue_full", "queue_full"]


def test_every_bound_is_in_the_reference_as_the_code_has_it() -> None:
    text = reference()
    rows = bounds()
    assert len(rows) > 10 and all(f"| {what} | {limit} | {then} |" in text for what, limit, then in rows)
    said = {what: limit for what, limit, _ in rows}
    assert said["leases that wait"] == str(LINE_MAX)
