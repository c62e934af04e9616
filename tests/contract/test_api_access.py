"""Who is let in over TCP, and to what: tokens with scopes, the PIN and its session, tickets, and the closed default."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import APIRouter

from headway.api import app as app_module
from headway.api.access import COOKIE, Access
from headway.api.app import ROUTERS, routes_of
from headway.api.auth import READING, Unknown, needs
from headway.api.door import OPEN_BODY_MAX_BYTES, needs_of
from headway.api.limits import FREE_TRIES, TooMany, Tries
from headway.core import wire
from headway.core.commands import SetWish
from headway.errors import StoreFailed
from headway.gate.callers import check_caller
from headway.gate.heads import RequestHead
from headway.ports import Kept
from headway.store.store import SqliteStore
from tests.parts.false_api import Served, serving

pytestmark = pytest.mark.contract

STOP, LOG = "/api/v1/jobs/j1/stop", "/api/v1/jobs/j1/log"
PIN = "correct horse"


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        yield served


async def token(api: Served, *scopes: str, name: str = "t", **fields: Any) -> str:
    made = await api.post("/api/v1/tokens", {"name": name, "scopes": list(scopes), **fields})
    return str(made["token"])


async def asked(
    api: Served, verb: str, path: str, payload: Any = None, **headers: str
) -> tuple[int, str | None]:
    """Status and code of an answer over TCP."""
    status, _, body = await api.raw(verb, path, payload, **headers)
    found = json.loads(body) if body else {}
    return status, found.get("code") if isinstance(found, dict) and status >= 400 else None


async def let_in(api: Served, payload: dict[str, str]) -> tuple[str, str, str]:
    """Cookie, CSRF word and the whole Set-Cookie of a new session."""
    status, headers, body = await api.raw("POST", "/api/v1/session", payload)
    assert status == 201, body
    said = headers["set-cookie"]
    return said.partition(";")[0], str(json.loads(body)["csrf"]), said


# ---------------------------------------------------------------- closed by default


@pytest.mark.parametrize("route", routes_of(ROUTERS), ids=lambda one: f"{min(one.methods)} {one.path}")
async def test_without_a_token_only_looking_is_open(api: Served, route: Any) -> None:
    ((method, need, _),) = needs_of(route)
    path = route.path.replace("{verb}", "stop").replace("{name:path}", "gpu0")
    path = path.replace("{target}", "j1").replace("{name}", "chat")
    if method in READING:
        assert need in ("look", "read", "admin", "open")
    else:
        assert need not in ("look", "read") or path == "/api/v1/session"
    if need in ("look", "open"):
        return
    assert await asked(api, method, path) == (401, "token_missing")
    assert not api.inbox.given


FRESH = APIRouter()


@FRESH.post("/api/v1/fresh")
async def change() -> dict[str, bool]:
    return {"changed": True}


@FRESH.put("/api/v1/fresh", openapi_extra=needs("lease"))
async def change_leases() -> dict[str, bool]:
    return {"changed": True}


async def test_a_route_that_says_nothing_needs_control(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "ROUTERS", (*ROUTERS, SimpleNamespace(router=FRESH)))
    async with serving(short_dir) as api:
        submit, control = await token(api, "submit"), await token(api, "control", name="c")
        lease = await token(api, "lease", name="l")
        for verb, secret, status in (
            ("POST", submit, 403), ("POST", control, 200), ("PUT", control, 403), ("PUT", lease, 200),
        ):  # fmt: skip
            assert (await asked(api, verb, "/api/v1/fresh", Authorization=f"Bearer {secret}"))[0] == status
        assert await asked(api, "POST", "/api/v1/fresh") == (401, "token_missing")


# ---------------------------------------------------------------- tokens

COMMAND = {"argv": ["echo"], "name": "x"}
SCOPES = {
    # name: (scopes, verb, path, body, status)
    "control stops": (["control"], "POST", STOP, None, 202),
    "read does not": (["read"], "POST", STOP, None, 403),
    "submit does not": (["submit"], "POST", STOP, None, 403),
    "read sees logs": (["read"], "GET", LOG, None, 200),
    "control sees none": (["control"], "GET", LOG, None, 403),
    "submit adds a recipe": (["submit"], "POST", "/api/v1/jobs", {"recipe": "train"}, 202),
    "control adds none": (["control"], "POST", "/api/v1/jobs", {"recipe": "train"}, 403),
    "submit adds no command": (["submit"], "POST", "/api/v1/jobs", COMMAND, 403),
    "exec alone adds none": (["exec"], "POST", "/api/v1/jobs", COMMAND, 403),
    "submit with exec does": (["submit", "exec"], "POST", "/api/v1/jobs", COMMAND, 202),
    "admin does all": (["admin"], "POST", "/api/v1/jobs", COMMAND, 202),
    "admin sees tokens": (["admin"], "GET", "/api/v1/tokens", None, 200),
    "nobody else does": (["read", "submit", "lease", "control", "exec"], "GET", "/api/v1/tokens", None, 403),
    "everybody looks": (["lease"], "GET", "/api/v1/status", None, 200),
}  # fmt: skip


@pytest.mark.parametrize(("scopes", "verb", "path", "body", "status"), SCOPES.values(), ids=SCOPES.keys())
async def test_scopes(api: Served, scopes: list[str], verb: str, path: str, body: Any, status: int) -> None:
    secret = await token(api, *scopes)
    found = await asked(api, verb, path, body, Authorization=f"Bearer {secret}")
    assert found == (status, "scope_missing" if status == 403 else None)
    assert bool(api.inbox.given) == (status == 202)


async def test_the_audit_names_the_token(api: Served) -> None:
    secret = await token(api, "control", name="ci")
    await asked(api, "POST", STOP, Authorization=f"Bearer {secret}")
    assert api.inbox.given == [SetWish(target="j1", verb="stop", by="token ci")]


NO_TOKENS = {
    "unknown": "Bearer hw_0123",
    "empty": "Bearer ",
    "only the scheme": "Bearer",
    "nothing": "",
    "another scheme": "Basic aHc6aHc=",
    "an odd byte": "Bearer hw_\xe9",
}


@pytest.mark.parametrize("said", NO_TOKENS.values(), ids=NO_TOKENS.keys())
async def test_what_is_no_token_is_refused_even_for_looking(api: Served, said: str) -> None:
    assert await asked(api, "GET", "/api/v1/status", Authorization=said) == (401, "token_unknown")


async def test_wrong_tokens_are_limited_and_right_ones_never(api: Served) -> None:
    secret = await token(api, "control")
    codes = [await asked(api, "POST", STOP, Authorization="Bearer hw_x") for _ in range(FREE_TRIES + 1)]
    assert codes == [(401, "token_unknown")] * FREE_TRIES + [(429, "too_many_tries")]
    status, headers, body = await api.raw("POST", STOP, Authorization="Bearer hw_x")
    assert (status, headers["retry-after"], json.loads(body)["retry_after_s"]) == (429, "60", 60.0)
    assert (await asked(api, "POST", STOP, Authorization=f"Bearer {secret}"))[0] == 202
    api.clock.at_s += 61
    assert await asked(api, "POST", STOP, Authorization="Bearer hw_x") == (401, "token_unknown")


async def test_a_whole_number_is_one_however_it_is_written(api: Served) -> None:
    for n, value in enumerate((4, 4.0)):
        made = await api.post("/api/v1/tokens", {"name": f"t{n}", "scopes": ["read"], "priority_max": value})
        assert made["row"]["priority_max"] == 4
    for wrong in (True, "4", 4.5):
        body = {"name": "t", "scopes": ["read"], "priority_max": wrong}
        assert (await api.refused("/api/v1/tokens", body)).code == "invalid"


async def test_a_revoked_token_and_one_that_expired_are_unknown(api: Served) -> None:
    first = await token(api, "control", name="one")
    second = await token(api, "control", name="two", expires_in_s=60)
    await asyncio.to_thread(api.local.delete, "/api/v1/tokens/one")
    assert await asked(api, "POST", STOP, Authorization=f"Bearer {first}") == (401, "token_unknown")
    assert (await asked(api, "POST", STOP, Authorization=f"Bearer {second}"))[0] == 202
    api.clock.wall += 61
    assert await asked(api, "POST", STOP, Authorization=f"Bearer {second}") == (401, "token_unknown")
    assert [row["name"] for row in await api.get("/api/v1/tokens")] == ["two"]
    assert (await api.refused("/api/v1/tokens", {"name": "two", "scopes": ["read"]})).code == "name_taken"


async def test_the_secret_is_nowhere_and_its_token_survives_a_restart(short_dir: Path) -> None:
    file = short_dir / "headway.db"
    store = SqliteStore(file)
    async with serving(short_dir, keeper=store) as api:
        secret = await token(api, "control")
        assert secret not in json.dumps(await api.get("/api/v1/tokens"))
    await store.close()
    assert all(secret.encode() not in one.read_bytes() for one in short_dir.glob("headway.db*"))
    again = SqliteStore(file)
    async with serving(short_dir, keeper=again) as api:
        assert (await asked(api, "POST", STOP, Authorization=f"Bearer {secret}"))[0] == 202
    await again.close()


class Full:
    """Implements ports.Keeper on a disk that is full."""

    def kept(self) -> Sequence[Kept]:
        return ()

    async def keep(self, put: Sequence[Kept] = (), gone: Sequence[tuple[str, str]] = ()) -> None:
        raise StoreFailed("the disk is full. Free some.")


async def test_what_could_not_be_saved_does_not_exist(short_dir: Path) -> None:
    async with serving(short_dir, keeper=Full()) as api:
        assert (await api.refused("/api/v1/tokens", {"name": "t", "scopes": ["read"]})).code == "store_failed"
        assert await api.get("/api/v1/tokens") == []


async def test_the_gate_knows_callers_by_the_same_token(api: Served) -> None:
    secret = await token(api, "read", name="ci", **{"class": "background", "priority_max": 20})
    tokens = api.access.tokens.for_gates()
    assert secret not in wire.encode(wire.Table(wire.PROTO, "d", {}, tokens=tokens)).decode()
    head = RequestHead("POST", b"/v1/chat/completions", 1)
    head.fields[b"authorization"] = f"Bearer {secret}".encode()
    caller = check_caller(head, tokens, "127.0.0.1", token_needed=True)
    assert (caller.client, caller.class_, caller.priority, caller.ours) == ("ci", "background", 20, True)


# ---------------------------------------------------------------- nothing is open by accident


async def test_reading_can_be_closed(short_dir: Path) -> None:
    async with serving(short_dir, read="token") as api:
        reader, other = await token(api, "read"), await token(api, "lease", name="l")
        assert await asked(api, "GET", "/api/v1/status") == (401, "token_missing")
        assert await asked(api, "GET", "/api/v1/events") == (401, "token_missing")
        assert (await asked(api, "GET", "/healthz"))[0] == 200
        assert (await asked(api, "GET", "/api/v1/status", Authorization=f"Bearer {reader}"))[0] == 200
        assert (await asked(api, "GET", "/api/v1/status", Authorization=f"Bearer {other}"))[0] == 403
        assert (await api.get("/api/v1/status"))["mode"]


async def test_an_empty_admin_token_is_closed(api: Served) -> None:
    for empty in (None, ""):
        access = Access(SqliteStore(":memory:"), api.clock, admin_token=empty)
        for said in ("Bearer ", "Bearer", "Bearer None"):
            with pytest.raises(Unknown):
                access.peer({"authorization": said})
    assert (
        Access(SqliteStore(":memory:"), api.clock, admin_token="hw_1")
        .peer({"authorization": "Bearer hw_1"})
        .admin
    )


async def test_a_token_does_not_excuse_a_foreign_page(api: Served) -> None:
    secret = await token(api, "admin")
    found = await asked(api, "POST", STOP, Authorization=f"Bearer {secret}", Origin="http://evil.example")
    assert found == (403, "foreign_origin")
    assert await asked(api, "POST", STOP, Origin="http://[", Host="[::1") == (403, "foreign_host")


async def test_a_body_that_is_too_large_is_not_read(api: Served) -> None:
    who = f"Bearer {await token(api, 'control')}"
    found = await asked(api, "POST", "/api/v1/mode", Content_Length=str(33 << 20), Authorization=who)
    assert found == (413, "too_large")
    found = await asked(api, "POST", "/api/v1/session", Content_Length=str(OPEN_BODY_MAX_BYTES + 1))
    assert found == (413, "too_large")  # nobody needs to say who it is there
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(
        b"POST /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: %b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % who.encode()
    )
    piece = b" " * (1 << 20)
    for _ in range(32):
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    writer.write(
        b"1\r\n "
    )  # the byte too much, and nothing behind it: what is unread at a close may cost the answer
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")


# ---------------------------------------------------------------- the PIN


async def test_a_page_with_the_pin_changes_what_it_likes_and_no_tokens(api: Served) -> None:
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    cookie, csrf, said = await let_in(api, {"pin": PIN})
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(said.split("; "))
    both = {"Cookie": f"other=1; {cookie}", "X_CSRF_Token": csrf}
    assert (await asked(api, "POST", STOP, **both))[0] == 202
    assert (await asked(api, "POST", "/api/v1/jobs", COMMAND, **both))[0] == 202
    assert (await asked(api, "GET", LOG, Cookie=cookie))[0] == 200
    assert await asked(api, "GET", "/api/v1/tokens", **both) == (403, "scope_missing")
    _, _, body = await api.raw("GET", "/api/v1/session", Cookie=cookie)
    assert json.loads(body)["via"] == "pin" and csrf not in body.decode()
    assert api.inbox.given[0] == SetWish(target="j1", verb="stop", by="page")
    assert (await asked(api, "DELETE", "/api/v1/session", **both))[0] == 204
    assert await asked(api, "POST", STOP, **both) == (401, "token_missing")


async def test_a_change_of_a_page_needs_its_csrf_word(api: Served) -> None:
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    cookie, _, _ = await let_in(api, {"pin": PIN})
    for wrong in ({}, {"X_CSRF_Token": ""}, {"X_CSRF_Token": "0" * 32}):
        assert await asked(api, "POST", STOP, Cookie=cookie, **wrong) == (403, "csrf")
    assert not api.inbox.given


async def test_wrong_pins_are_counted_as_they_come_and_then_right_ones_wait_too(api: Served) -> None:
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    many = await asyncio.gather(*(asked(api, "POST", "/api/v1/session", {"pin": "x"}) for _ in range(9)))
    assert sorted(many) == [(401, "pin_wrong")] * FREE_TRIES + [(429, "too_many_tries")] * (9 - FREE_TRIES)
    assert await asked(api, "POST", "/api/v1/session", {"pin": PIN}) == (429, "too_many_tries")
    api.clock.at_s += 61
    await let_in(api, {"pin": PIN})


def test_each_further_wrong_try_waits_twice_as_long_up_to_an_hour() -> None:
    tries, now_s, waits = Tries("it"), 0.0, []
    for _ in range(FREE_TRIES - 1):
        tries.begin(now_s)
    for _ in range(8):
        tries.begin(now_s)
        with pytest.raises(TooMany) as error:
            tries.begin(now_s)
        waits.append(error.value.facts["retry_after_s"])
        now_s += waits[-1]
    assert waits == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
    tries.right()
    for _ in range(FREE_TRIES):
        tries.begin(now_s)


async def test_a_new_pin_ends_every_session_and_none_is_kept_in_clear(short_dir: Path) -> None:
    file = short_dir / "headway.db"
    store = SqliteStore(file)
    async with serving(short_dir, keeper=store) as api:
        assert await asked(api, "POST", "/api/v1/session", {"pin": PIN}) == (409, "no_pin")
        await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
        cookie, csrf, _ = await let_in(api, {"pin": PIN})
        await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": "another one"})
        both = {"Cookie": cookie, "X_CSRF_Token": csrf}
        assert await asked(api, "POST", STOP, **both) == (401, "token_missing")
        assert await asked(api, "POST", "/api/v1/session", {"pin": PIN}) == (401, "pin_wrong")
        await let_in(api, {"pin": "another one"})
    await store.close()
    assert all(b"another one" not in one.read_bytes() for one in short_dir.glob("headway.db*"))


async def test_a_session_ends_after_half_a_day(api: Served) -> None:
    await asyncio.to_thread(api.local.put, "/api/v1/pin", {"pin": PIN})
    cookie, csrf, _ = await let_in(api, {"pin": PIN})
    api.clock.at_s += 12 * 3600 + 1
    found = await asked(api, "POST", STOP, Cookie=cookie, X_CSRF_Token=csrf)
    assert found == (401, "token_missing")
    assert (await asked(api, "GET", "/api/v1/status", Cookie=f"{COOKIE}="))[0] == 200


async def test_a_ticket_works_once_and_for_a_minute(api: Served) -> None:
    made = await api.post("/api/v1/session/tickets")
    address, _, ticket = made["url"].partition("#")
    assert address == f"http://127.0.0.1:{api.port}/open"
    await let_in(api, {"ticket": ticket})
    assert await asked(api, "POST", "/api/v1/session", {"ticket": ticket}) == (401, "ticket_over")
    late = (await api.post("/api/v1/session/tickets"))["url"].partition("#")[2]
    api.clock.at_s += 61
    assert await asked(api, "POST", "/api/v1/session", {"ticket": late}) == (401, "ticket_over")
    status, headers, body = await api.raw("GET", "/open")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "frame-ancestors 'none'" in headers["content-security-policy"] and b"location.hash" in body


# ---------------------------------------------------------------- who the kernel says it is


def test_the_kernel_names_the_other_end_of_a_socket() -> None:
    from headway.host.linux import LinuxHost

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    try:
        assert LinuxHost().peer_uid(ours) == os.getuid()
    finally:
        ours.close()
        theirs.close()
