"""Runs in memory: what the files and locks of real ones would show, changed by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.core.model import Exit
from headway.ports import RunSpec, RunState


class FakeRuns:
    """Implements ports.Runs. A launched run has a pid at once and lives until it is stopped or `ends`."""

    def __init__(self, boot_id: str = "boot-1") -> None:
        self.boot_id = boot_id
        self.states: dict[str, RunState] = {}
        self.survivors: set[str] = set()  # runs of which something lives although the shim does not
        self.launched: list[str] = []
        self.stopped: list[tuple[str, float]] = []
        self.signals: list[tuple[str, bool]] = []
        self.forgotten: list[str] = []
        self.pid = 1000

    # ---------------------------------------------------------------- for tests

    def put(self, run_id: str, holder: str, **fields: Any) -> RunState:
        """A run as it stands: alive unless told otherwise."""
        self.pid += 1
        known: dict[str, Any] = {
            "lock_held": True,
            "pid": self.pid,
            "start_ticks": 7,
            "boot_id": self.boot_id,
        }
        self.states[run_id] = RunState(id=run_id, holder=holder, **{**known, **fields})
        return self.states[run_id]

    def ends(self, run_id: str, code: int = 0, at_s: float | None = None) -> None:
        """Its leader ended and nothing is left."""
        exit_ = Exit(code=code, at_s=at_s)
        self.states[run_id] = replace(self.states[run_id], lock_held=False, exit=exit_, gone=True)

    def loses_its_shim(self, run_id: str) -> None:
        """SIGKILL to the shim: the tree lives on, and no exit code will ever come."""
        self.states[run_id] = replace(self.states[run_id], lock_held=False)
        self.survivors.add(run_id)

    # ---------------------------------------------------------------- the port

    def launch(self, spec: RunSpec) -> None:
        if spec.id in self.states:
            raise FileExistsError(spec.id)
        self.launched.append(spec.id)
        self.put(spec.id, spec.holder, port=spec.port, kind=spec.kind)

    def read(self, run_id: str) -> RunState | None:
        return self.states.get(run_id)

    def spec(self, run_id: str) -> RunSpec | None:
        state = self.states.get(run_id)
        argv = ("serve", state.holder) if state is not None else ()
        return RunSpec(id=run_id, holder=state.holder, argv=argv, stop_grace_s=3.0) if state else None

    def known(self) -> Sequence[str]:
        return sorted(self.states)

    async def changed(self, run_id: str, known: RunState) -> RunState:
        while (state := self.states.get(run_id, replace(known, lock_held=False, gone=True))) == known:
            await asyncio.sleep(0.001)
        return state

    def pids(self, run_id: str) -> frozenset[int]:
        state = self.states.get(run_id)
        alive = state is not None and (state.lock_held or run_id in self.survivors)
        return (
            frozenset({state.pid}) if alive and state is not None and state.pid is not None else frozenset()
        )

    def busy_s(self, run_id: str) -> float | None:
        return 0.0 if self.pids(run_id) else None

    def owner(self, pid: int) -> str | None:
        return next((run_id for run_id in self.states if pid in self.pids(run_id)), None)

    async def stop(self, run_id: str, grace_s: float) -> None:
        self.stopped.append((run_id, grace_s))
        state = self.states.get(run_id)
        if state is None or not state.ran or state.gone:
            return
        exit_ = state.exit or (Exit(code=-15) if state.lock_held else None)
        self.survivors.discard(run_id)
        self.states[run_id] = replace(state, lock_held=False, exit=exit_, gone=True)

    def signal(self, run_id: str, freeze: bool) -> None:
        self.signals.append((run_id, freeze))

    def log_tail(self, run_id: str, lines: int) -> list[str]:
        return []

    def directory(self, run_id: str) -> Path:
        return Path("/nowhere") / run_id

    def listens(self, run_id: str, port: int) -> bool:
        return True

    def listener(self, port: int) -> str | None:
        return None

    def forget(self, run_id: str) -> None:
        if self.pids(run_id):
            raise ValueError(f"run {run_id} still lives")
        del self.states[run_id]
        self.forgotten.append(run_id)
