"""However long the queue is, what is asked of one job looks at few: no command walks all holders. Nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from headway.core import wishes
from headway.core.commands import AddJob, AskLease, Claim, Command, EditJob, EndLease, MoveJob, SetWish
from headway.core.decide import decide
from headway.core.draft import Draft
from headway.core.facts import RunSeen
from headway.core.fold import decided, fold
from headway.core.model import Exit, HolderId, Job
from headway.daemon.undo import Undo, marked
from tests.core.lease_scene import made
from tests.core.make import Scene, job_spec, service_spec

pytestmark = pytest.mark.core


class Unwalked(dict[HolderId, Any]):
    """Holders that can be asked for one by one only."""

    def __iter__(self) -> Iterator[HolderId]:
        self._walked()

    def keys(self) -> Any:
        self._walked()

    def values(self) -> Any:
        self._walked()

    def items(self) -> Any:
        self._walked()

    def _walked(self) -> NoReturn:
        raise AssertionError("somebody looks at every holder")


COMMANDS: dict[str, Command] = {
    "a new job": AddJob(spec=job_spec("new")),
    "a new job that follows another by its name": AddJob(spec=job_spec("new", after=("train",))),
    "to the front": MoveJob(target="j3", where="top"),
    "to the end": MoveJob(target="j1", where="bottom"),
    "before another": MoveJob(target="j3", where="before", other="j2"),
    "after another": MoveJob(target="j1", where="after", other="j3"),
    "start now": SetWish(target="j3", verb="start"),
    "hold": SetWish(target="j2", verb="hold"),
    "cancel, with one that follows": SetWish(target="j1", verb="cancel"),
    "an edit": EditJob(target="j2", changes={"priority": 90}),
    "a lease": made(12),
    "a claim": Claim(name="shell", pid=7),
    "the end of a lease": EndLease(target="L1", how="released"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_turn_with_one_command_does_not_walk_the_holders(command: Command) -> None:
    scene = Scene(24).configure(service_spec(asleep=1))
    for name in ("train", "eval", "render"):
        scene.queue(job_spec(name))
    scene.queue(job_spec("later", after=("train",)))
    ask = made(12, pid=None, ttl_s=60.0)
    assert isinstance(ask, AskLease)
    wishes.apply(draft := scene.draft(), ask)
    scene.s = draft.done()
    draft = Draft(scene.s, scene.s.now_s + 1.0)
    draft.holders = Unwalked(draft.holders)
    plain = marked(draft)
    assert wishes.apply(draft, command).accepted
    Undo.of(plain, draft)
    decided(draft, decide(draft.view()))
    draft.done()


class Asked(Unwalked):
    """Remembers who was asked for."""

    def __init__(self, holders: dict[HolderId, Any]) -> None:
        super().__init__(holders)
        self.asked: set[HolderId] = set()

    def __getitem__(self, hid: HolderId) -> Any:
        self.asked.add(hid)
        return super().__getitem__(hid)


def test_the_end_of_a_job_concerns_nobody_who_does_not_follow_it() -> None:
    scene = Scene(24).job(job_spec("train"))
    scene.queue(job_spec("later", after=("train",)))
    for number in range(30):
        scene.queue(job_spec(f"other{number}"))
    ended = RunSeen(holder="train", run_id="train.1", lock_held=False, gone=True, pid=1, exit=Exit(code=0))
    cancelled = SetWish(target="j2", verb="cancel")
    for what in (lambda d: fold(d, ended), lambda d: wishes.apply(d, cancelled)):
        draft = Draft(scene.s, scene.s.now_s + 1.0)
        draft.holders = asked = Asked(draft.holders)
        what(draft)
        assert len(asked.asked) <= 3, "it, and who follows"
        assert any(isinstance(job := draft.holders[hid], Job) and job.ended for hid in ("train", "j2"))


MOVES: dict[str, tuple[MoveJob, list[str]]] = {
    "up, before another": (MoveJob(target="j4", where="before", other="j2"), ["j1", "j4", "j2", "j3"]),
    "up, after another": (MoveJob(target="j4", where="after", other="j2"), ["j1", "j2", "j4", "j3"]),
    "down, before another": (MoveJob(target="j1", where="before", other="j4"), ["j2", "j3", "j1", "j4"]),
    "down, after another": (MoveJob(target="j1", where="after", other="j3"), ["j2", "j3", "j1", "j4"]),
    "to where it is": (MoveJob(target="j2", where="after", other="j1"), ["j1", "j2", "j3", "j4"]),
    "before the one behind it": (MoveJob(target="j2", where="before", other="j3"), ["j1", "j2", "j3", "j4"]),
    "the first to the end": (MoveJob(target="j1", where="bottom"), ["j2", "j3", "j4", "j1"]),
    "the last to the end": (MoveJob(target="j4", where="bottom"), ["j1", "j2", "j3", "j4"]),
    "the first to the front": (MoveJob(target="j1", where="top"), ["j1", "j2", "j3", "j4"]),
}


@pytest.mark.parametrize("crowded", [False, True], ids=["with room between", "with no number left between"])
@pytest.mark.parametrize(("move", "order"), MOVES.values(), ids=MOVES.keys())
def test_a_move_leaves_the_others_in_their_order(move: MoveJob, order: list[str], crowded: bool) -> None:
    scene = Scene(24)
    for name in ("a", "b", "c", "d"):
        scene.queue(job_spec(name))
    if crowded:
        draft = scene.draft()
        for hid in ("j1", "j2", "j3", "j4"):
            job = draft.holders[hid]
            assert isinstance(job, Job)
            draft.put(replace(job, key=5.0))
        scene.s = draft.done()
    wishes.apply(draft := scene.draft(), move)
    assert [hid for _, hid in draft.done().queue["gpu"]] == order
