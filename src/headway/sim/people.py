"""The people of the false machine: they queue jobs, say things, look, and start programs of their own."""

from __future__ import annotations

import random
from typing import Any

from headway.core.model import GIB
from headway.sim.owners import Owners
from headway.sim.world import World

JOB_EVERY_S = 240.0
PERSON_EVERY_S = 150.0
VISIT_EVERY_S = 250.0
PAUSE_EVERY_S = 300.0
VERBS = ("start", "hold", "release", "pause", "resume", "wind_down", "stop", "kill", "cancel", "retry")


class People:
    """Busy until `end_s`.

    Args:
        size: GiB of each device.
    """

    def __init__(self, world: World, chance: random.Random, size: int, end_s: float) -> None:
        self.world, self.chance, self.size, self._end_s = world, chance, size, end_s
        self._owners = Owners(world, chance, size)
        for _ in range(chance.randint(1, 4)):
            world.loop.later(chance.uniform(1.0, 60.0), self._owners.queue)
        world.loop.later(chance.expovariate(1 / JOB_EVERY_S), self._more_jobs)
        world.loop.later(chance.expovariate(1 / PERSON_EVERY_S), self._person)
        world.loop.later(chance.expovariate(1 / VISIT_EVERY_S), self._visit)
        self._pauses = random.Random(
            world.seed * 2 + 5_000_011
        )  # so that these change nothing else of a seed
        world.loop.later(self._pauses.expovariate(1 / PAUSE_EVERY_S), self._pause)

    def _busy(self) -> bool:
        return self.world.loop.now_s < self._end_s

    # ---------------------------------------------------------------- what people do

    def _more_jobs(self) -> None:
        if self._busy():
            self._owners.queue()
            self.world.loop.later(self.chance.expovariate(1 / JOB_EVERY_S), self._more_jobs)

    def _person(self) -> None:
        """Somebody looks, or says something."""
        if not self._busy():
            return
        chance, jobs = self.chance, list(self.world.checks.told.jobs)
        self.world.loop.later(chance.expovariate(1 / PERSON_EVERY_S), self._person)
        what = chance.random()
        if what < 0.55 and jobs:
            job, verb = self._some_job(jobs), chance.choice(VERBS)
            if verb == "retry":  # counted even if its answer is lost: it may have been saved
                again = self.world.checks.told.again
                again[job] = again.get(job, 0) + 1
            self.world.api("POST", f"/api/v1/jobs/{job}/{verb}", {}, lambda status, reply: None)
        elif what < 0.6 and jobs:
            self._many(jobs)
        elif what < 0.67 and len(jobs) > 1:
            move: dict[str, Any] = {
                "target": self._pushed(jobs) or chance.choice(jobs),
                "where": chance.choice(["top", "bottom"]),
            }
            self.world.api("POST", "/api/v1/queue/move", move, lambda status, reply: None)
        elif what < 0.8:
            self._service_verb(chance.choice(self.world.services).name)
        elif what < 0.82:
            self._prod_only()
        elif what < 0.825:
            self.world.api("POST", "/api/v1/queue/hold", {}, lambda status, reply: None)
            self.world.until_healed(self.chance.uniform(20.0, 200.0), self.world.door.release_queue)
        elif what < 0.85:
            self._window()
        elif what < 0.88:
            self.world.api("POST", "/api/v1/mode", {"mode": "shadow"}, lambda status, reply: None)
            self.world.until_healed(chance.uniform(5.0, 60.0), self._live)
            self.world.loop.later(chance.uniform(1.0, 20.0), self._visits)
        else:
            known = [*jobs, *(spec.name for spec in self.world.services)]
            path = chance.choice(["/api/v1/status", "/api/v1/jobs", f"/api/v1/why/{chance.choice(known)}"])
            self.world.api("GET", path, None, lambda status, reply: None)

    def _pause(self) -> None:
        """Somebody pauses a job that can park, whether or not there is room for that, and lets it go on later."""
        if not self._busy():
            return
        chance, s = self._pauses, self.world.snapshot()
        self.world.loop.later(chance.expovariate(1 / PAUSE_EVERY_S), self._pause)
        there = [s.holders[hid] for hid in s.present] if s is not None else []
        running = [one.id for one in there if one.form == "running" and one.form_named("parked")]
        if running:
            job = chance.choice(running)
            self._say(job, "pause")
            self.world.until_healed(chance.uniform(5.0, 120.0), lambda: self._say(job, "release"))

    def _say(self, job: str, verb: str) -> None:
        self.world.api("POST", f"/api/v1/jobs/{job}/{verb}", {}, lambda status, reply: None)

    def _many(self, jobs: list[str]) -> None:
        """Somebody means several at once, says something else of one, or forgets what is over."""
        chance, groups = self.chance, ["state=queued", "state=held", "placement=gap", "name=work*"]
        verb = chance.choice(["hold", "release", "release", "start", "edit", "edit", "clear"])
        body: dict[str, Any] = {"targets": [chance.choice(groups)]}
        if verb == "edit":
            body = {"targets": [self._some_job(jobs)], "changes": {"priority": chance.choice([10, 60, 90])}}
            if chance.random() < 0.5:
                body["changes"]["max_runtime_s"] = chance.choice([20, 300, None])
        if verb == "clear":
            body = {"targets": ["state=done"]}
        self.world.api("POST", f"/api/v1/select/{verb}", body, lambda status, reply: None)

    def _pushed(self, jobs: list[str]) -> str | None:
        """One that was pushed aside: its owner is the one who complains."""
        s = self.world.snapshot()
        found = [hid for hid in jobs if s is not None and hid in s.holders and s.holders[hid].pushed_by]
        return self.chance.choice(found) if found else None

    def _some_job(self, jobs: list[str]) -> str:
        """Any of them, but more often one that runs."""
        s = self.world.snapshot()
        running = [
            hid
            for hid in jobs
            if s is not None and hid in s.present and s.holders[hid].form in ("running", "parked")
        ]
        return self.chance.choice(running if running and self.chance.random() < 0.6 else jobs)

    def _service_verb(self, name: str) -> None:
        verb = self.chance.choice(["hold", "stop", "kill", "release", "wake", "sleep", "sleep", "start"])
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

    def _window(self) -> None:
        """Somebody opens a window by hand, and may end it before its time."""
        chance, names = self.chance, [spec.name for spec in self.world.services]
        body = {
            "kind": chance.choice(["slow_wake", "no_model"]),
            "for_s": chance.choice([30.0, 120.0, 400.0]),
            "services": [] if chance.random() < 0.3 else [chance.choice(names)],
        }
        self.world.api("POST", "/api/v1/windows", body, self._opened)

    def _opened(self, status: int, reply: dict[str, Any]) -> None:
        if status == 202 and self.chance.random() < 0.3:
            path = f"/api/v1/windows/{reply['id']}/stop"
            wait_s = self.chance.uniform(1.0, 100.0)
            self.world.loop.later(wait_s, self.world.api, "POST", path, {}, lambda status, reply: None)

    def _prod_only(self) -> None:
        self.world.api("POST", "/api/v1/prod-only", {"on": True}, lambda status, reply: None)
        self.world.until_healed(self.chance.uniform(20.0, 200.0), self._all_may_run)

    def _all_may_run(self) -> None:
        def answered(status: int, reply: dict[str, Any]) -> None:
            if status in (0, 503):
                self.world.loop.later(1.0, self._all_may_run)

        self.world.api("POST", "/api/v1/prod-only", {"on": False}, answered)

    # ---------------------------------------------------------------- programs of others

    def _visit(self) -> None:
        if self._busy():
            self.world.loop.later(self.chance.expovariate(1 / VISIT_EVERY_S), self._visit)
            self._visits()

    def _visits(self) -> None:
        """A program asks for a lease, a remote one does, or somebody starts one by hand and claims it."""
        if not self._busy():
            return
        chance, world = self.chance, self.world
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
