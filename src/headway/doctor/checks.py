"""All checks, in the order they are shown. A new one is a function, a line here, and its row in the contract test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from headway.doctor import gpus, parking, places, running
from headway.doctor.around import Around
from headway.doctor.bounded import within
from headway.doctor.finding import Finding, unknown

CHECK_LIMIT_S = 10.0
CHECKS: Mapping[str, Callable[[Around], Finding]] = {
    "config": running.config,
    "daemon": running.daemon,
    "gate": running.gate,
    "versions": running.versions,
    "ports": running.ports,
    "driver": gpus.driver,
    "processes": gpus.processes,
    "strangers": gpus.strangers,
    "mig": gpus.mig,
    "compute-mode": gpus.compute_mode,
    "persistence": gpus.persistence,
    "mps": gpus.mps,
    "visible-devices": gpus.visible,
    "checkpoint": parking.checkpoint,
    "other-servers": running.other_servers,
    "home": places.home,
    "file-system": places.file_system,
    "disk": places.disk,
    "open-files": places.open_files,
    "shm": places.shm,
    "memory": places.memory,
    "runtime-dir": places.runtime_dir,
    "leftovers": places.leftovers,
    "logout": running.logout,
    "restarts": running.restarts,
    "proxy": running.proxy,
}


def examine(
    around: Around,
    checks: Mapping[str, Callable[[Around], Finding]] = CHECKS,
    limit_s: float = CHECK_LIMIT_S,
) -> dict[str, Finding]:
    """What every check found, in their order. One that hangs or breaks is `unknown`, and stops no other."""
    found = within(limit_s, {name: partial(check, around) for name, check in checks.items()})
    return {name: _finding(found.get(name), limit_s) for name in checks}


def _finding(answer: object, limit_s: float) -> Finding:
    if isinstance(answer, Finding):
        return answer
    if answer is None:
        return unknown(f"no answer within {limit_s:g} s: something that it looks at hangs")
    return unknown(f"the check itself failed: {answer!r}")
