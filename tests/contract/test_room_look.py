"""Main memory and disks are read, told when that changes something, and nobody waits for a disk that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.core.facts import Fact, HostRead
from headway.core.model import GIB, DiskRoom, HostRoom
from headway.daemon.room_look import OLD_S, RoomLook
from headway.host.disk import disk_room
from tests.core.make import Scene
from tests.core.test_host_fit import parks

pytestmark = pytest.mark.contract

WORK = "/srv/work"
ROOM = HostRoom(memory_free_bytes=9 * GIB, memory_total_bytes=64 * GIB)
HALF = DiskRoom(free_bytes=500 * GIB, total_bytes=1000 * GIB)


class World:
    """One job that writes to its disk as it parks; disks answer as the test says."""

    def __init__(self) -> None:
        self.scene = Scene(24).job(replace(parks(disk=20), cwd=WORK))
        self.told: list[Fact] = []
        self.asked: list[str] = []
        self.answer: asyncio.Future[DiskRoom | None] = asyncio.get_running_loop().create_future()
        self.tasks: list[asyncio.Task[Any]] = []
        self.time_s = 0.0
        self.look = RoomLook(
            lambda: ROOM, self._disk, self, self._tell, lambda: self.scene.s, self._spawn
        ).look

    def now_s(self) -> float:
        return self.time_s

    def wall_s(self) -> float:
        return self.time_s

    async def _disk(self, directory: str) -> DiskRoom | None:
        self.asked.append(directory)
        return await self.answer

    def _tell(self, fact: Fact) -> None:
        self.told.append(fact)
        self.scene.fold(fact)

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def answers(self, room: DiskRoom | None) -> None:
        self.answer.set_result(room)
        await asyncio.gather(*self.tasks)
        self.tasks, self.answer = [], asyncio.get_running_loop().create_future()


async def test_a_disk_is_known_once_it_has_answered() -> None:
    world = World()
    world.look()
    assert world.told == [HostRead(room=ROOM)]
    await world.answers(HALF)
    world.look()
    assert world.told[-1] == HostRead(room=replace(ROOM, disks={WORK: HALF})) and len(world.told) == 2
    await world.answers(HALF)
    world.look()
    assert len(world.told) == 2  # nothing new
    await world.answers(None)
    world.look()
    assert world.told[-1] == HostRead(room=ROOM)
    await world.answers(None)


async def test_one_that_does_not_answer_is_asked_once_and_what_was_known_of_it_grows_old() -> None:
    world = World()
    world.look()
    await world.answers(HALF)
    world.look()
    world.time_s = OLD_S
    world.look()
    assert world.told[-1] == HostRead(room=ROOM)
    await world.answers(None)
    assert world.asked == [WORK, WORK]


async def test_the_disk_of_a_directory_is_read_and_of_none_nothing_is_known(tmp_path: Path) -> None:
    found = await disk_room(str(tmp_path))
    assert found is not None and 0 <= found.free_bytes <= found.total_bytes and found.total_bytes > 0
    assert await disk_room(str(tmp_path / "none")) is None
