"""Starting and ending processes in tests: by pid, the whole tree, never by name."""

import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from headway.host.cgroups import Scopes
from tests.waiting import wait_for

TOKEN = "TESTS_OF_HEADWAY"  # HEADWAY_* would not reach the runs of a Headway under test


def free_port() -> int:
    """A loopback TCP port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(pid: int) -> bool:
    """Whether `pid` runs. A zombie does not: its memory is gone."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def tree(pid: int) -> list[psutil.Process]:
    """`pid` and its descendants of now, leader first; empty when it is gone."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end(pid: int, limit_s: float = 10.0) -> None:
    """Kill `pid` and its descendants, and wait until none of them runs.

    Raises:
        NeverHappened: one of them still runs after `limit_s` seconds.
    """
    members = tree(pid)
    for member in members:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            pass  # it went with its parent
    pids = [member.pid for member in members]
    wait_for(
        lambda: not any(member.is_running() and alive(member.pid) for member in members),
        limit_s,
        f"end of {pids}",
    )


class Started:
    """The processes of one test; `close` ends each with its tree, last started first.

    Each carries a token in its environment, so that one which left the tree (a daemon, an orphan) is found too.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.token = uuid.uuid4().hex
        self.running: list[subprocess.Popen[bytes]] = []
        self._pids: list[int] = []
        self._logs: list[IO[bytes]] = []

    def start(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start `argv` in a session of its own; its output goes to `NN.log` in the log directory.

        `env` is added to this process's environment.
        """
        log = (self.log_dir / f"{len(self.running):02}.log").open("wb")
        self._logs.append(log)
        child = subprocess.Popen(
            list(argv),
            env={**os.environ, **(env or {}), TOKEN: self.token},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.running.append(child)
        return child

    def also_end(self, pid: int) -> None:
        """End `pid` too when the test is over: a process that something under test started."""
        self._pids.append(pid)

    def output(self) -> str:
        """What all of them printed so far, for the message of a failing test."""
        return "\n".join(
            f"--- {log.name}\n{Path(log.name).read_text(errors='replace')}" for log in self._logs
        )

    def close(self) -> None:
        """End everything that still runs."""
        for child in reversed(self.running):
            end(child.pid)
            child.wait(timeout=10)
        for pid in [*self._pids, *self._marked()]:
            end(pid)
        for log in self._logs:
            log.close()

    def _marked(self) -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(TOKEN) == self.token:
                    found.append(process.pid)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone, or another user's
        return found


def signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the session that `Started.start` made for `child`, as a terminal does."""
    os.killpg(child.pid, number)


def remove_scopes(runs: Path) -> None:
    """Take away the empty cgroups of runs whose shims were killed: nobody else will."""
    scopes = Scopes(runs)
    for path in runs.iterdir() if runs.is_dir() else ():
        scopes.remove(path.name)
