"""How a job steps aside when nobody said how, and where one may start that would lose its work by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.config.adhoc import adhoc
from headway.config.build import build
from headway.config.load import load
from headway.core.decide import decide
from headway.core.model import Move
from headway.drivers.registry import DRIVERS
from headway.errors import Refused
from tests.core.make import Scene, dev, job_spec, service_spec

pytestmark = pytest.mark.core

MOVES = {name: driver.moves for name, driver in DRIVERS.items()}
AUTO = {
    # name: (the recipe beside its command, (driver, does it step aside))
    "two commands": ('park = ["p"]\nresume = ["r"]', ("command", True)),
    "it says what it saved": ('saved = ["s"]', ("restart", True)),
    "it goes on where it was": ("resumable = true", ("restart", True)),
    "nothing is known": ("", ("restart", False)),
    "it was said: auto": ('driver = "auto"', ("restart", False)),
    "it was said: restart": ('driver = "restart"', ("restart", True)),
    "it was said: none": ('driver = "restart"\nresumable = true\nstep_aside = "none"', ("restart", False)),
}


@pytest.mark.parametrize(("text", "expected"), AUTO.values(), ids=AUTO.keys())
def test_what_auto_means(text: str, expected: tuple[str, bool], tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'[job.train]\nstart = ["train"]\n{text}\n')
    ((spec, _),) = build(load(tmp_path / "config.toml", {}), MOVES).recipes
    assert (spec.driver, spec.steps_aside) == expected


def test_an_ad_hoc_job_is_read_the_same_way() -> None:
    fields: dict[str, Any] = {"argv": ["eval"], "gpu": "1GiB"}
    assert not adhoc(fields, MOVES).steps_aside
    assert adhoc({**fields, "resumable": True}, MOVES).steps_aside
    assert adhoc({**fields, "driver": "restart"}, MOVES).steps_aside
    with pytest.raises(Refused, match="resume"):
        adhoc({**fields, "options": {"park": ["p"]}}, MOVES)


ALONE = job_spec(steps_aside=False)
STAYS_AWAY = {
    # name: (scene, where it goes, or why not)
    "beside a quiet model": (Scene(24).service(), "no_way_aside"),
    "beside a model that sleeps": (Scene(24).service(service_spec(asleep=1), "asleep"), "no_way_aside"),
    "where a model that is down may come": (Scene(24).service(form="stopped"), "no_way_aside"),
    "where no model is": (Scene(24), ("gpu0",)),
    "on another device than the model": (Scene(24, 24).service(), ("gpu1",)),
    "on another device than the one a model is bound to": (
        Scene(24, 24).service(service_spec(pinned_devices=("gpu0",)), "stopped"),
        ("gpu1",),
    ),
}


@pytest.mark.parametrize(("scene", "expected"), STAYS_AWAY.values(), ids=STAYS_AWAY.keys())
def test_one_that_would_lose_its_work_starts_only_where_no_model_is(scene: Scene, expected: Any) -> None:
    scene.job(ALONE, "stopped")
    decision = decide(scene.s)
    if isinstance(expected, str):
        assert decision.verdicts["train"].code == expected
        assert not decision.actions
    else:
        (move,) = [a for a in decision.actions if isinstance(a, Move)]
        assert move.devices == tuple(dev(name) for name in expected)


def test_a_person_may_start_it_anyway() -> None:
    scene = Scene(24).service().job(ALONE, "stopped", anyway=True)
    assert decide(scene.s).verdicts["train"].code == "beside_model", "the model is on its way out for it"


def test_one_without_devices_is_in_nobody_s_way() -> None:
    scene = Scene(24).service().job(job_spec(steps_aside=False, count=0), "stopped")
    assert [a.holder for a in decide(scene.s).actions if isinstance(a, Move)] == ["train"]
