"""The operating system: process trees that outlive the daemon, memory, peers, clocks. One file per system."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from headway.errors import Refused
from headway.ports import Clock, Host, Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What one operating system offers."""

    runs: Runs
    host: Host
    clock: Clock


def this_system(runs_dir: Path) -> System:
    """The parts for the system we run on; `runs_dir` is made when missing.

    Raises:
        Refused: there are none for it yet.
    """
    if not sys.platform.startswith("linux"):
        raise Refused(
            "unsupported_system",
            f"Headway runs on Linux; this is {sys.platform}. On Windows, run it inside WSL2: `wsl --install`.",
            platform=sys.platform,
        )
    # imported here: their own imports exist on Linux only
    from headway.host.linux import LinuxClock, LinuxHost
    from headway.host.linux_runs import LinuxRuns

    return System(runs=LinuxRuns(runs_dir), host=LinuxHost(), clock=LinuxClock())
