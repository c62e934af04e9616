"""Every driver by its name. A new one is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import aiohttp

from headway.core.model import MoveRule
from headway.drivers import llamacpp, vllm
from headway.drivers.checkpoint import CheckpointDriver
from headway.drivers.command import CommandDriver
from headway.drivers.lease import LeaseDriver
from headway.drivers.llamacpp import LlamaCppDriver
from headway.drivers.process import ProcessDriver
from headway.drivers.restart import RestartDriver
from headway.drivers.vllm import VllmDriver
from headway.ports import Clock, Driver, Runs


class DriverClass(Protocol):
    """What every driver's class offers: its table, and the same three parts to be made from."""

    name: str
    moves: tuple[MoveRule, ...]

    def __call__(self, runs: Runs, http: aiohttp.ClientSession, clock: Clock) -> Driver: ...


_CLASSES: tuple[DriverClass, ...] = (
    ProcessDriver,
    LlamaCppDriver,
    VllmDriver,
    RestartDriver,
    CommandDriver,
    CheckpointDriver,
    LeaseDriver,
)
DRIVERS: Mapping[str, DriverClass] = {one.name: one for one in _CLASSES}
ASLEEP_PROBES: Mapping[str, tuple[str, ...]] = {
    LlamaCppDriver.name: llamacpp.ASLEEP_PROBES,
    VllmDriver.name: vllm.ASLEEP_PROBES,
}
