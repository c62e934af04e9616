"""A form says what is wrong with what was typed, and sends nothing while that stands there."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.e2e.stack import Stack
from tests.page.visit import Visit

pytestmark = pytest.mark.e2e

HOW = 'write it like "90s", "10min" or "1h 30min"'


def test_a_duration_that_is_none_is_said_to_be_so(world: Stack, visit: Callable[..., Visit]) -> None:
    one = visit()
    one.unlock()
    one.open_tab("jobs/nightly")
    one.page.get_by_role("region", name="Details").get_by_role("button", name="Edit", exact=True).click()
    dialog = one.page.get_by_role("dialog")
    field = dialog.get_by_label("max runtime", exact=True)
    change = dialog.get_by_role("button", name="Change it")
    for typed in ("90", "1h30", "2 hours", "30min 1h", "abc", "-1s"):
        field.fill(typed)
        expect(dialog.get_by_text(HOW)).to_be_visible()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(change).to_be_disabled()
    assert one.violations() == []
    field.fill("1h 30min")
    expect(dialog.get_by_text(HOW)).to_have_count(0)
    change.click()
    dialog.wait_for(state="detached")
    assert world.job("nightly")["max_runtime_s"] == 5400.0
    one.page.get_by_role("region", name="Details").get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_label("none: max runtime", exact=True).check()
    change.click()
    dialog.wait_for(state="detached")
    assert world.job("nightly")["max_runtime_s"] is None
