"""The list of jobs on a phone: why each waits stands below its name, and nothing is cut in the middle of a line."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.stack import Stack
from tests.page.visit import Visit
from tests.page.world import WAITING

pytestmark = pytest.mark.e2e

ROW_PX = 76
MANY = 30


@pytest.fixture
def crowd(world: Stack) -> Iterator[None]:
    """More jobs than a phone shows, gone again after the test."""
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    for _ in range(MANY):
        world.post("/api/v1/jobs", {"recipe": "nightly", "tags": ["crowd"]})
    yield
    for verb in ("cancel", "clear"):
        world.post(f"/api/v1/select/{verb}", {"targets": ["tag=crowd"]})


@pytest.mark.usefixtures("crowd")
def test_a_phone_says_why_each_job_waits(visit: Callable[..., Visit]) -> None:
    one = visit(is_mobile=True)
    page = one.page
    page.set_viewport_size({"width": 390, "height": 800})
    one.open_tab("jobs")
    rows = page.locator("tbody tr:not([aria-hidden])")
    why = rows.filter(has_text="nightly").first.locator("td.why")
    why.get_by_text("could come back to chat").wait_for()
    assert page.get_by_role("columnheader", name="Why").count() == 0
    heights = page.evaluate(
        "[...document.querySelectorAll('tbody tr:not([aria-hidden])')].map((r) => r.offsetHeight)"
    )
    assert set(heights) == {ROW_PX}, "the list counts on it: it shows only what is in sight"
    assert why.evaluate("(one) => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)") == 2
    page.locator(".table").evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    end = page.get_by_role("table").get_attribute("aria-rowcount")
    assert end == str(len(WAITING) + MANY + 2), "the one that runs, and the head"
    rows.last.and_(page.locator(f"[aria-rowindex='{end}']")).wait_for()
    assert one.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_phone_shows_who_holds_the_device_and_what_is_next_at_once(
    world: Stack, visit: Callable[..., Visit]
) -> None:
    for name in WAITING:
        world.post(f"/api/v1/jobs/{name}/release")
    page = visit(is_mobile=True).page
    page.set_viewport_size({"width": 390, "height": 800})
    first = page.get_by_role("region", name="Next").locator("li").first
    first.get_by_text("could come back to chat").wait_for()
    box = first.bounding_box()
    assert box is not None and box["y"] + box["height"] <= 800, "without scrolling"
    page.get_by_text("Memory over time").click()
    page.get_by_role("article", name="Device sim0").get_by_text("Nothing was measured here").or_(
        page.get_by_role("img").filter(visible=True)
    ).first.wait_for()
