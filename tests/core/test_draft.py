"""The working copy of a turn: what it shows is never older than what was last done to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.core.draft import Draft
from tests.core.make import Scene, job_spec

pytestmark = pytest.mark.core

CHANGES: dict[str, Callable[[Draft], None]] = {
    "a holder that is dropped": lambda d: d.drop("j1"),
    "a plain field that is set": lambda d: d.set(mode="shadow"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_view_is_as_new_as_the_last_change(change: Callable[[Draft], None]) -> None:
    scene = Scene(24)
    scene.queue(job_spec("train", 14))
    draft = Draft(scene.s, scene.s.now_s + 1.0)
    before = draft.view()
    change(draft)
    after = draft.view()
    assert (after.mode, after.queue) != (before.mode, before.queue)
