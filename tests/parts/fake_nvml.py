"""A box of fake GPUs: builds the false NVML library and writes the state it reads.

A process that runs with `Box.environment()` and imports the real pynvml sees the box's GPUs. The library's own comment
tells the file formats.
"""

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from demo.sim_device import start_ticks

SOURCE = Path(__file__).with_name("fake_nvml.c")
CACHE = Path(__file__).parents[2] / ".cache" / "fake_nvml"
LIBRARY = "libnvidia-ml.so.1"

DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 9, 13, 15, 999
"""Error codes for `Box.faults`. FUNCTION_NOT_FOUND is what an old driver answers for a new function."""

Kind = Literal["C", "G", "M"]


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """One GPU's facts. `reserved_bytes` is the driver's own share, which no process can have."""

    uuid: str
    total_bytes: int = 24 << 30
    reserved_bytes: int = 350 << 20
    name: str = "NVIDIA Fake GPU"
    util_percent: int = 0
    temp_c: int = 40
    power_mw: int = 25_000
    mig: bool = False
    persistence: bool = True
    compute_mode: int = 0


def build() -> Path:
    """The directory that holds the built library, for LD_LIBRARY_PATH; built once for each state of the source.

    Raises:
        subprocess.CalledProcessError: gcc refused the source.
    """
    home = CACHE / hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    if not (home / LIBRARY).exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:  # two test workers may build at once
            built = Path(scratch) / LIBRARY
            flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}"]
            subprocess.run(["gcc", *flags, "-o", str(built), str(SOURCE)], check=True)
            built.rename(home / LIBRARY)
    return home


class Box:
    """The state of one set of fake GPUs, in one directory."""

    def __init__(self, directory: Path, *gpus: FakeGpu) -> None:
        self.directory = directory
        (directory / "procs").mkdir(parents=True, exist_ok=True)
        self.gpus(*gpus)

    def environment(self) -> dict[str, str]:
        """This process's environment with the box in it."""
        return {**os.environ, "FAKE_NVML_DIR": str(self.directory), "LD_LIBRARY_PATH": str(build())}

    def gpus(self, *gpus: FakeGpu) -> None:
        """From now on the box holds these GPUs, in this order."""
        lines = (
            f"{g.uuid} {g.total_bytes} {g.reserved_bytes} {g.util_percent} {g.temp_c} {g.power_mw} {int(g.mig)} "
            f"{int(g.persistence)} {g.compute_mode} {g.name}\n"
            for g in gpus
        )
        self._write("gpus", "".join(lines))

    def hold(self, gpu: int, held_bytes: int | None, pid: int | None = None, kind: Kind = "C") -> None:
        """Let `pid` (this process by default) hold `held_bytes` on GPU number `gpu`; None is "not available".

        Raises:
            ProcessLookupError: `pid` is dead or a zombie.
        """
        pid = os.getpid() if pid is None else pid
        ticks = start_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"process {pid} does not live, it can hold nothing")
        raw_bytes = (1 << 64) - 1 if held_bytes is None else held_bytes
        self._write(f"procs/{pid}.{gpu}.{kind}", f"{gpu} {pid} {raw_bytes} {kind} {ticks}\n")

    def release(self, gpu: int, pid: int | None = None, kind: Kind = "C") -> None:
        """Let `pid` hold nothing on GPU number `gpu`."""
        (self.directory / f"procs/{os.getpid() if pid is None else pid}.{gpu}.{kind}").unlink(missing_ok=True)

    def faults(self, codes: dict[str, int] | None = None, delays_ms: dict[str, int] | None = None) -> None:
        """From now on these functions answer with these error codes, or late; no argument heals everything.

        A name is a function of the library (`nvmlInitWithFlags`, `nvmlDeviceGetMemoryInfo_v2`), or `*` for all.
        """
        codes, delays_ms = codes or {}, delays_ms or {}
        names = sorted(codes.keys() | delays_ms.keys())
        self._write("faults", "".join(f"{n} {codes.get(n, 0)} {delays_ms.get(n, 0)}\n" for n in names))

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        half_written = path.with_name(f".{path.name}.{os.getpid()}")
        half_written.write_text(text)
        half_written.rename(path)
