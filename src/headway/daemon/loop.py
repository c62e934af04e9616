"""The loop: observe, ask one pure function what to do, write it down, do it. The only writer of the state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headway.core import wishes
from headway.core.commands import Command, Reply
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import Fact
from headway.core.fold import decided, fold
from headway.core.history import Histories
from headway.core.model import Decision, Measure, Move, Signal, Snapshot
from headway.daemon.act import Act
from headway.daemon.hub import StateHub
from headway.daemon.record import Recorder
from headway.daemon.undo import NOTHING, Undo, marked
from headway.ports import Clock

TURN_S = 1.0  # at least one turn in this time
FASTEST_S = 0.005  # and at most 200 a second
RECHECK_S = 0.02  # `recheck_at_s` may lie in the past while something outside is awaited


class Loop:
    """Implements ports.Inbox. Facts and commands come in, one turn at a time goes over all of them."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Clock,
        hub: StateHub,
        act: Act,
        recorder: Recorder,
        histories: Histories,
        gates: Callable[[Snapshot, Decision], None],
        turn_s: float = TURN_S,
    ) -> None:
        self._s, self._clock, self._hub, self._act = snapshot, clock, hub, act
        self._recorder, self._histories, self._gates, self._turn_s = recorder, histories, gates, turn_s
        self._facts: list[Fact] = []
        self._commands: list[tuple[Command, asyncio.Future[Reply]]] = []
        self._undo = NOTHING  # of the last turn's commands, if it could not be saved
        self._wake = asyncio.Event()
        self.turns, self.turned_s = 0, clock.now_s()

    def tell(self, *facts: Fact) -> None:
        """Take facts in; the next turn sees them."""
        self._facts.extend(facts)
        self._wake.set()

    def submit(self, command: Command) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._commands.append((command, reply))
        self._wake.set()
        return reply

    async def run(self) -> None:
        """Turns until cancelled."""
        recheck_at_s = float("inf")
        while True:
            wait_s = min(self._turn_s, max(RECHECK_S, recheck_at_s - self._clock.now_s()))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):  # wait_for may swallow a cancel on Python 3.11
                    await self._wake.wait()
            self._wake.clear()
            recheck_at_s = (await self.turn()).recheck_at_s or float("inf")
            if (rest_s := FASTEST_S - (self._clock.now_s() - self.turned_s)) > 0:
                await asyncio.sleep(rest_s)

    async def turn(self) -> Decision:
        """One pass: fold, decide, save, act, answer."""
        self.turned_s = self._clock.now_s()
        facts, commands, self._facts, self._commands = self._facts, self._commands, [], []
        draft = Draft(self._s, self.turned_s)
        for fact in (*self._recorder.facts(), *facts):
            fold(draft, fact)
        self._histories.look(draft, self._hub.verdicts)
        self._undo.apply(draft)
        plain = marked(draft)
        replies = [(self._apply(draft, command), reply) for command, reply in commands]
        self._undo = Undo.of(plain, draft) if commands else NOTHING
        decision = decide(draft.view())
        decided(draft, decision)
        self._s = draft.done()
        self.turns += 1
        self._hub.publish(self._s, decision.verdicts, frozenset(draft.changed))
        self._gates(self._s, decision)
        freeing = (False,) if self._undo is NOTHING else ()  # what was asked for waits until it is saved
        self._do(decision, freeing, saved=False)
        if saved := await self._recorder.save(draft, self._s):
            self._undo = NOTHING
        self._do(decision, (True,) if freeing else (False, True), saved)
        for answer, reply in replies:
            if not reply.done():
                reply.set_result(answer if saved else self._recorder.unsaved(answer))
        return decision

    def _apply(self, draft: Draft, command: Command) -> Reply:
        if not self._recorder.ok:
            return self._recorder.unsaved(Reply(accepted=False, code="", facts={}, rev=self._s.rev))
        return wishes.apply(draft, command)

    def _do(self, decision: Decision, creating: tuple[bool, ...], saved: bool) -> None:
        sure = self._undo is NOTHING  # else it may follow from a command that is taken back
        for action in decision.actions:
            match action:  # the gates were told by their revision in the snapshot
                case Move() if action.creates in creating:
                    pending = self._s.pending[action.holder]
                    if sure and self._recorder.allows(action, pending, self._s, saved):
                        self._act.move(action, pending)
                    else:
                        self.tell(self._recorder.refusal(action))
                case Measure() if False in creating:
                    self._act.measure(action)
                case Signal() if False in creating:
                    self._act.signal(action)
