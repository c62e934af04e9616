"""A job beside a model, frozen while that answers: its whole tree, in the right order, whatever is killed in between."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from headway.host.cgroups import MOUNTS, mount_point, own_path
from tests.e2e.loads import Reply, begin_chat, chat, server_stats, up
from tests.e2e.stack import Stack
from tests.e2e.tables import Entry, Table, config, render, tiny
from tests.processes import alive

pytestmark = pytest.mark.e2e

Up = Callable[[Table], Stack]
FREEZES_S = 10 * 0.2  # ten times what is promised
THAWS_S = 1.0  # of quiet


def beside(**more: Any) -> Entry:
    """A job of two processes that draws frames beside the model."""
    job = render(placement="yield", **more)
    job.table["start"] = ["sh", "-c", 'sleep 600 & exec "$@"', "tree", *job.table["start"]]
    return job


def both(stack: Up, **more: Any) -> Stack:
    """The model awake, and the job at work beside it."""
    headway = up(stack, config(tiny("chat", "8GiB"), beside(**more)))
    headway.wait_job("render", "running")
    assert chat(headway, "chat").status == 200
    works(headway)
    return headway


def frame(stack: Stack) -> int:
    path = stack.home / "render" / "frame"
    return int(path.read_text() or 0) if path.exists() else 0


def works(stack: Stack, limit_s: float = 60.0) -> None:
    """Wait until it draws."""
    seen = frame(stack)
    stack.wait(lambda: frame(stack) > seen, "another frame", limit_s)


def stands(pid: int) -> bool:
    """Whether a process gets no processor: stopped by a signal, or with its cgroup."""
    if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
        return True
    mounted, own = mount_point(MOUNTS.read_text()), own_path(Path(f"/proc/{pid}/cgroup").read_text())
    if mounted is None or own is None:
        return False
    events = mounted / own.lstrip("/") / "cgroup.events"
    return events.exists() and "frozen 1" in events.read_text()


def tree(stack: Stack) -> list[int]:
    pids = stack.run_pids("render")
    assert len(pids) == 2
    return pids


def asks(stack: Stack, seconds: float) -> Future[Reply]:
    """A request whose answer takes so long, once the server has it."""
    before = server_stats(stack, "chat")["began"]
    reply = begin_chat(stack, "chat", chunks=int(seconds / 0.1), pace_s=0.1)
    stack.wait(lambda: server_stats(stack, "chat")["began"] > before, "the request at the server")
    return reply


def test_it_is_frozen_while_the_model_answers_and_goes_on_after_a_second_of_quiet(stack: Up) -> None:
    headway = both(stack)
    pids, job = tree(headway), headway.job("render")
    answer = asks(headway, 3)
    headway.wait(lambda: all(map(stands, pids)), "the freeze", FREEZES_S)
    stood_at = frame(headway)
    assert not answer.done(), "frozen while it answers, not after"
    row = headway.job("render")
    assert (row["state"], row["code"]) == ("frozen", "frozen")
    reply = answer.result(60)
    over_s = time.monotonic()
    assert reply.status == 200 and frame(headway) == stood_at
    second = asks(headway, 0.3).result(60)
    assert all(map(stands, pids)) and frame(headway) == stood_at, (
        "a short pause between two requests is no quiet"
    )
    over_s = time.monotonic()
    headway.wait(lambda: not any(map(stands, pids)), "the thaw", 10 * THAWS_S)
    assert time.monotonic() - over_s >= THAWS_S - 0.1
    works(headway)
    assert [row["held"] for row in headway.requests("chat") if row["id"] in (reply.id, second.id)] == [
        False,
        False,
    ]
    after = headway.job("render")
    assert (after["pid"], after["run"], after["runs"]) == (job["pid"], job["run"], job["runs"])


def test_the_next_daemon_thaws_what_no_request_justifies(stack: Up) -> None:
    headway = both(stack)
    pids = tree(headway)
    answer = asks(headway, 1)
    headway.wait(lambda: all(map(stands, pids)), "the freeze", FREEZES_S)
    headway.kill("daemon")
    assert answer.result(60).status == 200, "the gate needs no daemon for an open service"
    headway.wait(headway.daemon_answers, "the next daemon")
    headway.wait(lambda: not any(map(stands, pids)), "the thaw", 10 * THAWS_S)
    works(headway)
    assert tree(headway) == pids


def test_the_next_daemon_keeps_frozen_what_a_request_still_justifies(stack: Up) -> None:
    headway = both(stack)
    pids = tree(headway)
    answer = asks(headway, 600)
    headway.wait(lambda: all(map(stands, pids)), "the freeze", FREEZES_S)
    headway.kill("daemon")
    headway.wait(headway.daemon_answers, "the next daemon")
    headway.wait(lambda: headway.job("render")["code"] == "frozen", "that it is frozen")
    headway.wait(lambda: all(map(stands, pids)), "the freeze by the next daemon", FREEZES_S)
    answer.cancel()  # its client leaves
    works(headway)


def test_frozen_time_is_no_silence(stack: Up) -> None:
    headway = both(stack, stall_after=1.5)
    answer = asks(headway, 4)
    headway.wait(lambda: all(map(stands, tree(headway))), "the freeze", FREEZES_S)
    ran_s = headway.job("render")["ran_s"]
    assert answer.result(60).status == 200
    works(headway)
    assert not headway.events("job.stalled")
    assert headway.job("render")["ran_s"] < ran_s + 4, "and no running time"


@pytest.mark.parametrize("verb", ["stop", "kill", "cancel", "pause"])
def test_a_frozen_one_hears_every_verb(stack: Up, verb: str) -> None:
    headway = both(stack)
    pids = tree(headway)
    answer = asks(headway, 600)
    headway.wait(lambda: all(map(stands, pids)), "the freeze", FREEZES_S)
    headway.post(f"/api/v1/jobs/render/{verb}")
    if verb == "pause":
        headway.wait_job("render", "parked")
        assert not any(map(stands, pids)), "parked is not frozen"
    else:
        headway.wait_job("render", "cancelled" if verb == "cancel" else "held")
        headway.wait(lambda: not any(map(alive, pids)), "the end of its tree")
    answer.cancel()
