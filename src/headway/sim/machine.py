"""The false machine: devices, the processes on them, who listens where. Physics only: it knows nothing of Headway."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headway.core.model import GIB, DeviceId, DiskRoom, HostRoom

PLENTY = HostRoom(
    memory_free_bytes=200 * GIB,
    memory_total_bytes=256 * GIB,
    disk_free_bytes=900 * GIB,
    disk_total_bytes=1000 * GIB,
)


WORK_DISK = DiskRoom(free_bytes=25 * GIB, total_bytes=200 * GIB)  # where jobs park to
SEEN_S = 3.0  # what others take is known after so long


@dataclass(eq=False, slots=True)
class Process:
    """One process tree. `bytes_` is what it holds on each device."""

    pid: int
    run_id: str | None = None  # None: a stranger's
    bytes_: dict[DeviceId, int] = field(default_factory=dict)
    host_bytes: int = 0
    disk_bytes: int = 0
    alive: bool = True
    guessed: bool = False  # nobody said what it needs


@dataclass(eq=False, slots=True)
class Card:
    """One device."""

    id: DeviceId
    name: str
    index: int
    total_bytes: int
    lingering_bytes: int = 0  # of processes that ended, not given back yet
    grown_s: float = float(
        "-inf"
    )  # when something that is not ours, or that nobody could see, last grew on it


class Machine:
    """Args:
    now_s: the virtual clock.
    wrong: takes a sentence about something that must never be.
    """

    def __init__(self, now_s: Callable[[], float], wrong: Callable[[str], None]) -> None:
        self._now_s, self._wrong = now_s, wrong
        self.cards: dict[DeviceId, Card] = {}
        self.processes: dict[int, Process] = {}
        self.ports: dict[int, Process] = {}
        self.blind = False  # nobody can read these devices: sizes are all there is to go by
        self.unread = False  # for now: a model comes back all the same
        self.unseen_s = (math.inf, -math.inf)  # from when to when nothing true was shown, the last time
        self._others, self._squeezed_s = (
            PLENTY,
            -math.inf,
        )  # what programs that are nobody's leave, and since when
        self._pid = 1000

    def add_card(self, name: str, total_bytes: int) -> Card:
        index = len(self.cards)
        card = Card(f"local/{name}", name, index, total_bytes)
        self.cards[card.id] = card
        return card

    def process(self, run_id: str | None = None) -> Process:
        """A new one; pids are never used twice."""
        self._pid += 1
        found = Process(self._pid, run_id)
        self.processes[found.pid] = found
        return found

    # ---------------------------------------------------------------- beside the devices

    @property
    def room(self) -> HostRoom:
        """Main memory, and the disk that Headway writes to."""
        free = (self._others.memory_free_bytes or 0) - sum(p.host_bytes for p in self.processes.values())
        return replace(self._others, memory_free_bytes=free)

    def squeeze(self, room: HostRoom) -> None:
        """That is what others leave of it from now on."""
        self._others, self._squeezed_s = room, self._now_s()

    async def work_disk(self, directory: str) -> DiskRoom:
        """The disk that jobs park to."""
        taken = sum(p.disk_bytes for p in self.processes.values())
        return replace(WORK_DISK, free_bytes=WORK_DISK.free_bytes - taken)

    def beside(self, process: Process, host_bytes: int, disk_bytes: int, asked_s: float) -> None:
        """It has that much of either from now on.

        Args:
            asked_s: when the move began that this is part of; what others took since then excuses a shortage.
        """
        more = host_bytes > process.host_bytes, disk_bytes > process.disk_bytes
        process.host_bytes, process.disk_bytes = host_bytes, disk_bytes
        if more[0] and (self.room.memory_free_bytes or 0) < 0 and self._squeezed_s < asked_s - SEEN_S:
            self._wrong(f"{process.run_id} takes {host_bytes >> 20} MiB of main memory that there is not")
        if more[1] and sum(p.disk_bytes for p in self.processes.values()) > WORK_DISK.free_bytes:
            self._wrong(f"{process.run_id} writes {disk_bytes >> 20} MiB to a disk that is full")

    # ---------------------------------------------------------------- devices

    def hide(self, unread: bool) -> None:
        """Nothing true is shown from now on; `unread`: nothing at all."""
        self.unread, self.unseen_s = unread, (self._now_s(), math.inf)

    def show(self) -> None:
        """What is shown is true again."""
        self.unread, self.unseen_s = False, (self.unseen_s[0], self._now_s())

    def used_bytes(self, device: DeviceId) -> int:
        held = sum(p.bytes_.get(device, 0) for p in self.processes.values())
        return held + self.cards[device].lingering_bytes

    def take(self, process: Process, devices: tuple[DeviceId, ...], bytes_: int, asked_s: float) -> bool:
        """Hold that much on each of the devices. False: out of memory, and nothing changed.

        Args:
            asked_s: when the move began that this is part of. Growth of others since then, or since nobody could
                see it, excuses a shortage.
        """
        since_s, until_s = self.unseen_s
        seen_s = min(asked_s, since_s) if asked_s <= until_s else asked_s
        for device in devices:
            more = bytes_ - process.bytes_.get(device, 0)
            short = self.used_bytes(device) + more - self.cards[device].total_bytes
            if more > 0 and short > 0:
                unseen = (
                    self.blind or process.run_id is None or (process.guessed and self._alone(process, device))
                )
                if not unseen and self.cards[device].grown_s < seen_s - 1.5:
                    self._wrong(
                        f"overcommit: {process.run_id} needs {more >> 20} MiB more on {device}, "
                        f"{short >> 20} MiB too much"
                    )
                return False
        for device in devices:
            process.bytes_[device] = bytes_
            if process.run_id is None:  # a stranger's, or one that somebody started by hand
                self.cards[device].grown_s = self._now_s()
        return True

    def _alone(self, process: Process, device: DeviceId) -> bool:
        """Does nobody else hold more there than what sleepers and strangers leave?"""
        small = self.cards[device].total_bytes // 10
        others = [p for p in self.processes.values() if p is not process and p.run_id is not None]
        return all(p.bytes_.get(device, 0) <= small for p in others)

    def give_back(self, process: Process, left_bytes: int = 0) -> None:
        """Hold at most that much on each device."""
        process.bytes_ = {d: min(b, left_bytes) for d, b in process.bytes_.items() if min(b, left_bytes)}

    def ends(self, process: Process, lingers: bool) -> dict[DeviceId, int]:
        """It is gone. Returns what stays behind on each device for a while (`lingers`), to be taken off by `fell`."""
        process.alive = False
        del self.processes[process.pid]
        self.ports = {port: p for port, p in self.ports.items() if p is not process}
        left = dict(process.bytes_) if lingers else {}
        for device, bytes_ in left.items():
            self.cards[device].lingering_bytes += bytes_
            if self.unread:
                self.cards[device].grown_s = self._now_s()
        process.bytes_ = {}
        return left

    def fell(self, left: dict[DeviceId, int]) -> None:
        for device, bytes_ in left.items():
            self.cards[device].lingering_bytes -= bytes_
