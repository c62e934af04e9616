"""The last rows of a history that can only be read forward: ids grow, and a page begins after an id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Rows = list[dict[str, Any]]
Page = Callable[[int, int], Awaitable[Rows]]  # (after, limit) -> rows with larger ids, oldest first

PAGE = 1000


async def last_rows(page: Page, n: int) -> Rows:
    """The newest `n` rows, oldest first. About 2 log2(newest id) reads of one row, then the rows themselves."""
    low, high = 0, PAGE
    while await page(high, 1):
        low, high = high, high * 2
    while low < high:  # nothing is above `high`; something is above `low - 1`, or low is 0
        middle = (low + high) // 2
        if await page(middle, 1):
            low = middle + 1
        else:
            high = middle
    span = n
    while True:
        rows = await _all_after(page, max(0, high - span))
        if len(rows) >= n or span >= high:
            return rows[-n:]
        span *= 4  # rows of one holder lie apart


async def _all_after(page: Page, after: int) -> Rows:
    rows: Rows = []
    while more := await page(after, PAGE):
        rows += more
        after = int(more[-1]["id"])
        if len(more) < PAGE:
            break
    return rows
