"""Devices that nothing can read: only their size is known, from the config."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.meters.lines import PERIOD_S, boottime_s
from headway.ports import DeviceReading, Meter, Reading


@dataclass(frozen=True, slots=True)
class DeclaredDevice:
    """A device by name and size."""

    name: str
    total_bytes: int


class DeclaredMeter(Meter):
    """Says every second how large the devices are, and never what is used or free."""

    def __init__(self, devices: Sequence[DeclaredDevice], node: str) -> None:
        self._devices = tuple(_reading(device, index, node) for index, device in enumerate(devices))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = threading.Event()
        self._on_reading: Callable[[Reading], None] | None = None

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        """Readings come from now on, in this event loop, until `stop`."""
        self._loop, self._on_reading = asyncio.get_running_loop(), on_reading
        threading.Thread(target=self._every_second, name="headway-declared", daemon=True).start()

    def read_now(self) -> None:
        """The same reading again, in the loop's next round."""
        if self._loop is not None and not self._stopped.is_set():
            self._loop.call_soon_threadsafe(self._deliver)

    async def stop(self) -> None:
        """No reading is delivered after this."""
        self._stopped.set()

    def _every_second(self) -> None:
        try:
            self.read_now()
            while not self._stopped.wait(PERIOD_S):
                self.read_now()
        except RuntimeError:
            pass  # the loop is closed: nobody is left to hear it

    def _deliver(self) -> None:
        if self._on_reading is not None and not self._stopped.is_set():
            self._on_reading(Reading(at_s=boottime_s(), devices=self._devices))


def _reading(device: DeclaredDevice, index: int, node: str) -> DeviceReading:
    return DeviceReading(
        id=f"{node}/{device.name}",
        name=device.name,
        index=index,
        total_bytes=device.total_bytes,
        used_bytes=None,
        free_bytes=None,
        processes=None,
        confidence="declared",
    )
