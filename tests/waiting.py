"""Waiting for a state with a deadline: the only way a test here waits."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

POLL_S = 0.02


class NeverHappened(AssertionError):
    """The state a test waited for did not come within its limit."""


def wait_for(predicate: Callable[[], T | None], limit_s: float, what: str = "the state") -> T:
    """Poll `predicate` until it answers something true, and return that.

    Args:
        predicate: called every 20 ms; an exception from it ends the wait.
        limit_s: seconds; take ten times what a quiet machine needs.
        what: words for the failure.

    Raises:
        NeverHappened: nothing true came within `limit_s`; the last answer is in the message.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > deadline_s:
            raise NeverHappened(f"{what} did not come within {limit_s:g} s; last answer: {answer!r}")
        time.sleep(POLL_S)


async def wait_until(
    predicate: Callable[[], T | None] | Callable[[], Awaitable[T | None]],
    limit_s: float,
    what: str = "the state",
) -> T:
    """`wait_for` inside a running loop; `predicate` may be a coroutine function.

    Raises:
        NeverHappened: nothing true came within `limit_s`.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limit_s
    while True:
        given = predicate()
        answer = cast("T | None", await given if isinstance(given, Awaitable) else given)
        if answer:
            return answer
        if loop.time() > deadline_s:
            raise NeverHappened(f"{what} did not come within {limit_s:g} s; last answer: {answer!r}")
        await asyncio.sleep(POLL_S)
