"""What a seed makes of a machine: its devices, servers, jobs, clients and people, and how the hour goes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC

from headway.config.calendar import Calendar, WindowPlan
from headway.core.model import GIB, Form, MoveRule, Policy, ServiceSpec
from headway.ports import RunSpec
from headway.sim.daemons import TABLES
from headway.sim.faults import Fault, strike
from headway.sim.machine import PLENTY
from headway.sim.people import People
from headway.sim.programs import Habit, HandServer
from headway.sim.world import World

FAULT_EVERY_S = 70.0
BURST_EVERY_S = 300.0
LOW_EVERY_S = 4000.0


class Scenario:
    """Builds a world and keeps it busy until `busy_s`; then it is healed, and left to come to rest."""

    def __init__(self, seed: int, faults: Mapping[str, Fault], busy_s: float) -> None:
        self.chance = random.Random(seed * 2 + 1)  # the world's own chance is another one
        self.world = World(seed, self.chance.choice([1.0] + [4.0] * 11))
        self._rare = random.Random(
            seed * 2 + 1_000_003
        )  # so that what it decides changes nothing else of a seed
        self._beside = random.Random(seed * 2 + 3_000_017)  # the same of main memory and disks
        self._faults = faults
        self.end_s = self.world.loop.now_s + busy_s
        self._devices()
        self.world.policy = self._policy()
        self.world.services = tuple(self._service(n) for n in range(self.chance.randint(1, 3)))
        self.world.calendar = Calendar(self._windows(), UTC)
        self.world.start()
        later = self.world.loop.later
        for spec in self.world.services:
            later(self.chance.expovariate(1 / 60.0), self._burst, spec.name)
        later(self._rare.expovariate(1 / LOW_EVERY_S), self._low)
        People(self.world, self.chance, self.size, self.end_s)
        if faults:
            later(30.0 + self.chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    # ---------------------------------------------------------------- what there is

    def _devices(self) -> None:
        size = self.chance.choice([16, 24, 24, 48])
        for number in range(self.chance.choice([1] * 10 + [2] * 12 + [3] * 6 + [4] * 6 + [0])):
            self.world.machine.add_card(f"gpu{number}", size * GIB)
        self.size = size
        self.world.metering = self.chance.choice(["measured"] * 6 + ["inferred", "declared"])
        self.world.machine.blind = self.world.metering == "declared"

    def _policy(self) -> Policy:
        return Policy(
            max_active_jobs=self.chance.choice([None, None, 1, 2]),
            gap_min_s=self.chance.choice([0.0, 2.0, 10.0]),
            wait_price=self._rare.choice([0.0, 0.0, 0.0, 4.0]),
            max_waiting_share=self._rare.choice([0.002, 1.0, 1.0]),  # of the first 1,000 requests
            max_mean_wait_s=self._rare.choice([0.01, 1e6, 1e6]),
            push_back_s=self.chance.choice([0.0, 60.0]),
            reserve_after_s=self.chance.choice([60.0, 1800.0]),
            crash_starts=self._rare.choice([0, 2, 3, 5, 5]),
        )

    def _service(self, number: int) -> ServiceSpec:
        """A server that sleeps, or one that is only started and stopped; some span devices, some are unmeasured."""
        chance, name, cards = self.chance, f"s{number}", len(self.world.machine.cards)
        driver = chance.choice(["sleeper", "sleeper", "process"])
        share = chance.choice([0.3, 0.5, 0.6, 0.8])
        need, residue = int(self.size * share * GIB), int(0.04 * self.size * GIB)
        ladder = ["awake", "asleep", "stopped"] if driver == "sleeper" else ["awake", "stopped"]
        unknown = chance.random() < 0.1
        host = self._beside.choice([None, None, None, 0, 15 * GIB, 50 * GIB])
        sizes = {"awake": None if unknown else need, "asleep": None if unknown else residue, "stopped": 0}
        self.world.habits[name] = Habit(
            bytes_=need,
            residue_bytes=residue,
            start_s=chance.uniform(1.0, 20.0),
            aside_s=chance.uniform(0.2, 3.0),
            back_s=chance.uniform(0.2, 3.0),
            stop_s=chance.uniform(0.1, 2.0),
            alloc_s=chance.uniform(0.05, 0.5),
            answer_s=chance.uniform(0.3, 6.0),
            guessed=unknown,
            aside_host_bytes=host or 0,
        )
        by_hand = bool(cards) and chance.random() < (0.2 if driver == "sleeper" else 0.08)
        device = chance.choice(list(self.world.machine.cards)) if by_hand else None
        if device is not None:
            self._start_by_hand(name, 8001 + number, device)
        return ServiceSpec(
            name=name,
            driver=driver,
            forms=tuple(
                Form(name=form, declared_bytes=sizes[form], host_bytes=host if form == "asleep" else None)
                for form in ladder
            ),
            moves=_between(ladder, TABLES[driver]),
            count=2 if cards > 1 and not by_hand and chance.random() < 0.25 else 1,
            argv=() if by_hand else ("serve", name),
            pinned_devices=() if device is None or self._rare.random() < 0.4 else (device,),
            upstream=f"http://127.0.0.1:{8001 + number}",
            models=(name,),
            reads_busy=driver == "sleeper" and chance.random() < 0.7,
            max_active=chance.choice([None, None, 1, 2]),
            min_residency_s=chance.choice([0.0, 10.0]),
            idle_ttl_s=chance.choice([None, None, None, 120.0]),
            keep_awake=number == 0 and chance.random() < 0.15,
            wake_limit_s=chance.choice([60.0, 300.0]),
        )

    def _windows(self) -> list[WindowPlan]:
        """Half of the machines have one or two that come again and again within the hour."""
        chance, names = self.chance, [spec.name for spec in self.world.services]
        return [
            WindowPlan(
                name=f"night{number}",
                kind=chance.choice(["slow_wake", "no_model"]),
                services=() if chance.random() < 0.3 else (chance.choice(names),),
                cron=f"*/{chance.choice([10, 15, 20])} * * * *",
                duration_s=chance.choice([120.0, 240.0, 400.0]),
            )
            for number in range(chance.choice([0, 0, 1, 2]))
        ]

    def _start_by_hand(self, name: str, port: int, device: str) -> None:
        """Somebody's own server."""
        spec = RunSpec(id=f"hand-{name}", holder=name, argv=("serve", name), port=port)
        self.world.loop.later(
            self.chance.uniform(0.0, 60.0),
            lambda: HandServer(self.world, spec, self.world.habits[name], device).begin(),
        )

    # ---------------------------------------------------------------- what clients do

    def _burst(self, service: str) -> None:
        """A conversation: some requests, each a while after the one before."""
        if not self._busy():
            return
        chance, at_s = self.chance, 0.0
        client, class_ = f"c{chance.randrange(4)}", "attended" if chance.random() < 0.85 else "background"
        for _ in range(chance.choice([1, 1, 2, 3, 8])):
            wait_s = chance.choice([None, None, None, None, 0.0, 5.0, 60.0])
            self.world.loop.later(at_s, self.world.clients.send, service, class_, client, wait_s)
            at_s += chance.expovariate(1 / 8.0)
        self.world.loop.later(chance.expovariate(1 / BURST_EVERY_S), self._burst, service)

    # ---------------------------------------------------------------- what goes wrong

    def _low(self) -> None:
        """Somebody's programs, or files, fill the main memory or the disk for a while."""
        if not self._busy():
            return
        chance, machine = self._rare, self.world.machine
        left = int(chance.uniform(0.1, 12.0) * GIB)
        short = replace(PLENTY, memory_free_bytes=left)
        machine.squeeze(short if chance.random() < 0.5 else replace(PLENTY, disk_free_bytes=left))
        self.world.until_healed(chance.uniform(10.0, 200.0), self._enough)
        self.world.loop.later(chance.expovariate(1 / LOW_EVERY_S), self._low)

    def _enough(self) -> None:
        self.world.machine.squeeze(PLENTY)

    def _fault(self) -> None:
        if not self._busy():
            return
        strike(self.world, self.chance.choice(list(self._faults)))
        self.world.loop.later(self.chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    def _busy(self) -> bool:
        return self.world.loop.now_s < self.end_s


def _between(ladder: list[str], moves: tuple[MoveRule, ...]) -> tuple[MoveRule, ...]:
    return tuple(move for move in moves if move.source in ladder and move.to in ladder)
