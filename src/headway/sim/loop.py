"""An event loop in virtual time that can kill a process: it jumps to the next timer, and a killed life runs no more.

Every callback carries the context it was made in. A context that belongs to a life which was killed is never entered
again: no `finally`, no last write, exactly as after SIGKILL. The world itself has no life and goes on.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple

BEGIN_S = 1000.0  # what a virtual clock shows first
AT_ONCE_MAX = (
    20_000  # rounds at one instant: more than that is somebody who waits for time to pass, and asks again
)
TASKS_MAX = 200
Result = TypeVar("Result")
Given = TypeVarTuple("Given")


class Stuck(Exception):
    """Everybody waits, and no timer will ever wake one."""


class Life:
    """One process of the false machine, from its start to its end.

    Args:
        name: for people.
        ended: called once, in no life, when it is over.
    """

    __slots__ = ("alive", "context", "ended", "fuse", "name")

    def __init__(self, name: str, ended: Callable[[], None]) -> None:
        self.name, self.ended = name, ended
        self.alive = True
        self.fuse: int | None = None  # callbacks until it is killed
        self.context: Context = copy_context()
        self.context.run(LIFE.set, self)


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class Call(asyncio.TimerHandle):
    """A callback that waits for its turn. Lighter than asyncio's own, of which each asks whether this is debugging."""

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, when_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self._when, self._cancelled = when_s, False
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context if context is not None else copy_context()

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __lt__(self, other: object) -> bool:
        return False  # of two at the same time neither is sooner

    def cancel(self) -> None:
        self._cancelled, self.callback, self.args = True, None, ()


class SimLoop(asyncio.BaseEventLoop):
    """No sockets, no threads. What would run in a thread runs at once, some virtual time later.

    Args:
        thread_s: how long the next call in a thread takes.
    """

    def __init__(self, thread_s: Callable[[], float] = lambda: 0.002) -> None:
        super().__init__()
        self.now_s = BEGIN_S
        self._rounds = 0  # at this instant
        self.world: Context = copy_context()
        self.wrong: list[str] = []  # what no task was there to hear
        self._thread_s = thread_s
        self._soon: deque[Call] = deque()
        self._timers: list[tuple[float, Call]] = []  # a heap
        self._tasks: dict[asyncio.Task[Any], Life | None] = {}  # those that are over too, until they are many
        self._tasks_max = TASKS_MAX
        self._dead: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now_s

    # ---------------------------------------------------------------- the world's own timers

    def later(
        self, after_s: float, call: Callable[..., object], *args: Any, life: Life | None = None
    ) -> None:
        """Call it after that time, as part of the world, or of a life if that still lives then."""
        context = self.world if life is None else life.context
        self.call_at(self.now_s + after_s, call, *args, context=context)

    def kill(self, life: Life) -> None:
        """SIGKILL: nothing of it runs from here on."""
        if not life.alive:
            return
        life.alive = False
        for task, of in list(self._tasks.items()):
            if of is life and not task.done():
                self._dead.append(task)  # kept whole: a coroutine that is collected would run its `finally`
                del self._tasks[task]
        self.call_soon(life.ended, context=self.world)

    # ---------------------------------------------------------------- inside

    def _run_once(self) -> None:
        """One round: go to the next timer if nothing is ready, then run what is ready, dead lives aside."""
        ready, timers = self._soon, self._timers
        while timers and timers[0][1].callback is None:
            heapq.heappop(timers)
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Stuck(f"nothing can happen after t={self.now_s:.3f} s")
            if timers[0][0] > self.now_s:
                self.now_s, self._rounds = timers[0][0], 0
        self._rounds += 1
        if self._rounds > AT_ONCE_MAX:
            due = ready[0] if ready else timers[0][1]
            raise Stuck(f"somebody is due again and again at t={self.now_s:.6f} s: {due.callback}")
        while timers and timers[0][0] <= self.now_s:
            ready.append(heapq.heappop(timers)[1])
        for _ in range(len(ready)):
            call = ready.popleft()
            if call.callback is None:
                continue
            life: Life | None = call.context.get(LIFE)
            if life is not None:
                if not life.alive:
                    continue
                if life.fuse is not None:
                    life.fuse -= 1
                    if life.fuse < 0:
                        self.kill(life)
                        continue
            try:
                call.context.run(call.callback, *call.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # as asyncio does
                self.call_exception_handler({"message": f"in {call.callback}", "exception": error})

    def call_soon(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> Call:
        call = Call(self.now_s, callback, args, context)
        self._soon.append(call)
        return call

    def call_at(
        self, when: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> Call:
        call = Call(when, callback, args, context)
        heapq.heappush(self._timers, (when, call))
        return call

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Given], object],
        *args: *Given,
        context: Context | None = None,
    ) -> Call:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **given)
        context = given.get("context")
        self._tasks[task] = context.get(LIFE) if context is not None else LIFE.get()
        if len(self._tasks) > self._tasks_max:
            self._tasks = {task: life for task, life in self._tasks.items() if not task.done()}
            self._tasks_max = TASKS_MAX + 2 * len(self._tasks)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        """`asyncio.to_thread` ends here: the call is made whole after a while, unless its process died before."""
        future: asyncio.Future[Result] = self.create_future()
        context = copy_context()
        self.call_at(self.now_s + self._thread_s(), self._in_thread, future, func, args, context=context)
        return future

    def _in_thread(
        self, future: asyncio.Future[Result], func: Callable[..., Result], args: tuple[Any, ...]
    ) -> None:
        try:
            found = func(*args)
        except Exception as error:
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(found)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "was destroyed" not in context.get("message", ""):
            self.wrong.append(f"{context.get('message')}: {error!r}")

    def _write_to_self(self) -> None:
        pass  # nobody waits in a selector

    def _process_events(self, event_list: Any) -> None:
        pass

    def bury(self) -> None:
        """At the end: close what the dead left, quietly; then the loop itself."""
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # a `finally` may make a coroutine that nobody will await
        for task in [*self._dead, *self._tasks]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work: Any = task.get_coro()
            for _ in range(3):
                try:
                    work.close()
                    break
                except BaseException:  # what its `finally` says matters to nobody
                    continue
        self._dead.clear()
        self._tasks.clear()
        self.close()
