"""The first and the last minute: what `up` says, what goes on after it, and how to end all of it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.loads import chat, cli, cli_json, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, sleeper, tiny
from tests.processes import alive

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
TAKEN = 73
LIMIT_S = 60.0


def says(asked: Callable[[], "subprocess.CompletedProcess[str]"], words: str) -> bool:
    return words in asked().stdout


def ended(headway: Stack, child: subprocess.Popen[bytes]) -> int:
    return headway.wait(lambda: None if child.poll() is None else child.returncode + 1, "the end of up") - 1


def test_up_says_where_clients_connect_and_what_goes_on(stacks: Up) -> None:
    headway = stacks(config(tiny("chat"), sleeper("long", size="2GiB", placement="share")))
    child = headway.up()
    job = headway.wait_job("long", "running")
    chat(headway, "chat")
    assert cli_json(headway, "status")["gate"] == headway.front
    headway.wait(lambda: f"{headway.front}/v1; models: chat" in headway.logs(), "the address")
    child.send_signal(signal.SIGINT)
    assert ended(headway, child) == 0
    said = headway.logs()
    assert re.search(rf"2 go on: .*{job['id']} long \(pid {job['pid']}\)", said)
    assert alive(job["pid"])
    assert f"headway --home {headway.home} down --all" in said
    # killed hard, the next one names what it takes over
    again = headway.up()
    headway.wait_job("long", "running")
    pids = headway.pid("parent"), headway.pid("daemon")
    again.kill()
    again.wait()
    headway.up()
    headway.wait(
        lambda: (
            "Taken over from an earlier `headway up`: gate pid {}, daemon pid {}.".format(*pids)
            in headway.logs()
        ),
        "who was taken over",
    )


@pytest.mark.parametrize("daemon", [True, False], ids=["beside a daemon", "without one"])
def test_down_all_leaves_nothing_and_everything_goes_on_after_a_release(stack: Up, daemon: bool) -> None:
    jobs = (sleeper("first", size="2GiB", placement="share"), sleeper("next", size="2GiB", placement="share"))
    headway = up(stack, config(tiny("chat"), *jobs, sleeper("mine", hold=True)))
    first = headway.wait_job("first", "running")
    waiting = headway.wait_job("next", "queued")
    chat(headway, "chat")
    if not daemon:
        assert cli(headway, "down").returncode == 0
        assert not headway.pids("up") and alive(first["pid"])
    done = cli(headway, "down", "--all")
    assert done.returncode == 0, done.stderr
    assert not headway.processes(), "nothing lives"
    held = re.search(r"release ([a-z0-9 ]+)`", done.stderr)
    assert held is not None
    assert sorted(held[1].split()[:2]) == ["chat", first["id"]], "what ran comes before what waited"
    assert held[1].split()[2:] == [waiting["id"]]
    headway.up()
    assert headway.job("first")["state"] == headway.job("next")["state"] == "held"
    assert headway.job("first")["ended_s"] is None and headway.job("first")["failures"] == 0
    assert cli(headway, "release", *held[1].split()).returncode == 0
    headway.wait_job("first", "running")
    assert headway.job("mine")["state"] == "held"
    assert chat(headway, "chat").words.startswith("chat ")


def test_down_where_nothing_runs(stacks: Up) -> None:
    headway = stacks(config(tiny("chat")))
    for words in (("down",), ("down", "--all")):
        done = cli(headway, *words)
        assert (done.returncode, "Nothing" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize("door", ["gate", "api"])
def test_a_port_that_is_taken_ends_up_at_its_first_start(stacks: Up, door: str) -> None:
    first = stacks(config(tiny("chat")))
    first.up()
    port = first.ports["front"] if door == "gate" else int(first.api_url.rpartition(":")[2])
    second = stacks({**config(tiny("chat")), door: {"port": port}})
    child = second.up(wait=False)
    assert ended(second, child) == TAKEN
    assert chat(first, "chat").words.startswith("chat "), "the first is not disturbed"


def test_a_program_that_is_missing_is_named_everywhere(stack: Up) -> None:
    headway = up(stack, config(tiny("chat")))
    reason = "cannot run no-such-xyz: No such file or directory"
    for _ in range(3):  # two facts tell of it, in either order
        job = cli(headway, "add", "--gpus", "0", "--", "no-such-xyz").stdout.strip()
        headway.wait_job(job, "failed")
        for verb in ("why", "log", "events"):
            asked = partial(cli, headway, verb, job)
            headway.wait(partial(says, asked, reason), f"{verb} of {job}")
        assert cli_json(headway, "show", job)["note"] == reason


def test_the_daemon_logs_into_its_home_too(stack: Up) -> None:
    headway = up(stack, config(sleeper("job")))
    headway.wait_job("job", "running")
    log = headway.home / "logs" / "daemon.log"
    headway.wait(lambda: "move.done" in log.read_text(), "its lines")
    assert os.stat(log).st_mode & 0o077 == 0


ON_A_TERMINAL = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)"


def test_on_a_terminal_up_says_what_happens_and_its_log_has_the_facts(stacks: Up) -> None:
    headway = stacks(config(sleeper("long", size="2GiB", placement="share")))
    words = [sys.executable, "-m", "headway.cli.main", "--home", str(headway.home), "up"]
    headway.by_hand([sys.executable, "-c", ON_A_TERMINAL, *words])
    job = headway.wait_job("long", "running")
    headway.wait(lambda: f"long ({job['id']}): running" in headway.logs(), "its line")
    assert f"holder={job['id']}" not in headway.logs()
    assert f"holder={job['id']}" in (headway.home / "logs" / "daemon.log").read_text()
