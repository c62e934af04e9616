"""Programs on the false machine that Headway did not start: they ask for a lease, or are counted by a claim."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from headway.core.commands import AskLease, Claim, EndLease, RenewLease, Reply
from headway.core.leases import spec_of
from headway.core.model import Lease
from headway.drivers.lease import MOVES
from headway.ports import Root
from headway.sim.machine import Process

if TYPE_CHECKING:
    from headway.sim.world import World

LOOK_S = 1.0
START_TICKS = 7
VISIT = "visit"


class Visitors:
    """Implements ports.Processes, and plays the programs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked: dict[str, str] = {}  # ask key -> lease id

    # ---------------------------------------------------------------- the port

    def alive(self, root: Root) -> bool:
        return root.pid in self._world.machine.processes

    def among(self, pid: int, roots: Collection[Root]) -> Root | None:
        return next((root for root in roots if root.pid == pid), None)

    def matching(self, pattern: str) -> frozenset[int]:
        return frozenset()

    def matches(self, pid: int, pattern: str) -> bool:
        return False

    def above(self, pid: int) -> frozenset[int]:
        return frozenset((pid,))

    def start_ticks(self, pid: int) -> int | None:
        return START_TICKS if pid in self._world.machine.processes else None

    def listeners(self, port: int) -> tuple[int, ...]:
        """Every third server that somebody started is in a container, where nobody sees which process listens."""
        process = self._world.machine.ports.get(port)
        return () if process is None or process.pid % 3 == 0 else (process.pid,)

    def called(self, pid: int) -> str:
        return VISIT

    def kill_one(self) -> bool:
        """One of them ends without a word. False: there is none."""
        living = [p for p in self._world.machine.processes.values() if p.run_id == VISIT]
        if living:
            self._ends(self._world.chance.choice(living))
        return bool(living)

    # ---------------------------------------------------------------- one that asks

    def ask(
        self, need_bytes: int | None, takes_bytes: int, count: int, works_s: float, **given: object
    ) -> None:
        """A program asks, takes what it was granted, works, and says that it is done, or just ends.

        Args:
            need_bytes: what it asks for on each device; None: all of it.
            takes_bytes: what it then takes.
        """
        world = self._world
        process = world.machine.process()
        process.run_id = VISIT  # ours to count, so its overcommit is no excuse
        process.guessed = need_bytes is None
        key = f"ask{process.pid}"
        spec = spec_of("visit", MOVES, need_bytes, count, min_residency_s=0.0)
        ask = AskLease(
            spec=spec,
            pid=process.pid,
            start_ticks=START_TICKS,
            ask_key=key,
            by="sim",
            **given,  # type: ignore[arg-type]
        )
        self._say(ask, lambda reply: self._answered(reply, key, process, takes_bytes, works_s))

    def _say(self, command: object, answered: Callable[[Reply | None], None]) -> None:
        """Hand a command to the daemon; None when it is away, or died before it answered."""
        world, listening = self._world, self._world.listening
        if listening is None or listening.daemon is None:
            world.loop.later(0.0, answered, None)
            return
        future = listening.life.context.run(listening.daemon.loop.submit, command)  # type: ignore[arg-type]
        said = False

        def once(reply: Reply | None) -> None:
            nonlocal said
            if not said:
                said = True
                answered(reply)

        future.add_done_callback(lambda done: once(done.result()), context=world.loop.world)
        world.loop.later(20.0, once, None)

    def _answered(
        self, reply: Reply | None, key: str, process: Process, takes_bytes: int, works_s: float
    ) -> None:
        """Nobody knows whether an ask without an answer was heard: this program gives up, and ends."""
        if reply is None or not reply.accepted or reply.holder is None:
            self._ends(process)
            return
        self.asked[key] = reply.holder
        self._wait(reply.holder, process, takes_bytes, works_s, self._world.loop.now_s)

    def _wait(self, lease: str, process: Process, takes_bytes: int, works_s: float, waited_s: float) -> None:
        """Look at its lease now and then until it is granted or over.

        Args:
            waited_s: when it was last seen to wait: its grant was decided after that.
        """
        if not process.alive:
            return
        s = self._world.snapshot()
        now = s.holders.get(lease) if s is not None else None
        if s is not None and (not isinstance(now, Lease) or now.ended is not None):
            self._ends(process)
        elif isinstance(now, Lease) and now.form == now.top:  # asked back already or not: it heard its grant
            late_s = self._world.chance.uniform(0.0, 4.0)
            devices = now.devices
            self._world.loop.later(
                late_s, lambda: self._takes(lease, process, devices, takes_bytes, waited_s, works_s)
            )
        elif (why := self._world.verdicts().get(lease)) is not None and why.code == "shadow":
            self._runs_unasked(process, takes_bytes, works_s)
        else:
            waited_s = waited_s if s is None or lease in s.pending else self._world.loop.now_s
            self._world.loop.later(LOOK_S, self._wait, lease, process, takes_bytes, works_s, waited_s)

    def _runs_unasked(self, process: Process, takes_bytes: int, works_s: float) -> None:
        """In shadow mode `headway run` starts its command at once, whatever is free."""
        cards = list(self._world.machine.cards.values())
        process.run_id = None  # nobody kept room for it
        if cards:
            card = self._world.chance.choice(cards)
            free = card.total_bytes - self._world.machine.used_bytes(card.id)
            self._world.machine.take(process, (card.id,), min(takes_bytes, max(free, 0)), 0.0)
        self._world.seen["lease unasked"] += 1
        self._world.loop.later(works_s, self._ends, process)

    def _takes(
        self,
        lease: str,
        process: Process,
        devices: tuple[str, ...],
        takes_bytes: int,
        asked_s: float,
        works_s: float,
    ) -> None:
        if not process.alive:
            return
        if not self._world.machine.take(process, devices, takes_bytes, asked_s):
            self._ends(process)
            return
        self._world.seen["lease granted"] += 1
        self._world.loop.later(works_s, self._done, lease, process)

    def _done(self, lease: str, process: Process) -> None:
        """Half of them say so, give back their memory and live on a little; the others just end."""
        if process.alive and self._world.chance.random() < 0.5:
            self._world.machine.give_back(process)
            self._say(EndLease(target=lease), lambda reply: None)
            self._world.loop.later(5.0, self._ends, process)
        else:
            self._ends(process)

    def _ends(self, process: Process) -> None:
        if process.alive:
            self._world.machine.ends(process, lingers=False)

    # ---------------------------------------------------------------- a remote one, and a claim

    def remote(self, need_bytes: int, ttl_s: float, renewals: int) -> None:
        """A lease without a process here: it lives by being renewed, and lapses."""
        spec = spec_of("remote", MOVES, need_bytes, 1, min_residency_s=0.0)
        ask = AskLease(spec=spec, ttl_s=ttl_s, wait_limit_s=60.0, by="sim")

        def renew(lease: str, left: int) -> None:
            if left:
                self._say(RenewLease(target=lease), lambda reply: None)
                self._world.loop.later(ttl_s / 3, renew, lease, left - 1)

        def answered(reply: Reply | None) -> None:
            if reply is not None and reply.accepted and reply.holder is not None:
                renew(reply.holder, renewals)

        self._say(ask, answered)

    def claim(self, takes_bytes: int, block: bool, lives_s: float) -> None:
        """Somebody starts something by hand, and says so."""
        world = self._world
        if not world.machine.cards:
            return
        card = world.chance.choice(list(world.machine.cards.values()))
        process = world.machine.process()
        free = card.total_bytes - world.machine.used_bytes(card.id)
        if not world.machine.take(process, (card.id,), min(takes_bytes, max(free, 0)), 0.0):
            return
        claim = Claim(name="by-hand", pid=process.pid, start_ticks=START_TICKS, block=block, by="sim")
        self._say(claim, lambda reply: None)
        world.loop.later(lives_s, self._ends, process)
