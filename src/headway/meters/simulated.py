"""Devices that exist on paper: programs write what they hold, and this only reads it.

`python -m headway.meters.simulated --device sim0=25769803776=/some/directory`. Every file of the directory whose name
does not begin with a dot is a report, one JSON line: `{"device": "sim0", "pid": 1, "bytes": 123, "start_ticks": 456}`.
Reports of processes that are dead, zombies, or not those that wrote them (`start_ticks` is field 22 of
`/proc/PID/stat`) count for nothing: their memory is free again, as on a real device.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import node as node_name

from headway.core.codec import from_doc
from headway.meters.lines import boottime_s, serve
from headway.ports import DeviceReading, Reading

AGAIN_S = 0.005  # a report that is being written is whole a moment later


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one process says it holds on one device."""

    device: str
    pid: int
    bytes: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device by name, its size, and the directory of its reports."""

    name: str
    total_bytes: int
    reports: Path


def parse_device(text: str) -> SimulatedDevice:
    """The device written as NAME=TOTAL_BYTES=DIRECTORY.

    Raises:
        ValueError: it is written in another way.
    """
    name, total, reports = text.split("=", 2)
    if not name:
        raise ValueError("a device needs a name")
    return SimulatedDevice(name, int(total), Path(reports))


def read_devices(devices: Sequence[SimulatedDevice], node: str) -> Reading:
    """All devices, in the order given. One whose reports cannot be read is unknown, not empty."""
    at_s = boottime_s()
    return Reading(at_s=at_s, devices=tuple(_read(device, n, node) for n, device in enumerate(devices)))


def _read(device: SimulatedDevice, index: int, node: str) -> DeviceReading:
    held: dict[int, int] = {}
    trouble = None
    try:
        for report in _living(device.reports):
            if report.device == device.name:
                held[report.pid] = held.get(report.pid, 0) + report.bytes
    except OSError as error:
        trouble = f"its reports cannot be read: {error.strerror}: {error.filename}"
    except ValueError as error:
        trouble = f"its reports cannot be read: {error}"
    used = None if trouble else sum(held.values())
    return DeviceReading(
        id=f"{node}/{device.name}",
        name=device.name,
        index=index,
        total_bytes=device.total_bytes,
        used_bytes=used,
        free_bytes=None if used is None else device.total_bytes - used,
        processes=None if trouble else tuple(sorted(held.items())),
        trouble=trouble,
    )


def _living(reports: Path) -> list[Report]:
    found = [_report(path) for path in sorted(reports.iterdir()) if not path.name.startswith(".")]
    return [
        report for report in found if report is not None and start_ticks(report.pid) == report.start_ticks
    ]


def _report(path: Path) -> Report | None:
    """None: taken back since the directory was listed. A cut report is read once more before it is an error."""
    try:
        try:
            return _parse(path)
        except ValueError:
            time.sleep(AGAIN_S)
            return _parse(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _parse(path: Path) -> Report:
    return from_doc(Report, json.loads(path.read_bytes()))


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks after boot. None: it is dead or a zombie, which holds nothing."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before the bracket may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def main() -> int:
    parser = argparse.ArgumentParser(prog="headway.meters.simulated", description=__doc__)
    parser.add_argument(
        "--device", action="append", type=parse_device, required=True, metavar="NAME=BYTES=DIR"
    )
    parser.add_argument("--node", default=node_name(), help="first part of every device id")
    parser.add_argument("--once", action="store_true", help="print one reading and end")
    args = parser.parse_args()
    return serve(lambda: read_devices(args.device, args.node), args.once)


if __name__ == "__main__":
    sys.exit(main())
