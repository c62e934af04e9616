"""Leases and claims over the API: what reaches the loop, the wait for a grant, and what is refused how."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.core.commands import AskLease, Claim, Command, EndLease, RenewLease, Reply
from headway.core.leases import RETURN, spec_of
from headway.core.model import GIB, Form, Lease, Spec, Verdict
from headway.drivers.lease import MOVES
from tests.parts.false_api import Served, serving, snapshot
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

KEY = "0123456789abcdef"
SPEC = spec_of("eval", MOVES, 12 * GIB)
LEASE = Lease(
    id="L1", spec=SPEC, forms=SPEC.forms, form="granted", asked_s=900.0, granted_s=950.0, expires_s=1060.0,
    devices=("local/GPU-1",), pid=5, ask_key=KEY, by="ada",
)  # fmt: skip
WAITS = replace(
    LEASE, id="L2", form="revoked", granted_s=None, expires_s=None, devices=(), key=5.0, ask_key=None
)
COUNTED = Spec(
    name="by-hand",
    kind="claim",
    driver="lease",
    forms=(Form(name="granted"), Form(name="revoked")),
    moves=(RETURN,),
)
CLAIM = Lease(id="C3", kind="claim", spec=COUNTED, forms=COUNTED.forms, form="granted", granted_s=1.0, pid=6)


def visitors(rev: int = 8, **changed: Any) -> dict[str, Any]:
    found = {"L1": LEASE, "L2": WAITS, "C3": CLAIM, **changed}
    return {
        "rev": rev,
        "holders": {**snapshot().holders, **found},
        "queue": {**snapshot().queue, "lease": ((5.0, "L2"),)},
        "present": ("C3", "L1", "j1"),
    }


def publish(api: Served, **fields: Any) -> None:
    api.hub.publish(
        snapshot(**fields), {"L2": Verdict(code="not_preemptible", facts={"holder": "L1"})}, frozenset()
    )


@pytest.fixture
async def api(short_dir: Path) -> AsyncIterator[Served]:
    async with serving(short_dir) as served:
        publish(served, **visitors())
        yield served


# ---------------------------------------------------------------- reading


async def test_the_rows_of_leases_and_claims(api: Served) -> None:
    held, waits = await api.get("/api/v1/leases")
    assert (held["id"], held["state"], held["held_s"], held["expires_in_s"]) == ("L1", "granted", 50.0, 60.0)
    assert held["env"] == {"CUDA_VISIBLE_DEVICES": "GPU-1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert (waits["id"], waits["state"], waits["position"], waits["env"]) == ("L2", "waiting", 1, {})
    assert [row["id"] for row in await api.get("/api/v1/claims")] == ["C3"]
    assert (await api.get("/api/v1/claims/by-hand"))["state"] == "counted"
    assert (await api.get("/api/v1/holders/L1"))["fencing"] == 0
    assert (await api.get("/api/v1/why/L1"))["code"] == "granted"
    assert KEY not in json.dumps([await api.get(path) for path in ("/api/v1/status", "/api/v1/leases/L1")])


async def test_those_that_ended_are_shown_when_they_are_asked_for(api: Served) -> None:
    over = replace(LEASE, form="revoked", ended="gone", ended_s=999.0)
    publish(api, **visitors(rev=9, L1=over) | {"present": ("C3", "j1")})
    assert [row["id"] for row in await api.get("/api/v1/leases")] == ["L2"]
    shown = await api.get("/api/v1/leases", ended="true")
    assert [(row["id"], row["ended"], row["env"]) for row in shown] == [("L2", None, {}), ("L1", "gone", {})]


async def test_a_wait_ends_when_the_state_is_another(api: Served) -> None:
    asked = asyncio.create_task(api.get("/api/v1/leases/L2", known="waiting", wait_s=20))
    await wait_until(lambda: api.hub._waiters, 10.0, "the wait")
    publish(api, **visitors(rev=9))  # nothing of it changed
    await wait_until(lambda: api.hub._waiters, 10.0, "the next wait")
    assert not asked.done()
    publish(api, **visitors(rev=10, L2=replace(WAITS, form="granted")))
    assert (await asyncio.wait_for(asked, 10.0))["state"] == "granted"


async def test_a_wait_ends_with_its_time_and_with_a_server_that_leaves(api: Served) -> None:
    asked = asyncio.create_task(api.get("/api/v1/leases/L2", known="waiting", wait_s=20))
    await wait_until(lambda: api.hub._waiters, 10.0, "the wait")
    api.clock.at_s += 20.0
    publish(api, **visitors(rev=9))
    assert (await asyncio.wait_for(asked, 10.0))["state"] == "waiting"
    asked = asyncio.create_task(api.get("/api/v1/leases/L2", known="waiting", wait_s=20))
    await wait_until(lambda: api.hub._waiters, 10.0, "the wait")
    api.server.parts.closing[0] = True
    assert (await asyncio.wait_for(asked, 10.0))["state"] == "waiting"


async def test_no_wait_is_needed_where_the_state_is_another_already(api: Served) -> None:
    found = await asyncio.wait_for(api.get("/api/v1/leases/L2", known="granting", wait_s=20), 10.0)
    assert found["state"] == "waiting"


# ---------------------------------------------------------------- changing

ASK = AskLease(spec=SPEC, pid=5, start_ticks=105, wait_limit_s=900.0, ask_key=KEY, by="ada")
BODY = {"name": "eval", "gpu": "12GiB", "pid": 5, "ask_key": KEY}
COMMANDS = {
    "an ask": ("leases", BODY, ASK),
    "an ask in bytes": ("leases", {**BODY, "gpu": 12 * GIB}, ASK),
    "for all of a device": ("leases", {**BODY, "gpu": None}, replace(ASK, spec=spec_of("eval", MOVES, None))),
    "for ever": ("leases", {**BODY, "wait_s": "forever"}, replace(ASK, wait_limit_s=None)),
    "now": ("leases", {**BODY, "wait_s": 0}, replace(ASK, wait_limit_s=0.0)),
    "on two by name": (
        "leases", {**BODY, "devices": ["gpu0", "gpu1"]},
        replace(ASK, spec=spec_of("eval", MOVES, 12 * GIB, 2, ("gpu0", "gpu1"))),
    ),
    "on one of two": (
        "leases", {**BODY, "devices": ["gpu0", "gpu1"], "gpus": 1},
        replace(ASK, spec=spec_of("eval", MOVES, 12 * GIB, 1, ("gpu0", "gpu1"))),
    ),
    "from afar": (
        "leases", {"name": "eval", "gpu": "12GiB", "ttl_s": 60, "ask_key": KEY, "preemptible": True, "priority": 7},
        AskLease(spec=SPEC, wait_limit_s=900.0, ttl_s=60.0, ask_key=KEY, preemptible=True, priority=7, by="ada"),
    ),
    "a renewal": ("leases/L1/renew", {"ttl_s": 60}, RenewLease(target="L1", ttl_s=60.0, by="ada")),
    "a renewal as before": ("leases/L1/renew", None, RenewLease(target="L1", by="ada")),
    "a process": (
        "claims", {"pid": 5, "gpu": "12GiB", "devices": ["gpu0"], "block": True},
        Claim(name="python", pid=5, start_ticks=105, need_bytes=12 * GIB, devices=("gpu0",), block=True, by="ada"),
    ),
    "a pattern": (
        "claims", {"match": "train", "name": "notebook", "asker": 7},
        Claim(name="notebook", match="train", by="ada"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "command"), COMMANDS.values(), ids=COMMANDS.keys())
async def test_commands_reach_the_loop(
    api: Served, path: str, body: dict[str, Any] | None, command: Command
) -> None:
    await api.post(f"/api/v1/{path}", body)
    assert api.inbox.given == [command]


async def test_what_a_pattern_finds_is_told_and_whoever_asks_is_not_in_it(api: Served) -> None:
    reply = await api.post("/api/v1/claims", {"match": "train", "asker": 7})
    assert reply["facts"]["pids"] == [5, 6]
    alone = await api.refused("/api/v1/claims", {"match": "--match train", "asker": 7})
    assert (alone.code, alone.http_status) == ("no_such_process", 422)


async def test_a_lease_is_given_back(api: Served) -> None:
    for path, target in (("leases/L1", "L1"), ("claims/by-hand", "C3")):
        await asyncio.to_thread(api.local.delete, f"/api/v1/{path}")
        assert api.inbox.given[-1] == EndLease(target=target, by="ada")


async def test_it_is_not_given_back_while_something_that_it_started_lives(api: Served) -> None:
    api.processes.marked.add(f"L1.{KEY}")
    with pytest.raises(Exception, match="lives on") as refused:
        await asyncio.to_thread(api.local.delete, "/api/v1/leases/L1?if_gone=true")
    assert getattr(refused.value, "code", None) == "still_lives" and not api.inbox.given
    api.processes.marked.clear()
    await asyncio.to_thread(api.local.delete, "/api/v1/leases/L1?if_gone=true")
    assert api.inbox.given == [EndLease(target="L1", by="ada")]


@pytest.mark.parametrize(
    ("target", "noun"), {"L1": "leases", "C3": "claims", "chat": "services", "j1": "jobs"}.items()
)
async def test_the_answer_to_a_verb_says_where_to_look(api: Served, target: str, noun: str) -> None:
    reader, writer = await asyncio.open_unix_connection(str(api.socket_path))
    api.inbox.reply = (
        replace(api.inbox.reply, holder=target) if isinstance(api.inbox.reply, Reply) else api.inbox.reply
    )
    writer.write(
        b"POST /api/v1/holders/%b/stop HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        % target.encode()
    )
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert f"location: /api/v1/{noun}/{target}\r\n".encode() in answer.lower().replace(
        target.lower().encode(), target.encode()
    )


# ---------------------------------------------------------------- refused

OVER = Reply(accepted=False, code="lease_over", facts={"target": "L1", "ended": "lapsed"})
FULL = Reply(accepted=False, code="line_full", facts={"waiting": 512})
TTL = Reply(accepted=False, code="needs_ttl", facts={})
REFUSED = {
    # name: (path, body, what the loop answers, status, code)
    "a late renewal": ("leases/L1/renew", {}, OVER, 410, "lease_over"),
    "a full line": ("leases", BODY, FULL, 429, "line_full"),
    "no process and no time": ("leases", {"name": "eval"}, TTL, 422, "needs_ttl"),
    "a process that does not live": ("leases", {**BODY, "pid": 99}, None, 422, "no_such_process"),
    "no pid": ("leases", {**BODY, "pid": 0}, None, 422, "invalid"),
    "no size": ("leases", {**BODY, "gpu": "lots"}, None, 422, "invalid"),
    "nothing": ("leases", {**BODY, "gpu": 0}, None, 422, "invalid"),
    "less than nothing": ("leases", {**BODY, "gpu": -5}, None, 422, "invalid"),
    "a truth for a size": ("leases", {**BODY, "gpu": True}, None, 422, "invalid"),
    "more than any number": ("leases", {**BODY, "gpu": 1 << 70}, None, 422, "invalid"),
    "one device twice": ("leases", {**BODY, "devices": ["gpu0", "gpu0"]}, None, 422, "invalid"),
    "a claim on one device twice": ("claims", {"pid": 5, "devices": ["gpu0", "gpu0"]}, None, 422, "invalid"),
    "two of one": ("leases", {**BODY, "devices": ["gpu0"], "gpus": 2}, None, 422, "invalid"),
    "none at all": ("leases", {**BODY, "gpus": 0}, None, 422, "invalid"),
    "a name with blanks": ("leases", {**BODY, "name": "a b"}, None, 422, "invalid"),
    "a name with a second line": ("leases", {**BODY, "name": "a\n"}, None, 422, "invalid"),
    "a key that is easy to guess": ("leases", {**BODY, "ask_key": "1"}, None, 422, "invalid"),
    "no such wait": ("leases", {**BODY, "wait_s": "long"}, None, 422, "invalid"),
    "a wait backwards": ("leases", {**BODY, "wait_s": -1}, None, 422, "invalid"),
    "no time": ("leases", {**BODY, "ttl_s": 0}, None, 422, "invalid"),
    "unknown field": ("leases", {**BODY, "size": 1}, None, 422, "invalid"),
    "neither pid nor pattern": ("claims", {}, None, 422, "invalid"),
    "both": ("claims", {"pid": 5, "match": "x"}, None, 422, "invalid"),
    "no pattern": ("claims", {"match": "[b-a]"}, None, 422, "invalid"),
    "a pattern that could take for ever": ("claims", {"match": "(a+)+$"}, None, 422, "invalid"),
    "no such process": ("claims", {"pid": 99}, None, 422, "no_such_process"),
    "nobody": ("claims", {"match": "nobody at all"}, None, 422, "no_such_process"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "reply", "status", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_refusals(
    api: Served, path: str, body: dict[str, Any], reply: Reply | None, status: int, code: str
) -> None:
    if reply is not None:
        api.inbox.reply = reply
    error = await api.refused(f"/api/v1/{path}", body)
    assert (error.http_status, error.code) == (status, code)
    assert str(error).endswith(".")
    assert reply is not None or not api.inbox.given, "nothing reaches the loop"


MISSING = {
    "no such lease": "/api/v1/leases/L9",
    "a claim is no lease": "/api/v1/leases/C3",
    "a lease is no claim": "/api/v1/claims/L1",
    "a job is no lease": "/api/v1/leases/j1",
}


@pytest.mark.parametrize("path", MISSING.values(), ids=MISSING.keys())
async def test_missing(api: Served, path: str) -> None:
    status, _, body = await api.raw("GET", path)
    assert (status, json.loads(body)["code"]) == (404, "not_found")
