"""Checks of where Headway keeps its files, and of what the system lets it have."""

from __future__ import annotations

import os
from pathlib import Path

from headway.core.units import size
from headway.doctor.around import Around
from headway.doctor.finding import Finding, ok, problem, unknown, warning

REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "fuse.sshfs")
GONE_AFTER_BOOT = ("tmpfs", "ramfs")
DISK_BYTES, DISK_SHARE = 10 << 30, 0.05  # the smaller of the two counts
DISK_FULL_BYTES, FEW_FILES = 512 << 20, 10_000
HELD = 5000  # requests that wait at once
FILES = 2 * HELD + 240  # a client and a server for each, and the gate's own
SHM_BYTES = 1 << 30
HOST_BYTES, HOST_SHARE = 8 << 30, 0.1


def home(a: Around) -> Finding:
    """Are the directories this user's own, and can they be written?"""
    me = a.machine.user()
    for place in (a.paths.state_dir, a.paths.run_dir):
        found = a.machine.owner(place)
        if found is not None and found[0] != me:
            return problem(
                f"{place} belongs to user {found[0]}, and this is user {me}",
                "Headway does not start there",
                "headway --home DIR up   (as the user who owns DIR)",
                directory=str(place),
            )
        if not a.machine.writable(place):
            return problem(
                f"{place} cannot be written",
                "Headway does not start there",
                "headway --home DIR up",
                directory=str(place),
            )
    run = a.machine.owner(a.paths.run_dir)
    if run is not None and run[1] & 0o077:
        return warning(
            f"others can enter {a.paths.run_dir} (mode {run[1]:o})",
            "who can enter it can speak as a gate or a daemon; `headway up` closes it",
            f"chmod 700 {a.paths.run_dir}",
            directory=str(a.paths.run_dir),
        )
    return ok(f"{a.paths.state_dir}, sockets in {a.paths.run_dir}")


def file_system(a: Around) -> Finding:
    """Are database, locks and sockets on a disk of this machine?"""
    places = (a.paths.state_dir, a.paths.run_dir)
    kinds = {place: a.machine.file_system(place) for place in places}
    for place, kind in kinds.items():
        if kind is not None and kind.startswith(REMOTE):
            return problem(
                f"{place} is on a network file system ({kind})",
                "locks and the database are not safe there: two Headways could run, and jobs could be lost",
                "headway --home DIR up   (DIR on a disk of this machine)",
                directory=str(place),
                type=kind,
            )
    kind = kinds[a.paths.state_dir]
    if kind is None:
        return unknown(f"nothing says which file system {a.paths.state_dir} is on")
    if kind in GONE_AFTER_BOOT:
        return warning(
            f"{a.paths.state_dir} is in memory ({kind})",
            "the queue and all logs are gone when the machine restarts",
            "headway --home DIR up   (DIR on a disk)",
            type=kind,
        )
    return ok(f"{a.paths.state_dir} is on a local disk ({kind})", type=kind)


def disk(a: Around) -> Finding:
    """Is there room for the database and the logs?"""
    try:
        room = a.machine.room(a.paths.state_dir)
    except OSError as error:
        return unknown(f"{a.paths.state_dir}: {error.strerror}")
    facts = {"free_bytes": room.free_bytes, "total_bytes": room.total_bytes}
    said = f"{size(room.free_bytes)} of {size(room.total_bytes)} are free at {a.paths.state_dir}"
    see = f"du -xh --max-depth=2 {a.paths.state_dir} | sort -h | tail"
    if room.free_bytes < DISK_FULL_BYTES:
        return problem(said, "on a full disk nothing new starts, and nothing can be queued", see, **facts)
    if room.free_bytes < min(DISK_BYTES, DISK_SHARE * room.total_bytes):
        return warning(said, "logs and saved points will soon fill it; then nothing new starts", see, **facts)
    if room.files is not None and room.files < FEW_FILES:
        return warning(
            f"only {room.files} more files can be made at {a.paths.state_dir}",
            "each run needs some; then nothing new starts",
            f"df -i {a.paths.state_dir}",
            files=room.files,
        )
    return ok(said, **facts)


def open_files(a: Around) -> Finding:
    """May the gate have a file for each request that waits?"""
    pid = a.gate
    most = a.machine.open_files(pid)
    if most is None:
        return unknown("the limit of open files cannot be read")
    whose = "the gate" if pid else "what is started here"
    if most < FILES:
        return warning(
            f"{whose} may have {most} files open",
            f"about {most // 2} requests at once; more clients have to wait to connect ({FILES} are enough for {HELD})",
            "ulimit -Hn 65536 && headway up   (for good: LimitNOFILE= in systemd, or /etc/security/limits.conf)",
            limit=most,
        )
    return ok(f"{whose} may have {most} files open", limit=most)


def shm(a: Around) -> Finding:
    """Is /dev/shm as large as loaders and engines want it?"""
    try:
        room = a.machine.room(Path("/dev/shm"))
    except OSError as error:
        return unknown(f"/dev/shm: {error.strerror}")
    if room.total_bytes < SHM_BYTES:
        return warning(
            f"/dev/shm has {size(room.total_bytes)}",
            "vLLM, SGLang and PyTorch's loaders share memory through it, and end with a bus error when it is full",
            "docker run --shm-size=8g ..."
            if a.machine.container()
            else "sudo mount -o remount,size=8G /dev/shm",
            total_bytes=room.total_bytes,
        )
    return ok(f"/dev/shm has {size(room.total_bytes)}", total_bytes=room.total_bytes)


def memory(a: Around) -> Finding:
    """Is there main memory for what sleeps and parks, and is it this process's to use?"""
    try:
        found = a.machine.memory()
    except (OSError, KeyError):
        return unknown("/proc/meminfo cannot be read")
    said = f"{size(found.available_bytes)} of {size(found.total_bytes)} are available, swap {size(found.swap_bytes)}"
    facts = {"available_bytes": found.available_bytes, "total_bytes": found.total_bytes}
    if found.limit_bytes is not None and found.limit_bytes < found.total_bytes // 2:
        return warning(
            f"this runs with a limit of {size(found.limit_bytes)} on a machine of {size(found.total_bytes)}",
            "jobs that are started from here end at that limit, whatever the machine has free",
            "docker run --memory ..., or MemoryMax= of the service",
            limit_bytes=found.limit_bytes,
            **facts,
        )
    if found.available_bytes < min(HOST_BYTES, HOST_SHARE * found.total_bytes):
        return warning(
            said,
            "models that sleep and jobs that park need room there; the system may end some process for want of it",
            "ps -eo pid,rss,args --sort=-rss | head",
            **facts,
        )
    return ok(said, **facts)


def runtime_dir(a: Around) -> Finding:
    """Does this shell look for the sockets where the daemon put them?"""
    if a.paths.home is not None or a.daemon is not None:
        return ok(f"sockets are looked for in {a.paths.run_dir}")
    user_dir = Path(f"/run/user/{a.machine.user()}")
    for other in (user_dir / "headway", a.paths.state_dir / "run"):
        if other != a.paths.run_dir and a.machine.lock_pid(other / "daemon.lock") is not None:
            said = (
                "is not set" if not a.environ.get("XDG_RUNTIME_DIR") else f"is {a.environ['XDG_RUNTIME_DIR']}"
            )
            shell = (
                f"export XDG_RUNTIME_DIR={user_dir}" if other.parent == user_dir else "unset XDG_RUNTIME_DIR"
            )
            return problem(
                f"a daemon runs with its sockets in {other}; here XDG_RUNTIME_DIR {said}",
                "each command here says that there is no daemon, and `headway up` would start a second one",
                shell,
                directory=str(other),
            )
    return ok(f"sockets are looked for in {a.paths.run_dir}")


def leftovers(a: Around) -> Finding:
    """Are there sockets that nobody listens on any more?"""
    names = ("headway.sock", "link.sock", "admin.token")
    old = [name for name in names if a.daemon is None and os.path.lexists(a.paths.run_dir / name)]
    if not old:
        return ok("no old sockets")
    return warning(
        f"{', '.join(old)} in {a.paths.run_dir} are of a daemon that is gone",
        "programs that connect there are refused; the next start takes them away, and takes over what runs",
        "headway up",
        files=old,
    )
