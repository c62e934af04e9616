"""Eyes of the daemon: polls and watchers that turn what is outside into facts. Nothing here decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any

from headway.core import engines
from headway.core.facts import DeviceRead, Fact, MeterSilent, Observed
from headway.core.model import Gauges, Job, Service, Snapshot
from headway.daemon.asking import Asker
from headway.daemon.run_ends import run_seen
from headway.errors import HeadwayError
from headway.ports import Clock, Driver, Reading, Runs, RunState, Seen

POLL_S = 1.0
SOON_S = 0.05  # while a close waits for the engine to read idle, or nothing is known of a service
PROBE_LIMIT_S = 3.0
STRANGERS_MAX = 8  # processes of others that are named
FRESH_S = 5.0  # a reading that says the same as one of this age is not told again
APPEAR_S = 5.0  # a run that was announced and never comes
_SAYS = attrgetter(*(field.name for field in fields(DeviceRead) if field.name not in ("at_s", "gauges")))


class Watcher:
    """One task per living run, one per polled service. All end with `stop`."""

    def __init__(
        self,
        runs: Runs,
        drivers: Mapping[str, Driver],
        clock: Clock,
        tell: Callable[[Fact], None],
        snapshot: Callable[[], Snapshot],
        spawn: Callable[[str, Coroutine[Any, Any, Any]], None],
        read_now: Callable[[], None],
        told: Callable[[Job], object] | None = None,
        poll_s: float = POLL_S,
        visitor: Callable[[int], str | None] = lambda pid: None,
    ) -> None:
        self._runs, self._drivers, self._clock = runs, drivers, clock
        self._tell, self._snapshot, self._spawn, self._read_now = tell, snapshot, spawn, read_now
        self._asker = Asker(told, tell, snapshot, spawn)
        self._poll_s, self._visitor = poll_s, visitor
        self._watched: set[str] = set()
        self._probing: set[str] = set()
        self._probed_s: dict[str, float] = {}
        self._read: dict[str, DeviceRead] = {}
        self._stirred = asyncio.Event()

    # ---------------------------------------------------------------- runs

    def watch(self, holder: str, run_id: str) -> None:
        """Report a run from now until nothing of it lives. Safe to call twice."""
        if run_id not in self._watched:
            self._watched.add(run_id)
            self._spawn(f"watch {run_id}", self._watch(holder, run_id))

    async def _watch(self, holder: str, run_id: str) -> None:
        try:
            state = await self._appears(run_id)
            while state is not None:
                if not state.lock_held and not state.gone and state.ran:
                    await self._runs.stop(run_id, 0.0)  # its shim was killed: what survived is ended first
                self._tell(run_seen(self._runs, holder, state))
                if state.exit is not None or state.ended:
                    self._read_now()
                if state.ended:
                    self._asker.last_words(holder)
                    return
                state = await self._runs.changed(run_id, state)
        finally:
            self._watched.discard(run_id)

    async def _appears(self, run_id: str) -> RunState | None:
        until_s = self._clock.now_s() + APPEAR_S
        while (state := self._runs.read(run_id)) is None or not (state.lock_held or state.ran or state.gone):
            if self._clock.now_s() > until_s:
                return None
            await asyncio.sleep(0.005)
        return state

    # ---------------------------------------------------------------- services and jobs

    async def run(self) -> None:
        """Look at everybody when it is time to, until cancelled."""
        while True:
            wait_s = self.tick()
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._stirred.wait()

    def stir(self) -> None:
        """Something began that may need a look sooner than was planned."""
        self._stirred.set()

    def tick(self) -> float:
        """Probe whom it is time to probe. Returns seconds until the next call makes sense."""
        s, now_s = self._snapshot(), self._clock.now_s()
        wait_s = self._poll_s
        for sid in s.services:
            service = s.service(sid)
            if service is None:
                continue
            soon = service.form is None or (awaits_engine(service) and sid not in s.pending)
            every_s = SOON_S if soon else self._poll_s
            due_s = self._probed_s.get(sid, float("-inf")) + every_s
            if due_s <= now_s:
                self.probe(sid)
                due_s = now_s + every_s
            wait_s = min(wait_s, due_s - now_s)
        self._asker.tick(now_s)
        return max(0.005, wait_s)

    def probe(self, sid: str) -> None:
        """Look at a service now, unless a look is under way."""
        service = self._snapshot().service(sid)
        if service is None or sid in self._probing:
            return
        self._probing.add(sid)
        self._probed_s[sid] = self._clock.now_s()
        self._spawn(f"probe {sid}", self._probe(service))

    async def _probe(self, service: Service) -> None:
        at_s = self._clock.now_s()
        try:
            async with asyncio.timeout(PROBE_LIMIT_S):
                seen = await self._drivers[service.spec.driver].observe(service)
        except (TimeoutError, HeadwayError, OSError):
            return  # unknown, and what was known grows old
        finally:
            self._probing.discard(service.id)
        if self._known(service.id, seen, at_s):
            return
        self._tell(
            Observed(
                holder=service.id,
                at_s=at_s,
                form=seen.form,
                ready=seen.ready,
                engine_active=seen.engine_active,
                upstream=seen.upstream,
                down=seen.down,
                engine=seen.engine,
            )
        )

    def _known(self, sid: str, seen: Seen, at_s: float) -> bool:
        """Would it change nothing? What is the same as a moment ago needs no turn."""
        s = self._snapshot()
        service = s.service(sid)
        if service is None or sid in s.pending or awaits_engine(service):
            return False
        if engines.news(service.engine, seen.engine, at_s):
            return False
        told = (seen.form, seen.ready, seen.engine_active, seen.upstream or service.upstream)
        now = (service.form, service.ready, service.engine_active, service.upstream)
        return told == now and (seen.form == service.bottom or not seen.down)

    # ---------------------------------------------------------------- devices

    def reading(self, reading: Reading) -> Iterable[Fact]:
        """A meter's reading with every process given to the holder whose tree it is in."""
        trouble = self._snapshot().meter_trouble
        if reading.trouble is not None:
            return [MeterSilent(trouble=reading.trouble)] if trouble != reading.trouble else []
        facts: list[Fact] = [MeterSilent(trouble=None)] if trouble is not None else []
        for device in reading.devices:
            seen: dict[str, int] = {}
            strangers: list[tuple[int, int]] = []
            per_process = device.processes is not None and all(b is not None for _, b in device.processes)
            for pid, bytes_ in device.processes or ():
                holder = self._holder(pid) if bytes_ else None
                if holder is not None and bytes_:
                    seen[holder] = seen.get(holder, 0) + bytes_
                elif bytes_:
                    strangers.append((pid, bytes_))
            found = DeviceRead(
                device=device.id,
                name=device.name,
                index=device.index,
                at_s=reading.at_s,
                total_bytes=device.total_bytes,
                used_bytes=device.used_bytes,
                free_bytes=device.free_bytes,
                seen=seen,
                confidence=device.confidence,
                pool="unified" if device.pool == "unified" else "own",
                trouble=device.trouble,
                per_process=per_process,
                strangers=tuple(sorted(strangers, key=lambda one: (-one[1], one[0]))[:STRANGERS_MAX]),
                gauges=_gauges(device.extra),
            )
            if not self._stands(found):
                self._read[device.id] = found
                facts.append(found)
        return facts

    def _holder(self, pid: int) -> str | None:
        """Whose process that is: of a run of ours, of a lease or claim, or None: a stranger's."""
        run_id = self._runs.owner(pid)
        state = self._runs.read(run_id) if run_id else None
        return state.holder if state is not None else self._visitor(pid)

    def _stands(self, found: DeviceRead) -> bool:
        """Does what was read last still hold, as nothing moves and nothing changed since? Gauges always change."""
        s, last = self._snapshot(), self._read.get(found.device)
        device = s.devices.get(found.device)
        if last is None or device is None or device.read_at_s != last.at_s or s.pending:
            return False
        fresh = found.at_s - last.at_s < FRESH_S and last.at_s >= device.last_change_s
        return fresh and _SAYS(found) == _SAYS(last)


def _gauges(extra: Mapping[str, Any]) -> Gauges:
    """What a meter says beside memory, where it has the right type."""
    numbers = {
        name: float(value)
        for name in ("util_percent", "temp_c", "power_w")
        if isinstance(value := extra.get(name), int | float)
    }
    model = extra.get("model")
    return Gauges(model=model if isinstance(model, str) else None, **numbers)


def awaits_engine(service: Service) -> bool:
    """Is it awake behind a gate that is closed and empty, so that only its own count of requests is missing?"""
    closed = service.form == service.top and service.gate.drained
    return closed and service.spec.reads_busy
