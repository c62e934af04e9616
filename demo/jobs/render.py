"""A job that can be parked: told so, it gives its memory back and stands still, and goes on where it was.

It is told over a Unix socket in its directory, one word per connection: `park`, `resume` or `status`. The
answer comes when the work is done: `parked`, `running`, or `error: WHY`. The other end is `render_ctl`.
"""

import argparse
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from demo.jobs.state import SecondCopy, only_copy, tell_progress, write_whole
from demo.sim_device import (
    OUT_OF_MEMORY_EXIT,
    FakeOutOfMemory,
    allocate,
    clear,
    parse_size,
    set_bytes,
    split_devices,
    visible_devices,
)

SECOND_COPY_EXIT = 3
SOCKET = "control.sock"


class Ended(Exception):
    """SIGTERM came."""


class Render:
    """Draws frames while it holds its memory."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.running = threading.Event()

    def draw(self) -> None:
        """Draw every frame, standing still while parked.

        Raises:
            FakeOutOfMemory: the memory was not free at the start.
            Ended: SIGTERM came.
        """
        self._take_memory()
        self.running.set()
        threading.Thread(target=self._obey, args=(_listen(self.options.dir),), daemon=True).start()
        for frame in range(self.options.frames):
            tell_progress(frame, self.options.frames)
            write_whole(self.options.dir / "frame", f"{frame}\n")
            time.sleep(self.options.frame_s)
            self.running.wait()
        tell_progress(self.options.frames, self.options.frames)

    def park(self) -> str:
        """Stand still and give the memory back; parking twice is parking once."""
        self.running.clear()
        time.sleep(self.options.park_s)
        if not self.options.keeps_memory:
            for device in self.options.device:
                if self.options.residue:
                    set_bytes(self.options.reports, device, self.options.residue)
                else:
                    clear(self.options.reports, device)
        return "parked"

    def resume(self) -> str:
        """Take the memory again and go on; without room for it the job stays parked."""
        if not self.running.is_set():
            time.sleep(self.options.resume_s)
            try:
                self._take_memory()
            except FakeOutOfMemory as error:
                self.park()
                return f"error: {error}"
            self.running.set()
        return "running"

    def _take_memory(self) -> None:
        for device in self.options.device:
            allocate(self.options.reports, device, self.options.bytes, self.options.total)

    def _obey(self, listener: socket.socket) -> None:
        verbs = {"park": self.park, "resume": self.resume, "status": self._status}
        while True:
            caller, _ = listener.accept()
            with caller:
                word = caller.recv(64).decode(errors="replace").strip()
                answer = verbs[word]() if word in verbs else f"error: no such word {word!r}"
                try:
                    caller.sendall(answer.encode() + b"\n")
                except OSError:  # the caller gave up waiting; what it asked for is done all the same
                    continue

    def _status(self) -> str:
        return "running" if self.running.is_set() else "parked"


def _listen(directory: Path) -> socket.socket:
    """A socket in `directory`, reached over a descriptor: the path of a socket has 107 bytes at most."""
    (directory / SOCKET).unlink(missing_ok=True)  # of a copy that was killed: `only_copy` says it is gone
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
    finally:
        os.close(folder)
    listener.listen()
    return listener


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended


def main() -> int:
    """Run the job; exit code 0 at its end, 143 after SIGTERM, 12 without memory, 3 as a second copy."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.jobs.render", description="A job that can be parked."
    )
    parser.add_argument("--dir", type=Path, required=True, metavar="STATE", help="where its socket lives")
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--frame-s", type=float, default=0.1, metavar="S")
    parser.add_argument("--reports", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--device", type=split_devices, metavar="NAME[,NAME]", help="default: CUDA_VISIBLE_DEVICES, or sim0"
    )
    parser.add_argument(
        "--bytes", type=parse_size, default=parse_size("14GiB"), metavar="SIZE", help="per device"
    )
    parser.add_argument(
        "--residue", type=parse_size, default=0, metavar="SIZE", help="still held while parked"
    )
    parser.add_argument(
        "--total", type=parse_size, default=parse_size("24GiB"), metavar="SIZE", help="of each device"
    )
    parser.add_argument("--park-s", type=float, default=0.0, metavar="S", help="how long parking takes")
    parser.add_argument("--resume-s", type=float, default=0.0, metavar="S", help="how long resuming takes")
    parser.add_argument("--keeps-memory", action="store_true", help="say `parked` and keep all the memory")
    options = parser.parse_args()
    options.device = options.device or visible_devices()
    signal.signal(signal.SIGTERM, _end)
    try:
        with only_copy(options.dir):
            Render(options).draw()
    except Ended:
        return 128 + signal.SIGTERM
    except SecondCopy as error:
        print(error, file=sys.stderr)
        return SECOND_COPY_EXIT
    except FakeOutOfMemory as error:
        print(error, file=sys.stderr)
        return OUT_OF_MEMORY_EXIT
    finally:
        for device in options.device:
            clear(options.reports, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
