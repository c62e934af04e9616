"""`python -m demo`: a real model server and two real jobs share one simulated device, as you can watch.

Ends after --seconds, or on Ctrl-C, with a summary. Exit code 0 only if every promise was kept.
"""

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from demo import summary
from demo.board import Counts, Screen, happened, holders
from demo.jobs.train import saved_step
from demo.memory_watch import MemoryWatch
from demo.people import People
from demo.sim_device import parse_size
from demo.world import TOTAL, World, cached_model
from headway.client import Answered
from headway.errors import HeadwayError

READY_LIMIT_S = 60.0
MORE_S = 40.0  # a slow machine gets this much longer for the swaps that the demo is about
LEAVE_LIMIT_S = 60.0
LOG_LIMIT_S = 10.0
INTERRUPTED = 130  # exit status
EARLY_S = 20.0  # a showing that somebody ends before this may not have come to everything
LOOK_S = 0.15
POLL_S = 0.05
AGAIN_S = 6.0  # after a render is done, the next one is queued
PAGE = 1000
TOLD = ("release.verified", "memory.not_released", "service.failed", "job.done", "job.failed")


class Play:
    """One showing, from `headway up` to the last process."""

    def __init__(self, world: World, seconds: float | None) -> None:
        self.world, self.seconds = world, seconds
        self.began_s = time.monotonic()
        self.until_s: float | None = None  # when the showing ends by itself
        self.ending = asyncio.Event()  # the time is over, or somebody pressed Ctrl-C
        self.over = asyncio.Event()  # everybody left the device
        self.screen, self.facts = Screen(), summary.Facts(total_bytes=parse_size(TOTAL))
        self.status: dict[str, Any] = {"services": [], "running": [], "queued": [], "devices": []}
        self.events: list[dict[str, Any]] = []
        self.people: People | None = None
        self._names: dict[str, str] = {}
        self._render_done_s: float | None = None

    @property
    def at_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began_s

    async def run(self) -> summary.Facts:
        """The whole showing; returns what happened."""
        self.world.up()
        if await self._until(self._ready, READY_LIMIT_S):
            watching = asyncio.create_task(self._watch())
            await self._show_time()
            await self._leave()
            self.over.set()
            await watching
            await self._collect()
        else:
            self.facts.troubles.append(f"Headway was not ready within {READY_LIMIT_S:.0f} s")
        self.facts.seconds = self.at_s
        self.facts.exit_status = await asyncio.to_thread(self.world.down)
        self.facts.left = await asyncio.to_thread(self.world.left)
        return self.facts

    # ------------------------------------------------------------ the showing

    async def _ready(self) -> bool:
        return self.world.ready() and await self._get("/api/v1/status") is not None

    async def _show_time(self) -> None:
        front = self.world.front
        began_s = time.monotonic()
        if front is None or self.ending.is_set():
            self.facts.cut_short = self.ending.is_set()
            return
        self.until_s = None if self.seconds is None else time.monotonic() + self.seconds
        self.people = People(front, "chat", self._job_ran_s)
        talking = asyncio.create_task(self.people.run(self.ending))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ending.wait(), self.seconds)
        self.facts.cut_short = self.ending.is_set() and time.monotonic() - began_s < EARLY_S
        if not self.ending.is_set() and not self._enough():
            self.screen.told(self.at_s, f"a slow machine: up to {MORE_S:.0f} s more")
            await self._until(self._enough_or_ending, MORE_S)
        self.ending.set()
        await talking

    def _enough(self) -> bool:
        swapped = len(list(summary.swaps(self.events)))
        return swapped >= summary.SWAPS_NEEDED and self._steps() > 0 and self._frames() > 0

    async def _enough_or_ending(self) -> bool:
        return self._enough() or self.ending.is_set()

    def _job_ran_s(self) -> float:
        """How long the job that has the device has had it; 0 when none has."""
        running = (row for row in self.status["running"] if row["state"] == "running")
        return max((float(row["in_state_s"]) for row in running), default=0.0)

    async def _watch(self) -> None:
        while not self.over.is_set():
            status = await self._get("/api/v1/status")
            if status is not None:
                self.status = status
                self.world.saw(status)
                self._names |= {row["id"]: row["name"] for row in holders(status)}
                for event in await self._new_events():
                    if event["code"] in TOLD:
                        self.screen.told(self.at_s, happened(event, self._names))
                self.screen.show(status, self._counts())
                if not self.ending.is_set():
                    await self._queue_again()
            await asyncio.sleep(LOOK_S)

    def _counts(self) -> Counts:
        return Counts(
            at_s=self.at_s,
            left_s=None if self.until_s is None else self.until_s - time.monotonic(),
            answered=self.people.tally.answered if self.people else 0,
            waiting=sum(row["waiting"] for row in self.status["services"]),
            swaps=len(list(summary.swaps(self.events))),
        )

    async def _new_events(self) -> list[dict[str, Any]]:
        last = self.events[-1]["id"] if self.events else 0
        new = await self._get("/api/v1/history", after=last, limit=PAGE) or []
        self.events += new
        return new

    async def _queue_again(self) -> None:
        """A render is short: some time after one is done, somebody wants the next."""
        if any(row["name"] == "render" for row in (*self.status["running"], *self.status["queued"])):
            self._render_done_s = None
        elif self._render_done_s is None:
            self._render_done_s = self.at_s
        elif self.at_s - self._render_done_s > AGAIN_S:
            self._render_done_s = None
            await self._post("/api/v1/jobs", {"recipe": "render"})

    # ------------------------------------------------------------ the end

    async def _leave(self) -> None:
        """Cancel the jobs and stop the service through the API, and wait until they are gone."""
        for job in await self._living():
            await self._post(f"/api/v1/jobs/{job['id']}/cancel")
        await self._post("/api/v1/services/chat/stop")
        if not await self._until(self._all_left, LEAVE_LIMIT_S):
            self.facts.troubles.append(f"not everybody left the device within {LEAVE_LIMIT_S:.0f} s")

    async def _all_left(self) -> bool:
        service = await self._get("/api/v1/services/chat")
        return service is not None and service["state"] == "stopped" and not await self._living()

    async def _living(self) -> list[dict[str, Any]]:
        page = await self._get("/api/v1/jobs", limit=PAGE)
        return page["jobs"] if page else []

    async def _collect(self) -> None:
        await self._new_events()
        await self._until(self._all_logged, LOG_LIMIT_S)
        facts = self.facts
        facts.answers = self.people.answers if self.people else ()
        facts.events = self.events
        page = await self._get("/api/v1/jobs", ended="true", limit=PAGE)
        facts.jobs = page["jobs"] if page else ()
        facts.steps, facts.frames = self._steps(), self._frames()

    async def _all_logged(self) -> bool:
        """The gate writes a request down when it is over; the daemon reads that once a second."""
        rows: list[dict[str, Any]] = []
        while page := await self._get(
            "/api/v1/requests", service="chat", after=rows[-1]["id"] if rows else 0, limit=PAGE
        ):
            rows += page
        self.facts.requests = rows
        asked = {answer.id for answer in self.people.answers} if self.people else set()
        return asked <= {row["doc"].get("id") for row in rows}

    def _steps(self) -> int:
        return saved_step(self.world.home / "state" / "train")

    def _frames(self) -> int:
        path = self.world.home / "state" / "render" / "frame"
        return int(path.read_text()) if path.exists() else 0

    # ------------------------------------------------------------ asking Headway

    async def _get(self, path: str, **query: Any) -> Any:
        """What the API answers; None while nobody answers."""
        try:
            return await asyncio.to_thread(self.world.client.get, path, **query)
        except HeadwayError:
            return None

    async def _post(self, path: str, body: dict[str, Any] | None = None) -> None:
        try:
            await asyncio.to_thread(self.world.client.post, path, body)
        except Answered as error:
            if error.code != "already_ended":
                self.facts.troubles.append(f"{path} was refused: {error}")
        except HeadwayError as error:
            self.facts.troubles.append(f"{path}: {error}")

    async def _until(self, seen: Callable[[], Awaitable[bool]], limit_s: float) -> bool:
        """Wait until `seen`; False after `limit_s`, and at once when Headway itself ended."""
        until_s = time.monotonic() + limit_s
        while not await seen():
            if time.monotonic() > until_s or self.world.ended is not None:
                return False
            await asyncio.sleep(POLL_S)
        return True


async def play(world: World, seconds: float | None) -> summary.Facts:
    """One showing with a witness beside it. Ctrl-C ends it early, with the same summary."""
    showing = Play(world, seconds)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, showing.ending.set)
    with MemoryWatch(world.reports) as memory:
        facts = await showing.run()
    facts.most_bytes, facts.looks = memory.most_bytes(), memory.looks
    return facts


def main() -> int:
    """Run the demo; exit code 0 only if every promise was kept."""
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="A model server and two jobs share one device."
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="from when Headway is ready; default: until Ctrl-C"
    )
    parser.add_argument(
        "--home", type=Path, metavar="DIR", help="an empty directory, kept for a look afterwards"
    )
    options = parser.parse_args()
    if options.home and options.home.exists() and any(options.home.iterdir()):
        parser.error(f"{options.home} is not empty: the demo wants a home of its own")
    home = options.home.absolute() if options.home else Path(tempfile.mkdtemp(prefix="headway-demo-"))

    print(
        "A simulated 24 GiB device, a real llama.cpp server that holds 16 GiB of it, and two jobs with 14 and 12."
    )
    print(
        "No two of them fit together. People chat in bursts; the jobs get the device in between.\n"
        f"{_how_long(options.seconds)}\n",
        flush=True,
    )
    try:
        world = World(home, cached_model())
        try:
            facts = asyncio.run(play(world, options.seconds))
        finally:
            world.sweep()
    except KeyboardInterrupt:  # before anything was started: from then on Ctrl-C is a wish like others
        if not options.home:
            shutil.rmtree(home, ignore_errors=True)
        return INTERRUPTED
    print("", *summary.lines(facts), sep="\n")
    if broken := summary.broken(facts):
        print("\nNOT kept:", *(f"  - {what}" for what in broken), sep="\n")
        print(f"\nHeadway's last lines (its home is kept: {home}):", *world.log_tail(), sep="\n  ")
        return 1
    if not options.home:
        shutil.rmtree(home, ignore_errors=True)
    early = ", as far as it came before it was ended" if facts.cut_short else ""
    print(f"\nEvery promise was kept{early}.")
    return 0


def _how_long(seconds: float | None) -> str:
    if seconds is None:
        return "It runs until Ctrl-C."
    return f"It runs for {seconds:g} s and a few more to start and to leave; Ctrl-C ends it sooner."


if __name__ == "__main__":
    sys.exit(main())
