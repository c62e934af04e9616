"""Commands for runs, and waiting for what becomes of them."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from headway.host.linux_proc import process
from headway.ports import Runs, RunSpec, RunState
from tests.waiting import POLL_S, wait_until

LIMIT_S = 20.0
PYTHON = (sys.executable, "-I", "-S", "-c")

# name: (shell script, shells and sleeps it becomes)
TREES: dict[str, tuple[str, int, int]] = {
    "one process": ("exec sleep 600", 0, 1),
    "children": ("sleep 600 & sleep 600 & wait", 1, 2),
    "grandchildren": ("sh -c 'sh -c \"sleep 600 & wait\" & wait' & wait", 3, 1),
    "a double fork in a session of its own": ("(setsid sleep 600 &) ; exec sleep 600", 0, 2),
    "a child that ignores TERM": ("sh -c 'trap \"\" TERM; sleep 600 & wait; sleep 600' & wait", 2, 1),
    "a leader that ignores TERM": ("trap '' TERM; sleep 600; sleep 600; sleep 600", 1, 1),
    "a stopped child": ("sh -c 'kill -STOP $$; sleep 600' & sleep 600 & wait", 2, 1),
    "a leader that left": ("sleep 600 & exit 3", 0, 1),
}


async def launch(
    runs: Runs, run_id: str, *argv: str, cwd: str | None = None, port: int | None = None
) -> RunState:
    """Start a run and wait until its command was executed, or could not be."""
    runs.launch(RunSpec(id=run_id, holder="h", argv=argv, cwd=cwd, port=port))
    return await until(runs, run_id, lambda state: state.ran)


async def until(runs: Runs, run_id: str, wanted: Callable[[RunState], bool]) -> RunState:
    """Follow a run by `changed` until it is as wanted."""
    async with asyncio.timeout(LIMIT_S):
        state = runs.read(run_id)
        assert state is not None
        while not wanted(state):
            state = await runs.changed(run_id, state)
        return state


async def until_so(ask: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask until it is so."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + LIMIT_S
    while not await ask():
        assert loop.time() < deadline_s, f"{what} did not come within {LIMIT_S:g} s"
        await asyncio.sleep(POLL_S)


async def launch_tree(runs: Runs, run_id: str, name: str) -> frozenset[int]:
    """Start one of TREES and wait until all its processes are there; returns their pids."""
    script, *wanted = TREES[name]
    await launch(runs, run_id, "sh", "-c", script)

    def complete() -> frozenset[int]:
        pids = runs.pids(run_id)
        names = [comm(pid) for pid in pids]
        return pids if [names.count("sh"), names.count("sleep")] == wanted else frozenset()

    pids = await wait_until(complete, LIMIT_S, f"tree of {name}")
    if "left" in name:
        await until(runs, run_id, lambda state: state.exit is not None)
    return pids


def comm(pid: int) -> str:
    """The program's short name; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def shim_of(pid: int) -> int:
    """The shim over a leader that lives."""
    one = process(pid)
    assert one is not None
    return one.parent


async def kill_shim(runs: Runs, run_id: str, leader: int) -> None:
    """SIGKILL, until the lock is free."""
    os.kill(shim_of(leader), signal.SIGKILL)
    await until(runs, run_id, lambda state: not state.lock_held)


def living(pids: Sequence[int] | frozenset[int]) -> list[int]:
    """Those of `pids` that still run."""
    found = [process(pid) for pid in pids]
    return [one.pid for one in found if one is not None and one.alive]


async def end_all(runs: Runs) -> None:
    """End every run, so that none outlives its test."""
    for run_id in runs.known():
        async with asyncio.timeout(LIMIT_S):
            await runs.stop(run_id, 0.0)
