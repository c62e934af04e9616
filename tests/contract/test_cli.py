"""The command line against an API over its real socket: what it prints, what it asks for, how it exits."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from headway.cli.main import VERBS, cli
from headway.client import Address, Client
from headway.core.commands import AddJob, Command, MoveJob, Reply, SetMode, SetWish
from headway.core.model import Job
from headway.errors import DaemonAway
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import TRAIN, Served, made, serving, snapshot
from tests.waiting import wait_until

pytestmark = pytest.mark.contract

SOURCE = Path(__file__).parents[2] / "src"


# ---------------------------------------------------------------- reading

SHOWN = {
    "status": (["mode live", "chat", "train", "one at a time, and another runs"]),
    "ps": (["j1", "running", "j2", "queued"]),
    "ps -s queued": (["j2", "j3", "j4"]),
    "show train": (["id", "j1", "running", "train --all"]),
    "show chat": (["service", "stopped"]),
    "why j2": (["queued: one at a time, and another runs"]),
    "log train -n 2": (["two\nthree"]),
    "service ls": (["chat", "stopped"]),
    "service show chat": (["chat", "process"]),
    "events -n 2": (["train (j1): done, ran for 60 s", "chat: done, ran for 60 s"]),
    "mode": (["mode is live"]),
}


@pytest.mark.parametrize(("line", "pieces"), SHOWN.items(), ids=SHOWN.keys())
async def test_reading(api: Served, home: Path, line: str, pieces: list[str]) -> None:
    result = await headway(home, *line.split())
    assert result.exit_code == 0, result.stderr
    for piece in pieces:
        assert piece in result.stdout
    assert "\x1b" not in result.stdout


JSON = (
    "status",
    "ps",
    "show j1",
    "why j1",
    "log j1",
    "service ls",
    "service show chat",
    "events",
    "mode",
    "check",
)


@pytest.mark.parametrize("line", JSON)
async def test_json_is_json(api: Served, home: Path, line: str) -> None:
    (home / "config.toml").write_text('mode = "live"\n')
    result = await headway(home, *line.split(), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) is not None


async def test_json_is_what_the_daemon_said(api: Served, home: Path) -> None:
    result = await headway(home, "why", "j2", "--json")
    assert json.loads(result.stdout) == await api.get("/api/v1/why/j2")


async def test_quiet_ps_prints_ids_alone(api: Served, home: Path) -> None:
    assert (await headway(home, "ps", "-q")).stdout == "j1\nj2\nj3\nj4\n"
    assert (await headway(home, "ps", "-q", "-n", "2")).stdout == "j1\nj2\n"


async def test_colours_only_where_they_are_wanted(api: Served, home: Path) -> None:
    assert "\x1b[32m" in (await headway(home, "ps", env={"NO_COLOR": "", "FORCE_COLOR": "1"})).stdout
    assert "\x1b" not in (await headway(home, "ps", env={"NO_COLOR": "1", "FORCE_COLOR": "1"})).stdout
    assert "\x1b" not in (await headway(home, "ps", env={"NO_COLOR": ""})).stdout, "stdout is no terminal"


async def test_tables_fit_a_terminal(api: Served, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.cli.tables.width", lambda: 80)
    long = replace(snapshot().holders["j2"], wish="hold", note="a reason of a person that is long " * 5)
    named = replace(snapshot().holders["j3"], spec=replace(snapshot().holders["j3"].spec, name="x" * 64))
    holders = {**snapshot().holders, "j2": long, "j3": named}
    api.hub.publish(snapshot(8, holders=holders), {}, frozenset({"j2", "j3"}))
    for line in ("ps", "status"):
        shown = (await headway(home, line)).stdout.splitlines()
        assert any("…" in row for row in shown)
        assert max(map(len, shown)) <= 80


# ---------------------------------------------------------------- changing

ASKED: dict[str, tuple[Command, str]] = {
    "hold train": (SetWish(target="j1", verb="hold", by="ada"), "j1 train: running"),
    "release chat": (SetWish(target="chat", verb="release", by="ada"), "chat: stopped"),
    "service wake chat": (SetWish(target="chat", verb="wake", by="ada"), "chat: stopped"),
    "service start chat": (SetWish(target="chat", verb="start", by="ada"), "chat: stopped"),
    "service sleep chat --reason lunch": (
        SetWish(target="chat", verb="sleep", by="ada", reason="lunch"),
        "chat: stopped",
    ),
    "service stop chat": (SetWish(target="chat", verb="stop", by="ada"), "chat: stopped"),
    "winddown j1": (SetWish(target="j1", verb="wind_down", by="ada"), "j1 train"),
    "cancel j1 --reason lunch": (SetWish(target="j1", verb="cancel", by="ada", reason="lunch"), "j1 train"),
    "stop j1": (SetWish(target="j1", verb="stop", by="ada"), "j1 train"),
    "kill j1": (SetWish(target="j1", verb="kill", by="ada"), "j1 train"),
    "pause j1": (SetWish(target="j1", verb="pause", by="ada"), "j1 train"),
    "resume j1": (SetWish(target="j1", verb="resume", by="ada"), "j1 train"),
    "retry j1": (SetWish(target="j1", verb="retry", by="ada"), "j1 train"),
    "mode shadow": (SetMode(mode="shadow", by="ada"), "mode is"),
    "move j3 --top": (MoveJob(target="j3", where="top", by="ada"), "j3 twin: number 2"),
    "move j4 --before eval": (MoveJob(target="j4", where="before", other="j2", by="ada"), "j4 twin"),
    "add train": (AddJob(spec=TRAIN, recipe="train", by="ada"), "j9\n"),
    "add train --priority high --after eval --hold": (
        AddJob(spec=replace(TRAIN, priority=80, after=("j2",)), recipe="train", hold=True, by="ada"),
        "j9\n",
    ),
    "add --gpu 2GiB --placement share -- echo --json -q": (
        AddJob(
            spec=replace(made({"name": "echo", "argv": ["echo", "--json", "-q"]}), placement="share"),
            by="ada",
        ),
        "j9\n",
    ),
}


@pytest.mark.parametrize(("line", "expected"), ASKED.items(), ids=ASKED.keys())
async def test_commands(api: Served, home: Path, line: str, expected: tuple[Command, str]) -> None:
    command, said = expected
    if isinstance(command, MoveJob | SetWish):
        api.inbox.reply = Reply(accepted=True, code="accepted", facts={}, holder=command.target, rev=8)
    result = await headway(home, *line.split())
    assert result.exit_code == 0, result.stderr
    assert api.inbox.given == [command]
    assert said in result.stdout


async def test_one_verb_for_several(api: Served, home: Path) -> None:
    result = await headway(home, "hold", "j2", "j3", "--json")
    assert [command.target for command in api.inbox.given if isinstance(command, SetWish)] == ["j2", "j3"]
    assert [one["id"] for one in json.loads(result.stdout)] == ["j2", "j3"]


# ---------------------------------------------------------------- exits

STORE = Reply(accepted=False, code="store_silent", facts={})
EXITS = {
    # name: (line, what the loop answers, exit status, words on stderr)
    "unknown id": ("why nobody", None, 1, "headway ps -a"),
    "two of that name": ("cancel twin", None, 1, "j4"),
    "refused": ("retry j1", Reply(accepted=False, code="not_ended", facts={}), 1, "headway stop"),
    "not now": ("hold j1", STORE, 75, "database"),
    "no verb": ("explode", None, 2, "No such command"),
    "nothing to add": ("add", None, 2, "behind `--`"),
    "both": ("add train -- echo", None, 2, "behind `--`"),
    "no such recipe": ("add nope", None, 1, "[job.nope]"),
    "no size": ("add --gpu lots -- echo", None, 2, "16GiB"),
    "no priority": ("add train --priority 101", None, 2, "background"),
    "move where": ("move j2", None, 2, "--top"),
    "missing config": ("check", None, 78, "1 problem"),
    "waiting in vain": ("wait j1 --timeout 0", None, 124, "headway why j1"),
}


@pytest.mark.parametrize(("line", "reply", "status", "words"), EXITS.values(), ids=EXITS.keys())
async def test_exits(
    api: Served,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    reply: Reply | None,
    status: int,
    words: str,
) -> None:
    monkeypatch.setattr("headway.client.SAVES_LIMIT_S", 0.0)
    if reply is not None:
        api.inbox.reply = reply
    result = await headway(home, *line.split())
    assert (result.exit_code, words in result.stderr) == (status, True), result.output
    assert "Traceback" not in result.output


async def test_errors_are_json_where_asked(api: Served, home: Path) -> None:
    result = await headway(home, "why", "nobody", "--json")
    assert json.loads(result.stderr)["code"] == "not_found"
    assert result.stdout == ""


async def test_over_tcp_one_may_read_and_not_change(api: Served, home: Path) -> None:
    env = {"HEADWAY_URL": f"http://127.0.0.1:{api.port}"}
    assert (await headway(home, "ps", env=env)).exit_code == 0
    result = await headway(home, "hold", "j1", env=env)
    assert (result.exit_code, "headway token create" in result.stderr) == (77, True)
    assert (await headway(home, "ps", env={"HEADWAY_URL": "ftp://x"})).exit_code == 69


def ended(how: str) -> dict[str, Any]:
    before = snapshot().holders["j1"]
    assert isinstance(before, Job)
    job = replace(before, ended=how, ended_s=990.0, form="stopped")  # type: ignore[arg-type]
    return {"holders": {**snapshot().holders, "j1": job}, "present": ()}


@pytest.mark.parametrize(("how", "status"), [("done", 0), ("failed", 1), ("cancelled", 1), ("lost", 1)])
async def test_wait_ends_with_the_job(api: Served, home: Path, how: str, status: int) -> None:
    call = asyncio.create_task(headway(home, "wait", "j1"))
    await wait_until(lambda: api.hub.revision == 7, 10)
    api.hub.publish(snapshot(8, **ended(how)), {}, frozenset({"j1"}))
    result = await asyncio.wait_for(call, 20)
    assert (result.exit_code, how in result.stdout) == (status, True)


async def test_log_follow_prints_what_is_added_and_ends_with_the_job(api: Served, home: Path) -> None:
    log = home / "run" / "log"
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "log", "-f", "-n", "1", "j1"]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 20) == b"three\n"
    for word in ("four", "five"):
        with log.open("a") as file:
            file.write(word + "\n")
        assert await asyncio.wait_for(process.stdout.readline(), 20) == word.encode() + b"\n"
    log.write_text("six\n")  # rotated: it is shorter now
    assert await asyncio.wait_for(process.stdout.readline(), 20) == b"six\n"
    api.hub.publish(snapshot(8, **ended("done")), {}, frozenset({"j1"}))
    assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_events_follow_goes_on_over_a_restart(api: Served, home: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "headway.cli.main",
        "--home",
        str(home),
        "events",
        "-f",
        "-n",
        "1",
        "--json",
    ]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    assert process.stdout is not None
    assert json.loads(await asyncio.wait_for(process.stdout.readline(), 20))["id"] == 3000
    await wait_until(lambda: api.hub._waiters, 20, "the stream")
    api.reader.lines = 3002
    api.hub.publish(snapshot(8), {}, frozenset({"j1"}))
    for number in (3001, 3002):
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), 20))["id"] == number
    await api.server.stop()
    async with serving(home / "run") as again:  # a restarted daemon is found again
        again.reader.lines = 3003
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), 20))["id"] == 3003
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)


# ---------------------------------------------------------------- without a daemon


def run(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway.cli.main", "--home", str(home), *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
    )


def test_no_daemon_is_exit_69_with_the_next_step(home: Path) -> None:
    done = run(home, "status")
    assert (done.returncode, done.stdout) == (69, "")
    assert "headway up" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dead_socket_is_no_daemon_either(home: Path) -> None:
    import socket

    (home / "run").mkdir()
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(home / "run" / "headway.sock"))
    sock.close()
    assert run(home, "ps").returncode == 69


HEAVY = (
    "pydantic",
    "sqlalchemy",
    "fastapi",
    "rich",
    "uvicorn",
    "aiohttp",
    "ssl",
    "email",
    "http.client",
    "asyncio",
)


def test_asking_the_daemon_loads_nothing_heavy() -> None:
    modules = {module for module, _ in VERBS.values()}
    imports = "; ".join(f"import headway.cli.{module}" for module in sorted(modules))
    code = f"import sys, headway.cli.main; {imports}; print(sorted(set({HEAVY!r}) & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_every_verb_has_its_help() -> None:
    context = click.Context(cli)
    for verb in cli.list_commands(context):
        command = cli.get_command(context, verb)
        assert command is not None
        assert command.help, verb


# ---------------------------------------------------------------- the client

BROKEN = {
    "says nothing": b"",
    "no HTTP": b"hello\r\n\r\n",
    "ends in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
    "ends in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
    "chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{x",
}
WHOLE = {
    "by length": b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[1,2,3]ignored",
    "by chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n[1,\r\n4\r\n2,3]\r\n0\r\n\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\n[1,2,3]",
}


async def asked(answer: bytes, ask: Callable[[Client], Any]) -> Any:
    """What the client makes of these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        return await asyncio.to_thread(ask, Client(Address(port=port)))


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_cut_short_is_no_answer(answer: bytes) -> None:
    with pytest.raises(DaemonAway):
        await asked(answer, lambda client: client.get("/"))


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE.keys())
async def test_the_three_framings(answer: bytes) -> None:
    assert await asked(answer, lambda client: client.get("/")) == [1, 2, 3]


async def test_events_come_apart_anywhere() -> None:
    text = b': ping\n\nevent: a\nid: 7\ndata: {"x":\ndata: 1}\n\ndata: plain\n\n'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    events = await asked(answer, lambda client: list(client.events()))
    assert [(event.name, event.data, event.id) for event in events] == [
        ("a", {"x": 1}, "7"),
        ("message", "plain", None),
    ]
