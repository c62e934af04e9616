"""A cgroup per run, where cgroup v2 is mounted and ours to write. Nothing that a run starts can leave it.

The process tree and the run's token find everything that keeps its parent or its environment. A scope also finds the
rest once the shim is dead, and its kill has no race with a fork. Without one everything works as before.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

MOUNTS, OWN = Path("/proc/mounts"), Path("/proc/self/cgroup")


def mount_point(mounts: str) -> Path | None:
    """Where cgroup v2 is mounted, from the text of /proc/mounts.

    >>> mount_point("tmpfs /run tmpfs rw 0 0\\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\\n")
    PosixPath('/sys/fs/cgroup/unified')
    """
    for line in mounts.splitlines():
        words = line.split()
        if len(words) > 2 and words[2] == "cgroup2":
            return Path(words[1].replace("\\040", " "))
    return None


def own_path(lines: str) -> str | None:
    """The path of a process within cgroup v2, from the text of its /proc/PID/cgroup.

    >>> own_path("4:memory:/a\\n0::/user.slice\\n")
    '/user.slice'
    """
    for line in lines.splitlines():
        if line.startswith("0::"):
            return line[3:].removesuffix(" (deleted)")
    return None


class Scopes:
    """The scopes of one directory of runs. Every method does nothing where there are none."""

    def __init__(self, runs: Path) -> None:
        self._base: Path | None = None
        with suppress(OSError):
            mounted, here = mount_point(MOUNTS.read_text()), own_path(OWN.read_text())
            if mounted is not None and here is not None:
                name = hashlib.sha256(os.fsencode(runs)).hexdigest()[:12]
                self._mounted, self._base = mounted, mounted / here.lstrip("/") / f"headway-{name}"

    def make(self, run_id: str) -> Path | None:
        """A new, empty scope for a run; None where that is not possible."""
        if self._base is None:
            return None
        scope = self._base / run_id
        try:
            scope.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        return scope if os.access(scope / "cgroup.procs", os.W_OK) else None

    def pids(self, run_id: str) -> list[int]:
        """Everything in it, cgroups that the run made below it included."""
        found: list[int] = []
        for scope in self._all(run_id):
            with suppress(OSError, ValueError):
                found += [int(word) for word in (scope / "cgroup.procs").read_text().split()]
        return found

    def owner(self, pid: int) -> str | None:
        """The run in whose scope a process is."""
        if self._base is None:
            return None
        try:
            path = own_path(Path(f"/proc/{pid}/cgroup").read_text())
        except OSError:
            return None
        ours = "/" + str(self._base.relative_to(self._mounted)) + "/"
        return path.removeprefix(ours).split("/")[0] if path is not None and path.startswith(ours) else None

    def kill(self, run_id: str) -> None:
        """SIGKILL to all in it at once, also to what is being forked."""
        if self._base is not None:
            with suppress(OSError):  # before Linux 5.14 there is no such file: each is killed by itself
                (self._base / run_id / "cgroup.kill").write_text("1")

    def freeze(self, run_id: str, freeze: bool) -> bool:
        """Stop all in it, what is being forked too, or let it go on. False where that is not possible."""
        if self._base is None:
            return False
        try:
            (self._base / run_id / "cgroup.freeze").write_text("1" if freeze else "0")
        except OSError:
            return False
        return True

    def known(self) -> list[str]:
        """Runs that have a scope."""
        if self._base is None:
            return []
        try:  # the shim of the last run takes the directory away whenever it ends
            return sorted(path.name for path in self._base.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def remove(self, run_id: str) -> None:
        """Take an empty scope away, and the directory of all of them after the last."""
        for scope in reversed(self._all(run_id)):
            with suppress(OSError):
                scope.rmdir()
        if self._base is not None:
            with suppress(OSError):
                self._base.rmdir()

    def _all(self, run_id: str) -> list[Path]:
        scope = self._base / run_id if self._base is not None else None
        if scope is None or not scope.is_dir():
            return []
        return [Path(found) for found, _, _ in os.walk(scope)]
