"""The gate's parent: owns the listening sockets and keeps one child alive. It serves nothing itself.

Killed, it takes nothing along: the child serves on, and the next parent takes the listeners from it.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from headway.errors import AlreadyRunning, HeadwayError
from headway.gate import locks
from headway.gate.spec import Spec, replace_file, write_spec

BACKLOG = 4096
AGAIN_FIRST_S, AGAIN_MAX_S = 0.05, 5.0
STEADY_S = 1.0  # a child that lived this long was no crash loop, nor was one that somebody killed
POLL_S = 0.5


class PortTaken(HeadwayError):
    """Another program listens where the gate should."""

    code = "port_taken"
    http_status = 409


class Parent:
    """One parent. `run` returns when it was asked to leave and its child is gone."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.fds: dict[str, int] = {}
        self.leaving = False
        self._pid: int | None = None
        self._pidfd: int | None = None
        self._own: subprocess.Popen[bytes] | None = None  # None for a child taken over
        self._was_killed = False
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> None:
        """Hold the parent's lock, have listeners, keep a child. Raises AlreadyRunning, PortTaken."""
        self.spec.gates.mkdir(parents=True, exist_ok=True, mode=0o700)
        if locks.hold(self.spec.parent_lock) is None:
            raise AlreadyRunning(
                f"a gate parent already runs for {self.spec.run_dir}. Stop it first, or use another --home."
            )
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        self._adopt()
        self._listen()
        self._watch()

    def _leave(self, number: int, frame: object) -> None:
        self.leaving = True

    def _adopt(self) -> None:
        """Take listeners from a gate that outlived its parent, and watch it from now on.

        One that is of another version, or listens elsewhere than asked, is replaced: a new one starts, and it
        finishes what it has.
        """
        for gate in locks.living(self.spec.gates):
            handed = locks.take_over(self.spec.gates, gate)
            if handed is None or self.fds:
                continue
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(handed.pid)
                if not locks.is_held(self.spec.gates / f"{gate}.lock"):  # so the pid may be another's by now
                    os.close(pidfd)
                    continue
                places = self.spec.listen.items()
                self.fds = {
                    n: handed.fds[n] for n, at in places if n in handed.fds and _is_at(handed.fds[n], at)
                }
                if self.fds.keys() == self.spec.listen.keys() == handed.fds.keys() and (
                    handed.version == self.spec.version
                ):
                    self._pid, self._pidfd = handed.pid, pidfd
                else:
                    self._spawn_before_leaving(pidfd, handed.fds)

    def _spawn_before_leaving(self, pidfd: int, fds: dict[str, int]) -> None:
        for name in fds.keys() - self.fds.keys():
            os.close(fds[name])
        self._listen()
        self._spawn()
        signal.pidfd_send_signal(pidfd, signal.SIGHUP)
        os.close(pidfd)

    def _listen(self) -> None:
        for name, (host, port) in self.spec.listen.items():
            if name not in self.fds:
                self.fds[name] = _bind(name, host, port)
        ports = {name: _place(fd)[1] for name, fd in self.fds.items()}
        try:
            replace_file(self.spec.ports, json.dumps(ports).encode())
        except OSError as error:  # a full disk: clients know the ports already
            print(f"{self.spec.ports} could not be written: {error.strerror}", file=sys.stderr)

    def _watch(self) -> None:
        again_s, started_s, told = AGAIN_FIRST_S, time.monotonic(), False
        while True:
            if self._pidfd is None:
                if self.leaving:
                    return
                started_s = time.monotonic()
                self._spawn()
            if self.leaving and not told and self._pidfd is not None:
                told = True
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
            if not self._child_ended(POLL_S):
                continue
            if not self.leaving and not self._was_killed and time.monotonic() - started_s < STEADY_S:
                select.select([self._wake_r], [], [], again_s)
                again_s = min(AGAIN_MAX_S, again_s * 2)
            else:
                again_s = AGAIN_FIRST_S

    def _spawn(self) -> None:
        gate = secrets.token_hex(4)
        path, in_memory = self._spec_file(gate)
        pairs = ",".join(f"{name}={fd}" for name, fd in self.fds.items())
        argv = [
            sys.executable,
            "-m",
            "headway.gate.main",
            "child",
            "--spec",
            str(path),
            "--id",
            gate,
            "--fds",
            pairs,
        ]
        fds = (*self.fds.values(), *in_memory)
        self._own = subprocess.Popen(argv, pass_fds=fds, start_new_session=True)
        for fd in in_memory:
            os.close(fd)
        self._pid = self._own.pid
        self._pidfd = os.pidfd_open(self._pid)

    def _spec_file(self, gate: str) -> tuple[Path, tuple[int, ...]]:
        """Where the child reads its spec: a file; on a full disk, memory that it inherits, with its descriptor."""
        path = self.spec.gates / f"{gate}.spec"
        try:
            write_spec(path, self.spec)
            return path, ()
        except OSError:
            fd = os.memfd_create(gate)
            os.write(fd, json.dumps(asdict(self.spec)).encode())
            os.lseek(fd, 0, os.SEEK_SET)
            return Path(f"/proc/self/fd/{fd}"), (fd,)

    def _child_ended(self, limit_s: float) -> bool:
        """Wait for the child's end or a signal, at most `limit_s`."""
        pidfd = self._pidfd
        if pidfd is None:
            return True
        ready, _, _ = select.select([pidfd, self._wake_r], [], [], limit_s)
        if self._wake_r in ready:
            os.read(self._wake_r, 512)
        if pidfd not in ready:
            return False
        os.close(pidfd)
        self._pid = self._pidfd = None
        if self._own is not None:
            self._was_killed = self._own.wait() == -signal.SIGKILL
            self._own = None
        locks.living(self.spec.gates)  # removes what it left
        return True


def _bind(name: str, host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise PortTaken(
            f"{name}: cannot listen on {host}:{port} ({error.strerror}). Stop the program that listens there, or "
            f"choose another port in the config.",
            name=name, host=host, port=port,
        ) from None  # fmt: skip
    return sock.detach()


def _place(fd: int) -> tuple[str, int]:
    with socket.socket(fileno=os.dup(fd)) as sock:
        name = sock.getsockname()
    return str(name[0]), int(name[1])


def _is_at(fd: int, wanted: tuple[str, int]) -> bool:
    """Whether a listener is where it is asked to be; a port of 0 is any."""
    host, port = _place(fd)
    return host == wanted[0].replace("localhost", "127.0.0.1") and wanted[1] in (0, port)


def run_parent(spec: Spec) -> None:
    """Run a gate parent in this process until SIGTERM or SIGINT."""
    Path(spec.run_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    Parent(spec).run()
