"""Break the core on purpose, one sentence of its promise at a time, and see the tests go red.

`python -m tests.mutations [NAME ...]` copies the package and the tests to a temporary directory, applies one
mutation there, and runs the test that is named for it, then the others until one is red. A mutation that survives is a
missing test: the exit status is 1. The table is docs/design/mutations.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "pyproject.toml", "README.md")
RUN_LIMIT_S = 900.0
TESTS_FAILED, NO_TESTS = 1, 5  # exit codes of pytest
SEEDS, SEEDS_FAILED = "1-24", 1
# Tables before properties before stories: the first red one says most.
KILLERS = (
    *(
        f"test_{name}.py"
        for name in ("fit", "rules", "steps", "order", "facts", "fold", "wishes", "pass", "host_fit", "grace")
    ),
    *(f"test_invariants_{name}.py" for name in ("fit", "rank", "push", "steps", "fold")),
    *(f"test_{name}.py" for name in ("indexes", "runs", "seeds")),
)


class NotThere(Exception):
    """The text that a mutation replaces is not in its file exactly once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One way to break the core.

    Attributes:
        breaks: what is not true any more.
        file: below `src/headway/core`.
        old: occurs exactly once in that file.
        test: the test that must go red, as `FILE::FUNCTION` below `tests/core`.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        name="wake-unverified",
        breaks="memory is handed on when its holder says that it let go, not when the meter saw it",
        file="fit.py",
        old="        if held > expected + TOLERANCE_BYTES:\n            over[device_id] = held\n",
        new="",
        test="test_fit.py::test_released",
    ),
    Mutation(
        name="old-reading",
        breaks="a reading from before the last move or exit says what is free",
        file="fit.py",
        old="(device.read_at_s or 0.0) <= device.last_change_s",
        new="device.read_at_s is None",
        test="test_fit.py::test_step",
    ),
    Mutation(
        name="unread-is-free",
        breaks="a device in trouble, or whose memory reads N/A, is as good as an empty one",
        file="fit.py",
        old="        if no := unmeasured(device, s):\n            return no\n        if device.confidence",
        new="        if device.confidence",
        test="test_invariants_fit.py::test_unknown_is_never_free",
    ),
    Mutation(
        name="reserve-ignored",
        breaks="no reserve is left free on a device where something runs or is awake",
        file="fit.py",
        old="    return min(s.policy.reserve_max_bytes, int(device.total_bytes * s.policy.reserve_share))",
        new="    return 0",
        test="test_fit.py::test_the_reserve_is_5_percent_but_at_most_2_gib",
    ),
    Mutation(
        name="dead-bytes",
        breaks="memory of a process that ended still counts as its holder's, so nobody measures that it is gone",
        file="fit.py",
        old="    if holder.run is not None and not holder.run.alive:\n        return 0\n    if device.per_process:",
        new="    if device.per_process:",
        test="test_fit.py::test_own_bytes_count_only_while_the_run_that_held_them_lives",
    ),
    Mutation(
        name="peak-ignored",
        breaks="what a holder was seen to take is forgotten: only what its configuration says counts",
        file="spec.py",
        old="(self.declared_bytes, self.learned_bytes)",
        new="(self.declared_bytes,)",
        test="test_facts.py::test_the_peak_of_a_known_form_is_learned_and_one_above_its_word_is_told",
    ),
    Mutation(
        name="exclusive-ignored",
        breaks="moves begin beside one that needs its devices alone",
        file="steps.py",
        old="self.exclusive = {d for p in s.pending.values() if p.exclusive for d in p.devices}",
        new="self.exclusive = set[str]()",
        test="test_invariants_steps.py::test_locks",
    ),
    Mutation(
        name="gate-not-awaited",
        breaks="a model is put to sleep while a gate may still forward to it",
        file="steps.py",
        old="if service.gate.drained and engine_idle(",
        new="if engine_idle(",
        test="test_steps.py::test_steps",
    ),
    Mutation(
        name="demand-unknown-dropped",
        breaks="right after a start jobs begin before the gates said who waits",
        file="rules.py",
        old="    floor,\n    demand_unknown,\n)",
        new="    floor,\n)",
        test="test_rules.py::test_admit",
    ),
    Mutation(
        name="infeasible-reserves",
        breaks="a job that can never fit has its devices kept for it, and others may not start there",
        file="decide.py",
        old="    if never := never_fits(want, s):\n        return never\n",
        new=(
            "    if never := never_fits(want, s):\n"
            "        plan.reserved |= dict.fromkeys(s.devices, want.holder.id)\n"
            "        return never\n"
        ),
        test="test_pass.py::test_a_want_that_can_never_fit_reserves_nothing_and_changes_nothing_for_others",
    ),
    Mutation(
        name="residency-ignored",
        breaks="a holder is pushed a moment after it came",
        file="push.py",
        old="until_s = victim.since_s + victim.spec.min_residency_s",
        new="until_s = victim.since_s",
        test="test_rules.py::test_push",
    ),
    Mutation(
        name="push-back",
        breaks="a job that was pushed pushes back at once",
        file="push.py",
        old="    not_back,  # before what no time changes: it says until when\n",
        new="",
        test="test_rules.py::test_push",
    ),
    Mutation(
        name="stronger-pushed",
        breaks="a weaker job puts a stronger one further aside while that one waits",
        file="push.py",
        old="    weak = weak or victim.id in plan.waiting\n",
        new="",
        test="test_invariants_push.py::test_how_far_down",
    ),
    Mutation(
        name="innocents-pushed",
        breaks="holders are pushed whose staying would do no harm",
        file="room.py",
        old="        if not plan.short_on(devices, want, rest):\n            leaving = rest\n",
        new="        leaving = leaving or rest\n",
        test="test_order.py::test_nobody_is_pushed_whose_staying_still_fits",
    ),
    Mutation(
        name="host-memory-ignored",
        breaks="a job is parked into main memory that there is not",
        file="host_fit.py",
        old="    if free - promised - (need or 0) >= floor:\n",
        new="    if free - promised >= floor:\n",
        test="test_host_fit.py::test_a_request_comes_and_the_job_goes_as_high_as_there_is_room_for",
    ),
    Mutation(
        name="host-memory-promised-twice",
        breaks="main memory that one was let in for, and has not taken yet, is given to the next one too",
        file="host_fit.py",
        old="    return sum(going.values()), min(times, default=None)\n",
        new="    return 0, min(times, default=None)\n",
        test="test_host_fit.py::test_jobs_that_have_not_taken_it_yet_are_counted_so_that_many_never_start_at_once",
    ),
    Mutation(
        name="grace-ignored",
        breaks="a job that could not park is killed without the grace in which it may save",
        file="steps.py",
        old="(late and not _may_save(moving, holder, now_s))",
        new="late",
        test="test_grace.py::test_how_it_is_ended",
    ),
)


def applied(mutation: Mutation, text: str) -> str:
    """The text of its file with the mutation in it.

    Raises:
        NotThere: the old text does not occur exactly once.
    """
    found = text.count(mutation.old)
    if found != 1:
        raise NotThere(f"{mutation.name}: its old text occurs {found} times in core/{mutation.file}")
    return text.replace(mutation.old, mutation.new)


def copy_to(directory: Path) -> None:
    """The package and the tests, without what is made from them."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, directory / name, ignore=left_out)
        else:
            shutil.copy2(source, directory / name)


def environment(directory: Path) -> dict[str, str]:
    """Imports find the copy before the installed package; properties try the same examples each time."""
    paths = (str(directory / "src"), str(directory))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HEADWAY_CI": "1"}


def imported_from(directory: Path) -> Path:
    """Where a test in the copy finds the core."""
    asks = [sys.executable, "-c", "import headway.core.fit as fit; print(fit.__file__)"]
    done = subprocess.run(
        asks,
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return Path(done.stdout.strip())


def first_red(directory: Path, tests: list[str]) -> str | None:
    """The first test that fails there; None when all pass, or when there are none.

    Raises:
        RuntimeError: pytest could not run them at all; its last lines are in the message.
    """
    options = ["-m", "core", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    red = re.search(r"^FAILED (\S+(?: [^-].*?)?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode in (0, NO_TESTS):
        return None
    if done.returncode != TESTS_FAILED or red is None:
        raise RuntimeError(
            f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return red[1]


def first_seed(directory: Path) -> str | None:
    """The first of some seeds of the simulation that finds something there; None when none does.

    Raises:
        RuntimeError: they could not be played at all.
    """
    done = subprocess.run(
        [sys.executable, "-m", "headway.cli.main", "sim", "--seeds", SEEDS, "--json"],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    if done.returncode not in (0, SEEDS_FAILED):
        raise RuntimeError(f"headway sim ended with {done.returncode}:\n{done.stderr[-2000:]}")
    failed = json.loads(done.stdout)["failed"]
    found = min(failed, key=lambda result: result["seed"], default=None)
    return (
        f"seed {found['seed']} ({len(failed)} of {SEEDS}): {found['violations'][0]:.100}" if found else None
    )


def judged(mutation: Mutation, directory: Path, sim: bool) -> list[str]:
    """What killed it: of the core the test named for it or the first of all, and a seed of the simulation."""
    path = directory / "src" / "headway" / "core" / mutation.file
    before = path.read_text("utf-8")
    path.write_text(applied(mutation, before), "utf-8")
    try:
        named = first_red(directory, [f"tests/core/{mutation.test}"])
        found = named or first_red(directory, [f"tests/core/{name}" for name in KILLERS])
        return [red for red in (found, first_seed(directory) if sim else None) if red]
    finally:
        path.write_text(before, "utf-8")


def main(arguments: list[str]) -> int:
    """Judge the named mutations, all if none is named. Returns 1 when one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutations")
    parser.add_argument("--sim", action="store_true", help="play seeds of the simulation as well")
    asked = parser.parse_args(arguments)
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := sorted(set(asked.names) - set(known)):
        parser.error(f"no such mutation: {', '.join(unknown)} (there are {', '.join(known)})")
    chosen = [known[name] for name in asked.names] or list(MUTATIONS)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="headway-mutations-") as name:
        directory = Path(name).resolve()
        copy_to(directory)
        if not imported_from(directory).is_relative_to(directory):
            raise RuntimeError(f"the tests would import {imported_from(directory)}, not the copy")
        if red := first_red(directory, sorted({f"tests/core/{mutation.test}" for mutation in chosen})):
            raise RuntimeError(f"{red} is red without any mutation")
        if asked.sim and (red := first_seed(directory)):
            raise RuntimeError(f"a seed fails without any mutation: {red}")
        for mutation in chosen:
            killed_by = judged(mutation, directory, asked.sim)
            survivors += not killed_by
            word = "killed  " if killed_by else "SURVIVED"
            print(f"{word} {mutation.name:24} {', '.join(killed_by) or mutation.breaks}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
