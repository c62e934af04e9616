"""NVIDIA GPUs, read through NVML in a process of their own: `python -m headway.meters.nvml`.

One session is kept: without persistence mode every new one can cost seconds. `used` is total - free, so the driver's
own share counts as used whichever call answered.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from platform import node as node_name
from typing import Any

import pynvml

from headway.core.model import Confidence
from headway.meters.lines import Broken, boottime_s, serve
from headway.ports import DeviceReading, Reading

_WORDS = {
    pynvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver was reloaded",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "it gives no memory figures",
    pynvml.NVML_ERROR_NO_PERMISSION: "reading it needs more rights, as for a GPU that is split into MIG devices",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "the NVIDIA library libnvidia-ml.so.1 is missing",
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU is lost until the machine is restarted",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset",
    pynvml.NVML_ERROR_OPERATING_SYSTEM: "the operating system blocks access to it",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver and NVIDIA library differ; restart the machine",
    pynvml.NVML_ERROR_UNKNOWN: "NVML gives an unknown error",
}
# The session itself may be what is broken: a new process opens another one, with a newer library if there is one.
_SESSION = {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_UNKNOWN,
}
# What one list of processes may answer without the device being in trouble.
_NO_LIST = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE,  # more processes started than there was room for
}

_COMPUTE = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive_thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
}

Processes = tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True)
class _Gpu:
    index: int
    handle: Any
    uuid: str
    model: str | None


@dataclass(frozen=True, slots=True)
class _Failed:
    """A device that could not be read. `code` is NVML's."""

    code: int

    @property
    def words(self) -> str:
        return _WORDS.get(self.code, f"NVML error {self.code}")


class Session:
    """One NVML session and the GPUs it showed when it began.

    Args:
        node: first part of every device id.
        traits: each reading tells the GPUs' settings too.

    Raises:
        Broken: there is no driver, no library, or no right to use them.
    """

    def __init__(self, node: str, traits: bool = False) -> None:
        self._node, self._traits = node, traits
        at_s = boottime_s()
        try:
            pynvml.nvmlInit()
            self._gpus = [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError as error:
            raise Broken(Reading(at_s=at_s, devices=(), trouble=_Failed(error.value).words)) from None

    def read(self) -> Reading:
        """Every GPU; one in trouble does not touch the others.

        Raises:
            Broken: no GPU can be read, and it looks like the session's fault.
        """
        at_s = boottime_s()
        devices: list[DeviceReading] = []
        broken: list[_Failed] = []
        for gpu in self._gpus:
            try:
                devices.append(self._told(gpu, _read(self._node, gpu)))
            except pynvml.NVMLError as error:
                failed = _Failed(error.value)
                if failed.code in _SESSION:
                    broken.append(failed)
                devices.append(self._told(gpu, _unread(self._node, gpu, failed.words)))
        reading = Reading(at_s=at_s, devices=tuple(devices))
        if broken and len(broken) == len(self._gpus):
            raise Broken(reading)
        return reading

    def _told(self, gpu: _Gpu, reading: DeviceReading) -> DeviceReading:
        return replace(reading, extra={**reading.extra, **dict(_traits(gpu))}) if self._traits else reading


def _gpu(index: int) -> _Gpu:
    """Raises NVMLError for the whole session: a GPU without a UUID cannot be told from another one."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return _Gpu(
        index, handle, pynvml.nvmlDeviceGetUUID(handle), _maybe(lambda: pynvml.nvmlDeviceGetName(handle))
    )


def _unread(node: str, gpu: _Gpu, trouble: str) -> DeviceReading:
    return DeviceReading(
        id=f"{node}/{gpu.uuid}",
        name=f"gpu{gpu.index}",
        index=gpu.index,
        total_bytes=None,
        used_bytes=None,
        free_bytes=None,
        processes=None,
        trouble=trouble,
        extra={} if gpu.model is None else {"model": gpu.model},
    )


def _read(node: str, gpu: _Gpu) -> DeviceReading:
    memory = _memory(gpu.handle)
    processes = _processes(gpu.handle)
    whole = processes is not None and all(held_bytes is not None for _, held_bytes in processes)
    confidence: Confidence = "measured" if whole else "inferred"
    return DeviceReading(
        id=f"{node}/{gpu.uuid}",
        name=f"gpu{gpu.index}",
        index=gpu.index,
        total_bytes=memory.total,
        used_bytes=memory.total - memory.free,
        free_bytes=memory.free,
        processes=processes,
        confidence=confidence,
        extra=dict(_extra(gpu)),
    )


def _memory(handle: Any) -> Any:
    """total and free: by the second form of the call, which older drivers lack."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _processes(handle: Any) -> Processes | None:
    """Bytes by pid, None for those not available; None: the driver does not say who uses the GPU.

    A pid that computes and draws is in two lists with the same bytes, so the larger number counts, not the sum.
    """
    compute = _listed("Compute", handle)
    if compute is None:
        return None
    held: dict[int, int | None] = {}
    for process in (*compute, *(_listed("Graphics", handle) or ()), *(_listed("MPSCompute", handle) or ())):
        seen = (held.get(process.pid), process.usedGpuMemory)
        held[process.pid] = max((b for b in seen if b is not None), default=None)
    return tuple(sorted(held.items()))


def _listed(kind: str, handle: Any) -> list[Any] | None:
    try:
        try:
            found: list[Any] = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle)
        except pynvml.NVMLLibraryMismatchError:  # an older driver; pynvml's own name stands for version 3
            found = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v2")(handle)
    except pynvml.NVMLError as error:
        if error.value in _NO_LIST:
            return None
        raise
    return found


def _extra(gpu: _Gpu) -> Iterator[tuple[str, Any]]:
    """What is nice to show and may be missing."""
    yield "model", gpu.model
    if (load := _maybe(lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu.handle))) is not None:
        yield "util_percent", load.gpu
    sensor = pynvml.NVML_TEMPERATURE_GPU
    if (temp_c := _maybe(lambda: pynvml.nvmlDeviceGetTemperature(gpu.handle, sensor))) is not None:
        yield "temp_c", temp_c
    if (power_mw := _maybe(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu.handle))) is not None:
        yield "power_w", power_mw / 1000


def _traits(gpu: _Gpu) -> Iterator[tuple[str, Any]]:
    """Settings that people make with nvidia-smi; None: this GPU or driver does not tell."""
    mode = _maybe(lambda: pynvml.nvmlDeviceGetMigMode(gpu.handle))
    yield "mig", False if mode is None else bool(mode[0])  # most cards do not know the word
    persistence = _maybe(lambda: pynvml.nvmlDeviceGetPersistenceMode(gpu.handle))
    yield "persistence", None if persistence is None else bool(persistence)
    yield "compute_mode", _COMPUTE.get(_maybe(lambda: pynvml.nvmlDeviceGetComputeMode(gpu.handle)))


def _maybe(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="headway.meters.nvml", description=__doc__)
    parser.add_argument("--node", default=node_name(), help="first part of every device id")
    parser.add_argument("--once", action="store_true", help="print one reading and end")
    parser.add_argument("--traits", action="store_true", help="with each GPU's settings")
    args = parser.parse_args()
    session: Session | None = None

    def read() -> Reading:
        nonlocal session
        if session is None:
            session = Session(args.node, args.traits)
        return session.read()

    return serve(read, args.once)


if __name__ == "__main__":
    sys.exit(main())
