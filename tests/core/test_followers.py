"""What becomes of a job that follows one which did not end well, or never ran."""

from dataclasses import replace

import pytest

from headway.core import ends, wishes
from headway.core.commands import SetWish
from headway.core.model import Ended, Job
from tests.core.make import Scene, job_spec

pytestmark = pytest.mark.core

ENDS: dict[str, tuple[str, Ended, bool, str]] = {
    # name: (field of the follower, how A ended, did A run, wish of the follower then)
    "after_ok and A done": ("after_ok", "done", True, "run"),
    "after_ok and A failed": ("after_ok", "failed", True, "hold"),
    "after_ok and A lost": ("after_ok", "lost", True, "hold"),
    "after and A failed": ("after", "failed", True, "run"),
    "after and A cancelled while it ran": ("after", "cancelled", True, "run"),
    "after and A cancelled before it ran": ("after", "cancelled", False, "hold"),
}


def followed(field: str) -> Scene:
    scene = Scene(24)
    scene.queue(job_spec("a"))
    scene.queue(job_spec("b", after=("a",)) if field == "after" else job_spec("b", after_ok=("a",)))
    return scene


@pytest.mark.parametrize(("field", "how", "ran", "wish"), ENDS.values(), ids=ENDS.keys())
def test_a_follower_is_held_when_it_may_not_start(field: str, how: Ended, ran: bool, wish: str) -> None:
    scene = followed(field)
    draft = scene.draft()
    a = draft.holders["j1"]
    assert isinstance(a, Job)
    draft.put(replace(a, ended=how, started_s=1.0 if ran else None))
    ends.hold_followers(draft, "j1")
    assert draft.holders["j2"].wish == wish
    assert [event.code for event in draft.events] == (["job.held"] if wish == "hold" else [])


def test_cancelling_a_queued_job_holds_what_follows_it() -> None:
    scene = followed("after")
    draft = scene.draft()
    wishes.apply(draft, SetWish(target="j1", verb="cancel", by="anna"))
    held = draft.holders["j2"]
    assert (held.wish, held.wish_by, held.note) == ("hold", "headway", "after_gone")
    assert draft.done().queue["held"] == ((held.key, "j2"),)  # type: ignore[attr-defined]
