"""What a new daemon makes of leases and claims: none is lost, none is granted twice, none outlives its boot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.core import leases, words
from headway.core.commands import AskLease
from headway.core.decide import decide
from headway.core.facts import MoveAnswered
from headway.core.fold import fold
from headway.core.model import Lease, Move, Pending
from headway.core.wishes import apply
from headway.drivers.lease import MOVES
from tests.core.make import dev, gib
from tests.parts.adopting import NOW_S, WALL_S, Before, pending

pytestmark = pytest.mark.contract

SPEC = leases.spec_of("render", MOVES, gib(12))
GPU = (dev("gpu0"),)


def lease(form: str = "granted", lid: str = "L1", **more: Any) -> Lease:
    up = form == "granted"
    given: dict[str, Any] = {
        "devices": GPU if up else (),
        "since_s": 4000.0,
        "asked_s": 3990.0,
        "granted_s": 4000.0 if up else None,
        "key": 990.0,
        "pid": 4711,
        "boot_id": "boot-a",
        "fencing": 3 if up else 0,
    }
    return Lease(id=lid, form=form, forms=SPEC.forms, **{"spec": SPEC, **given, **more})


def grant(holder: Lease, **more: Any) -> Pending:
    return pending(holder, "granted", frees=False, creates=True, source="revoked", run_id=None, **more)


def adopted(*holders: Lease, intents: tuple[Pending, ...] = (), **more: Any) -> Any:
    before = Before(list(holders), list(intents), meta={"next_lease": "7", "fencing": "3"}, services=())
    before.runs.boot_id = "boot-a"
    return before.adopt(**more)


def test_all_of_them_are_there_again() -> None:
    held, waiting = lease(), lease("revoked", "L2")
    claim = lease(lid="C3", kind="claim", spec=replace(SPEC, kind="claim"), block=True)
    s = adopted(held, waiting, claim).snapshot
    assert {hid: words.state(s.holders[hid], s) for hid in ("L1", "L2", "C3")} == {
        "L1": "granted", "L2": "waiting", "C3": "counted",
    }  # fmt: skip
    assert s.queue["lease"] == ((990.0, "L2"),) and s.present == ("C3", "L1")
    assert (s.next_lease, s.fencing) == (7, 3)


def test_a_grant_that_was_begun_is_gone_on_with_and_counts_meanwhile() -> None:
    waiting = lease("revoked")
    found = adopted(waiting, intents=(grant(waiting),))
    assert found.snapshot.holders["L1"].devices == GPU
    assert [(move.form, move.run_id) for move, _ in found.redo] == [("granted", None)]
    draft = found.draft
    fold(draft, MoveAnswered(holder="L1", to="granted"))
    done = draft.done()
    assert (done.holders["L1"].form, done.fencing) == ("granted", 4)


def test_a_grant_that_was_over_is_not_begun_again() -> None:
    held = lease()
    found = adopted(held, intents=(grant(held, started_s=3999.0),))
    assert not found.redo and not found.snapshot.pending


@pytest.mark.parametrize("step", ["asked", "answered"])
def test_one_that_was_asked_to_leave_is_still_asked(step: Any) -> None:
    held = lease(preemptible=True)
    leaving = pending(held, "revoked", step=step, answered_s=4991.0 if step == "answered" else None)
    found = adopted(held, intents=(leaving,))
    assert words.state(found.snapshot.holders["L1"], found.snapshot) == "leaving"
    assert len(found.redo) == (step == "asked")


def test_after_another_boot_the_local_ones_are_gone_and_the_remote_ones_keep_their_time() -> None:
    local, waiting = lease(boot_id="boot-0"), lease("revoked", "L2", boot_id="boot-0")
    remote = lease(lid="L3", pid=None, boot_id="boot-0", ttl_s=60.0, expires_s=4050.0)
    before = Before([local, waiting, remote], services=())
    before.runs.boot_id = "boot-a"
    before.meta = {"boot_id": "boot-0", "saved_s": "4010.0", "saved_wall_s": str(WALL_S - 10.0)}
    s = before.adopt(now_s=20.0).snapshot
    assert [s.holders[hid].ended for hid in ("L1", "L2", "L3")] == ["gone", "gone", None]  # type: ignore[attr-defined]
    assert s.holders["L3"].expires_s == 50.0  # type: ignore[attr-defined]


def test_an_id_is_not_used_again() -> None:
    draft = adopted().draft
    assert apply(draft, AskLease(spec=SPEC, pid=1)).holder == "L7"


def test_what_was_granted_is_not_given_to_another_before_anything_is_read() -> None:
    s = adopted(lease(), lease("revoked", "L2")).snapshot
    moves = [action for action in decide(s).actions if isinstance(action, Move)]
    assert moves == [] and s.now_s == NOW_S
