"""Everything that goes wrong: one function each, chosen and timed by the seed. Each says what ends it, if anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from textwrap import fill
from typing import TYPE_CHECKING

from headway.core.model import GIB
from headway.sim.programs import Habit, JobProgram, Server

if TYPE_CHECKING:
    from headway.sim.world import World

Fault = Callable[["World"], bool]  # False: there was nothing it could happen to

FAULTS: dict[str, Fault] = {}


def fault(act: Fault) -> Fault:
    """Registers it under its own name."""
    FAULTS[act.__name__] = act
    return act


def _for_a_while(world: World, habit: Habit, at_most_s: float, **changes: object) -> None:
    for name, value in changes.items():
        world.healthy.setdefault(
            (id(habit), name), getattr(habit, name)
        )  # another fault may be on it already
        setattr(habit, name, value)

    def over() -> None:
        for name in changes:
            setattr(habit, name, world.healthy[id(habit), name])

    world.until_healed(world.chance.uniform(5.0, at_most_s), over)


def _service_habit(world: World) -> Habit:
    return world.habit(world.chance.choice(world.services).name)


def _jobs(world: World) -> list[JobProgram]:
    return [p for p in world.runs.living() if isinstance(p, JobProgram)]


def _any_habit(world: World) -> Habit:
    jobs = _jobs(world)
    return world.chance.choice(jobs).habit if jobs and world.chance.random() < 0.5 else _service_habit(world)


@fault
def lies_stopping(world: World) -> bool:
    """A server or a job takes TERM and goes on."""
    _for_a_while(world, _any_habit(world), 120.0, stays=True)
    return True


@fault
def lies_sleeping(world: World) -> bool:
    """A server or a job says that it stepped aside and keeps all its memory."""
    _for_a_while(world, _any_habit(world), 120.0, lies="keeps")
    return True


@fault
def falls_late(world: World) -> bool:
    """Memory is given back some time after it was said."""
    _for_a_while(world, _any_habit(world), 200.0, falls_s=world.chance.uniform(0.5, 20.0))
    return True


@fault
def falls_half(world: World) -> bool:
    """Only half of the memory is given back."""
    _for_a_while(world, _any_habit(world), 120.0, lies="half")
    return True


@fault
def leaves_children(world: World) -> bool:
    """A child process lives on for a while after its parent ended."""
    _for_a_while(world, _any_habit(world), 300.0, leaves_s=world.chance.uniform(0.1, 5.0))
    return True


@fault
def stranger(world: World) -> bool:
    """A process that is not ours takes up to 2 GiB, and goes."""
    if not world.machine.cards:
        return False
    card = world.chance.choice(list(world.machine.cards.values()))
    process = world.machine.process()
    free = card.total_bytes - world.machine.used_bytes(card.id)
    world.machine.take(process, (card.id,), min(world.chance.randrange(2 * GIB), max(free, 0)), 0.0)

    def leaves() -> None:
        world.machine.ends(process, lingers=False)

    world.until_healed(world.chance.uniform(1.0, 120.0), leaves)
    return True


def _meter(world: World, mode: str, at_most_s: float) -> bool:
    if world.meter_mode != "ok":
        return False
    world.meter_mode = mode
    world.machine.hide(unread=mode != "frozen")

    def over() -> None:
        world.meter_mode = "ok"
        world.machine.show()

    world.until_healed(world.chance.uniform(1.0, at_most_s), over)
    return True


@fault
def reading_na(world: World) -> bool:
    """The card answers N/A."""
    return _meter(world, "na", 60.0)


@fault
def reading_frozen(world: World) -> bool:
    """The meter shows the same numbers again and again."""
    return _meter(world, "frozen", 30.0)


@fault
def reading_late(world: World) -> bool:
    """A reading takes ten seconds: it is old when it comes."""
    return _meter(world, "late", 90.0)


@fault
def meter_silent(world: World) -> bool:
    """The meter gives no reading at all."""
    return _meter(world, "silent", 60.0)


@fault
def wake_hangs(world: World) -> bool:
    """A wake or resume is never answered."""
    _for_a_while(world, _any_habit(world), 120.0, back="hangs")
    return True


@fault
def wake_fails(world: World) -> bool:
    """A wake or resume ends in an error."""
    _for_a_while(world, _any_habit(world), 120.0, back="fails")
    return True


@fault
def start_fails(world: World) -> bool:
    """A server or a job exits while it starts."""
    _for_a_while(world, _any_habit(world), 60.0, start="fails")
    return True


@fault
def server_dies(world: World) -> bool:
    """A process ends by itself, whatever it was doing; one in four loses its shim instead."""
    ours = [p for p in world.runs.living() if isinstance(p, Server | JobProgram)]
    living = [*ours, *(p for p in world.by_hand.values() if p.alive)]
    if not living:
        return False
    program = world.chance.choice(living)
    if program in ours and world.chance.random() < 0.25:
        world.runs.loses_shim(program.spec.id)
    else:
        program.die(-11)
    return True


@fault
def dies_parking(world: World) -> bool:
    """A job dies while it parks."""
    parkable = [h for name, h in world.habits.items() if name.startswith("park")]
    if not parkable:
        return False
    _for_a_while(world, world.chance.choice(parkable), 200.0, park="dies")
    return True


@fault
def hook_hangs(world: World) -> bool:
    """The park command never ends, or ends in an error."""
    parkable = [h for name, h in world.habits.items() if name.startswith("park")]
    if not parkable:
        return False
    _for_a_while(world, world.chance.choice(parkable), 200.0, park=world.chance.choice(["hangs", "fails"]))
    return True


@fault
def sleep_fails(world: World) -> bool:
    """A server that is asked to sleep never answers, or answers with an error."""
    hand = [world.habit(name) for name in world.by_hand]
    habit = world.chance.choice(hand) if hand and world.chance.random() < 0.7 else _service_habit(world)
    _for_a_while(world, habit, 300.0, park=world.chance.choice(["hangs", "fails"]))
    return True


@fault
def client_leaves(world: World) -> bool:
    """A client hangs up."""
    if not world.clients.open:
        return False
    world.clients.leave(world.chance.choice(list(world.clients.open.values())))
    return True


@fault
def disk_full(world: World) -> bool:
    """The disk is full: nothing can be written."""
    if world.disk.full:
        return False
    world.disk.full = True

    def over() -> None:
        world.disk.full = False

    world.until_healed(world.chance.uniform(0.5, 60.0), over)
    return True


@fault
def commits_hang(world: World) -> bool:
    """Writes to the database take up to half a minute."""
    world.disk.hangs_until_s = world.loop.now_s + world.chance.uniform(1.0, 30.0)
    return True


@fault
def clock_jumps(world: World) -> bool:
    """The wall clock jumps by an hour, forth or back."""
    world.wall_offset_s += world.chance.choice([-3600.0, 3600.0])
    return True


@fault
def link_drops(world: World) -> bool:
    """The connection between a gate and the daemon breaks."""
    gate = next(iter(world.gates.values()), None)
    if gate is None or gate.wire is None:
        return False
    gate.wire.cut()
    return True


@fault
def link_stops(world: World) -> bool:
    """Nothing arrives on that connection for a while."""
    gate = next(iter(world.gates.values()), None)
    if gate is None or gate.wire is None:
        return False
    gate.wire.stopped_until_s = world.loop.now_s + world.chance.uniform(0.5, 20.0)
    return True


@fault
def daemon_killed(world: World) -> bool:
    """SIGKILL to the daemon, at one of its next awaits."""
    if world.daemon is None:
        return False
    world.daemon.life.fuse = world.chance.randrange(150)
    return True


@fault
def gate_killed(world: World) -> bool:
    """SIGKILL to the gate."""
    gate = next(iter(world.gates.values()), None)
    if gate is None:
        return False
    gate.life.fuse = world.chance.randrange(20)
    world.loop.later(30.0, gate.kill)  # one that has nothing to do dies all the same
    return True


@fault
def gate_stops(world: World) -> bool:
    """SIGSTOP to the gate, and later SIGCONT."""
    return _freeze(world, world.chance.uniform(0.5, 30.0))


def _freeze(world: World, for_s: float) -> bool:
    gate = next(iter(world.gates.values()), None)
    if gate is None or gate.frozen:
        return False
    gate.freeze(True)

    def over() -> None:
        if gate.life.alive:
            gate.life.context.run(gate.freeze, False)

    world.until_healed(for_s, over)
    return True


@fault
def gate_lives_on(world: World) -> bool:
    """The gate stands still, and no signal ends it."""
    if world.supervisor.gate_lives_on or not _freeze(world, 120.0):
        return False
    world.supervisor.gate_lives_on = True

    def over() -> None:
        world.supervisor.gate_lives_on = False

    world.until_healed(120.0, over)
    return True


@fault
def visitor_killed(world: World) -> bool:
    """A program that holds a lease, or waits for one, ends without a word."""
    return world.visitors.kill_one()


@fault
def supervisor_gone(world: World) -> bool:
    """Nobody starts again what ends, for a while; and then the gate or the daemon is killed."""
    if not world.supervisor.there:
        return False
    world.supervisor.there = False

    def over() -> None:
        world.supervisor.there = True

    world.until_healed(world.chance.uniform(1.0, 30.0), over)
    return daemon_killed(world) if world.chance.random() < 0.5 else gate_killed(world)


@fault
def config_reload(world: World) -> bool:
    """The limits of a service change while everything goes on, or how it is started, or the rules for all."""
    chance, changed = world.chance, list(world.services)
    chosen, what = chance.randrange(len(changed)), chance.randrange(3)
    if what == 0:
        changed[chosen] = replace(changed[chosen], max_active=chance.choice([None, 1, 4]), queue_max=64)
    elif what == 1 and (argv := changed[chosen].argv):
        changed[chosen] = replace(changed[chosen], argv=(*argv[:2], str(chance.randrange(100))))
    else:
        world.policy = replace(world.policy, wait_price=chance.choice([0.0, 1.0, 4.0, 16.0]))
    world.services = tuple(changed)
    world.door.apply()
    return True


@fault
def service_taken_away(world: World) -> bool:
    """A service is taken out of the config, whatever it is doing, and is put back a while later."""
    name = world.chance.choice(world.services).name
    if name in world.away:
        return False
    world.away.add(name)
    world.door.apply(drain=world.chance.random() < 0.8)  # refused without, where it is in use

    def over() -> None:
        world.away.discard(name)
        world.door.apply()

    world.until_healed(world.chance.uniform(1.0, 200.0), over)
    return True


def strike(world: World, name: str) -> None:
    """Let a fault happen now, and say so; one that finds nothing to happen to is not counted."""
    if FAULTS[name](world):
        world.trace(f"fault {name}")
        world.seen[f"fault {name}"] += 1
    else:
        world.trace(f"fault {name}: nothing to happen to")


def chosen(names: str | None) -> Mapping[str, Fault]:
    """The faults with these names, separated by commas; all without. Raises ValueError for one that is not known."""
    if names is None:
        return FAULTS
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := sorted(set(wanted) - set(FAULTS)):
        near = get_close_matches(unknown[0], FAULTS, n=1)
        there = fill(f"There are: {', '.join(sorted(FAULTS))}.", 100, break_on_hyphens=False)
        raise ValueError(
            f"no fault is called {', '.join(unknown)}.{f' Did you mean {near[0]}?' if near else ''}\n{there}"
        )
    return {name: FAULTS[name] for name in wanted}


def rows() -> Iterator[str]:
    """The table of all faults in `docs/howto/simulate.md`: the first line that each says about itself."""
    for name in sorted(FAULTS):
        yield f"| `{name}` | {(FAULTS[name].__doc__ or '').splitlines()[0]} |"
