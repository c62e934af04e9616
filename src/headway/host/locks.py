"""Locks that end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

TRIES, PAUSE_S = 20, 0.005  # somebody who only looks holds it for microseconds


def take_lock(path: Path) -> int | None:
    """Hold the lock until the returned descriptor is closed, with our pid in the file; None: another holds it.

    Raises:
        OSError: the file cannot be made or written.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(PAUSE_S)
            continue
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(handle)
            raise OSError(error.errno, error.strerror, str(path)) from None  # it does not say which file
        return handle
    os.close(handle)
    return None


def is_locked(path: Path) -> bool:
    """Does a living process hold it? Disturbs nobody who does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
