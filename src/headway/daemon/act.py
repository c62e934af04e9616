"""Carry out what was decided: one task per move, each with a limit; every outcome goes back as a fact."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from headway.core import fit
from headway.core.facts import Fact, MoveAnswered
from headway.core.model import Holder, Measure, Move, Pending, Service, Signal, Snapshot, Verdict
from headway.core.spec import device_env
from headway.daemon.run_ends import run_seen
from headway.errors import DriverFailed, HeadwayError
from headway.ports import Clock, Driver, Meter, Runs, Task

LATE_S = 3.0  # a driver keeps its own limit; this is for one that does not
MEASURE_EVERY_S, MEASURE_SELDOM_S = 0.05, 0.5
SERIES_ENDS_S = 2.0  # without one asked for in this time
TAKEN = {
    "holder": "of",
    "form": "wanted",
    "reason": "why",
    "code": "error",
    "note": "said",
    "d": "d_",
    "self": "me",
}
REMEASURE_S = 1.0  # how long to wait for a reading made right before a taking move


class Act:
    """Owns every task that moves something. There is at most one per holder.

    Args:
        tell: takes a fact into the inbox.
        snapshot: the state now.
        watch: called with (holder, run id) as soon as a run may exist.
        trouble: called with an exception nobody expected, for the log.
    """

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        runs: Runs,
        meter: Meter,
        clock: Clock,
        tell: Callable[[Fact], None],
        snapshot: Callable[[], Snapshot],
        watch: Callable[[str, str], None],
        trouble: Callable[[str, BaseException], None],
    ) -> None:
        self._drivers, self._runs, self._meter, self._clock = drivers, runs, meter, clock
        self._tell, self._snapshot, self._watch, self._trouble = tell, snapshot, watch, trouble
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._hooks: dict[str, str] = {}  # holder -> id of the hook its present move may have begun
        self._measured_s = self._series_s = float("-inf")

    def move(self, move: Move, pending: Pending, again: bool = False) -> None:
        """Begin a move. An older one of the same holder is given up first: this is its escalation.

        Args:
            again: it was begun by an earlier daemon; its memory is taken already.
        """
        before = self._tasks.pop(move.holder, None)
        task = asyncio.get_running_loop().create_task(
            self._move(move, pending, again, before), name=f"move {move.holder}"
        )
        self._tasks[move.holder] = task
        task.add_done_callback(lambda done: self._ended(move.holder, done))

    def _ended(self, holder: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(holder) is task:
            del self._tasks[holder]
            self._hooks.pop(holder, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble(f"move of {holder}", error)

    def signal(self, signal: Signal) -> None:
        run = self._snapshot().holders[signal.holder].run
        if run is not None and signal.what in ("freeze", "thaw"):
            self._runs.signal(run.id, signal.what == "freeze")

    def measure(self, _: Measure) -> None:
        """A reading now; while a release is unverified every 50 ms is enough, and less often the longer it takes."""
        now_s = self._clock.now_s()
        if now_s - self._measured_s > SERIES_ENDS_S:
            self._series_s = now_s
        every_s = min(MEASURE_SELDOM_S, MEASURE_EVERY_S * (1 + (now_s - self._series_s) / 2))
        if now_s - self._measured_s >= every_s:
            self._measured_s = now_s
            self._meter.read_now()

    async def _move(
        self, move: Move, pending: Pending, again: bool, before: asyncio.Task[None] | None
    ) -> None:
        holder = self._snapshot().holders[move.holder]
        try:
            if before is not None:
                await self._give_up(holder.id, before)
            answer = None if again else await self._refused(holder, move)
            if answer is None:
                answer = await self._answer(holder, move, pending)
        except Exception as error:  # a driver's mistake must not keep its holder waiting for the limit
            self._trouble(f"move of {holder.id}", error)
            answer = MoveAnswered(
                holder=holder.id,
                to=move.form,
                run_id=move.run_id,
                error="driver_failed",
                facts={"message": repr(error)},
            )
        self._tell(answer)
        self._meter.read_now()

    async def _give_up(self, holder: str, before: asyncio.Task[None]) -> None:
        """End the attempt that this one takes the place of, and the hook it may have begun."""
        before.cancel()
        await asyncio.wait([before], timeout=LATE_S)
        if (hook := self._hooks.pop(holder, None)) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LATE_S):
                    await self._runs.stop(hook, 0.0)

    async def _refused(self, holder: Holder, move: Move) -> MoveAnswered | None:
        """Memory measured again, right before it is taken."""
        if move.frees or not move.devices:
            return None
        asked_s = self._clock.now_s()
        s = self._snapshot()
        if all(s.devices[d].confidence == "declared" for d in move.devices):
            return None
        self._meter.read_now()
        while any((self._snapshot().devices[d].read_at_s or 0.0) < asked_s for d in move.devices):
            if self._clock.now_s() - asked_s > REMEASURE_S:
                if isinstance(holder, Service):
                    return None  # the way back of a model is never blocked by a meter
                return _not_begun(holder, move, Verdict(code="reading_too_old"))
            await asyncio.sleep(0.002)
        s = self._snapshot()
        no = fit.measured(s.holders[holder.id], move.form, move.devices, s)
        return _not_begun(holder, move, no) if no else None

    async def _answer(self, holder: Holder, move: Move, pending: Pending) -> MoveAnswered:
        task = self._task(holder, move, pending)
        self._hooks[holder.id] = task.hook_id
        made: dict[str, Any] = {"holder": holder.id, "to": move.form, "run_id": move.run_id}
        try:
            self._watched(move)
            async with asyncio.timeout(move.limit_s + LATE_S):
                moved = await self._drivers[holder.spec.driver].move(task)
        except TimeoutError:
            return MoveAnswered(**made, error="limit_passed", facts={"limit_s": move.limit_s})
        except DriverFailed as error:
            facts = {**error.facts, "message": str(error)}
            return MoveAnswered(**made, error=error.code, facts=plain(facts))
        except (HeadwayError, OSError) as error:
            return MoveAnswered(**made, error="driver_failed", facts={"message": str(error)})
        finally:
            self._watched(move)  # a run that came later than anybody waits for one
        if move.run_id is not None and (state := self._runs.read(move.run_id)) is not None:
            self._tell(
                run_seen(self._runs, holder.id, state)
            )  # its run's begin or end is known before its move is over
        return MoveAnswered(**made, upstream=moved.upstream, facts=plain(moved.facts))

    def _watched(self, move: Move) -> None:
        if move.run_id is not None:
            self._watch(move.holder, move.run_id)

    def _task(self, holder: Holder, move: Move, pending: Pending) -> Task:
        run_id = move.run_id or (holder.run.id if holder.run else f"{holder.id}.0")
        devices = move.devices or holder.devices
        return Task(
            holder=holder,
            form=move.form,
            device_env=device_env(devices),
            limit_s=move.limit_s,
            run_id=run_id,
            hook_id=hook_id(run_id, pending),
            kill=move.kill,
        )

    async def stop(self) -> None:
        """Give up every task. What they began goes on, and is found again by its files."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _not_begun(holder: Holder, move: Move, no: Verdict) -> MoveAnswered:
    return MoveAnswered(
        holder=holder.id, to=move.form, run_id=move.run_id, error=no.code, facts=plain(no.facts), refused=True
    )


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts from outside as values that can be saved, under names that an event has not taken for its own."""
    named = {TAKEN.get(name, name): value for name, value in facts.items()}
    found: dict[str, Any] = json.loads(json.dumps(named, default=str, skipkeys=True), parse_constant=str)
    return found


def hook_id(run_id: str, pending: Pending) -> str:
    """The id of the hook of one move: the same after a restart of the daemon, another for another move."""
    return f"{run_id}.{pending.to}.{round(pending.started_s * 1000)}"
