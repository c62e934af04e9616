"""The API over real sockets: what it shows, what reaches the loop, and what is refused how."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.api.web import Page
from headway.api.web import headers as headers_of
from headway.core.commands import (
    AddJob,
    Command,
    MoveJob,
    Reply,
    SetMode,
    SetProdOnly,
    SetWish,
    StartWindow,
    StopWindow,
)
from headway.core.past import Slice
from headway.errors import StoreFailed
from tests.parts.false_api import TRAIN, Clock, Served, made, serving, snapshot

pytestmark = pytest.mark.contract


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


# ---------------------------------------------------------------- reading


async def test_the_board_is_the_same_on_both_sockets(api: Served) -> None:
    local = await api.get("/api/v1/status")
    status, headers, body = await api.raw("GET", "/api/v1/status")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert headers["etag"] == f'"{api.server.parts.life}.7"'
    assert json.loads(body) == local
    assert [row["id"] for row in local["running"]] == ["j1"]
    assert [(row["id"], row["position"]) for row in local["queued"]] == [("j2", 1), ("j3", 2), ("j4", 3)]
    assert local["queued"][0]["why"] == "one at a time, and another runs"
    assert "SECRET" not in json.dumps(local)


READS = {
    "/api/v1/devices": lambda found: found == [],
    "/api/v1/services": lambda found: [row["id"] for row in found] == ["chat"],
    "/api/v1/services/chat": lambda found: found["state"] == "stopped",
    "/api/v1/jobs?state=running": lambda found: [row["id"] for row in found["jobs"]] == ["j1"],
    "/api/v1/jobs?limit=2": lambda found: found["next"] == "j2",
    "/api/v1/jobs?limit=2&after=j2": lambda found: [row["id"] for row in found["jobs"]] == ["j3", "j4"],
    "/api/v1/jobs/train": lambda found: found["id"] == "j1",
    "/api/v1/queue": lambda found: len(found["jobs"]) == 3,
    "/api/v1/holders/chat": lambda found: found["kind"] == "service",
    "/api/v1/why/j2": lambda found: found["sentence"] == "queued: one at a time, and another runs",
    "/api/v1/jobs/j1/log?lines=2": lambda found: found["lines"] == ["two", "three"] and found["run"] == "j1.1",
    "/api/v1/jobs/j2/log": lambda found: found["lines"] == [] and found["run"] is None,
    "/api/v1/history?after=2998": lambda found: [row["id"] for row in found] == [2999, 3000],
    "/api/v1/history?last=2": lambda found: [row["id"] for row in found] == [2999, 3000],
    "/api/v1/history?last=3&target=chat": lambda found: [row["id"] for row in found] == [2800, 2900, 3000],
    "/api/v1/history?last=40&target=chat": lambda found: len(found) == 30,
    "/api/v1/history?after=0&limit=1": lambda found: found[0]["time"] == "2001-09-09T01:46:41.000Z" and "at_s" not in found[0],
    "/api/v1/history?limit=1": lambda found: found[0]["sentence"] == "train (j1): done, ran for 60 s",
    "/api/v1/history?last=2&before=2999": lambda found: [row["id"] for row in found] == [2997, 2998],
    "/api/v1/history?before=3": lambda found: [row["id"] for row in found] == [1, 2],
    "/api/v1/history?last=2&code=job.failed&code=job.lost": lambda found: found == [],
    "/api/v1/requests?service=chat": lambda found: found == [{"id": 1, "service": "chat", "failed": False}],
    "/api/v1/requests?service=chat&failed=true": lambda found: found == [{"id": 1, "service": "chat", "failed": True}],
    "/api/v1/swaps": lambda found: [(row["to"], row["failed"], row["took_s"]) for row in found] == [("asleep", False, 1.5), ("awake", True, None)],
    "/api/v1/swaps?failed=true&last=5": lambda found: [row["id"] for row in found] == [9],
    "/api/v1/days?last=2": lambda found: [(row["day"], row["job_gpu_s"]) for row in found] == [("2026-05-30", 1800.0), ("2026-05-31", 1860.0)],
    "/api/v1/waiting": lambda found: found == {"requests": [], "more": 0},
    "/api/v1/holders/j1/runs": lambda found: found == [],
    "/api/v1/recipes": lambda found: [(row["name"], row["gpus"], row["placement"]) for row in found] == [("train", 1, "gap")],
    "/api/v1/timeline": lambda found: [(row["id"], row["begins_high_s"]) for row in found["spans"]][1:] == [("j2", None), ("j3", None), ("j4", None)] and found["more"] == 0,
    "/api/v1/outlook": lambda found: (found["jobs"], found["unknown"]) == (4, 4),
    "/api/v1/jobs?select=name=tw*": lambda found: [row["id"] for row in found["jobs"]] == ["j3", "j4"],
    "/healthz": lambda found: found["status"] == "ok",
    "/readyz": lambda found: found == {"status": "ok", "troubles": []},
    "/openapi.json": lambda found: "/api/v1/jobs/{target}/{verb}" in found["paths"],
}  # fmt: skip


@pytest.mark.parametrize(("path", "holds"), READS.items(), ids=READS.keys())
async def test_reading(api: Served, path: str, holds: Callable[[Any], bool]) -> None:
    found = await api.get(path)
    assert holds(found), found


@pytest.mark.parametrize(
    ("service", "known", "status"),
    [
        ("old", {"requests"}, 200),
        ("old", {"events"}, 200),
        ("old", set(), 404),
        ("chat", set(), 200),
        ("j1", {"events"}, 404),
    ],
)
async def test_what_is_known_of_a_service_that_is_gone_can_be_asked_for(
    api: Served, service: str, known: set[str], status: int
) -> None:
    """Also where nothing of it is on this page."""

    async def requests(asked: Slice) -> list[dict[str, Any]]:
        return [{"id": 1, "service": asked.about}] if "requests" in known and not asked.failed else []

    async def events(asked: Slice) -> list[dict[str, Any]]:
        return [{"id": 1}] if "events" in known else []

    api.reader.requests, api.reader.events = requests, events  # type: ignore[method-assign]
    for query in ("", "&failed=true"):
        assert (await api.raw("GET", f"/api/v1/requests?service={service}{query}"))[0] == status, query


async def test_programs_and_an_installation_without_a_page_get_plain_text(api: Served) -> None:
    for accept in ("*/*", "text/html,*/*;q=0.8"):
        status, headers, body = await api.raw("GET", "/", Accept=accept)
        assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert b"job eval: one at a time, and another runs" in body and b"npm run build" in body


async def test_a_browser_gets_the_page_before_anybody_knows_who_it_is(short_dir: Path) -> None:
    page = Page(b"<!doctype html><title>x</title>", headers_of("<script>1</script>"))
    async with serving(short_dir, read="token", page=page) as api:
        status, headers, body = await api.raw("GET", "/", Accept="text/html")
        assert (status, headers["content-type"], body) == (200, "text/html; charset=utf-8", page.html)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
        assert (await api.raw("GET", "/"))[0] == 401, "the board is not for everybody"


async def test_health_is_not_green_while_the_loop_is_stuck(api: Served) -> None:
    api.clock.at_s += 6.0
    for path in ("/healthz", "/readyz"):
        status, _, _ = await api.raw("GET", path)
        assert status == 503, path


async def test_not_ready_says_what_is_wrong(api: Served) -> None:
    api.hub.publish(snapshot(8, store_ok=False), {}, frozenset())
    status, _, body = await api.raw("GET", "/readyz")
    assert (status, [one["code"] for one in json.loads(body)["troubles"]]) == (503, ["store_silent"])


MISSING = {
    "no such job": ("/api/v1/jobs/nobody", 404, "not_found"),
    "a service is no job": ("/api/v1/jobs/chat", 404, "not_found"),
    "no such event": ("/api/v1/history?code=job.done&code=nonsense", 404, "not_found"),
    "a name two living ones have": ("/api/v1/jobs/twin", 409, "ambiguous"),
    "a group that says nothing": ("/api/v1/jobs?select=size=big", 422, "invalid"),
    "no such device": ("/api/v1/devices/gpu7", 404, "not_found"),
    "no such path": ("/api/v1/nothing", 404, "no_such_path"),
    "a parameter that nobody knows": ("/api/v1/jobs?limt=5", 422, "invalid"),
    "a parameter out of range": ("/api/v1/jobs?limit=0", 422, "invalid"),
}


@pytest.mark.parametrize(("path", "status", "code"), MISSING.values(), ids=MISSING.keys())
async def test_problems(api: Served, path: str, status: int, code: str) -> None:
    found, headers, body = await api.raw("GET", path)
    document = json.loads(body)
    assert (found, headers["content-type"]) == (status, "application/problem+json")
    assert (document["code"], document["status"], document["type"]) == (code, status, f"urn:headway:{code}")
    assert document["detail"]


# ---------------------------------------------------------------- changing

COMMANDS = {
    "a verb": ("/api/v1/jobs/j1/stop", {"reason": "lunch"}, SetWish(target="j1", verb="stop", by="ada", reason="lunch")),
    "a verb by name": ("/api/v1/jobs/train/wind_down", {}, SetWish(target="j1", verb="wind_down", by="ada")),
    "any holder": ("/api/v1/holders/chat/stop", {}, SetWish(target="chat", verb="stop", by="ada")),
    "a service": ("/api/v1/services/chat/hold", {}, SetWish(target="chat", verb="hold", by="ada")),
    "a service that is called": ("/api/v1/services/chat/wake", {}, SetWish(target="chat", verb="wake", by="ada")),
    "one that is sent to sleep": (
        "/api/v1/services/chat/sleep", {"reason": "lunch"},
        SetWish(target="chat", verb="sleep", by="ada", reason="lunch"),
    ),
    "mode": ("/api/v1/mode", {"mode": "shadow"}, SetMode(mode="shadow", by="ada")),
    "prod only": ("/api/v1/prod-only", {"on": True}, SetProdOnly(on=True, by="ada")),
    "a window": (
        "/api/v1/windows", {"kind": "no_model", "for_s": 60, "services": ["chat"]},
        StartWindow(kind="no_model", for_s=60.0, services=("chat",), wall_s=Clock().wall_s(), by="ada"),
    ),
    "the end of a window": ("/api/v1/windows/w1/stop", {}, StopWindow(target="w1", by="ada")),
    "move": (
        "/api/v1/queue/move", {"target": "eval", "where": "before", "other": "j4"},
        MoveJob(target="j2", where="before", other="j4", by="ada"),
    ),
    "a recipe": (
        "/api/v1/jobs", {"recipe": "train", "priority": 80, "after": ["eval"], "hold": True},
        AddJob(spec=replace(TRAIN, priority=80, after=("j2",)), recipe="train", hold=True, by="ada"),
    ),
    "a command": (
        "/api/v1/jobs", {"argv": ["echo", "hi"], "name": "hello", "gpu": "1GiB", "placement": "share"},
        AddJob(spec=replace(made({"name": "hello", "argv": ["echo", "hi"]}), placement="share"), by="ada"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "command"), COMMANDS.values(), ids=COMMANDS.keys())
async def test_commands_reach_the_loop(
    api: Served, path: str, body: dict[str, Any], command: Command
) -> None:
    reply = await api.post(path, body)
    assert api.inbox.given == [command]
    assert (reply["accepted"], reply["rev"]) == (True, 8)


async def test_an_accepted_job_says_where_it_is(api: Served) -> None:
    payload = json.dumps({"recipe": "train"}).encode()
    reader, writer = await asyncio.open_unix_connection(str(api.socket_path))
    writer.write(
        b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)
    )
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"location: /api/v1/jobs/j9\r\n" in answer.lower()


REFUSED = {
    # name: (path, body, what the loop answers, status, code)
    "refused by the loop": ("/api/v1/jobs/j1/retry", {}, Reply(accepted=False, code="not_ended", facts={}), 409, "not_ended"),
    "unknown to the loop": ("/api/v1/jobs/j1/stop", {}, Reply(accepted=False, code="not_found", facts={}), 404, "not_found"),
    "store silent": ("/api/v1/jobs/j1/stop", {}, Reply(accepted=False, code="store_silent", facts={}), 503, "store_silent"),
    "store failed": ("/api/v1/jobs/j1/stop", {}, StoreFailed("the disk is full. Free some."), 503, "store_failed"),
    "a bug": ("/api/v1/jobs/j1/stop", {}, RuntimeError("boom"), 500, "internal"),
    "no such recipe": ("/api/v1/jobs", {"recipe": "nope"}, None, 404, "not_found"),
    "recipe and command": ("/api/v1/jobs", {"recipe": "train", "argv": ["x"]}, None, 422, "invalid"),
    "a recipe has its own size": ("/api/v1/jobs", {"recipe": "train", "gpu": "1GiB"}, None, 422, "invalid"),
    "no size": ("/api/v1/jobs", {"argv": ["x"], "name": "x", "gpu": "lots"}, None, 422, "invalid_job"),
    "a size without unit": ("/api/v1/jobs", {"argv": ["x"], "name": "x", "gpu": "12"}, None, 422, "invalid_job"),
    "half a character": ("/api/v1/jobs", {"argv": ["x", "\ud800"]}, None, 422, "invalid"),
    "half a character in a name": ("/api/v1/jobs", {"argv": ["x"], "labels": {"\udcff": "x"}}, None, 422, "invalid"),
    "a NUL": ("/api/v1/jobs", {"argv": ["x"], "env": {"A": "x\0"}}, None, 422, "invalid"),
    "half a character as a reason": ("/api/v1/jobs/j1/hold", {"reason": "\ud83d"}, None, 422, "invalid"),
    "half a character as a target": ("/api/v1/select/hold", {"targets": ["\ud800"]}, None, 422, "invalid"),
    "half a character in a lease": ("/api/v1/leases", {"purpose": "\ud800"}, None, 422, "invalid"),
    "half a character in a claim": ("/api/v1/claims", {"match": "\ud800"}, None, 422, "invalid"),
    "half a character in a window": (
        "/api/v1/windows", {"kind": "no_model", "for_s": 1, "services": ["\ud800"]}, None, 422, "invalid"
    ),
    "unknown field": ("/api/v1/jobs", {"argv": ["x"], "nmae": "x"}, None, 422, "invalid"),
    "unknown verb": ("/api/v1/jobs/j1/explode", {}, None, 422, "invalid"),
    "waits for nobody": ("/api/v1/jobs", {"recipe": "train", "after": ["nobody"]}, None, 404, "not_found"),
    "before nobody": ("/api/v1/queue/move", {"target": "j2", "where": "before"}, None, 422, "invalid"),
    "no such mode": ("/api/v1/mode", {"mode": "loud"}, None, 422, "invalid"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "reply", "status", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_refusals(
    api: Served, path: str, body: dict[str, Any], reply: Reply | Exception | None, status: int, code: str
) -> None:
    if reply is not None:
        api.inbox.reply = reply
    error = await api.refused(path, body)
    assert (error.http_status, error.code) == (status, code)
    assert str(error).endswith(".")
    assert reply is not None or not api.inbox.given, "nothing reaches the loop"
