"""Whose a process is, signals to whole trees, changes of runs, and listeners on ports."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from headway.host.linux_proc import Process, process, send
from headway.host.linux_runs import LinuxRuns
from headway.host.run_files import RunFiles
from headway.ports import Runs, RunSpec
from tests.parts.programs import sleeper
from tests.parts.running import LIMIT_S, PYTHON, end_all, kill_shim, launch, launch_tree, living, until
from tests.processes import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.contract


async def test_owner_is_proven_by_parentage_or_token(runs: Runs, tmp_path: Path) -> None:
    pids = await launch_tree(runs, "r", "grandchildren")
    assert {runs.owner(pid) for pid in pids} == {"r"}
    assert runs.owner(os.getpid()) is None and runs.owner(1) is None
    state = runs.read("r")
    assert state is not None and state.pid is not None
    await runs.stop("r", 1.0)
    assert {runs.owner(pid) for pid in pids} == {None}
    with sleeper() as stranger:
        assert runs.owner(stranger.pid) is None


async def test_the_same_id_in_another_directory_is_another_run(runs: Runs, tmp_path: Path) -> None:
    other = LinuxRuns(tmp_path / "other")
    state = await launch(other, "r", "sleep", "600")
    mine = await launch(runs, "r", "sleep", "600")
    try:
        assert state.pid is not None and mine.pid is not None
        await kill_shim(other, "r", state.pid)
        await kill_shim(runs, "r", mine.pid)
        assert runs.owner(state.pid) is None and other.owner(mine.pid) is None
        await runs.stop("r", 0.0)
        assert living([state.pid]) == [state.pid]
    finally:
        await end_all(other)


def test_a_reused_pid_is_never_signalled() -> None:
    with sleeper() as stranger:
        one = process(stranger.pid)
        assert one is not None
        send(Process(one.pid, one.parent, one.start_ticks - 1, "S", 1), signal.SIGKILL)
        send(one, signal.SIGTERM)
        assert stranger.wait(LIMIT_S) == -signal.SIGTERM


async def test_a_run_of_an_earlier_boot_owns_nothing(runs: Runs) -> None:
    with sleeper() as stranger:
        one = process(stranger.pid)
        assert one is not None
        files = RunFiles(runs.directory("r"))
        os.close(files.create(RunSpec(id="r", holder="h", argv=("true",)), "token"))
        shim = f'"shim": {one.pid}, "shim_start_ticks": {one.start_ticks}'
        started = (
            f'{{"pid": {one.pid}, "start_ticks": {one.start_ticks}, "boot_id": "an earlier one", {shim}}}'
        )
        (files.directory / "started").write_text(started)
        adopted = LinuxRuns(files.directory.parent)
        assert adopted.pids("r") == frozenset() and adopted.owner(one.pid) is None
        await adopted.stop("r", 0.0)
        assert living([one.pid])


async def test_freeze_stops_every_process_and_thaw_continues_them(runs: LinuxRuns) -> None:
    pids = await launch_tree(runs, "r", "grandchildren")

    def stand() -> bool:
        """All of them, by a signal or by their cgroup."""
        scope = runs._scopes._base
        events = scope / "r" / "cgroup.events" if scope is not None else None
        frozen = events is not None and events.exists() and "frozen 1" in events.read_text()
        return frozen or {one.state for one in map(process, pids) if one is not None} == {"T"}

    runs.signal("r", freeze=True)
    await wait_until(stand, LIMIT_S)
    assert runs.pids("r") == pids
    runs.signal("r", freeze=False)
    await wait_until(lambda: not stand(), LIMIT_S)
    runs.signal("r", freeze=True)
    async with asyncio.timeout(LIMIT_S):
        await runs.stop("r", 5.0)
    state = runs.read("r")
    assert state is not None and state.exit is not None
    assert state.exit.code == -signal.SIGTERM  # which reaches a frozen tree only with CONT
    assert not living(pids)


async def test_changed_tells_each_state_once_and_soon(runs: Runs) -> None:
    runs.launch(RunSpec(id="r", holder="h", argv=("sleep", "600")))
    states = [await until(runs, "r", lambda state: state.ran)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.6):
            await runs.changed("r", states[0])
    os.kill(states[0].pid or 0, signal.SIGKILL)
    while not states[-1].gone or states[-1].lock_held:
        async with asyncio.timeout(LIMIT_S):
            states.append(await runs.changed("r", states[-1]))
    assert len(states) == len(set(map(repr, states)))
    runs.forget("r")
    assert runs.read("r") is None


async def test_who_listens_on_a_port(runs: Runs) -> None:
    port, other = free_port(), free_port()
    script = "import socket,sys,time\ns=socket.create_server(('',int(sys.argv[1])))\ntime.sleep(600)"
    await launch(runs, "r", "sh", "-c", '"$0" "$@" & wait', *PYTHON, script, str(port))
    await wait_until(lambda: runs.listens("r", port), LIMIT_S, "the listener")
    assert not runs.listens("r", other) and runs.listener(other) is None
    words = runs.listener(port)
    assert words is not None and words.startswith("pid ") and "python" in words
    await launch(runs, "s", "sleep", "600")
    assert not runs.listens("s", port)
    await runs.stop("r", 1.0)
    assert runs.listener(port) is None


async def test_a_port_shared_with_a_stranger_is_not_ours(runs: Runs) -> None:
    port = free_port()
    script = (
        "import socket,sys,time\ns=socket.socket()\ns.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEPORT,1)\n"
        "s.bind(('127.0.0.1',int(sys.argv[1])))\ns.listen()\ntime.sleep(600)"
    )
    await launch(runs, "r", *PYTHON, script, str(port))
    await wait_until(lambda: runs.listens("r", port), LIMIT_S)
    await launch(runs, "s", *PYTHON, script, str(port))
    await wait_until(lambda: not runs.listens("r", port), LIMIT_S, "the second listener")
    await runs.stop("s", 0.0)
    assert runs.listens("r", port)
