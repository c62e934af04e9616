"""One serving child as its parent sees it: started or taken over, ready or not, told to leave or not."""

import contextlib
import os
import select
import signal


class Kept:
    """One child, known by its pidfd. `ready_fd` is the end of a pipe that it writes to once it accepts."""

    def __init__(self, pid: int, pidfd: int, ready_fd: int | None = None) -> None:
        self.pid, self.pidfd = pid, pidfd
        self._ready_fd = ready_fd
        self._told: set[signal.Signals] = set()

    def is_ready(self) -> bool:
        """Whether it accepts. One that was taken over does."""
        if self._ready_fd is None:
            return True
        readable, _, _ = select.select([self._ready_fd], [], [], 0)
        if not readable or not os.read(self._ready_fd, 1):
            return False  # not yet; or it ended before it was
        self._forget_pipe()
        return True

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, once."""
        if number not in self._told:
            self._told.add(number)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def watched(self) -> list[int]:
        """Descriptors that become readable when something happens to it."""
        return [self.pidfd] if self._ready_fd is None else [self.pidfd, self._ready_fd]

    def ended(self) -> bool:
        """Whether it is gone."""
        readable, _, _ = select.select([self.pidfd], [], [], 0)
        return bool(readable)

    def reap(self) -> bool:
        """Let go of one that ended. Returns whether somebody killed it."""
        killed = False
        with contextlib.suppress(ChildProcessError):  # not our child: taken over
            end = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
            killed = end is not None and end.si_code == os.CLD_KILLED and end.si_status == signal.SIGKILL
        os.close(self.pidfd)
        self._forget_pipe()
        return killed

    def _forget_pipe(self) -> None:
        if self._ready_fd is not None:
            os.close(self._ready_fd)
            self._ready_fd = None
