"""An API over real sockets whose commands are carried out by the real core: every turn at once, nothing is started."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.config.adhoc import adhoc
from headway.core import wishes
from headway.core.commands import Command, Reply
from headway.core.draft import Draft
from headway.drivers.registry import DRIVERS
from tests.parts.false_api import Inbox, Served, serving

MOVES = {name: driver.moves for name, driver in DRIVERS.items()}
LIMIT_S = 30.0


class CoreInbox(Inbox):
    """Carries each command out as the loop does, in a turn of its own."""

    served: Served

    def submit(self, command: Command) -> Awaitable[Reply]:
        hub = self.served.hub
        draft = Draft(hub.snapshot, self.served.clock.now_s())
        self.reply = wishes.apply(draft, command)
        hub.publish(draft.done(), hub.verdicts, frozenset(draft.changed))
        return super().submit(command)


@contextmanager
def running(directory: Path) -> Iterator[Served]:
    """Such an API in a loop of its own, in a thread. Its event streams end after their first batch."""
    ready, over = threading.Event(), asyncio.Event()
    found: list[Served] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        inbox = CoreInbox()
        async with serving(
            directory, lambda sock: os.getuid(), inbox=inbox, make_job=lambda fields: adhoc(fields, MOVES)
        ) as served:
            inbox.served = served
            served.server.parts.closing[0] = True
            found.append(served)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(LIMIT_S), "the API did not start"
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(LIMIT_S)
