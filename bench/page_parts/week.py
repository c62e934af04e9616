"""A database with some days of looks at a device, one a second, as a daemon would have kept them by now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from headway.core.samples import DAY_S, DEVICE, FOREIGN, STEPS, Rollup, Series, coarser, rolled
from headway.ports import Batch
from headway.store.store import SqliteStore

GIB = 1 << 30
HOUR_S = 3600
TEN_S = 10  # looks that are too old to be there one by one are made this long at once


async def fill(path: Path, device: str, to_s: int, days: int) -> None:
    """Looks up to `to_s` into a new database: a model that is busy by day, jobs of two hours, and a stranger."""
    store = SqliteStore(path)
    begin_s = to_s - days * DAY_S
    for from_s in range(begin_s - begin_s % HOUR_S, to_s, HOUR_S):
        until_s = min(from_s + HOUR_S, to_s)
        long_s = 1 if to_s - from_s <= DAY_S else TEN_S
        looks = [one for at_s in range(from_s, until_s, long_s) for one in _looks(device, at_s, long_s)]
        await store.save(Batch(rollups=tuple(_kept(looks, from_s, to_s))))
    await store.close()


def _kept(looks: list[Rollup], from_s: int, to_s: int) -> Iterator[Rollup]:
    """Of their rows those that are not old yet."""
    ages = {step_s: kept_s for step_s, kept_s in STEPS.items() if kept_s is None or to_s - from_s <= kept_s}
    rows = rolled(looks) if 1 in ages else (row for step_s in ages for row in coarser(looks, step_s))
    return (row for row in rows if row.step_s in ages)


def _looks(device: str, at_s: int, long_s: int) -> Iterator[Rollup]:
    """What is seen of the device at each second from `at_s` on; it stays so for `long_s`."""
    hour = at_s // HOUR_S
    by_day = 8 <= hour % 24 < 20
    busy = by_day and at_s // 60 % 5 < 3
    chat = (17 if busy else 16) * GIB if by_day else GIB
    job = int((3 + 2 * math.sin(at_s / 900)) * GIB) if by_day else 14 * GIB
    number = hour // 2
    foreign = GIB // 2
    parts = (
        (Series(device, DEVICE), "sim0", chat + job + foreign, False),
        (Series(device, FOREIGN), FOREIGN, foreign, False),
        (Series(device, "service", "chat"), "chat", chat, busy),
        (Series(device, "job", f"j{number}"), ("train", "render", "eval")[number % 3], job, False),
    )
    for series, name, bytes_, is_busy in parts:
        yield Rollup(
            series=series,
            name=name,
            step_s=long_s,
            at_s=at_s,
            looks=long_s,
            bytes=bytes_ * long_s,
            peak_bytes=bytes_,
            busy=long_s * is_busy,
        )
