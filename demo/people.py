"""The people of the demo: bursts of chat, with quiet between them in which the jobs get the device."""

import asyncio
from collections.abc import Callable

import aiohttp

from demo.client import Answer, Tally, ask

AT_ONCE = 4
TURNS = 2  # further requests after the burst, one at a time: the model is awake for these
PAUSE_S = 0.3
LET_RUN_S = 1.5  # a job has had the device this long when the next burst comes
LONGEST_QUIET_S = 10.0
LOOK_S = 0.05


class People:
    """Ask, be quiet until a job had its turn, ask again. A burst under way is finished, never cut."""

    def __init__(self, url: str, model: str, job_ran_s: Callable[[], float]) -> None:
        self.answers: list[Answer] = []
        self.tally = Tally()
        self.bursts = 0
        self._url, self._model, self._job_ran_s = url, model, job_ran_s

    async def run(self, ending: asyncio.Event) -> None:
        """Until `ending` is set and every request was answered or failed."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            while not ending.is_set():
                await self._quiet(ending)
                if ending.is_set():
                    return
                self.bursts += 1
                await asyncio.gather(*(self._ask(session) for _ in range(AT_ONCE)))
                for _ in range(TURNS):
                    await asyncio.sleep(PAUSE_S)
                    await self._ask(session)

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        answer = await ask(session, self._url, self._model)
        self.answers.append(answer)
        self.tally.add(answer)

    async def _quiet(self, ending: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LONGEST_QUIET_S
        while not ending.is_set() and loop.time() < until_s and self._job_ran_s() < LET_RUN_S:
            await asyncio.sleep(LOOK_S)
