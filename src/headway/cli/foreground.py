"""A command in our place: it has our terminal and our process group, and gets every signal that was meant for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from stat import S_ISREG

CANNOT_EXECUTE, NOT_FOUND = 126, 127  # as env(1)
SIGNALLED = 128
# Not ours to keep: what cannot be blocked, what our own mistakes raise, and what Python has ignored since its start.
NOT_HELD = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP,
    signal.SIGABRT, signal.SIGPIPE, signal.SIGXFSZ,
}  # fmt: skip
GIVEN_BACK = (signal.SIGPIPE, signal.SIGXFSZ)


def find_program(word: str) -> tuple[str, int]:
    """The file that `word` means, as a shell finds it, and 0; else what was looked at and the exit code to end with."""
    places = [word] if "/" in word else [os.path.join(place or ".", word) for place in os.get_exec_path()]
    seen = None
    for path in places:
        try:
            is_file = S_ISREG(os.stat(path).st_mode)
        except OSError:
            continue
        if is_file and os.access(path, os.X_OK):
            return path, 0
        seen = seen or path
    return (word, NOT_FOUND) if seen is None else (seen, CANNOT_EXECUTE)


def foreground(
    program: str, argv: Sequence[str], env: Mapping[str, str], started: Callable[[int], None]
) -> int:
    """Run the command to its end; returns its exit code, 128 + n when signal n ended it.

    A terminal sends its signals to the whole group, so the command has those by itself, and they do not concern us.
    What another process sends to us is meant for the command and is passed on. (Sent to the whole group by a process,
    it comes twice: nothing tells the two apart.) When the command is stopped, we stop too, so that the shell takes
    the terminal back.

    Args:
        started: called with its pid.

    Raises:
        OSError: it could not be executed.
    """
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # ignored by whoever started us, ends could not be waited for
    held = signal.valid_signals() - NOT_HELD
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        pid = os.posix_spawn(program, list(argv), env, setsigmask=before, setsigdef=GIVEN_BACK)
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    started(pid)
    while True:
        told = signal.sigwaitinfo(held)
        if told.si_signo != signal.SIGCHLD:
            if told.si_code <= 0:  # by a process, not by the kernel
                _pass_on(pid, told.si_signo)
            continue
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found and os.WIFSTOPPED(status):
            if _has_terminal():
                os.kill(os.getpid(), signal.SIGSTOP)
                _pass_on(pid, signal.SIGCONT)  # we were continued
        elif found:
            return (
                SIGNALLED + os.WTERMSIG(status)
                if os.WIFSIGNALED(status)
                else os.waitstatus_to_exitcode(status)
            )


def _pass_on(pid: int, number: int) -> None:
    """It was not waited for yet, so the pid is its own; one that became another user (sudo) gets nothing from us."""
    with suppress(PermissionError):
        os.kill(pid, number)


def _has_terminal() -> bool:
    """Is there one, so that a shell sees us stop? Without, nobody would continue us."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
