"""A run that lives although what is written of it is damaged: its processes tell again who they are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.core.names import is_like_an_id
from headway.errors import RunUnreadable
from headway.host.linux_proc import Process, command_line, descendants, processes, token
from headway.host.run_files import EXECUTED, LOCK, SPEC, STARTED, RunFiles, write_whole

OWN_PID = b"HEADWAY_PID="  # in the environment of a command and all below it: which of them is the command
SHIM_NAME = "shim.py"


def mend(runs: Iterable[RunFiles], boot_id: str) -> list[Path]:
    """Mend what lives of these. Returns all files that could not be read. Raises: RunUnreadable."""
    found: list[Path] = []
    for files in runs:
        found += _mended(files, boot_id)
        found += files.damaged()
    return found


def _mended(files: RunFiles, boot_id: str) -> list[Path]:
    """Write anew what cannot be read of a run that lives; what was there stays beside it as `NAME.bad`.

    Its spec without its port and its command, which only a server's needs; nothing is mended of a run that ended.

    Returns:
        Files that were written.

    Raises:
        RunUnreadable: its processes do not tell it. Without its pid a run could be neither watched nor stopped.
    """
    if not files.locked():
        return []
    lost = _lost(files)
    if not lost or not files.locked():  # it ended meanwhile
        return []
    table = processes()
    shim = _shim(files, table)
    tree = descendants([shim.pid], table) if shim else []
    leader = next((one for one in tree if token(one.pid, OWN_PID) == str(one.pid)), None)
    holder, kind = files.named()
    word = token(leader.pid) if leader else None
    if shim is None or leader is None or word is None or (SPEC in lost and not _portless(holder, kind)):
        if not files.locked():
            return []
        raise RunUnreadable(
            str(files.directory / lost[0]), [one.pid for one in tree], str(files.directory / LOCK)
        )
    documents: dict[str, dict[str, Any]] = {
        SPEC: {
            "id": files.directory.name,
            "holder": holder,
            "argv": [],
            "env": {},
            "cwd": None,
            "port": None,
            "kind": kind,
            "log_name": "log",
            "token": word,
            "scope": None,
        },
        STARTED: {
            "pid": leader.pid,
            "start_ticks": leader.start_ticks,
            "shim": shim.pid,
            "shim_start_ticks": shim.start_ticks,
            "boot_id": boot_id,
            "at_s": leader.start_ticks / os.sysconf("SC_CLK_TCK"),
        },
    }
    for name in lost:
        path = files.directory / name
        with suppress(FileNotFoundError):
            path.rename(path.with_name(f"{name}.bad"))
        write_whole(path, documents[name])
    return [files.directory / name for name in lost]


def _lost(files: RunFiles) -> list[str]:
    """What should be there by now and cannot be read. A shim that starts has not written `started` yet."""
    began = (files.directory / EXECUTED).exists()
    spec, started = files.document(SPEC), files.document(STARTED)
    return [SPEC] * (not spec) + [STARTED] * (started == {} or (started is None and began))


def _portless(holder: str, kind: str) -> bool:
    """Whether a run does without the port in its spec: all but servers do."""
    return kind == "hook" or is_like_an_id(holder)


def _shim(files: RunFiles, table: Mapping[int, Process]) -> Process | None:
    """The shim that holds the lock: it alone has that file open for as long as the run lives."""
    with suppress(OSError):
        lock = (files.directory / LOCK).stat()
        for pid in sorted(table.keys() - {os.getpid()}):
            with suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd"):
                    open_one = os.stat(f"/proc/{pid}/fd/{number}")
                    if os.path.samestat(open_one, lock) and SHIM_NAME in command_line(pid):
                        return table[pid]
    return None
