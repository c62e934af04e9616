"""Whose jobs they are: what kinds there are in the false machine, and what is said of each."""

from __future__ import annotations

import random
from typing import Any

from headway.core.model import GIB
from headway.sim.programs import Habit
from headway.sim.world import World


class Owners:
    """They queue jobs.

    Args:
        size: GiB of each device.
    """

    def __init__(self, world: World, chance: random.Random, size: int) -> None:
        self.world, self.chance, self.size = world, chance, size
        self._beside = random.Random(
            world.seed * 2 + 4_000_037
        )  # so that this changes nothing else of a seed
        self._jobs = 0

    def queue(self) -> None:
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
        self._limits(options, habit)
        self._main_memory(options, habit, kind)
        if chance.random() < 0.4:
            options["min_residency"] = "0s"
        if chance.random() < 0.3:
            options["max_wait"] = "2min"
        if chance.random() < 0.1:
            options["step_aside"] = "none"
        body: dict[str, Any] = {"argv": ["work", name], "name": name, "options": options}
        if chance.random() < 0.9 and kind != "command":
            body["driver"] = "restart"
        body["placement"] = chance.choice(["gap", "gap", "gap", "gap", "share", "yield", "window"])
        body["priority"] = chance.choice([20, 50, 50, 80])
        body["gpu"] = 0 if kind == "cpu" else need if chance.random() < 0.9 else None
        habit.guessed = body["gpu"] is None
        if kind == "command":
            body["driver"] = "command"
            options |= {"park": ["sim", "park"], "resume": ["sim", "resume"]}
        if kind == "wide":
            body["gpus"] = 2
        if kind == "huge":
            body["gpu"] = 900 * GIB
        if chance.random() < 0.1:
            body["hold"] = True
        if chance.random() < 0.25 and self.world.checks.told.jobs:
            before = chance.choice(list(self.world.checks.told.jobs))
            if chance.random() < 0.5:
                body["after"] = [before]
            else:
                options["after_ok"] = [before]
        self.world.api("POST", "/api/v1/jobs", body, self._added)

    def _limits(self, options: dict[str, Any], habit: Habit) -> None:
        """What some owners say of their jobs beyond what they need."""
        chance = self.chance
        if chance.random() < 0.2:
            options["max_runtime"] = f"{chance.choice([10, 40, 400])}s"
        if chance.random() < 0.2:
            options["stall_after"] = "20s"
            habit.silent_after_s = chance.choice([None, 10.0])
        if chance.random() < 0.2:
            options["health"] = ["sim", "health"]
            habit.healthy = chance.random() < 0.6
        if chance.random() < 0.2:
            options["summary"] = ["sim", "summary"]
        if chance.random() < 0.15:
            options |= {"oom_exit_code": 3, "retries": chance.choice([0, 4])}

    def _main_memory(self, options: dict[str, Any], habit: Habit, kind: str) -> None:
        """What some say that it takes beside its devices. It takes no more than that."""
        chance = self._beside
        if chance.random() < 0.4:
            habit.host_bytes = chance.choice([1, 1, 10, 20]) * GIB
            options["host_memory"] = {"running": habit.host_bytes}
        if kind != "command":
            return
        if chance.random() < 0.5:
            habit.aside_host_bytes = habit.host_bytes + chance.choice([0, 1, 60, 150]) * GIB
            options.setdefault("host_memory", {})["parked"] = habit.aside_host_bytes
        if chance.random() < 0.7:
            habit.aside_disk_bytes = chance.choice([1, 10, 20]) * GIB
            options["disk"] = {"parked": habit.aside_disk_bytes}

    def _added(self, status: int, reply: dict[str, Any]) -> None:
        if status == 202:
            self.world.checks.accepted(str(reply["id"]))
