"""A meter that is a program of its own: reading a GPU can hang or crash, and a hung thread cannot be ended."""

from __future__ import annotations

import asyncio
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.meters.lines import BROKEN_EXIT, READ, boottime_s, decode
from headway.ports import Meter, Reading

SILENT_S = 3.0
FIRST_SILENT_S = 10.0  # the first look at a GPU can take seconds
ASK_EVERY_S = 0.005  # a burst of asking is one reading; how often to ask is the daemon's own rule
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.2, 5.0
SETTLED_S = 10.0  # a program that lived this long and then ended is started again at once
END_S = 2.0
LINE_MAX = 1 << 20
LOG_MAX = 1 << 20


class ChildMeter(Meter):
    """Runs a program that speaks meters/lines.py; silent or ended, it is reported, killed and started again.

    One thread talks to the program, so a busy event loop never makes it look silent. The program's standard input
    ends when this process does, however it dies, and that ends the program.

    Args:
        argv: the program with its arguments.
        env: its whole environment; None: that of this process.
        log: the file its complaints are added to; None: nowhere. It starts anew above 1 MiB.
    """

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path | None = None
    ) -> None:
        self._argv, self._env, self._log = list(argv), env, log
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None  # a pipe: one byte for "read now", and its end for "stop"
        self._stopped = False

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        """Start the program; readings come from now on, in this event loop, until `stop`."""
        loop = asyncio.get_running_loop()

        def deliver(reading: Reading) -> None:
            if not self._stopped:
                on_reading(reading)

        def report(reading: Reading) -> None:
            try:
                loop.call_soon_threadsafe(deliver, reading)
            except RuntimeError:
                pass  # the loop is closed: nobody is left to hear it

        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._wake = reader, writer
        self._thread = threading.Thread(
            target=self._run, args=(reader, report), name="headway-meter", daemon=True
        )
        self._thread.start()

    def read_now(self) -> None:
        """Ask for a reading. Never blocks; wishes within ASK_EVERY_S are one question to the program."""
        if self._wake is None or self._stopped:
            return
        try:
            os.write(self._wake[1], b"r")
        except BlockingIOError:
            pass  # thousands wait to be asked already; one reading will answer them all

    async def stop(self) -> None:
        """End the program. No reading is delivered after this was called. Safe to call twice, or before `start`."""
        if self._wake is None or self._thread is None or self._stopped:
            return
        self._stopped = True
        os.close(self._wake[1])
        await asyncio.to_thread(self._thread.join)
        os.close(self._wake[0])

    # ---------------------------------------------------------------- in the thread

    def _run(self, wake: int, report: Callable[[Reading], None]) -> None:
        backoff_s = BACKOFF_MIN_S
        while not self._stopped:
            began_s = time.monotonic()
            trouble = self._one_program(wake, report)
            if trouble is not None:
                report(Reading(at_s=boottime_s(), devices=(), trouble=trouble))
            if time.monotonic() - began_s > SETTLED_S:
                backoff_s = BACKOFF_MIN_S
            _rest(wake, backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    def _one_program(self, wake: int, report: Callable[[Reading], None]) -> str | None:
        """One life of the program; returns why it is over, None when that was asked for or is known already."""
        try:
            program = self._popen()
        except OSError as error:
            return f"its meter cannot be started: {error.strerror or error}"
        try:
            trouble = _Talk(program, wake, report).until_over()
            if trouble is None and not self._stopped:
                trouble = _how_it_ended(program)
        finally:
            _end(program)
        return trouble

    def _popen(self) -> subprocess.Popen[bytes]:
        log = subprocess.DEVNULL if self._log is None else _open_log(self._log)
        try:
            return subprocess.Popen(
                self._argv,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,  # Ctrl-C in a terminal is for the daemon
            )
        finally:
            if log >= 0:
                os.close(log)


class _Talk:
    """What is said with one program, until it is over."""

    def __init__(
        self, program: subprocess.Popen[bytes], wake: int, report: Callable[[Reading], None]
    ) -> None:
        assert program.stdin is not None and program.stdout is not None
        self._in, self._out, self._wake, self._report = (
            program.stdin.fileno(),
            program.stdout.fileno(),
            wake,
            report,
        )
        os.set_blocking(self._in, False)
        self._silent_at_s = time.monotonic() + FIRST_SILENT_S
        self._limit_s = FIRST_SILENT_S
        self._asked_s = float("-inf")
        self._ask = False
        self._rest = b""

    def until_over(self) -> str | None:
        """Returns the trouble; None: the program closed its output, or `stop` was called."""
        while True:
            ask_at_s = self._asked_s + ASK_EVERY_S if self._ask else self._silent_at_s
            left_s = min(ask_at_s, self._silent_at_s) - time.monotonic()
            ready = _readable((self._out, self._wake), max(0.0, left_s))
            if self._wake in ready:
                if not _drain(self._wake):
                    return None
                self._ask = True
            if self._ask and time.monotonic() >= self._asked_s + ASK_EVERY_S:
                self._ask_now()
            if self._out in ready:
                data = os.read(self._out, 1 << 16)
                if not data:
                    return None
                if len(self._rest) + len(data) > LINE_MAX:
                    return "its meter prints something without an end"
                self._lines(data)
            elif (
                time.monotonic() >= self._silent_at_s
            ):  # only after looking: this process may have been stopped
                return f"its meter said nothing for {self._limit_s:g} s"

    def _ask_now(self) -> None:
        self._ask, self._asked_s = False, time.monotonic()
        try:
            os.write(self._in, READ)
        except (BlockingIOError, BrokenPipeError):
            pass  # it hangs or has ended, which its output will say

    def _lines(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                reading = decode(line)
            except ValueError:
                self._report(Reading(at_s=boottime_s(), devices=(), trouble="its meter prints no readings"))
                continue  # no sign of life: the limit goes on
            self._report(reading)
            self._limit_s = SILENT_S
            self._silent_at_s = time.monotonic() + SILENT_S


def _drain(wake: int) -> bool:
    """Take what was asked out of the pipe; False: its other end is closed."""
    try:
        return os.read(wake, 1 << 16) != b""
    except BlockingIOError:
        return True


def _rest(wake: int, wait_s: float) -> None:
    """Let time pass, or less when `stop` is called."""
    until_s = time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        if _readable((wake,), left_s) and not _drain(wake):
            return


def _readable(files: Sequence[int], wait_s: float) -> set[int]:
    """Which of these have something to read, or ended, within `wait_s`. The numbers may be large: no select()."""
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return {key.fd for key, _ in selector.select(wait_s)}


def _how_it_ended(program: subprocess.Popen[bytes]) -> str | None:
    try:
        code = program.wait(END_S)
    except subprocess.TimeoutExpired:
        return "its meter closed its output"
    if code == BROKEN_EXIT:
        return None  # it printed why
    return f"its meter ended with code {code}" if code >= 0 else f"its meter was ended by signal {-code}"


def _end(program: subprocess.Popen[bytes]) -> None:
    for pipe in (program.stdin, program.stdout):
        if pipe is not None:
            pipe.close()
    program.kill()
    try:
        program.wait(END_S)
    except subprocess.TimeoutExpired:
        pass  # it hangs inside the kernel; Popen reaps it once it is gone


def _open_log(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    if path.exists() and path.stat().st_size > LOG_MAX:
        flags |= os.O_TRUNC
    return os.open(path, flags, 0o600)
