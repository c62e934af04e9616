"""The gate's parent: owns the listening sockets and keeps one child alive. It serves nothing itself.

Killed, it takes nothing along: the child serves on, and the next parent takes the listeners from it. SIGUSR2 (SIGHUP
too, where no terminal can hang up) makes it start itself anew in the same process, with the program and the config of
now: a new child accepts, then the old one finishes what it has and leaves.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from headway.errors import AlreadyRunning
from headway.gate import listeners, locks
from headway.gate.kept import Kept
from headway.gate.spec import Spec, replace_file, write_spec

AGAIN_FIRST_S, AGAIN_MAX_S = 0.05, 5.0
STEADY_S = 1.0  # a child that lived this long was no crash loop, nor was one that somebody killed
POLL_S = 0.5
# Over the exec: our listeners, and our lock. Whoever serves is replaced then, though it looks the same.
RENEW, LOCK = "HEADWAY_GATE_RENEW", "HEADWAY_GATE_LOCK"


class Parent:
    """One parent. `run` returns when it was asked to leave and its children are gone."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.fds: dict[str, int] = {}
        self.leaving = self.renewing = False
        self._child: Kept | None = None  # who accepts, or will
        self._old: list[Kept] = []  # replaced: they leave once the child accepts
        self._notify = os.environ.pop("NOTIFY_SOCKET", "")
        self._watchdog = os.environ.pop("WATCHDOG_USEC", "") != "" and self._notify != ""
        self._told_ready = False
        self._kept = os.environ.pop(RENEW, "")
        lock = os.environ.pop(LOCK, "")
        self._lock_fd = int(lock) if lock else None
        self._wake_r, self._wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> None:
        """Hold the parent's lock, have listeners, keep a child. Raises AlreadyRunning, PortTaken."""
        self.spec.gates.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lock_fd is None:
            self._lock_fd = locks.hold(self.spec.parent_lock)
        if self._lock_fd is None:
            raise AlreadyRunning(
                f"a gate parent already runs for {self.spec.run_dir}. Stop it first, or use another --home."
            )
        os.set_inheritable(self._lock_fd, False)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)
        signal.signal(signal.SIGHUP, self._leave if os.isatty(0) else self._renew)
        signal.signal(signal.SIGUSR2, self._renew)
        self.fds = listeners.given(os.environ, self.spec.listen) | listeners.kept(
            self._kept, self.spec.listen
        )
        self._adopt()
        self._listen()
        self._watch()

    def _leave(self, number: int, frame: object) -> None:
        self.leaving = True

    def _renew(self, number: int, frame: object) -> None:
        self.renewing = True

    def _adopt(self) -> None:
        """Take over the gates that outlived their parent, and their listeners.

        One of this version that listens where it should is kept as the child. Any other is replaced: it serves until
        a new one does.
        """
        found = [one for gate in locks.living(self.spec.gates) if (one := self._ask(gate)) is not None]
        for handed, pidfd in sorted(found, key=lambda pair: pair[0].leaving):
            wanted = {name: listeners.place_of(fd) for name, fd in self.fds.items()}
            places = {name: wanted.get(name, place) for name, place in self.spec.listen.items()}
            fits = {n for n, at in places.items() if n in handed.fds and listeners.is_at(handed.fds[n], at)}
            for name, fd in handed.fds.items():
                if name in fits and name not in self.fds:
                    self.fds[name] = fd
                else:
                    os.close(fd)
            same = fits == places.keys() == handed.fds.keys() and handed.version == self.spec.version
            if same and self._child is None and not (handed.leaving or self._kept):
                self._child = Kept(handed.pid, pidfd)
            else:
                self._old.append(Kept(handed.pid, pidfd))

    def _ask(self, gate: str) -> tuple[locks.Handed, int] | None:
        """What a living gate hands over, and its pidfd. One too busy to answer hands over nothing, and is replaced."""
        handed = locks.take_over(self.spec.gates, gate)
        lock = self.spec.gates / f"{gate}.lock"
        pid = locks.holder(lock) if handed is None else handed.pid
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid) if pid is not None else None
            if pidfd is not None and locks.is_held(lock):  # else the pid may be another's by now
                return handed or locks.Handed(gate, pid or 0, "", {}, leaving=True), pidfd
            if pidfd is not None:
                os.close(pidfd)
        for fd in handed.fds.values() if handed is not None else ():
            os.close(fd)
        return None

    def _listen(self) -> None:
        for name, place in self.spec.listen.items():
            if name not in self.fds:
                self.fds[name] = listeners.bind(name, place)
        ports = {name: listeners.place_of(fd)[1] for name, fd in self.fds.items()}
        try:
            replace_file(self.spec.ports, json.dumps(ports).encode())
        except OSError as error:  # a full disk: clients know the ports already
            print(f"{self.spec.ports} could not be written: {error.strerror}", file=sys.stderr)

    # Watching

    def _watch(self) -> None:
        again_s, again_at_s, started_s = AGAIN_FIRST_S, 0.0, time.monotonic()
        while True:
            now_s = time.monotonic()
            if self.leaving:
                listeners.notify(self._notify, "STOPPING=1")
                if not self._living():
                    return
                for kept in self._living():
                    kept.tell(signal.SIGTERM)
            elif self._child is None and now_s >= again_at_s:
                started_s = now_s
                self._spawn()
            self._settle()
            self._sleep(min(POLL_S, max(0.0, again_at_s - now_s) if self._child is None else POLL_S))
            if self._child is not None and self._child.ended():
                killed = self._child.reap()
                self._child = None
                locks.living(self.spec.gates)  # removes what it left
                steady = self.leaving or killed or time.monotonic() - started_s >= STEADY_S
                again_at_s = 0.0 if steady else time.monotonic() + again_s
                again_s = AGAIN_FIRST_S if steady else min(AGAIN_MAX_S, again_s * 2)

    def _living(self) -> list[Kept]:
        return self._old if self._child is None else [self._child, *self._old]

    def _settle(self) -> None:
        """Once the child accepts: say so, let those before it leave, and start anew where that was asked."""
        for kept in [kept for kept in self._old if kept.ended()]:
            kept.reap()
            self._old.remove(kept)
            locks.living(self.spec.gates)
        if self._watchdog:
            listeners.notify(self._notify, "WATCHDOG=1")
        if self._child is None or self.leaving or not self._child.is_ready():
            return
        if not self._told_ready:
            self._told_ready = True
            listeners.notify(self._notify, "READY=1")
        for kept in self._old:
            kept.tell(signal.SIGHUP)
        if self.renewing:
            self._start_anew()

    def _sleep(self, limit_s: float) -> None:
        """Until something happens to a child, or a signal comes."""
        watched = [self._wake_r, *(fd for kept in self._living() for fd in kept.watched())]
        ready, _, _ = select.select(watched, [], [], limit_s)
        if self._wake_r in ready:
            os.read(self._wake_r, 512)

    def _start_anew(self) -> None:
        """Become the program of now. The child serves meanwhile, whatever comes of it."""
        os.environ[RENEW], os.environ[LOCK] = listeners.keep(self.fds), str(self._lock_fd)
        os.set_inheritable(self._lock_fd or 0, True)
        if self._notify:
            os.environ["NOTIFY_SOCKET"] = self._notify
        if self._watchdog:
            os.environ["WATCHDOG_USEC"] = "1"
        signal.set_wakeup_fd(-1)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, sys.orig_argv)

    # Starting

    def _spawn(self) -> None:
        gate = secrets.token_hex(4)
        path, in_memory = self._spec_file(gate)
        ready_r, ready_w = os.pipe2(os.O_CLOEXEC)
        pairs = ",".join(f"{name}={fd}" for name, fd in self.fds.items())
        argv = [sys.executable, "-m", "headway.gate.main", "child", "--spec", str(path), "--id", gate]
        argv += ["--fds", pairs, "--ready", str(ready_w)]
        fds = (*self.fds.values(), ready_w, *in_memory)
        started = subprocess.Popen(argv, pass_fds=fds, start_new_session=True)
        for fd in (ready_w, *in_memory):
            os.close(fd)
        self._child = Kept(started.pid, os.pidfd_open(started.pid), ready_r)
        started.returncode = 0  # whoever holds the pidfd reaps it, not this object

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


def run_parent(spec: Spec) -> None:
    """Run a gate parent in this process until SIGTERM or SIGINT."""
    Path(spec.run_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    Parent(spec).run()
