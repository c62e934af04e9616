"""`headway up`: starts the gate and the daemon and starts them again, with back-off. Killed hard, both live on."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.client import Client, address
from headway.config.paths import Paths
from headway.errors import HeadwayError
from headway.host.locks import is_locked
from headway.host.run_files import RunFiles

LOOK_S = 0.05
BACKOFF_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEADY_S = 10.0  # a part that lived this long starts again without a pause
END_S = 40.0
ASK_LIMIT_S = 1.0  # a daemon that is slow to answer must not keep the supervisor from its parts
ASK_EVERY_S = 0.25
# Wrong usage, a port or lock that somebody else has, wrong config: final when the first start says so. Later it says
# something of a file that is being edited, and the other part goes on serving meanwhile.
FINAL = (2, 73, 78)


@dataclass(slots=True)
class Part:
    """One process to keep. While another process of its kind holds the lock (left by an earlier supervisor), wait."""

    name: str
    argv: list[str]
    lock: Path
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    starts: int = 0
    fails: int = 0
    next_s: float = field(default_factory=time.monotonic)
    again: tuple[str, ...] = ()  # added to its command from its second start on

    def look(self) -> int | None:
        """Start it if it is time to. Returns an exit status that no restart can mend."""
        now_s = time.monotonic()
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return None
            self.process = None
            steady = now_s - self.started_s > STEADY_S
            if code in FINAL and self.starts == 1 and not steady:
                return code
            self.fails = 0 if steady else self.fails + 1
            self.next_s = now_s + BACKOFF_S[min(self.fails, len(BACKOFF_S) - 1)]
        if now_s >= self.next_s and not is_locked(self.lock):
            argv = [*self.argv, *(self.again if self.starts else ())]
            self.process, self.started_s = subprocess.Popen(argv, start_new_session=True), now_s
            self.starts += 1
        return None

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


class _Asked:
    """What signals ask of the supervisor: to end, or to have the config read again (SIGHUP)."""

    def __init__(self) -> None:
        self.to_end = self.to_reload = False
        self._at_terminal = os.isatty(0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._hang_up)

    def _end(self, *_: object) -> None:
        self.to_end = True

    def _hang_up(self, *_: object) -> None:
        if self._at_terminal and not os.isatty(0):  # the terminal is gone, and whoever sat at it
            self.to_end = True
        self.to_reload = True


def supervise(paths: Paths, config_path: Path | None) -> int:
    """Keep both parts until SIGTERM or SIGINT; then end them, the daemon first. Returns the exit status."""
    config = [str(config_path.absolute())] if config_path else []
    parts = [
        Part(name, [*command_line(paths), name, *config], paths.run_dir / lock, again=("--again",))
        for name, lock in (("gate", "gate-parent.lock"), ("daemon", "daemon.lock"))
    ]
    if found := [f"{part.name} pid {pid}" for part in parts if (pid := locked_by(part.lock)) is not None]:
        tell(f"Taken over from an earlier `headway up`: {', '.join(found)}.")
    asked = _Asked()
    status, welcome = 0, Welcome(paths)
    while not asked.to_end:
        for part in parts:
            if (code := part.look()) is not None:
                status, asked.to_end = code, True
        if asked.to_reload and not asked.to_end:
            asked.to_reload = False
            hang_up(parts[1].lock)
        welcome.look()
        time.sleep(LOOK_S)
    names = names_of(paths)
    for part in reversed(parts):
        _end(part)
    end_gates(paths)
    tell("Headway ended.")
    tell_living(paths, names)
    return status


def command_line(paths: Paths) -> list[str]:
    """How one of our own commands is run, in the same home."""
    home = ["--home", str(paths.home)] if paths.home is not None else []
    return [sys.executable, "-m", "headway.cli.main", *home]


def _end(part: Part) -> None:
    """End one part and wait for it; one adopted from an earlier supervisor is ended by the pid in its lock."""
    part.end()
    if part.process is None:
        end_locked(part.lock)
        return
    try:
        part.process.wait(END_S)
    except subprocess.TimeoutExpired:
        part.process.kill()
        part.process.wait()


def locked_by(lock: Path) -> int | None:
    """The pid of the process that holds the lock; None: nobody does."""
    if not is_locked(lock):
        return None
    found = lock.read_text().split()
    return int(found[0]) if found and found[0].isdigit() else None


def end_locked(lock: Path) -> bool:
    """Ask whoever holds the lock to end, and wait for that. False: nobody held it, or it has not ended in END_S."""
    if locked_by(lock) is None:
        return False
    if (process := _told(lock, signal.SIGTERM)) is None:
        return True
    try:
        return bool(select.select([process], [], [], END_S)[0])
    finally:
        os.close(process)


def end_gates(paths: Paths) -> bool:
    """End the gates that serve without a parent: it was killed, or ended before it had taken them over."""
    ended = [end_locked(lock) for lock in sorted(paths.gates_dir.glob("*.lock"))]
    return any(ended)


def hang_up(lock: Path) -> None:
    """Have whoever holds the lock read the config again; one that starts meanwhile reads it anyway."""
    if (process := _told(lock, signal.SIGHUP)) is not None:
        os.close(process)


def _told(lock: Path, number: signal.Signals) -> int | None:
    """Signal whoever holds the lock. Returns his pidfd; None: nobody holds it any more."""
    pid = locked_by(lock)
    try:
        process = os.pidfd_open(pid) if pid is not None else None
    except ProcessLookupError:
        return None
    if process is None or not is_locked(lock):  # then the pid may be another's by now
        if process is not None:
            os.close(process)
        return None
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, number)
    return process


# ---------------------------------------------------------------- what people are told


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def typed(paths: Paths, verb: str) -> str:
    """A command as it has to be typed to reach this Headway."""
    home = f"--home {shlex.quote(str(paths.home))} " if paths.home is not None else ""
    return f"`headway {home}{verb}`"


class Welcome:
    """Says once where clients connect, as soon as both parts answer."""

    def __init__(self, paths: Paths) -> None:
        self._paths, self._next_s, self._told = paths, 0.0, False

    def look(self) -> None:
        now_s = time.monotonic()
        if self._told or now_s < self._next_s:
            return
        self._next_s = now_s + ASK_EVERY_S
        board = board_of(self._paths)
        if board and board.get("gate") and any(map(is_locked, self._paths.gates_dir.glob("*.lock"))):
            self._told = True
            tell(self._words(board))

    def _words(self, board: Mapping[str, Any]) -> str:
        models = sorted({model for row in board["services"] for model in row["models"] or [row["name"]]})
        lines = [
            f"Headway is up. Clients connect to {board['gate']}/v1; models: {', '.join(models) or 'none'}.",
            f"See it: {typed(self._paths, 'status')}. Ctrl-C ends gate and daemon; jobs and awake models go on.",
        ]
        if board["mode"] == "shadow":
            lines.append(
                f"The mode is shadow: it only watches. To let it act: {typed(self._paths, 'mode live')}."
            )
        return "\n".join(lines)


def board_of(paths: Paths) -> dict[str, Any] | None:
    """What `headway status` shows; None while no daemon answers."""
    try:
        found = Client(address(paths.run_dir, {}), ASK_LIMIT_S).get("/api/v1/status", queued=0)
    except HeadwayError:
        return None
    return found if isinstance(found, dict) else None


def names_of(paths: Paths) -> dict[str, str]:
    """What people call the holders that are somewhere, by id."""
    board = board_of(paths) or {"services": [], "running": []}
    return {row["id"]: row["name"] for row in board["services"] + board["running"]}


def living(paths: Paths) -> dict[str, int | None]:
    """Holders with a run that lives, each with the pid of its command, whether or not a daemon is there."""
    found: dict[str, int | None] = {}
    for directory in sorted(paths.runs_dir.glob("[!.]*")):
        state = RunFiles(directory).state()
        if state is not None and state.kind == "main" and not state.ended:
            found[state.holder] = state.pid
    return found


def tell_living(paths: Paths, names: Mapping[str, str]) -> None:
    """Say what goes on although Headway ended, and how to end it."""
    left = living(paths)
    if not left:
        return
    said = [
        f"{called(hid, names)} (pid {pid})" if pid is not None else called(hid, names)
        for hid, pid in left.items()
    ]
    tell(f"{len(left)} {'goes' if len(left) == 1 else 'go'} on: {', '.join(said)}.")
    tell(f"{typed(paths, 'up')} takes them over again; {typed(paths, 'down --all')} ends them.")


def called(hid: str, names: Mapping[str, str]) -> str:
    name = names.get(hid, hid)
    return hid if name == hid else f"{hid} {name}"
