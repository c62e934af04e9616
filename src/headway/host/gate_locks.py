"""The roster: which gates exist, by the locks they hold for life; and the fence, for one that does not answer."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path


class GateLocks:
    """Reads `run/gates/*.lock`. A gate exists while its lock is held, connected or not."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def living(self) -> frozenset[str]:
        """Ids of the gates that exist now."""
        return frozenset(path.stem for path in self._directory.glob("*.lock") if _held(path))

    def kill(self, gate: str, pid: int | None) -> bool:
        """SIGKILL by pidfd, only while the lock proves that it still is that gate. False: it could not be done."""
        path = self._directory / f"{gate}.lock"
        pid = pid if pid is not None else _owner(path)
        if pid is None or not _held(path):
            return False
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not (_held(path) and _has_open(pid, path)):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True


def _held(path: Path) -> bool:
    """Is it locked by anybody? A shared try that is given up at once disturbs nobody who holds it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _has_open(pid: int, path: Path) -> bool:
    """Does that process have the lock file open? The lock alone does not say whose pid we were given."""
    try:
        lock = path.stat()
        fds = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for fd in fds:
        with suppress(OSError):
            if os.path.samestat(fd.stat(), lock):
                return True
    return False


def _owner(path: Path) -> int | None:
    """The pid a gate wrote into its lock file."""
    try:
        word = path.read_text().split()
    except OSError:
        return None
    return int(word[0]) if word and word[0].isdigit() else None
