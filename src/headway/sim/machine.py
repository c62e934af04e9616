"""The false machine: devices, the processes on them, who listens where. Physics only: it knows nothing of Headway."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.core.model import GIB, DeviceId, HostRoom

PLENTY = HostRoom(
    memory_free_bytes=100 * GIB,
    memory_total_bytes=128 * GIB,
    disk_free_bytes=900 * GIB,
    disk_total_bytes=1000 * GIB,
)


@dataclass(eq=False, slots=True)
class Process:
    """One process tree. `bytes_` is what it holds on each device."""

    pid: int
    run_id: str | None = None  # None: a stranger's
    bytes_: dict[DeviceId, int] = field(default_factory=dict)
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
        self.room = PLENTY
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
