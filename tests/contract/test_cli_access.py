"""Letting others in, by the command line: tokens, the PIN, the link of `headway open`; and what a call costs."""

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli.main import cli
from headway.client import address
from headway.ports import AlertSent
from tests.parts.command_line import api as api
from tests.parts.command_line import headway
from tests.parts.false_api import Served
from tests.parts.programs import ROOT

pytestmark = pytest.mark.contract


async def test_a_token_is_made_listed_and_revoked(api: Served, home: Path) -> None:
    made = await headway(home, "token", "create", "ci", "--scope", "control", "--expires", "30d")
    secret = made.stdout.strip()
    assert made.exit_code == 0 and secret.startswith("hw_")
    assert secret not in made.stderr
    url = {"HEADWAY_URL": f"http://127.0.0.1:{api.port}", "HEADWAY_TOKEN": secret}
    assert (await headway(home, "mode", "shadow", env=url)).exit_code == 0
    assert (await headway(home, "log", "train", env=url)).exit_code == 77
    assert (await headway(home, "mode", "shadow", env={**url, "HEADWAY_TOKEN": ""})).exit_code == 77
    assert "ci" in (await headway(home, "token", "list")).stdout
    assert (await headway(home, "token", "revoke", "ci")).exit_code == 0
    assert (await headway(home, "mode", "shadow", env=url)).exit_code == 77
    assert (await headway(home, "token", "create", "Not A Name")).exit_code == 2
    assert (await headway(home, "token", "create", "x", "--expires", "soon")).exit_code == 2


async def test_the_pin_comes_by_standard_input_where_there_is_no_terminal(api: Served, home: Path) -> None:
    runner = CliRunner(env={"HEADWAY_URL": ""})
    words = ["--home", str(home), "pin", "set"]
    short = await asyncio.to_thread(runner.invoke, cli, words, input="12345\n")
    assert short.exit_code == 2 and "6 to 128" in short.stderr and not api.access.sessions.pin_set
    done = await asyncio.to_thread(runner.invoke, cli, words, input="correct horse\n")
    assert done.exit_code == 0 and api.access.sessions.pin_set
    assert "correct horse" not in done.output
    assert (await headway(home, "pin", "clear")).exit_code == 0 and not api.access.sessions.pin_set


async def test_a_short_pin_is_not_asked_for_twice(api: Served, home: Path) -> None:
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "headway.cli.main", "--home", str(home), "pin", "set"]
    asks = await asyncio.create_subprocess_exec(
        *argv, stdin=slave, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    os.close(slave)
    try:
        assert asks.stderr is not None
        asked = await asyncio.wait_for(asks.stderr.readuntil(b": "), 30)
        os.write(master, b"12345\n")  # only now: what was typed before it asks is thrown away
        said = asked + await asyncio.wait_for(asks.stderr.read(), 30)
        await asyncio.wait_for(asks.wait(), 30)
    finally:
        os.close(master)
    assert asks.returncode == 2 and not api.access.sessions.pin_set
    assert "PIN (6 to 128 characters)" in said.decode() and "once more" not in said.decode()


async def test_open_prints_a_link_that_lets_one_page_in(api: Served, home: Path) -> None:
    link = (await headway(home, "open", "-n")).stdout.strip()
    assert link.startswith(f"http://127.0.0.1:{api.port}/open#")
    assert api.access.sessions.by_ticket(link.partition("#")[2])


def test_without_a_socket_the_token_of_this_user_is_used(tmp_path: Path) -> None:
    assert address(tmp_path, {}).path == tmp_path / "headway.sock"
    (tmp_path / "api-port").write_text("8490\n")
    (tmp_path / "admin.token").write_text("hw_1\n")
    found = address(tmp_path, {})
    assert (found.port, found.token, found.path) == (8490, "hw_1", None)
    assert "hw_1" not in f"{found} {found!r}"
    (tmp_path / "admin.token").write_text("\n")
    assert address(tmp_path, {}).token is None


async def test_the_token_goes_to_tcp_only(api: Served, home: Path) -> None:
    """An empty HEADWAY_URL means the socket, where the kernel says who asks."""
    assert (await headway(home, "mode", "shadow", env={"HEADWAY_TOKEN": "hw_wrong"})).exit_code == 0


ALERTS = {
    "nobody": ([], 1, ""),
    "one": ([AlertSent(way="webhook", sent=True)], 0, "webhook: sent"),
    "one that fails": (
        [AlertSent(way="command", sent=False, error="it ended with code 3.")],
        1,
        "command: it ended",
    ),
}


@pytest.mark.parametrize(("sent", "status", "words"), ALERTS.values(), ids=ALERTS.keys())
async def test_alert_test(api: Served, home: Path, sent: list[AlertSent], status: int, words: str) -> None:
    api.alerts = sent
    result = await headway(home, "alert", "test")
    assert (result.exit_code, words in result.stdout, bool(result.stdout)) == (status, True, bool(words))


HEAVY = (
    "pydantic",
    "rich",
    "ssl",
    "email",
    "http.client",
    "fastapi",
    "sqlalchemy",
    "aiohttp",
    "headway.core.model",  # making its classes costs as much as click
)


async def test_status_from_its_first_word_to_its_last_loads_nothing_heavy(api: Served, home: Path) -> None:
    code = (
        "import sys; from headway.cli.main import cli; "
        f"cli(['--home', {str(home)!r}, 'status'], standalone_mode=False); "
        f"print('loaded', sorted(set({HEAVY!r}) & sys.modules.keys()))"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "HEADWAY_URL": ""}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env
    )
    assert "train" in done.stdout and done.stdout.rstrip().endswith("loaded []"), done.stdout + done.stderr
