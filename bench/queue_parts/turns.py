"""A daemon in one process with a long queue, viewers and news: `python -m bench.queue_parts.turns --jobs 10000`.

What a daemon is made of is real: loop, hub, recorder, SQLite, the API on a Unix socket, the shims of four running jobs.
Only the meter and the model server are false, so that no GPU is needed. The viewers are another process. Prints one
JSON object: milliseconds of all turns and of the loop's lag, and CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from headway.api.access import Access
from headway.api.parts import Parts
from headway.api.server import ApiServer
from headway.core import codec, wishes
from headway.core.commands import AddJob, Configure, MoveJob, SetWish
from headway.core.draft import Draft
from headway.core.facts import GateState, JobTold
from headway.core.model import (
    GIB,
    Form,
    Holder,
    Job,
    JobSpec,
    MoveRule,
    Policy,
    ServiceSpec,
    Snapshot,
    Waiting,
)
from headway.daemon import collecting
from headway.daemon.daemon import Daemon, Outside, Settings
from headway.drivers.registry import DRIVERS
from headway.host.gate_files import RequestFiles, RoutesFile
from headway.host.gate_locks import GateLocks
from headway.host.linux import LinuxClock, LinuxHost
from headway.host.linux_runs import LinuxRuns
from headway.host.linux_visitors import LinuxProcesses
from headway.meters.lines import boottime_s
from headway.ports import Batch, DeviceReading, Moved, Reading, Seen, Task
from headway.store.journal import FileJournal
from headway.store.reader import SqliteReader
from headway.store.store import SqliteStore

DEVICES = 4
NEWS_PER_S = 50
LIMIT_S = 60.0
SERVER_MOVES = (MoveRule(source="awake", to="stopped", limit_s=30, frees=True),)


class FalseMeter:
    """Four cards on which each running job holds what it said; a little more at each look, so that each is news."""

    def __init__(self) -> None:
        self.looks, self.held = 0, dict[str, int]()  # device -> bytes
        self.on_reading: Callable[[Reading], None] = lambda reading: None

    async def start(self, on_reading: Callable[[Reading], None]) -> None:
        self.on_reading = on_reading
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            self.read_now()
            await asyncio.sleep(1.0)

    def read_now(self) -> None:
        self.looks += 1
        self.on_reading(Reading(at_s=boottime_s(), devices=tuple(map(self._device, range(DEVICES)))))

    async def stop(self) -> None:
        self._looking.cancel()

    def _device(self, index: int) -> DeviceReading:
        total, used = 24 * GIB, self.held.get(f"local/gpu{index}", 0) + self.looks % 64
        return DeviceReading(
            id=f"local/gpu{index}",
            name=f"gpu{index}",
            index=index,
            total_bytes=total,
            used_bytes=used,
            free_bytes=total - used,
            processes=None,
        )


class FalseServer:
    """The driver of a model server that is awake and stays it."""

    name: str = "process"
    moves: tuple[MoveRule, ...] = SERVER_MOVES

    async def observe(self, holder: Holder) -> Seen:
        return Seen(form="awake", ready=True, engine_active=0, upstream="http://127.0.0.1:1")

    async def move(self, task: Task) -> Moved:
        return Moved()


def service() -> ServiceSpec:
    forms = (Form(name="awake", declared_bytes=1 * GIB), Form(name="stopped", declared_bytes=0))
    return ServiceSpec(name="chat", driver="process", forms=forms, moves=SERVER_MOVES)


def job(number: int) -> JobSpec:
    """One of them runs on a device, whatever its number; three sizes, a hundred priorities."""
    return JobSpec(
        name=f"job{number}",
        driver="restart",
        argv=("/bin/sleep", "3600"),
        forms=(Form(name="running", declared_bytes=(12, 16, 20)[number % 3] * GIB), Form(name="stopped")),
        moves=DRIVERS["restart"].moves,
        priority=number % 101,
        placement="share",
        tags=("bench",),
        goal="to be one of many",
    )


async def fill(store: SqliteStore, jobs: int) -> None:
    """As if they had been queued: rows in the database, which the daemon reads at its start."""
    draft = Draft(Snapshot(now_s=boottime_s()), boottime_s())
    for number in range(jobs):
        wishes.apply(draft, AddJob(spec=job(number)))
    rows = tuple((h.id, h.kind, codec.dumps(h)) for h in draft.holders.values())
    await store.save(Batch(holders=rows, meta={"next_job": str(draft.other["next_job"])}))


class Stand:
    """The daemon with everything around it, in `home`."""

    def __init__(self, home: Path, store: SqliteStore, http: aiohttp.ClientSession) -> None:
        self.home, self.store, self.clock, self.meter = home, store, LinuxClock(), FalseMeter()
        for name in ("gates", "requests"):
            (home / name).mkdir()
        self.runs, self.processes = LinuxRuns(home / "runs"), LinuxProcesses()
        restart = DRIVERS["restart"](self.runs, http, self.clock)
        outside = Outside(
            clock=self.clock,
            store=store,
            journal=FileJournal(home / "journal.ndjson"),
            runs=self.runs,
            processes=self.processes,
            drivers={"restart": restart, "process": FalseServer()},
            meter=self.meter,
            roster=GateLocks(home / "gates"),
            routes=RoutesFile(home / "routes.json"),
            requests=RequestFiles(home / "requests"),
            ask=lambda job: None,
            told=lambda event: None,
            log=lambda words, facts: None,
            trouble=lambda what, error: print(what, repr(error), file=sys.stderr),
            lost=lambda: None,
        )
        configure = Configure(services=(service(),), recipes=())
        settings = Settings(configure=configure, policy=Policy(), mode="live", name="bench", salt="bench")
        self.daemon = Daemon(outside, settings)
        self.socket = home / "api.sock"

    async def start(self) -> None:
        await self.daemon.start()
        collecting.settle()  # as composition.py does
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(self.socket))
        parts = Parts(
            inbox=self.daemon.loop,
            hub=self.daemon.hub,
            reader=SqliteReader(self.home / "state.db"),
            clock=self.clock,
            access=Access(self.store, self.clock),
            recipes={},
            make_job=lambda fields: job(0),
            tail=lambda run_id, lines: [],
            processes=self.processes,
            lease_moves=DRIVERS["lease"].moves,
        )
        self.api = ApiServer(parts, LinuxHost().peer_uid)
        await self.api.start(None, sock)

    async def stop(self) -> None:
        await self.api.stop()
        for running in self.running():
            if running.run is not None:
                await self.runs.stop(running.run.id, 0.0)
        await self.daemon.stop()

    def running(self) -> list[Job]:
        s = self.daemon.hub.snapshot
        return [h for hid in s.present if isinstance(h := s.holders[hid], Job) and h.form == "running"]

    def tell(self, number: int) -> None:
        """One more piece of news: of jobs, of requests, of devices, and what people ask."""
        loop, running = self.daemon.loop, self.running()
        what = number % 10
        if what < 4 and running:
            told = running[number % len(running)]
            loop.tell(
                JobTold(job=told.id, progress=(number % 1000) / 1000, log_bytes=number, busy_s=number / 50)
            )
        elif what < 8:
            s = self.daemon.hub.snapshot
            chat = s.service("chat")
            waits = {"attended": Waiting(n=0, since_s=s.now_s)}
            loop.tell(
                GateState(
                    service="chat",
                    rev=chat.gate.rev if chat else 0,
                    closed=False,
                    pinning=0,
                    active=number % 2,
                    demand=waits,
                    last_end_s=s.now_s,
                )
            )
        elif what == 8:
            self.meter.held = {d: job.need_bytes("running") or 0 for job in running for d in job.devices}
            self.meter.read_now()
        else:
            self._ask(number)

    def _ask(self, number: int) -> None:
        loop, line = self.daemon.loop, self.daemon.hub.snapshot.queue["gpu"]
        someone = line[number * 7919 % len(line)][1]
        match number // 10 % 3:
            case 0:
                loop.submit(AddJob(spec=job(number), by="bench"))
            case 1:
                loop.submit(MoveJob(target=someone, where="top", by="bench"))
            case 2:
                loop.submit(SetWish(target=someone, verb="cancel", by="bench"))


class Times:
    """What took how long, in milliseconds."""

    def __init__(self, stand: Stand) -> None:
        self.turns, self.lags, self.saves = list[float](), list[float](), list[float]()
        loop, recorder = stand.daemon.loop, stand.daemon.recorder
        loop.turn = timed(loop.turn, self.turns)  # type: ignore[method-assign]
        recorder.save = timed(recorder.save, self.saves)  # type: ignore[method-assign]

    def clear(self) -> None:
        self.turns.clear()
        self.lags.clear()
        self.saves.clear()

    async def tick(self) -> None:
        """How late a wait of one millisecond ends."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            self.lags.append((time.perf_counter() - began) * 1e3 - 1.0)


def timed(work: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    async def wrapped(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return await work(*args)
        finally:
            times.append((time.perf_counter() - began) * 1e3)

    return wrapped


def told(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[int(len(ordered) * 0.99)],
        "max": ordered[-1],
    }


@asynccontextmanager
async def standing(jobs: int) -> Any:
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Path(folder)
        store = SqliteStore(home / "state.db")
        await fill(store, jobs)
        async with aiohttp.ClientSession() as http:
            stand = Stand(home, store, http)
            await stand.start()
            try:
                yield stand
            finally:
                await stand.stop()


async def measure(jobs: int, viewers: int, seconds: float, warm_s: float) -> dict[str, Any]:
    """All figures with that many queued jobs."""
    async with standing(jobs) as stand:
        times = Times(stand)
        until_s = time.monotonic() + LIMIT_S
        while len(stand.running()) < DEVICES and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
        argv = [sys.executable, "-m", "bench.queue_parts.viewers", str(stand.socket), str(viewers)]
        looking = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        ticker = asyncio.create_task(times.tick())
        try:
            number = await news(stand, 0, warm_s)
            times.clear()
            cpu_s, began_s = time.process_time(), time.monotonic()
            await news(stand, number, seconds)
            took_s, used_s = time.monotonic() - began_s, time.process_time() - cpu_s
        finally:
            ticker.cancel()
            looking.terminate()
        said, _ = await asyncio.to_thread(looking.communicate)
        seen = json.loads(said)
        return {
            "jobs": jobs,
            "queued": len(stand.daemon.hub.snapshot.queue["gpu"]),
            "running": len(stand.running()),
            "turns_per_s": len(times.turns) / took_s,
            "turn_ms": told(times.turns),
            "save_ms": told(times.saves),
            "lag_ms": told(times.lags),
            "cpu_share": used_s / took_s,
            "viewers": viewers,
            "batches_per_s_and_viewer": seen["batches"] / viewers / (warm_s + seconds),
            "bytes_per_s_and_viewer": seen["bytes"] / viewers / (warm_s + seconds),
        }


async def news(stand: Stand, number: int, seconds: float) -> int:
    """Fifty pieces a second, each in a turn of its own; returns the number of the next."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    first = number
    while loop.time() - began_s < seconds:
        stand.tell(number)
        number += 1
        await asyncio.sleep(max(0.0, began_s + (number - first) / NEWS_PER_S - loop.time()))
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=3.0, help="seconds before, which do not count")
    options = parser.parse_args()
    found = asyncio.run(measure(options.jobs, options.viewers, options.seconds, options.warm))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
