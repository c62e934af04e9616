"""What a seed makes of a machine: its devices, servers, jobs, clients and people, and how the hour goes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from headway.core.model import GIB, Form, MoveRule, Policy, ServiceSpec
from headway.sim.daemons import TABLES
from headway.sim.faults import Fault
from headway.sim.programs import Habit
from headway.sim.world import World

FAULT_EVERY_S = 70.0
BURST_EVERY_S = 300.0
JOB_EVERY_S = 240.0
PERSON_EVERY_S = 150.0
VISIT_EVERY_S = 400.0
VERBS = ("hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry")


class Scenario:
    """Builds a world and keeps it busy until `busy_s`; then it is healed, and left to come to rest."""

    def __init__(self, seed: int, faults: Mapping[str, Fault], busy_s: float) -> None:
        self.chance = random.Random(seed * 2 + 1)  # the world's own chance is another one
        self.world = World(seed, self.chance.choice([1.0, 3.0, 3.0, 3.0, 3.0, 3.0]))
        self._faults, self._jobs = faults, 0
        self.end_s = self.world.loop.now_s + busy_s
        self._devices()
        self.world.policy = self._policy()
        self.world.services = tuple(self._service(n) for n in range(self.chance.randint(1, 3)))
        self.world.start()
        later = self.world.loop.later
        for spec in self.world.services:
            later(self.chance.expovariate(1 / 60.0), self._burst, spec.name)
        for _ in range(self.chance.randint(1, 4)):
            later(self.chance.uniform(1.0, 60.0), self._add_job)
        later(self.chance.expovariate(1 / JOB_EVERY_S), self._more_jobs)
        later(self.chance.expovariate(1 / PERSON_EVERY_S), self._person)
        later(self.chance.expovariate(1 / VISIT_EVERY_S), self._visit)
        if faults:
            later(30.0 + self.chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    # ---------------------------------------------------------------- what there is

    def _devices(self) -> None:
        size = self.chance.choice([16, 24, 24, 48])
        for number in range(self.chance.choice([1, 1, 2, 2, 3, 4])):
            self.world.machine.add_card(f"gpu{number}", size * GIB)
        self.size = size
        self.world.metering = self.chance.choice(["measured"] * 6 + ["inferred", "declared"])
        self.world.machine.blind = self.world.metering == "declared"

    def _policy(self) -> Policy:
        return Policy(
            max_active_jobs=self.chance.choice([None, None, 1, 2]),
            gap_min_s=self.chance.choice([0.0, 2.0, 10.0]),
            push_back_s=self.chance.choice([0.0, 60.0]),
            reserve_after_s=self.chance.choice([60.0, 1800.0]),
        )

    def _service(self, number: int) -> ServiceSpec:
        """A server that sleeps, or one that is only started and stopped; some span devices, some are unmeasured."""
        chance, name, cards = self.chance, f"s{number}", len(self.world.machine.cards)
        driver = chance.choice(["sleeper", "sleeper", "process"])
        share = chance.choice([0.3, 0.5, 0.6, 0.8])
        need, residue = int(self.size * share * GIB), int(0.04 * self.size * GIB)
        ladder = ["awake", "asleep", "stopped"] if driver == "sleeper" else ["awake", "stopped"]
        unknown = chance.random() < 0.1
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
        )
        return ServiceSpec(
            name=name,
            driver=driver,
            forms=tuple(Form(name=form, declared_bytes=sizes[form]) for form in ladder),
            moves=_between(ladder, TABLES[driver]),
            count=2 if cards > 1 and chance.random() < 0.25 else 1,
            argv=("serve", name),
            upstream=f"http://127.0.0.1:{8001 + number}",
            models=(name,),
            reads_busy=driver == "sleeper" and chance.random() < 0.7,
            max_active=chance.choice([None, None, 1, 2]),
            min_residency_s=chance.choice([0.0, 10.0]),
            idle_ttl_s=chance.choice([None, None, None, 120.0]),
            keep_awake=number == 0 and chance.random() < 0.15,
            wake_limit_s=chance.choice([60.0, 300.0]),
        )

    # ---------------------------------------------------------------- what people do

    def _more_jobs(self) -> None:
        if self._busy():
            self._add_job()
            self.world.loop.later(self.chance.expovariate(1 / JOB_EVERY_S), self._more_jobs)

    def _add_job(self) -> None:
        """One of many kinds. Its name says whether it can be parked, and finds its habit."""
        chance, self._jobs = self.chance, self._jobs + 1
        kind = chance.choice(["restart", "restart", "command", "command", "wide", "huge", "cpu", "fails"])
        name = f"{'park' if kind == 'command' else 'work'}{self._jobs}"
        share = chance.choice([0.1, 0.3, 0.6, 0.85])
        need = int(self.size * share * GIB)
        habit = Habit(
            bytes_=need,
            residue_bytes=int(0.02 * self.size * GIB),
            alloc_s=chance.uniform(0.05, 8.0),
            aside_s=chance.uniform(0.1, 3.0),
            back_s=chance.uniform(0.1, 3.0),
            stop_s=chance.uniform(0.05, 3.0),
            work_s=chance.uniform(5.0, 150.0),
            save_every_s=chance.choice([None, 10.0]),
            exit_code=0 if kind != "fails" else chance.choice([0, 1, 3]),
        )
        self.world.habits[name] = habit
        options: dict[str, Any] = {"retries": chance.choice([0, 0, 1]), "stop_grace": "5s"}
        if habit.save_every_s is not None:
            options["saved"] = ["sim", "saved"]
        if chance.random() < 0.4:
            options["min_residency"] = "0s"
        body: dict[str, Any] = {"argv": ["work", name], "name": name, "options": options}
        body["placement"] = chance.choice(["gap", "gap", "share"])
        body["priority"] = chance.choice([20, 50, 50, 80])
        body["gpu"] = 0 if kind == "cpu" else need if chance.random() < 0.9 else None
        if kind == "command":
            body["driver"] = "command"
            options |= {"park": ["sim", "park"], "resume": ["sim", "resume"]}
        if kind == "wide":
            body["gpus"] = 2
        if kind == "huge":
            body["gpu"] = 900 * GIB
        if chance.random() < 0.1:
            body["hold"] = True
        if chance.random() < 0.15 and self.world.checks.told.jobs:
            body["after"] = [chance.choice(list(self.world.checks.told.jobs))]
        self.world.api("POST", "/api/v1/jobs", body, self._added)

    def _added(self, status: int, reply: dict[str, Any]) -> None:
        if status == 202:
            self.world.checks.accepted(str(reply["id"]))

    def _person(self) -> None:
        """Somebody looks, or says something."""
        if not self._busy():
            return
        chance, jobs = self.chance, list(self.world.checks.told.jobs)
        self.world.loop.later(chance.expovariate(1 / PERSON_EVERY_S), self._person)
        what = chance.random()
        if what < 0.55 and jobs:
            job, verb = chance.choice(jobs), chance.choice(VERBS)
            if verb == "retry":  # counted even if its answer is lost: it may have been saved
                again = self.world.checks.told.again
                again[job] = again.get(job, 0) + 1
            self.world.api("POST", f"/api/v1/jobs/{job}/{verb}", {}, lambda status, reply: None)
        elif what < 0.65 and len(jobs) > 1:
            move: dict[str, Any] = {"target": chance.choice(jobs), "where": chance.choice(["top", "bottom"])}
            self.world.api("POST", "/api/v1/queue/move", move, lambda status, reply: None)
        elif what < 0.8:
            self._service_verb(chance.choice(self.world.services).name)
        elif what < 0.85:
            self.world.api("POST", "/api/v1/mode", {"mode": "shadow"}, lambda status, reply: None)
            self.world.until_healed(chance.uniform(5.0, 60.0), self._live)
        else:
            known = [*jobs, *(spec.name for spec in self.world.services)]
            path = chance.choice(["/api/v1/status", "/api/v1/jobs", f"/api/v1/why/{chance.choice(known)}"])
            self.world.api("GET", path, None, lambda status, reply: None)

    def _service_verb(self, name: str) -> None:
        verb = self.chance.choice(["hold", "stop", "kill", "release"])
        self.world.api("POST", f"/api/v1/services/{name}/{verb}", {}, lambda status, reply: None)
        self.world.until_healed(self.chance.uniform(5.0, 60.0), lambda: self._release(name))

    def _release(self, name: str) -> None:
        """Said again until it is taken."""

        def answered(status: int, reply: dict[str, Any]) -> None:
            if status in (0, 503):
                self.world.loop.later(1.0, self._release, name)

        self.world.api("POST", f"/api/v1/services/{name}/release", {}, answered)

    def _live(self) -> None:
        def answered(status: int, reply: dict[str, Any]) -> None:
            if status in (0, 503):
                self.world.loop.later(1.0, self._live)

        self.world.api("POST", "/api/v1/mode", {"mode": "live"}, answered)

    # ---------------------------------------------------------------- programs of others

    def _visit(self) -> None:
        """A program asks for a lease, a remote one does, or somebody starts one by hand and claims it."""
        if not self._busy():
            return
        chance, world = self.chance, self.world
        world.loop.later(chance.expovariate(1 / VISIT_EVERY_S), self._visit)
        size = int(self.size * chance.choice([0.1, 0.3, 0.6, 0.9]) * GIB)
        kind = chance.choice(["lease", "lease", "lease", "remote", "claim", "huge"])
        if kind == "remote":
            world.visitors.remote(size, chance.uniform(10.0, 60.0), chance.randrange(5))
        elif kind == "claim":
            world.visitors.claim(size, chance.random() < 0.3, chance.uniform(10.0, 200.0))
        else:
            world.visitors.ask(
                900 * GIB if kind == "huge" else None if chance.random() < 0.2 else size,
                size,
                chance.choice([1, 1, 1, 2]),
                chance.uniform(5.0, 120.0),
                priority=chance.choice([20, 50, 80]),
                preemptible=chance.random() < 0.3,
                wait_limit_s=chance.choice([0.0, 30.0, 120.0, None]),
                ttl_s=chance.choice([None, 30.0]),
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

    def _fault(self) -> None:
        if not self._busy():
            return
        name = self.chance.choice(list(self._faults))
        self.world.trace(f"fault {name}")
        if self._faults[name](self.world):
            self.world.seen[f"fault {name}"] += 1
        self.world.loop.later(self.chance.expovariate(1 / FAULT_EVERY_S), self._fault)

    def _busy(self) -> bool:
        return self.world.loop.now_s < self.end_s


def _between(ladder: list[str], moves: tuple[MoveRule, ...]) -> tuple[MoveRule, ...]:
    return tuple(move for move in moves if move.source in ladder and move.to in ladder)
