"""Starts a real llama.cpp server and reports, from outside it, what it would hold on the simulated device.

The wrapper is the leader, llama.cpp its child with the listening socket. Awake, the server holds `--bytes`;
asleep (`is_sleeping` in /props) it holds `--residue`. A wrapper that stays behind with memory (`--late-free-s`,
`--keeps-memory`) reports it under its own pid from the start, so the sum shows no dip when the server ends.
Killed with SIGKILL, the wrapper leaves the server running, as real model servers do: whoever ends it must end
the tree.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from demo.sim_device import (
    OUT_OF_MEMORY_EXIT,
    FakeOutOfMemory,
    allocate,
    clear,
    parse_size,
    set_bytes,
    split_devices,
)

_LOOK_EVERY_S = 0.05


class Served:
    """One server under the wrapper's eyes, from its start to the last byte it held."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.server = subprocess.Popen(_server_command(options))
        stays_behind = options.keeps_memory or options.late_free_s > 0
        self.holder_pid = os.getpid() if stays_behind else self.server.pid
        self.started_s = time.monotonic()
        self.held_bytes = 0
        self.ending = threading.Event()

    def end(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGTERM and SIGINT: passes the word on; a second one changes nothing."""
        if not self.ending.is_set():
            self.ending.set()
            self.server.send_signal(signal.SIGTERM)

    def watch(self) -> int:
        """Keep the reports true until the server and its memory are gone; returns the server's exit code."""
        try:
            while self.server.poll() is None:
                self._hold(self._due_bytes())
                self._wait(_LOOK_EVERY_S)
        except FakeOutOfMemory as error:
            print(error, file=sys.stderr, flush=True)
            self.server.kill()
            self.server.wait()
            return OUT_OF_MEMORY_EXIT
        code = self.server.returncode
        if self.held_bytes and self.options.keeps_memory and self.ending.is_set():
            threading.Event().wait()  # only SIGKILL gets this memory back
        if self.held_bytes and self.options.late_free_s > 0:
            time.sleep(self.options.late_free_s)
        self._clear()
        return code if code >= 0 else 128 - code

    def _due_bytes(self) -> int:
        if time.monotonic() - self.started_s < self.options.alloc_late_s:
            return 0
        awake_bytes: int = self.options.bytes
        if self.options.sleep_idle <= 0:
            return awake_bytes
        asleep = _is_sleeping(self.options.port)
        if asleep is None:  # loading, or too busy to say: as before
            return self.held_bytes or awake_bytes
        return int(self.options.residue) if asleep else awake_bytes

    def _hold(self, due_bytes: int) -> None:
        if due_bytes == self.held_bytes:
            return
        try:
            for device in self.options.device:
                if self.options.total is None:
                    set_bytes(self.options.reports, device, due_bytes, self.holder_pid)
                else:
                    allocate(self.options.reports, device, due_bytes, self.options.total, self.holder_pid)
        except ProcessLookupError:  # the server died since the last look
            return
        except FakeOutOfMemory:
            self._clear()
            raise
        self.held_bytes = due_bytes

    def _clear(self) -> None:
        for device in self.options.device:
            clear(self.options.reports, device, self.holder_pid)

    def _wait(self, limit_s: float) -> None:
        try:
            self.server.wait(limit_s)
        except subprocess.TimeoutExpired:
            return


def _server_command(options: argparse.Namespace) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "demo.llama_server",
        "--model",
        options.model,
        "--port",
        str(options.port),
    ]
    command += ["--alias", options.alias, "--sleep-idle", str(options.sleep_idle)]
    return [*command, "--load-delay", str(options.load_delay)]


def _is_sleeping(port: int) -> bool | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/props")
        reply = connection.getresponse()
        return bool(json.loads(reply.read())["is_sleeping"]) if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def main() -> int:
    """Run the server the command line describes; its exit code is the server's, 128 + N after signal N."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.served", description="llama.cpp on the simulated device."
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", default="tiny")
    parser.add_argument("--sleep-idle", type=int, default=-1, metavar="S")
    parser.add_argument("--load-delay", type=float, default=0.0, metavar="S")
    parser.add_argument("--reports", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", type=split_devices, default=("sim0",), metavar="NAME[,NAME]")
    parser.add_argument(
        "--bytes", type=parse_size, required=True, metavar="SIZE", help="held while awake, per device"
    )
    parser.add_argument(
        "--residue", type=parse_size, default=0, metavar="SIZE", help="held while asleep, per device"
    )
    parser.add_argument(
        "--total", type=parse_size, metavar="SIZE", help="fail like a real server when it does not fit"
    )
    parser.add_argument(
        "--alloc-late-s", type=float, default=0.0, metavar="S", help="hold nothing for the first S s"
    )
    parser.add_argument(
        "--late-free-s", type=float, default=0.0, metavar="S", help="hold on for S s after the end"
    )
    parser.add_argument(
        "--keeps-memory", action="store_true", help="asked to end, keep the memory until SIGKILL"
    )
    options = parser.parse_args()

    early = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, early)  # one that comes before the handler waits for it
    served = Served(options)
    for number in early:
        signal.signal(number, served.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, early)
    return served.watch()


if __name__ == "__main__":
    sys.exit(main())
