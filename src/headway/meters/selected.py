"""Only the devices that the config names, under the names people gave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headway.ports import DeviceReading, Meter, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A card by UUID or by index; both None: by its own name."""

    name: str
    uuid: str | None = None
    index: int | None = None

    def is_card(self, device: DeviceReading) -> bool:
        """Is this the card that is meant?"""
        if self.uuid is not None:
            return device.id.rpartition("/")[2] == self.uuid
        return device.index == self.index if self.index is not None else device.name == self.name


class SelectedMeter:
    """Implements ports.Meter over another one. A card that is named and not shown is reported as missing."""

    def __init__(self, meter: Meter, chosen: Sequence[Chosen]) -> None:
        self._meter, self._chosen = meter, tuple(chosen)

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        """Readings come from now on, in this event loop, until `stop`."""
        await self._meter.start(lambda reading: on_reading(self._select(reading)))

    def read_now(self) -> None:
        """Ask for a reading at once."""
        self._meter.read_now()

    async def stop(self) -> None:
        """No reading is delivered after this."""
        await self._meter.stop()

    def _select(self, reading: Reading) -> Reading:
        if reading.trouble is not None:
            return reading
        kept = [
            replace(device, name=one.name)
            for one in self._chosen
            for device in reading.devices
            if one.is_card(device)
        ]
        missing = {one.name for one in self._chosen} - {device.name for device in kept}
        if missing and not kept:
            return replace(reading, devices=(), trouble=f"no such device: {', '.join(sorted(missing))}")
        return replace(reading, devices=tuple(kept))
