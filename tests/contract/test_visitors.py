"""Processes that Headway did not start: whose they are, and when the last of them is gone."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from headway.core.facts import Fact, LeaseGone
from headway.core.leases import spec_of
from headway.core.model import Lease, Snapshot
from headway.core.patterns import PATTERN_MAX
from headway.daemon.hand_servers import LOOK_AGAIN_S, HandServers
from headway.daemon.visitors import Visitors
from headway.drivers.lease import MOVES
from headway.host.linux_visitors import LinuxProcesses, found_in
from headway.ports import Root
from tests.core.make import Scene, service_spec
from tests.parts.programs import ROOT
from tests.processes import Started, end, free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.contract

LIMIT_S = 20.0
VISITOR = [sys.executable, "-m", "tests.parts.visitor"]
SPEC = spec_of("eval", MOVES)
MARK = "L1.0123456789abcdef"


def visitor(
    started: Started, directory: Path, *options: str, mark: str | None = MARK
) -> subprocess.Popen[bytes]:
    env = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | ({"HEADWAY_LEASE": mark} if mark else {})
    return started.start([*VISITOR, "--reports", str(directory), *options], env=env)


def reporter(directory: Path) -> int:
    """The pid of the one that says what it holds."""
    return wait_for(
        lambda: next((int(p.name.split(".")[0]) for p in directory.glob("[0-9]*.*")), None), LIMIT_S
    )


def two(found: list[psutil.Process]) -> list[psutil.Process] | None:
    return found if len(found) == 2 else None


@pytest.fixture
def processes() -> LinuxProcesses:
    return LinuxProcesses()


def test_the_process_itself_and_what_it_started(processes: LinuxProcesses, started: Started) -> None:
    shell = started.start(["/bin/sh", "-c", "sleep 600 & sleep 600; true"])
    root = Root(shell.pid, processes.start_ticks(shell.pid))
    assert root.start_ticks is not None and processes.alive(root)
    child, other = wait_for(lambda: two(psutil.Process(shell.pid).children()), LIMIT_S)
    assert processes.among(child.pid, [root]) == root
    wait_for(lambda: {child.pid, other.pid} <= processes.matching("^sleep 600$"), LIMIT_S, "their names")
    assert processes.among(os.getpid(), [root]) is None
    end(shell.pid)
    shell.wait()
    assert not processes.alive(root) and processes.start_ticks(shell.pid) is None


def test_a_pid_that_was_used_again_is_another_process(processes: LinuxProcesses, started: Started) -> None:
    other = started.start(["sleep", "600"])
    ticks = processes.start_ticks(other.pid)
    assert ticks is not None
    before = Root(other.pid, ticks - 1)
    assert not processes.alive(before) and processes.among(other.pid, [before]) is None
    assert processes.alive(Root(other.pid)), "without a time the pid has to do"


def test_what_left_its_tree_is_known_by_its_mark(
    processes: LinuxProcesses, started: Started, tmp_path: Path
) -> None:
    first = visitor(started, tmp_path, "--leaves")
    root = Root(first.pid, processes.start_ticks(first.pid), MARK)
    assert first.wait(LIMIT_S) == 0
    left = reporter(tmp_path)
    other = Root(first.pid, root.start_ticks, "L2.another-one")
    assert processes.alive(root) and not processes.alive(other)
    assert processes.among(left, [other, root]) == root and processes.among(left, [other]) is None
    end(left)
    assert not processes.alive(root)
    again = visitor(started, tmp_path, mark=MARK)  # one that was found before is no answer for ever
    wait_for(lambda: processes.alive(root), LIMIT_S, "the next with that mark")
    end(again.pid)
    again.wait()
    assert not processes.alive(root)


def test_what_it_is_called_and_who_is_above(processes: LinuxProcesses, started: Started) -> None:
    child = started.start(["sleep", "600"])
    wait_for(lambda: processes.called(child.pid) == "sleep", LIMIT_S)
    assert {child.pid, os.getpid()} <= processes.above(child.pid)
    assert processes.called(4194303) == "" and processes.above(4194303) == {4194303}


# ---------------------------------------------------------------- of leases and claims


def seen(lease: Lease) -> tuple[Visitors, list[Fact]]:
    told: list[Fact] = []
    s = Snapshot(now_s=0.0, holders={lease.id: lease}, leases=(lease.id,))
    return Visitors(LinuxProcesses(), lambda: s, told.append), told


def made(pid: int | None, **given: object) -> Lease:
    return Lease(id="L1", spec=SPEC, forms=SPEC.forms, form="granted", pid=pid, **given)  # type: ignore[arg-type]


def test_the_daemon_knows_whose_memory_it_is_after_its_first_process_is_gone(
    started: Started, tmp_path: Path
) -> None:
    first = visitor(started, tmp_path, "--leaves")
    ticks = LinuxProcesses().start_ticks(first.pid)
    first.wait(LIMIT_S)
    left = reporter(tmp_path)
    visitors, told = seen(made(first.pid, start_ticks=ticks, ask_key=MARK.partition(".")[2]))
    visitors.look()
    assert (visitors.owner(left), told) == ("L1", [])
    end(left)
    visitors.look()
    assert told == [LeaseGone(lease="L1")]


def test_without_a_word_of_its_own_nobody_who_left_is_known(started: Started, tmp_path: Path) -> None:
    first = visitor(started, tmp_path, "--leaves", mark=None)
    ticks = LinuxProcesses().start_ticks(first.pid)
    first.wait(LIMIT_S)
    left = reporter(tmp_path)
    visitors, told = seen(made(first.pid, start_ticks=ticks))
    visitors.look()
    assert (visitors.owner(left), told) == (None, [LeaseGone(lease="L1")])
    end(left)


def test_a_claim_by_a_pattern_lasts_as_long_as_anything_matches(started: Started) -> None:
    seconds = f"600.{os.getpid()}"
    pattern = f"^sleep {seconds}$"
    first, second = (started.start(["sleep", seconds]) for _ in range(2))
    wait_for(lambda: LinuxProcesses().matching(pattern) == {first.pid, second.pid}, LIMIT_S, "both")
    visitors, told = seen(made(None, kind="claim", match=pattern))
    assert (visitors.owner(first.pid), visitors.owner(os.getpid())) == ("L1", None)
    for pid in sorted((first.pid, second.pid)):
        visitors.look()
        assert told == []
        end(pid)
    first.wait()
    second.wait()
    visitors.look()
    assert told == [LeaseGone(lease="L1")]


# ---------------------------------------------------------------- patterns

LINES = ("python train.py --config big", "train.py", "aXb", "ab", "a\nb", "end x", "x end", "", "[b]")
PATTERNS = (
    "train.py", "^train", "python.*big", "big.*python", "a.+b", "a.*b", "x$", "^x", "[xy] end", r"\bend\b", ".*",
    r"\[b\]", "b.*^a", "a$.*b", "train.*train", "^.*$",
)  # fmt: skip


def test_a_pattern_finds_what_the_regular_expression_finds() -> None:
    for pattern in PATTERNS:
        for line in LINES:
            expected = re.search(pattern, line, re.DOTALL) is not None
            assert found_in(line, pattern) == expected, (pattern, line)


def test_no_pattern_that_is_let_in_takes_longer_than_a_moment() -> None:
    line, most = "a" * (1 << 20), PATTERN_MAX
    worst = [
        ".*a" * (most // 3) + "b",
        "a" * (most - 1) + "b",
        "[ab]" * (most // 4 - 1) + "c",
        ".+" * (most // 2),
    ]
    began_s = time.process_time()
    for pattern in (*worst, "(a+)+$", "(a|a)*b"):  # the last ones only an earlier version let in
        found_in(line, pattern)
    assert time.process_time() - began_s < 10.0  # 20 ms each on a quiet machine


# ---------------------------------------------------------------- servers that somebody else started

LISTENS = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); {then}; time.sleep(600)"
FORKS = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"


def test_a_server_is_known_by_its_port_and_what_it_started_is_its_own(
    processes: LinuxProcesses, started: Started
) -> None:
    port, now_s = free_port(), [0.0]
    spec = service_spec(argv=(), asleep=1, upstream=f"http://127.0.0.1:{port}")
    scene = Scene(24).service(spec, run=None, since_s=0.0)
    eyes = HandServers(processes, lambda: scene.s, lambda: now_s[0])
    assert eyes.owner(os.getpid()) is None, "nobody listens"
    server = started.start([sys.executable, "-c", LISTENS.format(port=port, then=FORKS)])
    (child,) = wait_for(lambda: psutil.Process(server.pid).children(), LIMIT_S)
    now_s[0] = LOOK_AGAIN_S
    assert (eyes.owner(server.pid), eyes.owner(child.pid), eyes.owner(os.getpid())) == ("chat", "chat", None)
    end(child.pid)
    end(server.pid)
    assert eyes.owner(server.pid) is None
    again = started.start([sys.executable, "-c", LISTENS.format(port=port, then="pass")])
    wait_for(lambda: processes.listeners(port), LIMIT_S)
    now_s[0] += LOOK_AGAIN_S
    assert eyes.owner(again.pid) == "chat", "its owner started it again"


NOT_LOOKED_FOR: dict[str, dict[str, Any]] = {
    "one that Headway starts": {"argv": ("serve",)},
    "one on another machine": {"upstream": "http://192.0.2.1:{port}"},
    "one without a port": {"upstream": "http://127.0.0.1"},
    "one whose port is none": {"upstream": "http://127.0.0.1:70000"},
}


@pytest.mark.parametrize("name", NOT_LOOKED_FOR)
def test_who_is_not_looked_for(processes: LinuxProcesses, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        given: dict[str, Any] = {"argv": (), "upstream": f"http://127.0.0.1:{port}", **NOT_LOOKED_FOR[name]}
        given["upstream"] = str(given["upstream"]).format(port=port)
        scene = Scene(24).service(service_spec(asleep=1, **given), run=None)
        assert HandServers(processes, lambda: scene.s, lambda: 1e6).owner(os.getpid()) is None
        there = service_spec(asleep=1, argv=(), upstream=f"http://127.0.0.1:{port}")
        scene = Scene(24).service(there, run=None)
        assert HandServers(processes, lambda: scene.s, lambda: 1e6).owner(os.getpid()) == "chat"
