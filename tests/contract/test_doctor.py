"""`headway doctor`: each check on a machine that is made up, well and not well."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headway import __version__
from headway.config.paths import Paths
from headway.config.schema import Config
from headway.doctor.around import Around, Checked
from headway.doctor.bounded import within
from headway.doctor.checks import CHECKS, examine
from headway.doctor.finding import ok
from headway.host.surroundings import Memory, Room, Surroundings
from headway.meters.once import ARGV, read_once
from headway.ports import DeviceReading, FoundServer, Reading
from tests.parts.command_line import headway
from tests.parts.fake_nvml import Box, FakeGpu

pytestmark = pytest.mark.contract

GIB = 1 << 30
ME, DAEMON, GATE, PARENT, JOB, HAND = 1000, 10, 11, 12, 20, 4711
PATHS = Paths(
    config_file=Path("/nowhere/config.toml"),
    state_dir=Path("/nowhere/state"),
    run_dir=Path("/run/user/1000/headway"),
)
LOCKS = {PATHS.run_dir / "daemon.lock": DAEMON, PATHS.run_dir / "gate-parent.lock": PARENT}
ROOM = Room(free_bytes=500 * GIB, total_bytes=1000 * GIB, files=None)
MEMORY = Memory(total_bytes=64 * GIB, available_bytes=50 * GIB, swap_bytes=0, limit_bytes=None)


@dataclass
class Made(Surroundings):
    """A machine on which all is well, but for what a test says."""

    kinds: Mapping[str, str | None] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    owners: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    can_write: bool = True
    locks: Mapping[Path, int] = field(default_factory=lambda: LOCKS)
    dead: tuple[int, ...] = ()
    environs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    files: int | None = 65536
    named: tuple[int, ...] = ()
    of_unit: str | None = None
    mode: str | None = "process"
    listening: Mapping[int, tuple[int, ...]] = field(
        default_factory=lambda: {8490: (DAEMON,), 8491: (1, PARENT)}
    )
    found: tuple[FoundServer, ...] = ()
    main: Memory = MEMORY
    nvidia: tuple[str, ...] = ()
    inside: str | None = None
    all_pids: bool = True
    stays: bool | None = True

    def file_system(self, path: Path) -> str | None:
        return self.kinds.get(str(path), "ext4")

    def room(self, path: Path) -> Room:
        return self.rooms.get(str(path), ROOM)

    def owner(self, path: Path) -> tuple[int, int] | None:
        return self.owners.get(path, (ME, 0o700))

    def writable(self, path: Path) -> bool:
        return self.can_write

    def user(self) -> int:
        return ME

    def lock_pid(self, path: Path) -> int | None:
        return self.locks.get(path)

    def lives(self, pid: int) -> bool:
        return pid not in self.dead

    def words(self, pid: int) -> str:
        return f"pid {pid} (python x.py)"

    def ours(self, pid: int) -> bool:
        return pid == JOB

    def environment(self, pid: int) -> Mapping[str, str] | None:
        return self.environs.get(pid, {})

    def open_files(self, pid: int | None) -> int | None:
        return self.files

    def running(self, word: str) -> tuple[int, ...]:
        return self.named

    def unit(self, pid: int) -> str | None:
        return self.of_unit

    def kill_mode(self, unit: str) -> str | None:
        return self.mode

    def listeners(self, port: int) -> tuple[int, ...] | None:
        return self.listening.get(port)

    def servers(self) -> list[FoundServer]:
        return list(self.found)

    def memory(self) -> Memory:
        return self.main

    def signs_of_nvidia(self) -> tuple[str, ...]:
        return self.nvidia

    def container(self) -> str | None:
        return self.inside

    def sees_all_pids(self) -> bool:
        return self.all_pids

    def lingers(self) -> bool | None:
        return self.stays


CARD = DeviceReading(
    id="local/GPU-1", name="gpu0", index=0, total_bytes=24 * GIB, used_bytes=GIB, free_bytes=23 * GIB,
    processes=((JOB, GIB),), extra={"model": "Card", "mig": False, "persistence": True, "compute_mode": "default"},
)  # fmt: skip
BOARD: dict[str, Any] = {"mode": "live", "devices": [{"name": "gpu0", "strangers": []}], "troubles": []}
HEALTH = {"status": "ok", "link": "ok", "version": __version__}
WELL = Around(
    paths=PATHS, environ={}, machine=Made(), checked=Checked(config=Config()), cards=Reading(at_s=1.0, devices=(CARD,)),
    board=BOARD, health=HEALTH, gate_version=__version__,
)  # fmt: skip


def card(**extra: Any) -> Reading:
    return Reading(at_s=1.0, devices=(replace(CARD, extra={**CARD.extra, **extra}),))


def held(*processes: tuple[int, int | None]) -> Reading:
    return Reading(at_s=1.0, devices=(replace(CARD, processes=processes),))


def trouble(words: str | None) -> Reading:
    return Reading(at_s=1.0, devices=(), trouble=words)


def programs_dir(*names: str) -> str:
    """A directory with these programs, which do nothing."""
    made = tempfile.mkdtemp(prefix="doctor-")
    atexit.register(shutil.rmtree, made)
    for name in names:
        (Path(made) / name).touch(0o755)
    return made


def service(upstream: str) -> Checked:
    return Checked(
        config=Config.model_validate({"service": {"chat": {"driver": "process", "upstream": upstream}}})
    )


AWAY: dict[str, Any] = {"board": None, "health": None}
NOBODY = Made(locks={})
OTHERS = Made(locks={PATHS.state_dir / "run" / "daemon.lock": DAEMON})
TRUE = Checked(
    config=Config.model_validate(
        {
            "job": {
                "sim": {"driver": "checkpoint", "start": ["x"], "cuda_checkpoint": ["/bin/true"], "cwd": "/"}
            }
        }
    )
)
NONE = Checked(
    config=Config.model_validate({"job": {"sim": {"driver": "checkpoint", "start": ["x"], "cwd": "/"}}})
)
SUDO = Checked(
    config=Config.model_validate(
        {
            "job": {
                "sim": {"driver": "checkpoint", "start": ["x"], "cuda_checkpoint": ["sudo", "c"], "cwd": "/"}
            }
        }
    )
)
OLLAMA = FoundServer(kind="ollama", url="http://127.0.0.1:11434", models=())
SIM = Checked(config=Config.model_validate({"device": {"sim0": {"meter": "declared", "total": "1GiB"}}}))
FULL = Room(free_bytes=100 << 20, total_bytes=1000 * GIB, files=None)
SMI = {"PATH": programs_dir("nvidia-smi", "sudo")}
# the name says what is so: (check, level, what differs from a machine on which all is well)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a config that cannot be read in time": ("config", "unknown", {"checked": None}),
    "no daemon runs": ("daemon", "warning", {"machine": NOBODY, **AWAY}),
    "a daemon that does not answer": ("daemon", "problem", AWAY),
    "a daemon whose loop stands still": ("daemon", "problem", {"health": {**HEALTH, "status": "stuck"}}),
    "a daemon in trouble": ("daemon", "warning", {"board": {**BOARD, "troubles": [{"code": "x", "sentence": "no"}]}}),
    "no gate beside a daemon": ("gate", "problem", {"machine": Made(locks={PATHS.run_dir / "daemon.lock": DAEMON})}),
    "neither gate nor daemon": ("gate", "ok", {"machine": NOBODY}),
    "a gate that does not answer": ("gate", "problem", {"gate_version": None}),
    "a gate that does not speak with the daemon": ("gate", "problem", {"health": {**HEALTH, "link": "not_connected"}}),
    "a gate of before the upgrade": ("versions", "warning", {"gate_version": "0.0.9"}),
    "a daemon of before the upgrade": ("versions", "warning", {"health": {**HEALTH, "version": "0.0.9"}}),
    "a version that nobody tells is no other version": ("versions", "ok", {**AWAY, "gate_version": None}),
    "a port that another program has": ("ports", "problem", {"machine": Made(listening={8490: (HAND,)})}),
    "a port that another user's program has": ("ports", "problem", {"machine": Made(listening={8491: ()})}),
    "free ports": ("ports", "ok", {"machine": Made(listening={})}),
    "ports of a config that cannot be read": ("ports", "ok", {"checked": Checked(problems=("x",))}),
    "no driver and none needed": ("driver", "ok", {"cards": trouble("missing"), "checked": SIM}),
    "no driver": ("driver", "warning", {"cards": trouble("missing")}),
    "a driver that was upgraded under it": ("driver", "problem", {"cards": trouble("driver and NVIDIA library differ"), "machine": Made(nvidia=("/dev/nvidiactl",))}),
    "nvidia-smi without a driver": ("driver", "problem", {"cards": trouble("the NVIDIA driver is not loaded"), "machine": Made(nvidia=("/usr/bin/nvidia-smi",))}),
    "a GPU that fell off the bus": ("driver", "problem", {"cards": Reading(at_s=1.0, devices=(replace(CARD, trouble="lost"),))}),
    "NVML hangs": ("driver", "unknown", {"cards": None}),
    "a driver without sizes by process": ("processes", "warning", {"cards": held((JOB, None))}),
    "pids of another namespace": ("processes", "warning", {"cards": held((999, GIB)), "machine": Made(dead=(999,))}),
    "a container with pids of its own": ("processes", "warning", {"machine": Made(inside="Docker", all_pids=False)}),
    "somebody else's program": ("strangers", "warning", {"board": {**BOARD, "devices": [{"name": "gpu0", "strangers": [{"pid": HAND, "bytes": GIB}]}]}}),
    "somebody else's program, and no daemon": ("strangers", "warning", {"board": None, "cards": held((HAND, GIB))}),
    "a desktop's little": ("strangers", "ok", {"board": None, "cards": held((HAND, 100 << 20), (JOB, GIB))}),
    "MIG": ("mig", "problem", {"cards": card(mig=True)}),
    "one process at a time": ("compute-mode", "problem", {"cards": card(compute_mode="exclusive_process")}),
    "a driver that says no compute mode": ("compute-mode", "unknown", {"cards": card(compute_mode=None)}),
    "no persistence": ("persistence", "warning", {"cards": card(persistence=False)}),
    "settings of GPUs that do not exist": ("persistence", "ok", {"cards": trouble("missing")}),
    "MPS": ("mps", "warning", {"machine": Made(named=(77,))}),
    "a daemon that is to see one GPU": ("visible-devices", "warning", {"machine": Made(environs={DAEMON: {"CUDA_VISIBLE_DEVICES": "0"}})}),
    "a shell that is to see one GPU": ("visible-devices", "warning", {"machine": NOBODY, "environ": {"CUDA_VISIBLE_DEVICES": ""}}),
    "what the shell says, while the daemon was told nothing": ("visible-devices", "ok", {"environ": {"CUDA_VISIBLE_DEVICES": "0"}}),
    "a container without GPUs": ("visible-devices", "problem", {"machine": Made(inside="Docker", environs={DAEMON: {"NVIDIA_VISIBLE_DEVICES": "void"}})}),
    "a job to be parked by a program that is not there": ("checkpoint", "problem", {"checked": NONE, "environ": SMI, "machine": NOBODY}),
    "one without nvidia-smi": ("checkpoint", "problem", {"checked": TRUE, "environ": {"PATH": "/nowhere"}, "machine": NOBODY}),
    "one in WSL2": ("checkpoint", "problem", {"checked": TRUE, "environ": SMI, "machine": Made(locks={}, nvidia=("/dev/dxg",))}),
    "one whose GPU is split": ("checkpoint", "problem", {"checked": TRUE, "environ": SMI, "machine": NOBODY, "cards": card(mig=True)}),
    "one beside MPS": ("checkpoint", "problem", {"checked": TRUE, "environ": SMI, "machine": Made(locks={}, named=(77,))}),
    "one without persistence": ("checkpoint", "problem", {"checked": TRUE, "environ": SMI, "machine": NOBODY, "cards": card(persistence=False)}),
    "one that is parked without rights": ("checkpoint", "warning", {"checked": TRUE, "environ": SMI, "machine": NOBODY}),
    "one that is parked behind sudo": ("checkpoint", "ok", {"checked": SUDO, "environ": SMI, "machine": NOBODY}),
    "one whose GPUs do not answer": ("checkpoint", "unknown", {"checked": TRUE, "environ": SMI, "machine": NOBODY, "cards": None}),
    "a model server of somebody else": ("other-servers", "warning", {"machine": Made(found=(OLLAMA,), listening={11434: (HAND,)})}),
    "a model server that the config names": ("other-servers", "ok", {"machine": Made(found=(OLLAMA,)), "checked": service(OLLAMA.url or "")}),
    "a model server that Headway started": ("other-servers", "ok", {"machine": Made(found=(OLLAMA,), listening={11434: (JOB,)})}),
    "somebody else's home": ("home", "problem", {"machine": Made(owners={PATHS.state_dir: (0, 0o755)})}),
    "a home that cannot be written": ("home", "problem", {"machine": Made(can_write=False)}),
    "sockets that others can reach": ("home", "warning", {"machine": Made(owners={PATHS.run_dir: (ME, 0o755)})}),
    "a state directory on NFS": ("file-system", "problem", {"machine": Made(kinds={str(PATHS.state_dir): "nfs4"})}),
    "sockets on NFS": ("file-system", "problem", {"machine": Made(kinds={str(PATHS.run_dir): "nfs"})}),
    "sockets in memory": ("file-system", "ok", {"machine": Made(kinds={str(PATHS.run_dir): "tmpfs"})}),
    "a queue in memory": ("file-system", "warning", {"machine": Made(kinds={str(PATHS.state_dir): "tmpfs"})}),
    "a file system that nobody knows": ("file-system", "unknown", {"machine": Made(kinds={str(PATHS.state_dir): None})}),
    "a full disk": ("disk", "problem", {"machine": Made(rooms={str(PATHS.state_dir): FULL})}),
    "a disk that is nearly full": ("disk", "warning", {"machine": Made(rooms={str(PATHS.state_dir): replace(FULL, free_bytes=9 * GIB)})}),
    "a small disk with a twentieth free": ("disk", "ok", {"machine": Made(rooms={str(PATHS.state_dir): Room(free_bytes=2 * GIB, total_bytes=32 * GIB, files=None)})}),
    "no more files": ("disk", "warning", {"machine": Made(rooms={str(PATHS.state_dir): replace(ROOM, files=12)})}),
    "a shell's limit of files": ("open-files", "warning", {"machine": Made(files=1024)}),
    "exactly enough files": ("open-files", "ok", {"machine": Made(files=10_240)}),
    "one file too few": ("open-files", "warning", {"machine": Made(files=10_239)}),
    "a container's shm": ("shm", "warning", {"machine": Made(rooms={"/dev/shm": replace(ROOM, total_bytes=64 << 20)})}),
    "little main memory": ("memory", "warning", {"machine": Made(main=replace(MEMORY, available_bytes=GIB))}),
    "a limit on main memory": ("memory", "warning", {"machine": Made(main=replace(MEMORY, limit_bytes=8 * GIB))}),
    "a daemon that was started elsewhere": ("runtime-dir", "problem", {"machine": OTHERS, **AWAY}),
    "no daemon anywhere": ("runtime-dir", "ok", {"machine": NOBODY, **AWAY}),
    "a logout": ("logout", "warning", {"machine": Made(stays=False)}),
    "a logout without systemd": ("logout", "ok", {"machine": Made(stays=None)}),
    "a unit that ends its jobs": ("restarts", "problem", {"machine": Made(of_unit="headway.service", mode="control-group")}),
    "a unit as it is shipped": ("restarts", "ok", {"machine": Made(of_unit="headway-daemon.service")}),
    "a unit of which systemd says nothing": ("restarts", "unknown", {"machine": Made(of_unit="x.service", mode=None)}),
    "a proxy for everything": ("proxy", "warning", {"environ": {"http_proxy": "http://p:3128", "no_proxy": "localhost"}}),
    "a proxy that spares this machine": ("proxy", "ok", {"environ": {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "localhost, 127.0.0.1"}}),
}  # fmt: skip


@pytest.mark.parametrize(("check", "level", "differs"), CASES.values(), ids=CASES.keys())
def test_a_check_tells(check: str, level: str, differs: dict[str, Any]) -> None:
    found = CHECKS[check](replace(WELL, **differs))
    assert found.level == level, found
    assert found.measured
    if level in ("warning", "problem"):
        assert found.blocks and found.next, "what it blocks, and what to type"


FILES = {"config", "leftovers"}  # look at files themselves: below


def test_a_machine_on_which_all_is_well_has_no_finding() -> None:
    levels = {name: one.level for name, one in examine(WELL).items() if name not in FILES}
    assert set(levels.values()) == {"ok"}, levels


def test_every_check_is_seen_to_find_something() -> None:
    seen = {check for check, level, _ in CASES.values() if level in ("warning", "problem")}
    assert seen | FILES == CHECKS.keys()


def test_the_config_in_one_line(tmp_path: Path) -> None:
    here = replace(WELL, paths=replace(PATHS, config_file=tmp_path / "config.toml"))
    assert CHECKS["config"](here).level == "warning"
    (tmp_path / "config.toml").write_text("")
    assert CHECKS["config"](here).level == "ok"
    wrong = replace(here, checked=Checked(problems=("one", "two")))
    assert (CHECKS["config"](wrong).level, CHECKS["ports"](wrong).level) == ("problem", "unknown")
    assert (
        CHECKS["config"](replace(here, checked=Checked(config=Config(), warnings=("x",)))).level == "warning"
    )


NEXT = {"init": None, "uncomment": "# [device.sim0]\n", "add": "mode = 'live'"}


@pytest.mark.parametrize("word", NEXT)
def test_without_a_driver_the_next_step_fits_the_config(tmp_path: Path, word: str) -> None:
    here = replace(WELL, paths=replace(PATHS, config_file=tmp_path / "c"), cards=trouble("missing"))
    if (text := NEXT[word]) is not None:
        (tmp_path / "c").write_text(text)
    told = CHECKS["driver"](here).next or ""
    assert word in told.split() and str(tmp_path / "c") in told


def test_old_sockets_are_found_and_stay(short_dir: Path) -> None:
    here = replace(WELL, paths=replace(PATHS, run_dir=short_dir), machine=NOBODY)
    assert CHECKS["leftovers"](here).level == "ok"
    (short_dir / "headway.sock").touch()
    assert CHECKS["leftovers"](here).level == "warning"
    living = Made(locks={short_dir / "daemon.lock": DAEMON})
    assert CHECKS["leftovers"](replace(here, machine=living)).level == "ok"
    assert (short_dir / "headway.sock").exists()


def test_a_check_that_hangs_or_breaks_stops_no_other() -> None:
    ended = threading.Event()

    def hangs(_: Around) -> Any:
        ended.wait(60.0)

    def breaks(_: Around) -> Any:
        raise KeyError("x")

    found = examine(WELL, {"hangs": hangs, "breaks": breaks, "well": lambda _: ok("yes")}, limit_s=0.2)
    ended.set()
    assert {name: one.level for name, one in found.items()} == {
        "hangs": "unknown",
        "breaks": "unknown",
        "well": "ok",
    }


def test_an_answer_that_is_an_error_is_an_answer() -> None:
    assert isinstance(within(5.0, {"a": lambda: 1 / 0})["a"], ZeroDivisionError)


# ---------------------------------------------------------------- this machine


def test_settings_of_gpus_are_read_by_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [FakeGpu("GPU-1"), FakeGpu("GPU-2", persistence=False, compute_mode=3, mig=True)]
    for name, value in Box(tmp_path, *gpus).environment().items():
        monkeypatch.setenv(name, value)
    keys = ("mig", "persistence", "compute_mode")
    told = [tuple(one.extra[key] for key in keys) for one in read_once(traits=True).devices]
    assert told == [(False, True, "default"), (True, False, "exclusive_process")]
    assert not {*keys} & read_once().devices[0].extra.keys(), "the meter does not ask each second"


def test_nvml_that_hangs_is_left_behind() -> None:
    assert read_once((ARGV[0], "-c", "import time; time.sleep(60)"), limit_s=0.3).trouble


def test_a_file_system_is_the_one_of_the_nearest_directory_there_is(tmp_path: Path) -> None:
    machine = Surroundings()
    assert machine.file_system(Path("/proc/self")) == "proc"
    assert machine.file_system(tmp_path / "not" / "yet") == machine.file_system(tmp_path)
    assert not (tmp_path / "not").exists()


async def test_it_runs_without_anything_and_says_so(home: Path, tmp_path: Path) -> None:
    before = sorted(home.rglob("*"))
    result = await headway(home, "doctor", "--json", env=Box(tmp_path).environment())
    document = json.loads(result.stdout)
    assert [one["check"] for one in document["checks"]] == list(CHECKS)
    assert (result.exit_code == 0) is document["ok"]
    assert not [one for one in document["checks"] if "itself failed" in one["measured"]]
    assert sorted(home.rglob("*")) == before, "nothing was changed"


async def test_a_problem_is_exit_1_and_what_is_typed_next_names_the_home(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("mode = 3\n")
    result = await headway(home, "doctor", env=Box(tmp_path).environment())
    assert result.exit_code == 1
    assert f"headway --home {home} check" in result.stdout
