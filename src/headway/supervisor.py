"""`headway up`: starts the gate and the daemon and starts them again, with back-off. Killed hard, both live on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from headway.config.paths import Paths
from headway.host.locks import is_locked

LOOK_S = 0.05
BACKOFF_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEADY_S = 10.0  # a part that lived this long starts again without a pause
END_S = 40.0


@dataclass(slots=True)
class Part:
    """One process to keep. While another process of its kind holds the lock (left by an earlier supervisor), wait."""

    name: str
    argv: list[str]
    lock: Path
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    fails: int = 0
    next_s: float = field(default_factory=time.monotonic)

    def look(self) -> int | None:
        """Start it if it is time to. Returns an exit status that no restart can mend."""
        now_s = time.monotonic()
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return None
            self.process = None
            if code in (2, 78):
                return code
            self.fails = 0 if now_s - self.started_s > STEADY_S else self.fails + 1
            self.next_s = now_s + BACKOFF_S[min(self.fails, len(BACKOFF_S) - 1)]
        if now_s >= self.next_s and not is_locked(self.lock):
            self.process, self.started_s = subprocess.Popen(self.argv, start_new_session=True), now_s
        return None

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def supervise(paths: Paths, config_path: Path | None) -> int:
    """Keep both parts until SIGTERM or SIGINT; then end them, the daemon first. Returns the exit status."""
    base = [sys.executable, "-m", "headway.cli.main"]
    if paths.home is not None:
        base += ["--home", str(paths.home)]
    config = [str(config_path.absolute())] if config_path else []
    parts = [
        Part("gate", [*base, "gate", *config], paths.run_dir / "gate-parent.lock"),
        Part("daemon", [*base, "daemon", *config], paths.run_dir / "daemon.lock"),
    ]
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    status = 0
    while not stopped:
        for part in parts:
            if (code := part.look()) is not None:
                status, stopped = code, True
        time.sleep(LOOK_S)
    for part in reversed(parts):
        _end(part)
    return status


def _end(part: Part) -> None:
    """End one part and wait for it; one adopted from an earlier supervisor is ended by the pid in its lock."""
    part.end()
    until_s = time.monotonic() + END_S
    if part.process is None and is_locked(part.lock):
        words = part.lock.read_text().split()
        if words and words[0].isdigit():
            os.kill(int(words[0]), signal.SIGTERM)
    while time.monotonic() < until_s and (
        is_locked(part.lock) if part.process is None else part.process.poll() is None
    ):
        time.sleep(LOOK_S)
    if part.process is not None and part.process.poll() is None:
        part.process.kill()
        part.process.wait()
