"""The meter of the false machine: late, silent, wrong or honest, as the faults have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.ports import DeviceReading, Reading
from headway.sim.loop import Life

if TYPE_CHECKING:
    from headway.sim.world import World

PERIOD_S = 1.0
SILENT_S = 3.0
FIRST_S = 9.0
LATE_S = 10.0


class SimMeter:
    """Implements ports.Meter for one daemon's life. A reading begins when it is asked for, and takes a moment."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self._on_reading: Callable[[Reading], None] | None = None
        self._under_way = self._again = False
        self._frozen: Reading | None = None
        self._told_s = self._first_s = 0.0

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        self._on_reading = on_reading
        self._told_s = self._first_s = self._world.loop.now_s
        if self._world.chance.random() < 0.3:  # the first call into a vendor's library can take seconds
            self._first_s += self._world.chance.uniform(0.5, FIRST_S)
        self._tick()

    def _tick(self) -> None:
        if self._on_reading is None:
            return
        self.read_now()
        now_s = self._world.loop.now_s
        if self._world.meter_mode == "silent" and now_s - self._told_s >= SILENT_S:
            self._on_reading(Reading(at_s=now_s, devices=(), trouble="it says nothing"))
        self._world.loop.later(PERIOD_S * self._world.pace, self._tick, life=self._life)

    def read_now(self) -> None:
        if self._under_way:
            self._again = True
            return
        self._under_way = True
        at_s = self._world.loop.now_s
        takes_s = LATE_S if self._world.meter_mode == "late" else 0.01
        self._world.loop.later(takes_s, self._deliver, at_s, life=self._life)

    def _deliver(self, at_s: float) -> None:
        self._under_way = False
        if self._on_reading is None or self._world.loop.now_s < self._first_s:
            return
        if self._world.meter_mode != "silent":
            self._told_s = self._world.loop.now_s
            self._on_reading(self._reading(at_s))
        if self._again:
            self._again = False
            self.read_now()

    def _reading(self, at_s: float) -> Reading:
        mode = self._world.meter_mode
        if mode != "frozen":
            self._frozen = None
        elif self._frozen is not None:
            return Reading(at_s=at_s, devices=self._frozen.devices)
        devices = tuple(self._device(device, mode == "na") for device in self._world.machine.cards)
        reading = Reading(at_s=at_s, devices=devices)
        if mode == "frozen":
            self._frozen = reading
        return reading

    def _device(self, device: str, unread: bool) -> DeviceReading:
        machine, kind = self._world.machine, self._world.metering
        card = machine.cards[device]
        if kind == "declared":
            return DeviceReading(
                id=card.id,
                name=card.name,
                index=card.index,
                total_bytes=card.total_bytes,
                used_bytes=None,
                free_bytes=None,
                processes=None,
                confidence="declared",
            )
        used = machine.used_bytes(device)
        held = ((p.pid, p.bytes_[device]) for p in machine.processes.values() if p.bytes_.get(device))
        return DeviceReading(
            id=card.id,
            name=card.name,
            index=card.index,
            total_bytes=card.total_bytes,
            used_bytes=None if unread else used,
            free_bytes=None if unread else card.total_bytes - used,
            processes=None if kind == "inferred" or unread else tuple(held),
            confidence="inferred" if kind == "inferred" else "measured",
            trouble="it answers N/A" if unread else None,
        )

    async def stop(self) -> None:
        self._on_reading = None
