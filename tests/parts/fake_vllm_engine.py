"""The inside of the fake vLLM server: what its process holds, and what its sleep and wake do with that."""

import argparse
import asyncio
import subprocess
import sys
from contextlib import suppress

from demo.sim_device import FakeOutOfMemory, allocate, clear, living, set_bytes

BOTH = frozenset({"weights", "kv_cache"})
PAUSED = -1  # what the gauge shows of level 0: no state at all


class Failed(Exception):
    """The engine raised: a 500."""


class Card:
    """What the engine's process holds on each device, as the simulated device sees it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.child = subprocess.Popen(["sleep", "infinity"]) if options.reports else None

    def others(self) -> int:
        """Bytes that everybody else holds on its devices."""
        if self.child is None:
            return 0
        reports = living(self.options.reports)
        return sum(
            one.bytes for one in reports if one.pid != self.child.pid and one.device in self.options.device
        )

    def hold(self, bytes_: int) -> None:
        """From now on so much on each device. Raises FakeOutOfMemory."""
        for device in self.options.device if self.child else ():
            assert self.child is not None
            if self.options.total is None:
                set_bytes(self.options.reports, device, bytes_, self.child.pid)
            else:
                allocate(self.options.reports, device, bytes_, self.options.total, self.child.pid)

    def lives(self) -> bool:
        return self.child is None or self.child.poll() is None

    def end(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            for device in self.options.device:
                clear(self.options.reports, device, self.child.pid)


class Engine:
    """Scheduler and workers. `core` is its one loop: whoever asks it anything waits until it is at leisure."""

    def __init__(self, options: argparse.Namespace, card: Card) -> None:
        self.options, self.card = options, card
        self.core = asyncio.Lock()
        self.resumed = asyncio.Event()
        self.resumed.set()
        self.away: set[str] = set()  # parts of it that sleep
        self.lost = False  # its weights are what happened to be in that memory
        self.claims = 0  # the level that the gauge shows: of the last request, whatever came of it
        self.under_way = {"sleep": 0, "wake": 0}
        self.running: dict[str, asyncio.Event] = {}  # request -> set when it is aborted
        self.waiting = 0
        self.begun = 0  # answers
        self.shown = (0, 0)
        self.dead = asyncio.Event()
        self._late: asyncio.Task[None] | None = None

    def step(self) -> None:
        """The gauges of requests change when the scheduler does something, and not while it is paused."""
        if self.resumed.is_set():
            self.shown = (len(self.running), self.waiting)

    async def is_sleeping(self) -> bool:
        async with self.core:
            return bool(self.away) or not self.resumed.is_set()

    async def sleep(self, level: int, mode: str) -> None:
        """Raises Failed; what it did until then stays done."""
        self.under_way["sleep"] += 1
        try:
            if self.options.version >= (0, 18):
                await self._drain(mode)
            async with self.core:
                if level and not self.away:
                    await self._let_go(level)
                self.claims = level or PAUSED
        finally:
            self.under_way["sleep"] -= 1

    async def _drain(self, mode: str) -> None:
        self.resumed.clear()
        if mode == "abort":
            for aborted in self.running.values():
                aborted.set()
        while mode != "keep" and self.running:
            await asyncio.sleep(0.01)

    async def _let_go(self, level: int) -> None:
        options, before = self.options, self.card.others()
        await asyncio.sleep(options.sleep_s)
        if options.trap == "sleep-fails":
            raise Failed("Memory usage increased after sleeping.")
        grown = self.card.others() - before
        if grown > len(options.device) * (options.bytes - options.residue):
            raise Failed("Memory usage increased after sleeping.")
        self.away, self.lost = set(BOTH), level == 2
        if options.trap.startswith("late:"):
            self._late = asyncio.create_task(self._fall_late(float(options.trap.removeprefix("late:"))))
        elif options.enable_sleep_mode and options.trap != "keeps":
            self.card.hold(options.residue)
        if options.trap == "dies-asleep":
            asyncio.get_running_loop().call_later(0.1, self.dead.set)

    async def _fall_late(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.card.hold(self.options.residue)

    async def wake(self, tags: list[str]) -> None:
        """Raises Failed; half of its memory is taken then."""
        async with self.core:
            self.under_way["wake"] += 1
            try:
                await self._come_back(frozenset(tags) or frozenset(self.away))
            finally:
                self.under_way["wake"] -= 1
            if not self.away:
                self.claims = 0
                self.resumed.set()
                self.step()

    async def _come_back(self, tags: frozenset[str]) -> None:
        options = self.options
        if not tags or not tags <= self.away:
            return  # one tag that does not sleep, and nothing is done for any of them
        if options.trap == "wake-hangs":
            await asyncio.Event().wait()
        await asyncio.sleep(options.wake_s)
        left = self.away - tags
        full = options.bytes if not left else (options.bytes + options.residue) // 2
        try:
            if options.trap == "wake-fails":
                raise FakeOutOfMemory(options.device[0], options.bytes, 0, options.total or 0)
            self.card.hold(full)
        except FakeOutOfMemory as error:
            with suppress(FakeOutOfMemory):
                self.card.hold(full // 2)
            raise Failed(f"CUDA Error: {error}") from error
        self.away = set(left)

    async def rpc(self, method: str) -> None:
        """`collective_rpc` of the methods that are of use here."""
        async with self.core:
            if method == "reload_weights":
                await asyncio.sleep(self.options.reload_s)
                if "weights" in self.away:
                    self.die("an illegal memory access was encountered")
                self.lost = False

    def die(self, why: str) -> None:
        """The engine's process is over; the server follows a moment later."""
        print(f"EngineDeadError: CUDA error: {why}", file=sys.stderr, flush=True)
        self.dead.set()
        raise Failed("EngineCore encountered an issue. See stack trace (above) for the root cause.")
