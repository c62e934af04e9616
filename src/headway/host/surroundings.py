"""What else is on this machine and may stand in Headway's way. Only reads; what cannot be read is None."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headway.host import linux_net
from headway.host.cgroups import MOUNTS, OWN, mount_point, own_path
from headway.host.linux_proc import MARK_NAME, command_line, process, processes, token, words
from headway.host.locks import is_locked
from headway.host.model_servers import find_servers
from headway.ports import FoundServer

ASK_LIMIT_S = 3.0
FIRST_PID_NAMESPACE = "pid:[4026531836]"  # the kernel's own number for the one that it begins with
SIGNS_OF_NVIDIA = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")  # the last one: WSL2
SIGNS_OF_CONTAINERS = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a file system has left for this user. `files`: how many more can be made, None where it has no limit."""

    free_bytes: int
    total_bytes: int
    files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Main memory, in bytes. `limit_bytes`: what this process's cgroups allow it, None: all."""

    total_bytes: int
    available_bytes: int
    swap_bytes: int
    limit_bytes: int | None


class Surroundings:
    """Asked by `headway doctor`. Any method may hang on a file system that does; none changes anything."""

    # ------------------------------------------------------------ directories

    def file_system(self, path: Path) -> str | None:
        """The type of file system that `path` is on, or would be, such as ext4 or nfs4."""
        place = os.path.realpath(_nearest(path))
        best, found = "", None
        with suppress(OSError):
            for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
                before, _, after = line.partition(" - ")
                at = before.split()[4].replace("\\040", " ")
                inside = place == at or place.startswith(at.rstrip("/") + "/")
                if inside and len(at) >= len(best):
                    best, found = at, after.split()[0]
        return found

    def room(self, path: Path) -> Room:
        """Raises: OSError."""
        found = os.statvfs(_nearest(path))
        return Room(
            free_bytes=found.f_bavail * found.f_frsize,
            total_bytes=found.f_blocks * found.f_frsize,
            files=found.f_favail if found.f_files else None,
        )

    def owner(self, path: Path) -> tuple[int, int] | None:
        """(user id, permission bits) of a file or directory; None: there is none, or it is not to be seen."""
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_uid, found.st_mode & 0o777

    def writable(self, path: Path) -> bool:
        """Could a file be made in `path`, or `path` itself?"""
        return os.access(_nearest(path), os.W_OK | os.X_OK)

    def user(self) -> int:
        return os.geteuid()

    # ------------------------------------------------------------ processes

    def lock_pid(self, path: Path) -> int | None:
        """The process that holds this lock of Headway's; None: nobody does. 0: it does not say who."""
        if not is_locked(path):
            return None
        with suppress(OSError, ValueError, IndexError):
            return int(path.read_text().split()[0])
        return 0

    def lives(self, pid: int) -> bool:
        """Is there such a process here? A pid of another namespace is none of ours."""
        found = process(pid)
        return found is not None and found.alive

    def words(self, pid: int) -> str:
        return words(pid)

    def ours(self, pid: int) -> bool:
        """Was it started by Headway, or under `headway run`?"""
        return token(pid) is not None or token(pid, MARK_NAME) is not None

    def environment(self, pid: int) -> Mapping[str, str] | None:
        try:
            entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return None
        return {name: value for name, sign, value in (one.partition("=") for one in entries) if sign}

    def open_files(self, pid: int | None) -> int | None:
        """How many files a process (None: this one) may have open at most."""
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid or 'self'}/limits").read_text().splitlines():
                if line.startswith("Max open files"):
                    hard = line.split()[4]
                    return 1 << 30 if hard == "unlimited" else int(hard)
        return None

    def running(self, word: str) -> tuple[int, ...]:
        """Processes whose program's name begins with `word`."""
        found = ((pid, command_line(pid).partition(" ")[0]) for pid in processes())
        return tuple(sorted(pid for pid, program in found if os.path.basename(program).startswith(word)))

    def unit(self, pid: int) -> str | None:
        """The systemd service that a process belongs to; None: none, as in a terminal."""
        with suppress(OSError):
            names = (own_path(Path(f"/proc/{pid}/cgroup").read_text()) or "").split("/")
            found = [name for name in names if name.endswith(".service") and not name.startswith("user@")]
            return found[-1] if found else None
        return None

    def kill_mode(self, unit: str) -> str | None:
        """What systemd ends with that service: `process` spares what the service started."""
        for whose in (["--user"], []):
            argv = ["systemctl", *whose, "show", "-p", "LoadState,KillMode", unit]
            with suppress(OSError, subprocess.SubprocessError):
                done = subprocess.run(
                    argv, capture_output=True, text=True, timeout=ASK_LIMIT_S, stdin=subprocess.DEVNULL
                )
                said = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
                if said.get("LoadState") == "loaded":
                    return said.get("KillMode")
        return None

    # ------------------------------------------------------------ ports

    def listeners(self, port: int) -> tuple[int, ...] | None:
        """The processes that listen on 127.0.0.1:`port`; None: nobody. Those of other users are not to be seen."""
        return linux_net.listeners(port)

    def servers(self) -> list[FoundServer]:
        """Model servers that answer on this machine. Asks nothing that wakes a model."""
        return find_servers()

    # ------------------------------------------------------------ the machine

    def memory(self) -> Memory:
        """Raises: OSError."""
        rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kib = {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
        return Memory(
            total_bytes=kib["MemTotal"] << 10,
            available_bytes=kib["MemAvailable"] << 10,
            swap_bytes=kib.get("SwapTotal", 0) << 10,
            limit_bytes=_memory_limit(),
        )

    def signs_of_nvidia(self) -> tuple[str, ...]:
        """What of NVIDIA's driver is here."""
        tool = shutil.which("nvidia-smi")
        return (*(one for one in SIGNS_OF_NVIDIA if os.path.exists(one)), *((tool,) if tool else ()))

    def container(self) -> str | None:
        """The kind of container this runs in; None: in none that is known."""
        for path, name in SIGNS_OF_CONTAINERS.items():
            if os.path.exists(path):
                return name
        with suppress(OSError):
            return next(
                (n for n in ("kubepods", "docker", "lxc") if n in Path("/proc/1/cgroup").read_text()), None
            )
        return None

    def sees_all_pids(self) -> bool:
        """Are pids here those of the machine, as NVML tells them?"""
        with suppress(OSError):
            return os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE
        return False

    def lingers(self) -> bool | None:
        """Does what this user runs outlive a logout? None: systemd does not run here, and nobody ends it."""
        if not os.path.isdir("/run/systemd/system"):
            return None
        uid = os.geteuid()
        with suppress(KeyError):
            return uid == 0 or os.path.exists(f"/var/lib/systemd/linger/{pwd.getpwuid(uid).pw_name}")
        return False


def _nearest(path: Path) -> Path:
    """`path`, or the nearest directory above it that exists."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _memory_limit() -> int | None:
    """The smallest memory.max of this process's cgroup and of those above it."""
    limits = []
    with suppress(OSError):
        mounted, here = mount_point(MOUNTS.read_text()), own_path(OWN.read_text())
        if mounted is None or here is None:
            return None
        place = mounted / here.lstrip("/")
        for one in (place, *place.parents):
            with suppress(OSError, ValueError):
                limits.append(int((one / "memory.max").read_text()))
            if one == mounted:
                break
    return min(limits, default=None)
