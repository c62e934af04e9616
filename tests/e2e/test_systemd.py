"""A daemon as systemd runs it: it says that it is ready, that its loop goes on, and that it leaves."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.e2e.stack import LIMIT_S, Stack
from tests.e2e.tables import Table, config, sleeper
from tests.parts.programs import ROOT
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]


def test_a_daemon_is_ready_when_it_answers_and_stops_saying_that_it_lives(
    stacks: Up, started: Started
) -> None:
    headway = stacks(config(sleeper("long")))
    notify = headway.home / "notify"
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(notify))
        manager.setblocking(False)

        def told(word: bytes, times: int = 1) -> bool:
            with suppress(BlockingIOError):
                while True:
                    heard.append(manager.recv(4096))
            return heard.count(word) >= times

        env = {"NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "1000000"}
        command = [sys.executable, "-m", "headway.cli.main", "--home", str(headway.home), "daemon"]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        daemon = started.start(command, env={**env, "PYTHONPATH": paths}, cwd=headway.home)
        wait_for(lambda: told(b"READY=1"), LIMIT_S, "READY=1")
        assert headway.daemon_answers()
        wait_for(lambda: told(b"WATCHDOG=1", 3), LIMIT_S, "signs of life")
        job = headway.wait_job("long", "running")
        with open(f"/proc/{job['pid']}/environ", "rb") as environ:
            assert b"NOTIFY_SOCKET" not in environ.read()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(LIMIT_S) == 0
        assert told(b"STOPPING=1") and heard.index(b"STOPPING=1") > heard.index(b"READY=1")
