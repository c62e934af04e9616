"""The files of one run: what launcher and shim wrote, and the lock that says whether it lives."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headway.core import codec
from headway.core.model import Exit
from headway.ports import RunSpec, RunState

SPEC, LOCK, STARTED, EXECUTED, EXIT, GONE = "spec.json", "lock", "started", "executed", "exit", "gone"
TAIL_BYTES = 64 * 1024
LEFT_OUT = "[the beginning of this line is left out] "
PID_MAX = 1 << 22
HOOK = re.compile(r"(.+)\.\d+\.[^.]+\.\d+")  # the id of a run, the form it is for, an instant


def _text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _pid(value: Any) -> bool:
    return type(value) is int and 0 < value <= PID_MAX


def _port(value: Any) -> bool:
    return value is None or (type(value) is int and 0 < value < 1 << 16)


def _instant(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


# What a file has to say to be one; what more it says may be missing.
SHAPES: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    SPEC: {"id": _text, "holder": _text, "token": _text, "log_name": _text, "kind": _text, "port": _port},
    STARTED: {
        "pid": _pid,
        "start_ticks": _count,
        "shim": _pid,
        "shim_start_ticks": _count,
        "boot_id": _text,
    },
    EXIT: {"code": lambda value: type(value) is int, "peak_host_bytes": _count, "at_s": _instant},
}


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Every `look_s` a log larger than `max_bytes` (0: never) begins anew; `kept` older parts stay beside it."""

    max_bytes: int = 16 << 20
    kept: int = 3
    look_s: float = 2.0


USUAL = LogLimits()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """`runs/ID`. Nothing is remembered here: each call reads."""

    directory: Path

    def create(
        self, spec: RunSpec, token: str, scope: Path | None = None, logs: LogLimits | None = None
    ) -> int:
        """Make the directory with its spec, locked before anybody can see it; returns the lock's descriptor.

        `token` is like no other on this machine; `scope` is the cgroup that the command enters before it runs.
        `logs` says how large its log may grow; None: without end.

        Raises:
            FileExistsError: the id was used before.
        """
        if self.directory.exists():
            raise FileExistsError(f"run {spec.id} exists already")
        half_made = self.directory.with_name(f".{token}.new")
        half_made.mkdir(mode=0o700)
        lock = os.open(half_made / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            entered: dict[str, Any] = {"token": token, "scope": str(scope) if scope else None}
            entered |= {f"log_{name}": value for name, value in asdict(logs).items()} if logs else {}
            write_whole(half_made / SPEC, {**asdict(spec), "env": dict(spec.env), **entered})
            try:
                half_made.rename(self.directory)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                raise FileExistsError(f"run {spec.id} exists already") from error
        except BaseException:
            os.close(lock)
            shutil.rmtree(half_made, ignore_errors=True)
            raise
        return lock

    def locked(self) -> bool:
        """Whether somebody holds the lock. A shared try that is given back at once disturbs nobody."""
        try:
            fd = os.open(self.directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def document(self, name: str) -> dict[str, Any] | None:
        """One of the files; None when it is not there, and an empty one when what is there cannot be read."""
        try:
            found = json.loads((self.directory / name).read_bytes())
            whole = all(fits(found[key]) for key, fits in SHAPES.get(name, {}).items())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (IsADirectoryError, *codec.ODD):
            return {}
        return found if whole and isinstance(found, dict) else {}

    def damaged(self) -> list[Path]:
        """Those of its files that are there and cannot be read."""
        return [self.directory / name for name in SHAPES if self.document(name) == {}]

    def named(self) -> tuple[str, str]:
        """Holder and kind, as the name of the directory tells them where the spec does not."""
        if hook := HOOK.fullmatch(self.directory.name):
            return hook[1], "hook"
        return self.directory.name.rpartition(".")[0], "main"

    def state(self) -> RunState | None:
        """The run as it is now; None: this is none. The lock is looked at first: once it is free, the files are final.

        Then what is written last is looked at first: what stands there tells that all before it does too. Else one
        that ends meanwhile would be gone without a code, which is `lost`.

        While the shim is still about to execute the command, `pid` is None: whether that works is not known yet.

        A damaged file takes no more with it than what it said: without `spec.json` there is no port, without `exit`
        no code, and without `started` no pid, but a run that ran (`unread`). None is ever taken for one that did not.
        """
        held = self.locked()
        spec = self.document(SPEC)
        if spec is None:
            if not (held and self.directory.is_dir()):
                return None
            spec = {}
        gone = (self.directory / GONE).exists()
        ended, started = self.document(EXIT), self.document(STARTED)
        if started and held and ended is None and not (self.directory / EXECUTED).exists():
            started = None
        holder, kind = self.named()
        said = started or {}
        return RunState(
            id=spec.get("id", self.directory.name),
            holder=spec.get("holder", holder),
            lock_held=held,
            pid=said.get("pid"),
            start_ticks=said.get("start_ticks"),
            boot_id=said.get("boot_id"),
            exit=_exit(ended) if ended else None,
            gone=gone,
            port=spec.get("port"),
            kind=spec.get("kind", kind),
            error=ended.get("error") if ended else None,
            # shims of earlier versions do not write it
            started_s=said["at_s"] if _instant(said.get("at_s")) else None,
            unread=started == {},
        )

    def spec(self) -> RunSpec | None:
        """What was asked for, without its environment. Earlier versions wrote no grace."""
        found = self.document(SPEC)
        if not found:  # none, or a damaged one
            return None
        argv, cwd, grace_s = found.get("argv"), found.get("cwd"), found.get("stop_grace_s")
        made = RunSpec(
            id=found["id"],
            holder=found["holder"],
            argv=tuple(map(str, argv)) if isinstance(argv, list) else (),
            cwd=cwd if _text(cwd) else None,
            port=found.get("port"),
            kind=found["kind"],
            log_name=found["log_name"],
        )
        known = isinstance(grace_s, int | float) and _instant(grace_s) and grace_s >= 0
        return replace(made, stop_grace_s=float(grace_s or 0.0)) if known else made

    def mark_gone(self) -> None:
        """Write `gone` in place of a shim that was killed."""
        write_whole(self.directory / GONE, {"by": "stop"})

    def remove(self) -> None:
        """Take the run away in one step; what a kill leaves of it has a hidden name."""
        hidden = self.directory.with_name(f".{self.directory.name}.{secrets.token_hex(8)}.old")
        self.directory.rename(hidden)
        shutil.rmtree(hidden)

    def tail(self, lines: int) -> list[str]:
        """The last lines within the last 64 KiB of the log; one that just began anew goes on behind its part before.

        Only a line feed ends a line. One that began earlier than these 64 KiB says so, and then its end.
        """
        spec = self.document(SPEC)
        if spec is None or lines <= 0:
            return []
        log = self.directory / spec.get("log_name", "log")
        data, cut = _end(log, TAIL_BYTES)
        if len(data) < TAIL_BYTES and data.count(b"\n") < lines:
            before, cut = _end(log.with_name(f"{log.name}.1"), TAIL_BYTES - len(data))
            data = before + data
        found = [line.removesuffix("\r") for line in data.decode(errors="replace").split("\n")]
        if not found[-1]:
            found.pop()  # behind the last line feed, or of an empty log
        if cut and found:
            found[0] = LEFT_OUT + found[0]
        return found[-lines:]


def _end(path: Path, most_bytes: int) -> tuple[bytes, bool]:
    """The end of a file, and whether it begins within a line."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= most_bytes:
                file.seek(0)
                return file.read(most_bytes), False
            file.seek(size - most_bytes - 1)
            data = file.read(most_bytes + 1)
            return data[1:], data[:1] != b"\n"
    except FileNotFoundError:
        return b"", False


def write_whole(path: Path, document: dict[str, Any]) -> None:
    """Put a file in place in one step, on disk before it has its name."""
    half_written = path.with_name(path.name + ".new")
    with open(half_written, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    half_written.rename(path)


def _exit(document: dict[str, Any]) -> Exit:
    return Exit(
        code=document["code"],
        peak_host_bytes=document["peak_host_bytes"],
        at_s=document["at_s"],
        error=document.get("error"),
    )
