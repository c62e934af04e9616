"""Process trees that outlive the daemon, on Linux: a shim and a lock per run, /proc and pidfds to look and to signal.

Whatever is known of a run is in its files and its lock. What this object remembers are short cuts: a new one finds the
same answers.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.host import linux_net
from headway.host.cgroups import Scopes
from headway.host.linux_proc import first_death, process, send, ticks_now
from headway.host.run_files import USUAL, LogLimits, RunFiles
from headway.host.run_mending import mend
from headway.host.run_trees import Name, RunTrees
from headway.ports import RunSpec, RunState

SHIM = Path(__file__).with_name("shim.py")
USABLE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+-]{0,199}")
SOONEST_S = 0.002  # between two looks right after something happened
STARTING_S = 0.02  # at most, while a shim is about to execute its command, and between two KILLs
SLOWEST_S = 0.25  # at most, otherwise
FREEZE_PASSES = 20  # a tree that forks while it is being frozen is walked again
# Of the daemon's own environment: words to it from its supervisor, and what an outer Headway told it.
NOT_FOR_RUNS = re.compile(r"NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(PID|FDS|FDNAMES)|HEADWAY_.*")


class LinuxRuns:
    """Implements ports.Runs over one directory. One process at a time has one: making it clears away half-made runs,
    and raises RunUnreadable for one that lives and whose files and processes do not say what it is."""

    def __init__(self, directory: Path, logs: LogLimits = USUAL) -> None:
        self.logs = logs  # of runs that start from now on
        self._directory = directory.absolute()
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._scopes = Scopes(self._directory)
        self._trees = RunTrees(self.boot_id, self._files, self._scopes)
        self._children: dict[str, subprocess.Popen[bytes]] = {}  # shims we started, to be reaped
        for half in self._directory.glob(".*"):  # half made or half removed when somebody was killed
            if not RunFiles(half).locked():
                shutil.rmtree(half, ignore_errors=True)
        self.damaged = mend(map(self._files, self.known()), self.boot_id)  # files that cannot be read
        for run_id in self.known():
            self._trees.learn(run_id)
        for run_id in set(self._scopes.known()) - set(self.known()):
            self._scopes.remove(run_id)  # made for a run that never came to be

    def launch(self, spec: RunSpec) -> None:
        """Start a run. It outlives us from the moment it can be seen. May be called in a thread: it waits for the disk.

        Raises:
            FileExistsError: the id was used before.
            ValueError: the id cannot be a directory's name.
            OSError: no space, no processes left. Nothing runs then.
        """
        if not USABLE_ID.fullmatch(spec.id):
            raise ValueError(f"{spec.id!r} cannot be the id of a run: letters, digits and _.@:+- only")
        self._reap()
        files = self._files(spec.id)
        token = f"{spec.id}.{secrets.token_hex(8)}"  # unlike the id it is unique on the whole machine
        lock = files.create(spec, token, self._scopes.make(spec.id), self.logs)
        try:
            log = os.open(files.directory / spec.log_name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                child = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(SHIM), str(lock), str(files.directory)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    pass_fds=(lock,),
                    start_new_session=True,
                )
            finally:
                os.close(log)
        finally:
            os.close(lock)  # from here on the shim alone holds it
        self._children[spec.id] = child
        self._trees.learn(spec.id, child.pid)

    def read(self, run_id: str) -> RunState | None:
        """The run as its files and its lock show it now."""
        self._reap()
        return self._files(run_id).state()

    def spec(self, run_id: str) -> RunSpec | None:
        return self._files(run_id).spec()

    def known(self) -> Sequence[str]:
        """Ids of every run directory there is, sorted; with whatever else has a name there, whose state is None."""
        return sorted(path.name for path in self._directory.iterdir() if not path.name.startswith("."))

    def directory(self, run_id: str) -> Path:
        """Where that run's files are, or would be."""
        return self._directory / run_id

    def log_tail(self, run_id: str, lines: int) -> list[str]:
        """Its last lines of output."""
        return self._files(run_id).tail(lines)

    def forget(self, run_id: str) -> None:
        """Remove what is left of a run that has ended, or that never ran.

        Raises:
            ValueError: it still lives.
        """
        state = self.read(run_id)
        if state is None:
            return
        if not state.ended or self._trees.of(run_id):
            raise ValueError(f"run {run_id} still lives; stop it first")
        self._files(run_id).remove()
        self._scopes.remove(run_id)
        self._trees.forget(run_id)

    # -------------------------------------------------------- waiting

    async def changed(self, run_id: str, known: RunState) -> RunState:
        """Wait until the run differs from `known`: at once when a process ends, else within a quarter second."""
        pause_s, dead = SOONEST_S, set[Name]()
        while True:
            state = self.read(run_id)
            if state is None:  # forgotten
                state = replace(known, lock_held=False, gone=True)
            if state != known:
                return state
            watched = (self._shim(run_id), None if state.exit else _name(state))
            newly = await first_death({name for name in watched if name} - dead, pause_s)
            dead |= newly
            limit_s = SLOWEST_S if state.ran or not state.lock_held else STARTING_S
            pause_s = SOONEST_S if newly else min(pause_s * 2, limit_s)

    # -------------------------------------------------------- trees

    def pids(self, run_id: str) -> frozenset[int]:
        """Living processes of the tree, the shim left out."""
        return frozenset(one.pid for one in self._trees.of(run_id))

    def owner(self, pid: int) -> str | None:
        """The run a living pid belongs to: a shim above it, or the token in its environment."""
        return self._trees.owner(pid)

    def busy_s(self, run_id: str) -> float | None:
        return self._trees.busy_s(run_id)

    def signal(self, run_id: str, freeze: bool) -> None:
        """Stop or continue every process of the tree. The shim goes on: it stands outside."""
        if self._scopes.freeze(run_id, freeze) and freeze:
            return
        done: set[Name] = set()
        for _ in range(FREEZE_PASSES):
            fresh = [one for one in self._trees.of(run_id) if (one.pid, one.start_ticks) not in done]
            if not fresh:
                return
            for one in fresh:
                send(one, signal.SIGSTOP if freeze else signal.SIGCONT)
                done.add((one.pid, one.start_ticks))

    async def stop(self, run_id: str, grace_s: float) -> None:
        """End the tree: TERM once to each process, and CONT for a stopped one; after `grace_s` KILL until none is left.

        What the tree starts after the TERM (to save its work, perhaps) has the grace too. There is no limit here: a
        process that the kernel cannot end keeps this waiting.
        """
        state = self.read(run_id)
        while state is not None and state.lock_held and not state.ran:
            state = await self.changed(run_id, state)  # the shim is about to execute it
        if state is None or not state.ran or state.gone:
            return
        self._scopes.freeze(run_id, False)  # a frozen tree hears no TERM
        loop = asyncio.get_running_loop()
        kill_at_s, began_ticks = loop.time() + grace_s, ticks_now()
        told: set[Name] = set()
        while tree := self._trees.of(run_id):
            left_s = kill_at_s - loop.time()
            if left_s <= 0:
                self._scopes.kill(run_id)
            names = {(one.pid, one.start_ticks) for one in tree}
            # all that are there before the first TERM, later those that the first look missed
            tell = {name for name in names - told if not told or name[1] < began_ticks}
            for one in tree:
                if left_s <= 0:
                    send(one, signal.SIGKILL)
                elif (one.pid, one.start_ticks) in tell:
                    send(one, signal.SIGTERM, signal.SIGCONT)
            told |= names
            await first_death(names, min(SLOWEST_S, left_s) if left_s > 0 else STARTING_S)
        await self._closed(run_id)

    # -------------------------------------------------------- ports

    def listens(self, run_id: str, port: int) -> bool:
        """Whether 127.0.0.1:`port` reaches a process of that tree, and nobody else."""
        return linux_net.owned(port, self.pids(run_id))

    def listener(self, port: int) -> str | None:
        """Who listens on that port, in words."""
        return linux_net.listener_words(port)

    # -------------------------------------------------------- inside

    def _files(self, run_id: str) -> RunFiles:
        return RunFiles(self.directory(run_id))

    def _shim(self, run_id: str) -> Name | None:
        child = self._children.get(run_id)
        return self._trees.learn(run_id, child.pid if child else None)

    async def _closed(self, run_id: str) -> None:
        """Wait until the shim of an empty tree has written its last word, or write it in place of a dead one."""
        shim = self._shim(run_id)
        above = process(shim[0]) if shim else None
        if above is not None and shim == (above.pid, above.start_ticks):
            send(above, signal.SIGCONT)  # somebody may have stopped it
        state = self.read(run_id)
        while state is not None and not state.ended:
            state = await self.changed(run_id, state)
        if state is not None and not state.gone:
            self._scopes.remove(run_id)
            self._files(run_id).mark_gone()

    def _reap(self) -> None:
        for run_id, child in list(self._children.items()):
            if child.poll() is not None:
                self._children.pop(run_id, None)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not NOT_FOR_RUNS.fullmatch(name)}


def _name(state: RunState) -> Name | None:
    return None if state.pid is None or state.start_ticks is None else (state.pid, state.start_ticks)
