"""What both jobs keep on disk: one copy per directory, files whole or absent, progress for Headway."""

import fcntl
import json
import os
from pathlib import Path
from typing import IO


class SecondCopy(RuntimeError):
    """Another process already works in this directory."""


def only_copy(directory: Path) -> IO[str]:
    """Take the directory for this process, until the answer is closed or the process is dead.

    Raises:
        SecondCopy: another process has it; the attempt is noted in `copies`, so that a test can see it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lock = open(directory / "lock", "a")  # noqa: SIM115 - held open for the whole life of the job
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        with open(directory / "copies", "a") as copies:
            copies.write(f"{os.getpid()}\n")
        raise SecondCopy(f"another process already works in {directory}") from None
    return lock


def write_whole(path: Path, text: str) -> None:
    """Put `text` in place of the file in one step, safe against a kill of this process in the middle."""
    half_written = path.with_name(f".{path.name}.{os.getpid()}")
    half_written.write_text(text)
    half_written.rename(path)


def tell_progress(done: int, total: int) -> None:
    """Write how far the job is to HEADWAY_PROGRESS_FILE, if Headway gave one."""
    if name := os.environ.get("HEADWAY_PROGRESS_FILE"):
        write_whole(Path(name), json.dumps({"done": done, "total": total}) + "\n")
