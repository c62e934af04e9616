"""The simulation itself: virtual time, killed lives, equal traces, faults that end, and checks that find what is broken."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest

from headway.core import fit, push, room, steps
from headway.core.model import GIB
from headway.daemon.tail import Tail
from headway.sim.faults import FAULTS
from headway.sim.loop import AT_ONCE_MAX, BEGIN_S, Life, SimLoop, Stuck
from headway.sim.machine import Machine
from headway.sim.play import REST_S, play
from headway.sim.scenario import Scenario
from headway.sim.wires import End, Wire
from headway.sim.world import World

pytestmark = pytest.mark.sim

SHORT_S = 300.0
FEW_S = 900.0  # busy time in which a broken rule is found by one of a few seeds


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop()
    asyncio.set_event_loop(made)
    yield made
    made.bury()
    asyncio.set_event_loop(None)


# ---------------------------------------------------------------- virtual time


def test_a_year_of_sleep_passes_at_once(loop: SimLoop) -> None:
    loop.run_until_complete(asyncio.sleep(365 * 86400.0))
    assert loop.now_s == BEGIN_S + 365 * 86400.0


def test_a_limit_passes_in_virtual_time(loop: SimLoop) -> None:
    async def hangs() -> None:
        async with asyncio.timeout(30.0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        loop.run_until_complete(hangs())
    assert loop.now_s == BEGIN_S + 30.0


def test_when_nothing_can_happen_any_more_it_says_so(loop: SimLoop) -> None:
    with pytest.raises(Stuck, match="nothing can happen"):
        loop.run_until_complete(asyncio.Event().wait())


@pytest.mark.parametrize("soon", [True, False], ids=["it never waits", "it is due at once"])
def test_one_that_is_due_again_and_again_at_one_instant_is_found(loop: SimLoop, soon: bool) -> None:
    def again() -> None:
        if soon:
            loop.call_soon(again)
        else:
            loop.call_at(loop.time(), again)

    again()
    with pytest.raises(Stuck, match="again and again.*again"):
        loop.run_until_complete(asyncio.Event().wait())


def test_many_rounds_are_nothing_wrong_where_time_goes_on(loop: SimLoop) -> None:
    async def ticks() -> None:
        for _ in range(AT_ONCE_MAX + 1):
            await asyncio.sleep(0.001)

    loop.run_until_complete(ticks())


def test_what_no_task_hears_is_kept(loop: SimLoop) -> None:
    loop.later(1.0, lambda: [].pop())
    loop.run_until_complete(asyncio.sleep(2.0))
    assert len(loop.wrong) == 1 and "IndexError" in loop.wrong[0]


# ---------------------------------------------------------------- killed lives


class Victim:
    """A process that waits for something, writes when it goes on, and cleans up behind itself."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop, self.did, self.ended = loop, [], 0
        self.life = Life("victim", self._ended)

    def start(self, *works: Callable[[], Any]) -> None:
        for work in works:
            self.life.context.run(self.loop.create_task, work())

    def _ended(self) -> None:
        self.ended += 1

    did: list[str]

    async def sleeps(self) -> None:
        try:
            await asyncio.sleep(10.0)
            self.did.append("went on")
        finally:
            self.did.append("finally")

    async def in_thread(self) -> None:
        await asyncio.to_thread(self.did.append, "in a thread")

    async def again_and_again(self) -> None:
        while True:
            self.did.append("turn")
            await asyncio.sleep(0)


def test_a_killed_life_runs_no_more_not_even_its_finally(loop: SimLoop) -> None:
    victim = Victim(loop)
    victim.start(victim.sleeps)
    loop.later(9.0, victim.did.append, "its own timer", life=victim.life)
    loop.later(5.0, loop.kill, victim.life)
    loop.run_until_complete(asyncio.sleep(100.0))
    assert victim.did == [] and victim.ended == 1


def test_one_that_is_not_killed_does_all_of_it(loop: SimLoop) -> None:
    victim = Victim(loop)
    victim.start(victim.sleeps)
    loop.run_until_complete(asyncio.sleep(100.0))
    assert victim.did == ["went on", "finally"] and victim.ended == 0


def test_what_was_in_a_thread_is_made_whole_or_not_at_all(loop: SimLoop) -> None:
    early, late = Victim(loop), Victim(loop)
    early.start(early.in_thread)
    late.start(late.in_thread)
    loop.later(0.001, loop.kill, early.life)  # a call in a thread takes 2 ms
    loop.later(0.003, loop.kill, late.life)
    loop.run_until_complete(asyncio.sleep(1.0))
    assert (early.did, late.did) == ([], ["in a thread"])


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_a_fuse_kills_after_so_many_callbacks(loop: SimLoop, turns: int) -> None:
    victim = Victim(loop)
    victim.life.fuse = turns
    victim.start(victim.again_and_again)
    loop.run_until_complete(asyncio.sleep(1.0))
    assert len(victim.did) == turns and not victim.life.alive and victim.ended == 1


def test_killing_one_life_leaves_the_others_alone(loop: SimLoop) -> None:
    victim, other = Victim(loop), Victim(loop)
    for one in (victim, other):
        one.start(one.sleeps)
    loop.later(5.0, loop.kill, victim.life)
    loop.run_until_complete(asyncio.sleep(100.0))
    assert other.did == ["went on", "finally"]


# ---------------------------------------------------------------- seeds


def test_a_seed_is_the_same_each_time_and_another_one_is_not() -> None:
    first, second, other = (play(seed, busy_s=SHORT_S) for seed in (11, 11, 12))
    assert first.digest == second.digest and first.last == second.last and first.seen == second.seen
    assert first.digest != other.digest


def test_without_faults_none_comes() -> None:
    result = play(11, "", SHORT_S)
    assert not result.violations
    assert not [what for what in result.seen if what.startswith("fault ")]


def test_only_the_chosen_faults_come() -> None:
    result = play(13, "link_drops,clock_jumps", FEW_S)
    came = {what for what in result.seen if what.startswith("fault ")}
    assert came and came <= {"fault link_drops", "fault clock_jumps"}


def test_looking_at_the_board_changes_nothing() -> None:
    looks: list[float] = []
    heard: list[str] = []
    shown = play(11, busy_s=SHORT_S, board=lambda world: looks.append(world.loop.now_s), told=heard.append)
    assert shown.digest == play(11, busy_s=SHORT_S).digest
    assert len(looks) >= SHORT_S / 30.0 and tuple(heard[-len(shown.last) :]) == shown.last


# ---------------------------------------------------------------- what is broken is found


def unmeasured(patch: pytest.MonkeyPatch) -> None:
    """A start does not look at what is free."""
    patch.setattr(fit, "measured", lambda *_: None)


def pushed_at_once(patch: pytest.MonkeyPatch) -> None:
    """Nobody has a residency."""
    patch.setattr(room, "PUSH", tuple(rule for rule in push.PUSH if rule is not push.residency))


def not_drained(patch: pytest.MonkeyPatch) -> None:
    """A model is put aside whatever its gate says."""
    patch.setattr(steps.Steps, "_drained", lambda *_: True)


def moves_at_once(patch: pytest.MonkeyPatch) -> None:
    """A device is locked by no move."""
    patch.setattr(steps.Steps, "_blocked", lambda *_: False)


BROKEN = {
    "memory is not measured": (unmeasured, "overcommit"),
    "no residency": (pushed_at_once, "is pushed by"),
    "not drained": (not_drained, "while it"),
    "no lock on a device": (moves_at_once, "moves there"),
}


@pytest.mark.parametrize(("breaks", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, breaks: Callable[[pytest.MonkeyPatch], None], said: str
) -> None:
    breaks(monkeypatch)
    found = (play(seed, busy_s=FEW_S).violations for seed in range(1, 60))
    assert any(said in sentence for violations in found for sentence in violations)


def test_a_board_that_cannot_be_shown_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("no such sentence")

    monkeypatch.setattr("headway.core.view.explain", fails)
    assert "cannot be shown" in play(11, busy_s=SHORT_S).violations[0]


def test_the_end_waits_until_the_daemon_has_read_what_the_gates_wrote_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Tail.read

    def late(tail: Tail) -> Any:
        return read(tail) if asyncio.get_running_loop().time() > until_s else ([], {})

    monkeypatch.setattr(Tail, "read", late)
    monkeypatch.setattr("headway.sim.play.LAST_S", 3 * REST_S)
    until_s = Scenario(11, {}, SHORT_S).end_s + 2 * REST_S
    waits = play(11, busy_s=SHORT_S)
    assert waits.violations == () and waits.virtual_s > 2 * REST_S
    until_s = float("inf")
    assert "request log" in play(11, busy_s=SHORT_S).violations[0]


def test_a_promise_to_more_than_there_is_found_by_the_machine_itself() -> None:
    wrong: list[str] = []
    machine = Machine(lambda: 100.0, wrong.append)
    card = machine.add_card("gpu0", 24 * GIB)
    first, second = machine.process("j1.1"), machine.process("j2.1")
    assert machine.take(first, (card.id,), 16 * GIB, 90.0) and not wrong
    assert not machine.take(second, (card.id,), 12 * GIB, 90.0)
    assert len(wrong) == 1 and "overcommit" in wrong[0]
    assert machine.used_bytes(card.id) == 16 * GIB


@pytest.mark.parametrize(
    ("unseen_s", "wrong"),
    [((60.0, math.inf), 0), ((60.0, 105.0), 0), ((60.0, 90.0), 1), ((99.0, math.inf), 1), (None, 1)],
)
def test_what_a_stranger_took_while_nobody_could_see_it_is_nobody_s_fault(
    unseen_s: tuple[float, float] | None, wrong: int
) -> None:
    """It took the memory at 70 s; at 100 s a job was started."""
    found: list[str] = []
    machine = Machine(lambda: 70.0, found.append)
    card = machine.add_card("gpu0", 24 * GIB)
    assert machine.take(machine.process(), (card.id,), 16 * GIB, 0.0)
    machine.unseen_s = unseen_s or machine.unseen_s
    assert not machine.take(machine.process("j1.1"), (card.id,), 12 * GIB, 100.0)
    assert len(found) == wrong


# ---------------------------------------------------------------- faults


def wounds(world: World) -> dict[str, Any]:
    """All that a fault may change for a while."""
    return {
        "habits": {name: asdict(habit) for name, habit in world.habits.items()},
        "meter": world.meter_mode,
        "disk": (world.disk.full, world.disk.hangs_until_s > world.loop.now_s),
        "supervisor": (world.supervisor.there, world.supervisor.gate_lives_on),
        "gates": [gate.frozen for gate in world.gates.values() if gate.life.alive],
        "strangers": [p.pid for p in world.machine.processes.values() if p.run_id is None and p.bytes_],
    }


QUIET: dict[str, Any] = {"meter": "ok", "disk": (False, False), "supervisor": (True, False)}


@pytest.fixture
def world() -> Iterator[World]:
    """A busy one without faults."""
    made = Scenario(21, {}, 3000.0).world
    asyncio.set_event_loop(made.loop)
    yield made
    made.over = True
    made.loop.bury()
    asyncio.set_event_loop(None)


def test_what_a_stopped_link_kept_comes_in_the_order_in_which_it_was_sent(world: World) -> None:
    got: list[bytes] = []
    link, life = Wire(world), Life("reader", lambda: None)
    link.ends = (End(life, got.append, lambda: None), End(life, got.append, lambda: None))
    link.stopped_until_s = world.loop.now_s + 5.0
    sent = [b"%d " % number for number in range(50)]
    for piece in sent:
        link.send(piece, 1)
    world.loop.run_until_complete(asyncio.sleep(6.0))
    assert b"".join(got) == b"".join(sent)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_comes_and_ends_when_the_world_is_healed(world: World, name: str) -> None:
    """In the first moment of a busy hour in which there is something for it to happen to."""

    async def hour() -> None:
        before = wounds(world)
        while not FAULTS[name](world):
            assert world.loop.now_s < BEGIN_S + 3000.0, f"there is never anything for {name} to happen to"
            await asyncio.sleep(1.0)
            before = wounds(world)
        world.heal()
        after = wounds(world)
        assert after | QUIET == after
        assert {holder: after["habits"][holder] for holder in before["habits"]} == before["habits"]
        assert not any(after["gates"]) and after["strangers"] == before["strangers"]
        await asyncio.sleep(60.0)
        assert not world.violations and wounds(world) | QUIET == wounds(world)

    world.loop.run_until_complete(hour())


LASTING = (
    "lies_sleeping",
    "meter_silent",
    "disk_full",
    "commits_hang",
    "gate_stops",
    "gate_lives_on",
    "supervisor_gone",
    "stranger",
)


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_is_there_until_then(world: World, name: str) -> None:
    async def moment() -> None:
        await asyncio.sleep(1.0)
        before = wounds(world)
        assert FAULTS[name](world)
        assert wounds(world) != before

    world.loop.run_until_complete(moment())
