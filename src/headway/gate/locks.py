"""Lock files and passing open sockets: who lives is who holds its lock."""

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

NAMES_MAX_BYTES = 64 * 1024
ASK_LIMIT_S = 2.0
TRIES, PAUSE_S = 20, 0.005


def hold(path: Path) -> int | None:
    """Lock a file for as long as this process lives (the returned descriptor is open); None: another holds it.

    The file is made when missing, and gets our pid. A file that was removed between open and lock is made anew.
    Somebody who only looks holds it for an instant, so one failure says nothing.
    """
    for _ in range(TRIES):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            time.sleep(PAUSE_S)
            continue
        try:
            same = os.stat(path).st_ino == os.fstat(fd).st_ino
        except FileNotFoundError:
            same = False
        if same:
            with contextlib.suppress(OSError):  # on a full disk the lock holds without our name in it
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            return fd
        os.close(fd)
    return None


def is_held(path: Path) -> bool:
    """Whether a living process holds it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def holder(path: Path) -> int | None:
    """The pid of the living process that holds it; None: nobody does, or its pid isn't in the file."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and is_held(path) else None


def living(gates: Path) -> list[str]:
    """Ids of the gates that live, in name order; files of dead ones are removed."""
    found = []
    for lock in sorted(gates.glob("*.lock")):
        if is_held(lock) or (fd := hold(lock)) is None:
            found.append(lock.stem)
            continue
        for path in (lock.with_suffix(".sock"), lock.with_suffix(".spec"), lock):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        os.close(fd)
    return found


@dataclass(frozen=True, slots=True)
class Handed:
    """Listening sockets taken from a living gate: name -> descriptor, and its pid.

    `leaving`: it accepts no more, and only finishes what it has.
    """

    gate: str
    pid: int
    version: str
    fds: dict[str, int]
    leaving: bool


def hand_over(connection: socket.socket, mine: Handed) -> None:
    """Send the listening sockets to a new parent. Raises OSError."""
    row = {"gate": mine.gate, "pid": mine.pid, "version": mine.version, "names": list(mine.fds)}
    data = json.dumps({**row, "leaving": mine.leaving}).encode()
    socket.send_fds(connection, [data], list(mine.fds.values()))


def take_over(gates: Path, gate: str) -> Handed | None:
    """Ask a living gate for its listening sockets; None when it doesn't answer within 2 s."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ASK_LIMIT_S)
        try:
            connection.connect(str(gates / f"{gate}.sock"))
            data, fds, _, _ = socket.recv_fds(connection, NAMES_MAX_BYTES, 64)
            row = json.loads(data)
        except (OSError, ValueError):
            return None
    for fd in fds:
        os.set_inheritable(fd, False)
    names = dict(zip(row["names"], fds, strict=False))
    return Handed(
        str(row["gate"]), int(row["pid"]), str(row.get("version")), names, bool(row.get("leaving", False))
    )
