"""Which processes belong to which run: by parentage below its shim, by its cgroup, or by its token."""

from __future__ import annotations

import os
from collections.abc import Callable

from headway.host.cgroups import Scopes
from headway.host.linux_proc import Process, ancestors, descendants, process, processes, token
from headway.host.run_files import GONE, SPEC, STARTED, RunFiles

OWNERS_MAX = 4096

Name = tuple[int, int]  # (pid, start ticks)


class RunTrees:
    """Finds the processes of runs. What it remembers are short cuts, filled again from the files."""

    def __init__(self, boot_id: str, files: Callable[[str], RunFiles], scopes: Scopes) -> None:
        self._boot_id, self._files, self._scopes = boot_id, files, scopes
        self._tokens: dict[str, str] = {}  # token -> run
        self._shims: dict[int, tuple[int, str]] = {}  # pid -> (start ticks, run)
        self._owners: dict[Name, str] = {}

    def learn(self, run_id: str, shim_pid: int | None = None) -> Name | None:
        """Take token and shim from the run's files; returns the shim, None while that is not known.

        `shim_pid`: the shim just started, which has written nothing yet.
        """
        files = self._files(run_id)
        if spec := files.document(SPEC):
            self._tokens[spec["token"]] = run_id
        started = files.document(STARTED)
        if started and started["boot_id"] == self._boot_id:
            shim_pid, ticks = int(started["shim"]), int(started["shim_start_ticks"])
        elif shim_pid is not None and (shim := process(shim_pid)) is not None:
            ticks = shim.start_ticks
        else:
            return None
        self._shims[shim_pid] = (ticks, run_id)
        return shim_pid, ticks

    def forget(self, run_id: str) -> None:
        """Drop the short cuts to a run."""
        self._tokens = {one: run for one, run in self._tokens.items() if run != run_id}
        self._shims = {pid: known for pid, known in self._shims.items() if known[1] != run_id}
        self._owners = {name: run for name, run in self._owners.items() if run != run_id}

    def of(self, run_id: str) -> list[Process]:
        """Living processes of the run's tree, parents first, the shim left out."""
        files = self._files(run_id)
        if (files.directory / GONE).exists():
            return []
        shim = self.learn(run_id)
        table = processes()
        above = table.get(shim[0]) if shim else None
        if above is not None and (above.pid, above.start_ticks) == shim and above.alive:
            return descendants([above.pid], table)  # it is subreaper: nothing leaves the tree
        found = self._survivors(files, table)
        known = {one.pid for one in found}
        inside = (table.get(pid) for pid in self._scopes.pids(run_id) if pid not in known)
        return found + [one for one in inside if one is not None and one.alive]

    def busy_s(self, run_id: str) -> float | None:
        """Processor time of the living tree, ended children included; None when nothing of it lives."""
        tree = self.of(run_id)
        return sum(one.busy_ticks for one in tree) / os.sysconf("SC_CLK_TCK") if tree else None

    def owner(self, pid: int) -> str | None:
        """The run that a living pid belongs to; None: not ours."""
        one = process(pid)
        if one is None or not one.alive:
            return None
        name = (one.pid, one.start_ticks)
        found = self._owners.get(name) or self._find_owner(one)
        if found is not None:
            if len(self._owners) >= OWNERS_MAX:
                self._owners.clear()
            self._owners[name] = found
        return found

    def _survivors(self, files: RunFiles, table: dict[int, Process]) -> list[Process]:
        """What a killed shim left behind: the leader, all that carry the token, and all below them."""
        spec, started = files.document(SPEC), files.document(STARTED)
        if spec is None or started is None or (started and started["boot_id"] != self._boot_id):
            return []
        # one of both may be damaged: a token is like no other on this machine, and so is a leader in its boot
        leader = (started["pid"], started["start_ticks"]) if started else None
        ours = [
            one
            for one in table.values()
            if one.alive
            and ((one.pid, one.start_ticks) == leader or (spec and token(one.pid) == spec["token"]))
        ]
        return ours + descendants([one.pid for one in ours], table)

    def _find_owner(self, one: Process) -> str | None:
        for above in ancestors(one):
            ticks, run_id = self._shims.get(above.pid, (None, None))
            if ticks == above.start_ticks:
                return run_id
        return self._tokens.get(token(one.pid) or "") or self._scopes.owner(one.pid)
