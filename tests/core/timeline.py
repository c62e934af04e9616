"""Virtual time and what every part of the false world shares: the inbox, the devices, the meter."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable

from headway.core.facts import Fact, MeterSilent
from headway.core.model import Policy, Snapshot
from tests.core.make import T0_S, dev, reading

LINK_S = 0.002
METER_S = 0.03


class Timeline(ABC):
    """A heap of (when, what), a clock, and devices whose bytes are asked for when they are read."""

    def __init__(self, devices: dict[str, int], policy: Policy | None = None) -> None:
        self.now_s = T0_S
        self.totals = {dev(name): total for name, total in devices.items()}
        self.names = {dev(name): name for name in devices}
        self.foreign = dict.fromkeys(self.totals, 0)
        self.meter_speaks = True
        self.s = Snapshot(now_s=T0_S, booted_s=T0_S, policy=policy or Policy())
        self.inbox: list[Fact] = []
        self.wrong: list[str] = []  # what must never be
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._reading_due = False

    def later(self, after_s: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now_s + after_s, self._number, what))

    def told(self, fact: Fact, after_s: float = 0.0) -> None:
        """A fact that reaches the inbox after a while."""
        if after_s:
            self.later(after_s, lambda: self.inbox.append(fact))
        else:
            self.inbox.append(fact)

    @abstractmethod
    def seen(self, device: str) -> dict[str, int]:
        """Bytes on a device by holder, as they are."""

    # ------------------------------------------------------------ meter

    def _meter_tick(self) -> None:
        self._read_devices()
        self.later(1.0, self._meter_tick)

    def _measure(self) -> None:
        if not self._reading_due:
            self._reading_due = True
            self.later(METER_S, self._read_now)

    def _read_now(self) -> None:
        self._reading_due = False
        self._read_devices()

    def _read_devices(self) -> None:
        if not self.meter_speaks:
            return
        for device, total in self.totals.items():
            gib = total / (1 << 30)
            fact = reading(self.names[device], gib, self.now_s, self.seen(device), self.foreign[device])
            self.told(fact, METER_S / 2)

    def silence_meter(self) -> None:
        self.meter_speaks = False
        self.told(MeterSilent(trouble="hangs"))
