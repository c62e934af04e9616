"""Several meters as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from headway.ports import DeviceReading, Meter, Reading


class CombinedMeter(Meter):
    """Passes on the readings of several meters; each holds the devices of one of them.

    A meter that fails while another speaks makes its own devices unknown, not everything: a trouble of the whole
    reading is passed on only while no meter speaks.
    """

    def __init__(self, meters: Sequence[Meter]) -> None:
        self._meters = tuple(meters)
        self._devices: dict[int, tuple[DeviceReading, ...]] = {}  # by meter, as last shown
        self._speaks: set[int] = set()

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        """Start all; readings come from now on, in this event loop, until `stop`."""
        for number, meter in enumerate(self._meters):
            await meter.start(partial(self._take, on_reading, number))

    def read_now(self) -> None:
        """Ask each of them."""
        for meter in self._meters:
            meter.read_now()

    async def stop(self) -> None:
        """Stop all."""
        await asyncio.gather(*(meter.stop() for meter in self._meters))

    def _take(self, on_reading: Callable[[Reading], None], number: int, reading: Reading) -> None:
        if reading.trouble is None:
            self._devices[number] = reading.devices
            self._speaks.add(number)
            on_reading(reading)
            return
        self._speaks.discard(number)
        if not self._speaks:
            on_reading(reading)
        elif known := self._devices.get(number):
            unread = tuple(_unread(device, reading.trouble) for device in known)
            on_reading(Reading(at_s=reading.at_s, devices=unread))


def _unread(device: DeviceReading, trouble: str) -> DeviceReading:
    return replace(device, used_bytes=None, free_bytes=None, processes=None, trouble=trouble, extra={})
