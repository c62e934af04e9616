"""The disk of the false machine: a real SQLite database in memory behind slow, full or hanging commits, and files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.errors import StoreFailed
from headway.ports import Batch, Saved
from headway.sim.loop import Life
from headway.store.store import SqliteStore

if TYPE_CHECKING:
    from headway.sim.world import World


class Disk:
    """What outlives every process."""

    def __init__(self) -> None:
        self.database = SqliteStore(":memory:")
        self.journal: list[dict[str, Any]] = []
        self.routes: bytes | None = None
        self.logs: dict[str, bytearray] = {}
        self.full = False
        self.hangs_until_s = 0.0  # commits


class SimStore:
    """Implements ports.Store for one daemon's life: commits in order, each some time after it was asked for."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self._free_s = 0.0  # when the writer is done with what it has

    def load(self) -> Saved:
        return self._world.disk.database.load()

    def save(self, batch: Batch) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        now_s, disk = self._world.loop.now_s, self._world.disk
        # nothing is decided from these: they draw no lot
        plain = batch == Batch(rollups=batch.rollups, given=batch.given)
        at_s = max(now_s, self._free_s) + (0.002 if plain else self._world.chance.uniform(0.001, 0.004))
        if disk.hangs_until_s > now_s:
            at_s = max(at_s, disk.hangs_until_s)
        self._free_s = at_s
        self._world.loop.later(at_s - now_s, self._commit, batch, future)
        return future

    def _commit(self, batch: Batch, future: asyncio.Future[None]) -> None:
        """Made only while its process lives; killed before it heard of it, the process never knows."""
        if not self._life.alive:
            return
        error: BaseException | None = StoreFailed("the disk is full. Free space there.", reason="full")
        if not self._world.disk.full:
            error = self._world.disk.database.save(batch).exception()
        self._world.loop.later(0.0005, _settle, future, error)

    async def close(self) -> None:
        pass  # the database lives as long as the disk


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class SimJournal:
    """Implements ports.Journal."""

    file = "journal.ndjson"

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def append(self, doc: Mapping[str, Any]) -> None:
        if self._disk.full:
            raise StoreFailed("the journal could not be written: the disk is full.", reason="journal")
        self._disk.journal.append(dict(doc))

    def read(self) -> dict[int, dict[str, Any]]:
        return dict(enumerate(self._disk.journal, 1))

    def clear(self) -> None:
        self._disk.journal.clear()


class SimRoutes:
    """Implements ports.Routes."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self) -> bytes:
        if self._disk.routes is None:
            raise FileNotFoundError("routes.json")
        return self._disk.routes

    def write(self, document: bytes) -> None:
        if self._disk.full:
            raise OSError(28, "No space left on device")
        self._disk.routes = document


class SimRequests:
    """Implements ports.RequestLog."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def files(self) -> Sequence[tuple[str, int]]:
        return [(name, len(self._disk.logs[name])) for name in sorted(self._disk.logs)]

    def read(self, name: str, start: int, count_bytes: int) -> bytes:
        return bytes(self._disk.logs[name][start : start + count_bytes])

    def remove(self, name: str) -> None:
        self._disk.logs.pop(name, None)
