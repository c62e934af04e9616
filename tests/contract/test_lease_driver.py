"""The driver of leases: it changes nothing outside, so all it has to show is its table and its answers."""

from pathlib import Path

import aiohttp
import pytest

from headway.core import leases
from headway.core.lifecycle import aside_form, rule
from headway.core.model import LADDERS, Lease
from headway.drivers.registry import DRIVERS
from headway.errors import DriverFailed
from headway.host import this_system
from headway.host.linux import LinuxClock
from headway.ports import Driver, Task

pytestmark = pytest.mark.contract

CLASS = DRIVERS["lease"]
SPEC = leases.spec_of("render", CLASS.moves, 12 << 30)


def holder(form: str) -> Lease:
    return Lease(id="L1", spec=SPEC, forms=SPEC.forms, form=form)


def task(was: str, form: str) -> Task:
    return Task(holder=holder(was), form=form, device_env={}, limit_s=5.0, run_id="L1.0", hook_id="L1.0.x")


@pytest.fixture
def driver(tmp_path: Path, http: aiohttp.ClientSession) -> Driver:
    return CLASS(this_system(tmp_path / "runs").runs, http, LinuxClock())


def test_its_table_goes_up_and_down_and_begins_no_run() -> None:
    assert tuple(form.name for form in SPEC.forms) == LADDERS["lease"]
    assert {(found.source, found.to, found.frees, found.creates) for found in CLASS.moves} == {
        ("granted", "revoked", True, False),
        ("revoked", "granted", False, True),  # nobody is let in whose row is not saved
    }
    assert rule(holder("revoked"), "revoked", "granted") is not None
    assert aside_form(holder("granted")) == "revoked"  # though it has no command that is ours


@pytest.mark.parametrize("form", LADDERS["lease"])
async def test_every_form_can_be_asked_for_twice(driver: Driver, form: str) -> None:
    for was in LADDERS["lease"]:
        assert (await driver.move(task(was, form))).upstream is None
    assert (await driver.observe(holder(form))).form is None


async def test_a_form_outside_the_table_is_refused(driver: Driver) -> None:
    with pytest.raises(DriverFailed):
        await driver.move(task("granted", "parked"))
