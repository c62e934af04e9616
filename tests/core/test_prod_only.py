"""Only models run: every job steps aside, sleeping models come back, and nothing else starts."""

from __future__ import annotations

import pytest

from headway.core.commands import SetProdOnly
from headway.core.model import GIB, Waiting
from headway.core.view import overview
from tests.core.lease_scene import asked, held, settled, turn
from tests.core.make import Scene, job_spec, service_spec
from tests.core.test_rules import NOW_S, PARKS, SLEEPS, stays, verdict, with_mode
from tests.core.test_wishes import says
from tests.core.world import Habit, World

pytestmark = pytest.mark.core

STAYS = {
    # name: (scene, holder, (code, where to))
    "a job that can be parked is parked": (Scene(24).job(PARKS), "train", ("prod_only", "parked")),
    "a job that cannot is stopped": (Scene(24).job(), "train", ("prod_only", "stopped")),
    "a job beside a model": (Scene(48).service().job(job_spec(placement="share")), "train", ("prod_only", "stopped")),
    "a job without a device": (Scene(24).job(job_spec(running=0, count=0)), "train", ("prod_only", "stopped")),
    "a parked job is left parked": (Scene(24).job(PARKS, "parked"), "train", None),
    "a model unused for its idle_ttl stays": (Scene(24).service(service_spec(idle_ttl_s=1.0)), "chat", None),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_who_stays(name: str) -> None:
    scene, hid, expected = STAYS[name]
    assert stays(with_mode(scene, prod_only_by="ada"), hid) == expected


ASKED = {"attended": Waiting(n=1, since_s=NOW_S - 1)}
COMES = {
    # name: (scene, holder, code)
    "no job starts": (Scene(24).job(form="stopped"), "train", "prod_only"),
    "no job goes on": (Scene(24).job(PARKS, "parked"), "train", "prod_only"),
    "a model that nobody asks for comes back": (Scene(24).service(SLEEPS, "asleep"), "chat", "goes"),
    "a model that is stopped comes back": (Scene(24).service(form="stopped"), "chat", "goes"),
    "a model that is asked for comes back": (Scene(24).service(form="stopped", demand=ASKED), "chat", "goes"),
    "a held model stays aside": (Scene(24).service(SLEEPS, "asleep", wish="hold"), "chat", "held"),
    "a model that has no room beside another waits": (
        Scene(24).service().service(service_spec("code"), "stopped"),
        "code",
        "memory",
    ),
}


@pytest.mark.parametrize("name", COMES)
def test_who_comes(name: str) -> None:
    scene, hid, expected = COMES[name]
    assert verdict(with_mode(scene, prod_only_by="ada"), hid).code == expected


def test_it_keeps_the_name_of_who_said_it_first() -> None:
    scene, found = Scene(24), []
    for on, by in ((True, "ada"), (True, "bob"), (False, "bob"), (False, "ada")):
        assert says(scene, SetProdOnly(on=on, by=by)).accepted
        found.append(scene.s.prod_only_by)
    assert found == ["ada", "ada", None, None]
    says(scene, SetProdOnly(on=True, by="ada"))
    assert overview(scene.s, {}).prod_only_by == "ada"


def test_a_job_steps_aside_its_model_comes_back_and_it_goes_on_when_all_may_run() -> None:
    world = World({"gpu0": 24 * GIB})
    world.service(service_spec("chat", 16, 1), Habit(bytes_=16 * GIB, residue=GIB))
    job = world.job(job_spec("train", 14, 1), Habit(bytes_=14 * GIB, residue=GIB))
    assert world.run(60.0, until=lambda: world.form(job) == "running")
    world.command(SetProdOnly(on=True, by="ada"))
    assert world.run(60.0, until=lambda: (world.form(job), world.form("chat")) == ("parked", "awake"))
    world.run(120.0)
    assert (world.form(job), world.form("chat"), world.verdicts[job].code) == ("parked", "awake", "prod_only")
    world.command(SetProdOnly(on=False, by="ada"))
    assert world.run(60.0, until=lambda: world.form(job) == "running")
    assert world.wrong == []


def test_a_lease_runs_to_its_end_and_the_next_one_waits() -> None:
    scene = Scene(24)
    first, second = held(scene, 12), asked(scene, 4)
    with_mode(scene, prod_only_by="ada")
    assert turn(scene) == ()
    assert (settled(scene, first).code, settled(scene, second).code) == ("keeps", "prod_only")
