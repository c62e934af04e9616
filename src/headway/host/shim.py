"""Stands over one run: starts its command, waits for the whole tree, and writes down how it ended.

Run as `python -I -S shim.py LOCK_FD RUN_DIR`, in a session of its own, with the run's locked file inherited as LOCK_FD
and its own output (and so the command's) already going to the log. Standard library only, nothing of ours: an upgrade
of the package must not reach into a shim that runs for days.

Files it writes into RUN_DIR, each whole or absent: `started` before the command runs, `executed` once it does, `exit`
when the leader ended, `gone` when no descendant is left. Their space is taken before the start, so a disk that fills
up later cannot swallow an exit code.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would cost a quarter of our start
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36
RECORD_BYTES = 2048  # of each file, padded with blanks
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # exit codes, as shells use them
GO = b"g"
LOG_LOOK_S = 2.0  # how often we look how large the log is
LOG_LOOK_MIN_S = 0.05  # and how often where it is written to without a pause
COPY_BYTES = 1 << 20
LARGEST_PARTS = (
    2  # a part that is kept may have so many times the size at which a log begins anew, and one more
)
# What a terminal, a logout or a stop of somebody else's sends around. Only SIGKILL ends a shim early.
MEANT_FOR_OTHERS = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def reserve(directory: str, name: str) -> None:
    """Take the disk space of a file that is written later."""
    with open(f"{directory}/{name}.tmp", "wb") as file:
        file.write(b" " * RECORD_BYTES)
        file.flush()


def put(directory: str, name: str, document: dict[str, Any]) -> None:
    """Write a file into its reserved space and give it its name: temporary file, fsync, rename."""
    half_written = f"{directory}/{name}.tmp"
    with open(half_written, "r+b") as file:
        file.write(json.dumps(document).encode().ljust(RECORD_BYTES))
        file.flush()
        os.fsync(file.fileno())
    os.rename(half_written, f"{directory}/{name}")


def tell(directory: str, name: str, document: dict[str, Any]) -> None:
    """`put`, where a disk that fails must not end the watch: the log gets the words instead."""
    try:
        put(directory, name, document)
    except OSError as error:
        print(f"headway shim: cannot write {name} ({error}): {document}", file=sys.stderr, flush=True)


def start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat: with the pid and the boot id it names a process for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
    return int(text[text.rindex(b")") + 2 :].split()[19])


def boottime_s() -> float:
    """Seconds since boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def enter(scope: str | None) -> None:
    """Put ourselves into the run's cgroup. Where that is refused, the tree and the token have to do."""
    if scope:
        try:
            with open(f"{scope}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError:
            pass


def leave_nothing(scope: str | None) -> None:
    """Take the empty cgroup away, and the directory of all of them after the last."""
    for directory in (scope, os.path.dirname(scope)) if scope else ():
        try:
            os.rmdir(directory)
        except OSError:
            return


def become(spec: dict[str, Any], go: int, failed: int) -> NoReturn:
    """In the child: wait for the word, then turn into the command. End of file instead of a word: never run it."""
    argv, what, code = [str(word) for word in spec["argv"]], "cannot run it", NOT_FOUND
    try:
        os.setsid()
        if os.read(go, 1) != GO:
            os._exit(0)
        for number in signal.valid_signals():
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except OSError:  # numbers that the C library keeps for itself
                    pass
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        enter(spec.get("scope"))
        if not argv:
            raise ValueError("the command is empty")
        if cwd := spec.get("cwd"):
            what = f"cannot enter {cwd}"
            os.chdir(cwd)
        what = f"cannot run {argv[0]}"
        environment = {**os.environ, "HEADWAY_PID": str(os.getpid()), **spec["env"]}
        environment["HEADWAY_RUN"] = spec["token"]
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        code = NOT_EXECUTABLE if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EPERM) else NOT_FOUND
        os.write(failed, f"{what}: {error.strerror}".encode())
    except Exception as error:
        os.write(failed, str(error).encode())
    os._exit(code)


def start(spec: dict[str, Any], directory: str, lock: int) -> tuple[int, str]:
    """Fork and let the child become the command; returns its pid and why it could not ("" when it could).

    The child runs nothing before `started` is on disk: a run without that file never ran, whenever we were killed.
    """
    wait_go, give_go = os.pipe()
    read_failed, failed = os.pipe()
    pid = os.fork()
    if pid == 0:
        for fd in (lock, give_go, read_failed):
            os.close(fd)
        become(spec, wait_go, failed)
    os.close(wait_go)
    os.close(failed)
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot_id = file.read().strip()
    me = os.getpid()
    who = {"pid": pid, "start_ticks": start_ticks(pid), "shim": me, "shim_start_ticks": start_ticks(me)}
    put(directory, "started", {**who, "boot_id": boot_id, "at_s": boottime_s()})
    os.write(give_go, GO)
    os.close(give_go)
    with open(read_failed, "rb") as file:  # its end comes with the exec
        error = file.read().decode(errors="replace")
    if error:
        print(error, file=sys.stderr, flush=True)  # the log of a command that never ran says why
    else:
        os.rename(f"{directory}/executed.tmp", f"{directory}/executed")
    return pid, error


def copied(target: str, largest: int) -> bool:
    """Copy the end of the log (our own output) to that file, and empty the log.

    What is added meanwhile is copied too, up to `largest` bytes more: whoever writes faster than that loses lines, and
    neither the disk nor the end of the run has to wait for him.
    """
    half_made = f"{target}.tmp"
    try:
        with open("/proc/self/fd/1", "rb") as source, open(half_made, "wb") as file:
            size = os.fstat(1).st_size
            source.seek(max(0, size - LARGEST_PARTS * largest))
            while True:
                while source.tell() < size + largest and (part := source.read(COPY_BYTES)):
                    file.write(part)
                file.flush()
                if source.tell() >= min(os.fstat(1).st_size, size + largest):
                    break  # and it is emptied at once: what comes in between would be lost
            os.ftruncate(1, 0)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(half_made)
        return False
    os.rename(half_made, target)
    return True


def rotate(log: str, largest: int, kept: int) -> int:
    """A log that grew too large begins anew; `kept` older parts stay as log.1 (the newest), log.2, ...

    By copy and truncate: whoever writes to it need not know. Where the disk has no room for a copy, older parts go
    first, and if that is not enough the log stays as it is.

    Returns:
        Bytes that it had.
    """
    try:
        size = os.fstat(1).st_size
    except OSError:
        return 0
    if size <= largest:
        return size
    older = [f"{log}.{number}" for number in range(1, kept + 1)]
    with contextlib.suppress(OSError):
        for here, there in zip(older[-2::-1], older[:0:-1], strict=True):
            if os.path.exists(here):
                os.rename(here, there)
    if not copied(older[0], largest):
        for part in older:
            with contextlib.suppress(OSError):
                os.unlink(part)
        copied(older[0], largest)
    return size


def keep_within(log: str, largest: int, kept: int, every_s: float) -> None:
    """Look at the log again and again, sooner where it grows fast: one timer at a time, so a look never meets another.

    The handler runs while we wait for the end of children; what we start inherits neither it nor the timer.
    """
    next_s = min(every_s, LOG_LOOK_MIN_S)

    def look(number: int, frame: object) -> None:
        nonlocal next_s
        size = rotate(log, largest, kept)
        wanted_s = next_s * largest / size if size > largest else 2 * next_s
        next_s = min(every_s, max(LOG_LOOK_MIN_S, wanted_s))
        signal.setitimer(signal.ITIMER_REAL, next_s)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, next_s)


def watch(leader: int, error: str, directory: str, scope: str | None) -> None:
    """Reap until no descendant is left, and record the leader's end when it comes."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        if pid == leader:
            record: dict[str, Any] = {
                "code": os.waitstatus_to_exitcode(status),
                "peak_host_bytes": usage.ru_maxrss * 1024,
                "at_s": boottime_s(),
                "user_s": usage.ru_utime,
                "system_s": usage.ru_stime,
            }
            tell(directory, "exit", {**record, "error": error[:1000]} if error else record)
    leave_nothing(scope)
    tell(directory, "gone", {"at_s": boottime_s()})


def main() -> None:
    """Run what RUN_DIR/spec.json says."""
    lock, directory = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(lock, False)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in MEANT_FOR_OTHERS:
        signal.signal(number, signal.SIG_IGN)
    with open(f"{directory}/spec.json") as file:
        spec = json.load(file)
    for name in ("started", "executed", "exit", "gone"):
        reserve(directory, name)
    largest, kept = spec.get("log_max_bytes"), spec.get("log_kept") or 1
    leader, error = start(spec, directory, lock)
    if largest:
        log = f"{directory}/{spec['log_name']}"
        keep_within(log, largest, kept, spec.get("log_look_s") or LOG_LOOK_S)
    watch(leader, error, directory, spec.get("scope"))


if __name__ == "__main__":
    main()
